//! Memory that is wired: brought in large pieces, beside one fault for each page. Table II of the paper on
//! anti-fragmentation, which has `mlock` of a guest's memory.
//!
//! ```text
//!                   frames   zeros   page tables
//!   frames alone      x
//!   fresh             x        x          x        the system fills memory with zeros
//!   of others         x                   x        another process of a shared pool has brought and freed it
//!   its own again     x                            the pool has it from an earlier call
//! ```
//!
//! Ways take turns. Of fresh memory each goes twice, and only the second time counts: a hypervisor may have taken what was free, and
//! whoever touches that first waits for it. The others have brought their memory before their time begins. Each gives its
//! memory back before the next one. Afterwards the system is asked how much of it is mapped by huge pages: that they were wanted
//! does not mean that they were there.
//!
//! Threads write no zeros in less CPU time than one. By several threads what is compared is time on the wall, and it is
//! compared with as many threads that have faults, too.

mod smaps;

use std::hint::black_box;
use std::num::NonZero;
use std::ops::Range;
use std::ptr;
use std::thread;

use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use woodlot_frame::{
    Base4K, Class, FrameAllocator, Init, Order, Owned, RangeRequest, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_pool::{Block, Options, Pool, PoolError};

use crate::Failure;
use crate::clock::Tally;

const PAGE: usize = 4096;

/// The order of 1 GiB.
const GIANT: Order = Order(18);

/// How memory is wired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Frames of an LLFree one by one, with no memory behind them.
    FramesOneByOne,
    /// The same in blocks of 1 GiB, then 2 MiB, then single frames.
    FramesLargest,
    /// Memory that is there, filled with zeros: fresh memory cannot be had for less.
    Zeros,
    /// Blocks of 4 KiB of a pool, each touched: a fault for each page.
    FreshOneByOne,
    /// `Pool::wire`, with pages of 4 KiB.
    FreshWired,
    /// `Pool::wire`, with huge pages.
    FreshWiredHuge,
    /// Blocks of 4 KiB of a pool, each touched, an equal share by each of [`threads`].
    FreshOneByOneThreads,
    /// `Pool::wire_by` [`threads`], with huge pages.
    FreshWiredHugeThreads,
    /// `mlock` of a mapping with pages of 4 KiB.
    LockedSmall,
    /// `mlock` of a mapping with huge pages.
    LockedHuge,
    /// Blocks of a pool, one by one, whose memory others have brought: a fault for each page of 4 KiB, and no zeros.
    LeftOneByOne,
    /// `Pool::wire` of such memory.
    LeftWired,
    /// Blocks one by one, where that memory is in huge pages: a fault for each of them.
    LeftHugeOneByOne,
    /// `Pool::wire` of memory in huge pages that others have brought.
    LeftWiredHuge,
    /// Blocks one by one that the pool had before: no fault.
    AgainOneByOne,
    /// `Pool::wire` of what the pool had before.
    AgainWired,
}

impl Way {
    /// Each after the one that it is compared with.
    pub const ALL: [Way; 16] = [
        Way::FramesOneByOne,
        Way::FramesLargest,
        Way::Zeros,
        Way::FreshOneByOne,
        Way::FreshWired,
        Way::FreshWiredHuge,
        Way::FreshOneByOneThreads,
        Way::FreshWiredHugeThreads,
        Way::LockedSmall,
        Way::LockedHuge,
        Way::LeftOneByOne,
        Way::LeftWired,
        Way::LeftHugeOneByOne,
        Way::LeftWiredHuge,
        Way::AgainOneByOne,
        Way::AgainWired,
    ];

    /// What it is compared with.
    pub fn beside(self) -> Way {
        match self {
            Way::FramesOneByOne | Way::FramesLargest => Way::FramesOneByOne,
            Way::Zeros
            | Way::FreshOneByOne
            | Way::FreshWired
            | Way::FreshWiredHuge
            | Way::FreshOneByOneThreads
            | Way::FreshWiredHugeThreads => Way::FreshOneByOne,
            Way::LockedSmall | Way::LockedHuge => Way::LockedSmall,
            Way::LeftOneByOne | Way::LeftWired | Way::LeftHugeOneByOne | Way::LeftWiredHuge => {
                Way::LeftOneByOne
            }
            Way::AgainOneByOne | Way::AgainWired => Way::AgainOneByOne,
        }
    }

