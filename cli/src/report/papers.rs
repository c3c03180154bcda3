//! What the papers' machines were, and those of their values that verdicts hang on: LLFree (Wrenger et
//! al., USENIX ATC 2023), NBBS (Marotta et al., poster, 2018) and the kernel memory allocator (McKenney,
//! Slingwine and Krueger, 2002); and where FreeBSD's mechanisms (Novković) were measured.

use woodlot_bench::size::Size;

/// What LLFree was measured on.
pub const LLFREE_MACHINE: &str = "2 × Intel Xeon Gold 5320 (Ice Lake, 26 cores each, 2.2 GHz, \
    hyper-threading off), 256 GiB of DRAM and 1 TiB of Optane, Linux 6.0, one NUMA node used; \
    zones of 128 GiB (LLFree, section 5.1)";

/// What NBBS was measured on.
pub const NBBS_MACHINE: &str = "4 × AMD Opteron 6128 (8 cores each, 2 GHz), 64 GiB, 32 threads, \
    against the buddy system of Linux 3.2 inside the kernel (NBBS, section III)";

/// What the kernel memory allocator was measured on.
pub const KMEM_MACHINE: &str = "Sequent Symmetry 2000, 26 × 80486 at 50 MHz, inside the kernel \
    (McKenney, Slingwine and Krueger, section 4); table 1 has later machines";

/// What FreeBSD's anti-fragmentation mechanisms were measured on.
pub const FREEBSD_MACHINE: &str = "AMD Ryzen 5 5600X, 48 GB of DDR4, inside the kernel, 30 repetitions (Novković, \
    sections IV and V); figure 6 has no numbers in words";

/// Where it was built.
pub const FREEBSD_BUILDS: &str = "table I: a bhyve machine with 6 GB, one buildkernel; figure 7: AMD Ryzen 5 5600X, 48 GB of DDR4, \
    ten builds of the kernel, sources and output in tmpfs (Novković, sections II and IV)";

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
/// LLFree, section 5.7: recovery of 128 GiB, in microseconds.
pub const RECOVERY_US: f64 = 2460.0;
/// The same after a clean shutdown.
pub const CLEAN_US: f64 = 477.0;
/// The zone of that section.
pub const SURVIVING: Size = Size::gib(128);
