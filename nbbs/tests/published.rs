//! What published code of this allocator is known to get wrong, each as a test of both forms.

use woodlot_frame::{
    AllocError, Base4K, Base16K, Base64K, Construct, FrameAllocator, FrameId, FreeError, Geometry,
    Init, Order, Owned, Request, Slot, ZoneConfig,
};
use woodlot_nbbs::{Nbbs1, Nbbs4};

type Geo<A> = <A as FrameAllocator>::Geometry;

const SLOT: Slot = Slot(0);

fn zone<A: Construct>(frames: usize) -> Owned<A> {
    Owned::new(&ZoneConfig::new(frames, 1), Init::Free).expect("the zone is legal")
}

fn claim<A: Construct>(zone: &Owned<A>, block: (usize, Order)) -> Result<(), AllocError> {
    zone.alloc(Request::movable(block.1, SLOT).at(FrameId(block.0))).map(drop)
}

macro_rules! of_both_forms {
    ($($test:ident),+ $(,)?) => { $(
        #[test]
        fn $test() {
            checks::$test::<Nbbs1<'static, Base4K>>();
            checks::$test::<Nbbs1<'static, Base16K>>();
            checks::$test::<Nbbs1<'static, Base64K>>();
            checks::$test::<Nbbs4<'static, Base4K>>();
            checks::$test::<Nbbs4<'static, Base16K>>();
            checks::$test::<Nbbs4<'static, Base64K>>();
        }
    )+ };
}

of_both_forms! {
    the_largest_order_is_a_root,
    blocks_of_mixed_orders_never_overlap,
    a_stale_free_of_another_order_is_refused,
    a_free_inside_a_block_is_refused,
}

mod checks {
    use super::*;

    /// Every block of the largest order, in zones of one root and of several, whether or not they
    /// share the last word.
    pub(super) fn the_largest_order_is_a_root<A: Construct>() {
        let max = Order::max::<Geo<A>>();
        for roots in [1, 2, 3, 7, 8, 9] {
            let zone = zone::<A>(roots * max.frames() + max.frames() / 2);
            let all: Vec<_> = (0..roots).map(|_| zone.alloc(Request::movable(max, SLOT))).collect();
            assert!(all.iter().all(Result::is_ok), "{all:?} of {roots} roots");
            assert_eq!(zone.alloc(Request::movable(max, SLOT)), Err(AllocError::OutOfMemory));
            assert_eq!(zone.stats().free_frames, max.frames() / 2);
            for frame in all.into_iter().flatten() {
                zone.free(frame, max, SLOT).expect("it was allocated");
                assert!(zone.is_free(frame, max));
            }
            assert_eq!(zone.stats().free_frames, zone.zone().frames);
        }
    }

    /// Any two blocks of the first 64 frames: both can be had if and only if they do not overlap.
    pub(super) fn blocks_of_mixed_orders_never_overlap<A: Construct>() {
        let zone = zone::<A>(2 * Geo::<A>::MAX_FRAMES);
        let most = 6.min(Geo::<A>::MAX_ORDER as u8);
        let blocks = (0..=most)
            .map(Order)
            .flat_map(|order| (0..64 >> order.0).map(move |index| (index << order.0, order)));
        let blocks: Vec<(usize, Order)> = blocks.collect();
        for &first in &blocks {
            claim(&zone, first).expect("all is free");
            for &second in &blocks {
                let apart = first.0 + first.1.frames() <= second.0
                    || second.0 + second.1.frames() <= first.0;
                assert_eq!(claim(&zone, second).is_ok(), apart, "{first:?}, then {second:?}");
                if apart {
                    zone.free(FrameId(second.0), second.1, SLOT).expect("it was claimed");
                }
            }
            zone.free(FrameId(first.0), first.1, SLOT).expect("it was claimed");
        }
        assert_eq!(zone.stats().free_frames, zone.zone().frames);
    }

    /// A block is freed, and its memory allocated in another order; the old owner frees it again.
    pub(super) fn a_stale_free_of_another_order_is_refused<A: Construct>() {
        let zone = zone::<A>(2 * Geo::<A>::MAX_FRAMES);
        let orders = || Order::all::<Geo<A>>();
        for old in orders() {
            for new in orders().filter(|&new| new != old) {
                claim(&zone, (0, old)).expect("all is free");
                zone.free(FrameId(0), old, SLOT).expect("it was claimed");
                // All of the old block's memory, in the new order.
                let blocks = 0..old.frames().div_ceil(new.frames());
                let blocks = || blocks.clone().map(|index| index << new.0);
                blocks().for_each(|at| claim(&zone, (at, new)).expect("all is free"));
                let stale = zone.free(FrameId(0), old, SLOT);
                assert_eq!(stale, Err(FreeError::Unsupported), "{old} freed, {new} allocated");
                for at in blocks() {
                    assert!(claim(&zone, (at, Order::BASE)).is_err(), "it is still owned");
                    zone.free(FrameId(at), new, SLOT).expect("its owner has it");
                }
                // And when it is free again, that is what the stale free is told.
                let stale = zone.free(FrameId(0), old, SLOT);
                assert_eq!(stale, Err(FreeError::NotAllocated(FrameId(0))));
            }
        }
        assert_eq!(zone.stats().free_frames, zone.zone().frames);
    }

    /// Any free of a part of a block, or of more than a block, is refused and changes nothing.
    pub(super) fn a_free_inside_a_block_is_refused<A: Construct>() {
        let zone = zone::<A>(Geo::<A>::MAX_FRAMES);
        for order in Order::all::<Geo<A>>() {
            claim(&zone, (0, order)).expect("all is free");
            for other in Order::all::<Geo<A>>().filter(|&other| other != order) {
                for at in (0..order.frames()).step_by(other.frames()).take(40) {
                    assert!(zone.free(FrameId(at), other, SLOT).is_err(), "{other} of {order}");
                }
            }
            assert_eq!(zone.stats().free_frames, zone.zone().frames - order.frames());
            zone.free(FrameId(0), order, SLOT).expect("it was claimed");
        }
        assert!(zone.is_free(FrameId(0), Order::max::<Geo<A>>()));
    }
}
