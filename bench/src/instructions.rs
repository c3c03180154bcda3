//! How many instructions a call takes: for a simulator that counts them.
//!
//! `examples/instructions.rs` does nothing but [`pairs`]. Under `valgrind --tool=callgrind` two runs
//! with different numbers of pairs differ by the instructions of the pairs between them, the loop's
//! own three or four included; everything else is in both.

use std::env::current_exe;
use std::path::{Path, PathBuf};
use std::process::Command;

use woodlot_frame::Order;

use crate::Failure;
use crate::engine::Engine;
use crate::patterns::{Pattern, Setup, prepare};
use crate::size::Size;

/// Makes a zone of 1 GiB with one slot, allocates a block and frees it, `pairs` times.
///
/// # Errors
/// What the engine cannot do.
pub fn pairs(engine: Engine, order: Order, pairs: usize) -> Result<(), Failure> {
    let setup =
        Setup { memory: Size::gib(1), operations: pairs, ..Setup::new(Pattern::Repeat, order) };
    prepare(engine, &setup)?.sample().map(drop)
}

/// The two numbers of pairs whose difference is taken.
const PAIRS: [u64; 2] = [1_000, 11_000];

/// Counts the instructions of a pair with callgrind and the example program.
///
/// # Errors
/// When there is no such program beside this one, or no valgrind.
pub fn count(engine: Engine, order: Order) -> Result<f64, Failure> {
    let program = program().ok_or_else(|| {
        Failure::Failed(
            "not counted: build it with cargo build --release -p woodlot-bench --example \
             instructions"
                .into(),
        )
    })?;
    let [few, many] = PAIRS.map(|pairs| callgrind(&program, engine, order, pairs));
    Ok((many? - few?) as f64 / (PAIRS[1] - PAIRS[0]) as f64)
}

/// The example program, in the folder where cargo puts it beside this one.
fn program() -> Option<PathBuf> {
    let own = current_exe().ok()?;
    let folders = own.ancestors().skip(1).take(2);
    let mut programs = folders.map(|folder| folder.join("examples").join("instructions"));
    programs.find(|program| program.is_file())
}

fn callgrind(program: &Path, engine: Engine, order: Order, pairs: u64) -> Result<u64, Failure> {
    let failed = |cause: &str| Failure::Failed(format!("not counted: {cause}"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([engine.name(), &order.0.to_string(), &pairs.to_string()])
        .output()
        .map_err(|error| failed(&format!("valgrind: {error}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = collected(&text).filter(|_| output.status.success());
    // The program's own words, among those of valgrind.
    let mut own = text.lines().filter_map(|line| line.strip_prefix("instructions: "));
    counted.ok_or_else(|| failed(own.next().unwrap_or(&text)))
}

/// The number in callgrind's line `==123== Collected : 4567`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    line?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_prints() {
        let text = "==7== Events    : Ir\n==7== Collected : 27465711\n==7==\n";
        assert_eq!(collected(text), Some(27_465_711));
        assert_eq!(collected("valgrind: no such file"), None);
    }

    #[test]
    fn pairs_of_an_order_that_there_is_not_are_refused() {
        assert!(pairs(Engine::Llfree, Order(3), 10).is_ok());
        assert!(pairs(Engine::Llfree, Order(11), 10).is_err());
        assert!(pairs(Engine::ListCas, Order(3), 10).is_err());
    }
}
