//! Figures that follow from what was measured: what the claims are judged by, and what stands beside the paper's values.

use woodlot_bench::kmem::{Interface, Line, Load, LockRow, Metric, PurityRow, WasteRow};
use woodlot_bench::statistics::Summary;

use super::Heaps;
use super::suite::PAIR_BYTES;

/// The heap of the paper.
pub const KMEM: &str = "kmem";

/// What share of one is another, in percent.
pub fn percent_of(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Pairs of all threads together, in millions for each second on the wall.
pub fn rate(line: &Line) -> Option<Summary> {
    let millions = |ns: &f64| 1e3 * line.case.threads as f64 / ns;
    Summary::of(&line.wall.iter().filter(|&&ns| ns > 0.0).map(millions).collect::<Vec<f64>>())
}

impl Heaps {
    fn pair_line(&self, interface: Interface, threads: usize) -> Option<&Line> {
        self.pairs.lines.iter().find(|line| {
            line.contender == KMEM
                && (line.case.interface, line.case.threads) == (Some(interface), threads)
        })
    }

    /// The median CPU time of a pair of the paper's heap.
    pub fn pair(&self, interface: Interface, threads: usize) -> Option<f64> {
        Some(Summary::of(&self.pair_line(interface, threads)?.values)?.median)
    }

    /// Its pairs on so many threads, in millions for each second.
    pub fn pairs_of(&self, interface: Interface, threads: usize) -> Option<f64> {
        Some(rate(self.pair_line(interface, threads)?)?.median)
    }

    /// The worst case of the paper's heap.
    pub fn worst_of(&self, metric: Metric, bytes: usize) -> Option<f64> {
        let is = |line: &&Line| {
            (&*line.contender, line.metric, line.case.bytes) == (KMEM, metric, Some(bytes))
        };
        Some(Summary::of(&self.worst.lines.iter().find(is)?.values)?.median)
    }

    /// The most that it took over what was in use, of all sizes.
    pub fn worst_peak(&self) -> Option<f64> {
        let of = |line: &&Line| (&*line.contender, line.metric) == (KMEM, Metric::Peak);
        let peaks = self.worst.lines.iter().filter(of).flat_map(|line| line.values.iter().copied());
        peaks.reduce(f64::max)
    }

    /// Instructions of a pair, the loop's own not included.
    pub fn instructions(&self, interface: Interface) -> Option<f64> {
        let mut counts = self.counts.iter();
        let is = |count: &&woodlot_bench::kmem::Count| {
            (&*count.contender, count.bytes, count.interface) == (KMEM, PAIR_BYTES, interface)
        };
        counts.find(is)?.instructions
    }

    /// The most lines that moved for a pair, and on how many CPUs at most.
    pub fn moved(&self) -> Option<(f64, usize)> {
        let pairs: Vec<_> = self.transfers.iter().filter(|row| !row.handed_over).collect();
        let most = pairs.iter().map(|row| row.moved).reduce(f64::max)?;
        Some((most, pairs.iter().map(|row| row.cpus).max()?))
    }

    /// The waste at a load, in percent of the memory in slabs; powers of two, or four sizes an octave.
    pub fn waste_percent(&self, which: usize, load: Load) -> Option<f64> {
        let rows = || self.waste.get(which).into_iter().flatten().filter(|row| row.load == load);
        rows().next()?;
        let sum = |of: fn(&WasteRow) -> usize| rows().map(of).sum::<usize>() as f64;
        let (slabs, blocks) = (sum(|row| row.slabs), sum(|row| row.blocks));
        Some(100.0 * (slabs - blocks).max(0.0) / slabs.max(1.0))
    }

    /// The largest difference between a computation and what was counted in the caches of CPUs, with one pool.
    pub fn purity_apart(&self, computed: fn(&PurityRow) -> [f64; 2]) -> Option<f64> {
        let rows = self.purity.iter().filter(|row| !row.pools);
        rows.filter_map(|row| Some((computed(row)[0] - row.caches?).abs())).reduce(f64::max)
    }

    /// The row with a pool for each node.
    pub fn pools(&self) -> Option<&PurityRow> {
        self.purity.iter().find(|row| row.pools)
    }
}

/// Miss rates of a size, in percent, of allocations and of frees.
pub struct Misses {
    /// From the caches of CPUs to the global layer.
    pub first: [f64; 2],
    /// From there to the pages.
    pub second: [f64; 2],
    /// Both together.
    pub both: [f64; 2],
}

/// The miss rates of a row. Lists that come of a flush go on to the pages as others do.
pub fn misses(row: &LockRow) -> Misses {
    let lists = [row.global[0], row.global[1] + row.flushed];
    let of = |part: [u64; 2], whole: [u64; 2]| [0, 1].map(|way| percent_of(part[way], whole[way]));
    Misses {
        first: of(row.global, row.calls),
        second: of(row.pages, lists),
        both: of(row.pages, row.calls),
    }
}

/// The least and the most of some rates.
pub fn from_to(rates: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let rates: Vec<f64> = rates.collect();
    let summary = Summary::of(&rates)?;
    Some((summary.min, summary.max))
}
