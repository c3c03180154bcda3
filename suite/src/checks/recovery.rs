//! Recovery from the durable part: exactly what was allocated, from any state; and from bytes that
//! mean nothing, something consistent.

use fastrand::Rng;
use woodlot_frame::{FrameId, HugeId, Init, Order, Request, Slot, ZoneConfig};

use super::{Checked, Engine, all_allocated, rng};
use crate::engine::{Allocator, Zone};
use crate::model::State;
use crate::settings::{replay_line, seed};
use crate::zones;

/// Fresh, full, and half full zones of every ragged shape come back as they were.
pub fn ragged_zones_are_recovered(engine: Engine) {
    if engine.unsupported.recovery {
        return;
    }
    let mut rng = rng(80);
    for config in zones::ragged(engine) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        zone.recover();
        zone.validate_counts();
        let mut blocks = zone.fill_all(Slot(0));
        zone.recover();
        zone.validate_counts();
        rng.shuffle(&mut blocks);
        let half = blocks.split_off(blocks.len() / 2);
        zone.give_all(half, &mut rng);
        zone.recover();
        zone.validate();
        // It goes on as before.
        zone.give_all(blocks, &mut rng);
        zone.validate_counts();
        zone.fill_all(Slot(1));
        zone.validate_counts();
    }
}

/// A zone that began allocated, and was handed over in part.
pub fn allocated_zones_are_recovered(engine: Engine) {
    if engine.unsupported.recovery {
        return;
    }
    for config in zones::ragged(engine) {
        let Some(mut zone) = all_allocated(engine, &config) else { return };
        zone.recover();
        zone.validate_counts();
        if engine.unsupported.partial_free {
            continue;
        }
        for order in engine.orders().rev().step_by(2) {
            let found = zone.model.blocks(order).find(|&f| zone.model.is_allocated(f, order));
            if let Some(frame) = found {
                zone.give(frame, order, Slot(0));
            }
        }
        zone.recover();
        zone.validate();
        zone.give_rest(Slot(0));
        zone.validate_counts();
    }
}

/// Blocks of every order, split and merged ones, and a second recovery right after the first.
pub fn splits_are_recovered(engine: Engine) {
    if engine.unsupported.recovery || engine.unsupported.partial_free {
        return;
    }
    let mut rng = rng(81);
    // A whole tree, and two that the ends cut off.
    let config =
        ZoneConfig::new(2 * engine.tree_frames + engine.huge_frames / 2, 2).starting_at(FrameId(7));
    let mut zone = Checked::new(engine, &config, Init::Free);
    for round in 0..8 {
        for _ in 0..60 {
            let order = Order(rng.u8(..=zone.model.max_order().0));
            if let Ok(block) = zone.alloc(Request::movable(order, Slot(0))) {
                let part = Order(rng.u8(..=order.0));
                let inside = rng.usize(..order.frames()) & !(part.frames() - 1);
                zone.give(FrameId(block.0 + inside), part, Slot(1));
            }
        }
        zone.recover();
        zone.validate();
        zone.recover();
        zone.validate_counts();
        if round % 3 == 2 {
            zone.give_rest(Slot(0));
            zone.recover();
            zone.validate();
        }
    }
}

/// What was offline stays offline.
pub fn offline_frames_are_recovered(engine: Engine) {
    if engine.unsupported.recovery || engine.unsupported.offline {
        return;
    }
    let config =
        ZoneConfig::new(engine.tree_frames + 2 * engine.huge_frames, 2).starting_at(FrameId(1));
    let mut zone = Checked::new(engine, &config, Init::Free);
    zone.offline(HugeId(1), 1).expect("the huge frame is free");
    zone.offline(HugeId(4), 9).expect("the huge frames are free");
    let mut blocks = vec![(zone.take(Order::BASE, Slot(0)), Order::BASE)];
    zone.recover();
    zone.validate();
    blocks.extend(zone.fill_all(Slot(0)));
    zone.recover();
    zone.validate();
    zone.online(HugeId(4), 9).expect("they are offline");
    zone.give_all(blocks, &mut rng(82));
    zone.recover();
    zone.validate();
}

/// Writes nonsense of one kind over the durable bytes.
fn damage(bytes: &mut [u8], kind: usize, rng: &mut Rng) {
    match kind {
        0 => bytes.iter_mut().for_each(|byte| *byte = rng.u8(..)),
        1 => bytes.fill(0xFF),
        2 => bytes.fill(0),
        3 => bytes.fill(0x55),
        4 => bytes.fill(0x80),
        // A little of it, so that most still looks right.
        5 => (0..20).for_each(|_| {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
        }),
        // Words with small and with extreme values, where counters are.
        _ => bytes.chunks_mut(4).for_each(|word| {
            let small = u32::from(rng.u16(..) >> rng.u8(..16));
            let value = [small, small << 16, 0, u32::MAX, rng.u32(..)][rng.usize(..5)];
            word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
        }),
    }
}

/// The kinds of damage.
const KINDS: usize = 7;

/// Any bytes at all become a zone that agrees with itself, and of which every frame can be used.
pub fn garbage_becomes_a_consistent_zone(engine: Engine) {
    let huge = engine.huge_frames;
    let sizes = [1, 65, huge - 1, huge, huge + 1, 3 * huge + 5, engine.tree_frames + huge / 2 + 3];
    for (n, frames) in sizes.into_iter().enumerate() {
        for start in [0, huge / 2 + 1] {
            let config = ZoneConfig::new(frames, 2).starting_at(FrameId(start));
            garbage_in(engine, &config, (90 + n * KINDS) as u64);
        }
    }
}

