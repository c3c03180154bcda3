//! Which of several places an allocation chooses: that is what leaves huge frames whole.

mod memory;

use woodlot_frame::{
    Base4K, Batch, Class, ClassPolicy, FrameAllocator, FrameId, Geometry, Init, Order, Owned,
    Request, Slot, ZoneConfig,
};
use woodlot_llfree::{LLFree, Tuning};

use memory::Memory;

const HUGE: usize = Base4K::HUGE_FRAMES;

/// So many trees of one class, and so many slots.
fn free_trees(trees: usize, slots: usize) -> Owned<LLFree<'static, Base4K>> {
    let config = ZoneConfig::new(trees * Base4K::TREE_FRAMES, slots);
    Owned::new(&config.with_classes(ClassPolicy::SINGLE), Init::Free).expect("a zone")
}

/// So many trees of one class and two slots, in which blocks of half a huge frame are allocated: of so
/// many huge frames of each tree one half.
fn halves_taken(halves: &[usize]) -> Owned<LLFree<'static, Base4K>> {
    let zone = free_trees(halves.len(), 2);
    let trees = halves.iter().zip((0..).step_by(Base4K::TREE_FRAMES));
    for frame in trees.flat_map(|(&count, first)| (0..count).map(move |n| first + n * HUGE)) {
        claim(&zone, frame, 8);
    }
    zone
}

fn claim(zone: &LLFree<'_, Base4K>, frame: usize, order: u8) {
    let request = Request::new(Order(order), Class(0), Slot(1)).at(FrameId(frame));
    zone.alloc(request).expect("it is free");
}

fn next(zone: &LLFree<'_, Base4K>) -> usize {
    zone.alloc(Request::new(Order(0), Class(0), Slot(0))).expect("a frame").0
}

#[test]
fn the_most_used_child_is_filled_first() {
    let zone = halves_taken(&[3]);
    claim(&zone, HUGE + HUGE / 2, 7);
    assert_eq!(next(&zone) / HUGE, 1, "the most used child is another");
}

#[test]
fn children_with_little_left_are_filled_last() {
    let zone = halves_taken(&[2]);
    (HUGE / 2..HUGE - 8).for_each(|frame| claim(&zone, frame, 0));
    assert_eq!(next(&zone) / HUGE, 1, "the child with little left is not the last");
    let zone = halves_taken(&[1]);
    (HUGE / 2..HUGE - 60).for_each(|frame| claim(&zone, frame, 0));
    claim(&zone, HUGE, 3);
    assert_eq!(next(&zone) / HUGE, 1, "one with hardly anything allocated comes later");
}

#[test]
fn the_most_used_tree_is_filled_first() {
    let zone = halves_taken(&[4, 31, 20]);
    let whole = |huge| claim(&zone, Base4K::TREE_FRAMES + huge * HUGE + HUGE / 2, 8);
    (0..16).for_each(whole);
    assert_eq!(next(&zone) / Base4K::TREE_FRAMES, 1, "the most used tree is another");
}

#[test]
fn a_huge_frame_in_part_allocated_comes_before_a_free_one() {
    let zone = halves_taken(&[0, 1]);
    assert_eq!(next(&zone) / HUGE, Base4K::TREE_HUGE, "a free huge frame was opened");
}

/// Blocks of every order lie one behind the other in a zone in which nothing else is used.
#[test]
fn blocks_fill_one_huge_frame_after_the_other() {
    for order in (0..9).map(Order) {
        let zone = halves_taken(&[0, 0, 0]);
        for first in (0..3 * HUGE).step_by(order.frames()) {
            let request = Request::new(order, Class(0), Slot(0));
            assert_eq!(zone.alloc(request), Ok(FrameId(first)), "{order}");
        }
    }
}

#[test]
fn a_batch_fills_one_huge_frame_after_the_other() {
    let zone = halves_taken(&[0, 0, 0]);
    let mut frames = [FrameId(0); 3 * HUGE];
    let request = Request::new(Order(0), Class(0), Slot(0));
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut frames), Ok(3 * HUGE));
    assert!(frames.iter().map(|frame| frame.0).eq(0..3 * HUGE));
}

/// Of two trees all huge frames are allocated but one of tree 0 and four of tree 1, and slot 1 frees so many
/// blocks of tree 1 in a row. Which tree does it get its next huge frame from? By itself it would take the
/// most used tree, number 0.
fn next_after_frees_in_a_row(tuning: Tuning, parts: bool, order: u8, frees: usize) -> usize {
    let config = ZoneConfig::new(2 * Base4K::TREE_FRAMES, 2).with_classes(ClassPolicy::SINGLE);
    let mut memory = Memory::of::<LLFree<Base4K>>(&config);
    // SAFETY: the memory is aligned, initialised, and outlives the zone, which alone uses it.
    let zone = unsafe { LLFree::with_tuning(&config, tuning, memory.metadata(), Init::Free) };
    let zone = zone.expect("a zone");
    let taken = (1..32).chain(36..40).chain(42..64);
    taken.for_each(|huge| claim(&zone, huge * HUGE, 9));
    // Of base frames the first free finds the huge frame split, or splits it.
    match parts {
        true => (0..4).for_each(|half| claim(&zone, 40 * HUGE + half * HUGE / 2, 8)),
        false => claim(&zone, 40 * HUGE, 10),
    }
    for block in 0..frees {
        let frame = FrameId(40 * HUGE + (block << order));
        zone.free(frame, Order(order), Slot(1)).expect("it is allocated");
    }
    assert_eq!(zone.stats().free_frames, 5 * HUGE + (frees << order), "nothing is lost");
    let request = Request::new(Order(9), Class(0), Slot(1));
    zone.alloc(request).expect("a huge frame").0 / Base4K::TREE_FRAMES
}

