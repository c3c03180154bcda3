//! Zones of any size that begin anywhere: the last frame is used, none beyond it.

use woodlot_frame::{
    AllocError, Class, FrameId, Init, InitError, Order, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, all_allocated, rng};
use crate::zones;

/// Fills every ragged zone to the last frame, from the largest order down, and empties it.
pub fn ragged_zones_are_used_to_the_last_frame(engine: Engine) {
    let mut rng = rng(10);
    for config in zones::ragged(engine) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        zone.validate();
        let blocks = zone.fill_all(Slot(1));
        zone.validate();
        zone.give_all(blocks, &mut rng);
        zone.validate();
    }
}

/// Single frames only, which every small zone must hand out one by one.
pub fn small_zones_are_used_frame_by_frame(engine: Engine) {
    let mut rng = rng(11);
    for config in zones::small(engine) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        let frames = zone.fill(Order::BASE, Class::IMMOVABLE, Slot(0));
        assert_eq!(frames.len(), config.frames);
        zone.validate_counts();
        zone.give_all(frames.into_iter().map(|frame| (frame, Order::BASE)).collect(), &mut rng);
        zone.validate();
    }
}

/// Single frames only, in a large ragged zone.
pub fn a_large_zone_is_used_frame_by_frame(engine: Engine) {
    let config = zones::large(engine).pop().expect("there are large zones");
    let mut zone = Checked::new(engine, &config, Init::Free);
    let frames = zone.fill(Order::BASE, Class::MOVABLE, Slot(0));
    assert_eq!(frames.len(), config.frames);
    zone.validate();
    zone.give_all(frames.into_iter().map(|frame| (frame, Order::BASE)).collect(), &mut rng(13));
    zone.validate();
}

/// Zones that begin allocated and are then handed over, in the largest blocks that fit.
pub fn ragged_zones_begin_allocated(engine: Engine) {
    for config in zones::ragged(engine) {
        let Some(mut zone) = all_allocated(engine, &config) else { return };
        zone.validate();
        assert_eq!(
            zone.alloc(Request::movable(Order::BASE, Slot(0))),
            Err(AllocError::OutOfMemory)
        );
        if engine.unsupported.partial_free {
            continue;
        }
        zone.give_rest(Slot(0));
        assert_eq!(zone.model.free_frames(), config.frames);
        zone.validate();
        zone.fill_all(Slot(1));
        zone.validate();
    }
}

/// The frames just outside a ragged zone can be neither claimed nor freed.
pub fn frames_beyond_the_ends_are_out_of_range(engine: Engine) {
    for config in zones::ragged(engine) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        let (start, end) = (config.start.0, config.end().0);
        for order in engine.orders() {
            let first = start & !(order.frames() - 1);
            let last = (end - 1) & !(order.frames() - 1);
            let next = end.next_multiple_of(order.frames());
            let before = start.wrapping_sub(1) & !(order.frames() - 1);
            for frame in [first, last, next, before].map(FrameId) {
                if !config.contains(frame, order) {
                    let claim = zone.alloc(Request::movable(order, Slot(0)).at(frame));
                    assert!(claim.is_err(), "{frame} {order}");
                    assert!(zone.free(frame, order, Slot(0)).is_err(), "{frame} {order}");
                }
            }
        }
        zone.validate();
    }
}

/// Zones that end at the very end of the number space work or are refused as too large; zones that
/// reach past it are refused.
pub fn zones_near_the_end_of_the_number_space(engine: Engine) {
    let huge = engine.huge_frames;
    for frames in [1, 2, huge - 1, huge, huge + 1, 3 * huge] {
        for gap in [0, 1, huge / 2, huge, huge + 1] {
            let start = FrameId(usize::MAX - frames - gap);
            let config = ZoneConfig::new(frames, 2).starting_at(start);
            match engine.zone(&config, Init::Free) {
                Ok(_) => {
                    let mut zone = Checked::new(engine, &config, Init::Free);
                    zone.validate_counts();
                    let blocks = zone.fill_all(Slot(0));
                    zone.give_all(blocks, &mut rng(12));
                    zone.validate_counts();
                }
                Err(error) => assert_eq!(error, InitError::ZoneTooLarge, "{config:?}"),
            }
        }
        let past = ZoneConfig::new(frames + 1, 2).starting_at(FrameId(usize::MAX - frames));
        assert_eq!(engine.metadata_size(&past), Err(InitError::ZoneTooLarge), "{past:?}");
        let error = engine.zone(&past, Init::Free).err();
        assert_eq!(error, Some(InitError::ZoneTooLarge), "{past:?}");
    }
}

/// Holes are claimed where they are, and nothing else ever gets them.
pub fn holes_are_never_handed_out(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let mut rng = rng(14);
    let config = ZoneConfig::new(engine.tree_frames + 7, 2).starting_at(FrameId(3));
    let mut zone = Checked::new(engine, &config, Init::Free);
    let mut holes = Vec::new();
    for _ in 0..60 {
        let order = Order(rng.u8(..zone.model.max_order().0));
        let frame = FrameId(rng.usize(3..config.end().0) & !(order.frames() - 1));
        if zone.model.is_free(frame, order) {
            zone.claim(frame, order, Slot(0));
            holes.push((frame, order));
        }
    }
    zone.validate();
    let blocks = zone.fill_all(Slot(1));
    zone.give_all(blocks, &mut rng);
    zone.validate();
    zone.give_all(holes, &mut rng);
    zone.validate();
    assert_eq!(zone.allocator().stats().free_frames, config.frames);
}
