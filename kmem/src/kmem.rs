//! The allocator: what becomes of a request, layer by layer.

use core::ptr::NonNull;

use crate::coalesce::{Coalesce, CoalesceCounts};
use crate::cpu::{PerCpu, Which};
use crate::found::{Found, look};
use crate::global::{Chain, GLOBAL_TARGET, Global, GlobalCounts};
use crate::list::List;
use crate::lock::{Lock, Taken};
use crate::misuse::Misuse;
use crate::page::Kind;
use crate::pages::Pages;
use crate::size::{MAX_SIZE, MAX_SIZES, PAGE, Size, SizeId, Sizes};

/// A size that was looked up once, or when the program was compiled: what the paper calls a cookie (section 3.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie<S> {
    pub(crate) id: SizeId,
    sizes: core::marker::PhantomData<S>,
}

impl<S: Sizes> Cookie<S> {
    /// The cookie for blocks of at least `bytes`. `None` above [`MAX_SIZE`].
    pub fn new(bytes: usize) -> Option<Cookie<S>> {
        S::of(bytes).map(|id| Cookie { id, sizes: core::marker::PhantomData })
    }

    /// The cookie for blocks of `BYTES`, looked up when the program is compiled, which fails above [`MAX_SIZE`].
    pub const fn of<const BYTES: usize>() -> Cookie<S> {
        Cookie { id: const { S::TABLE.of_bytes(BYTES) }, sizes: core::marker::PhantomData }
    }

    /// Bytes of its blocks.
    pub fn bytes(self) -> usize {
        S::size(self.id).bytes
    }
}

/// Who hears of wrong calls, and of memory that is short.
pub trait Hooks: Sync {
    /// A free was wrong. Nothing has been freed. The hook may end the program. It must not call the allocator, a lock of
    /// which may be taken, and runs while its CPU is kept to the caller.
    fn misuse(&self, misuse: Misuse);

    /// There is no memory left, and what the caches had has gone back. True: something was freed, try once more.
    fn reclaim(&self, pages: usize) -> bool {
        let _ = pages;
        false
    }
}

/// Nobody hears of either.
impl Hooks for () {
    fn misuse(&self, _: Misuse) {}
}

/// The layers that all CPUs share, of one size.
struct Shared {
    global: Lock<Global>,
    coalesce: Lock<Coalesce>,
}

/// The McKenney–Slingwine kernel memory allocator.
///
/// `C` are the caches of the CPUs, `P` is where pages come from, `S` says which sizes there are, and `H` hears of wrong
/// calls and of memory that is short.
pub struct Kmem<C, P, S, H = ()> {
    caches: C,
    pages: P,
    hooks: H,
    shared: [Shared; MAX_SIZES],
    sizes: core::marker::PhantomData<S>,
}

/// What one size has, and what its layers have done.
#[derive(Clone, Copy, Debug)]
pub struct SizeStats {
    /// Bytes of a block.
    pub bytes: usize,
    /// Blocks of a full list.
    pub target: usize,
    /// The global layer.
    pub global: GlobalCounts,
    /// Blocks in the global layer.
    pub global_blocks: usize,
    /// The coalesce-to-page layer.
    pub coalesce: CoalesceCounts,
    /// Pages of its slabs.
    pub pages: usize,
}

impl<C: PerCpu, P: Pages, S: Sizes, H: Hooks> Kmem<C, P, S, H> {
    /// An allocator that has no pages yet.
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub const fn new(caches: C, pages: P, hooks: H) -> Self {
        let shared = [const {
            Shared { global: Lock::new(Global::new()), coalesce: Lock::new(Coalesce::new()) }
        }; MAX_SIZES];
        Kmem { caches, pages, hooks, shared, sizes: core::marker::PhantomData }
    }

