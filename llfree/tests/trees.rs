//! Zones of many small trees: searches that go from one group of trees to the next, or look into
//! more trees than they should.

use woodlot_frame::{Claim, FrameId, Geometry, HugeId, Init, Order, Request, Slot, ZoneConfig};
use woodlot_llfree::LLFree;
use woodlot_suite::short::Small;
use woodlot_suite::{Checked, Engine, checks, settings};

/// Trees of 32 frames, 64 of which are a group of the index.
type Trees = Small<3, 4>;
const ENGINE: Engine = Engine::of::<LLFree<'static, Trees>>();

/// More than two groups of trees.
fn three_groups() -> ZoneConfig {
    ZoneConfig::new(130 * Trees::TREE_FRAMES + 3, 3).starting_at(FrameId(5))
}

#[test]
fn random_calls_in_three_groups() {
    checks::random::random_calls_on(ENGINE, &three_groups(), settings::seed());
}

/// A slot that has its tree in the last group finds what is free in the first.
#[test]
fn searches_go_round() {
    let mut zone = Checked::new(ENGINE, &three_groups(), Init::Free);
    for order in [0, 2, 3, 4].map(Order) {
        let mut blocks: Vec<_> = zone.fill_all(Slot(0));
        blocks.retain(|&(frame, order)| {
            let first = frame.0 < 2 * Trees::TREE_FRAMES;
            if first {
                zone.give(frame, order, Slot(1));
            }
            !first
        });
        zone.drain(Slot(1)).expect("the slot exists");
        zone.fill(order, Request::movable(order, Slot(0)).class, Slot(0));
        zone.give_rest(Slot(2));
        zone.validate();
    }
}

/// A pair of free frames in the last of many trees, in all of which every other frame is free: the
/// quick look ends before it, and the pair is found all the same.
#[test]
fn a_run_behind_many_trees_without_one() {
    let trees = 20;
    let config = ZoneConfig::new(trees * Trees::TREE_FRAMES, 2);
    let mut zone = Checked::new(ENGINE, &config, Init::Free);
    let frames = zone.fill(Order(0), Request::movable(Order(0), Slot(0)).class, Slot(0));
    assert_eq!(frames.len(), config.frames);
    let last = (trees - 1) * Trees::TREE_FRAMES;
    for frame in (0..config.frames).filter(|&n| n % 2 == 0 || n == last + 1) {
        zone.give(FrameId(frame), Order(0), Slot(1));
    }
    (0..2).for_each(|slot| zone.drain(Slot(slot)).expect("the slot exists"));
    assert_eq!(zone.take(Order(1), Slot(0)), FrameId(last));
    assert_eq!(zone.allocator().free_frames(), config.frames / 2 - 1);
    zone.validate();
}

/// A tree of fewer huge frames than a word of states has: what is freed whole while it is isolated is that of its own
/// tree.
#[test]
fn isolated_in_the_second_tree() {
    let config = ZoneConfig::new(4 * Trees::TREE_FRAMES, 2);
    let mut zone = Checked::new(ENGINE, &config, Init::Free);
    let (order, huge) = (Order::huge::<Trees>(), HugeId(Trees::TREE_HUGE + 1));
    // Its place in the first tree is split, and in use.
    zone.claim(HugeId(1).first::<Trees>(), Order(0), Slot(0));
    zone.claim(huge.first::<Trees>(), order, Slot(0));
    zone.isolate(huge, 1).expect("it is not isolated");
    zone.give(huge.first::<Trees>(), order, Slot(1));
    zone.validate();
    zone.claim_isolated(huge, 1, Claim::Block(Slot(1))).expect("it is empty");
    zone.give(huge.first::<Trees>(), order, Slot(0));
    zone.validate();
}
