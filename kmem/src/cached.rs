//! What needs no more than the CPU's cache.
//!
//! A caller whose calls are to be short, as a C library's `malloc`, asks here first, and goes on to [`alloc`](Kmem::alloc)
//! or [`free_any`](Kmem::free_any) by a call in tail position. Blocks of less than a page have a straight way, without a jump or a call. Those that are
//! a page each have the next short one, as their page's descriptor says all of them; larger ones have functions of their own.

use core::ptr::NonNull;

use crate::cpu::PerCpu;
use crate::kmem::{Hooks, Kmem};
use crate::page::Descriptor;
use crate::pages::Pages;
use crate::size::{PAGE, SizeId, Sizes};

impl<C: PerCpu, P: Pages, S: Sizes, H: Hooks> Kmem<C, P, S, H> {
    /// A block of at least `bytes`, if this CPU's cache has one at hand. `None` says nothing of the memory that there is.
    #[inline(always)]
    pub fn alloc_cached(&self, bytes: usize) -> Option<NonNull<u8>> {
        match S::below_page(bytes) {
            Some(id) => self.marked(self.caches().try_pop(id)?),
            None => self.alloc_paged_cached(bytes),
        }
    }

    /// The same of a page or more.
    #[cold]
    #[inline(never)]
    fn alloc_paged_cached(&self, bytes: usize) -> Option<NonNull<u8>> {
        if bytes <= PAGE {
            let token = self.caches().try_pop(S::ONE_PAGE)?;
            // SAFETY: the cache had it.
            return self.marked(unsafe { self.page_out(token) });
        }
        let id = S::of(bytes)?;
        let block = self.caches().try_pop(id)?;
        // SAFETY: as above.
        self.marked(unsafe { self.handed_out(id, block) })
    }

    /// Frees a block of any size, if this CPU's cache has room for it at hand. False, and nothing is done, if not, or if no block
    /// begins there.
    ///
    /// # Safety
    /// If the address lies in a page of this allocator, as for [`free_any`](Kmem::free_any).
    #[inline(always)]
    pub unsafe fn free_cached(&self, block: NonNull<u8>) -> bool {
        // SAFETY: as the caller says.
        let free = || unsafe { self.free_cached_by_page(block) };
        if H::CHECKED { self.free_marked_if(block, None, free) } else { free() }
    }

    /// # Safety
    /// As for [`free_cached`](Self::free_cached).
    #[inline(always)]
    unsafe fn free_cached_by_page(&self, block: NonNull<u8>) -> bool {
        let Some((page, within)) = self.pages().find(block.as_ptr()) else { return false };
        let descriptor = self.pages().descriptor(page);
        let Some((id, before)) = descriptor.slab() else { return false };
        // SAFETY: as the caller says; the descriptor has the size with which the block was allocated.
        unsafe {
            if S::is_paged(id) {
                self.free_paged_cached(id, block, || (within == 0).then_some(descriptor))
            } else {
                S::is_block(id, before + within) && self.caches().try_push(id, block, S::target(id))
            }
        }
    }

    /// The same of a block that was allocated for so many bytes.
    ///
    /// # Safety
    /// As for [`free`](Kmem::free).
    #[inline(always)]
    pub unsafe fn free_cached_sized(&self, block: NonNull<u8>, bytes: usize) -> bool {
        let Some(id) = S::below_page(bytes) else {
            // SAFETY: as the caller says.
            return unsafe { self.free_paged_cached_sized(block, bytes) };
        };
        // SAFETY: as the caller says.
        let free = || unsafe { self.caches().try_push(id, block, S::target(id)) };
        if H::CHECKED { self.free_marked_if(block, Some(id), free) } else { free() }
    }

    /// The same of a page or more.
    ///
    /// # Safety
    /// As for [`free`](Kmem::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_paged_cached_sized(&self, block: NonNull<u8>, bytes: usize) -> bool {
        let Some(id) = S::of(bytes) else { return false };
        // SAFETY: as the caller says.
        let free =
            || unsafe { self.free_paged_cached(id, block, || self.beginning(block.as_ptr())) };
        if H::CHECKED { self.free_marked_if(block, Some(id), free) } else { free() }
    }

    /// The same of a block of a page or more. `begins` is asked for the descriptor of the page that the block begins, if it begins one. What is no such block is
    /// left to the other way, which says so.
    ///
    /// # Safety
    /// As for [`free_cookie`](Kmem::free_cookie).
    #[inline(always)]
    unsafe fn free_paged_cached<'a>(
        &self,
        id: SizeId,
        block: NonNull<u8>,
        begins: impl FnOnce() -> Option<&'a Descriptor>,
    ) -> bool {
        if S::is_page(id)
            && let Some(token) = begins().and_then(|page| page.take_back_whole(S::ONE_PAGE))
        {
            // SAFETY: as the caller says, and this is what stands for the page.
            return unsafe { self.push_back(S::ONE_PAGE, token) };
        }
        // SAFETY: as the caller says.
        unsafe { self.free_wide_cached(id, block) }
    }

    /// The same, by all that is known of its page.
    ///
    /// # Safety
    /// As for [`free_cookie`](Kmem::free_cookie).
    #[inline(never)]
    unsafe fn free_wide_cached(&self, id: SizeId, block: NonNull<u8>) -> bool {
        // SAFETY: as the caller says, and this is what stands for the block.
        let push = |listed| unsafe { self.push_back(id, listed) };
        self.paged_back(id, block.as_ptr()).is_ok_and(push)
    }

    /// Puts what stands for a block on the list, where there is room; else the block is not free after all.
    ///
    /// # Safety
    /// As for [`free_cookie`](Kmem::free_cookie); its page says that it is free.
    #[inline(always)]
    unsafe fn push_back(&self, id: SizeId, listed: NonNull<u8>) -> bool {
        // SAFETY: as the caller says.
        let is_pushed = unsafe { self.caches().try_push(id, listed, S::target(id)) };
        if !is_pushed {
            // SAFETY: it is what the layers would have.
            unsafe { self.handed_out(id, listed) };
        }
        is_pushed
    }
}