    /// The ways that have a text in their names, and those that they are compared with.
    pub fn named(text: &str) -> Vec<Way> {
        let named = |way: Way| way.name().contains(text);
        let is_beside = |way| {
            Way::ALL.iter().any(|&other| {
                named(other) && (other.beside() == way || other.beside_threads() == Some(way))
            })
        };
        Way::ALL.into_iter().filter(|&way| named(way) || is_beside(way)).collect()
    }

    /// What has as many threads, of a way of several beside one.
    pub fn beside_threads(self) -> Option<Way> {
        (self == Way::FreshWiredHugeThreads).then_some(Way::FreshOneByOneThreads)
    }

    /// Is it by several threads, so that what counts is time on the wall?
    pub fn has_threads(self) -> bool {
        matches!(self, Way::FreshOneByOneThreads | Way::FreshWiredHugeThreads)
    }

    /// Does the system find the memory while the clock runs?
    fn is_fresh(self) -> bool {
        self.beside() == Way::FreshOneByOne && self != Way::Zeros
            || self.beside() == Way::LockedSmall
    }

    /// Are huge pages wanted?
    pub fn wants_huge(self) -> bool {
        matches!(
            self,
            Way::FreshWiredHuge
                | Way::FreshWiredHugeThreads
                | Way::LockedHuge
                | Way::LeftHugeOneByOne
                | Way::LeftWiredHuge
        )
    }

    /// What it does, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Way::FramesOneByOne => "frames alone, one by one",
            Way::FramesLargest => "frames alone, largest first",
            Way::Zeros => "zeros alone, into memory that is there",
            Way::FreshOneByOne => "fresh memory, a fault for each page",
            Way::FreshWired => "fresh memory, wired, pages of 4 KiB",
            Way::FreshWiredHuge => "fresh memory, wired, huge pages",
            Way::FreshOneByOneThreads => "fresh memory, a fault for each page, n threads",
            Way::FreshWiredHugeThreads => "fresh memory, wired, huge pages, n threads",
            Way::LockedSmall => "fresh memory, mlock, pages of 4 KiB",
            Way::LockedHuge => "fresh memory, mlock, huge pages",
            Way::LeftOneByOne => "memory of others, a fault for each page",
            Way::LeftWired => "memory of others, wired, pages of 4 KiB",
            Way::LeftHugeOneByOne => "memory of others, one by one, huge pages",
            Way::LeftWiredHuge => "memory of others, wired, huge pages",
            Way::AgainOneByOne => "its own memory again, one by one",
            Way::AgainWired => "its own memory again, wired",
        }
    }
}

/// What wiring once took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// The operations are pages of 4 KiB. CPU time is that of all threads.
    pub tally: Tally,
    /// The share of the memory that is mapped by huge pages, as the system says; `None` without memory, or where it does not say.
    pub huge: Option<f64>,
}

impl Sample {
    fn of(tally: Tally, places: impl Iterator<Item = Range<usize>>) -> Sample {
        let (mut bytes, mut huge) = (0, Some(0));
        for place in places {
            bytes += place.len();
            huge = huge.and_then(|sum| Some(sum + smaps::huge_bytes(&place)?));
        }
        Sample { tally, huge: huge.map(|huge| huge as f64 / bytes.max(1) as f64) }
    }
}

/// What a way took, a number for each repetition.
#[derive(Clone, PartialEq, Debug)]
pub struct Wired {
    /// Which way.
    pub way: Way,
    /// CPU nanoseconds for each page of 4 KiB, of all threads.
    pub cpu_ns: Vec<f64>,
    /// Milliseconds on the wall for all of it.
    pub wall_ms: Vec<f64>,
    /// The shares mapped by huge pages, where the system says.
    pub huge: Vec<f64>,
}

impl Wired {
    /// The least share mapped by huge pages.
    pub fn least_huge(&self) -> Option<f64> {
        self.huge.iter().copied().reduce(f64::min)
    }

    /// Were huge pages wanted, and not given for all of it?
    pub fn was_refused(&self) -> bool {
        self.way.wants_huge() && self.least_huge().is_some_and(|share| share < 1.0)
    }
}

