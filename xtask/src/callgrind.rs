//! `cargo xtask callgrind`: instructions for an allocation and its free.

use std::process::Command;

use crate::shell::{cargo, root};

/// Instructions of a repeat pair, by order: the difference of two runs that differ in length.
pub fn callgrind(engine: &str) -> Result<(), String> {
    const SHORT: u64 = 1_000;
    const LONG: u64 = 11_000;
    cargo(["build", "--release", "-p", "woodlot-bench", "--example", "instructions"], &[])?;
    let collected = |order: u8, pairs: u64| -> Result<u64, String> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(root().join("target/release/examples/instructions"));
        valgrind.args([engine, &order.to_string(), &pairs.to_string()]);
        let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let count = said.lines().find_map(|line| line.split("Collected : ").nth(1)?.parse().ok());
        count.filter(|_| output.status.success()).ok_or_else(|| format!("valgrind said: {said}"))
    };
    println!("instructions for one allocation and its free, {engine}");
    for order in 0..=10 {
        let pairs = collected(order, LONG)? - collected(order, SHORT)?;
        println!("order {order:2}: {:.1}", pairs as f64 / (LONG - SHORT) as f64);
    }
    Ok(())
}
