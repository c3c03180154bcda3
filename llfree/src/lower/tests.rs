//! The lower level in a zone.

use super::*;
use crate::LLFree;
use woodlot_frame::{
    Base4K, FrameAllocator, FrameId, Init, Order, Owned, Request, Slot, ZoneConfig,
};

/// Two trees. In the second one huge frames 13 to 20 are free, on both sides of the border of its words;
/// all others are allocated.
fn eight_left() -> Owned<LLFree<'static, Base4K>> {
    let config = ZoneConfig::new(2 * Base4K::TREE_FRAMES, 1);
    let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
    for huge in (0..32 + 13).chain(32 + 21..64) {
        let request = Request::movable(Order(9), Slot(0)).at(FrameId(huge * Base4K::HUGE_FRAMES));
        zone.alloc(request).expect("it is free");
    }
    zone
}

#[test]
fn free_huge_frames_of_a_tree_are_counted_in_all_of_its_words() {
    let zone = eight_left();
    let lower = &zone.lower;
    assert_eq!([0, 1].map(|tree| lower.count_whole(tree)), [0, 8]);
    assert_eq!([0, 1].map(|tree| lower.count_whole_in_order(tree)), [0, 8]);
    for (huge, gained) in [(32, -1), (32 + 15, 2), (32 + 16, -2), (63, 1)] {
        let counts = lower.count_changed(huge, lower.states(huge), gained);
        assert_eq!(counts, [8, 8usize.wrapping_add_signed(gained)], "{huge}, {gained}");
    }
    let none = lower.states(0);
    assert_eq!(lower.count_changed(32, none, 1), [0, 5 + 1], "the first of its word");
    assert_eq!(lower.count_changed(63, none, 2), [0, 3 + 2], "the first of its word");
    assert_eq!(lower.count_changed(31, none, 1), [0, 1]);
}

#[test]
fn all_credits_are_taken_if_they_are_enough() {
    let zone = eight_left();
    let (lower, huge) = (&zone.lower, 32 + 14);
    let frame = FrameId(huge * Base4K::HUGE_FRAMES);
    zone.alloc(Request::movable(Order(3), Slot(0)).at(frame)).expect("it is free");
    let all = Base4K::HUGE_FRAMES - 8;
    assert_eq!(lower.take_all(huge, all + 1), None);
    let taken = lower.take_all(huge, all).expect("there are as many");
    assert_eq!((taken.before, taken.after, lower.credits(huge)), (all, 0, 0));
    assert_eq!(lower.take_all(huge, 0), None, "there are none");
}
