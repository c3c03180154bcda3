//! The checking profile: an allocator that knows of each block whether it is in use.
//!
//! ```text
//!   marks   │ 256 bits │ 256 bits │ …      of each page: a bit for each 16 bytes, set where a block in use begins
//! ```
//!
//! 1. A bit is set by the call that hands out the block, and cleared by the one that frees it: of two frees of one block,
//!    one has cleared it.
//! 2. Whoever has cleared the bit of a block has the block, so that its page descriptor stays as it is.
//!
//! A program that does not use this type pays nothing for it.

use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::cpu::PerCpu;
use crate::found::{Found, look, wrong};
use crate::kmem::{Cookie, Hooks, Kmem};
use crate::misuse::Misuse;
use crate::pages::Pages;
use crate::size::{PAGE, SizeId, Sizes};

/// A block begins at a multiple of so many bytes.
const GRAIN: usize = 16;
const BITS: usize = u64::BITS as usize;

/// Where blocks in use begin in one page. All zero is a page without any.
#[derive(Default)]
pub struct Marks([AtomicU64; PAGE / GRAIN / BITS]);

/// An allocator that finds each wrong free at the call, before anything is changed by it, and tells [`Hooks::misuse`].
///
/// What it cannot find: a free of a block that was freed before, and has been handed out again since.
pub struct Checked<'a, C, P, S, H = ()> {
    kmem: Kmem<C, P, S, H>,
    marks: &'a [Marks],
}

impl<'a, C: PerCpu, P: Pages, S: Sizes, H: Hooks> Checked<'a, C, P, S, H> {
    /// Checks calls of an allocator of which nobody has a block yet. `marks` are zero, one for each page: there is no
    /// memory in pages that have none.
    pub fn new(kmem: Kmem<C, P, S, H>, marks: &'a [Marks]) -> Self {
        Checked { kmem, marks }
    }

    /// The allocator. A block that it hands out itself is unknown here.
    pub fn kmem(&self) -> &Kmem<C, P, S, H> {
        &self.kmem
    }

    /// As [`Kmem::alloc_cookie`].
    pub fn alloc_cookie(&self, cookie: Cookie<S>) -> Option<NonNull<u8>> {
        self.hand_out(self.kmem.alloc_cookie(cookie)?)
    }

    /// As [`Kmem::alloc`].
    pub fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.hand_out(self.kmem.alloc(bytes)?)
    }

    /// As [`Kmem::alloc_aligned`].
    pub fn alloc_aligned(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        self.hand_out(self.kmem.alloc_aligned(bytes, align)?)
    }

    /// As [`Kmem::free_cookie`].
    ///
    /// # Safety
    /// If it is a block in use, the caller uses it no more.
    pub unsafe fn free_cookie(&self, cookie: Cookie<S>, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe { self.free_if(block, is_block(cookie.id)) };
    }

    /// As [`Kmem::free`].
    ///
    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    pub unsafe fn free(&self, block: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller says.
        unsafe { self.free_sized(block, S::of(bytes), bytes) };
    }

    /// As [`Kmem::free_aligned`].
    ///
    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    pub unsafe fn free_aligned(&self, block: NonNull<u8>, bytes: usize, align: usize) {
        let id = S::aligned(bytes, align).filter(|_| align <= PAGE);
        // SAFETY: as the caller says.
        unsafe { self.free_sized(block, id, bytes) };
    }

    /// As [`Kmem::free_any`].
    ///
    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    pub unsafe fn free_any(&self, block: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe { self.free_if(block, |_| true) };
    }

    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    unsafe fn free_sized(&self, block: NonNull<u8>, id: Option<SizeId>, bytes: usize) {
        let pages = bytes.div_ceil(PAGE).max(1);
        // SAFETY: as the caller says.
        unsafe {
            match id {
                Some(id) => self.free_if(block, is_block(id)),
                None => {
                    self.free_if(block, |found| matches!(found, Found::Span(_, n) if n == pages))
                }
            }
        }
    }

    /// Frees a block in use if it is what was said.
    ///
    /// # Safety
    /// As for [`free_cookie`](Self::free_cookie).
    unsafe fn free_if(&self, block: NonNull<u8>, is_right: impl FnOnce(Found) -> bool) {
        let at = block.as_ptr();
        let Some((word, bit)) =
            self.mark(at).filter(|(word, bit)| word.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
        else {
            return self.kmem.hooks().misuse(self.wrong(at));
        };
        if look(self.kmem.pages(), at).is_some_and(|(found, _)| is_right(found)) {
            // SAFETY: the block was in use, and is this call's now (invariant 2).
            return unsafe { self.kmem.free_any(block) };
        }
        word.fetch_or(bit, Ordering::Release);
        self.kmem.hooks().misuse(Misuse::WrongSize(at));
    }

    /// Marks a block that was allocated; frees one of which that is not possible.
    fn hand_out(&self, block: NonNull<u8>) -> Option<NonNull<u8>> {
        let Some((word, bit)) = self.mark(block.as_ptr()) else {
            // SAFETY: the block was just allocated.
            unsafe { self.kmem.free_any(block) };
            return None;
        };
        word.fetch_or(bit, Ordering::Release);
        Some(block)
    }

    /// The bit of a block that begins there.
    fn mark(&self, at: *mut u8) -> Option<(&'a AtomicU64, u64)> {
        let (page, offset) = self.kmem.pages().find(at)?;
        let marks = self.marks.get(page.0 as usize).filter(|_| offset % GRAIN == 0)?;
        let place = offset / GRAIN;
        Some((marks.0.get(place / BITS)?, 1 << (place % BITS)))
    }

    /// What is wrong with the free of something that is no block in use.
    fn wrong(&self, at: *mut u8) -> Misuse {
        let _guard = self.kmem.caches().guard();
        self.kmem.pages().hold(|| wrong::<P, S>(self.kmem.pages(), at))
    }
}

/// Is it a block of this size?
fn is_block(id: SizeId) -> impl FnOnce(Found) -> bool {
    move |found| matches!(found, Found::Slab(_, found) if found == id)
}
