//! What a pool promises, of pools of the one-write engine.
#![cfg(target_os = "linux")]
// Each of them is a test program of its own, of pools of the default engine.
#![allow(clippy::duplicate_mod)]

#[path = "compact.rs"]
mod compact;
#[path = "magazines.rs"]
mod magazines;
#[path = "movable.rs"]
mod movable;
#[path = "pool.rs"]
mod pool;
#[path = "wired.rs"]
mod wired;
