//! The tests of `wired.rs`, of pools of the one-write engine.
#![cfg(target_os = "linux")]

#[path = "wired.rs"]
mod wired;
