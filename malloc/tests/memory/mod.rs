//! How much memory the process has.

use std::fs::read_to_string;

/// Bytes of the process without a file behind them that have memory.
///
/// The system counts them in its page tables. `/proc/self/statm` is quicker, but each CPU adds what it counted to that sum
/// only once in a while, and pages of the program's file are in it: more than a first block needs.
pub fn resident() -> usize {
    let said = read_to_string("/proc/self/smaps_rollup").expect("it is Linux");
    let line = said.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
    kib << 10
}
