#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   layout   up to a quarter of a frame: a piece of a slab; more: frames of its own
//!   place    a slab with free pieces, or none      eight for each size of piece
//!   slab     one frame cut into equal pieces       the first piece holds the word that counts the others
//! ```
//!
//! # Progress
//! Lock-free, and every call may be made from interrupt context: the heap has no lock, and a call that stops
//! for ever keeps at most one slab from others. What the zone promises of its calls holds beside that.
#![no_std]
#![deny(missing_docs)]

mod frames;
mod pieces;
mod slab;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};
use woodlot_frame::atomics::{AtomicU8, Ordering};
use woodlot_frame::{Class, FrameAllocator, FrameId, Geometry, Slot};

use frames::Run;
use pieces::Places;
use slab::PieceSize;

/// A heap over the frames of a zone.
///
/// It hands out nothing until [`start`](Self::start) gives it a zone. Memory of the heap is
/// [immovable](Class::IMMOVABLE) to the zone, or [movable](Class::MOVABLE) where the zone has that class only.
///
/// A request that has no memory gets what its trait says: null from `GlobalAlloc`, an error from `Allocator`.
pub struct Heap<'a, A: FrameAllocator> {
    state: AtomicU8,
    /// Written once, by the call that made the state `STARTING`; read only when the state is `STARTED`.
    memory: UnsafeCell<Option<Memory<'a, A>>>,
    cpu: fn() -> usize,
    places: Places,
}

/// The states of a heap.
const NEW: u8 = 0;
const STARTING: u8 = 1;
const STARTED: u8 = 2;

// SAFETY: `memory` is written by one call only, before the state says that it may be read. The zone may be
// shared (`FrameAllocator: Sync`), and the base is an address that the caller of `start` vouches for.
unsafe impl<A: FrameAllocator> Sync for Heap<'_, A> {}
// SAFETY: the heap has no tie to a thread, and neither has a reference to a zone that may be shared.
unsafe impl<A: FrameAllocator> Send for Heap<'_, A> {}

/// Where the heap's memory comes from.
struct Memory<'a, A> {
    zone: &'a A,
    /// Of every request of the heap.
    class: Class,
    /// Where physical address zero is mapped, or would be.
    base: *mut u8,
}

impl<A: FrameAllocator> Memory<'_, A> {
    /// Where a frame's first byte is mapped.
    fn pointer(&self, frame: FrameId) -> *mut u8 {
        self.base.wrapping_add(frame.address::<A::Geometry>() as usize)
    }

    /// The frame that a pointer of the heap points into, and the offset there.
    fn locate(&self, pointer: *mut u8) -> (FrameId, usize) {
        let address = pointer.addr().wrapping_sub(self.base.addr());
        let offset = address & (A::Geometry::BASE_BYTES - 1);
        (FrameId(address >> A::Geometry::BASE_SHIFT), offset)
    }
}

/// The heap has a zone already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlreadyStarted;

impl fmt::Display for AlreadyStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the heap has been started before, and keeps the zone that it has")
    }
}

impl core::error::Error for AlreadyStarted {}

impl<'a, A: FrameAllocator> Heap<'a, A> {
    /// A heap without memory. `cpu` says which CPU a call runs on: a hint, by which calls on different
    /// CPUs keep apart; any number will do, and `|| 0` where there is one CPU.
    pub const fn new(cpu: fn() -> usize) -> Self {
        Heap {
            state: AtomicU8::new(NEW),
            memory: UnsafeCell::new(None),
            cpu,
            places: Places::new(),
        }
    }

    /// Gives the heap its zone. `base` is where physical address zero is mapped, or would be: the first
    /// byte of frame *f* is at `base` + *f* · the base frame's size.
    ///
    /// # Errors
    /// [`AlreadyStarted`] where this has been called before; nothing changes then.
    ///
    /// # Safety
    /// * Every frame that the zone hands out is mapped there, readable and writable, for `'a`; none at the
    ///   null pointer.
    /// * `base` is aligned to a base frame. Memory aligned more than `base` is not handed out.
    /// * Nobody else uses memory that the zone hands to the heap.
    pub unsafe fn start(&self, zone: &'a A, base: *mut u8) -> Result<(), AlreadyStarted> {
        let ordering = Ordering::Relaxed;
        let claim = self.state.compare_exchange(NEW, STARTING, ordering, ordering);
        claim.map_err(|_| AlreadyStarted)?;
        let immovable = zone.zone().classes.has(Class::IMMOVABLE);
        let class = if immovable { Class::IMMOVABLE } else { Class::MOVABLE };
        // SAFETY: only one call comes here, and nobody reads this before the state says so.
        unsafe { *self.memory.get() = Some(Memory { zone, class, base }) };
        self.state.store(STARTED, Ordering::Release);
        Ok(())
    }

