//! Where pages come from: the border between this allocator and what lies below.

use core::fmt;
use core::ptr::NonNull;

use crate::page::{Descriptor, PageId};
use crate::size::PAGE;

/// There are no such pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPages;

impl fmt::Display for NoPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such pages are free")
    }
}

impl core::error::Error for NoPages {}

/// Pages of 4 KiB, with a number, an address and a descriptor each.
///
/// [`Direct`](crate::Direct) takes them from a frame allocator whose frames lie in one range of addresses.
/// [`Vmblks`](crate::Vmblks) takes addresses from a range, and maps frames there.
///
/// # Safety
/// * Pages that `alloc` hands out are memory, readable and writable, at the address that [`address`](Self::address)
///   says, and nobody else's until they are freed.
/// * Each page has one address and one descriptor as long as it is handed out, and pages that follow one another in
///   numbers do so in addresses.
/// * The descriptors of pages that are not handed out are [`Kind::None`](crate::Kind::None).
pub unsafe trait Pages: Sync {
    /// Hands out `count` pages that follow one another; the first one's address is a multiple of `align`, a power
    /// of two. `cpu` says who asks: a hint. `count` is at least one.
    ///
    /// # Errors
    /// There are none.
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages>;

    /// Takes back `count` pages, all that were handed out from `first` on.
    ///
    /// # Safety
    /// They were, and the caller uses none of them any more.
    unsafe fn free(&self, first: PageId, count: usize, cpu: usize);

    /// Hands out pages to fill `room`, each by itself, or as many as there are. Returns how many: at least one.
    ///
    /// # Errors
    /// There are none.
    fn alloc_some(&self, room: &mut [PageId], cpu: usize) -> Result<usize, NoPages> {
        let mut count = 0;
        for place in room {
            match self.alloc(1, PAGE, cpu) {
                Ok(page) => (*place, count) = (page, count + 1),
                Err(_) => break,
            }
        }
        if count == 0 { Err(NoPages) } else { Ok(count) }
    }

    /// Takes back pages that were handed out each by itself.
    ///
    /// # Safety
    /// They were, and the caller uses none of them any more.
    unsafe fn free_some(&self, pages: &[PageId], cpu: usize) {
        // SAFETY: as the caller says.
        pages.iter().for_each(|&page| unsafe { self.free(page, 1, cpu) });
    }

    /// Is the memory zero of pages that were handed out just now, and that nobody has written to? False: it is not known.
    fn is_zero(&self, first: PageId, count: usize) -> bool {
        let _ = (first, count);
        false
    }

    /// The first byte of a page.
    fn address(&self, page: PageId) -> NonNull<u8>;

    /// The page that has this address, and the offset there, if it could be one of these.
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)>;

    /// The descriptor of a page that is handed out, or that [`find`](Self::find) returned. The latter stays there at
    /// least while a [`hold`](Self::hold) has pages.
    fn descriptor(&self, page: PageId) -> &Descriptor;

    /// Calls while no pages go back to where they came from, so that descriptors of pages may be read that somebody else
    /// has, or nobody. The caller is alone on its CPU, and has no lock of the allocator.
    fn hold<T>(&self, call: impl FnOnce() -> T) -> T {
        call()
    }
}

