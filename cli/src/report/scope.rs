//! Who is compared, at what, and with how many threads.

use woodlot_bench::engine::Engine;
use woodlot_bench::patterns::Pattern;

/// Who is in the figures by order and by cores, and who in the figure of lists besides.
pub const ENGINES: [Engine; 4] = [Engine::Llfree, Engine::Onewrite, Engine::Nbbs4, Engine::Linux];
/// The lists, which serve orders 0 and 9 only.
pub const LISTS: [Engine; 3] = [Engine::ListLocal, Engine::ListCas, Engine::ListLocked];
/// Who is in NBBS's benchmarks.
pub const BUDDIES: [Engine; 4] = [Engine::Nbbs, Engine::Nbbs4, Engine::Llfree, Engine::LinuxNoPcp];
/// Those benchmarks (Marotta et al., section III), with the order of its table I and two others.
pub const BURSTS: [Pattern; 4] = [
    Pattern::ThreadTest,
    Pattern::LinuxScalability,
    Pattern::ConstantOccupancy,
    Pattern::CachedAllocation,
];

/// 128 KiB, as in table I.
pub const BURST_ORDER: u8 = 5;
/// How many threads: powers of two up to what the machine has, that, and twice that.
pub fn thread_counts(cpus: usize) -> Vec<usize> {
    let powers = (0..).map(|power| 1 << power).take_while(|&threads| threads < cpus);
    powers.chain([cpus, 2 * cpus]).collect()
}
