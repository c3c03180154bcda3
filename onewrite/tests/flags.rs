//! Flags of huge frames and reclaim, by the suite's checks and by what the one-write engine promises besides.

use woodlot_frame::{
    AllocError, Base4K, Claim, FrameAllocator, HugeFlags, HugeId, Order, Owned, Prefer, Reclaim,
    Reclaiming, Request, Slot,
};
use woodlot_onewrite::OneWrite;
use woodlot_suite::reclaim::{self, at, reclaim, request};

woodlot_suite::reclaim_tests!(OneWrite);

const HUGE: Order = Order(9);

fn zone(huge_frames: usize, slots: usize) -> Owned<OneWrite<'static, Base4K>> {
    reclaim::zone(huge_frames, slots)
}

fn numbers(huge: Vec<HugeId>) -> Vec<usize> {
    huge.into_iter().map(|HugeId(huge)| huge).collect()
}

#[test]
fn reclaim_takes_trees_that_are_free_first_and_those_reclaimed_last() {
    let zone = zone(96, 2);
    // One frame of the first tree is in use, and one huge frame of the second; one more is open.
    zone.alloc(Request::movable(Order(0), Slot(0)).at(HugeId(2).first::<Base4K>())).expect("free");
    zone.alloc(at(40)).expect("it is free");
    let open = zone.alloc(request(Order(0)).at(HugeId(50).first::<Base4K>())).expect("it is free");
    zone.free(open, Order(0), Slot(0)).expect("it is allocated");
    assert_eq!(zone.reclaim(Reclaim::Hard, &mut []), 0);
    assert_eq!(numbers(reclaim(&*zone, Reclaim::Soft, 3)), [64, 65, 66]);
    assert_eq!(zone.stats().free_huge, 94, "they are still free");
    assert_eq!(numbers(reclaim(&*zone, Reclaim::Hard, 2)), [67, 68]);
    assert_eq!((zone.stats().free_huge, zone.stats().offline_huge), (92, 2));
    assert_eq!(zone.free_frames(), zone.stats().free_frames);
    let found = zone.flagged();
    assert_eq!((found.reclaimed, found.free_reclaimed, found.free_zeroed), (5, 3, 0));
    // No tree is free any more.
    let rest = numbers(reclaim(&*zone, Reclaim::Hard, 100));
    let backed = [0, 1].into_iter().chain(3..40).chain(41..64).chain(69..96);
    assert_eq!(rest, backed.chain(64..67).collect::<Vec<_>>());
    assert_eq!(reclaim(&*zone, Reclaim::Hard, 1), []);
    assert_eq!(zone.alloc(request(HUGE)), Err(AllocError::OutOfMemory));
    assert_eq!(zone.flagged().reclaimed, 94);
}

#[test]
fn what_is_isolated_is_neither_reclaimed_nor_preferred_and_a_claim_forgets_that_it_is_zeroed() {
    let zone = zone(2, 1);
    zone.alloc(at(0)).expect("it is free");
    zone.isolate(HugeId(0), 2).expect("they are there");
    // Its owner has it still.
    zone.set_flags(HugeId(0), HugeFlags::ZEROED).expect("it is allocated as a whole");
    zone.free(HugeId(0).first::<Base4K>(), HUGE, Slot(0)).expect("it is allocated");
    assert_eq!(zone.flagged().free_zeroed, 1);
    for mode in [Reclaim::Soft, Reclaim::Hard] {
        assert_eq!(reclaim(&*zone, mode, 2), []);
    }
    let none = Err(AllocError::OutOfMemory);
    assert_eq!(zone.alloc_preferring(request(HUGE), Prefer::Zeroed), none);
    zone.claim_isolated(HugeId(0), 2, Claim::Block(Slot(0))).expect("they are free");
    assert_eq!([0, 1].map(|huge| zone.flags(HugeId(huge))), [HugeFlags::BACKED; 2]);
}

/// A tree in which another slot allocates is passed over, though it has what is preferred; that slot gets it.
#[test]
fn what_is_preferred_is_looked_for_beside_the_trees_of_other_slots() {
    let zone = zone(64, 2);
    let preferring =
        |slot| zone.alloc_preferring(Request { slot, ..request(HUGE) }, Prefer::Zeroed);
    // The second slot allocates in the second tree.
    zone.alloc(Request { slot: Slot(1), ..request(HUGE) }).expect("much is free");
    let huge = (32..64).map(HugeId).find(|&huge| zone.is_free(huge.first::<Base4K>(), HUGE));
    let huge = huge.expect("much is free");
    zone.offline(huge, 1).expect("it is free");
    zone.give(&[huge], HugeFlags::ZEROED).expect("it is offline");
    let (frame, flags) = preferring(Slot(0)).expect("much is free");
    assert!(frame.0 < 32 * 512 && flags == HugeFlags::BACKED);
    assert_eq!(preferring(Slot(1)), Ok((huge.first::<Base4K>(), HugeFlags::ZEROED)));
}
