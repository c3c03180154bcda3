//! What the operations of a script are run on.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{
    Class, FrameAllocator, FrameId, Geometry, Persistence, Place, Request, Slot, Volatile,
};

use super::frames::Block;

use crate::LLFree;
use crate::index::{Kind, Places};
use crate::lower::{Refusal, Surplus};
use crate::record::Intent;
use crate::state::{Phase, States};

/// What the operations run on. Its words outlive it (`World`).
type Zone<G, P> = LLFree<'static, G, P>;

/// How much of the engine takes part, so what can be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// Rights alone: states, counters and bits. The trees know nothing.
    Lower,
    /// Everything.
    Zone,
    /// Trees, states and the index alone: no frames stand behind the credits.
    Index,
}

/// What the engine does, as much of it as takes part.
#[derive(Clone, Copy)]
pub(super) struct Machine<G: Geometry, P: Persistence = Volatile> {
    pub(super) level: Level,
    pub(super) reserve_after_frees: u8,
    /// The block of the request, if it was allocated.
    pub(super) alloc: fn(&Zone<G, P>, Request) -> Option<FrameId>,
    /// Was this block freed, on this slot?
    pub(super) free: fn(&Zone<G, P>, Block, Slot) -> bool,
    /// Takes all the credits of a child: how many.
    pub(super) take_all: fn(&Zone<G, P>, usize) -> usize,
    /// Gives credits that it took back to a child.
    pub(super) give_back: fn(&Zone<G, P>, usize, usize),
}

impl<G: Geometry, P: Persistence> Machine<G, P> {
    /// The contract's calls.
    pub(super) const ZONE: Self = Machine {
        level: Level::Zone,
        reserve_after_frees: 0,
        alloc: |zone, request| zone.alloc(request).ok(),
        free: |zone, block, slot| {
            let order = woodlot_frame::Order(block.1 as u8);
            zone.free(FrameId(block.0), order, slot).is_ok()
        },
        take_all: |zone, huge| {
            let taken = zone.take_child(huge, 1);
            taken.map_or(0, |(held, polarity)| {
                // The credits keep the polarity: what was said with them is what the bits mean.
                assert_eq!(polarity, zone.lower.polarity(huge), "of huge frame {huge}");
                held
            })
        },
        give_back: |zone, huge, count| zone.give_held(huge, count),
    };

    /// The same with reserve-on-free after the second free in a row.
    pub(super) const RESERVING: Self = Machine { reserve_after_frees: 2, ..Self::ZONE };

    /// The lower level: credits of one child, then bits; the slot is the huge frame to look in, and
    /// for huge frames its tree.
    pub(super) const LOWER: Self = Machine {
        level: Level::Lower,
        alloc: lower_alloc::<G, P>,
        free: lower_free::<G, P>,
        take_all: |zone, huge| zone.lower.take_all(huge, 1).map_or(0, |credits| credits.before),
        give_back: |zone, huge, count| {
            give(zone, huge, count, Surplus::Drop);
        },
        ..Self::ZONE
    };

    /// The index.
    pub(super) const INDEX: Self = Machine { level: Level::Index, ..Self::ZONE };
}

/// Gives credits to a child, and closes it with the last ones: `give_child` and `close` where no
/// tree is told.
fn give<G: Geometry, P: Persistence>(
    zone: &Zone<G, P>,
    huge: usize,
    count: usize,
    surplus: Surplus,
) -> bool {
    let lower = &zone.lower;
    let given = lower.give(huge, count, surplus);
    if given.is_some_and(|given| given.all) {
        _ = lower.close(huge);
    }
    given.is_some()
}

/// Pays for a block of base frames: by credits of the child, or by opening it. How many credits the
/// caller has then.
fn pay<G: Geometry, P: Persistence>(zone: &Zone<G, P>, huge: usize, count: usize) -> Option<usize> {
    let lower = &zone.lower;
    let open = || lower.turn(huge, 1, Phase::Free, Phase::Split, Ordering::Acquire, Intent::none());
    match open() {
        Some(_) => Some(G::HUGE_FRAMES),
        None => lower.take(huge, count).map(|_| count),
    }
}

