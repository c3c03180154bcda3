//! Classes: kept apart while there is room, never in the way of the last frame.

use std::collections::{HashMap, HashSet};

use woodlot_frame::{Class, ClassPolicy, FrameId, Init, Order, Request, Slot, ZoneConfig};

use super::{Checked, Engine, rng};
use crate::zones;

/// Which class a live block is of.
type Live = Vec<(FrameId, Order, Class)>;

/// The classes in use in each unit of `frames` frames.
fn classes_by_unit(live: &Live, frames: usize) -> HashMap<usize, HashSet<Class>> {
    let mut classes: HashMap<usize, HashSet<Class>> = HashMap::new();
    for &(frame, _, class) in live {
        classes.entry(frame.0 / frames).or_default().insert(class);
    }
    classes
}

/// Units of `frames` frames that are in use, and those that several classes are in.
fn used_and_mixed(live: &Live, frames: usize) -> (usize, usize) {
    let classes = classes_by_unit(live, frames);
    (classes.len(), classes.values().filter(|classes| classes.len() > 1).count())
}

/// Every class fills its own huge frames only.
fn separate() -> ClassPolicy {
    let rows: [(u8, &[u8]); 4] =
        [(1, &[0, 3, 2, 1]), (1, &[1, 2, 0, 3]), (1, &[2, 1, 0, 3]), (1, &[3, 0, 2, 1])];
    ClassPolicy::new(&rows).expect("each row names every class once, its own first")
}

/// Blocks of two classes in turn, of several orders, never freed, until two of twelve trees are
/// full; `judge` sees each block before it is added to the others.
fn grow(
    engine: Engine,
    policy: ClassPolicy,
    slots: usize,
    mut judge: impl FnMut(&Checked, &Live, FrameId, Class),
) -> (Checked, Live) {
    let config = zones::trees(engine, 12, slots).with_classes(policy);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut live: Live = Vec::new();
    for n in 0.. {
        let class = [Class::IMMOVABLE, Class::MOVABLE][n % 2];
        let order = Order((n / 2 % 4) as u8);
        let request = Request::new(order, class, Slot(n / 8 % slots));
        let frame = zone.alloc(request).expect("most is free");
        judge(&zone, &live, frame, class);
        live.push((frame, order, class));
        if zone.model.free_frames() < 10 * engine.tree_frames {
            break;
        }
    }
    (zone, live)
}

/// Where each class fills its own huge frames only, they share neither huge frame nor tree.
pub fn classes_are_kept_apart_as_memory_fills(engine: Engine) {
    if engine.unsupported.classes {
        return;
    }
    for slots in [1, 2] {
        let (zone, live) = grow(engine, separate(), slots, |_, _, _, _| {});
        for (frames, unit) in [(engine.huge_frames, "huge frames"), (engine.tree_frames, "trees")] {
            let (used, mixed) = used_and_mixed(&live, frames);
            if mixed > 0 {
                zone.fail(&format!("{mixed} of {used} {unit} have blocks of both classes"));
            }
        }
    }
}

/// With the policy as shipped what can be moved may fill up around what cannot, but what cannot
/// never goes where so far everything can.
pub fn immovable_blocks_do_not_settle_among_movable_ones(engine: Engine) {
    if engine.unsupported.classes {
        return;
    }
    for slots in [1, 2] {
        // Which classes are in each huge frame so far.
        let mut so_far: HashMap<usize, HashSet<Class>> = HashMap::new();
        grow(engine, ClassPolicy::SHIPPED, slots, |zone, _, frame, class| {
            let there = so_far.entry(frame.0 / engine.huge_frames).or_default();
            let only_movable = there.len() == 1 && there.contains(&Class::MOVABLE);
            if only_movable && class == Class::IMMOVABLE {
                zone.fail(&format!("the immovable block at {frame} is among movable ones"));
            }
            there.insert(class);
        });
    }
}

