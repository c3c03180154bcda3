//! The allocator: what becomes of a request, layer by layer.

use core::iter;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;

use crate::checked::{Marks, is_block, is_span};
use crate::coalesce::{Coalesce, CoalesceCounts, MAX_SLAB};
use crate::counted::CpuCounts;
use crate::cpu::PerCpu;
use crate::found::{Found, look, wrong};
use crate::global::{Global, GlobalCounts, Lists};
use crate::lock::Lock;
use crate::misuse::Misuse;
use crate::page::{Descriptor, Kind, PageId};
use crate::pages::Pages;
use crate::places::{Place, Places};
use crate::seen::Seen;
use crate::size::{MAX_SIZES, PAGE, Size, SizeId, Sizes};
use crate::upper::{Below, Upper};
use crate::whole;

/// A size that was looked up once, or when the program was compiled: what the paper calls a cookie (section 3.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie<S> {
    pub(crate) id: SizeId,
    sizes: core::marker::PhantomData<S>,
}

impl<S: Sizes> Cookie<S> {
    /// The cookie for blocks of at least `bytes`. `None` above [`Sizes::MOST`].
    pub fn new(bytes: usize) -> Option<Cookie<S>> {
        S::of(bytes).map(|id| Cookie { id, sizes: core::marker::PhantomData })
    }

    /// The cookie for blocks of `BYTES`, looked up when the program is compiled, which fails above [`Sizes::MOST`].
    pub const fn of<const BYTES: usize>() -> Cookie<S> {
        Cookie { id: const { S::TABLE.of_bytes(BYTES) }, sizes: core::marker::PhantomData }
    }

    /// The cookie of the size with this number, from 0. `None` above the last one.
    #[inline]
    pub fn of_number(number: usize) -> Option<Cookie<S>> {
        let id = SizeId::from_byte(number as u8);
        (number < S::COUNT).then_some(Cookie { id, sizes: core::marker::PhantomData })
    }

    /// The number of its size: for those who keep cookies as numbers.
    pub fn number(self) -> usize {
        self.id.index()
    }

    /// Bytes of its blocks.
    pub fn bytes(self) -> usize {
        S::size(self.id).bytes
    }
}

/// Who hears of wrong calls, and of memory that is short.
pub trait Hooks: Sync {
    /// Is each block marked that is in use? Then every wrong free is found at the call. [`Checked`](crate::Checked) says so.
    const CHECKED: bool = false;

