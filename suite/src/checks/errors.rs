//! Wrong calls: each has its own error, changes nothing, and never panics.
//!
//! The judge knows which error is due, so the checks only make the calls; `validate` shows that
//! nothing changed.

use woodlot_frame::{
    Batch, Class, FrameId, FreeError, HugeId, Init, Order, Place, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, rng};
use crate::zones;

/// A used zone that begins at frame 1: some blocks of every order are allocated.
fn used(engine: Engine) -> (Checked, Vec<(FrameId, Order)>) {
    let config =
        ZoneConfig::new(engine.tree_frames + engine.huge_frames + 3, 3).starting_at(FrameId(1));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut blocks = Vec::new();
    for order in engine.orders().chain(engine.orders().rev()) {
        blocks.push((zone.take(order, Slot(0)), order));
    }
    (zone, blocks)
}

/// Slots that the zone does not have.
const BAD_SLOTS: [usize; 5] = [3, 4, 255, 1 << 40, usize::MAX];

/// Orders beyond the largest of every geometry.
fn bad_orders(engine: Engine) -> impl Iterator<Item = Order> {
    (engine.max_order.0 + 1..=255).map(Order)
}

/// Frames near the ends of the zone and of the number space.
fn bad_frames(config: &ZoneConfig) -> Vec<FrameId> {
    let max = usize::MAX;
    let mut frames = vec![0, config.start.0 - 1, config.end().0, config.end().0 + 1];
    frames.extend([max, max - 1, max - 511, max - 512, max - 1023, max - 65_535]);
    frames.extend([max / 2, max / 2 + 1, 1 << 62, 1 << 32, 1 << 52]);
    frames.extend((0..14).map(|order| max - ((1 << order) - 1)));
    frames.into_iter().map(FrameId).collect()
}

/// Slots, classes and orders that do not exist, in allocations.
pub fn bad_requests_are_refused(engine: Engine) {
    let (mut zone, blocks) = used(engine);
    let good = Request::movable(Order::BASE, Slot(0));
    let classes = [4, 5, 7, 8, 128, 255].map(Class);
    let mut bad: Vec<_> = BAD_SLOTS.map(|n| Request { slot: Slot(n), ..good }).into();
    bad.extend(classes.map(|class| good.class(class)));
    bad.extend(bad_orders(engine).map(|order| Request { order, ..good }));
    for request in bad {
        for request in [request, request.at(blocks[0].0), request.at(FrameId(0))] {
            assert!(zone.alloc(request).is_err());
            for batch in [Batch::All, Batch::UpTo] {
                assert!(zone.alloc_batch(request, batch, 3).is_err());
                assert_eq!(zone.alloc_batch(request, batch, 0), Ok(vec![]));
            }
        }
    }
    // All at once: any of the errors will do, but one of them.
    let worst =
        Request { order: Order(255), slot: Slot(9), class: Class(9), place: Place::Anywhere };
    assert!(zone.alloc(worst).is_err());
    assert!(zone.alloc(worst.at(FrameId(usize::MAX))).is_err());
    zone.validate();
}

/// Exact frames that are misaligned or outside, at every order.
pub fn bad_exact_frames_are_refused(engine: Engine) {
    let (mut zone, _) = used(engine);
    let config = *zone.model.config();
    for order in engine.orders() {
        let misaligned = (order.0 > 0).then(|| FrameId((config.end().0 / 2) | 1));
        for frame in bad_frames(&config).into_iter().chain(misaligned) {
            let request = Request::movable(order, Slot(1)).at(frame);
            assert!(zone.alloc(request).is_err());
            assert!(zone.alloc_batch(request, Batch::UpTo, 2).is_err());
        }
    }
    zone.validate();
}

/// Slots and orders that do not exist, frames outside and misaligned, in frees and drains.
pub fn bad_frees_are_refused(engine: Engine) {
    let (mut zone, blocks) = used(engine);
    let config = *zone.model.config();
    for &(frame, order) in &blocks {
        for slot in BAD_SLOTS.map(Slot) {
            assert_eq!(zone.free(frame, order, slot), Err(FreeError::BadSlot(slot)));
            assert!(zone.free_batch(&[frame], order, slot).is_err());
            assert!(zone.drain(slot).is_err());
        }
        for bad in bad_orders(engine) {
            assert!(zone.free(frame, bad, Slot(0)).is_err());
        }
        if order.0 > 0 {
            let inside = FrameId(frame.0 + 1);
            assert_eq!(
                zone.free(inside, order, Slot(0)),
                Err(FreeError::Misaligned(inside, order))
            );
        }
        for outside in bad_frames(&config) {
            assert!(zone.free(outside, order, Slot(0)).is_err());
        }
    }
    for bad in bad_orders(engine) {
        for frame in bad_frames(&config) {
            assert!(zone.free(frame, bad, Slot(0)).is_err());
        }
    }
    zone.validate();
    zone.give_all(blocks, &mut rng(30));
    zone.validate();
}

/// Frees of what is free: never allocated, and freed before, at every order.
pub fn double_frees_are_refused(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::trees(engine, 1, 2), Init::Free);
    for order in engine.orders() {
        let error = Err(FreeError::NotAllocated(FrameId(0)));
        assert_eq!(zone.free(FrameId(0), order, Slot(0)), error, "never allocated");
    }
    zone.validate();
    for order in engine.orders() {
        let others = [zone.take(order, Slot(0)), zone.take(order, Slot(0))];
        let frame = zone.take(order, Slot(0));
        zone.give(frame, order, Slot(0));
        for slot in [Slot(0), Slot(1)] {
            assert!(zone.free(frame, order, slot).is_err(), "freed before");
        }
        zone.validate_counts();
        others.into_iter().for_each(|frame| zone.give(frame, order, Slot(1)));
        assert!(zone.free(frame, order, Slot(0)).is_err(), "freed before");
        zone.validate();
    }
}

