//! `cargo xtask callgrind`: instructions for an allocation and its free.

use crate::shell::cargo;

/// Instructions of a pair, by order: of a block after another, or of half of the memory that is allocated and then freed.
pub fn callgrind(engine: &str, bulk: bool) -> Result<(), String> {
    let options = if bulk { &["--bulk"][..] } else { &[] };
    cargo([&["run", "--release", "--", "instructions", engine], options].concat(), &[])
}
