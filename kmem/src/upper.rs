//! Layers 1 and 2, which know nothing of what their blocks are made of.
//!
//! ```text
//!   alloc ◄── main ◄── aux ◄── full lists ◄── below          block by block, then list by list
//!   free  ──► main ──► aux ──► full lists ──► below
//!             per CPU           all CPUs       slabs of Kmem, or objects that are made and unmade
//! ```
//!
//! 1. A list in a caller's hands is nobody else's. What does not fit where it was meant to go, or had to make room, goes to the global
//!    layer.
//! 2. A lock is taken with the CPU kept to its holder. Nothing below is called with a lock of these layers.
//!
//! So a special-purpose allocator has the same code on top as the allocator itself (section 3.1 of the paper).

use core::mem::offset_of;
use core::ptr::NonNull;

use crate::cpu::{PerCpu, Which};
use crate::global::{GLOBAL_TARGET, Global, GlobalCounts, Lists, Targets};
use crate::list::List;
use crate::lock::{Lock, Taken};
use crate::lot::Lot;
use crate::places::Place;
use crate::seen::Seen;
use crate::size::{MAX_SIZES, SizeId};

/// The layer below: where lists come from, and where they go.
pub(crate) trait Below {
    /// The kinds of blocks that there are.
    fn kinds() -> impl Iterator<Item = SizeId>;

    /// Blocks of a full list.
    fn target(id: SizeId) -> usize;

    /// Bytes of a block.
    fn bytes(id: SizeId) -> usize;

    /// Lists that the global layer gives away at a time, up to [`GLOBAL_TARGET`]. It keeps up to twice as many.
    fn lists(_: SizeId) -> usize {
        GLOBAL_TARGET
    }

    /// Lists that this layer is asked for at a time, at most.
    fn wanted(id: SizeId) -> usize {
        Self::lists(id)
    }

    /// Do those that were put first go each time, and not now and then?
    fn first(_: SizeId) -> bool {
        false
    }

    /// What the global layer is to know.
    fn targets(id: SizeId) -> Targets {
        Targets { blocks: Self::target(id), lists: Self::lists(id), first: Self::first(id) }
    }

    /// Adds so many full lists to `made`, which is empty; fewer, and one that is not full, only if there is no more memory.
    fn take(&self, id: SizeId, lists: usize, made: &mut Lists);

    /// Takes blocks back.
    ///
    /// # Safety
    /// The lists have blocks of this kind, and are the caller's, who gives them away.
    unsafe fn put(&self, id: SizeId, lists: &Lists);

    /// There is no memory left. True: something was freed.
    fn reclaim(&self, id: SizeId) -> bool;
}

/// The global layer of one kind, on cache lines of its own.
#[repr(align(128))]
struct Shelf(Lock<Global>);

/// The caches of the CPUs, and the global layer of each kind of blocks.
pub(crate) struct Upper<C> {
    caches: C,
    shelves: [Shelf; MAX_SIZES],
}

impl<C> Upper<C> {
    /// Where the caches lie.
    pub(crate) const CACHES: usize = offset_of!(Upper<C>, caches);
    /// Where the global layers lie.
    pub(crate) const GLOBALS: Place = Place {
        offset: offset_of!(Upper<C>, shelves) + offset_of!(Shelf, 0) + Lock::<Global>::INSIDE,
        stride: size_of::<Shelf>(),
    };
}

impl<C: PerCpu> Upper<C> {
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub(crate) const fn new(caches: C) -> Upper<C> {
        Upper { caches, shelves: [const { Shelf(Lock::new(Global::new())) }; MAX_SIZES] }
    }

