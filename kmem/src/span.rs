//! The free spans of a layer of addresses.
//!
//! ```text
//!   bins     1     2–3   4–7   8–15  …               of spans with so many pages
//!            ▼     .     ▼     .
//!            span        span ⇄ span
//!
//!   span     │ first: pages, list │ … │ last: first page │      boundary tags, in the descriptors of its pages
//! ```
//!
//! 1. A free span is on the list of its length, and no two of them touch.
//! 2. The descriptors of its first and its last page are its tags, and no other page has a tag.
//!
//! *Progress*: a free takes a bounded number of steps. An allocation looks at the spans of its own bin until one fits,
//! all of them at worst, and at one span above; at more there, only if it is aligned to more than a page.

use core::iter::successors;

use crate::bins::Bins;
use crate::page::{Kind, PageId, Tag};
use crate::pages::Pages;
use crate::size::PAGE;

/// One for each power of two up to the most pages that have numbers.
const BINS: usize = u32::BITS as usize;

/// A run of pages of one vmblk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) first: PageId,
    /// At least one.
    pub(crate) pages: usize,
}

impl Span {
    /// From one page up to another.
    pub(crate) fn between(first: PageId, end: PageId) -> Span {
        Span { first, pages: end.0.wrapping_sub(first.0) as usize }
    }

    pub(crate) fn end(self) -> PageId {
        self.first.plus(self.pages)
    }

    pub(crate) fn last(self) -> PageId {
        self.first.plus(self.pages - 1)
    }

    /// The first so many pages of it whose address is a multiple of `align`.
    fn fit(self, pages: &impl Pages, count: usize, align: usize) -> Option<Span> {
        let address = pages.address(self.first).as_ptr().addr();
        let skip = (address.wrapping_neg() & (align - 1)) / PAGE;
        let fits = skip.checked_add(count).is_some_and(|end| end <= self.pages);
        fits.then(|| Span { first: self.first.plus(skip), pages: count })
    }

    /// Its bin.
    fn bin(pages: usize) -> usize {
        (pages | 1).ilog2() as usize
    }
}

/// The free spans.
#[cfg_attr(woodlot_explore, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Spans {
    bins: Bins<BINS>,
    /// Of all of them.
    pages: usize,
}

impl Spans {
    pub(crate) const fn new() -> Spans {
        Spans { bins: Bins::new(), pages: 0 }
    }

    /// Pages that are free.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// The spans of a list, from its first one on.
    fn of_list(pages: &impl Pages, first: PageId) -> impl Iterator<Item = Span> {
        let list = successors(Some(first), |page| pages.descriptor(*page).links().1);
        list.filter_map(|page| tagged(pages, page))
    }

    /// The spans of all lists, and whether each is on its own.
    pub(crate) fn listed(&self, pages: &impl Pages) -> impl Iterator<Item = (Span, bool)> {
        let bins = successors(self.bins.first(0), |(bin, _)| self.bins.first(bin + 1));
        bins.flat_map(move |(bin, first)| {
            Self::of_list(pages, first).map(move |span| (span, Span::bin(span.pages) == bin))
        })
    }

    /// Takes so many pages at a multiple of `align`, a power of two, from the first span that has them.
    pub(crate) fn take(&mut self, pages: &impl Pages, count: usize, align: usize) -> Option<Span> {
        let mut from = Span::bin(count);
        while let Some((bin, first)) = self.bins.first(from) {
            let fits = |span: Span| Some((span, span.fit(pages, count, align)?));
            if let Some((span, part)) = Self::of_list(pages, first).find_map(fits) {
                self.cut(pages, span, part);
                return Some(part);
            }
            from = bin + 1;
        }
        None
    }

    /// Takes a part of a free span; what is before and behind it stays free.
    fn cut(&mut self, pages: &impl Pages, span: Span, part: Span) {
        self.unlink(pages, span);
        self.link(pages, Span::between(span.first, part.first));
        self.link(pages, Span::between(part.end(), span.end()));
    }

    /// Makes pages of a vmblk free, whose last data page is before `end`. Returns the free span that they are part of.
    pub(crate) fn put(&mut self, pages: &impl Pages, mut span: Span, end: PageId) -> Span {
        if let Some(before) = before(pages, span.first) {
            self.unlink(pages, before);
            span = Span::between(before.first, span.end());
        }
        if span.end() < end
            && let Some(behind) = tagged(pages, span.end())
        {
            self.unlink(pages, behind);
            span = Span::between(span.first, behind.end());
        }
        self.link(pages, span);
        span
    }

    /// Takes a free span out.
    pub(crate) fn unlink(&mut self, pages: &impl Pages, span: Span) {
        self.bins.remove(pages, Span::bin(span.pages), span.first);
        self.pages -= span.pages;
        pages.descriptor(span.first).set(Kind::None);
        pages.descriptor(span.last()).set(Kind::None);
    }

    /// Makes a span free, if it has pages.
    fn link(&mut self, pages: &impl Pages, span: Span) {
        if span.pages == 0 {
            return;
        }
        pages.descriptor(span.last()).set_tag(Tag::Last(span.first));
        pages.descriptor(span.first).set_tag(Tag::First(span.pages));
        self.bins.push(pages, Span::bin(span.pages), span.first);
        self.pages += span.pages;
    }
}

/// The free span that begins with a page.
fn tagged(pages: &impl Pages, page: PageId) -> Option<Span> {
    match pages.descriptor(page).tag() {
        Some(Tag::First(count)) => Some(Span { first: page, pages: count }),
        _ => None,
    }
}

/// The free span that ends before a page, which is not the first one of its vmblk.
fn before(pages: &impl Pages, page: PageId) -> Option<Span> {
    let last = PageId(page.0.wrapping_sub(1));
    match pages.descriptor(last).tag()? {
        Tag::First(_) => Some(Span::between(last, page)),
        Tag::Last(first) => Some(Span::between(first, page)),
    }
}
