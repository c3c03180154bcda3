//! The arena.
//!
//! ```text
//!   words     │ in use │ mapped │ alone │ handed out │ slabs …  │     a bit for each stack; a word for each huge frame
//!
//!   alloc     a bit of those in use ─► the slab's huge frame ─► pages of the stack, mapped
//!                                      └ none to be had: frames of its own, alone
//!   free      the bit; pages stay mapped. A stack that is alone gives its frames back
//!   trim      all bits of a slab ─► pages unmapped ─► the huge frame goes back
//! ```
//!
//! 1. Who sets a bit of those in use owns the stack, until it clears the bit. Only the owner maps and unmaps pages there,
//!    and changes the other bits.
//! 2. The word of a slab is 0, or the number of its huge frame plus 1. Any owner of one of its stacks may put one there,
//!    by one compare-and-swap; only the owner of all of them takes it out. So it stays while one of them is in use.
//! 3. A stack that is *mapped* has the frames of its slabs; one that is *alone* has others. It is in use, or the space has
//!    not ended its mapping.
//!
//! *Progress*: no lock, and no call waits for another one; lock-free where the allocator and the address space are. A stack
//! is found in time linear in the stacks at worst; mostly in the word of the last one.
//!
//! FreeBSD anti-fragmentation, section III-B.

use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Batch, Class, FrameAllocator, FrameId, Geometry, Order, Request, Slot};
use woodlot_kmem::{AddressSpace, NotMapped, PAGE, StillMapped};

use crate::bits::Bits;
use crate::error::{ArenaError, FreeError, StackError};
use crate::shape::{Found, MAX_PAGES, SLAB, Shape};

/// The order of a huge frame.
const HUGE: Order = Order(SLAB.trailing_zeros() as u8);

/// A stack that is in use. It holds what an earlier one has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stack {
    /// Its lowest byte, above a guard. [`Arena::free`] takes this.
    pub bottom: NonNull<u8>,
    /// Its bytes: a multiple of 4096.
    pub bytes: usize,
}

// SAFETY: it is an address; whoever uses the memory there answers for it.
unsafe impl Send for Stack {}
// SAFETY: as above.
unsafe impl Sync for Stack {}

impl Stack {
    /// The address behind its highest byte, where a stack that grows down begins.
    pub fn top(&self) -> NonNull<u8> {
        // SAFETY: the bytes of the stack follow one another, and the guard above has addresses, too.
        unsafe { self.bottom.add(self.bytes) }
    }
}

/// Stacks of one size, with guards on both sides, in the huge frames of a zone.
pub struct Arena<'a, A, S> {
    zone: &'a A,
    space: S,
    base: NonNull<u8>,
    shape: Shape,
    in_use: Bits<'a>,
    mapped: Bits<'a>,
    alone: Bits<'a>,
    /// A caller has it. Set last by an alloc, and cleared first by a free: of two frees one finds it.
    handed_out: Bits<'a>,
    slabs: &'a [AtomicU64],
    /// The word of those in use from which on there may be a free stack. A hint: a search looks at the others at last.
    hint: AtomicU64,
    class: Class,
}

// SAFETY: the base is an address, words are atomics, and zone and space may be shared.
unsafe impl<A: Sync, S: Sync> Sync for Arena<'_, A, S> {}
// SAFETY: as above.
unsafe impl<A: Sync, S: Send> Send for Arena<'_, A, S> {}