    /// The same for atomics of a checker.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub(crate) fn new(caches: C) -> Upper<C> {
        Upper { caches, shelves: core::array::from_fn(|_| Shelf(Lock::new(Global::new()))) }
    }

    /// Makes them where they are to stay.
    ///
    /// # Safety
    /// There is memory for them, which is the caller's.
    pub(crate) unsafe fn init(at: *mut Upper<C>, caches: C) {
        // SAFETY: as the caller says; each field is written.
        unsafe {
            (&raw mut (*at).caches).write(caches);
            let shelves = (&raw mut (*at).shelves).cast::<Shelf>();
            (0..MAX_SIZES)
                .for_each(|size| shelves.add(size).write(Shelf(Lock::new(Global::new()))));
        }
    }

    pub(crate) fn caches(&self) -> &C {
        &self.caches
    }

    pub(crate) fn locked<'a, T>(&self, lock: &'a Lock<T>) -> Taken<'a, T> {
        lock.take(|tries| self.caches.wait(tries))
    }

    #[inline]
    pub(crate) fn alloc<B: Below>(&self, below: &B, id: SizeId) -> Option<NonNull<u8>> {
        match self.caches.pop(id) {
            None => self.refill(below, id),
            block => block,
        }
    }

    /// # Safety
    /// The block is one of this kind, and the caller's, who gives it away.
    #[inline]
    pub(crate) unsafe fn free<B: Below>(&self, below: &B, id: SizeId, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        if !unsafe { self.caches.push(id, block, B::target(id)) } {
            // SAFETY: as the caller says.
            unsafe { self.spill(below, id, block) };
        }
    }

    /// *main* is empty: *aux* comes in its place, or a list of the global layer.
    #[cold]
    #[inline(never)]
    fn refill<B: Below>(&self, below: &B, id: SizeId) -> Option<NonNull<u8>> {
        let aux = self.caches.take(Which::Aux, id);
        let list = if aux.is_empty() { self.supply(below, id)? } else { aux };
        // SAFETY: the list was taken.
        let (block, rest) = unsafe { list.pop() }?;
        // SAFETY: as above.
        unsafe { self.keep(below, id, rest) };
        Some(block)
    }

    /// *main* is full: it becomes *aux*, whose blocks go to the global layer, and the block begins a new one.
    ///
    /// # Safety
    /// The block is the caller's, who gives it away.
    #[cold]
    #[inline(never)]
    unsafe fn spill<B: Below>(&self, below: &B, id: SizeId, block: NonNull<u8>) {
        // SAFETY: the block is the caller's, and a list that comes back was taken.
        unsafe {
            let main = self.caches.exchange(Which::Main, id, List::EMPTY.push(block));
            let aux = self.caches.exchange(Which::Aux, id, main);
            self.give(below, id, aux);
        }
    }

    /// Puts a list into this CPU's cache, where there is room; else into the global layer.
    ///
    /// # Safety
    /// The list is the caller's, who gives it away.
    unsafe fn keep<B: Below>(&self, below: &B, id: SizeId, list: List) {
        if list.is_empty() {
            return;
        }
        // SAFETY: as the caller says.
        unsafe {
            if let Err(list) = self.caches.put(Which::Main, id, list)
                && let Err(list) = self.caches.put(Which::Aux, id, list)
            {
                self.give(below, id, list);
            }
        }
    }

    /// Puts a list into the global layer; what is too much there goes below.
    ///
    /// # Safety
    /// The list is the caller's, who gives it away.
    unsafe fn give<B: Below>(&self, below: &B, id: SizeId, list: List) {
        let Some(shelf) = self.shelves.get(id.index()).filter(|_| !list.is_empty()) else { return };
        let excess = {
            let _guard = self.caches.guard();
            // SAFETY: as the caller says.
            unsafe { self.locked(&shelf.0).put(list, B::targets(id)) }
        };
        if let Some(excess) = excess {
            // SAFETY: the lists were taken.
            unsafe { below.put(id, &excess) };
        }
    }

    /// Gives full lists of the global layer below that have so many blocks; all of them, if they have fewer.
    pub(crate) fn give_back<B: Below>(&self, below: &B, id: SizeId, blocks: usize) {
        let Some(shelf) = self.shelves.get(id.index()) else { return };
        let first = {
            let _guard = self.caches.guard();
            self.locked(&shelf.0).take_first(blocks, B::target(id))
        };
        if let Some(first) = first {
            // SAFETY: the lists were taken.
            unsafe { below.put(id, &first) };
        }
    }

    /// A list from the layers below.
    fn supply<B: Below>(&self, below: &B, id: SizeId) -> Option<List> {
        let find = || Some(self.find(below, id)).filter(|list| !list.is_empty());
        self.insist(below, || below.reclaim(id), find)
    }

    /// Tries to take something; again, when the caches have given back what they have; and again, when
    /// something was made free elsewhere: it may be in a cache now.
    pub(crate) fn insist<B: Below, T>(
        &self,
        below: &B,
        reclaim: impl FnOnce() -> bool,
        take: impl Fn() -> Option<T>,
    ) -> Option<T> {
        let flushed = || {
            self.flush(below);
            take()
        };
        take().or_else(flushed).or_else(|| reclaim().then(flushed).flatten())
    }

    /// A list of the global layer, which is filled from below if it has none.
    fn find<B: Below>(&self, below: &B, id: SizeId) -> List {
        let Some(shelf) = self.shelves.get(id.index()) else { return List::EMPTY };
        let (lot, next, wanted) = {
            let _guard = self.caches.guard();
            let mut global = self.locked(&shelf.0);
            (global.take(), global.next(), global.wanted(B::wanted(id)))
        };
        if !lot.is_empty() {
            next.into_iter().for_each(|next| next.fetch(B::bytes(id)));
            // SAFETY: the lot was taken.
            return unsafe { lot.link(B::bytes(id)) };
        }
        let mut made = Lists::new();
        below.take(id, wanted, &mut made);
        let mut lots = made.iter();
        let first = lots.next().unwrap_or(Lot::EMPTY);
        lots.clone().take(1).for_each(|next| next.fetch(B::bytes(id)));
        let excess = {
            let _guard = self.caches.guard();
            let mut global = self.locked(&shelf.0);
            // Half of it goes when there are too many, so that there are not too many once more.
            // SAFETY: the lists were made for this call.
            lots.rev().filter_map(|lot| unsafe { global.fill(lot, B::targets(id)) }).last()
        };
        if let Some(excess) = excess {
            // SAFETY: the lists were taken.
            unsafe { below.put(id, &excess) };
        }
        // SAFETY: the lot was made for this call.
        unsafe { first.link(B::bytes(id)) }
    }

    /// Gives the blocks of a CPU's caches to the global layer. False, if the CPU cannot be reached.
    pub(crate) fn flush_cpu<B: Below>(&self, below: &B, cpu: usize) -> bool {
        self.caches.steal_each(cpu, B::kinds(), |id, lists| {
            // SAFETY: the lists were taken.
            lists.into_iter().for_each(|list| unsafe { self.give(below, id, list) });
        })
    }

    /// Gives all blocks below.
    pub(crate) fn flush<B: Below>(&self, below: &B) {
        for cpu in 0..self.caches.cpus() {
            self.flush_cpu(below, cpu);
        }
        self.flush_global(below, |_, _| true);
    }

    /// Gives the blocks of the global layer below, of each kind of which it is said, by the calls that it has seen.
    pub(crate) fn flush_global<B: Below>(
        &self,
        below: &B,
        mut is_to_go: impl FnMut(SizeId, u64) -> bool,
    ) {
        for (id, shelf) in B::kinds().zip(&self.shelves) {
            let all = {
                let _guard = self.caches.guard();
                let mut global = self.locked(&shelf.0);
                let GlobalCounts { takes, puts, .. } = global.counts();
                if is_to_go(id, takes.wrapping_add(puts)) { global.take_all() } else { continue }
            };
            // SAFETY: the lists were taken.
            unsafe { below.put(id, &all) };
        }
    }

    /// Gives the lists of a CPU to the global layer that are as they were when this was last called. False, if the CPU
    /// cannot be seen.
    pub(crate) fn flush_unused<B: Below>(&self, below: &B, cpu: usize, seen: &mut Seen) -> bool {
        B::kinds().fold(true, |reached, id| {
            let Some(sign) = self.caches.sign(cpu, id) else { return false };
            if seen.see(id, sign) {
                let lists = self.caches.steal(cpu, id).into_iter().flatten();
                // SAFETY: the lists were taken.
                lists.for_each(|list| unsafe { self.give(below, id, list) });
            }
            reached
        })
    }

    /// What the global layer of a kind has done, and the blocks that are there.
    pub(crate) fn counts<B: Below>(&self, _: &B, id: SizeId) -> Option<(GlobalCounts, usize)> {
        let shelf = self.shelves.get(id.index())?;
        let _guard = self.caches.guard();
        let global = self.locked(&shelf.0);
        Some((global.counts(), global.blocks(B::target(id))))
    }

    /// Takes every lock, and forgets it.
    pub(crate) fn lock_all(&self) {
        self.shelves.iter().for_each(|shelf| core::mem::forget(self.locked(&shelf.0)));
    }

    /// Lets go of every lock.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock_all`](Self::lock_all).
    pub(crate) unsafe fn unlock_all(&self) {
        // SAFETY: as the caller says.
        self.shelves.iter().for_each(|shelf| unsafe { shelf.0.let_go() });
    }
}
