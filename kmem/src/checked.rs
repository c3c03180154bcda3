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
//! Hooks say whether there are marks ([`Hooks::CHECKED`]), when the program is compiled. So whatever has an allocator inside can have
//! one that checks, and a program without marks pays nothing for them.

use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::cpu::PerCpu;
use crate::found::{Found, look};
use crate::kmem::{Hooks, Kmem};
use crate::misuse::Misuse;
use crate::page::PageId;
use crate::pages::Pages;
use crate::size::{PAGE, SizeId, Sizes};

/// A block begins at a multiple of so many bytes.
const GRAIN: usize = 16;
const BITS: usize = u64::BITS as usize;

/// Where blocks in use begin in one page. All zero is a page without any.
#[derive(Default)]
pub struct Marks([AtomicU64; PAGE / GRAIN / BITS]);

/// Hooks of an allocator that finds each wrong free at the call, before anything is changed by it, and tells the hooks inside.
///
/// What it cannot find: a free of a block that was freed before, and has been handed out again since.
pub struct Checked<'a, H = ()> {
    hooks: H,
    marks: &'a [Marks],
}

impl<'a, H> Checked<'a, H> {
    /// Hooks for an allocator of which nobody has a block yet. `marks` are zero, one for each page: there is no memory in pages
    /// that have none.
    pub const fn new(hooks: H, marks: &'a [Marks]) -> Self {
        Checked { hooks, marks }
    }

    /// The hooks inside.
    pub fn hooks(&self) -> &H {
        &self.hooks
    }
}

impl<H: Hooks> Hooks for Checked<'_, H> {
    const CHECKED: bool = true;

    fn misuse(&self, misuse: Misuse) {
        self.hooks.misuse(misuse);
    }

    fn reclaim(&self, pages: usize) -> bool {
        self.hooks.reclaim(pages)
    }

    fn marks(&self, page: PageId) -> Option<&Marks> {
        self.marks.get(page.0 as usize)
    }
}

/// The bit of a block.
struct Mark<'a> {
    word: &'a AtomicU64,
    bit: u64,
}

impl Mark<'_> {
    fn set(&self) {
        self.word.fetch_or(self.bit, Ordering::Release);
    }

    /// False: it was clear.
    fn clear(&self) -> bool {
        self.word.fetch_and(!self.bit, Ordering::AcqRel) & self.bit != 0
    }

    fn is_set(&self) -> bool {
        self.word.load(Ordering::Relaxed) & self.bit != 0
    }
}

impl<C: PerCpu, P: Pages, S: Sizes, H: Hooks> Kmem<C, P, S, H> {
    /// Marks a block that was allocated, if blocks are marked; frees one of which that is not possible.
    #[inline(always)]
    pub(crate) fn marked(&self, block: NonNull<u8>) -> Option<NonNull<u8>> {
        if !H::CHECKED {
            return Some(block);
        }
        let Some(mark) = self.mark_at(block.as_ptr()) else {
            // SAFETY: the block was just allocated.
            unsafe { self.free_by_page(block) };
            return None;
        };
        mark.set();
        Some(block)
    }

    /// Is there a mark, or are none set?
    pub(crate) fn may_be_used(&self, block: NonNull<u8>) -> bool {
        !H::CHECKED || self.mark_at(block.as_ptr()).is_some_and(|mark| mark.is_set())
    }

    /// Frees a block of which there is a mark, if it is what was said.
    ///
    /// # Safety
    /// If it is a block in use, the caller uses it no more.
    pub(crate) unsafe fn free_marked(
        &self,
        block: NonNull<u8>,
        is_right: impl FnOnce(Found) -> bool,
    ) {
        let at = block.as_ptr();
        let Some(mark) = self.mark_at(at).filter(Mark::clear) else {
            return self.hooks().misuse(self.wrong(block));
        };
        if look(self.pages(), at).is_some_and(|(found, _)| is_right(found)) {
            // SAFETY: the block was in use, and is this call's now (invariant 2).
            unsafe { self.free_by_page(block) };
            return;
        }
        mark.set();
        self.hooks().misuse(Misuse::WrongSize(at));
    }

    /// Frees such a block of a size, which is of any if none is said, by a call that may do nothing. False: nothing was done. What is
    /// wrong is left to [`free_marked`](Self::free_marked), which says so.
    pub(crate) fn free_marked_if(
        &self,
        block: NonNull<u8>,
        id: Option<SizeId>,
        free: impl FnOnce() -> bool,
    ) -> bool {
        let at = block.as_ptr();
        let Some(mark) = self.mark_at(at).filter(Mark::clear) else { return false };
        let is_right = |found| id.is_none_or(|id| is_block(id)(found));
        let is_freed = look(self.pages(), at).is_some_and(|(found, _)| is_right(found)) && free();
        if !is_freed {
            mark.set();
        }
        is_freed
    }

    /// The bit of a block that begins there.
    fn mark_at(&self, at: *mut u8) -> Option<Mark<'_>> {
        let (page, offset) = self.pages().find(at)?;
        let marks = self.hooks().marks(page).filter(|_| offset % GRAIN == 0)?;
        let place = offset / GRAIN;
        Some(Mark { word: marks.0.get(place / BITS)?, bit: 1 << (place % BITS) })
    }
}

/// Is it a block of this size?
pub(crate) fn is_block(id: SizeId) -> impl FnOnce(Found) -> bool {
    move |found| matches!(found, Found::Slab(_, found) if found == id)
}

/// Is it a span of so many pages?
pub(crate) fn is_span(pages: usize) -> impl FnOnce(Found) -> bool {
    move |found| matches!(found, Found::Span(_, found) if found == pages)
}
