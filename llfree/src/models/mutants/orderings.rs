//! Orderings that are too weak, for loom: each a data race between two owners of a frame, or a tree
//! that is lost to the index.

use super::Ordering::{AcqRel, Acquire, Relaxed, Release};
use super::*;
use crate::index::Use;
use crate::tree::Tree;

/// Orderings of an allocation's steps and of a free's.
#[derive(Clone, Copy)]
struct Orderings {
    open: Ordering,
    /// At the polarity.
    look: Ordering,
    take: Ordering,
    claim: Ordering,
    release: Ordering,
    give: Ordering,
    close: Ordering,
}

/// The engine's.
const RIGHT: Orderings = Orderings {
    open: Acquire,
    look: Acquire,
    take: Acquire,
    claim: Acquire,
    release: Release,
    give: AcqRel,
    close: AcqRel,
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
    &[(0, Op::At(4, 2))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(2), Op::FreeGot(0)] },
    ],
);

/// Two threads bring the last credits, a third takes the whole huge frame.
const CLOSE: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 0)), (0, Op::At(1, 0)), (0, Op::At(4, 2))],
    &[
        Script { at: 0, owns: &[Block(0, 0)], ops: &[Op::Free(0, 0)] },
        Script { at: 0, owns: &[Block(1, 0)], ops: &[Op::Free(1, 0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(2)] },
    ],
);

/// A whole huge frame is freed in parts, and one of its frames allocated again.
const SPLIT: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 2))],
    &[
        Script { at: 0, owns: &[Block(0, 1)], ops: &[Op::Free(0, 1)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0)] },
    ],
);

/// A huge frame is freed into a tree that is given up.
const UNRESERVE: Scenario<Pairs> = Scenario::new(
    Machine::INDEX,
    &[
        (0, Op::Turn(0, Phase::Free, Phase::Whole)),
        (0, Op::Reserve(0)),
        (0, Op::Turn(1, Phase::Free, Phase::Whole)),
        (0, Op::Search),
    ],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Turn(0, Phase::Whole, Phase::Free)] },
        Script { at: 0, owns: &[], ops: &[Op::Drain(0)] },
    ],
);

/// The last base frame of a huge frame comes back to a tree that is given up.
const UNRESERVE_AND_CLOSE: Scenario<Pairs> = Scenario {
    setup: &[
        (0, Op::Turn(0, Phase::Free, Phase::Split)),
        (0, Op::Reserve(0)),
        (0, Op::Turn(1, Phase::Free, Phase::Whole)),
        (0, Op::Search),
    ],
    threads: &[
        Script { at: 0, owns: &[], ops: &[Op::Turn(0, Phase::Split, Phase::Free)] },
        Script { at: 0, owns: &[], ops: &[Op::Drain(0)] },
    ],
    ..UNRESERVE
};

/// A tree loses what it has and gets it back, while the index is searched.
const SEARCH: Scenario<Pairs> = Scenario::new(
    Machine::INDEX,
    &[(0, Op::Turn(1, Phase::Free, Phase::Whole)), (0, Op::Search)],
    &[
        Script {
            at: 0,
            owns: &[],
            ops: &[Op::Turn(0, Phase::Free, Phase::Whole), Op::Turn(0, Phase::Whole, Phase::Free)],
        },
        Script { at: 0, owns: &[], ops: &[Op::Search] },
    ],
);

/// A tree that was entirely free changes its class while a huge frame of it comes back.
const CLASS: Scenario<Pairs> = Scenario::new(
    Machine::ZONE,
    &[],
    &[
        Script { at: 0, owns: &[], ops: &[Op::At(0, 2)] },
        Script { at: 0, owns: &[], ops: &[Op::At(4, 2), Op::FreeGot(0)] },
    ],
)
.classes(super::super::scenarios::TWO);

/// The last credits of a child are taken while another comes.
const TAKE: Scenario<Pairs> = Scenario::new(
    Machine::ZONE,
    &[(0, Op::At(0, 1)), (0, Op::At(2, 0))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::At(3, 0)] },
        Script { at: 0, owns: &[Block(0, 0)], ops: &[Op::Free(0, 0)] },
    ],
);

/// Gives credits, and closes the huge frame with the last ones.
fn give_back<G: Geometry>(world: &World<G>, huge: usize, credits: usize, how: Orderings) {
    let all = |before: usize| before + credits == G::HUGE_FRAMES;
    let give = |before| Some(if all(before) { 0 } else { before + credits });
    if count(world, huge, how.give, give).is_some_and(all) {
        let close = |states: States, one| states.change(one, Phase::Split, Phase::Free);
        turn_state(world, huge, how.close, close);
    }
}