/// Random churn of immovable and movable blocks in an eighth of the memory, each class filling its
/// own huge frames only: seven eighths are free, so they need not mix.
fn churn(zone: &mut Checked, salt: u64, slots: usize, orders: u8) -> Live {
    let mut rng = rng(salt);
    let limit = zone.model.config().frames / 8;
    let mut live: Live = Vec::new();
    for step in 0..4000 {
        let used = zone.model.config().frames - zone.model.free_frames();
        if used > limit || (!live.is_empty() && rng.u8(..5) < 2) {
            let (frame, order, _) = live.swap_remove(rng.usize(..live.len()));
            zone.give(frame, order, Slot(rng.usize(..slots)));
        } else {
            let order = Order(rng.u8(..=orders));
            let class = [Class::IMMOVABLE, Class::MOVABLE][rng.usize(..2)];
            let request = Request::new(order, class, Slot(rng.usize(..slots)));
            live.push((zone.alloc(request).expect("most is free"), order, class));
        }
        if step % 100 == 99 {
            let (used, mixed) = used_and_mixed(&live, zone.engine().huge_frames);
            if mixed > 0 {
                zone.fail(&format!("{mixed} of {used} huge frames have blocks of both classes"));
            }
        }
    }
    let (trees, mixed) = used_and_mixed(&live, zone.engine().tree_frames);
    println!("{}: both classes are in {mixed} of {trees} trees", zone.engine().name);
    live
}

/// Random calls with most of the memory free, through two slots: no huge frame is shared.
pub fn classes_are_kept_apart_while_there_is_room(engine: Engine) {
    if engine.unsupported.classes {
        return;
    }
    let config = zones::trees(engine, 16, 2).with_classes(separate());
    let mut zone = Checked::new(engine, &config, Init::Free);
    let live = churn(&mut zone, 100, 2, 3);
    zone.validate_counts();
    for (frame, order, _) in live {
        zone.give(frame, order, Slot(0));
    }
    zone.validate_counts();
}

/// The same through one slot, with blocks up to nearly a huge frame, and again where there was use
/// before.
pub fn classes_are_kept_apart_on_one_slot(engine: Engine) {
    if engine.unsupported.classes {
        return;
    }
    let config = ZoneConfig::new(12 * engine.tree_frames + 5, 1).with_classes(separate());
    let mut zone = Checked::new(engine, &config, Init::Free);
    for salt in 101..103 {
        let live = churn(&mut zone, salt, 1, (engine.huge_order.0 - 1).min(5));
        for (frame, order, _) in live {
            zone.give(frame, order, Slot(0));
        }
        zone.validate_counts();
    }
}

/// Each class alone can use the zone up, and what another class left over.
pub fn every_class_may_take_the_last_frame(engine: Engine) {
    let config = ZoneConfig::new(2 * engine.tree_frames + 3, 2);
    for policy in [ClassPolicy::SHIPPED, ClassPolicy::SINGLE, eight_classes()] {
        let mut zone = Checked::new(engine, &config.with_classes(policy), Init::Free);
        for class in policy.all() {
            let mut blocks = Vec::new();
            // One block of every class keeps trees of every class.
            for other in policy.all() {
                let order = Order(2);
                let frame = zone.alloc(Request::new(order, other, Slot(1)));
                blocks.push((frame.expect("the zone is empty"), order));
            }
            for order in [engine.huge_order, Order(2), Order::BASE] {
                let filled = zone.fill(order, class, Slot(0));
                blocks.extend(filled.into_iter().map(|frame| (frame, order)));
            }
            assert_eq!(zone.model.free_frames(), 0);
            zone.validate_counts();
            zone.give_all(blocks, &mut rng(103));
            zone.validate_counts();
        }
        zone.validate();
    }
}

/// Every class in turn, as the largest policy.
pub(crate) fn eight_classes() -> ClassPolicy {
    let rows: Vec<Vec<u8>> = (0..8).map(|c| (0..8).map(|i| (c + i) % 8).collect()).collect();
    // The first fills only its own huge frames, the last everyone's.
    let rows = rows.iter().enumerate().map(|(c, row)| (c as u8 + 1, row.as_slice()));
    let rows: Vec<(u8, &[u8])> = rows.collect();
    ClassPolicy::new(&rows).expect("each row names every class once, its own first")
}

/// The statistics by class follow what the classes did, and sum up.
pub fn statistics_by_class_sum_up(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::trees(engine, 6, 2), Init::Free);
    let mut blocks = Vec::new();
    for n in 0..400_usize {
        let class = Class(n as u8 % 4);
        let order = if n % 50 == 0 { engine.huge_order } else { Order(n as u8 % 3) };
        let frame = zone.alloc(Request::new(order, class, Slot(n % 2)));
        blocks.push((frame.expect("much is free"), order));
        if n % 20 == 0 {
            zone.validate_counts();
        }
    }
    for slot in (0..2).map(Slot) {
        zone.drain(slot).expect("the slot exists");
        zone.validate_counts();
    }
    zone.give_all(blocks, &mut rng(104));
    zone.validate();
}
