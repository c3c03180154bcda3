//! The tests of `magazines.rs`, of pools of the one-write engine.
#![cfg(target_os = "linux")]

#[path = "magazines.rs"]
mod magazines;