    /// The marks of a page, if each block is marked that is in use. There is no memory in pages that have none.
    fn marks(&self, page: PageId) -> Option<&Marks> {
        let _ = page;
        None
    }

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

/// The McKenney–Slingwine kernel memory allocator.
///
/// `C` are the caches of the CPUs, `P` is where pages come from, `S` says which sizes there are, and `H` hears of wrong
/// calls and of memory that is short.
pub struct Kmem<C, P, S, H = ()> {
    upper: Upper<C>,
    pages: P,
    hooks: H,
    coalesce: [Lock<Coalesce>; MAX_SIZES],
    sizes: core::marker::PhantomData<S>,
}

/// What one size has, and what its layers have done.
#[derive(Clone, Copy, Debug)]
pub struct SizeStats {
    /// Bytes of a block.
    pub bytes: usize,
    /// Blocks of a full list.
    pub target: usize,
    /// Lists that come from the pages, or go there, at a time: the paper's `gbltarget`. Of blocks that are pages, one comes at a
    /// time.
    pub lists: usize,
    /// The per-CPU layer; `None`, if its caches do not count what they are asked for: [`Counted`](crate::Counted) ones do.
    pub cpu: Option<CpuCounts>,
    /// The global layer.
    pub global: GlobalCounts,
    /// Blocks in the global layer.
    pub global_blocks: usize,
    /// The coalesce-to-page layer.
    pub coalesce: CoalesceCounts,
    /// Pages of its slabs.
    pub pages: usize,
}

impl<C, P, S, H> Kmem<C, P, S, H> {
    /// Where its counters lie, for whoever reads its memory from outside.
    pub const PLACES: Places = {
        let global = Upper::<C>::GLOBALS.plus(offset_of!(Self, upper));
        let counts = global.plus(Global::COUNTS);
        let coalesce = Place {
            offset: offset_of!(Self, coalesce) + Lock::<Coalesce>::INSIDE + Coalesce::COUNTS,
            stride: size_of::<Lock<Coalesce>>(),
        };
        Places {
            caches: offset_of!(Self, upper) + Upper::<C>::CACHES,
            pages: offset_of!(Self, pages),
            takes: counts.plus(offset_of!(GlobalCounts, takes)),
            take_misses: counts.plus(offset_of!(GlobalCounts, take_misses)),
            puts: counts.plus(offset_of!(GlobalCounts, puts)),
            put_misses: counts.plus(offset_of!(GlobalCounts, put_misses)),
            lists: global.plus(Global::LISTS),
            bucket: global.plus(Global::BUCKET),
            splits: coalesce.plus(offset_of!(CoalesceCounts, splits)),
            coalesces: coalesce.plus(offset_of!(CoalesceCounts, coalesces)),
            free: coalesce.plus(offset_of!(CoalesceCounts, free)),
        }
    };
}

impl<C: PerCpu, P: Pages, S: Sizes, H: Hooks> Kmem<C, P, S, H> {
    /// An allocator that has no pages yet.
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub const fn new(caches: C, pages: P, hooks: H) -> Self {
        let coalesce = [const { Lock::new(Coalesce::new()) }; MAX_SIZES];
        let upper = Upper::new(caches);
        Kmem { upper, pages, hooks, coalesce, sizes: core::marker::PhantomData }
    }

    /// The same for atomics of a checker.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub fn new(caches: C, pages: P, hooks: H) -> Self {
        let coalesce = core::array::from_fn(|_| Lock::new(Coalesce::new()));
        let upper = Upper::new(caches);
        Kmem { upper, pages, hooks, coalesce, sizes: core::marker::PhantomData }
    }

    /// Makes an allocator where it is to stay. It is some 60 KiB long, which is more than a kernel's stack may have
    /// left.
    pub fn init(place: &mut MaybeUninit<Self>, caches: C, pages: P, hooks: H) -> &mut Self {
        let at = place.as_mut_ptr();
        // SAFETY: each field is written, and lies in the place.
        unsafe {
            (&raw mut (*at).pages).write(pages);
            (&raw mut (*at).hooks).write(hooks);
            Upper::init(&raw mut (*at).upper, caches);
            let coalesce = (&raw mut (*at).coalesce).cast::<Lock<Coalesce>>();
            (0..MAX_SIZES).for_each(|size| coalesce.add(size).write(Lock::new(Coalesce::new())));
            place.assume_init_mut()
        }
    }

    /// Where its pages come from.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The caches of its CPUs.
    pub fn caches(&self) -> &C {
        self.upper.caches()
    }

    /// Who hears of wrong calls.
    pub fn hooks(&self) -> &H {
        &self.hooks
    }

    /// Allocates a block of a cookie's size.
    ///
    /// `None`: there is no memory, in no cache of a CPU that can be reached either. What other CPUs have in hand
    /// meanwhile may be missed.
    #[inline]
    pub fn alloc_cookie(&self, cookie: Cookie<S>) -> Option<NonNull<u8>> {
        let block = self.upper.alloc(self, cookie.id)?;
        // SAFETY: the layers had it.
        self.marked(unsafe { self.handed_out(cookie.id, block) })
    }

    /// The block that is meant by what the layers have handed out.
    ///
    /// # Safety
    /// They have, for this size.
    #[inline(always)]
    pub(crate) unsafe fn handed_out(&self, id: SizeId, block: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: as the caller says.
        if S::is_paged(id) { unsafe { self.paged_out(id, block) } } else { block }
    }