/// Measures ways in turn, those of fresh memory straight after a time that does not count; also why some could not be. `step` is
/// called after each turn.
///
/// # Errors
/// When a way fails that had not at first.
pub fn measure(
    ways: &[Way],
    bytes: usize,
    repetitions: usize,
    step: &dyn Fn(),
) -> Result<(Vec<Wired>, Vec<String>), Failure> {
    let none = |&way| Wired { way, cpu_ns: Vec::new(), wall_ms: Vec::new(), huge: Vec::new() };
    let (mut found, mut missing): (Vec<Wired>, _) = (ways.iter().map(none).collect(), Vec::new());
    for repetition in 0..repetitions {
        for wired in &mut found {
            match settled(wired.way, bytes) {
                Ok(Sample { tally, huge }) => {
                    wired.cpu_ns.push(tally.cpu());
                    wired.wall_ms.push(tally.wall_ns / 1e6);
                    wired.huge.extend(huge);
                }
                Err(failure) if repetition == 0 => {
                    missing.push(format!("{}: {failure}", wired.way.name()));
                }
                Err(failure) => return Err(failure),
            }
        }
        found.retain(|wired| !wired.cpu_ns.is_empty());
        step();
    }
    Ok((found, missing))
}

/// Wires with memory that the machine has.
fn settled(way: Way, bytes: usize) -> Result<Sample, Failure> {
    if way.is_fresh() {
        sample(way, bytes)?;
    }
    sample(way, bytes)
}

/// How many threads a way of several has: one for each CPU that this process may use.
pub fn threads() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("wiring: {error}"))
}

/// Wires `bytes`, a multiple of 2 MiB, once.
///
/// # Errors
/// What the system or an allocator refuses.
pub fn sample(way: Way, bytes: usize) -> Result<Sample, Failure> {
    match way {
        Way::FramesOneByOne | Way::FramesLargest => frames(way, bytes / PAGE),
        Way::Zeros => zeros(bytes),
        Way::FreshOneByOne => one_by_one(&pool(Options::new(bytes))?, bytes),
        Way::FreshWired => wired(&pool(Options::new(bytes))?, bytes),
        Way::FreshWiredHuge => wired(&pool(Options::new(bytes).huge_pages())?, bytes),
        Way::FreshOneByOneThreads => one_by_one_threads(bytes, threads().get()),
        Way::FreshWiredHugeThreads => {
            wired_threads(&pool(Options::new(bytes).huge_pages())?, bytes)
        }
        Way::LockedSmall => locked(bytes, Advice::LinuxNoHugepage),
        Way::LockedHuge => locked(bytes, Advice::LinuxHugepage),
        Way::LeftOneByOne => left(bytes, |small| small, one_by_one),
        Way::LeftWired => left(bytes, |small| small, wired),
        Way::LeftHugeOneByOne => left(bytes, Options::huge_pages, one_by_one),
        Way::LeftWiredHuge => left(bytes, Options::huge_pages, wired),
        Way::AgainOneByOne => again(bytes, one_by_one),
        Way::AgainWired => again(bytes, wired),
    }
}

fn pool(options: Options) -> Result<Pool, Failure> {
    options.build().map_err(failed)
}

fn frames(way: Way, frames: usize) -> Result<Sample, Failure> {
    let zone = Owned::<LLFree<Base4K>>::new(&ZoneConfig::new(frames, 1), Init::Free);
    let (zone, mut tally, mut had) = (zone.map_err(failed)?, Tally::default(), 0);
    let giant = RangeRequest::new(GIANT.frames(), Class::HUGE, Slot(0)).aligned(GIANT);
    let huge = Request::new(Order::huge::<Base4K>(), Class::HUGE, Slot(0));
    let single = Request::movable(Order::BASE, Slot(0));
    tally.time(|| {
        if way == Way::FramesLargest {
            while frames - had >= GIANT.frames() && zone.alloc_range(giant).is_ok() {
                had += GIANT.frames();
            }
            while frames - had >= huge.order.frames() && zone.alloc(huge).is_ok() {
                had += huge.order.frames();
            }
        }
        while had < frames && zone.alloc(single).is_ok() {
            had += 1;
        }
        had
    });
    let sample = Sample { tally, huge: None };
    if had == frames { Ok(sample) } else { Err(failed("a zone has fewer frames than it has")) }
}