    /// Gives back to the zone what the heap keeps without need: frames whose pieces are all free. Returns
    /// how many. When nothing of the heap is in use, and no call is in flight, the heap has no frame then.
    pub fn trim(&self) -> usize {
        self.memory().map_or(0, |memory| self.places.trim(memory, self.slot(memory)))
    }

    fn memory(&self) -> Option<&Memory<'a, A>> {
        if self.state.load(Ordering::Acquire) != STARTED {
            return None;
        }
        // SAFETY: it was written before the state became `STARTED`, and is not written again.
        unsafe { &*self.memory.get() }.as_ref()
    }

    fn slot(&self, memory: &Memory<'a, A>) -> Slot {
        Slot((self.cpu)().checked_rem(memory.zone.zone().slots).unwrap_or(0))
    }

    fn alloc_bytes(&self, layout: Layout) -> Option<NonNull<u8>> {
        let memory = self.memory()?;
        if memory.base.addr() & (layout.align() - 1) != 0 {
            return None;
        }
        let slot = self.slot(memory);
        NonNull::new(match Kind::of::<A>(layout) {
            Kind::Piece(size) => self.places.alloc(memory, size, slot)?,
            Kind::Frames(run) => memory.pointer(run.alloc(memory.zone, memory.class, slot)?),
        })
    }

    /// # Safety
    /// `pointer` came from `alloc_bytes` with this layout, and is not used any more.
    unsafe fn free_bytes(&self, pointer: *mut u8, layout: Layout) {
        // Nothing came from a heap that has no memory.
        let Some(memory) = self.memory() else { return };
        let slot = self.slot(memory);
        let (frame, offset) = memory.locate(pointer);
        match Kind::of::<A>(layout) {
            // SAFETY: a piece of this size was handed out there, so that the frame is a slab of such.
            Kind::Piece(size) => unsafe { self.places.free(memory, frame, offset, size, slot) },
            Kind::Frames(run) => run.free(memory.zone, frame, slot),
        }
    }
}

impl<A: FrameAllocator> Drop for Heap<'_, A> {
    fn drop(&mut self) {
        self.trim();
    }
}

/// What serves a layout. It follows from the layout alone, so that a free knows it, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Piece(PieceSize),
    Frames(Run),
}

impl Kind {
    fn of<A: FrameAllocator>(layout: Layout) -> Kind {
        // A piece is aligned to its size.
        match PieceSize::of::<A::Geometry>(layout.size().max(layout.align())) {
            Some(size) => Kind::Piece(size),
            None => Kind::Frames(Run::of::<A>(layout)),
        }
    }

    /// How many bytes there are for who asked.
    fn bytes<G: Geometry>(self) -> usize {
        match self {
            Kind::Piece(size) => size.bytes::<G>(),
            Kind::Frames(run) => run.frames.saturating_mul(G::BASE_BYTES),
        }
    }
}

// SAFETY: pieces and runs of frames are handed out once until they are freed, are as large and aligned as the
// layout says, and stay where they are when the heap moves. No call panics.
unsafe impl<A: FrameAllocator> GlobalAlloc for Heap<'_, A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.alloc_bytes(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { self.free_bytes(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size, rounded up to the alignment, fits an `isize`.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if Kind::of::<A>(layout) == Kind::of::<A>(new) {
            return pointer;
        }
        match self.alloc_bytes(new) {
            None => ptr::null_mut(),
            Some(moved) => {
                let bytes = layout.size().min(size);
                // SAFETY: both are at least so long, and the new one is nobody else's; the caller
                // promises the old one.
                unsafe {
                    moved.as_ptr().copy_from_nonoverlapping(pointer, bytes);
                    self.free_bytes(pointer, layout);
                }
                moved.as_ptr()
            }
        }
    }
}

// SAFETY: as above; what was handed out stays valid for as long as the zone's frames do, which is longer than
// the heap. The heap is not `Clone`; its references all mean the same heap.
unsafe impl<A: FrameAllocator> Allocator for Heap<'_, A> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let dangling = ptr::without_provenance_mut(layout.align());
            let start = NonNull::new(dangling).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(start, 0));
        }
        let start = self.alloc_bytes(layout).ok_or(AllocError)?;
        let bytes = Kind::of::<A>(layout).bytes::<A::Geometry>();
        Ok(NonNull::slice_from_raw_parts(start, bytes))
    }

    unsafe fn deallocate(&self, pointer: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: as the caller promises.
            unsafe { self.free_bytes(pointer.as_ptr(), layout) }
        }
    }
}