/// Order 0 in a row: the engine's allocation, with these orderings.
fn alloc_base<G: Geometry>(world: &World<G>, huge: usize, how: Orderings) -> Option<FrameId> {
    let open = |states: States, one| states.change(one, Phase::Free, Phase::Split);
    let held = match turn_state(world, huge, how.open, open) {
        Some(_) => G::HUGE_FRAMES,
        None => count(world, huge, how.take, |credits| credits.checked_sub(1)).map(|_| 1)?,
    };
    let states = States(world.words.states[huge / G::TREE_HUGE].0[0].load(how.look));
    let polarity = states.polarity(Run::new(huge % G::TREE_HUGE, 1));
    let frame = claim_base(world, huge, polarity, how.claim);
    if held > 1 {
        give_back(world, huge, held - 1, how);
    }
    frame
}

/// A block in a row: the engine's free, with these orderings.
fn free_block<G: Geometry>(world: &World<G>, block: Block, how: Orderings) -> bool {
    let huge = block.0 >> G::HUGE_ORDER;
    let polarity = world.zone.lower.polarity(huge);
    let mask = ((1 << (1 << block.1)) - 1) << (block.0 & (G::HUGE_FRAMES - 1));
    let allocated = |value| (polarity.free_in(value) & mask == 0).then_some(mask);
    let freed = turn_bits(row(world, huge), how.release, allocated).is_some();
    if freed {
        give_back(world, huge, 1 << block.1, how);
    }
    freed
}

/// A huge frame is freed, by this ordering, and the index told.
fn free_whole(world: &World<Pairs>, huge: usize, from: Phase, to: Phase, how: Ordering) -> bool {
    if to != Phase::Free {
        return (Machine::<Pairs>::INDEX.turn)(world, huge, from, to);
    }
    let before = world.zone.lower.turn(huge, 1, from, to, how);
    before.is_some_and(|before| {
        world.zone.states_changed(huge, before, 1);
        true
    })
}

/// Gives up a tree, of which nothing is held, and looks at its states by a load.
fn unreserve_by_a_load(world: &World<Pairs>, slot: Slot) {
    let (zone, class) = (&world.zone, woodlot_frame::Class(0));
    zone.change(zone.reservation(slot, class), |_| Some(crate::reservation::Reservation::NONE));
    let unreserve = |entry| Some(Tree(entry).unreserve().0);
    let before = change(&world.words.trees[0], AcqRel, unreserve).map(Tree);
    let now = Use { tree: before.expect("changed").unreserve(), whole: zone.lower.count_whole(0) };
    zone.index.update(0, None, now);
}

/// Takes a huge frame of a tree and changes the tree's class, and looks at its states by a load.
fn change_class_by_a_load(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let zone = &world.zone;
    let Some(frame) = request.frame.filter(|frame| frame.0 == 0) else {
        return (Machine::<Pairs>::ZONE.alloc)(world, request);
    };
    let before = zone.lower.turn(frame.0 >> 2, 1, Phase::Free, Phase::Whole, AcqRel)?;
    zone.states_changed(frame.0 >> 2, before, -1);
    let of = |entry| {
        let entry = Tree(entry);
        (entry.class() != request.class).then_some(entry.of(request.class).0)
    };
    if let Some(before) = change(&world.words.trees[0], AcqRel, of) {
        let now = Use { tree: Tree(before).of(request.class), whole: zone.lower.count_whole(0) };
        zone.index.update(0, None, now);
    }
    Some(frame)
}

/// Clears the bits of a tree of which it sees nothing, by this ordering, and looks again.
fn search_by(world: &World<Pairs>, how: Ordering) {
    for leaf in &world.words.leaves {
        let now = world.zone.look_at(0);
        if now.whole == 0 && leaf.load(Relaxed) & 1 != 0 {
            leaf.fetch_and(!1, how);
            world.zone.index.update(0, None, world.zone.look_at(0));
        }
    }
}