// SAFETY: as those of what is referred to.
unsafe impl<P: Pages> Pages for &P {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        P::alloc(self, count, align, cpu)
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        // SAFETY: as the caller says.
        unsafe { P::free(self, first, count, cpu) };
    }

    fn alloc_some(&self, room: &mut [PageId], cpu: usize) -> Result<usize, NoPages> {
        P::alloc_some(self, room, cpu)
    }

    unsafe fn free_some(&self, pages: &[PageId], cpu: usize) {
        // SAFETY: as the caller says.
        unsafe { P::free_some(self, pages, cpu) };
    }

    fn is_zero(&self, first: PageId, count: usize) -> bool {
        P::is_zero(self, first, count)
    }

    #[inline]
    fn address(&self, page: PageId) -> NonNull<u8> {
        P::address(self, page)
    }

    #[inline]
    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        P::find(self, address)
    }

    #[inline]
    fn descriptor(&self, page: PageId) -> &Descriptor {
        P::descriptor(self, page)
    }

    fn hold<T>(&self, call: impl FnOnce() -> T) -> T {
        P::hold(self, call)
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Three pages, without memory, each by itself.
    #[derive(Default)]
    struct Three {
        taken: AtomicUsize,
        freed: AtomicUsize,
        descriptor: Descriptor,
    }

    // SAFETY: nobody uses the memory of the pages.
    unsafe impl Pages for Three {
        fn alloc(&self, count: usize, _: usize, _: usize) -> Result<PageId, NoPages> {
            let page = self.taken.fetch_add(count, Ordering::Relaxed);
            if page + count <= 3 { Ok(PageId(page as u32)) } else { Err(NoPages) }
        }

        unsafe fn free(&self, _: PageId, count: usize, _: usize) {
            self.freed.fetch_add(count, Ordering::Relaxed);
        }

        fn address(&self, _: PageId) -> NonNull<u8> {
            NonNull::dangling()
        }

        fn find(&self, _: *mut u8) -> Option<(PageId, usize)> {
            None
        }

        fn descriptor(&self, _: PageId) -> &Descriptor {
            &self.descriptor
        }
    }

    #[test]
    fn pages_come_by_themselves_where_nothing_else_is_said() {
        let three = Three::default();
        let mut room = [PageId(9); 2];
        assert_eq!(three.alloc_some(&mut room, 0), Ok(2));
        assert_eq!(room, [PageId(0), PageId(1)]);
        let mut room = [PageId(9); 2];
        assert_eq!(three.alloc_some(&mut room, 0), Ok(1), "as many as there are");
        assert_eq!(room, [PageId(2), PageId(9)]);
        assert_eq!(three.alloc_some(&mut room, 0), Err(NoPages));
        // SAFETY: they were handed out, each by itself.
        unsafe { three.free_some(&[PageId(0), PageId(2)], 0) };
        assert_eq!(three.freed.load(Ordering::Relaxed), 2);
        assert!(!three.is_zero(PageId(0), 1), "it is not known");
    }

    /// Pages that do all in a way of their own.
    #[derive(Default)]
    struct Own {
        three: Three,
        held: AtomicUsize,
    }

    // SAFETY: as above.
    unsafe impl Pages for Own {
        fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
            self.three.alloc(count, align, cpu)
        }

        unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
            // SAFETY: as the caller says.
            unsafe { self.three.free(first, count, cpu) };
        }

        fn alloc_some(&self, room: &mut [PageId], _: usize) -> Result<usize, NoPages> {
            room.fill(PageId(7));
            Ok(room.len())
        }

        unsafe fn free_some(&self, _: &[PageId], _: usize) {
            self.three.freed.store(70, Ordering::Relaxed);
        }

        fn is_zero(&self, _: PageId, _: usize) -> bool {
            true
        }

        fn address(&self, page: PageId) -> NonNull<u8> {
            self.three.address(page)
        }

        fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
            Some((PageId(7), address.addr()))
        }

        fn descriptor(&self, page: PageId) -> &Descriptor {
            self.three.descriptor(page)
        }

        fn hold<T>(&self, call: impl FnOnce() -> T) -> T {
            self.held.fetch_add(1, Ordering::Relaxed);
            call()
        }
    }

    /// All that `pages` do, by themselves.
    fn are_own<P: Pages>(pages: P, own: &Own) {
        let mut room = [PageId(0); 9];
        assert_eq!((pages.alloc_some(&mut room, 0), room), (Ok(9), [PageId(7); 9]));
        assert_eq!(pages.alloc(2, PAGE, 0), Ok(PageId(0)));
        // SAFETY: they were handed out.
        unsafe { pages.free(PageId(0), 2, 0) };
        assert_eq!(own.three.freed.load(Ordering::Relaxed), 2);
        // SAFETY: as above.
        unsafe { pages.free_some(&room, 0) };
        assert_eq!(own.three.freed.load(Ordering::Relaxed), 70);
        assert!(pages.is_zero(PageId(7), 1));
        let address = pages.address(PageId(7)).as_ptr();
        assert_eq!(pages.find(address), Some((PageId(7), address.addr())));
        assert!(core::ptr::eq(pages.descriptor(PageId(7)), &own.three.descriptor));
        assert_eq!(pages.hold(|| own.held.load(Ordering::Relaxed)), 1, "nothing was held");
    }

    #[test]
    fn pages_by_reference_are_these_pages() {
        let own = Own::default();
        are_own(&own, &own);
    }
}