#[test]
fn frees_in_a_row_reserve_their_tree() {
    for after in 1..=4 {
        let mut tuning = Tuning::DEFAULT;
        tuning.reserve_after_frees = after as u8;
        let large = [(false, 9, after), (false, 10, after.min(2))];
        let small = [(false, 0), (true, 0), (false, 3), (true, 3)];
        let small = small.map(|(parts, order)| (parts, order, after));
        for (parts, order, enough) in large.into_iter().chain(small) {
            let tree = |frees| next_after_frees_in_a_row(tuning, parts, order, frees);
            let trees = (tree(enough - 1), tree(enough));
            assert_eq!(trees, (0, 1), "{after} frees of order {order}, in parts: {parts}");
        }
    }
}

/// Reserve-on-free turned off, and trees that are none of those it reserves: too little or too much of
/// them is free.
#[test]
fn frees_in_a_row_reserve_no_other_tree() {
    let never = |tuning: &mut Tuning| tuning.reserve_after_frees = 0;
    let too_full = |tuning: &mut Tuning| tuning.allocated_below = 8;
    let too_empty = |tuning: &mut Tuning| tuning.free_above = 0;
    for turn in [never, too_full, too_empty] {
        let mut tuning = Tuning::DEFAULT;
        turn(&mut tuning);
        for order in [0, 9, 10] {
            let tree = next_after_frees_in_a_row(tuning, false, order, 8);
            assert_eq!(tree, 0, "{tuning:?}, frees of order {order}");
        }
    }
}

/// A slot that frees so often in a row into another child of its own tree holds that child: it gets its
/// next frame there. A sixteenth of a huge frame is enough at once.
#[test]
fn frees_in_a_row_hold_their_child() {
    for (order, enough) in [(0, 4), (2, 4), (4, 4), (5, 1), (7, 1)] {
        let holds = |frees| {
            let zone = halves_taken(&[2]);
            let other = 1 - next(&zone) / HUGE;
            for block in 0..frees {
                let frame = FrameId(other * HUGE + (block << order));
                zone.free(frame, Order(order), Slot(0)).expect("it is allocated");
            }
            next(&zone) / HUGE == other
        };
        let held = (holds(enough - 1), holds(enough));
        assert_eq!(held, (false, true), "frees of order {order}");
    }
}

/// So many trees in which nothing is allocated but a huge frame of each of the first ones, by a slot of its
/// own, which has reserved that tree: which trees those are.
fn reserved<const SLOTS: usize>(trees: usize) -> (Owned<LLFree<'static, Base4K>>, [usize; SLOTS]) {
    let zone = free_trees(trees, SLOTS + 1);
    let huge = |slot| {
        let request = Request::new(Order(9), Class(0), Slot(slot));
        zone.alloc(request).expect("a huge frame")
    };
    // If there is one more, it is the first, and free again, so that the index says so truly.
    let first = (trees > SLOTS).then(|| huge(SLOTS));
    let own = std::array::from_fn(|slot| huge(slot).0 / Base4K::TREE_FRAMES);
    if let Some(frame) = first {
        zone.free(frame, Order(9), Slot(SLOTS)).expect("it is allocated");
        zone.drain(Slot(SLOTS)).expect("a slot");
    }
    (zone, own)
}

/// Half of the last huge frame of the tree is allocated; which it is.
fn half_of_the_last(zone: &LLFree<'_, Base4K>, tree: usize) -> usize {
    let huge = (tree + 1) * Base4K::TREE_HUGE - 1;
    claim(zone, huge * HUGE, 8);
    huge
}

/// One of four trees that nobody has reserved.
fn neither_of(reserved: [usize; 2]) -> usize {
    (0..4).rfind(|tree| !reserved.contains(tree)).expect("a tree")
}

#[test]
fn a_huge_frame_in_part_allocated_of_another_tree_comes_before_a_free_one_of_the_own() {
    let (zone, reserved) = reserved::<2>(4);
    let huge = half_of_the_last(&zone, neither_of(reserved));
    assert_eq!(next(&zone) / HUGE, huge);
}

#[test]
fn a_huge_frame_in_part_allocated_of_a_reserved_tree_comes_before_a_free_one_of_the_own() {
    let (zone, [own, other]) = reserved(4);
    assert_ne!(own, other);
    let huge = half_of_the_last(&zone, other);
    assert_eq!(next(&zone) / HUGE, huge);
}