    /// The same of a block of a page or more, whose descriptor says from now on that it is not free.
    ///
    /// # Safety
    /// As for [`handed_out`](Self::handed_out).
    #[inline(never)]
    unsafe fn paged_out(&self, id: SizeId, block: NonNull<u8>) -> NonNull<u8> {
        if S::is_page(id) {
            // SAFETY: as the caller says.
            return unsafe { self.page_out(block) };
        }
        if let Some((page, _)) = self.pages.find(block.as_ptr()) {
            self.pages.descriptor(page.plus(1)).hand_out();
        }
        block
    }

    /// The same of a block that is a page.
    ///
    /// # Safety
    /// As for [`handed_out`](Self::handed_out).
    #[inline(always)]
    pub(crate) unsafe fn page_out(&self, token: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: what the layers have of such a size is descriptors.
        self.pages.address(unsafe { Descriptor::of_token(token) }.hand_out())
    }

    /// The descriptor of the page that begins at an address.
    #[inline(always)]
    pub(crate) fn beginning(&self, at: *mut u8) -> Option<&Descriptor> {
        match self.pages.find(at)? {
            (page, 0) => Some(self.pages.descriptor(page)),
            _ => None,
        }
    }

    /// The descriptor that says whether a block of a page or more is free, by where it begins.
    fn mark(&self, slab: PageId, id: SizeId, offset: usize) -> &Descriptor {
        self.pages.descriptor(slab.plus(offset / PAGE + usize::from(!S::is_page(id))))
    }

    /// Frees a block of a cookie's size.
    ///
    /// # Safety
    /// The block was allocated here for this size, and the caller uses it no more.
    #[inline]
    pub unsafe fn free_cookie(&self, cookie: Cookie<S>, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe { self.free_sized(cookie.id, block) };
    }

    /// Frees a block of this size.
    ///
    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    #[inline]
    unsafe fn free_sized(&self, id: SizeId, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe {
            match H::CHECKED {
                true => self.free_marked(block, is_block(id)),
                false => self.free_block(id, block),
            }
        }
    }

    /// Frees a span of so many pages.
    ///
    /// # Safety
    /// As for [`free_any`](Self::free_any).
    unsafe fn free_span(&self, pages: usize, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe {
            match H::CHECKED {
                true => self.free_marked(block, is_span(pages)),
                false => self.free_rare(block, Some(pages)),
            }
        }
    }

    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    #[inline]
    unsafe fn free_block(&self, id: SizeId, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe {
            if S::is_paged(id) {
                self.free_paged(id, block);
            } else {
                self.upper.free(self, id, block);
            }
        }
    }

    /// Frees a block of a page or more. Apart from the others, so that those stay short.
    ///
    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    #[inline(never)]
    unsafe fn free_paged(&self, id: SizeId, block: NonNull<u8>) {
        match self.paged_back(id, block.as_ptr()) {
            // SAFETY: as the caller says, and this is what stands for the block.
            Ok(listed) => unsafe { self.upper.free(self, id, listed) },
            Err(wrong) => self.hooks.misuse(wrong),
        }
    }

    /// What stands in the lists for a block of a page or more, whose descriptor says from now on that it is free.
    ///
    /// # Errors
    /// There is no such block in use, and nothing has changed.
    #[inline]
    pub(crate) fn paged_back(&self, id: SizeId, at: *mut u8) -> Result<NonNull<u8>, Misuse> {
        if S::is_page(id)
            && let Some(listed) = self.beginning(at).and_then(|page| page.take_back_whole(id))
        {
            return Ok(listed);
        }
        match look(&self.pages, at) {
            Some((Found::Slab(slab, found), offset)) if found == id => {
                // Behind the last block there may be no descriptor.
                if !S::is_block(id, offset) {
                    return Err(Misuse::Interior(at));
                }
                let mark = self.mark(slab, id, offset);
                if !mark.take_back() {
                    Err(Misuse::DoubleFree(at))
                } else if S::is_page(id) {
                    Ok(mark.token())
                } else {
                    NonNull::new(at).ok_or(Misuse::Foreign(at))
                }
            }
            None => Err(Misuse::Foreign(at)),
            Some(_) => Err(Misuse::WrongSize(at)),
        }
    }

