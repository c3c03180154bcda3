//! Frame numbers and orders.

use core::fmt;
use core::ops::Range;

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

    /// The physical address of the frame's first byte; saturates at the end of the address space.
    pub const fn address<G: Geometry>(self) -> u64 {
        (self.0 as u64).saturating_mul(1 << G::BASE_SHIFT)
    }

    /// The frame that an address lies in; saturates at the end of the number space.
    pub const fn containing<G: Geometry>(address: u64) -> FrameId {
        let frame = address >> G::BASE_SHIFT;
        if frame > usize::MAX as u64 { FrameId(usize::MAX) } else { FrameId(frame as usize) }
    }

    /// The frames that lie wholly inside a range of addresses, as a memory map gives them; an empty
    /// range where there is none.
    pub const fn inside<G: Geometry>(addresses: Range<u64>) -> Range<FrameId> {
        let end = Self::containing::<G>(addresses.end);
        let first = Self::containing::<G>(addresses.start);
        let cut = first.address::<G>() < addresses.start;
        let first = FrameId(first.0.saturating_add(cut as usize));
        if first.0 < end.0 { first..end } else { end..end }
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

    /// The smallest order whose block has room for `frames` frames. Above 2^63 frames that is an order
    /// which every call refuses.
    pub const fn containing(frames: usize) -> Order {
        match frames {
            0 | 1 => Order(0),
            _ => Order((usize::BITS - (frames - 1).leading_zeros()) as u8),
        }
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
    fn addresses_are_those_of_the_geometry() {
        assert_eq!(FrameId(3).address::<Base4K>(), 0x3000);
        assert_eq!(FrameId::containing::<Base4K>(0x3fff), FrameId(3));
        assert_eq!(FrameId::containing::<crate::Base64K>(0x3fff), FrameId(0));
        assert_eq!(FrameId(usize::MAX).address::<Base4K>(), u64::MAX);
    }

    #[test]
    fn only_whole_frames_lie_inside() {
        let inside = |range| FrameId::inside::<Base4K>(range);
        assert_eq!(inside(0..0x9fc00), FrameId(0)..FrameId(0x9f));
        assert_eq!(inside(0x1001..0x4000), FrameId(2)..FrameId(4));
        assert!(inside(0x1001..0x2fff).is_empty());
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = inside(0x4000..0x1000);
        assert!(reversed.is_empty());
        assert!(inside(u64::MAX..u64::MAX).is_empty());
    }

    #[test]
    fn an_order_contains_what_fits() {
        for (frames, order) in [(0, 0), (1, 0), (2, 1), (3, 2), (512, 9), (513, 10)] {
            assert_eq!(Order::containing(frames), Order(order), "{frames} frames");
        }
        assert_eq!(Order::containing(usize::MAX).frames(), 0);
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Order(255).frames(), 0);
        assert_eq!(FrameId(usize::MAX).checked_add(1), None);
        assert_eq!(HugeId(usize::MAX).first::<Base4K>(), FrameId(usize::MAX));
        assert_eq!(Order::all::<Base4K>().count(), 11);
    }
}
