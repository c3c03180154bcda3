//! A trace in memory.

use std::fmt;

use crate::limits::{MAX_FRAMES, MAX_ORDER};

/// The number that Linux gave a base frame. What an allocator of ours hands out in its place is a
/// `FrameId`; the two are different types because a replay maps one to the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pfn(pub u32);

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// How Linux groups allocations by what can be done with them later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Migrate {
    /// Stays where it is: kernel objects, page tables, buffers.
    Unmovable = 0,
    /// Can be moved: user memory, page cache.
    Movable = 1,
    /// Can be dropped and made again: inode and dentry caches.
    Reclaimable = 2,
}

impl Migrate {
    /// Linux's number of a migrate type that is ever asked for.
    pub fn from_number(number: u8) -> Option<Migrate> {
        [Migrate::Unmovable, Migrate::Movable, Migrate::Reclaimable].get(number as usize).copied()
    }
}

/// Which of Linux's paths handed the frames out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Source {
    /// `mm_page_alloc`: the ordinary one.
    Page = 0,
    /// `bulk_alloc`: many order-0 frames for vmalloc.
    Bulk = 1,
    /// `cmpct_alloc`: the target of a migration.
    CompactionTarget = 2,
    /// `cmpct_release`: a block that compaction isolated and did not use, about to be freed.
    CompactionRelease = 3,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// Frames were asked for.
    Alloc {
        /// The first frame; `None` where Linux had none to give.
        pfn: Option<Pfn>,
        /// 2^order frames.
        order: u8,
        /// What for.
        migrate: Migrate,
        /// By which path.
        source: Source,
    },
    /// Frames were freed: a whole allocation, a part of one, or parts of several.
    Free {
        /// The first frame.
        pfn: Pfn,
        /// 2^order frames.
        order: u8,
    },
    /// Somebody wrote into the trace; the number is an index into [`Trace::markers`].
    Marker(u32),
}

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Microseconds since the kernel's clock began. Not always rising: order is that of the list.
    pub time_us: u64,
    /// The CPU that it happened on.
    pub cpu: u16,
    /// What happened.
    pub kind: EventKind,
}

/// Some frames in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first one.
    pub start: Pfn,
    /// How many.
    pub frames: u32,
}

impl Span {
    /// A span, if it is not empty and lies inside the numbers that a trace may use.
    pub fn checked(start: u64, frames: u64) -> Option<Span> {
        let end = start.checked_add(frames)?;
        (frames > 0 && end <= u64::from(MAX_FRAMES))
            .then_some(Span { start: Pfn(start as u32), frames: frames as u32 })
    }

    /// The block of `order` at `pfn`, if it is aligned and in range.
    pub fn block(pfn: u64, order: u8) -> Option<Span> {
        if order > MAX_ORDER || pfn & ((1 << order) - 1) != 0 {
            return None;
        }
        Span::checked(pfn, 1 << order)
    }

    /// The numbers of its frames.
    pub fn range(self) -> std::ops::Range<u32> {
        self.start.0..self.end()
    }

    /// The number after its last frame.
    pub fn end(self) -> u32 {
        self.start.0 + self.frames
    }
}

/// What frames that are owned at the start are used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StartUse {
    /// Taken before the allocator existed, or no memory at all: kernel image, holes, devices.
    Boot,
    /// Allocated before this trace begins.
    Allocated(Migrate),
}

/// Frames that are owned when the trace begins; as long as they can be with one use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartSpan {
    /// Which.
    pub span: Span,
    /// What for.
    pub usage: StartUse,
}

/// One of Linux's zones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// Linux's name of it.
    pub name: String,
    /// Its frames, holes included.
    pub span: Span,
}

/// One row of Linux's own curve of free huge frames. Pages in Linux's per-CPU lists count as free.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CurveRow {
    /// The row describes the moment after this many events of the trace.
    pub after: u32,
    /// When, in microseconds.
    pub time_us: u64,
    /// `every20000` for a row of the regular grid, otherwise the marker or snapshot it stands for.
    pub label: String,
    /// Huge frames (2 MiB) that Linux had wholly free.
    pub free_huge: u32,
    /// Base frames that Linux had free.
    pub free_frames: u32,
}

impl CurveRow {
    /// Is this a row of the regular grid, which means are taken over? The others stand wherever
    /// something was marked, several in a row sometimes.
    pub fn is_regular(&self) -> bool {
        self.label.starts_with("every")
    }

    /// The share of the free memory that lies in free huge frames.
    pub fn ratio(&self) -> f64 {
        crate::free_huge_ratio(self.free_huge as usize, self.free_frames as usize)
    }
}

/// A trace, with everything that a replay needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// What it is called: the file's name up to `.trace`.
    pub name: String,
    /// The zones that Linux had, rising and without gaps from frame zero.
    pub zones: Vec<Zone>,
    /// Who owns what when it begins, rising.
    pub start: Vec<StartSpan>,
    /// Frames that the events wrongly make free: owned throughout, their frees are to be ignored.
    pub hidden: Vec<Span>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The texts of markers.
    pub markers: Vec<String>,
    /// Linux's own curve; empty where none was recorded.
    pub curve: Vec<CurveRow>,
}

impl Trace {
    /// How many frames there are: one more than the largest number in any zone.
    pub fn frames(&self) -> usize {
        self.zones.iter().map(|zone| zone.span.end() as usize).max().unwrap_or(0)
    }

    /// The CPUs that events happened on, rising.
    pub fn cpus(&self) -> Vec<u16> {
        let mut seen = std::collections::BTreeSet::new();
        seen.extend(self.events.iter().map(|event| event.cpu));
        seen.into_iter().collect()
    }
}