    /// Allocates `bytes` bytes, at a multiple of 16: the paper's `kmem_alloc`. Above [`Sizes::MOST`] they are pages.
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
            Some(id) => unsafe { self.free_sized(id, block) },
            // SAFETY: as the caller says.
            None => unsafe { self.free_span(bytes.div_ceil(PAGE), block) },
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
            Some(id) => unsafe { self.free_sized(id, block) },
            // SAFETY: as the caller says.
            None => unsafe { self.free_span(bytes.div_ceil(PAGE).max(1), block) },
        }
    }

    /// Frees a block of any size: the page's descriptor says which.
    ///
    /// # Safety
    /// The block was allocated here, and the caller uses it no more.
    #[inline]
    pub unsafe fn free_any(&self, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        if !unsafe { self.free_if_here(block) } {
            self.hooks.misuse(Misuse::Foreign(block.as_ptr()));
        }
    }

    /// The same, for callers that have other memory too: false, and nothing is done, if the address lies in no page that
    /// could be one of these.
    ///
    /// # Safety
    /// If it does, as for [`free_any`](Self::free_any).
    #[inline]
    pub unsafe fn free_if_here(&self, block: NonNull<u8>) -> bool {
        if !H::CHECKED {
            // SAFETY: as the caller says.
            return unsafe { self.free_by_page(block) };
        }
        let is_here = self.pages.find(block.as_ptr()).is_some();
        if is_here {
            // SAFETY: as the caller says.
            unsafe { self.free_marked(block, |_| true) };
        }
        is_here
    }

    /// The same by the page's descriptor alone.
    ///
    /// # Safety
    /// As for [`free_if_here`](Self::free_if_here).
    #[inline]
    pub(crate) unsafe fn free_by_page(&self, block: NonNull<u8>) -> bool {
        let Some((page, within)) = self.pages.find(block.as_ptr()) else { return false };
        match self.pages.descriptor(page).slab() {
            // SAFETY: as the caller says; the descriptor has the size with which the block was allocated.
            Some((id, before)) if S::is_block(id, before + within) => unsafe {
                self.free_block(id, block);
            },
            Some(_) => self.hooks.misuse(Misuse::Interior(block.as_ptr())),
            // SAFETY: as the caller says.
            None => unsafe { self.free_rare(block, None) },
        }
        true
    }

    /// Bytes that may be used of a block. `None`, if no block in use begins there, as far as its descriptor shows, or its mark.
    pub fn usable(&self, block: NonNull<u8>) -> Option<usize> {
        if !self.may_be_used(block) {
            return None;
        }
        match look(&self.pages, block.as_ptr())? {
            (Found::Slab(slab, id), offset) if S::is_block(id, offset) => {
                let is_out = !S::is_paged(id) || self.mark(slab, id, offset).is_out();
                is_out.then(|| S::size(id).bytes)
            }
            (Found::Span(_, pages), 0) => Some(pages * PAGE),
            _ => None,
        }
    }

    /// What is wrong with the free of something that is no block in use, as [`usable`](Self::usable) has said.
    pub fn wrong(&self, block: NonNull<u8>) -> Misuse {
        let _guard = self.caches().guard();
        self.pages.hold(|| wrong::<P, S>(&self.pages, block.as_ptr()))
    }

    /// Is the memory zero of a block that was allocated just now, and that nobody has written to? False: it is not known. The
    /// pages say so ([`Pages::is_zero`]) of a span, and of a block that is a page and was never freed to the layers above them.
    /// Of other blocks it is never known.
    pub fn is_zero(&self, block: NonNull<u8>) -> bool {
        match look(&self.pages, block.as_ptr()) {
            Some((Found::Span(first, count), 0)) => self.pages.is_zero(first, count),
            Some((Found::Slab(page, id), 0)) if S::is_page(id) => {
                !self.pages.descriptor(page).is_used() && self.pages.is_zero(page, 1)
            }
            _ => false,
        }
    }

    /// Gives the blocks of a CPU's caches to the global layer: now and then, when a CPU goes, or when memory is low.
    /// False, if the CPU cannot be reached.
    pub fn flush_cpu(&self, cpu: usize) -> bool {
        self.upper.flush_cpu(self, cpu)
    }

    /// Gives all free blocks back to their pages, and pages that are free to where they came from.
    pub fn flush(&self) {
        self.upper.flush(self);
    }

    /// Gives blocks of a CPU's caches to the global layer, of each size that the CPU has not used since this was last called with
    /// the same `seen`: for a clock or an idle loop, which calls it for its own CPU. False, if the CPU cannot be seen.
    ///
    /// A size counts as unused if its lists are what they were. So one may go of which blocks were allocated and freed in the
    /// reverse order meanwhile; the next call gets it again.
    pub fn flush_unused(&self, cpu: usize, seen: &mut Seen) -> bool {
        self.upper.flush_unused(self, cpu, seen)
    }

    /// Gives the blocks of the global layer back to their pages, and pages that are free to where they came from.
    pub fn flush_global(&self) {
        self.upper.flush_global(self, |_, _| true);
    }

    /// The same of each size for which the global layer was not called since this was last called with the same `seen`: for
    /// one CPU's clock, or a clock of all.
    pub fn flush_unused_global(&self, seen: &mut Seen) {
        // Calls are counted from 0 on, and 0 is what nobody has used.
        self.upper.flush_global(self, |id, calls| seen.see(id, calls));
    }

    /// What a size has, and what its layers have done; `None` above the number of sizes.
    pub fn stats(&self, size: usize) -> Option<SizeStats> {
        let id = S::all().nth(size)?;
        let size = S::size(id);
        let (global, global_blocks) = self.upper.counts(self, id)?;
        let lock = self.coalesce.get(id.index())?;
        let coalesce = {
            let _guard = self.caches().guard();
            self.upper.locked(lock).counts()
        };
        let pages = coalesce.slabs() * size.pages();
        let Size { bytes, target, lists, .. } = *size;
        let cpu = self.caches().counted(id);
        Some(SizeStats { bytes, target, lists, cpu, global, global_blocks, coalesce, pages })
    }

    /// Before others take so many pages: as many of those that the global layer has go where they come from. So it may have as many
    /// lists of pages as of small blocks, and nobody takes more memory for that; but for spans, and slabs of several pages, for
    /// which these would have to lie side by side.
    fn give_pages_back(&self, pages: usize) {
        self.upper.give_back(self, S::ONE_PAGE, pages);
    }

    /// Pages for a request that is larger than any block, or aligned to more than a page.
    #[cold]
    fn alloc_span(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if bytes > isize::MAX as usize || !align.is_power_of_two() {
            return None;
        }
        let count = bytes.div_ceil(PAGE).max(1);
        self.give_pages_back(count);
        let take = || {
            let _guard = self.caches().guard();
            self.pages.alloc(count, align, self.caches().current()).ok()
        };
        let first = self.upper.insist(self, || self.hooks.reclaim(count), take)?;
        self.pages.descriptor(first).set(Kind::Span(count));
        self.marked(self.pages.address(first))
    }

    /// Frees a span, of so many pages if that is said.
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
                let _guard = self.caches().guard();
                // SAFETY: the span was allocated, and the caller uses it no more.
                unsafe { self.pages.free(page, count, self.caches().current()) };
            }
            Some(_) => self.hooks.misuse(Misuse::WrongSize(at)),
        }
    }

    /// Takes every lock: before a process forks, so that its child finds the layers whole. Locks that the pages have are
    /// not among them.
    pub fn lock_all(&self) {
        self.upper.lock_all();
        self.coalesce.iter().for_each(|lock| core::mem::forget(self.upper.locked(lock)));
    }

    /// Lets go of every lock again, in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock_all`](Self::lock_all).
    pub unsafe fn unlock_all(&self) {
        // SAFETY: as the caller says.
        unsafe {
            self.coalesce.iter().for_each(|lock| lock.let_go());
            self.upper.unlock_all();
        }
    }
}

