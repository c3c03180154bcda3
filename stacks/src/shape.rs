//! Where the pages of stacks lie: in addresses with guards between them, in frames without.
//!
//! ```text
//!   addresses   g │0 0 0 0│ g │1 1 1 1│ g │2 2 2 2│ g …  g     a stride has pages + 1; one guard more at the end
//!   pages         │0 0 0 0│1 1 1 1│2 2 2 2│ …                  page j of stack i is number i · pages + j
//!   slabs         └──────── one huge frame ───────┘
//! ```
//!
//! 1. A stack lies between two pages of addresses at which nothing is mapped, ever.
//! 2. Two pages of stacks never have one number, and no number is left out: 512 stacks of *n* pages fill *n* huge frames,
//!    and the addresses of *n* + 1.
//!
//! FreeBSD anti-fragmentation, section III-B and figure 5: the index of a page in its object leaves guards out.

use core::num::NonZero;
use core::ops::Range;

use woodlot_kmem::PAGE;

/// The pages of a huge frame: 2 MiB of 4 KiB each.
pub(crate) const SLAB: usize = 512;

/// The most pages of a stack: as many as an [`AddressSpace`](crate::AddressSpace) maps at a time.
pub const MAX_PAGES: usize = 32;

/// How many stacks an arena has, and how large they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pages: NonZero<usize>,
    /// Pages from the begin of one stack to that of the next.
    stride: NonZero<usize>,
    stacks: usize,
}

/// What lies at an address of an arena. Stacks are numbered from 0, the lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A page of this stack.
    Stack(usize),
    /// The guard below this stack: whoever touches it has used up the stack. It is also above the stack before.
    Guard(usize),
}

impl Shape {
    /// So many stacks of so many pages of 4 KiB. `None` for no stacks, or more than 2^31; for stacks without pages, or
    /// with more than [`MAX_PAGES`].
    pub const fn new(pages: usize, stacks: usize) -> Option<Shape> {
        let few = pages <= MAX_PAGES && stacks > 0 && stacks <= 1 << 31;
        // On a machine of 32 bits there are not so many addresses.
        if !few || stacks.checked_mul((pages + 2) * PAGE).is_none() {
            return None;
        }
        match (NonZero::new(pages), NonZero::new(pages + 1)) {
            (Some(pages), Some(stride)) => Some(Shape { pages, stride, stacks }),
            _ => None,
        }
    }

    /// The pages of a stack.
    pub const fn pages(&self) -> usize {
        self.pages.get()
    }

    /// How many stacks there are.
    pub const fn stacks(&self) -> usize {
        self.stacks
    }

    /// The bytes of a stack.
    pub const fn bytes(&self) -> usize {
        self.pages.get() * PAGE
    }

    /// The bytes of addresses that the arena needs, guards and all.
    pub const fn addresses(&self) -> usize {
        (self.stacks * self.stride.get() + 1) * PAGE
    }

    /// The words of memory that the arena needs: four bits for each stack, and a word for each huge frame.
    pub const fn words(&self) -> usize {
        4 * self.bit_words() + self.slabs()
    }

    /// The words of a bit for each stack.
    pub(crate) const fn bit_words(&self) -> usize {
        self.stacks.div_ceil(64)
    }

    /// How many huge frames all stacks need.
    pub const fn slabs(&self) -> usize {
        (self.stacks * self.pages.get()).div_ceil(SLAB)
    }

    /// The first page of a stack, counted in addresses from the begin of the arena.
    pub(crate) const fn place(&self, stack: usize) -> usize {
        stack * self.stride.get() + 1
    }

    /// What lies so many bytes behind the begin of the arena. `None` behind its end.
    pub fn find(&self, offset: usize) -> Option<Found> {
        let (page, stride) = (offset / PAGE, self.stride);
        let found = if page % stride == 0 { Found::Guard } else { Found::Stack };
        (offset < self.addresses()).then(|| found(page / stride))
    }

    /// The numbers of a stack's pages.
    pub(crate) const fn numbers(&self, stack: usize) -> Range<usize> {
        stack * self.pages.get()..(stack + 1) * self.pages.get()
    }

    /// The stacks that have pages in a slab; one at each end may have some in the next slab.
    pub(crate) fn of_slab(&self, slab: usize) -> Range<usize> {
        let end = ((slab + 1) * SLAB + self.pages.get() - 1) / self.pages;
        slab * SLAB / self.pages..end.min(self.stacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_shapes() {
        for (pages, stacks) in [(0, 1), (1, 0), (33, 1), (4, (1 << 31) + 1), (4, usize::MAX)] {
            assert_eq!(Shape::new(pages, stacks), None);
        }
    }

    #[test]
    fn no_page_has_two_owners_and_none_is_left_out() {
        for pages in 1..=MAX_PAGES {
            let shape = Shape::new(pages, 700).expect("a shape");
            assert_eq!(shape.slabs(), (700 * pages).div_ceil(SLAB));
            let mut next = 0;
            for stack in 0..700 {
                assert_eq!(shape.numbers(stack).start, next, "no number is left out");
                next = shape.numbers(stack).end;
                assert_eq!(next - shape.numbers(stack).start, pages);
            }
        }
    }

    #[test]
    fn a_stack_lies_between_guards() {
        for pages in 1..=MAX_PAGES {
            let shape = Shape::new(pages, 9).expect("a shape");
            for stack in 0..9 {
                let first = shape.place(stack) * PAGE;
                assert_eq!(shape.find(first - 1), Some(Found::Guard(stack)));
                assert_eq!(shape.find(first), Some(Found::Stack(stack)));
                assert_eq!(shape.find(first + shape.bytes() - 1), Some(Found::Stack(stack)));
                assert_eq!(shape.find(first + shape.bytes()), Some(Found::Guard(stack + 1)));
            }
            assert_eq!(shape.find(shape.addresses() - 1), Some(Found::Guard(9)));
            assert_eq!(shape.find(shape.addresses()), None);
        }
        // A block of addresses with its guards is as aligned as a huge frame.
        let shape = Shape::new(4, 1024).expect("a shape");
        assert_eq!((shape.place(512) - 1) * PAGE, 5 * SLAB * PAGE);
    }

    #[test]
    fn the_stacks_of_a_slab() {
        for (pages, stacks) in [(1, 512), (3, 700), (4, 300), (31, 70)] {
            let shape = Shape::new(pages, stacks).expect("a shape");
            for slab in 0..shape.slabs() {
                let has = |stack: &usize| {
                    let numbers = shape.numbers(*stack);
                    numbers.start < (slab + 1) * SLAB && numbers.end > slab * SLAB
                };
                let mut expected = (0..stacks).filter(has);
                let found = shape.of_slab(slab);
                assert!(found.clone().eq(expected.by_ref()), "{pages} {slab} {found:?}");
            }
        }
    }
}
