//! Steps left out or in the wrong order, for the explorer.

use super::*;
use crate::index::{Kind, Places};
use crate::lower::Gain;

type Rows = Tiny<8, 2>;

/// A whole huge frame is freed in parts, and allocated again.
const SPLIT: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 2))],
    &[
        Script { at: 0, owns: &[Block(0, 1)], ops: &[Op::Free(0, 1)] },
        Script { at: 0, owns: &[Block(2, 1)], ops: &[Op::Free(2, 1)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0)] },
    ],
);

/// Allocations from one child.
const BASE: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(2), Op::FreeGot(0)] },
    ],
);

/// A block of two rows, and a frame in the second of them.
const UNDO: Scenario<Rows> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 0))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Alloc(7)] },
        Script { at: 0, owns: &[], ops: &[Op::At(192, 0)] },
    ],
);

/// Two frees of the same frames.
const TWICE: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 2))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::FreeAgain(0, 0)] },
        Script { at: 0, owns: &[], ops: &[Op::FreeAgain(0, 2)] },
        Script { at: 0, owns: &[], ops: &[Op::FreeAgain(1, 0)] },
    ],
);

/// A tree that leaves its place and comes back while the index is searched.
const INDEX: Scenario<Pairs> = Scenario::new(
    Machine::INDEX,
    &[],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Credit(0, -8, -2), Op::Credit(0, 8, 2)] },
        Script { at: 0, owns: &[], ops: &[Op::Search] },
    ],
);

/// A slot frees into the tree that another one has reserved, and a third thread drains that.
const ZONE: Scenario<Pairs> = Scenario::new(
    Machine::ZONE,
    &[(0, Op::Alloc(1))],
    &[
        Script { at: 1, owns: &[Block(0, 0)], ops: &[Op::Free(0, 0)] },
        Script { at: 1, owns: &[], ops: &[Op::Drain(0)] },
    ],
)
.slots(2);

fn lower<G: Geometry>() -> Machine<G> {
    Machine::LOWER
}

/// Splits, with the flag first and the polarity after.
fn split_in_two_steps(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let huge = block.0 >> 2;
    let flag = |child: Child| child.is_whole().then_some(Child::split(0, child.polarity()));
    if change(world, huge, Ordering::Relaxed, flag).is_some() {
        let turn = |child: Child| Some(Child::split(child.free(), Polarity(!child.polarity().0)));
        change(world, huge, Ordering::Relaxed, turn);
    }
    lower_free(world, block, slot)
}

/// Uses the polarity that it saw before it had a credit.
fn stale_polarity(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let huge = request.slot.0;
    let polarity = world.zone.lower.child(huge).polarity();
    change(world, huge, Ordering::Acquire, |child| child.take(1))?;
    claim_base(world, huge, polarity, Ordering::Acquire)
}

/// Claims its bit before it has a credit.
fn claim_first(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let huge = request.slot.0;
    if request.order.0 > 0 {
        return lower_alloc(world, request);
    }
    let frame = claim_base(world, huge, world.zone.lower.child(huge).polarity(), Ordering::Acquire);
    change(world, huge, Ordering::Acquire, |child| child.take(1)).and(frame)
}

/// Gives the credits back before the bits.
fn give_first(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let huge = block.0 >> 2;
    if block.1 > 1 {
        return lower_free(world, block, slot);
    }
    let polarity = world.zone.lower.child(huge).polarity();
    world.zone.lower.give(huge, 1 << block.1, polarity);
    world.zone.lower.release(huge, block.0 & 3, block.1).is_ok()
}

/// Gives credits to whatever the child has become.
fn give_unchecked(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let huge = block.0 >> 2;
    if block.1 > 1 {
        return lower_free(world, block, slot);
    }
    let give = |child: Child| Some(Child::split(child.free() + 1, child.polarity()));
    world.zone.lower.release(huge, block.0 & 3, block.1).is_ok()
        && change(world, huge, Ordering::Release, give).is_some()
}

/// What a claim of two rows does when the second is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    SaysDone,
    KeepsFirst,
    TakesBackBoth,
    GivesCreditsFirst,
}

/// Claims the last two rows of a huge frame.
fn claim_two_rows(world: &World<Rows>, lost: Lost) -> Option<FrameId> {
    let rows = &world.words.long[0][2..4];
    let polarity = change(world, 0, Ordering::Acquire, |child| child.take(128))?.polarity();
    let all = |value| (polarity.free_in(value) == !0).then_some(!0);
    let give = || change(world, 0, Ordering::Release, |child| child.give::<Rows>(128, polarity));
    let claimed = |row: usize| turn(&rows[row], Ordering::Acquire, all).is_some();
    if !claimed(0) {
        give();
        return None;
    }
    if claimed(1) || lost == Lost::SaysDone {
        return Some(FrameId(128));
    }
    let back = match lost {
        Lost::KeepsFirst => 0,
        Lost::TakesBackBoth => 2,
        _ => 1,
    };
    let undo =
        || rows[..back].iter().for_each(|row| row.store(polarity.all_free(), Ordering::Release));
    if lost == Lost::GivesCreditsFirst {
        give();
        undo();
    } else {
        undo();
        give();
    }
    None
}

