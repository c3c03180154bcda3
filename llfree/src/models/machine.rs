//! What the operations of a script are run on.

use woodlot_frame::{Class, FrameAllocator, FrameId, Geometry, Order, Request, Slot};

use super::frames::Block;
use super::world::World;

use crate::index::{Kind, Places};
use crate::lower::Gain;

/// How much of the engine takes part, so what can be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// Bits and children alone: the trees know nothing.
    Lower,
    /// Everything.
    Zone,
    /// Trees and the index alone: no frames stand behind the credits.
    Index,
}

/// Allocation, free and search: those of the engine, or others for the mutants.
#[derive(Clone, Copy)]
pub(super) struct Machine<G: Geometry> {
    pub(super) level: Level,
    pub(super) reserve_after_frees: u8,
    /// The block of the request, if it was allocated.
    pub(super) alloc: fn(&World<G>, Request) -> Option<FrameId>,
    /// Was this block freed, on this slot?
    pub(super) free: fn(&World<G>, Block, Slot) -> bool,
    pub(super) search: fn(&World<G>),
}

impl<G: Geometry> Machine<G> {
    /// The contract's calls.
    pub(super) const ZONE: Self = Machine {
        level: Level::Zone,
        reserve_after_frees: 0,
        alloc: |world, request| world.zone.alloc(request).ok(),
        free: |world, block, slot| {
            world.zone.free(FrameId(block.0), Order(block.1 as u8), slot).is_ok()
        },
        search: search::<G>,
    };

    /// The same with reserve-on-free after the second free in a row.
    pub(super) const RESERVING: Self = Machine { reserve_after_frees: 2, ..Self::ZONE };

    /// The lower level: credits of one child, then bits; the slot is the huge frame to look in.
    pub(super) const LOWER: Self = Machine {
        level: Level::Lower,
        alloc: lower_alloc::<G>,
        free: lower_free::<G>,
        ..Self::ZONE
    };

    /// The index.
    pub(super) const INDEX: Self = Machine { level: Level::Index, ..Self::ZONE };
}

/// Allocates from one child, as a caller that has paid the tree does.
pub(super) fn lower_alloc<G: Geometry>(world: &World<G>, request: Request) -> Option<FrameId> {
    let zone = &world.zone;
    let lower = &zone.lower;
    let order = u32::from(request.order.0);
    let (huge, offset) = request.frame.map_or((request.slot.0, 0), |frame| zone.locate(frame));
    if order >= G::HUGE_ORDER {
        return lower.allocate_whole(huge, order).then(|| zone.frame(huge, 0));
    }
    let open = lower.child(huge).is_free::<G>();
    let polarity = lower.take(huge, 1 << order, open)?;
    let rows = lower.rows(huge, polarity);
    let claimed = match request.frame {
        Some(_) => rows.claim_at(offset, order).map(|()| offset),
        None => rows.claim(order, 0),
    };
    match claimed {
        Ok(offset) => Some(zone.frame(huge, offset)),
        Err(lost) => {
            zone.give_child(huge, (1 << order) - lost, polarity);
            None
        }
    }
}

pub(super) fn lower_free<G: Geometry>(world: &World<G>, block: Block, _: Slot) -> bool {
    let zone = &world.zone;
    let (huge, offset) = zone.locate(FrameId(block.0));
    if block.1 >= G::HUGE_ORDER {
        return zone.lower.free_whole(huge, block.1).is_ok();
    }
    let polarity = zone.lower.release(huge, offset, block.1);
    polarity.is_ok_and(|polarity| {
        let settled = zone.lower.settle(huge, 1 << block.1, polarity, |rows| {
            let _ = rows.claim_at(offset, block.1);
        });
        settled.is_ok()
    })
}

/// Looks at every tree of the index, and heals it.
fn search<G: Geometry>(world: &World<G>) {
    let zone = &world.zone;
    for kind in [Kind::Partial, Kind::Huge] {
        let load = |tree| zone.tree(tree);
        let found = zone.index.search(kind, Places::ALL, 0, load, |_, _| None::<()>);
        assert_eq!(found, None);
    }
}

/// Reserves a tree with free huge frames for a slot.
pub(super) fn reserve<G: Geometry>(world: &World<G>, slot: Slot) {
    let (zone, class) = (&world.zone, Class(0));
    let word = zone.reservation(slot, class);
    zone.move_to(word, class, Kind::Huge, Places::ALL, |_| true);
}

/// Changes a tree's credits, as a free or an allocation does.
pub(super) fn credit<G: Geometry>(world: &World<G>, tree: usize, frames: isize, huge: isize) {
    let gain = Gain { frames: frames.max(0) as usize, huge: huge.max(0) as usize };
    let loss = Gain { frames: (-frames).max(0) as usize, huge: (-huge).max(0) as usize };
    world.zone.change_tree(tree, |entry| entry.with::<G>(gain).without(loss));
}