/// Tells the tree that a child has no credits, by this ordering, and looks again.
fn take_and_look_again(world: &World<Pairs>, request: Request, how: Ordering) -> Option<FrameId> {
    let (zone, engine) = (&world.zone, Machine::<Pairs>::ZONE.alloc);
    let Some(frame) = request.frame.filter(|frame| zone.lower.phase(frame.0 >> 2) != Phase::Free)
    else {
        return engine(world, request);
    };
    let (huge, offset) = (frame.0 >> 2, frame.0 & 3);
    let credits = zone.lower.take(huge, 1 << request.order.0)?;
    let follow = |entry| Some(Tree(entry).follow::<Pairs>(huge, credits.before, credits.after).0);
    change(&world.words.trees[0], how, follow);
    if credits.after == 0 && zone.lower.credits(huge) > 0 {
        zone.change_tree(0, |entry| Some(entry.with_child(huge)));
    }
    let rows = zone.lower.rows(huge, zone.lower.polarity(huge));
    rows.claim_at(offset, request.order.0.into()).ok().map(|()| frame)
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
    let check = super::super::driver::check::<Pairs>;
    check(&BASE.machine(base(alloc, free)).named("the_copies_are_right"));
    let alloc = lower_alloc::<Pairs>;
    check(&CLOSE.machine(base(alloc, free)).named("the_copies_close_right"));
    let turn = |world: &World<Pairs>, huge, from, to| free_whole(world, huge, from, to, AcqRel);
    check(&UNRESERVE.machine(Machine { turn, ..Machine::INDEX }).named("the_copies_free_right"));
    let search = |world: &World<Pairs>| search_by(world, AcqRel);
    check(&SEARCH.machine(Machine { search, ..Machine::INDEX }).named("the_copies_search_right"));
    let alloc =
        |world: &World<Pairs>, request: Request| take_and_look_again(world, request, AcqRel);
    check(&TAKE.machine(Machine { alloc, ..Machine::ZONE }).named("the_copies_take_right"));
}

/// Frees of the last base frames with these orderings.
macro_rules! closing {
    ($how:expr) => {
        CLOSE.machine(base(lower_alloc, |world, block, _| free_block(world, block, $how)))
    };
}

mutants! {
    claim_without_acquire = BASE.machine(base(
        |world, request| alloc_base(world, request.slot.0, Orderings { claim: Relaxed, ..RIGHT }),
        |world, block, _| free_block(world, block, RIGHT),
    )) => "Causality violation";
    release_without_release = BASE.machine(base(
        |world, request| alloc_base(world, request.slot.0, RIGHT),
        |world, block, _| free_block(world, block, Orderings { release: Relaxed, ..RIGHT }),
    )) => "Causality violation";
    /// The last base frames of a huge frame are freed by two: what the first one did comes to the
    /// second by the counter, and to the next owner by the states.
    give_without_release = closing!(Orderings { give: Acquire, ..RIGHT }) => "Causality violation";
    give_without_acquire = closing!(Orderings { give: Release, close: Release, ..RIGHT })
        => "Causality violation";
    close_without_release = closing!(Orderings { close: Acquire, ..RIGHT })
        => "Causality violation";
    /// The look at the polarity acquires as well: so it must do without, too.
    open_without_acquire = WHOLE.machine(base(
        |world, request| match request.order.0 {
            0 => alloc_base(world, request.slot.0, Orderings { open: Relaxed, look: Relaxed, ..RIGHT }),
            _ => lower_alloc(world, request),
        },
        lower_free,
    )) => "Causality violation";
    whole_without_acquire = WHOLE.machine(base(
        |world, request| match request.order.0 {
            0 => lower_alloc(world, request),
            _ => turn_state(world, 0, Relaxed, |states, one| {
                states.change(one, Phase::Free, Phase::Whole)
            })
            .map(|_| FrameId(0)),
        },
        lower_free,
    )) => "Causality violation";
    whole_free_without_release = WHOLE.machine(base(
        lower_alloc,
        |world, block, slot| match block.1 {
            0 => lower_free(world, block, slot),
            _ => turn_state(world, 0, Acquire, |states, one| {
                states.change(one, Phase::Whole, Phase::Free)
            })
            .is_some(),
        },
    )) => "Causality violation";
    /// The polarity that is loaded after may be an old one.
    take_without_acquire = SPLIT.machine(base(
        |world, request| alloc_base(world, request.slot.0, Orderings { take: Relaxed, ..RIGHT }),
        lower_free,
    )) => "has another owner";
    free_without_acquire = UNRESERVE.machine(Machine {
        turn: |world, huge, from, to| free_whole(world, huge, from, to, Release),
        ..Machine::INDEX
    }) => "lost to the index";
    close_without_acquire = UNRESERVE_AND_CLOSE.machine(Machine {
        turn: |world, huge, from, to| free_whole(world, huge, from, to, Release),
        ..Machine::INDEX
    }) => "lost to the index";
    unreserve_by_load = UNRESERVE.machine(Machine { drain: unreserve_by_a_load, ..Machine::INDEX })
        => "lost to the index";
    change_class_by_load = CLASS.machine(Machine {
        alloc: change_class_by_a_load,
        ..Machine::ZONE
    }) => "lost to the index";
    clear_without_acquire = SEARCH.machine(Machine {
        search: |world| search_by(world, Relaxed),
        ..Machine::INDEX
    }) => "lost to the index";
    empty_without_acquire = TAKE.machine(Machine {
        alloc: |world, request| take_and_look_again(world, request, Release),
        ..Machine::ZONE
    }) => "does not know of child 0";
}