fn one_by_one(pool: &Pool, bytes: usize) -> Result<Sample, Failure> {
    let (mut tally, mut blocks) = (Tally::default(), Vec::with_capacity(bytes / PAGE));
    tally.time(|| {
        touch(pool, bytes / PAGE, &mut blocks);
        blocks.len()
    });
    touched(tally, bytes / PAGE, &blocks)
}

/// By so many threads, each as many blocks.
fn one_by_one_threads(bytes: usize, threads: usize) -> Result<Sample, Failure> {
    // A thread keeps blocks that another one would have to wait for.
    let pool = pool(Options::new(bytes + threads * (4 << 20)))?;
    let share = |thread| bytes / PAGE * (thread + 1) / threads - bytes / PAGE * thread / threads;
    let mut tally = Tally::default();
    let mut shares: Vec<(usize, Vec<Block<'_>>)> =
        (0..threads).map(share).map(|share| (share, Vec::with_capacity(share))).collect();
    tally.time_threads(|| {
        thread::scope(|scope| {
            for (share, blocks) in &mut shares {
                scope.spawn(|| touch(&pool, *share, blocks));
            }
        });
        shares.iter().map(|(_, blocks)| blocks.len()).sum()
    });
    let blocks: Vec<Block<'_>> = shares.into_iter().flat_map(|(_, blocks)| blocks).collect();
    touched(tally, bytes / PAGE, &blocks)
}

/// Takes so many blocks, and writes to each.
fn touch<'p>(pool: &'p Pool, count: usize, blocks: &mut Vec<Block<'p>>) {
    while blocks.len() < count
        && let Ok(mut block) = pool.alloc(Order::BASE)
    {
        block[0] = 1;
        blocks.push(block);
    }
}

/// What it took to touch the blocks of a pool, which are to be so many.
fn touched(tally: Tally, count: usize, blocks: &[Block<'_>]) -> Result<Sample, Failure> {
    if blocks.len() < count {
        return Err(failed("the pool is too small"));
    }
    let starts = || blocks.iter().map(|block| block.as_ptr().addr());
    // The pool has no other blocks.
    let all = starts().min().unwrap_or(0)..starts().max().map_or(0, |last| last + PAGE);
    Ok(Sample::of(tally, [all].into_iter()))
}

fn wired(pool: &Pool, bytes: usize) -> Result<Sample, Failure> {
    let (mut tally, mut wired) = (Tally::default(), None);
    tally.time(|| {
        wired = Some(pool.wire(bytes));
        bytes / PAGE
    });
    brought(tally, wired)
}

fn wired_threads(pool: &Pool, bytes: usize) -> Result<Sample, Failure> {
    let (mut tally, mut wired) = (Tally::default(), None);
    tally.time_threads(|| {
        wired = Some(pool.wire_by(bytes, threads()));
        bytes / PAGE
    });
    brought(tally, wired)
}

/// What a pool has wired.
type Brought<'p> = Option<Result<woodlot_pool::Wired<'p>, PoolError>>;

fn brought(tally: Tally, wired: Brought<'_>) -> Result<Sample, Failure> {
    let wired = wired.transpose().map_err(failed)?;
    let slices = wired.iter().flat_map(|wired| wired.slices());
    Ok(Sample::of(tally, slices.map(|run| run.as_ptr().addr()..run.as_ptr().addr() + run.len())))
}

/// How a pool is wired.
type Wire = fn(&Pool, usize) -> Result<Sample, Failure>;

/// In a pool that has had all of it before.
fn again(bytes: usize, wire: Wire) -> Result<Sample, Failure> {
    let pool = pool(Options::new(bytes))?;
    drop(pool.wire(bytes).map_err(failed)?);
    wire(&pool, bytes)
}

/// In one of two pools in a memory file, when the other one has brought the memory and freed it. They are to each other what
/// two processes are.
fn left(bytes: usize, pages: fn(Options) -> Options, wire: Wire) -> Result<Sample, Failure> {
    let file = rustix::fs::memfd_create("wiring", MemfdFlags::CLOEXEC).map_err(failed)?;
    let join = || {
        let file = file.try_clone().map_err(failed)?;
        // SAFETY: only the two pools use the file.
        pool(unsafe { pages(Options::new(bytes)).shared_descriptor(file) })
    };
    let (first, second) = (join()?, join()?);
    drop(first.wire(bytes).map_err(failed)?);
    wire(&second, bytes)
}

/// How fast this machine writes zeros.
fn zeros(bytes: usize) -> Result<Sample, Failure> {
    let pool = pool(Options::new(bytes).huge_pages())?;
    let (mut wired, mut tally) = (pool.wire(bytes).map_err(failed)?, Tally::default());
    tally.time(|| {
        wired.slices_mut().for_each(|slice| slice.fill(0));
        black_box(wired.slices_mut().count());
        bytes / PAGE
    });
    Ok(Sample { tally, huge: None })
}

/// A mapping, until it is dropped.
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    /// Of fresh memory, with 2 MiB more addresses than are asked for: the place is aligned.
    fn new(len: usize) -> Result<Mapping, Failure> {
        let (align, none) = (2 << 20, ProtFlags::empty());
        // SAFETY: the system chooses addresses that nobody has.
        let place = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len + align, none, MapFlags::PRIVATE)
        };
        let place: *mut u8 = place.map_err(failed)?.cast();
        let start = place.wrapping_add(place.addr().wrapping_neg() % align);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the place is this one's.
        let mapped = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            rustix::mm::mmap_anonymous(start.cast(), len, protection, flags)
        };
        mapped.map_err(failed)?;
        Ok(Mapping { start, len })
    }

    fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.len
    }

    fn advise(&self, advice: Advice) -> Result<(), Failure> {
        // SAFETY: the mapping is this one's, and nobody needs what is in it.
        unsafe { rustix::mm::madvise(self.start.cast(), self.len, advice) }.map_err(failed)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's.
        let unmapped = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}