impl<C: PerCpu, P: Pages, S: Sizes, H: Hooks> Below for Kmem<C, P, S, H> {
    fn kinds() -> impl Iterator<Item = SizeId> {
        S::all()
    }

    #[inline]
    fn target(id: SizeId) -> usize {
        S::target(id)
    }

    fn bytes(id: SizeId) -> usize {
        S::size(id).bytes
    }

    fn lists(id: SizeId) -> usize {
        S::size(id).lists
    }

    /// One list of pages: more would be memory that nobody has asked for yet.
    fn wanted(id: SizeId) -> usize {
        if S::is_page(id) { 1 } else { Self::lists(id) }
    }

    /// Of pages they do: 15 lists are 1.9 MiB, and nothing of them is in a processor's cache.
    fn first(id: SizeId) -> bool {
        S::is_page(id)
    }

    fn take(&self, id: SizeId, lists: usize, made: &mut Lists) {
        let Some(lock) = self.coalesce.get(id.index()) else { return };
        let size = S::size(id);
        // Whether the global layer has given pages back. Where pages are wanted, it has none.
        let mut has_given = S::is_page(id);
        while made.len() < lists {
            let guard = self.caches().guard();
            let (pages, cpu) = (&self.pages, self.caches().current());
            let mut layer = self.upper.locked(lock);
            let missing = ((lists - made.len()) * size.target).saturating_sub(layer.counts().free);
            if missing > 0 && !has_given {
                drop(layer);
                drop(guard);
                self.give_pages_back(size.slabs_for(missing) * size.pages());
                has_given = true;
                continue;
            }
            let is_full = if S::is_page(id) {
                let list = whole::take(layer.counts_mut(), (pages, cpu), id, size.target);
                made.push(list);
                list.len() == size.target
            } else {
                layer.take(pages, (id, size), lists - made.len(), cpu, made)
            };
            if !is_full {
                break;
            }
        }
    }

