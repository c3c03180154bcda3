//! What an address is, as far as page descriptors show it.

use crate::misuse::Misuse;
use crate::page::{Kind, PageId};
use crate::pages::Pages;
use crate::size::{PAGE, SizeId, Sizes};

/// What an address lies in: the first page of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A slab of blocks of this size.
    Slab(PageId, SizeId),
    /// A span of so many pages, which is one block.
    Span(PageId, usize),
}

/// What an address lies in, and how many bytes behind the begin of that. `None` for a page that is not in use, and behind
/// the first page of a span.
pub(crate) fn look<P: Pages>(pages: &P, at: *mut u8) -> Option<(Found, usize)> {
    let (page, within) = pages.find(at)?;
    match pages.descriptor(page).kind() {
        Kind::None => None,
        Kind::Slab(id) => Some((Found::Slab(page, id), within)),
        Kind::Span(count) => Some((Found::Span(page, count), within)),
        Kind::Inside(pages, id) => {
            let first = PageId(page.0.checked_sub(pages as u32)?);
            Some((Found::Slab(first, id), pages * PAGE + within))
        }
    }
}

/// What is wrong with the free of something that is no block in use.
pub(crate) fn wrong<P: Pages, S: Sizes>(pages: &P, at: *mut u8) -> Misuse {
    match look(pages, at) {
        None => Misuse::Foreign(at),
        Some((Found::Slab(_, id), offset)) if S::is_block(id, offset) => Misuse::DoubleFree(at),
        Some((Found::Span(..), 0)) => Misuse::DoubleFree(at),
        Some(_) => Misuse::Interior(at),
    }
}