#[test]
fn what_is_in_part_allocated_of_the_own_tree_comes_first() {
    for others in [false, true] {
        let (zone, [own, other]) = reserved(4);
        let huge = half_of_the_last(&zone, own);
        if others {
            half_of_the_last(&zone, other);
            half_of_the_last(&zone, neither_of([own, other]));
        }
        assert_eq!(next(&zone) / HUGE, huge, "others: {others}");
    }
}

/// While trees are entirely free each slot opens huge frames of its own; then it shares what others hold.
#[test]
fn what_other_slots_hold_is_shared_when_no_tree_is_free() {
    for trees in [2, 3] {
        let (zone, [own, other]) = reserved(trees);
        assert_ne!(own, other);
        let request = Request::new(Order(0), Class(0), Slot(1));
        let held = zone.alloc(request).expect("a frame").0 / HUGE;
        assert_eq!(held / Base4K::TREE_HUGE, other);
        assert_eq!(next(&zone) / HUGE == held, trees == 2, "{trees} trees");
    }
}

/// The same where the own tree has a huge frame in part allocated, in which there is no room.
#[test]
fn what_other_slots_hold_is_not_shared_because_there_is_no_room() {
    let (zone, [own, other]) = reserved(3);
    let last = ((own + 1) * Base4K::TREE_HUGE - 1) * HUGE;
    // All but its last frame.
    (0..9).rev().for_each(|order| claim(&zone, last + HUGE - (2 << order), order));
    let alloc = |slot| {
        let request = Request::new(Order(1), Class(0), Slot(slot));
        zone.alloc(request).expect("two frames").0 / Base4K::TREE_FRAMES
    };
    assert_eq!([alloc(1), alloc(0)], [other, own]);
}

#[test]
fn a_huge_frame_whose_frames_all_came_back_is_the_next_one() {
    let (zone, [own, _]) = reserved::<2>(3);
    let frame = next(&zone);
    let huge_frames = own * Base4K::TREE_HUGE + 2..(own + 1) * Base4K::TREE_HUGE;
    huge_frames.for_each(|huge| claim(&zone, huge * HUGE, 9));
    zone.free(FrameId(frame), Order(0), Slot(0)).expect("it is allocated");
    let request = Request::new(Order(9), Class(0), Slot(0));
    assert_eq!(zone.alloc(request), Ok(FrameId(frame)));
}

#[test]
fn huge_frames_come_from_the_most_used_tree() {
    for order in [9, 10] {
        let zone = halves_taken(&[4, 30, 20]);
        let request = Request::new(Order(order), Class(0), Slot(0));
        let frame = zone.alloc(request).expect("a huge frame");
        assert_eq!(frame.0 / Base4K::TREE_FRAMES, 1, "order {order}");
    }
}

/// Four trees, three slots, three classes of which none fills up what another has begun.
fn apart() -> Owned<LLFree<'static, Base4K>> {
    let classes = ClassPolicy::new(&[(1, &[0, 1, 2]), (1, &[1, 2, 0]), (1, &[2, 0, 1])]);
    let config = ZoneConfig::new(4 * Base4K::TREE_FRAMES, 3);
    let config = config.with_classes(classes.expect("a policy"));
    Owned::new(&config, Init::Free).expect("a zone")
}

#[test]
fn classes_have_trees_of_their_own() {
    let zone = apart();
    let tree = |class| {
        let request = Request::new(Order(0), Class(class), Slot(0));
        zone.alloc(request).expect("a frame").0 / Base4K::TREE_FRAMES
    };
    let [first, second, third] = [0, 1, 2].map(tree);
    assert!(first != second && second != third && third != first);
}

/// The first block of a free tree, claimed by its number, makes it one of the block's class.
#[test]
fn claims_begin_trees_of_their_class() {
    let zone = apart();
    let request = |class, order| Request::new(Order(order), Class(class), Slot(class as usize));
    for (class, tree) in [(0, 2), (1, 0), (2, 3)] {
        let first = FrameId(tree * Base4K::TREE_FRAMES);
        zone.alloc(request(class, 8).at(first)).expect("it is free");
        // The next ones change nothing.
        let second = FrameId(first.0 + HUGE / 2);
        zone.alloc(request((class + 1) % 3, 7).at(second)).expect("it is free");
    }
    let trees = [0, 1, 2].map(|class| zone.alloc(request(class, 0)).expect("a frame"));
    assert_eq!(trees.map(|frame| frame.0 / Base4K::TREE_FRAMES), [2, 0, 3]);
}

#[test]
fn trees_are_compared_by_what_is_used_of_their_huge_frames() {
    let zone = halves_taken(&[32, 32]);
    (32..64).for_each(|huge| claim(&zone, huge * HUGE + HUGE / 2, 7));
    assert_eq!(next(&zone) / Base4K::TREE_FRAMES, 1, "the most used tree is another");
}