    unsafe fn put(&self, id: SizeId, lists: &Lists) {
        let Some(lock) = self.coalesce.get(id.index()) else { return };
        let size = S::size(id);
        let mut misuse = |misuse| self.hooks.misuse(misuse);
        let mut left = lists.iter().peekable();
        while left.peek().is_some() {
            let _guard = self.caches().guard();
            let cpu = self.caches().current();
            let mut layer = self.upper.locked(lock);
            // SAFETY: as the caller says.
            unsafe {
                // As many as the largest slab has: so a slab whose blocks come together is looked up once, and pages go
                // together, but the lock is not held for all of them. Of blocks that are pages, a list.
                let (mut blocks, most) = (0, if S::is_page(id) { 1 } else { MAX_SLAB });
                let some = iter::from_fn(|| {
                    let lot = if blocks < most { left.next()? } else { return None };
                    blocks += lot.len();
                    Some(lot.link(size.bytes))
                });
                if S::is_page(id) {
                    whole::put(layer.counts_mut(), (&self.pages, cpu), id, some, &mut misuse);
                } else {
                    layer.put(&self.pages, (id, size), some, cpu, &mut misuse);
                }
            }
        }
    }

    fn reclaim(&self, id: SizeId) -> bool {
        self.hooks.reclaim(S::size(id).pages())
    }
}
