//! What the guards of kernel stacks leave behind: figure 5 of the paper on anti-fragmentation, as numbers.
//!
//! ```text
//!   by address   0 1 2 3 │ - │ 5 6 7 8 │ - │ …      a frame lies in its huge frame where its page lies in the addresses:
//!                                                   the frame of a guard is left over, a free block of order 0
//!   packed       0 1 2 3 │ 4 5 6 7 │ 8 …            woodlot-stacks: guards have addresses and no frames
//! ```
//!
//! Both take stacks in a zone of the same engine, one after the other, from a zone that is empty at first. What is counted is
//! in the zone, not computed: blocks of order 0 that are free, and whose buddies are not.

use std::ptr::NonNull;

use serde::{Deserialize, Serialize};
use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{
    Base4K, Construct, FrameId, FreeBlocks, Geometry, HugeId, Init, Order, Owned, Request, Slot,
    ZoneConfig,
};
pub use woodlot_stacks::Shape;
use woodlot_stacks::{AddressSpace, Arena, NotMapped, StillMapped};

use crate::Failure;

/// An engine that stacks are taken from.
pub trait Engine: Construct<Geometry = Base4K> {}

impl<A: Construct<Geometry = Base4K>> Engine for A {}

/// The order of a huge frame.
const HUGE: Order = Order(Base4K::HUGE_ORDER as u8);

/// What stacks have made of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Left {
    /// Huge frames that are not free any more.
    pub huge: usize,
    /// Free blocks of order 0.
    pub holes: usize,
    /// Frames that are taken, and behind no stack: of stacks to come.
    pub spare: usize,
}

impl Left {
    /// Free blocks of order 0 for each 1000 stacks.
    pub fn holes_per_1000(&self, stacks: usize) -> f64 {
        self.holes as f64 * 1000.0 / stacks as f64
    }

    fn of(zone: &impl Engine, shape: Shape) -> Left {
        let (blocks, free) = (FreeBlocks::of(zone), zone.stats().free_frames);
        let frames = zone.zone().frames;
        let whole = (0..frames / Base4K::HUGE_FRAMES)
            .filter(|&huge| zone.free_in_huge(HugeId(huge)) == Base4K::HUGE_FRAMES);
        Left {
            huge: frames / Base4K::HUGE_FRAMES - whole.count(),
            holes: blocks.count(Order::BASE),
            spare: frames - free - shape.stacks() * shape.pages(),
        }
    }
}

/// Addresses at which nothing is read or written.
struct Nowhere;

// SAFETY: nobody uses what is mapped.
unsafe impl AddressSpace for Nowhere {
    fn map(&self, _: NonNull<u8>, _: &[FrameId]) -> Result<(), NotMapped> {
        Ok(())
    }

    unsafe fn unmap(&self, _: NonNull<u8>, _: &mut [FrameId]) -> Result<(), StillMapped> {
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("stacks: {error}"))
}

/// A zone with room for both.
fn zone<A: Engine>(shape: Shape) -> Result<Owned<A>, Failure> {
    let huge = (shape.stacks() * (shape.pages() + 1)).div_ceil(Base4K::HUGE_FRAMES) + 1;
    Owned::new(&ZoneConfig::new(huge * Base4K::HUGE_FRAMES, 1), Init::Free).map_err(failed)
}

/// Stacks whose frames lie as their pages do.
///
/// # Errors
/// What the zone refuses, and must not.
pub fn by_address<A: Engine>(shape: Shape) -> Result<Left, Failure> {
    let (zone, stride) = (zone::<A>(shape)?, shape.pages() + 1);
    let pages = shape.stacks() * stride;
    for huge in 0..pages.div_ceil(Base4K::HUGE_FRAMES) {
        // A huge frame is reserved for the object, and its pages are taken as the stacks need them.
        let request = Request::immovable(HUGE, Slot(0));
        let first = zone.alloc(request).map_err(failed)?;
        for page in huge * Base4K::HUGE_FRAMES..(huge + 1) * Base4K::HUGE_FRAMES {
            if page >= pages || page % stride == 0 {
                let frame = FrameId(first.0 + page % Base4K::HUGE_FRAMES);
                zone.free(frame, Order::BASE, Slot(0)).map_err(failed)?;
            }
        }
    }
    Ok(Left::of(&*zone, shape))
}

/// Stacks of an arena.
///
/// # Errors
/// What the arena refuses, and must not.
pub fn packed<A: Engine>(shape: Shape) -> Result<Left, Failure> {
    let zone = zone::<A>(shape)?;
    let words: Vec<AtomicU64> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
    let base = NonNull::new(std::ptr::without_provenance_mut(1 << 30)).expect("an address");
    // SAFETY: nobody uses the addresses, this one neither.
    let arena = unsafe { Arena::new(&*zone, Nowhere, base, shape, &words) }.map_err(failed)?;
    for _ in 0..shape.stacks() {
        arena.alloc(Slot(0)).map_err(failed)?;
    }
    Ok(Left::of(&*zone, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_llfree::LLFree;
    use woodlot_onewrite::OneWrite;

    #[test]
    fn a_guard_is_a_hole_unless_it_has_no_frame() {
        guards::<LLFree<'static, Base4K>>();
        guards::<OneWrite<'static, Base4K>>();
    }

    fn guards<A: Engine>() {
        for pages in [1, 3, 4, 7] {
            let shape = Shape::new(pages, 1000).expect("a shape");
            let (one, other) = (by_address::<A>(shape).unwrap(), packed::<A>(shape).unwrap());
            let holes = one.holes_per_1000(1000);
            assert!((1000.0..=1001.0).contains(&holes), "{pages} pages: {one:?}");
            assert_eq!((other.holes, other.huge), (0, (1000 * pages).div_ceil(512)), "{other:?}");
            assert_eq!(other.spare, other.huge * 512 - 1000 * pages);
            assert_eq!((one.spare, one.huge), (0, (1000 * (pages + 1)).div_ceil(512)));
        }
    }
}
