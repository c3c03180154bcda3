//! Memory that is wired: brought in large pieces, beside one fault for each page. Table II of the paper on
//! anti-fragmentation, which has `mlock` of a guest's memory.
//!
//! What is measured is said by each way: frames alone, whole memory from the system (which fills it with zeros), and mappings
//! alone, of memory that a file has already. Ways take turns, and each gives its memory back before the next one. Afterwards the
//! system is asked how much of it is mapped by huge pages: that they were wanted does not mean that they were there.

mod smaps;

use std::fs::File;
use std::ops::Range;
use std::ptr;

use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use woodlot_frame::{
    Base4K, Class, FrameAllocator, Init, Order, Owned, RangeRequest, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_pool::Options;

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
    /// Blocks of 4 KiB of a pool, each touched: a fault for each page.
    FreshOneByOne,
    /// `Pool::wire`, with pages of 4 KiB.
    FreshWired,
    /// `Pool::wire`, with huge pages.
    FreshWiredHuge,
    /// `mlock` of a mapping with pages of 4 KiB.
    LockedSmall,
    /// `mlock` of a mapping with huge pages.
    LockedHuge,
    /// Pages of 4 KiB that a memory file has, each touched.
    MappedOneByOne,
    /// Huge pages that a memory file has, mapped at once.
    MappedHuge,
}

impl Way {
    /// Each after the one that it is compared with.
    pub const ALL: [Way; 9] = [
        Way::FramesOneByOne,
        Way::FramesLargest,
        Way::FreshOneByOne,
        Way::FreshWired,
        Way::FreshWiredHuge,
        Way::LockedSmall,
        Way::LockedHuge,
        Way::MappedOneByOne,
        Way::MappedHuge,
    ];

    /// What it is compared with.
    pub fn beside(self) -> Way {
        match self {
            Way::FramesOneByOne | Way::FramesLargest => Way::FramesOneByOne,
            Way::FreshOneByOne | Way::FreshWired | Way::FreshWiredHuge => Way::FreshOneByOne,
            Way::LockedSmall | Way::LockedHuge => Way::LockedSmall,
            Way::MappedOneByOne | Way::MappedHuge => Way::MappedOneByOne,
        }
    }

    /// Are huge pages wanted?
    pub fn wants_huge(self) -> bool {
        matches!(self, Way::FreshWiredHuge | Way::LockedHuge | Way::MappedHuge)
    }

    /// What it does, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Way::FramesOneByOne => "frames alone, one by one",
            Way::FramesLargest => "frames alone, largest first",
            Way::FreshOneByOne => "fresh memory, a fault for each page",
            Way::FreshWired => "fresh memory, wired, pages of 4 KiB",
            Way::FreshWiredHuge => "fresh memory, wired, huge pages",
            Way::LockedSmall => "fresh memory, mlock, pages of 4 KiB",
            Way::LockedHuge => "fresh memory, mlock, huge pages",
            Way::MappedOneByOne => "memory of a file, a fault for each page",
            Way::MappedHuge => "memory of a file, huge pages at once",
        }
    }
}

/// What wiring once took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// The operations are pages of 4 KiB.
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
    /// CPU nanoseconds for each page of 4 KiB.
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

/// Measures ways in turn, after a first time that does not count; also why some could not be. `step` is called after each turn.
///
/// # Errors
/// When a way fails that had not at first.
pub fn measure(
    ways: &[Way],
    bytes: usize,
    repetitions: usize,
    step: &dyn Fn(),
) -> Result<(Vec<Wired>, Vec<String>), Failure> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for &way in ways {
        match sample(way, bytes) {
            Ok(_) => {
                found.push(Wired { way, cpu_ns: Vec::new(), wall_ms: Vec::new(), huge: Vec::new() })
            }
            Err(failure) => missing.push(format!("{}: {failure}", way.name())),
        }
    }
    for _ in 0..repetitions {
        for wired in &mut found {
            let Sample { tally, huge } = sample(wired.way, bytes)?;
            wired.cpu_ns.push(tally.cpu());
            wired.wall_ms.push(tally.wall_ns / 1e6);
            wired.huge.extend(huge);
        }
        step();
    }
    Ok((found, missing))
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
        Way::FreshOneByOne => one_by_one(bytes),
        Way::FreshWired => wired(&Options::new(bytes), bytes),
        Way::FreshWiredHuge => wired(&Options::new(bytes).huge_pages(), bytes),
        Way::LockedSmall => locked(bytes, Advice::LinuxNoHugepage),
        Way::LockedHuge => locked(bytes, Advice::LinuxHugepage),
        Way::MappedOneByOne => mapped(bytes, Advice::LinuxNoHugepage),
        Way::MappedHuge => mapped(bytes, Advice::LinuxHugepage),
    }
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

