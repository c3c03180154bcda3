//! What a slot puts off is seen by nobody: after a pair of an allocation and a free, all of the zone is
//! free for whoever asks, in whatever way.

use woodlot_frame::{
    Base4K, Construct, FrameAllocator, FrameId, HugeId, Init, Order, Owned, Request, Slot,
    ZoneConfig,
};
use woodlot_nbbs::{Nbbs1, Nbbs4};

const LARGEST: Order = Order(10);
const FRAMES: usize = 1 << 10;

/// A zone of one root, after a pair of every order on every slot; the last one of `order`, on slot 1.
fn after_pairs<A: Construct + FrameAllocator<Geometry = Base4K>>(order: Order) -> Owned<A> {
    let zone = Owned::<A>::new(&ZoneConfig::new(FRAMES, 2), Init::Free).expect("a legal zone");
    let orders = (0..=LARGEST.0).map(Order).chain([order]);
    for (order, slot) in orders.flat_map(|order| [(order, Slot(0)), (order, Slot(1))]) {
        let block = zone.alloc(Request::movable(order, slot)).expect("it is free");
        zone.free(block, order, slot).expect("it was allocated");
    }
    zone
}

fn everything_is_free<A: Construct + FrameAllocator<Geometry = Base4K>>() {
    for order in (0..=LARGEST.0).map(Order) {
        let zone = || after_pairs::<A>(order);
        assert!(zone().is_free(FrameId(0), LARGEST), "is_free after {order}");
        assert!(zone().is_available(LARGEST), "is_available after {order}");
        assert_eq!(zone().stats().free_huge, 2, "stats after {order}");
        assert_eq!(zone().free_frames(), FRAMES, "free_frames after {order}");
        assert_eq!(zone().free_huge_frames().count(), 2, "free_huge_frames after {order}");
        assert!(zone().alloc(Request::movable(LARGEST, Slot(0))).is_ok(), "alloc after {order}");
        let exactly = Request::movable(LARGEST, Slot(0)).at(FrameId(0));
        assert!(zone().alloc(exactly).is_ok(), "an exact frame after {order}");
        assert_eq!(zone().offline(HugeId(0), 2), Ok(()), "offline after {order}");
    }
}

#[test]
fn everything_is_free_after_pairs() {
    everything_is_free::<Nbbs1<Base4K>>();
    everything_is_free::<Nbbs4<Base4K>>();
}

/// The same on a slot that was drained: then it is the tree itself that says so.
#[test]
fn a_drained_slot_has_put_off_nothing() {
    let zone = after_pairs::<Nbbs1<Base4K>>(Order(0));
    zone.drain(Slot(0)).and_then(|()| zone.drain(Slot(1))).expect("there are such slots");
    assert!(zone.drain(Slot(2)).is_err());
    let everything = zone.alloc(Request::movable(LARGEST, Slot(1)));
    assert_eq!(everything, Ok(FrameId(0)));
    assert!(zone.alloc(Request::movable(Order(0), Slot(0))).is_err());
}
