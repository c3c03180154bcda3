//! Orderings that are too weak, for loom: each a data race between two owners of a frame.

use super::Ordering::Relaxed;
use super::*;

/// Orderings of an allocation's two steps and of a free's.
#[derive(Clone, Copy)]
struct Orderings {
    take: Ordering,
    claim: Ordering,
    release: Ordering,
    give: Ordering,
}

/// The engine's.
const RIGHT: Orderings = Orderings {
    take: Ordering::Acquire,
    claim: Ordering::Acquire,
    release: Ordering::Release,
    give: Ordering::Release,
};

/// Two threads that allocate and free base frames of one child.
const BASE: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
    ],
);

/// A base frame and a whole huge frame.
const WHOLE: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(2), Op::FreeGot(0)] },
    ],
);

const WEAK_CLAIM: Orderings = Orderings { claim: Relaxed, ..RIGHT };
const WEAK_RELEASE: Orderings = Orderings { release: Relaxed, ..RIGHT };
const WEAK_GIVE: Orderings = Orderings { give: Relaxed, ..RIGHT };

/// Order 0 in a row: the engine's allocation, with these orderings.
fn alloc_base<G: Geometry>(world: &World<G>, huge: usize, how: Orderings) -> Option<FrameId> {
    let polarity = change(world, huge, how.take, |child| child.take(1))?.polarity();
    claim_base(world, huge, polarity, how.claim)
}

/// A block in a row: the engine's free, with these orderings.
fn free_block<G: Geometry>(world: &World<G>, block: Block, how: Orderings) -> bool {
    let huge = block.0 >> G::HUGE_ORDER;
    let polarity = world.zone.lower.child(huge).polarity();
    let mask = ((1 << (1 << block.1)) - 1) << (block.0 & (G::HUGE_FRAMES - 1));
    let allocated = |value| (polarity.free_in(value) & mask == 0).then_some(mask);
    turn(row(world, huge), how.release, allocated).is_some()
        && change(world, huge, how.give, |child| child.give::<G>(1 << block.1, polarity)).is_some()
}

fn base(
    alloc: fn(&World<Pairs>, Request) -> Option<FrameId>,
    free: fn(&World<Pairs>, Block, Slot) -> bool,
) -> Machine<Pairs> {
    Machine { alloc, free, ..Machine::LOWER }
}

/// With the engine's orderings the copies hold.
#[test]
fn the_copies_are_right() {
    let alloc = |world: &World<Pairs>, request: Request| alloc_base(world, request.slot.0, RIGHT);
    let free = |world: &World<Pairs>, block, _| free_block(world, block, RIGHT);
    super::super::driver::check(&BASE.machine(base(alloc, free)).named("the_copies_are_right"));
}

mutants! {
    claim_without_acquire = BASE.machine(base(
        |world, request| alloc_base(world, request.slot.0, WEAK_CLAIM),
        |world, block, _| free_block(world, block, RIGHT),
    )) => "Causality violation";
    release_without_release = BASE.machine(base(
        |world, request| alloc_base(world, request.slot.0, RIGHT),
        |world, block, _| free_block(world, block, WEAK_RELEASE),
    )) => "Causality violation";
    /// The free of the last base frame makes the huge frame whole.
    give_without_release = WHOLE.machine(base(
        |world, request| match request.order.0 {
            0 => alloc_base(world, request.slot.0, RIGHT),
            _ => lower_alloc(world, request),
        },
        |world, block, slot| match block.1 {
            0 => free_block(world, block, WEAK_GIVE),
            _ => lower_free(world, block, slot),
        },
    )) => "Causality violation";
    whole_without_acquire = WHOLE.machine(base(
        |world, request| match request.order.0 {
            0 => alloc_base(world, request.slot.0, RIGHT),
            _ => change(world, request.slot.0, Relaxed, Child::allocate::<Pairs>)
                .map(|_| FrameId(request.slot.0 << 2)),
        },
        lower_free,
    )) => "Causality violation";
    whole_free_without_release = WHOLE.machine(base(
        lower_alloc,
        |world, block, slot| match block.1 {
            0 => lower_free(world, block, slot),
            _ => change(world, block.0 >> 2, Relaxed, Child::release::<Pairs>).is_some(),
        },
    )) => "Causality violation";
}
