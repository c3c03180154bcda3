//! What the papers give in words and tables: LLFree (Wrenger et al., USENIX ATC 2023) and NBBS
//! (Marotta et al., poster, 2018). What is only to be read off a plot is left out.

/// A value that a paper gives.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Of what.
    pub what: &'static str,
    /// The value.
    pub value: &'static str,
    /// Where it says so.
    pub source: &'static str,
}

const fn given(what: &'static str, value: &'static str, source: &'static str) -> Given {
    Given { what, value, source }
}

/// What LLFree was measured on.
pub const LLFREE_MACHINE: &str = "2 × Intel Xeon Gold 5320 (Ice Lake, 26 cores each, 2.2 GHz, \
    hyper-threading off), 256 GiB of DRAM and 1 TiB of Optane, Linux 6.0, one NUMA node used; \
    zones of 128 GiB (LLFree, section 5.1)";

/// What NBBS was measured on.
pub const NBBS_MACHINE: &str = "4 × AMD Opteron 6128 (8 cores each, 2 GHz), 64 GiB, 32 threads, \
    against the buddy system of Linux 3.2 inside the kernel (NBBS, section III)";

/// LLFree, section 5.6: the share of the polluted huge frames that came back, in percent.
pub const RECOVERED_PERCENT: f64 = 46.6;
/// The compaction cost after 10 and after 50 iterations, in percent of that at first.
pub const COST_PERCENT: [(usize, f64); 2] = [(10, 39.1), (50, 4.9)];
/// By how much Linux's compaction cost fell, in percent.
pub const LINUX_COST_FELL_PERCENT: f64 = 3.3;
/// LLFree, table 1: lines of a full scan of 128 GiB.
pub const LLFREE_LINES: f64 = 67_754.0;
/// The same for Linux.
pub const LINUX_LINES: f64 = 33_555_169.0;
/// Figure 5.
pub const ORDERS: &[Given] = &[
    given(
        "bulk and repeat, one operation, every order",
        "less than 100 ns",
        "LLFree, section 5.2, figure 5",
    ),
    given("random, one free, every order", "up to 120 ns", "LLFree, section 5.2, figure 5"),
    given("the most expensive order", "8 (1 MiB)", "LLFree, section 5.2, figure 5"),
];

/// Figures 6 and 8.
pub const KERNEL: &[Given] = &[
    given(
        "repeat, order 0, in the kernel, 8 cores: Linux's buddy and LLFree",
        "112 ns and 183 ns",
        "LLFree, section 5.2, figure 6",
    ),
    given(
        "bulk and random: the buddy takes, times LLFree's",
        "about 10 ×",
        "LLFree, section 5.2, figure 6",
    ),
    given(
        "repeat, orders without lists for each CPU: the buddy takes",
        "about 100 ×",
        "LLFree, section 5.2, figure 6",
    ),
    given(
        "26 cores, 4 KiB, bulk allocations and random frees: Linux takes",
        "7.3 × and 13.5 ×",
        "LLFree, section 5.3, figure 8",
    ),
    given("26 cores, 2 MiB, the same", "52.5 × and 9.6 ×", "LLFree, section 5.3, figure 8"),
    given(
        "26 cores, 4 KiB, repeat: LLFree is slower than Linux by",
        "up to 65.18 %",
        "LLFree, section 5.3, figure 8",
    ),
];

/// Figure 7.
pub const CORES: &[Given] = &[
    given("bulk and repeat, 1 to 26 cores", "almost constant", "LLFree, section 5.3, figure 7"),
    given(
        "26 cores, an allocation or free of either order, DRAM",
        "less than 170 ns",
        "LLFree, section 5.3, figure 7",
    ),
];

/// Figure 9.
pub const LISTED: &[Given] = &[
    given(
        "random, 26 cores: ListCAS is faster than ListLocked by",
        "81 %",
        "LLFree, section 5.4, figure 9",
    ),
    given(
        "bulk, 26 cores: ListLocal takes, more than LLFree",
        "36 %",
        "LLFree, section 5.4, figure 9",
    ),
    given("LLFree is faster than ListLocal", "from 16 cores on", "LLFree, section 5.4, figure 9"),
];

/// NBBS, table I.
pub const BURSTS: &[Given] = &[
    given(
        "thread-test, 128 KiB, 32 threads: Linux's buddy and NBBS, cycles",
        "225 × 10⁷ and 64 × 10⁷ (a gain of 71 %)",
        "NBBS, table I",
    ),
    given(
        "Linux-scalability, the same",
        "2173 × 10⁷ and 343 × 10⁷ (a gain of 84 %)",
        "NBBS, table I",
    ),
];

/// Figure 10.
pub const FRAGMENTED: &[Given] = &[
    given(
        "huge frames that LLFree recovers in 100 iterations, of those polluted",
        "46.6 %",
        "LLFree, section 5.6, figure 10",
    ),
    given("huge frames that Linux recovers", "1", "LLFree, section 5.6, figure 10"),
    given(
        "LLFree's compaction cost after 10 and 50 iterations, of that at first",
        "39.1 % and 4.9 %",
        "LLFree, section 5.6",
    ),
    given("Linux's compaction cost falls by", "3.3 %", "LLFree, section 5.6"),
    given("the zone", "125 GiB, 90 % allocated, half of it freed", "LLFree, section 5.6"),
];

/// Table 1.
pub const DISPERSED: &[Given] = &[
    given(
        "LLFree, 128 GiB and 52 CPUs: bytes, lines of a full scan",
        "4.1 MiB, 67 754",
        "LLFree, table 1",
    ),
    given(
        "  bit fields, 2 MiB counters, 64 MiB trees, global",
        "65 536 + 2 048 + 168 + 2 lines",
        "LLFree, table 1",
    ),
    given("Linux: bytes, lines of a full scan", "516 MiB, 33 555 169", "LLFree, table 1"),
    given("Linux's state beside LLFree's: bytes, lines", "125 ×, 495 ×", "LLFree, section 5.5"),
];

/// Recovery.
pub const STARTED: &[Given] = &[
    given("recovery of 128 GiB after a crash", "2460 µs", "LLFree, section 5.7"),
    given("initialisation of 128 GiB again", "477 µs", "LLFree, section 5.7"),
];