/// A free of a larger block, of which some frames are free, must not release the others.
pub fn too_large_an_order_releases_nothing(engine: Engine) {
    for small in engine.orders() {
        let mut zone = Checked::new(engine, &zones::huges(engine, 5, 2), Init::Free);
        let frame = zone.take(small, Slot(0));
        for large in engine.orders().skip(small.0 as usize + 1) {
            let block = FrameId(frame.0 & !(large.frames() - 1));
            assert!(zone.free(block, large, Slot(0)).is_err());
        }
        zone.validate();
        zone.give(frame, small, Slot(1));
        zone.validate();
    }
}

/// A block in which exactly one frame, at any position, is free is not released.
pub fn one_free_frame_protects_the_block(engine: Engine) {
    if engine.unsupported.partial_free {
        return;
    }
    for order in engine.orders() {
        let size = order.frames();
        let positions =
            [0, 1, 31, 32, 63, 64, 127, size / 4, (size / 2).saturating_sub(1), size / 2];
        for missing in positions.into_iter().chain([size - 1]).filter(|&n| n < size) {
            let mut zone = Checked::new(engine, &zones::huges(engine, 4, 2), Init::Free);
            let frame = zone.take(order, Slot(0));
            zone.give(FrameId(frame.0 + missing), Order::BASE, Slot(1));
            assert!(zone.free(frame, order, Slot(0)).is_err());
            assert!(zone.free(FrameId(frame.0 + missing), Order::BASE, Slot(0)).is_err());
            zone.validate();
            // Its larger blocks are not released either.
            for large in engine.orders().skip(order.0 as usize + 1) {
                assert!(
                    zone.free(FrameId(frame.0 & !(large.frames() - 1)), large, Slot(0)).is_err()
                );
            }
            zone.give_rest(Slot(0));
            zone.validate();
        }
    }
}

/// The largest order in two halves, of which only one is allocated: whole, split or not at all.
pub fn half_a_largest_block_stays_owned(engine: Engine) {
    if engine.unsupported.exact_frame || engine.unsupported.partial_free {
        return;
    }
    let max = engine.pair_order;
    let (huge_order, half) = (engine.huge_order, FrameId(engine.huge_frames));
    for allocated in 0..2 {
        // How the owned half came to be, and what is missing in the other.
        for way in 0..4 {
            let mut zone = Checked::new(engine, &zones::huges(engine, 2, 2), Init::Free);
            let halves = [FrameId(0), half];
            let (mine, other) = (halves[allocated], halves[1 - allocated]);
            match way {
                0 => zone.claim(mine, huge_order, Slot(0)),
                1 => {
                    zone.claim(FrameId(0), max, Slot(0));
                    zone.give(other, huge_order, Slot(0));
                }
                2 => {
                    zone.claim(FrameId(0), max, Slot(0));
                    zone.give(FrameId(other.0 + engine.huge_frames / 2), Order::BASE, Slot(0));
                }
                _ => (0..engine.huge_frames).for_each(|n| {
                    zone.claim(FrameId(mine.0 + n), Order::BASE, Slot(0));
                }),
            }
            let due = Err(FreeError::NotAllocated(FrameId(0)));
            assert_eq!(zone.free(FrameId(0), max, Slot(1)), due);
            zone.validate();
            // Nobody else may get the half that is owned.
            zone.fill_all(Slot(1));
            zone.validate();
            zone.give(FrameId(0), max, Slot(0));
            zone.validate();
        }
    }
}

/// Huge frames outside the zone, partial ones, none, and numbers near the limit, for offline and
/// online.
pub fn bad_huge_frames_are_refused(engine: Engine) {
    let (mut zone, _) = used(engine);
    let end = zone.model.huge_range().end;
    let max = usize::MAX;
    // Huge frame 0 lacks the zone's frame 0; the last is partial too.
    let firsts = [0, end, end + 1, max, max - 1, max / engine.huge_frames, max / 2];
    for first in firsts.map(HugeId) {
        for count in [0, 1, 2, max, max / 2] {
            assert!(zone.offline(first, count).is_err());
            assert!(zone.online(first, count).is_err());
        }
    }
    for count in [0, 33, 64, max, max - 1, max / engine.huge_frames] {
        assert!(zone.offline(HugeId(1), count).is_err());
        assert!(zone.online(HugeId(1), count).is_err());
    }
    zone.validate();
}

/// Frees anywhere in a full zone with every wrong order, then all is still there.
pub fn random_wrong_frees_change_nothing(engine: Engine) {
    let mut rng = rng(31);
    let (mut zone, blocks) = used(engine);
    let config = *zone.model.config();
    let mut wrong = 0;
    for _ in 0..3000 {
        let order = Order(rng.u8(..=zone.model.max_order().0 + 1));
        let frame = FrameId(rng.usize(..config.end().0 + 3));
        let frame = if rng.bool() { FrameId(frame.0 & !(order.frames() - 1)) } else { frame };
        if !zone.model.free_faults(frame, order, Slot(0)).is_empty() {
            assert!(zone.free(frame, order, Slot(0)).is_err());
            wrong += 1;
        }
    }
    assert!(wrong > 1000, "only {wrong} wrong frees tried");
    zone.validate();
    zone.give_all(blocks, &mut rng);
    assert_eq!(zone.allocator().stats().free_frames, config.frames);
}
