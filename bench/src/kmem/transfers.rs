//! *transfers*: cache lines that go from CPU to CPU for each pair, counted.
//!
//! ```text
//!   one range of pages   │ Kmem: caches of CPUs, global layers │ descriptors │ metadata of the zone │ its frames │
//!                          every access is seen, with its line, and whether it wrote
//!   who has a line       nobody ─► the CPUs that have read it ─► the one that has written to it
//! ```
//!
//! One thread plays the CPUs, one after another, and every access that a call makes to the allocator's memory and to the
//! blocks is seen. A line moves when a CPU reads it and another one has written to it since, or writes to it and others
//! have it: what a machine with coherent caches of any size does, whatever the order in which CPUs run. So the count
//! needs no machine with so many CPUs, and has no noise. It is the number of the paper's "cache-thrashing" (section 4.2).
//!
//! * *pairs*: each CPU allocates a block and frees it.
//! * *handed over*: every other CPU allocates a block, which the next one frees: the global layer is for that (section
//!   3.3.2).
//!
//! Rounds before the count begins fill the caches. `operations` rounds are counted: a list of blocks changes hands every
//! 64 of them.

use std::collections::HashMap;
use std::ptr::NonNull;

use serde::{Deserialize, Serialize};
use woodlot_frame::{Base4K, Construct, Geometry, Init, ZoneConfig};
use woodlot_kmem::{Descriptor, Direct, Guarded, Kmem, PAGE, Quarters};

use super::case::{Setup, no_memory};
use super::frames::{MOST_CPUS, Threads, Zone};
use crate::Failure;
use crate::dispersion::watch::{WRITTEN, watch};

/// How many CPUs there are.
const CPUS: [usize; 5] = [1, 2, 4, 16, MOST_CPUS];
/// Of these, those that hand blocks over: not one, and not so many that this takes long.
const HAND_OVER: std::ops::RangeInclusive<usize> = 2..=16;
/// Frames of the zone.
const FRAMES: usize = 1 << 10;
/// Bytes of a block.
const BYTES: usize = 256;
/// Rounds in which each CPU makes a pair and nobody looks.
const WARM: usize = 130;
/// Rounds after which every line is known to be where it is.
const SETTLE: usize = 2;

/// Lines that moved, for each pair of an allocation and a free.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TransferRow {
    /// How many CPUs.
    pub cpus: usize,
    /// Does every other CPU allocate what the next one frees?
    pub handed_over: bool,
    /// Pairs that were counted.
    pub pairs: usize,
    /// Lines that a pair touches.
    pub touched: f64,
    /// Lines that moved for a pair.
    pub moved: f64,
}

type Heap = Kmem<Guarded<Threads, MOST_CPUS>, Direct<'static, Zone>, Quarters>;

/// The heap and everything that it uses, in one range of pages that stays.
struct Range {
    start: *mut u8,
    length: usize,
    heap: &'static Heap,
}

impl Range {
    fn new() -> Result<Range, Failure> {
        let failed = |what: &dyn std::fmt::Display| Failure::Failed(format!("transfers: {what}"));
        let config = ZoneConfig::new(FRAMES, MOST_CPUS);
        let size = Zone::metadata_size(&config).map_err(|why| failed(&why))?;
        let huge = PAGE << Base4K::HUGE_ORDER;
        let parts =
            [size_of::<Heap>(), FRAMES * size_of::<Descriptor>(), size.durable, size.volatile]
                .map(|bytes| bytes.next_multiple_of(PAGE));
        let length = (FRAMES * PAGE + parts.iter().sum::<usize>()).next_multiple_of(PAGE);
        let layout =
            std::alloc::Layout::from_size_align(length, huge).map_err(|why| failed(&why))?;
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let frames = NonNull::new(start).ok_or_else(|| failed(&"no memory"))?;
        let mut next = FRAMES * PAGE;
        let [heap, descriptors, durable, volatile] = parts.map(|bytes| {
            next += bytes;
            // SAFETY: the parts lie in the range, one behind the other.
            unsafe { start.add(next - bytes) }
        });
        let raw = woodlot_frame::RawMetadata {
            durable: (durable, size.durable),
            volatile: (volatile, size.volatile),
        };
        // SAFETY: the memory is zeroed, as long as was asked for, stays, and is this zone's only.
        let zone = unsafe { Zone::construct(&config, raw, Init::Free) };
        let zone: &'static Zone = Box::leak(Box::new(zone.map_err(|why| failed(&why))?));
        // SAFETY: zeroed memory for so many descriptors, which is aligned to a page and stays.
        let descriptors = unsafe { std::slice::from_raw_parts(descriptors.cast(), FRAMES) };
        // SAFETY: the frames are mapped there, and nobody else has them.
        let pages = unsafe { Direct::new(zone, frames, descriptors) };
        let pages = pages.ok_or_else(|| failed(&"its frames are not pages"))?;
        let heap = heap.cast::<Heap>();
        // SAFETY: the memory has room for a heap, is aligned to a page, and stays.
        let heap = unsafe {
            heap.write(Kmem::new(Guarded::new(Threads), pages, ()));
            &*heap
        };
        Ok(Range { start, length, heap })
    }