impl<'a, A: FrameAllocator, S: AddressSpace> Arena<'a, A, S> {
    /// An arena without frames. The words may hold anything. Frames are of the immovable class, where the zone has it.
    ///
    /// # Errors
    /// What is wrong with the zone, the address, or the words.
    ///
    /// # Safety
    /// * `base` is the first of [`Shape::addresses`] bytes of addresses that `space` maps, at which nothing is mapped, and
    ///   which nobody else uses for `'a`.
    /// * The frames that `zone` hands out are what `space` maps by their number, and nobody uses them without the zone.
    pub unsafe fn new(
        zone: &'a A,
        space: S,
        base: NonNull<u8>,
        shape: Shape,
        words: &'a [AtomicU64],
    ) -> Result<Self, ArenaError> {
        if A::Geometry::BASE_BYTES != PAGE || A::Geometry::HUGE_FRAMES != SLAB {
            return Err(ArenaError::FrameSize);
        }
        if !base.as_ptr().addr().is_multiple_of(SLAB * PAGE) {
            return Err(ArenaError::Misaligned);
        }
        let words = words.get(..shape.words()).ok_or(ArenaError::TooFewWords)?;
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let split = |words: &'a [AtomicU64]| {
            words.split_at_checked(shape.bit_words()).ok_or(ArenaError::TooFewWords)
        };
        let (in_use, words) = split(words)?;
        let (mapped, words) = split(words)?;
        let (alone, words) = split(words)?;
        let (handed_out, slabs) = split(words)?;
        let has = zone.classes().has(Class::IMMOVABLE);
        let arena = Arena {
            zone,
            space,
            base,
            shape,
            in_use: Bits(in_use),
            mapped: Bits(mapped),
            alone: Bits(alone),
            handed_out: Bits(handed_out),
            slabs,
            hint: AtomicU64::new(0),
            class: if has { Class::IMMOVABLE } else { Class::MOVABLE },
        };
        arena.in_use.reset(shape.stacks());
        Ok(arena)
    }

    /// A stack: the lowest one that is free, as far as other calls let this one see it. If no huge frame is free, it gets
    /// single frames, which go back when it is freed. `slot` is the caller's slot of the zone.
    ///
    /// # Errors
    /// [`StackError::AllInUse`]: exact where no other call is under way. [`StackError::Frames`] where the zone
    /// has not even single frames; [`StackError::NotMapped`] where the space refuses; [`StackError::Stuck`] where it cannot
    /// undo what it has mapped.
    ///
    /// # Progress
    /// Lock-free, if zone and space are.
    pub fn alloc(&self, slot: Slot) -> Result<Stack, StackError> {
        let hint = self.hint.load(Ordering::Relaxed);
        let stack = self.in_use.take_first(hint as usize).ok_or(StackError::AllInUse)?;
        // A free that has just made the hint lower wins.
        let word = (stack / 64) as u64;
        let _ = self.hint.compare_exchange(hint, word, Ordering::Relaxed, Ordering::Relaxed);
        if let Err(error) = self.back(stack, slot) {
            if error != StackError::Stuck {
                self.release(stack);
            }
            return Err(error);
        }
        self.handed_out.insert(stack);
        Ok(Stack { bottom: self.bottom(stack), bytes: self.shape.bytes() })
    }

    /// Frees the stack that begins at `bottom`. Its pages stay mapped, for whoever is given it next. Those of single frames
    /// do so only if the space cannot end their mapping: the frames stay the stack's then.
    ///
    /// # Errors
    /// What is wrong with the address or the slot. A free for the second time is found until the stack has been handed out again.
    ///
    /// # Progress
    /// Wait-free, but for a stack of single frames: as the zone and the space then.
    ///
    /// # Safety
    /// Nobody uses the stack any more.
    pub unsafe fn free(&self, bottom: NonNull<u8>, slot: Slot) -> Result<(), FreeError> {
        let found = self.find(bottom.as_ptr());
        let Some(Found::Stack(stack)) = found.filter(|_| self.is_bottom(bottom)) else {
            return Err(FreeError::NotAStack);
        };
        if !self.has(slot) {
            return Err(FreeError::BadSlot(slot));
        }
        if !self.handed_out.remove(stack) {
            return Err(FreeError::NotInUse);
        }
        if self.alone.has(stack) {
            let mut room = [FrameId(0); MAX_PAGES];
            // SAFETY: the pages of a stack that is alone are mapped, and the caller has ended their use.
            if let Ok(frames) = unsafe { self.unmap(stack, &mut room) } {
                self.alone.remove(stack);
                self.give(frames, slot);
            }
        }
        self.release(stack);
        Ok(())
    }

    /// Gives the huge frames back in which no stack is in use; returns how many. None by a slot that the zone does not
    /// have, and none of which the space cannot end the mappings: that one stays the arena's. Stacks of a slab that is looked at are not to be had meanwhile.
    ///
    /// # Progress
    /// Linear in the stacks. Lock-free, if zone and space are.
    pub fn trim(&self, slot: Slot) -> usize {
        let slabs = self.slabs.iter().enumerate();
        let slabs = slabs.filter(|_| self.has(slot));
        slabs.filter(|(slab, word)| self.trim_slab(*slab, word, slot)).count()
    }

    /// What lies at an address: for a handler of page faults, which says so which stack has overflowed. `None` where the
    /// arena has nothing.
    pub fn find(&self, address: *const u8) -> Option<Found> {
        let offset = address.addr().checked_sub(self.base.as_ptr().addr())?;
        self.shape.find(offset)
    }

    /// How many stacks are in use; among them those of slabs that a [`trim`](Self::trim) looks at, and those that are
    /// [stuck](StackError::Stuck). Linear in the stacks.
    pub fn in_use(&self) -> usize {
        self.in_use.count(self.shape.stacks())
    }

    /// How many huge frames the arena has. Linear in them.
    pub fn huge_frames(&self) -> usize {
        self.slabs.iter().filter(|slab| slab.load(Ordering::Relaxed) != 0).count()
    }

    /// How many stacks have frames of their own, as no huge frame was free; also of stacks that are free again, where the
    /// space could not end the mapping. Linear in the stacks.
    pub fn alone(&self) -> usize {
        self.alone.count(self.shape.stacks())
    }

    /// How large its stacks are, and how many.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    fn has(&self, slot: Slot) -> bool {
        slot.0 < self.zone.zone().slots
    }

    fn bottom(&self, stack: usize) -> NonNull<u8> {
        // SAFETY: the stack lies in the addresses that begin at `base`.
        unsafe { self.base.add(self.shape.place(stack) * PAGE) }
    }

    /// Is an address, which lies in a stack, the lowest one of it?
    fn is_bottom(&self, address: NonNull<u8>) -> bool {
        let below = address.as_ptr().wrapping_sub(1);
        matches!(self.find(below), Some(Found::Guard(_)))
    }

    /// The stack is another one's to take. The caller owns it.
    fn release(&self, stack: usize) {
        self.in_use.give(stack..stack + 1);
        self.hint.fetch_min((stack / 64) as u64, Ordering::Relaxed);
    }

    /// Sees to it that there are pages behind a stack that the caller owns.
    fn back(&self, stack: usize, slot: Slot) -> Result<(), StackError> {
        if self.mapped.has(stack) || self.alone.has(stack) {
            return Ok(());
        }
        let mut room = [FrameId(0); MAX_PAGES];
        let frames = room.get_mut(..self.shape.pages()).unwrap_or_default();
        let whole = self.shape.numbers(stack).zip(frames.iter_mut()).all(|(number, frame)| {
            let first = self.slab(number / SLAB, slot);
            *frame = FrameId(first.map_or(0, |first| first.0 + number % SLAB));
            first.is_some()
        });
        if !whole {
            let request = Request::new(Order::BASE, self.class, slot);
            self.zone.alloc_batch(request, Batch::All, frames).map_err(StackError::Frames)?;
        }
        match self.space.map(self.bottom(stack), frames) {
            Ok(()) if whole => self.mapped.insert(stack),
            Ok(()) => self.alone.insert(stack),
            Err(NotMapped::Undone) => {
                if !whole {
                    self.give(frames, slot);
                }
                return Err(StackError::NotMapped);
            }
            Err(NotMapped::Stuck) => return Err(StackError::Stuck),
        }
        Ok(())
    }

    /// The first frame of a slab, of which the caller owns a stack; from the zone, if it has none yet.
    fn slab(&self, slab: usize, slot: Slot) -> Option<FrameId> {
        let word = self.slabs.get(slab)?;
        // Acquire: what the owner did who got the frame from the zone is before what this one does with it.
        let there = || word.load(Ordering::Acquire).checked_sub(1).map(|at| FrameId(at as usize));
        if let Some(first) = there() {
            return Some(first);
        }
        let Ok(first) = self.zone.alloc(Request::new(HUGE, self.class, slot)) else {
            // Another owner may have got the last one.
            return there();
        };
        let put = word.compare_exchange(0, first.0 as u64 + 1, Ordering::AcqRel, Ordering::Acquire);
        let Err(other) = put else { return Some(first) };
        // Another owner was quicker.
        let freed = self.zone.free(first, HUGE, slot);
        debug_assert!(freed.is_ok(), "{freed:?}: it was allocated");
        Some(FrameId(other as usize - 1))
    }

    fn trim_slab(&self, slab: usize, word: &AtomicU64, slot: Slot) -> bool {
        let stacks = self.shape.of_slab(slab);
        if word.load(Ordering::Acquire) == 0 || !self.in_use.take_all(stacks.clone()) {
            return false;
        }
        let is_unmapped = |stack| {
            // SAFETY: nobody uses a stack that was free, and it is mapped.
            let done = unsafe { self.unmap(stack, &mut [FrameId(0); MAX_PAGES]).is_ok() };
            done && self.mapped.remove(stack)
        };
        if !stacks.clone().filter(|&stack| self.mapped.has(stack)).all(is_unmapped) {
            self.in_use.give(stacks);
            return false;
        }
        // Another trim may have been quicker.
        let first = word.swap(0, Ordering::AcqRel).checked_sub(1);
        if let Some(first) = first {
            let freed = self.zone.free(FrameId(first as usize), HUGE, slot);
            debug_assert!(freed.is_ok(), "{freed:?}: it was allocated");
        }
        self.in_use.give(stacks);
        first.is_some()
    }

    /// Ends the mapping of a stack, and says which frames it had.
    ///
    /// # Safety
    /// Its pages are mapped, and nobody uses them.
    unsafe fn unmap<'r>(
        &self,
        stack: usize,
        room: &'r mut [FrameId; MAX_PAGES],
    ) -> Result<&'r [FrameId], StillMapped> {
        let frames = room.get_mut(..self.shape.pages()).unwrap_or_default();
        // SAFETY: as the caller promises.
        unsafe { self.space.unmap(self.bottom(stack), frames) }?;
        Ok(frames)
    }

    /// Gives single frames back.
    fn give(&self, frames: &[FrameId], slot: Slot) {
        let freed = self.zone.free_batch(frames, Order::BASE, slot);
        debug_assert!(freed.is_ok(), "{freed:?}: they were allocated");
    }
}
