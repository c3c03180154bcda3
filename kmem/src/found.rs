//! What an address is, as far as page descriptors show it.

use crate::page::{Kind, PageId};
use crate::pages::Pages;
use crate::size::{PAGE, SizeId};

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
        Kind::Inside(first, id) => {
            let before = page.0.checked_sub(first.0)? as usize * PAGE;
            Some((Found::Slab(first, id), before + within))
        }
    }
}
