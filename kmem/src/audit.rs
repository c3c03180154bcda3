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

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use core::ptr::NonNull;
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;
    use crate::dope::{Dope, Dopes, Shape, VMBLK};
    use crate::page::{Descriptor, Kind};
    use crate::pages::NoPages;
    use crate::size::PAGE;

    /// The descriptors of a vmblk without memory.
    struct Described(Vec<Descriptor>);

    // SAFETY: no page is handed out.
    unsafe impl Pages for Described {
        fn alloc(&self, _: usize, _: usize, _: usize) -> Result<PageId, NoPages> {
            Err(NoPages)
        }

        unsafe fn free(&self, _: PageId, _: usize, _: usize) {}

        fn address(&self, _: PageId) -> NonNull<u8> {
            NonNull::dangling()
        }

        fn find(&self, _: *mut u8) -> Option<(PageId, usize)> {
            None
        }

        fn descriptor(&self, page: PageId) -> &Descriptor {
            &self.0[page.0 as usize]
        }
    }

    /// A vmblk with free spans of one, two and three pages; pages count from its first one for data.
    struct World {
        pages: Described,
        data: PageId,
    }

    impl World {
        fn page(&self, at: usize) -> &Descriptor {
            self.pages.descriptor(self.data.plus(at))
        }

        fn link(&self, from: usize, to: usize) {
            self.page(from).set_links(None, Some(self.data.plus(to)));
        }

        fn first(&self, at: usize, pages: usize) {
            self.page(at).set_tag(Tag::First(pages));
        }

        fn last(&self, at: usize, first: usize) {
            self.page(at).set_tag(Tag::Last(self.data.plus(first)));
        }

        fn none(&self, at: usize) {
            self.page(at).set(Kind::None);
        }
    }

    const ONE: usize = 0;
    const TWO: usize = 10;
    const THREE: usize = 20;

    /// What is said after such damage: of which page, or of none, and what.
    fn said(damage: impl Fn(&World)) -> Result<(), (Option<usize>, &'static str)> {
        let words = [Dope::default()];
        let dopes = Dopes::new(&words).expect("it is one");
        let vmblk = dopes.room(Shape::new(1, PAGE), |_| true).expect("all is free");
        dopes.set(vmblk);
        let pages = Described((0..VMBLK / PAGE).map(|_| Descriptor::default()).collect());
        let world = World { pages, data: vmblk.data() };
        let mut spans = Spans::new();
        for (first, pages) in [(ONE, 1), (TWO, 2), (THREE, 3)] {
            let span = Span { first: world.data.plus(first), pages };
            spans.put(&world.pages, span, vmblk.end());
        }
        damage(&world);
        audit(&world.pages, &spans, dopes.all()).map_err(|Flaw { page, what }| {
            (page.0.checked_sub(world.data.0).map(|page| page as usize), what)
        })
    }

    #[test]
    fn every_damage_is_found() {
        assert_eq!(said(|_| ()), Ok(()));
        let stray = "is the last one of a span that has no first";
        assert_eq!(said(|world| world.last(5, ONE)), Err((Some(5), stray)));
        let touch = "was not coalesced";
        assert_eq!(said(|world| world.first(TWO + 2, 1)), Err((Some(TWO + 2), touch)));
        let elsewhere = "begins a span that ends elsewhere";
        assert_eq!(said(|world| world.first(TWO, 0)), Err((Some(TWO), elsewhere)));
        assert_eq!(said(|world| world.first(TWO, VMBLK / PAGE)), Err((Some(TWO), elsewhere)));
        let open = "begins a span that has no last page";
        assert_eq!(said(|world| world.none(THREE + 2)), Err((Some(THREE), open)));
        assert_eq!(said(|world| world.last(THREE + 2, TWO)), Err((Some(THREE), open)));
    }

    #[test]
    fn lists_that_are_damaged_are_found() {
        let wrong = |world: &World| {
            // So that it is whole, but too long for its list.
            world.first(ONE, 2);
            world.last(ONE + 1, ONE);
        };
        assert_eq!(said(wrong), Err((Some(ONE), "is on the wrong list")));
        let many = "is listed, but there are not so many spans";
        assert_eq!(said(|world| world.link(ONE, ONE)), Err((Some(ONE), many)));
        let none = "a free span is on no list";
        assert_eq!(said(|world| world.first(5, 1)), Err((None, none)));
        let count = |world: &World| {
            // The three pages share a list with the two.
            world.link(THREE, TWO);
            world.first(TWO, 3);
            world.last(TWO + 2, TWO);
            world.none(TWO + 1);
        };
        assert_eq!(said(count), Err((None, "the count of free pages is wrong")));
    }

    #[test]
    fn a_flaw_names_its_page() {
        let flaw = Flaw { page: PageId(7), what: "was not coalesced" };
        assert_eq!(flaw.to_string(), "page 7: was not coalesced");
    }
}
