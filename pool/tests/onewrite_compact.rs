//! The tests of `compact.rs`, of pools of the one-write engine.
#![cfg(target_os = "linux")]

#[path = "compact.rs"]
mod compact;