/// Every kind of damage to one zone.
pub fn garbage_in(engine: Engine, config: &ZoneConfig, salt: u64) {
    if engine.unsupported.recovery {
        return;
    }
    let size = engine.metadata_size(config).expect("the zone is legal");
    for kind in 0..KINDS {
        let mut rng = rng(salt + kind as u64);
        let mut owned = engine.zone(config, Init::Free).expect("the zone is legal");
        // Something is in use, so that not all of a slightly damaged zone is zero.
        for _ in 0..config.frames.min(40) {
            let _ = owned.allocator().alloc(Request::movable(Order(rng.u8(..3)), Slot(0)));
        }
        let mut damaged = Vec::new();
        owned.edit_durable(&mut |bytes| {
            damage(bytes, kind, &mut rng);
            damaged = bytes.to_vec();
        });
        assert_eq!(damaged.len(), size.durable, "{}: {config:?}", engine.name);
        owned.edit_durable(&mut |bytes| assert!(bytes == damaged, "nothing was damaged"));
        if let Err(why) = recovered_is_consistent(engine, &mut *owned, config, Order::BASE) {
            let line = replay_line(seed());
            panic!("{}: damage {kind} in {config:?}: {why}\n  {line}", engine.name);
        }
    }
}

/// Recovers, and uses up what is there: the recovered zone must agree with itself, and every frame of
/// it be free or freed once, in blocks of up to `part`, and then had once.
///
/// # Errors
/// The first thing that is wrong.
pub fn recovered_is_consistent(
    engine: Engine,
    owned: &mut dyn Zone,
    config: &ZoneConfig,
    part: Order,
) -> Result<(), String> {
    owned.recover(config).map_err(|error| format!("no recovery: {error}"))?;
    let a = owned.allocator();
    let offline = put_back_offline(engine, a, config)?;
    let state = |frame| match a.is_free(frame, Order::BASE) {
        true => State::Free,
        false => State::Allocated,
    };
    let model = engine.model_of(config, state);
    crate::validate::everything(a, &model, crate::validate::History::Sequential)?;
    // Whatever is allocated can be freed, each frame once.
    let mut from = config.start;
    let next = |from: FrameId| match engine.unsupported.partial_free {
        true => {
            let mut rest = (from.0..config.end().0).map(FrameId);
            let frame = rest.find(|&frame| model.is_allocated(frame, Order::BASE))?;
            Some(free_as_it_is(engine, a, frame).map(|order| (frame, order)))
        }
        false => {
            let (frame, order) = model.next_allocated(from, part)?;
            let freed = a.free(frame, order, Slot(0)).map(|()| (frame, order));
            Some(freed.map_err(|error| format!("free {frame}, {order}: {error}")))
        }
    };
    while let Some(freed) = next(from) {
        let (frame, order) = freed?;
        let twice = a.free(frame, order, Slot(config.slots - 1));
        if twice.is_ok() {
            return Err(format!("{frame} of {order} was freed twice"));
        }
        from = FrameId(frame.0 + order.frames());
    }
    let free = engine.model(config, Init::Free);
    crate::validate::touched(a, &free, crate::validate::History::Sequential)
        .map_err(|why| format!("after all was freed ({offline} were offline): {why}"))?;
    // And every frame can be had, exactly once.
    let mut had = 0;
    let mut seen = free;
    for order in engine.orders().rev() {
        let request = Request::movable(order, Slot(0));
        while let Ok(frame) = a.alloc(request) {
            seen.alloc(request, Ok(frame))?;
            had += order.frames();
        }
    }
    match had == config.frames {
        true => Ok(()),
        false => Err(format!("only {had} frames could be had")),
    }
}

/// Frees the block that begins at `frame`, whatever its order is, and returns that.
fn free_as_it_is(engine: Engine, a: &dyn Allocator, frame: FrameId) -> Result<Order, String> {
    let mut orders = engine.orders();
    let freed = orders.find(|&order| a.free(frame, order, Slot(0)).is_ok());
    freed.ok_or_else(|| format!("{frame} is allocated, and no block there can be freed"))
}

/// Onlines what the damage says is offline; the count must be what the statistics say.
fn put_back_offline(
    engine: Engine,
    a: &dyn Allocator,
    config: &ZoneConfig,
) -> Result<usize, String> {
    let due = a.stats().offline_huge;
    if engine.unsupported.offline {
        return if due == 0 { Ok(0) } else { Err(format!("{due} huge frames are offline")) };
    }
    let range = engine.huge_range(config);
    let mut found = 0;
    for huge in (range.start.0..range.end.0).map(HugeId) {
        let first = engine.first_of(huge);
        let was_free = a.free_in_huge(huge);
        if a.online(huge, 1).is_ok() {
            if was_free != 0 {
                return Err(format!("{huge} was offline and had free frames"));
            }
            if !a.is_free(first, engine.huge_order) {
                return Err(format!("{huge} was put online and is not free"));
            }
            found += 1;
        }
    }
    match found == due && a.stats().offline_huge == 0 {
        true => Ok(found),
        false => Err(format!("{found} huge frames were offline, the statistics said {due}")),
    }
}