/// Frees a base frame in a zone: into the child and the tree, or the other way round.
fn free_in_zone(world: &World<Pairs>, block: Block, tree: [usize; 2]) -> bool {
    let (zone, huge) = (&world.zone, block.0 >> 2);
    let give = |times| {
        (0..times).for_each(|_| zone.give_tree(huge / 2, Gain { frames: 1, huge: 0 }));
    };
    give(tree[0]);
    let freed = lower_free(world, block, Slot(0));
    give(tree[1]);
    freed
}

/// Gives up where neither the slot nor the index has a tree.
fn never_steals(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let zone = &world.zone;
    let own = zone.read(zone.reservation(request.slot, request.class)).is_some();
    let load = |tree| zone.tree(tree);
    let find = |kind| zone.index.search(kind, Places::ALL, 0, load, |_, _| Some(()));
    if !own && find(Kind::Partial).or_else(|| find(Kind::Huge)).is_none() {
        return None;
    }
    (Machine::<Pairs>::ZONE.alloc)(world, request)
}

/// Clears what it does not find, and does not look again.
fn search_without_second_look(world: &World<Pairs>) {
    for leaf in &world.words.long[5] {
        if leaf.load(Ordering::Acquire) & 1 != 0 && world.zone.tree(0).credits() == Gain::default()
        {
            leaf.fetch_and(!1, Ordering::AcqRel);
        }
    }
}

/// Clears the mask's bit of an empty leaf, and does not look again.
fn search_without_second_look_at_the_leaf(world: &World<Pairs>) {
    let [.., masks, leaves] = &world.words.long;
    (Machine::<Pairs>::INDEX.search)(world);
    for kind in [Kind::Partial as usize, Kind::Huge as usize] {
        for place in 0..8 {
            if leaves[kind * 8 + place].load(Ordering::Acquire) == 0 {
                masks[kind].fetch_and(!(1 << place), Ordering::AcqRel);
            }
        }
    }
}

fn alloc_rows(lost: Lost) -> Machine<Rows> {
    fn alloc(world: &World<Rows>, request: Request, lost: Lost) -> Option<FrameId> {
        if request.order.0 == 7 { claim_two_rows(world, lost) } else { lower_alloc(world, request) }
    }
    let alloc: fn(&World<Rows>, Request) -> Option<FrameId> = match lost {
        Lost::SaysDone => |world, request| alloc(world, request, Lost::SaysDone),
        Lost::KeepsFirst => |world, request| alloc(world, request, Lost::KeepsFirst),
        Lost::TakesBackBoth => |world, request| alloc(world, request, Lost::TakesBackBoth),
        Lost::GivesCreditsFirst => |world, request| alloc(world, request, Lost::GivesCreditsFirst),
    };
    Machine { alloc, ..lower() }
}

mutants! {
    split_in_two = SPLIT.machine(Machine { free: split_in_two_steps, ..lower() })
        => "its free is refused";
    polarity_before_credit = SPLIT.machine(Machine { alloc: stale_polarity, ..lower() })
        => "its free is refused";
    bit_before_credit = BASE.machine(Machine { alloc: claim_first, ..lower() })
        => "credits for";
    credit_before_bit = BASE.machine(Machine { free: give_first, ..lower() })
        => "credits for";
    credit_for_another_polarity = TWICE.machine(Machine { free: give_unchecked, ..lower() })
        => "credits for";
    lost_row_says_done = UNDO.machine(alloc_rows(Lost::SaysDone)) => "shares";
    lost_row_keeps_first = UNDO.machine(alloc_rows(Lost::KeepsFirst)) => "credits for";
    lost_row_takes_back_both = UNDO.machine(alloc_rows(Lost::TakesBackBoth)) => "not in the durable words";
    credits_before_undo = UNDO.machine(alloc_rows(Lost::GivesCreditsFirst)) => "credits for";
    free_forgets_the_tree =
        ZONE.machine(Machine { free: |world, block, _| free_in_zone(world, block, [0, 0]), ..Machine::ZONE })
        => "tree 0 has";
    free_pays_the_tree_first =
        ZONE.machine(Machine { free: |world, block, _| free_in_zone(world, block, [1, 0]), ..Machine::ZONE })
        => "tree 0 has";
    free_pays_the_tree_twice =
        ZONE.machine(Machine { free: |world, block, _| free_in_zone(world, block, [0, 2]), ..Machine::ZONE })
        => "tree 0 has";
    alloc_never_steals = Scenario {
        threads: &[Script { at: 0, owns: &[], ops: &[Op::Alloc(0)] }],
        ..ZONE.machine(Machine { alloc: never_steals, ..Machine::ZONE })
    } => "but slot 1 does not get it";
    clearer_without_second_look =
        INDEX.machine(Machine { search: search_without_second_look, ..Machine::INDEX })
        => "lost to the index";
    mask_without_second_look =
        INDEX.machine(Machine { search: search_without_second_look_at_the_leaf, ..Machine::INDEX })
        => "lost to the index";
}
