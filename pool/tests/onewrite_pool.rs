//! The tests of `pool.rs`, of pools of the one-write engine.
#![cfg(target_os = "linux")]

#[path = "pool.rs"]
mod pool;
