//! A walk through the layer of addresses: does every page agree with its neighbours and with the lists?
//!
//! For tests and debuggers; the caller holds the lock.

use core::fmt;

use crate::dope::Vmblk;
use crate::page::{PageId, Tag};
use crate::pages::Pages;
use crate::span::{Span, Spans};

/// A page whose descriptor cannot be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// The page.
    pub page: PageId,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page.0, self.what)
    }
}

impl core::error::Error for Flaw {}

/// Looks at every data page, and at every list.
pub(crate) fn audit(
    pages: &impl Pages,
    spans: &Spans,
    vmblks: impl Iterator<Item = Vmblk>,
) -> Result<(), Flaw> {
    let (mut count, mut free) = (0, 0);
    for vmblk in vmblks {
        let (some, pages) = walk(pages, vmblk)?;
        (count, free) = (count + some, free + pages);
    }
    let at = |page| move |what| Flaw { page, what };
    let listed = spans.listed(pages).try_fold(0, |listed, (span, is_right)| match is_right {
        true if listed < count => Ok(listed + 1),
        true => Err(at(span.first)("is listed, but there are not so many spans")),
        false => Err(at(span.first)("is on the wrong list")),
    })?;
    match () {
        () if listed != count => Err(at(PageId(0))("a free span is on no list")),
        () if free != spans.pages() => Err(at(PageId(0))("the count of free pages is wrong")),
        () => Ok(()),
    }
}

/// The free spans of a vmblk, and their pages.
fn walk(pages: &impl Pages, vmblk: Vmblk) -> Result<(usize, usize), Flaw> {
    let (mut spans, mut free) = (0, 0);
    let (mut page, mut is_behind_free) = (vmblk.data(), false);
    while page < vmblk.end() {
        let flaw = |what| Err(Flaw { page, what });
        let tag = pages.descriptor(page).tag();
        is_behind_free = match tag {
            None => false,
            Some(Tag::Last(_)) => return flaw("is the last one of a span that has no first"),
            Some(Tag::First(_)) if is_behind_free => return flaw("was not coalesced"),
            Some(Tag::First(count)) => {
                let span = Span { first: page, pages: count };
                if count == 0 || count > Span::between(page, vmblk.end()).pages {
                    return flaw("begins a span that ends elsewhere");
                }
                if count > 1 && pages.descriptor(span.last()).tag() != Some(Tag::Last(page)) {
                    return flaw("begins a span that has no last page");
                }
                (spans, free) = (spans + 1, free + count);
                page = span.last();
                true
            }
        };
        page = page.plus(1);
    }
    Ok((spans, free))
}
