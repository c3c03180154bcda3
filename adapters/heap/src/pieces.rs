//! Pieces of slabs: where slabs with free pieces are found.
//!
//! ```text
//!   size 0   │ slab │  –   │ slab │  –   │ …      eight places for each size; the CPU says where a search begins
//!   size 1   │  –   │ slab │  –   │  –   │ …
//! ```
//!
//! A call takes a slab out of a place, takes a piece, and puts the slab into a place again. So a call that finds
//! no slab, because others just work on them, gets a new frame; nobody waits. A slab for which there is no place
//! is held by nobody, until a piece of it is freed.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameAllocator, FrameId, Order, Request, Slot};

use crate::Memory;
use crate::slab::{LetGo, PieceSize, SIZES, Slab};

/// Places for each size: as many calls as this, at once, do without places that are filled already.
const PLACES: usize = 8;

/// A place without a slab. Otherwise the place has the number of the slab's frame.
const NONE: u64 = u64::MAX;

/// The slabs with free pieces.
pub struct Places([[AtomicU64; PLACES]; SIZES]);

impl Places {
    pub const fn new() -> Self {
        Places([const { [const { AtomicU64::new(NONE) }; PLACES] }; SIZES])
    }

    /// A piece, from a slab in a place or a new one.
    pub fn alloc<A: FrameAllocator>(
        &self,
        memory: &Memory<'_, A>,
        size: PieceSize,
        slot: Slot,
    ) -> Option<*mut u8> {
        let frame = self.take(size, slot).or_else(|| new_slab(memory, size, slot))?;
        // SAFETY: the slab is held by this call.
        let (piece, held) = unsafe { slab(memory, frame) }.take()?;
        if held {
            // SAFETY: as above.
            unsafe { self.put(memory, frame, size, slot) };
        }
        Some(memory.pointer(frame).wrapping_add(piece * size.bytes::<A::Geometry>()))
    }

    /// Frees the piece at an offset in a slab.
    ///
    /// # Safety
    /// Such a piece was handed out there, and is in use no more.
    pub unsafe fn free<A: FrameAllocator>(
        &self,
        memory: &Memory<'_, A>,
        frame: FrameId,
        offset: usize,
        size: PieceSize,
        slot: Slot,
    ) {
        let piece = offset.checked_div(size.bytes::<A::Geometry>()).unwrap_or(0);
        // SAFETY: the frame is a slab, for a piece of it is not free yet.
        if unsafe { slab(memory, frame) }.give(piece) {
            // SAFETY: this call holds the slab now.
            unsafe { self.put(memory, frame, size, slot) };
        }
    }

    /// Gives back the frames of slabs in places whose pieces are all free; how many.
    pub fn trim<A: FrameAllocator>(&self, memory: &Memory<'_, A>, slot: Slot) -> usize {
        let mut given = 0;
        for size in PieceSize::all() {
            for nth in 0..PLACES {
                let Some(frame) = self.take(size, Slot(nth)) else { break };
                // SAFETY: this call holds the slab.
                if unsafe { slab(memory, frame) }.is_empty(size) {
                    give_back(memory, frame, slot);
                    given += 1;
                } else {
                    // SAFETY: as above.
                    unsafe { self.put(memory, frame, size, Slot(nth)) };
                }
            }
        }
        given
    }

    /// The places for a size, from the slot's own on.
    fn of(&self, size: PieceSize, slot: Slot) -> impl Iterator<Item = &AtomicU64> {
        let places = self.0.get(size.index()).map_or(&[][..], |places| &places[..]);
        let (before, from) = places.split_at_checked(slot.0 % PLACES).unwrap_or((places, &[]));
        from.iter().chain(before)
    }

    /// Takes a slab out of a place. The caller holds it then.
    fn take(&self, size: PieceSize, slot: Slot) -> Option<FrameId> {
        let full = |place: &&AtomicU64| place.load(Ordering::Relaxed) != NONE;
        self.of(size, slot).filter(full).find_map(|place| {
            let taken = place.swap(NONE, Ordering::Acquire);
            (taken != NONE).then_some(FrameId(taken as usize))
        })
    }

    /// Puts a slab into a place. If none is free, the slab is let go of, or given back.
    ///
    /// # Safety
    /// The caller holds the slab, and holds it no more.
    unsafe fn put<A: FrameAllocator>(
        &self,
        memory: &Memory<'_, A>,
        frame: FrameId,
        size: PieceSize,
        slot: Slot,
    ) {
        let fill = |place: &AtomicU64| {
            let ordering = (Ordering::Release, Ordering::Relaxed);
            place.compare_exchange(NONE, frame.0 as u64, ordering.0, ordering.1).is_ok()
        };
        if self.of(size, slot).any(fill) {
            return;
        }
        // SAFETY: the caller holds the slab.
        if unsafe { slab(memory, frame) }.let_go(size) == LetGo::Empty {
            give_back(memory, frame, slot);
        }
    }
}

/// The slab that a frame is.
///
/// # Safety
/// The frame is a slab for as long as the word is used: the caller holds it, or frees a piece of it by the
/// next call.
unsafe fn slab<'m, A: FrameAllocator>(memory: &'m Memory<'_, A>, frame: FrameId) -> &'m Slab {
    // SAFETY: a slab's frame begins with its word, which was written before anybody else could know of the
    // frame, and is aligned, for a frame is.
    unsafe { &*memory.pointer(frame).cast::<Slab>() }
}

/// A slab in a frame of its own, held by the caller.
fn new_slab<A: FrameAllocator>(
    memory: &Memory<'_, A>,
    size: PieceSize,
    slot: Slot,
) -> Option<FrameId> {
    let frame = memory.zone.alloc(Request::new(Order::BASE, memory.class, slot)).ok()?;
    // SAFETY: the frame is mapped, writable, and this call's alone, as the caller of `Heap::start` promised.
    unsafe { memory.pointer(frame).cast::<Slab>().write(Slab::new(size)) };
    Some(frame)
}

/// Gives back the frame of a slab that the caller holds, and whose pieces are all free.
fn give_back<A: FrameAllocator>(memory: &Memory<'_, A>, frame: FrameId, slot: Slot) {
    // The frame is the heap's, so the free succeeds.
    let _ = memory.zone.free(frame, Order::BASE, slot);
}