    /// The same for atomics of a checker.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub fn new(caches: C, pages: P, hooks: H) -> Self {
        let shared = core::array::from_fn(|_| Shared {
            global: Lock::new(Global::new()),
            coalesce: Lock::new(Coalesce::new()),
        });
        Kmem { caches, pages, hooks, shared, sizes: core::marker::PhantomData }
    }

    /// Where its pages come from.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The caches of its CPUs.
    pub fn caches(&self) -> &C {
        &self.caches
    }

    /// Who hears of wrong calls.
    pub fn hooks(&self) -> &H {
        &self.hooks
    }

    /// Allocates a block of a cookie's size.
    ///
    /// `None`: there is no memory, in no cache of a CPU that can be reached either. What other CPUs free or move
    /// meanwhile may be missed.
    #[inline]
    pub fn alloc_cookie(&self, cookie: Cookie<S>) -> Option<NonNull<u8>> {
        match self.caches.pop(cookie.id) {
            None => self.refill(cookie.id),
            block => block,
        }
    }

    /// Frees a block of a cookie's size.
    ///
    /// # Safety
    /// The block was allocated here for this size, and the caller uses it no more.
    #[inline]
    pub unsafe fn free_cookie(&self, cookie: Cookie<S>, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe { self.free_block(cookie.id, block) };
    }

    /// Allocates `bytes` bytes, at a multiple of 16: the paper's `kmem_alloc`. Above [`MAX_SIZE`] they are pages.
    ///
    /// `None`: there is no memory, or `bytes` is more than an address space has.
    #[inline]
    pub fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        match Cookie::new(bytes) {
            Some(cookie) => self.alloc_cookie(cookie),
            None => self.alloc_span(bytes, PAGE),
        }
    }

    /// The same at a multiple of `align`, a power of two. The block may be larger than one for so many bytes:
    /// [`free_aligned`](Self::free_aligned) frees it, or [`free_any`](Self::free_any).
    #[inline]
    pub fn alloc_aligned(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if align > PAGE {
            return self.alloc_span(bytes, align);
        }
        match S::aligned(bytes, align) {
            Some(id) => self.alloc_cookie(Cookie { id, sizes: core::marker::PhantomData }),
            None => self.alloc_span(bytes, align),
        }
    }

    /// Frees what [`alloc`](Self::alloc) returned for so many bytes: the paper's `kmem_free`.
    ///
    /// # Safety
    /// It did, and the caller uses the memory no more.
    #[inline]
    pub unsafe fn free(&self, block: NonNull<u8>, bytes: usize) {
        match S::of(bytes) {
            // SAFETY: as the caller says.
            Some(id) => unsafe { self.free_block(id, block) },
            // SAFETY: as the caller says.
            None => unsafe { self.free_rare(block, Some(bytes.div_ceil(PAGE))) },
        }
    }

    /// Frees what [`alloc_aligned`](Self::alloc_aligned) returned for so many bytes at so large an alignment.
    ///
    /// # Safety
    /// It did, and the caller uses the memory no more.
    #[inline]
    pub unsafe fn free_aligned(&self, block: NonNull<u8>, bytes: usize, align: usize) {
        match S::aligned(bytes, align).filter(|_| align <= PAGE) {
            // SAFETY: as the caller says.
            Some(id) => unsafe { self.free_block(id, block) },
            // SAFETY: as the caller says.
            None => unsafe { self.free_rare(block, Some(bytes.div_ceil(PAGE).max(1))) },
        }
    }

    /// Frees a block of any size: the page's descriptor says which.
    ///
    /// # Safety
    /// The block was allocated here, and the caller uses it no more.
    #[inline]
    pub unsafe fn free_any(&self, block: NonNull<u8>) {
        let Some((page, _)) = self.pages.find(block.as_ptr()) else {
            return self.hooks.misuse(Misuse::Foreign(block.as_ptr()));
        };
        match self.pages.descriptor(page).slab_size() {
            // SAFETY: as the caller says; the descriptor has the size with which the block was allocated.
            Some(id) => unsafe { self.free_block(id, block) },
            // SAFETY: as the caller says.
            None => unsafe { self.free_rare(block, None) },
        }
    }

    /// Bytes that may be used of a block. `None`, if no block in use begins there, as far as its descriptor shows.
    pub fn usable(&self, block: NonNull<u8>) -> Option<usize> {
        match look(&self.pages, block.as_ptr())? {
            (Found::Slab(_, id), offset) if S::size(id).is_block(offset) => Some(S::size(id).bytes),
            (Found::Span(_, pages), 0) => Some(pages * PAGE),
            _ => None,
        }
    }

    #[inline]
    unsafe fn free_block(&self, id: SizeId, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        if !unsafe { self.caches.push(id, block, S::size(id).target) } {
            // SAFETY: as the caller says.
            unsafe { self.spill(id, block) };
        }
    }

    /// *main* is empty: *aux* comes in its place, or a list of the global layer.
    #[cold]
    #[inline(never)]
    fn refill(&self, id: SizeId) -> Option<NonNull<u8>> {
        let aux = self.caches.take(Which::Aux, id);
        let list = if aux.is_empty() { self.supply(id)? } else { aux };
        // SAFETY: the list was taken.
        let (block, rest) = unsafe { list.pop() }?;
        // SAFETY: as above.
        unsafe { self.keep(id, rest) };
        Some(block)
    }

    /// *main* is full: it becomes *aux*, whose blocks go to the global layer, and the block begins a new one.
    ///
    /// # Safety
    /// The block is the caller's, who gives it away.
    #[cold]
    #[inline(never)]
    unsafe fn spill(&self, id: SizeId, block: NonNull<u8>) {
        let aux = self.caches.take(Which::Aux, id);
        let main = self.caches.take(Which::Main, id);
        // SAFETY: the lists were taken, and the block is the caller's.
        unsafe {
            self.give(id, aux);
            if let Err(main) = self.caches.put(Which::Aux, id, main) {
                self.give(id, main);
            }
            self.keep(id, List::EMPTY.push(block));
        }
    }

    /// Puts a list into this CPU's cache, where there is room; else into the global layer.
    ///
    /// # Safety
    /// The list is the caller's, who gives it away.
    unsafe fn keep(&self, id: SizeId, list: List) {
        if list.is_empty() {
            return;
        }
        // SAFETY: as the caller says.
        unsafe {
            if let Err(list) = self.caches.put(Which::Main, id, list)
                && let Err(list) = self.caches.put(Which::Aux, id, list)
            {
                self.give(id, list);
            }
        }
    }

    /// Puts a list into the global layer; what is too much there goes into its pages.
    ///
    /// # Safety
    /// The list is the caller's, who gives it away.
    unsafe fn give(&self, id: SizeId, list: List) {
        if list.is_empty() {
            return;
        }
        let Some((shared, size)) = self.shared(id) else { return };
        let _guard = self.caches.guard();
        // SAFETY: as the caller says.
        let excess = unsafe { self.locked(&shared.global).put(list, size.target) };
        // SAFETY: the chain is this call's.
        unsafe { self.coalesce(shared, (id, size), excess) };
    }

    /// Puts the blocks of lists back into their pages.
    ///
    /// # Safety
    /// The lists are the caller's, who gives them away.
    unsafe fn coalesce(&self, shared: &Shared, (id, size): (SizeId, &Size), mut lists: Chain) {
        let cpu = self.caches.current();
        while let Some(list) = lists.pop() {
            let mut misuse = |misuse| self.hooks.misuse(misuse);
            // SAFETY: the list is of the caller's chain.
            unsafe {
                let mut layer = self.locked(&shared.coalesce);
                layer.put(&self.pages, (id, size), list, cpu, &mut misuse);
            }
        }
    }

    /// A list from the layers below.
    fn supply(&self, id: SizeId) -> Option<List> {
        self.insist(S::size(id).pages(), || {
            let list = self.find(id);
            (!list.is_empty()).then_some(list)
        })
    }

    /// Tries to take something; again, when the caches have given back what they have; and again, when so many pages or
    /// more may have been made free elsewhere. What was made free there may be in a cache.
    fn insist<T>(&self, pages: usize, take: impl Fn() -> Option<T>) -> Option<T> {
        let flushed = || {
            self.flush();
            take()
        };
        take().or_else(flushed).or_else(|| self.hooks.reclaim(pages).then(flushed).flatten())
    }

    /// A list of the global layer, which is filled from pages if it has none.
    fn find(&self, id: SizeId) -> List {
        let Some((shared, size)) = self.shared(id) else { return List::EMPTY };
        let _guard = self.caches.guard();
        let list = self.locked(&shared.global).take();
        if !list.is_empty() {
            return list;
        }
        let cpu = self.caches.current();
        let (mut first, mut is_full) = (List::EMPTY, false);
        for _ in 0..GLOBAL_TARGET {
            let list =
                self.locked(&shared.coalesce).take(&self.pages, (id, size), size.target, cpu);
            if first.is_empty() {
                first = list;
            } else {
                // SAFETY: the list was taken from its pages for this call, and the chain is this call's.
                unsafe {
                    let excess = self.locked(&shared.global).fill(list, size.target);
                    is_full = !excess.is_empty();
                    self.coalesce(shared, (id, size), excess);
                }
            }
            if is_full || list.len() < size.target {
                break;
            }
        }
        first
    }

    /// Gives the blocks of a CPU's caches to the global layer: now and then, when a CPU goes, or when memory is low.
    /// False, if the CPU cannot be reached.
    pub fn flush_cpu(&self, cpu: usize) -> bool {
        S::all().fold(true, |reached, id| match self.caches.steal(cpu, id) {
            Some(lists) => {
                // SAFETY: the lists were taken.
                lists.into_iter().for_each(|list| unsafe { self.give(id, list) });
                reached
            }
            None => false,
        })
    }

    /// Gives all free blocks back to their pages, and pages that are free to where they came from.
    pub fn flush(&self) {
        for cpu in 0..self.caches.cpus() {
            self.flush_cpu(cpu);
        }
        for id in S::all() {
            let Some((shared, size)) = self.shared(id) else { continue };
            let _guard = self.caches.guard();
            let (full, bucket) = self.locked(&shared.global).take_all();
            let cpu = self.caches.current();
            // SAFETY: the lists were taken.
            unsafe {
                self.coalesce(shared, (id, size), full);
                let mut misuse = |misuse| self.hooks.misuse(misuse);
                let mut layer = self.locked(&shared.coalesce);
                layer.put(&self.pages, (id, size), bucket, cpu, &mut misuse);
            }
        }
    }

    /// What a size has, and what its layers have done; `None` above the number of sizes.
    pub fn stats(&self, size: usize) -> Option<SizeStats> {
        let id = S::all().nth(size)?;
        let (shared, size) = self.shared(id)?;
        let _guard = self.caches.guard();
        let (global, global_blocks) = {
            let layer = self.locked(&shared.global);
            (layer.counts(), layer.blocks(size.target))
        };
        let coalesce = self.locked(&shared.coalesce).counts();
        let pages = coalesce.slabs() * size.pages();
        let Size { bytes, target, .. } = *size;
        Some(SizeStats { bytes, target, global, global_blocks, coalesce, pages })
    }

    /// Pages for a request that is larger than any block, or aligned to more than a page.
    #[cold]
    fn alloc_span(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if bytes > isize::MAX as usize || !align.is_power_of_two() {
            return None;
        }
        let count = bytes.div_ceil(PAGE).max(1);
        let first = self.insist(count, || {
            let _guard = self.caches.guard();
            self.pages.alloc(count, align, self.caches.current()).ok()
        })?;
        self.pages.descriptor(first).set(Kind::Span(count));
        Some(self.pages.address(first))
    }

    /// Frees a span, of so many pages if that is said; or a block of a slab whose page is not the slab's first.
    ///
    /// # Safety
    /// As for [`free_any`](Self::free_any).
    #[cold]
    unsafe fn free_rare(&self, block: NonNull<u8>, pages: Option<usize>) {
        let at = block.as_ptr();
        match look(&self.pages, at) {
            None => self.hooks.misuse(Misuse::Foreign(at)),
            Some((Found::Span(..), 1..)) => self.hooks.misuse(Misuse::Interior(at)),
            Some((Found::Span(page, count), 0)) if pages.is_none_or(|pages| pages == count) => {
                self.pages.descriptor(page).set(Kind::None);
                let _guard = self.caches.guard();
                // SAFETY: the span was allocated, and the caller uses it no more.
                unsafe { self.pages.free(page, count, self.caches.current()) };
            }
            // SAFETY: as the caller says.
            Some((Found::Slab(_, id), _)) if pages.is_none() => unsafe {
                self.free_block(id, block);
            },
            Some(_) => self.hooks.misuse(Misuse::WrongSize(at)),
        }
    }

    /// Takes every lock: before a process forks, so that its child finds the layers whole.
    pub fn lock_all(&self) {
        for shared in &self.shared {
            core::mem::forget(self.locked(&shared.global));
            core::mem::forget(self.locked(&shared.coalesce));
        }
    }

    /// Lets go of every lock again, in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock_all`](Self::lock_all).
    pub unsafe fn unlock_all(&self) {
        for shared in &self.shared {
            // SAFETY: as the caller says.
            unsafe {
                shared.coalesce.let_go();
                shared.global.let_go();
            }
        }
    }

    fn shared(&self, id: SizeId) -> Option<(&Shared, &'static Size)> {
        self.shared.get(id.index()).map(|shared| (shared, S::size(id)))
    }

    fn locked<'a, T>(&self, lock: &'a Lock<T>) -> Taken<'a, T> {
        lock.take(|tries| self.caches.wait(tries))
    }
}

/// A request above this bypasses the layers above the pages.
const _: () = assert!(MAX_SIZE <= PAGE);
