//! Objects that stay constructed while they are free.
//!
//! ```text
//!   alloc ◄── main, aux ◄── full lists ◄── make        the layers of Kmem, with objects for blocks
//!   free  ──► main, aux ──► full lists ──► unmake
//!
//!   an object     0            8
//!     free        │ the lists' │ as it was made │
//!     in use      │ the caller's                │
//! ```
//!
//! 1. An object is made once, and unmade when the global layer has too many, or at a flush. In between it is handed out
//!    and freed as often as callers like.
//! 2. The first 8 bytes of a free object belong to the lists. All else of it is as it was when it was freed.
//!
//! The paper's special-purpose allocators, such as that of STREAMS (section 3.1), reuse the code of the upper layers so.
//!
//! *Progress*: as of [`Kmem`](crate::Kmem), and what `make` and `unmake` take.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::cpu::PerCpu;
use crate::global::Lists;
use crate::list::{List, MAX_BLOCKS, MIN_BLOCK};
use crate::lot::Lot;
use crate::seen::Seen;
use crate::size::{MAX_SIZES, SizeId};
use crate::upper::{Below, Upper};

/// What objects are, and how they are made.
///
/// # Safety
/// What `make` returns is memory for an object, and the cache's alone, until `unmake` is called for it.
pub unsafe trait Build: Sync {
    /// What is handed out: at least 8 bytes, at a multiple of 8. Of a free object the first 8 bytes hold anything.
    type Object;

    /// How many kinds of objects there are, which differ in what belongs to them: from 1 to [`MAX_SIZES`].
    const KINDS: usize;

    /// Objects of a full list: a CPU has up to two lists of each kind. From 1 to 999.
    const TARGET: usize;

    /// Makes an object of a kind below `KINDS`; `None`, if there is no memory. It may be called by any CPU, and must not
    /// allocate from the same [`Objects`].
    fn make(&self, kind: usize) -> Option<NonNull<Self::Object>>;

    /// Takes an object apart, and frees its memory.
    ///
    /// # Safety
    /// The object was made for this kind. It is free, and the cache has it no more.
    unsafe fn unmake(&self, kind: usize, object: NonNull<Self::Object>);
}

/// A cache of objects that stay constructed while they are free.
pub struct Objects<C, B> {
    upper: Upper<C>,
    builder: B,
}

impl<C: PerCpu, B: Build> Objects<C, B> {
    /// The constants of `B` are right.
    const CHECKED: () = {
        assert!(size_of::<B::Object>() >= MIN_BLOCK && align_of::<B::Object>() >= 8);
        assert!(1 <= B::KINDS && B::KINDS <= MAX_SIZES);
        assert!(1 <= B::TARGET && B::TARGET < MAX_BLOCKS);
    };

    /// A cache that has no objects yet, on caches of CPUs that nothing else uses.
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub const fn new(caches: C, builder: B) -> Self {
        const { Self::CHECKED };
        Objects { upper: Upper::new(caches), builder }
    }

    /// The same for atomics of a checker.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub fn new(caches: C, builder: B) -> Self {
        const { Self::CHECKED };
        Objects { upper: Upper::new(caches), builder }
    }

    /// Makes a cache where it is to stay. It is some 10 KiB long, which is more than a kernel's stack may have left.
    pub fn init(place: &mut MaybeUninit<Self>, caches: C, builder: B) -> &mut Self {
        const { Self::CHECKED };
        let at = place.as_mut_ptr();
        // SAFETY: both fields are written, and lie in the place.
        unsafe {
            (&raw mut (*at).builder).write(builder);
            Upper::init(&raw mut (*at).upper, caches);
            place.assume_init_mut()
        }
    }

    /// What makes the objects.
    pub fn builder(&self) -> &B {
        &self.builder
    }

    /// The caches of its CPUs.
    pub fn caches(&self) -> &C {
        self.upper.caches()
    }

    /// Hands out an object of a kind, as it was made or as it was freed.
    ///
    /// `None`: none is free on a CPU that can be reached, and none can be made; or there is no such kind.
    #[inline]
    pub fn alloc(&self, kind: usize) -> Option<NonNull<B::Object>> {
        if kind >= B::KINDS {
            return None;
        }
        self.upper.alloc(self, SizeId::from_byte(kind as u8)).map(NonNull::cast)
    }

    /// Takes an object back. All but its first 8 bytes is what the next caller finds.
    ///
    /// # Safety
    /// It was handed out here for this kind, is as the next caller may have it, and is used no more.
    #[inline]
    pub unsafe fn free(&self, kind: usize, object: NonNull<B::Object>) {
        // SAFETY: as the caller says.
        unsafe { self.upper.free(self, SizeId::from_byte(kind as u8), object.cast()) };
    }

    /// Gives the objects of a CPU's caches to the global layer. False, if the CPU cannot be reached.
    pub fn flush_cpu(&self, cpu: usize) -> bool {
        self.upper.flush_cpu(self, cpu)
    }

    /// Gives objects of a CPU's caches to the global layer, of each kind that the CPU has not used since this was last called
    /// with the same `seen`, as [`Kmem::flush_unused`](crate::Kmem::flush_unused) does. False, if the CPU cannot be seen.
    pub fn flush_unused(&self, cpu: usize, seen: &mut Seen) -> bool {
        self.upper.flush_unused(self, cpu, seen)
    }

    /// Takes the objects of the global layer apart, of each kind for which it was not called since this was last called with the same
    /// `seen`, as [`Kmem::flush_unused_global`](crate::Kmem::flush_unused_global) does: what [`flush_unused`](Self::flush_unused) gave there stays
    /// made otherwise.
    pub fn flush_unused_global(&self, seen: &mut Seen) {
        self.upper.flush_global(self, |id, calls| seen.see(id, calls));
    }

    /// Takes all free objects apart, as far as CPUs can be reached: when memory is low.
    pub fn flush(&self) {
        self.upper.flush(self);
    }
}

impl<C: PerCpu, B: Build> Below for Objects<C, B> {
    fn kinds() -> impl Iterator<Item = SizeId> {
        (0..B::KINDS as u8).map(SizeId::from_byte)
    }

    #[inline]
    fn target(_: SizeId) -> usize {
        B::TARGET
    }

    fn bytes(_: SizeId) -> usize {
        size_of::<B::Object>()
    }

    /// Objects are dear: no more are made than were asked for.
    fn wanted(_: SizeId) -> usize {
        1
    }

    fn take(&self, id: SizeId, lists: usize, made: &mut Lists) {
        for _ in 0..lists {
            let objects = (0..B::TARGET).map_while(|_| self.builder.make(id.index()));
            // SAFETY: the object was just made, and has room for what a list keeps in it.
            let list =
                objects.fold(List::EMPTY, |list, object| unsafe { list.push(object.cast()) });
            made.push(Lot::linked(list));
            if list.len() < B::TARGET {
                break;
            }
        }
    }

    unsafe fn put(&self, id: SizeId, lists: &Lists) {
        for lot in lists.iter() {
            let mut list = lot.list();
            // SAFETY: the list is the caller's; each object is popped before it is taken apart.
            while let Some((object, rest)) = unsafe { list.pop() } {
                list = rest;
                // SAFETY: the object was freed, and is on no list any more.
                unsafe { self.builder.unmake(id.index(), object.cast()) };
            }
        }
    }

    /// What makes objects has asked for memory already.
    fn reclaim(&self, _: SizeId) -> bool {
        false
    }
}
