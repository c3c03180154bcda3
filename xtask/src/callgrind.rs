//! `cargo xtask callgrind`: instructions for an allocation and its free.

use crate::shell::cargo;

/// Instructions of a repeat pair, by order.
pub fn callgrind(engine: &str) -> Result<(), String> {
    cargo(["run", "--release", "--", "instructions", engine], &[])
}