fn locked(bytes: usize, advice: Advice) -> Result<Sample, Failure> {
    let (mapping, mut tally) = (Mapping::new(bytes)?, Tally::default());
    mapping.advise(advice)?;
    let mut locked = Ok(());
    tally.time(|| {
        // SAFETY: it is mapped.
        locked = unsafe { rustix::mm::mlock(mapping.start.cast(), bytes) };
        bytes / PAGE
    });
    locked.map_err(|cause| failed(format!("mlock: {cause}; RLIMIT_MEMLOCK may be too low")))?;
    Ok(Sample::of(tally, [mapping.addresses()].into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_a_number_for_each_repetition_or_are_missing() {
        let ways = [Way::FreshOneByOne, Way::FreshWiredHugeThreads, Way::AgainWired];
        let steps = std::cell::Cell::new(0);
        let (found, missing) = measure(&ways, 4 << 20, 3, &|| steps.set(steps.get() + 1)).unwrap();
        assert_eq!((found.len(), missing.len(), steps.get()), (3, 0, 3));
        for wired in found {
            assert_eq!((wired.cpu_ns.len(), wired.wall_ms.len()), (3, 3), "{:?}", wired.way);
            assert!(Way::ALL.contains(&wired.way.beside()));
        }
        // More addresses than there are.
        let (found, missing) = measure(&ways[2..], 1 << 50, 3, &|| {}).unwrap();
        assert!(found.is_empty(), "{found:?}");
        assert!(missing[0].starts_with("its own memory again, wired: wiring: "), "{missing:?}");
    }

    #[test]
    fn ways_are_chosen_with_those_beside_them() {
        let threads = [Way::FreshOneByOne, Way::FreshOneByOneThreads, Way::FreshWiredHugeThreads];
        assert_eq!(Way::named("huge pages, n threads"), threads);
        assert_eq!(Way::named("again, wired"), [Way::AgainOneByOne, Way::AgainWired]);
        assert_eq!((Way::named("").as_slice(), Way::named("nobody").len()), (&Way::ALL[..], 0));
    }

    #[test]
    fn memory_of_fresh_ways_alone_comes_while_the_clock_runs() {
        let fresh = Way::ALL.map(|way| (way.is_fresh(), way.name().starts_with("fresh memory")));
        assert!(fresh.iter().all(|(fresh, named)| fresh == named), "{fresh:?}");
    }

    #[test]
    fn each_way_wires_all_of_it() {
        for way in Way::ALL {
            // A process that is not privileged may lock little.
            if !matches!(way, Way::LockedSmall | Way::LockedHuge) {
                let Sample { tally, huge } = sample(way, 4 << 20).unwrap();
                assert_eq!(tally.operations, 1024, "{way:?}");
                assert!(huge.is_none_or(|share| share <= 1.0), "{way:?}: {huge:?}");
            }
        }
    }
}
