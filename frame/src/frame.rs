//! Frame numbers and orders.

use core::fmt;

use crate::Geometry;

/// The number of a base frame (a PFN), counted from physical address zero.
///
/// Frame numbers are absolute: a zone that begins at frame 4096 hands out frames from 4096 on, and
/// alignment is that of the absolute number, as the MMU sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct FrameId(pub usize);

impl FrameId {
    /// The huge frame that this frame lies in.
    pub const fn huge<G: Geometry>(self) -> HugeId {
        HugeId(self.0 >> G::HUGE_ORDER)
    }

    /// Is this frame's number a multiple of `order`'s block size?
    #[inline]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0.trailing_zeros() >= order.0 as u32
    }

    /// The frame `frames` further on, or `None` past the end of the number space.
    pub const fn checked_add(self, frames: usize) -> Option<FrameId> {
        match self.0.checked_add(frames) {
            Some(n) => Some(FrameId(n)),
            None => None,
        }
    }
}

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number of a huge frame, counted from physical address zero: the frame number divided by
/// [`Geometry::HUGE_FRAMES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct HugeId(pub usize);

impl HugeId {
    /// The first base frame of this huge frame; saturates at the end of the number space.
    pub const fn first<G: Geometry>(self) -> FrameId {
        FrameId(self.0.saturating_mul(G::HUGE_FRAMES))
    }
}

impl fmt::Display for HugeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "huge frame {:#x}", self.0)
    }
}

/// The size of a block: order *o* is 2^*o* base frames, aligned to its size.
///
/// Every order up to [`Geometry::MAX_ORDER`] can be asked for; a larger one is an error of the
/// call it appears in, never a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Order(pub u8);

impl Order {
    /// One base frame.
    pub const BASE: Order = Order(0);

    /// One huge frame.
    pub const fn huge<G: Geometry>() -> Order {
        Order(G::HUGE_ORDER as u8)
    }

    /// The largest order of the geometry: two huge frames.
    pub const fn max<G: Geometry>() -> Order {
        Order(G::MAX_ORDER as u8)
    }

    /// Every order of the geometry, smallest first.
    pub fn all<G: Geometry>() -> impl DoubleEndedIterator<Item = Order> + Clone {
        (0..=G::MAX_ORDER as u8).map(Order)
    }

    /// How many base frames a block of this order has; 0 when that number does not fit a `usize`.
    #[inline]
    pub const fn frames(self) -> usize {
        match 1usize.checked_shl(self.0 as u32) {
            Some(n) => n,
            None => 0,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::Base4K;

    #[test]
    fn alignment_is_of_the_absolute_number() {
        assert!(FrameId(0).is_aligned(Order(10)));
        assert!(FrameId(1024).is_aligned(Order(10)));
        assert!(!FrameId(512).is_aligned(Order(10)));
        assert!(FrameId(usize::MAX).is_aligned(Order(0)));
    }

    #[test]
    fn sums_end_with_the_number_space() {
        assert_eq!(FrameId(7).checked_add(5), Some(FrameId(12)));
        assert_eq!(FrameId(usize::MAX).checked_add(0), Some(FrameId(usize::MAX)));
        assert_eq!(FrameId(usize::MAX).checked_add(1), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Order(255).frames(), 0);
        assert_eq!(FrameId(usize::MAX).checked_add(1), None);
        assert_eq!(HugeId(usize::MAX).first::<Base4K>(), FrameId(usize::MAX));
        assert_eq!(Order::all::<Base4K>().count(), 11);
    }
}
