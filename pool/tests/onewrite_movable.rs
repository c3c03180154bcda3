//! The tests of `movable.rs`, of pools of the one-write engine.
#![cfg(target_os = "linux")]

#[path = "movable.rs"]
mod movable;