    /// What was done to each line by the work.
    fn seen(&self, work: &mut dyn FnMut()) -> Result<Vec<(usize, bool)>, Failure> {
        // SAFETY: the range is whole pages, which the heap and its blocks alone lie on; one thread uses them.
        let seen = unsafe { watch(self.start, self.length, work) }?;
        let touched = seen.iter().enumerate().filter(|&(_, &done)| done != 0);
        Ok(touched.map(|(line, &done)| (line, done & WRITTEN != 0)).collect())
    }
}

/// Who has each line: the CPUs, as bits, and whether the only one has written to it.
#[derive(Default)]
struct Lines {
    holders: HashMap<usize, u64>,
    moved: usize,
    touched: usize,
}

impl Lines {
    /// A CPU has touched a line.
    fn touch(&mut self, cpu: usize, line: usize, written: bool) {
        let (holders, me) = (self.holders.entry(line).or_default(), 1 << cpu);
        let others = *holders & !me != 0;
        // A line that nobody has comes from memory. One that others have comes from them, unless it is here, too; a write
        // takes it from them in any case.
        self.moved += usize::from(others && (written || *holders & me == 0));
        self.touched += 1;
        *holders = if written { me } else { *holders | me };
    }
}

/// What two calls did to lines.
type Accesses = [Vec<(usize, bool)>; 2];

impl Range {
    /// A CPU allocates a block, and a CPU frees it. Nothing is seen unless it is watched.
    fn pair(&self, [cpu, other]: [usize; 2], is_watched: bool) -> Result<Accesses, Failure> {
        let seen = |work: &mut dyn FnMut()| match is_watched {
            true => self.seen(work),
            false => {
                work();
                Ok(Vec::new())
            }
        };
        let mut block = None;
        Threads::enter(cpu);
        let allocated = seen(&mut || {
            block = self.heap.alloc(BYTES);
            if let Some(block) = block {
                // SAFETY: the block was just allocated.
                unsafe { block.write(1) };
            }
        })?;
        let block = block.ok_or_else(|| no_memory("transfers", BYTES))?;
        Threads::enter(other);
        // SAFETY: the block was allocated for so many bytes, and is used no more.
        let freed = seen(&mut || unsafe { self.heap.free(block, BYTES) })?;
        Ok([allocated, freed])
    }
}

/// Rounds on so many CPUs.
fn count(cpus: usize, handed_over: bool, rounds: usize) -> Result<TransferRow, Failure> {
    let (range, mut lines) = (Range::new()?, Lines::default());
    let step = if handed_over { 2 } else { 1 };
    for round in 0..WARM + SETTLE + rounds {
        if round == WARM + SETTLE {
            (lines.moved, lines.touched) = (0, 0);
        }
        for cpu in (0..cpus).step_by(step) {
            let both = [cpu, cpu + step - 1];
            let accesses = range.pair(both, round >= WARM)?;
            for (cpu, accesses) in both.into_iter().zip(accesses) {
                accesses.into_iter().for_each(|(line, written)| lines.touch(cpu, line, written));
            }
        }
    }
    let pairs = rounds * cpus / step;
    let each = |count: usize| count as f64 / pairs as f64;
    let (touched, moved) = (each(lines.touched), each(lines.moved));
    Ok(TransferRow { cpus, handed_over, pairs, touched, moved })
}

/// A row for each number of CPUs, and for each way.
///
/// # Errors
/// Accesses cannot be seen here, or there was no memory.
pub fn transfers(setup: &Setup) -> Result<Vec<TransferRow>, Failure> {
    let pairs = CPUS.map(|cpus| (cpus, false));
    let handed_over = CPUS.into_iter().filter(|cpus| HAND_OVER.contains(cpus));
    let all = pairs.into_iter().chain(handed_over.map(|cpus| (cpus, true)));
    all.map(|(cpus, handed_over)| count(cpus, handed_over, setup.operations)).collect()
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_moves_when_another_cpu_wrote_it_or_has_it() {
        let mut lines = Lines::default();
        let moves = [
            (0, false, false),
            (1, false, true),
            (1, false, false),
            (1, true, true),
            (1, true, false),
            (0, false, true),
            (1, true, true),
        ];
        for (step, (cpu, written, moves)) in moves.into_iter().enumerate() {
            let before = lines.moved;
            lines.touch(cpu, 7, written);
            assert_eq!(lines.moved > before, moves, "step {step}");
        }
    }

    #[test]
    fn no_line_moves_for_pairs_and_some_do_for_blocks_that_are_handed_over() {
        let pairs = count(2, false, 20).unwrap();
        assert_eq!(pairs.moved, 0.0, "{pairs:?}");
        assert!(pairs.touched >= 3.0, "{pairs:?}");
        // The block's line comes back when a list does, and lists go through the global layer.
        let handed = count(2, true, 128).unwrap();
        assert!(handed.moved > 1.0, "{handed:?}");
    }
}