fn one_by_one(bytes: usize) -> Result<Sample, Failure> {
    let pool = Options::new(bytes).build().map_err(failed)?;
    let (mut tally, mut blocks) = (Tally::default(), Vec::with_capacity(bytes / PAGE));
    tally.time(|| {
        while let Ok(mut block) = pool.alloc(Order::BASE) {
            block[0] = 1;
            blocks.push(block);
        }
        blocks.len()
    });
    if blocks.len() < bytes / PAGE {
        return Err(failed("the pool is too small"));
    }
    let starts = || blocks.iter().map(|block| block.as_ptr().addr());
    // All of the pool, which has no other blocks.
    let all = starts().min().unwrap_or(0)..starts().max().map_or(0, |last| last + PAGE);
    Ok(Sample::of(tally, [all].into_iter()))
}

fn wired(options: &Options, bytes: usize) -> Result<Sample, Failure> {
    let (pool, mut tally) = (options.build().map_err(failed)?, Tally::default());
    let mut wired = None;
    tally.time(|| {
        wired = Some(pool.wire(bytes));
        bytes / PAGE
    });
    let wired = wired.transpose().map_err(failed)?;
    let slices = wired.iter().flat_map(|wired| wired.slices());
    Ok(Sample::of(tally, slices.map(|run| run.as_ptr().addr()..run.as_ptr().addr() + run.len())))
}

/// A mapping, until it is dropped.
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    /// Of a file, or of fresh memory. It has 2 MiB more than is asked for, and the place is aligned.
    fn new(len: usize, file: Option<&File>) -> Result<Mapping, Failure> {
        let none = ProtFlags::empty();
        let (align, len) = (2 << 20, len);
        // SAFETY: the system chooses addresses that nobody has.
        let place = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len + align, none, MapFlags::PRIVATE)
        };
        let place: *mut u8 = place.map_err(failed)?.cast();
        let start = place.wrapping_add(place.addr().wrapping_neg() % align);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the place is this one's.
        let mapped = unsafe {
            match file {
                Some(file) => {
                    let flags = MapFlags::SHARED | MapFlags::FIXED;
                    rustix::mm::mmap(start.cast(), len, protection, flags, file, 0)
                }
                None => {
                    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
                    rustix::mm::mmap_anonymous(start.cast(), len, protection, flags)
                }
            }
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
    let (mapping, mut tally) = (Mapping::new(bytes, None)?, Tally::default());
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

fn mapped(bytes: usize, advice: Advice) -> Result<Sample, Failure> {
    let file = rustix::fs::memfd_create("wiring", MemfdFlags::CLOEXEC).map_err(failed)?;
    rustix::fs::ftruncate(&file, bytes as u64).map_err(failed)?;
    let (mapping, mut tally) = (Mapping::new(bytes, Some(&file.into()))?, Tally::default());
    mapping.advise(advice)?;
    mapping.advise(Advice::LinuxPopulateWrite)?;
    // The memory stays the file's.
    mapping.advise(Advice::LinuxDontNeed)?;
    let mut done = Ok(());
    tally.time(|| {
        if advice == Advice::LinuxHugepage {
            done = mapping.advise(Advice::LinuxPopulateWrite);
        } else {
            for page in (0..bytes).step_by(PAGE) {
                // SAFETY: it is mapped.
                unsafe { mapping.start.add(page).write_volatile(1) };
            }
        }
        bytes / PAGE
    });
    done?;
    Ok(Sample::of(tally, [mapping.addresses()].into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_wires_all_of_it() {
        for way in Way::ALL {
            // A process that is not privileged may lock little.
            if !matches!(way, Way::LockedSmall | Way::LockedHuge) {
                let Sample { tally, huge } = sample(way, 4 << 20).unwrap();
                assert_eq!(tally.operations, 1024, "{way:?}");
                // Of this one the system was told that its pages are to be small; what it gives the others is its own affair.
                let most = if way == Way::MappedOneByOne { 0.0 } else { 1.0 };
                assert!(huge.is_none_or(|share| share <= most), "{way:?}: {huge:?}");
            }
        }
    }
}