/// Allocates from one child, as an allocation that has chosen it does.
fn lower_alloc<G: Geometry, P: Persistence>(
    zone: &Zone<G, P>,
    request: Request,
) -> Option<FrameId> {
    let lower = &zone.lower;
    let order = u32::from(request.order.0);
    let exact = match request.place {
        Place::At(frame) => Some(frame),
        _ => None,
    };
    let (huge, offset) = exact.map_or((request.slot.0, 0), |frame| zone.locate(frame));
    if order >= G::HUGE_ORDER {
        let count = 1 << (order - G::HUGE_ORDER);
        return match exact {
            Some(_) => {
                let (from, to) = (Phase::Free, Phase::Whole);
                let turned = lower.turn(huge, count, from, to, Ordering::AcqRel, Intent::none());
                turned.map(|_| zone.frame(huge, 0))
            }
            None => {
                let found = lower.allocate_first(huge / G::TREE_HUGE, count, Intent::none());
                found.map(|(huge, _)| zone.frame(huge, 0))
            }
        };
    }
    let count = 1 << order;
    let held = pay(zone, huge, count)?;
    let rows = lower.rows(huge, lower.polarity(huge));
    let claimed = match exact {
        Some(_) => rows.claim_at(offset, order, Intent::none()).map(|()| offset),
        None => rows.claim_behind(order, 0, Intent::none()),
    };
    let spent = claimed.err().unwrap_or(count);
    if held > spent {
        give(zone, huge, held - spent, Surplus::Drop);
    }
    claimed.ok().map(|offset| zone.frame(huge, offset))
}

fn lower_free<G: Geometry, P: Persistence>(zone: &Zone<G, P>, block: Block, _: Slot) -> bool {
    let (huge, offset) = zone.locate(FrameId(block.0));
    if block.1 >= G::HUGE_ORDER {
        return free_huge(zone, huge, 1 << (block.1 - G::HUGE_ORDER)).is_some();
    }
    let polarity = match zone.lower.release(huge, offset, block.1, Intent::none()) {
        Ok(polarity) => polarity,
        Err(Refusal::NotAllocated(gone)) => {
            if gone > 0 {
                give(zone, huge, gone, Surplus::Drop);
            }
            return false;
        }
        Err(Refusal::Offline) => return false,
    };
    let given =
        zone.lower.still_means(huge, polarity) && give(zone, huge, 1 << block.1, Surplus::Refuse);
    if !given && zone.lower.rows(huge, polarity).claim_at(offset, block.1, Intent::none()).is_err()
    {
        zone.settle(huge, 1 << block.1, polarity);
    }
    given
}

/// Frees huge frames, however they were allocated.
fn free_huge<G: Geometry, P: Persistence>(
    zone: &Zone<G, P>,
    huge: usize,
    count: usize,
) -> Option<States> {
    let lower = &zone.lower;
    let none = Intent::none();
    let whole = lower.free_whole(huge, count, none);
    // Nothing is isolated here.
    whole.or_else(|| lower.free_joined(huge, count, none).ok().map(|(before, _)| before))
}

/// Looks at every tree of the index, and heals it.
pub(super) fn search<G: Geometry, P: Persistence>(zone: &Zone<G, P>) {
    for kind in Kind::ALL {
        let look = |tree| zone.look_at(tree);
        let found = zone.index.search(kind, Places::ALL, 0, look, |_, _| None::<()>);
        assert_eq!(found, None);
    }
}

/// Turns a huge frame from one phase to another, without its frames: was it in the first?
pub(super) fn turn<G: Geometry, P: Persistence>(
    zone: &Zone<G, P>,
    huge: usize,
    from: Phase,
    to: Phase,
) -> bool {
    let before = match (from, to) {
        (Phase::Whole, Phase::Free) => free_huge(zone, huge, 1),
        (Phase::Split, Phase::Free) => zone.lower.close(huge).ok(),
        _ => zone.lower.turn(huge, 1, from, to, Ordering::AcqRel, Intent::none()),
    };
    before.is_some_and(|before| {
        let gained = (to == Phase::Free) as isize - (from == Phase::Free) as isize;
        zone.states_changed(huge, before, gained);
        true
    })
}

/// Reserves a tree with free huge frames for a slot.
pub(super) fn reserve<G: Geometry, P: Persistence>(zone: &Zone<G, P>, slot: Slot) {
    let class = Class(0);
    let word = zone.reservation(slot, class);
    zone.move_to(word, class, (Kind::Huge, Places::ALL, 0), |_| true);
}

/// Tells a tree that the counter of a child went from `before` to `after`.
pub(super) fn credit<G: Geometry, P: Persistence>(
    zone: &Zone<G, P>,
    huge: usize,
    before: usize,
    after: usize,
) {
    let (tree, child) = (huge / G::TREE_HUGE, huge % G::TREE_HUGE);
    zone.change_tree(tree, |entry| Some(entry.follow::<G>(child, before, after)));
}

/// Takes a child for empty, as a search for a child does that finds no credits in it although the
/// tree says so.
pub(super) fn heal<G: Geometry, P: Persistence>(zone: &Zone<G, P>, huge: usize) {
    let told = zone.tree(huge / G::TREE_HUGE).children() >> (huge % G::TREE_HUGE) & 1 != 0;
    if told && zone.lower.credits(huge) == 0 {
        zone.forget_child(huge);
    }
}
