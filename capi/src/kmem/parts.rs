//! What an allocator is made of beside its caches: pages, hooks, and who makes objects.
//!
//! ```text
//!   Frames    a zone of one of the engines, and its page descriptors
//!   Told      misuse, reclaim          functions of C
//!   Builder   make, unmake             functions of C
//! ```

use core::ffi::c_void;
use core::ptr::NonNull;

use woodlot_frame::Base4K;
use woodlot_kmem::{Build, Descriptor, Direct, Hooks, Marks, Misuse, NoPages, PageId, Pages};
use woodlot_llfree::LLFree;
#[cfg(feature = "nbbs")]
use woodlot_nbbs::Nbbs4;
#[cfg(feature = "onewrite")]
use woodlot_onewrite::OneWrite;

use super::types::{Make, OnMisuse, Reclaim, Unmake};

/// The pages of a zone of one of the engines.
pub enum Frames {
    LLFree(Direct<'static, LLFree<'static, Base4K>>),
    #[cfg(feature = "nbbs")]
    Nbbs(Direct<'static, Nbbs4<'static, Base4K>>),
    #[cfg(feature = "onewrite")]
    OneWrite(Direct<'static, OneWrite<'static, Base4K>>),
}

macro_rules! on_frames {
    ($frames:expr, $pages:ident => $body:expr) => {
        match $frames {
            Frames::LLFree($pages) => $body,
            #[cfg(feature = "nbbs")]
            Frames::Nbbs($pages) => $body,
            #[cfg(feature = "onewrite")]
            Frames::OneWrite($pages) => $body,
        }
    };
}

// SAFETY: all is done by the pages inside, which keep the promise.
unsafe impl Pages for Frames {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        on_frames!(self, pages => pages.alloc(count, align, cpu))
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        // SAFETY: as the caller says.
        on_frames!(self, pages => unsafe { pages.free(first, count, cpu) });
    }

    #[inline]
    fn address(&self, page: PageId) -> NonNull<u8> {
        on_frames!(self, pages => pages.address(page))
    }

    #[inline]
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        on_frames!(self, pages => pages.find(address))
    }

    #[inline]
    fn descriptor(&self, page: PageId) -> &Descriptor {
        on_frames!(self, pages => pages.descriptor(page))
    }
}

/// Is each wrong free found at the call?
pub const CHECKED: bool = cfg!(feature = "checked");

/// Who hears of wrong calls and of memory that is short.
pub struct Told {
    pub(super) context: *mut c_void,
    pub(super) misuse: Option<OnMisuse>,
    pub(super) reclaim: Option<Reclaim>,
    /// One for each frame; none without the feature.
    pub(super) marks: &'static [Marks],
}

// SAFETY: the functions may be called on any CPU, as the header asks of them.
unsafe impl Sync for Told {}

impl Hooks for Told {
    const CHECKED: bool = CHECKED;

    fn marks(&self, page: PageId) -> Option<&Marks> {
        self.marks.get(page.0 as usize)
    }

    fn misuse(&self, misuse: Misuse) {
        let (kind, at) = misuse.numbered();
        if let Some(hear) = self.misuse {
            // SAFETY: as the caller of `woodlot_kmem_init` has promised.
            unsafe { hear(self.context, kind, at.cast()) };
        }
    }

    fn reclaim(&self, pages: usize) -> bool {
        // SAFETY: as above.
        self.reclaim.is_some_and(|reclaim| unsafe { reclaim(self.context, pages) != 0 })
    }
}

/// Objects of a full list: `WOODLOT_OBJECTS_TARGET`.
pub const OBJECTS_TARGET: usize = 16;

/// Makes objects by functions of C.
pub struct Builder {
    pub(super) context: *mut c_void,
    pub(super) make: Make,
    pub(super) unmake: Unmake,
}

// SAFETY: the functions may be called on any CPU, as the header asks of them.
unsafe impl Sync for Builder {}

// SAFETY: what the functions make is as the header asks: memory of at least 16 bytes, aligned to 8, that is the cache's alone.
unsafe impl Build for Builder {
    /// The least that an object is.
    type Object = [u64; 2];
    const KINDS: usize = 1;
    const TARGET: usize = OBJECTS_TARGET;

    fn make(&self, _: usize) -> Option<NonNull<[u64; 2]>> {
        // SAFETY: as the caller of `woodlot_objects_init` has promised.
        NonNull::new(unsafe { (self.make)(self.context) }.cast())
    }

    unsafe fn unmake(&self, _: usize, object: NonNull<[u64; 2]>) {
        // SAFETY: as above; `make` has returned the object, and nobody has it.
        unsafe { (self.unmake)(self.context, object.as_ptr().cast()) };
    }
}
