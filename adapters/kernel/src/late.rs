//! The frames of a zone that is there later than the heap, which is a static.
//!
//! ```text
//!   NEW ── start ──▶ STARTING ──▶ STARTED            descriptors: frames of the zone itself
//!    ▲───── there is no memory ──────┘
//! ```
//!
//! 1. `inside` is written by the call that made the state STARTING, and by nobody when the state is STARTED.
//! 2. It is read only when the state is STARTED.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU8, Ordering};
use woodlot_frame::{Class, FrameAllocator, FrameId, Geometry, RangeRequest, Slot};
use woodlot_kmem::{Descriptor, Direct, NoPages, PAGE, PageId, Pages};

/// The pages of a [`Heap`](crate::Heap): none, until it is started.
pub struct Late<'a, A> {
    state: AtomicU8,
    inside: UnsafeCell<Option<Inside<'a, A>>>,
}

struct Inside<'a, A> {
    direct: Direct<'a, A>,
    /// The frames of the descriptors.
    descriptors: Range<FrameId>,
}

const NEW: u8 = 0;
const STARTING: u8 = 1;
const STARTED: u8 = 2;

// SAFETY: what is inside is written by one call, before the state says that it may be read, and may be shared.
unsafe impl<A: FrameAllocator> Sync for Late<'_, A> {}
// SAFETY: as above.
unsafe impl<A: FrameAllocator> Send for Late<'_, A> {}

/// Why a heap has not been started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotStarted {
    /// It has been, and keeps the zone that it has.
    Already,
    /// The zone's frames are not of 4 KiB, or more than 2^32 - 2.
    Frames,
    /// Frame 0 of the zone would lie at the null pointer.
    Null,
    /// The zone has no run of frames that has room for a descriptor of 16 bytes for each frame.
    NoMemory,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotStarted::Already => {
                "the heap has been started before, and keeps the zone that it has"
            }
            NotStarted::Frames => "the zone's frames are not of 4 KiB, or are too many",
            NotStarted::Null => "the zone's first frame would lie at the null pointer",
            NotStarted::NoMemory => "the zone has no memory for the page descriptors",
        })
    }
}

impl core::error::Error for NotStarted {}

impl<'a, A: FrameAllocator> Late<'a, A> {
    /// No pages.
    pub(crate) const fn new() -> Self {
        Late { state: AtomicU8::new(NEW), inside: UnsafeCell::new(None) }
    }

    /// The frame allocator, once there is one.
    pub fn zone(&self) -> Option<&'a A> {
        self.get().map(|inside| inside.direct.zone())
    }

    /// Has the frames of a zone from now on.
    ///
    /// # Safety
    /// As for [`Heap::start`](crate::Heap::start).
    pub(crate) unsafe fn start(&self, zone: &'a A, base: *mut u8) -> Result<(), NotStarted> {
        let ordering = Ordering::Relaxed;
        let claim = self.state.compare_exchange(NEW, STARTING, ordering, ordering);
        claim.map_err(|_| NotStarted::Already)?;
        // SAFETY: as the caller says.
        let made = unsafe { Inside::new(zone, base) };
        let made = made.map(|inside| {
            // SAFETY: this call made the state `STARTING` (invariant 1).
            unsafe { *self.inside.get() = Some(inside) };
        });
        self.state.store(if made.is_ok() { STARTED } else { NEW }, Ordering::Release);
        made
    }

    /// Gives the descriptors' frames back.
    ///
    /// # Safety
    /// No call is in flight, and none comes any more.
    pub(crate) unsafe fn end(&self) {
        // SAFETY: as the caller says.
        if let Some(inside) = unsafe { (*self.inside.get()).take() } {
            // The frames are ours, so the free succeeds.
            let _ = inside.direct.zone().free_range(inside.descriptors, Slot(0));
        }
    }

    fn get(&self) -> Option<&Inside<'a, A>> {
        if self.state.load(Ordering::Acquire) != STARTED {
            return None;
        }
        // SAFETY: invariant 1.
        unsafe { &*self.inside.get() }.as_ref()
    }

    /// The same, for who has a page.
    #[inline]
    fn direct(&self) -> &Direct<'a, A> {
        // SAFETY: a page was handed out or found, so that the state was `STARTED` before.
        unsafe { &(*self.inside.get()).as_ref().unwrap_unchecked().direct }
    }
}

impl<'a, A: FrameAllocator> Inside<'a, A> {
    /// # Safety
    /// As for [`Heap::start`](crate::Heap::start).
    unsafe fn new(zone: &'a A, base: *mut u8) -> Result<Self, NotStarted> {
        let config = zone.zone();
        if A::Geometry::BASE_BYTES != PAGE || config.frames >= u32::MAX as usize {
            return Err(NotStarted::Frames);
        }
        let at = |frame: FrameId| NonNull::new(base.wrapping_add(frame.0 * PAGE));
        let first = at(config.start).ok_or(NotStarted::Null)?;
        let class =
            if config.classes.has(Class::IMMOVABLE) { Class::IMMOVABLE } else { Class::MOVABLE };
        let frames = (config.frames * size_of::<Descriptor>()).div_ceil(PAGE);
        let request = RangeRequest::new(frames, class, Slot(0));
        // As high as they go: low memory is for devices.
        let mut window = frames;
        let run = loop {
            let end = config.end();
            let high = FrameId(end.0.saturating_sub(window).max(config.start.0))..end;
            match zone.alloc_range(request.within(high)) {
                Ok(run) => break run,
                Err(_) if window >= config.frames => return Err(NotStarted::NoMemory),
                Err(_) => window = window.saturating_mul(2).max(1),
            }
        };
        let memory = at(run.start).ok_or(NotStarted::Null)?.cast::<Descriptor>();
        // SAFETY: the frames are mapped there and this call's, and have room for so many.
        let descriptors = unsafe {
            (0..config.frames).for_each(|page| memory.add(page).write(Descriptor::default()));
            core::slice::from_raw_parts(memory.as_ptr(), config.frames)
        };
        // SAFETY: as the caller says.
        let direct = unsafe { Direct::new(zone, first, descriptors) }.ok_or(NotStarted::Frames)?;
        Ok(Inside { direct, descriptors: run })
    }
}

// SAFETY: `Direct` keeps the promise, and no page is handed out or found before it is there.
unsafe impl<A: FrameAllocator> Pages for Late<'_, A> {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        self.get().ok_or(NoPages)?.direct.alloc(count, align, cpu)
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        // SAFETY: as the caller says.
        unsafe { self.direct().free(first, count, cpu) };
    }

    #[inline]
    fn address(&self, page: PageId) -> NonNull<u8> {
        self.direct().address(page)
    }

    #[inline]
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        self.get()?.direct.find(address)
    }

    #[inline]
    fn descriptor(&self, page: PageId) -> &Descriptor {
        self.direct().descriptor(page)
    }
}
