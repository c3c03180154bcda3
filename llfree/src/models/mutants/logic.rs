//! Steps left out or in the wrong order, for the explorer.

use super::super::machine::give;
use super::super::world::Words;
use super::*;
use crate::index::{Kind, Places, Use};
use crate::lower::Surplus;
use crate::reservation::Reservation;
use crate::tree::Tree;

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
    &[(0, Op::At(0, 0))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0), Op::FreeGot(0)] },
    ],
);

/// Two allocations from a huge frame that is free as a whole.
const OPEN: Scenario<Pairs> = Scenario { setup: &[], ..BASE };

/// The last credits come back, and one is taken.
const CLOSE: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 0)), (0, Op::At(2, 0))],
    &[
        Script { at: 0, owns: &[Block(0, 0)], ops: &[Op::Free(0, 0)] },
        Script { at: 0, owns: &[Block(2, 0)], ops: &[Op::Free(2, 0)] },
        Script { at: 0, owns: &[], ops: &[Op::Alloc(0)] },
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

/// The same of frames that were allocated one by one.
const JOINED: Scenario<Pairs> = Scenario::new(
    Machine::LOWER,
    &[(0, Op::At(0, 1)), (0, Op::At(2, 1))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::FreeAgain(0, 2)] },
        Script { at: 0, owns: &[], ops: &[Op::FreeAgain(0, 0)] },
    ],
)
.law(super::super::Law::FreedTwice);

/// A tree loses all it has and gets it back while the index is searched.
const INDEX: Scenario<Pairs> = Scenario::new(
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

/// Two drains of one slot.
const DRAINS: Scenario<Pairs> = Scenario {
    threads: &[
        Script { at: 1, owns: &[], ops: &[Op::Drain(0)] },
        Script { at: 1, owns: &[], ops: &[Op::Drain(0)] },
    ],
    ..ZONE
};

/// The last credit of a child is taken while another comes.
const TAKE: Scenario<Pairs> = Scenario::new(
    Machine::ZONE,
    &[(0, Op::At(0, 1)), (0, Op::At(2, 0))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::At(3, 0)] },
        Script { at: 0, owns: &[Block(0, 0)], ops: &[Op::Free(0, 0)] },
    ],
);

/// A tree says wrongly that a child has credits when some come.
const HEAL: Scenario<Pairs> = Scenario::new(
    Machine::ZONE,
    &[(0, Op::At(0, 1)), (0, Op::At(2, 1)), (0, Op::Credit(0, 1, 1))],
    &[
        Script { at: 0, owns: &[], ops: &[Op::Heal(0)] },
        Script { at: 0, owns: &[Block(0, 0)], ops: &[Op::Free(0, 0)] },
    ],
);

/// The slot's child is used up, joined, and opened again with the other polarity.
const USED_UP: Scenario<Pairs> = Scenario::new(
    Machine::ZONE,
    &[(0, Op::Alloc(1)), (0, Op::Alloc(1)), (1, Op::Free(0, 2)), (1, Op::At(0, 1))],
    &[Script { at: 0, owns: &[Block(0, 1)], ops: &[Op::Free(0, 0), Op::Alloc(0), Op::FreeGot(0)] }],
)
.slots(2);

fn lower<G: Geometry>() -> Machine<G> {
    Machine::LOWER
}

/// Splits, with the flag first and the polarity after.
fn split_in_two_steps(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let huge = block.0 >> 2;
    let flag = |states: States, one| states.change(one, Phase::Whole, Phase::Split);
    if turn_state(world, huge, Ordering::Relaxed, flag).is_some() {
        turn_state(world, huge, Ordering::Relaxed, |states, one| Some(states.turned(one)));
    }
    lower_free(world, block, slot)
}

/// Uses the polarity that it saw before it had a credit.
fn stale_polarity(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let huge = request.slot.0;
    if request.frame.is_some() {
        return lower_alloc(world, request);
    }
    let polarity = world.zone.lower.polarity(huge);
    count(world, huge, Ordering::Acquire, |credits| credits.checked_sub(1))?;
    claim_base(world, huge, polarity, Ordering::Acquire)
}

/// Claims its bit before it has a credit.
fn claim_first(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let huge = request.slot.0;
    if request.frame.is_some() {
        return lower_alloc(world, request);
    }
    let frame = claim_base(world, huge, world.zone.lower.polarity(huge), Ordering::Acquire);
    count(world, huge, Ordering::Acquire, |credits| credits.checked_sub(1)).and(frame)
}

/// Opens what it has seen to be free, whatever it is by then.
fn open_unchecked(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let (lower, huge) = (&world.zone.lower, request.slot.0);
    if lower.phase(huge) != Phase::Free {
        return lower_alloc(world, request);
    }
    let polarity = lower.polarity(huge);
    turn_state(world, huge, Ordering::Acquire, |states, one| Some(states.with(one, Phase::Split)));
    let frame = claim_base(world, huge, polarity, Ordering::Acquire);
    give(world, huge, 3, Surplus::Drop);
    frame
}

/// Gives the credits back before the bits.
fn give_first(world: &World<Pairs>, block: Block, _: Slot) -> bool {
    let huge = block.0 >> 2;
    give(world, huge, 1 << block.1, Surplus::Refuse);
    world.zone.lower.release(huge, block.0 & 3, block.1).is_ok()
}

/// Gives credits to whatever the child has become.
fn give_unchecked(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let huge = block.0 >> 2;
    if block.1 > 1 {
        return lower_free(world, block, slot);
    }
    world.zone.lower.release(huge, block.0 & 3, block.1).is_ok()
        && give(world, huge, 1 << block.1, Surplus::Refuse)
}

/// Frees base frames as a whole after one look at them.
fn join_at_once(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let (lower, huge) = (&world.zone.lower, block.0 >> 2);
    let polarity = lower.polarity(huge);
    let full = lower.credits(huge) == 0 && lower.rows(huge, polarity).is_full();
    if block.1 > 1 && full {
        join_unseen(world, block, slot)
    } else {
        lower_free(world, block, slot)
    }
}

/// Releases its bits, and then `gives`.
fn free_and(world: &World<Pairs>, block: Block, gives: impl Fn(usize)) -> bool {
    let freed = world.zone.lower.release(block.0 >> 2, block.0 & 3, block.1).is_ok();
    if freed {
        gives(block.0 >> 2);
    }
    freed
}

/// Keeps the credits in the counter when it closes.
fn close_without_the_credits(world: &World<Pairs>, block: Block, _: Slot) -> bool {
    free_and(world, block, |huge| {
        if count(world, huge, Ordering::AcqRel, |credits| Some(credits + 1)) == Some(3) {
            world.zone.lower.close(huge);
        }
    })
}

/// Makes sure that all the credits are its own by a look at the counter: others may think so, too.
fn close_by_all(world: &World<Pairs>, block: Block, _: Slot) -> bool {
    free_and(world, block, |huge| {
        count(world, huge, Ordering::AcqRel, |credits| Some((credits + 1) % 4));
        if world.zone.lower.credits(huge) == 0 {
            world.zone.lower.close(huge);
        }
    })
}

/// Frees the base frames of a huge frame as a whole without a look at them.
fn join_unseen(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    if block.1 < 2 {
        return lower_free(world, block, slot);
    }
    let join = |states: States, one| {
        states.change(one, Phase::Split, Phase::Free).map(|states| states.turned(one))
    };
    turn_state(world, block.0 >> 2, Ordering::AcqRel, join).is_some()
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
    let rows = &world.words.rows[2..4];
    count(world, 0, Ordering::Acquire, |credits| credits.checked_sub(128))?;
    let polarity = world.zone.lower.polarity(0);
    let all = |value| (polarity.free_in(value) == !0).then_some(!0);
    let give = || count(world, 0, Ordering::AcqRel, |credits| Some(credits + 128));
    let claimed = |row: usize| turn_bits(&rows[row], Ordering::Acquire, all).is_some();
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

/// Gives up where neither the slot nor the index has a tree.
fn never_steals(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let zone = &world.zone;
    let own = zone.read(zone.reservation(request.slot, request.class)).is_some();
    let look = |tree| zone.look_at(tree);
    let find = |kind| zone.index.search(kind, Places::ALL, 0, look, |_, _| Some(()));
    if !own && find(Kind::Partial).or_else(|| find(Kind::Huge)).is_none() {
        return None;
    }
    (Machine::<Pairs>::ZONE.alloc)(world, request)
}

/// Clears what it does not find, and does not look again.
fn search_without_second_look(world: &World<Pairs>) {
    for leaf in &world.words.leaves {
        let now = world.zone.look_at(0);
        let nothing = now.whole == 0 && now.tree.children() == 0;
        if nothing && leaf.load(Ordering::Acquire) & 1 != 0 {
            leaf.fetch_and(!1, Ordering::AcqRel);
        }
    }
}

/// Clears the mask's bit of an empty leaf, and does not look again.
fn search_without_second_look_at_the_leaf(world: &World<Pairs>) {
    let Words { masks, leaves, .. } = &world.words;
    (Machine::<Pairs>::INDEX.search)(world);
    for kind in [Kind::Partial as usize, Kind::Huge as usize] {
        for place in 0..8 {
            if leaves[kind * 8 + place].load(Ordering::Acquire) == 0 {
                masks[kind].fetch_and(!(1 << place), Ordering::AcqRel);
            }
        }
    }
}

/// Tells the tree that the child has none left, and does not look whether some came.
fn take_without_second_look(world: &World<Pairs>, request: Request) -> Option<FrameId> {
    let (zone, engine) = (&world.zone, Machine::<Pairs>::ZONE.alloc);
    let Some(frame) = request.frame.filter(|frame| zone.lower.phase(frame.0 >> 2) != Phase::Free)
    else {
        return engine(world, request);
    };
    let (huge, offset) = (frame.0 >> 2, frame.0 & 3);
    let credits = zone.lower.take(huge, 1 << request.order.0)?;
    zone.change_tree(0, |entry| Some(entry.follow::<Pairs>(huge, credits.before, credits.after)));
    let rows = zone.lower.rows(huge, zone.lower.polarity(huge));
    rows.claim_at(offset, request.order.0.into()).ok().map(|()| frame)
}

/// Tells the tree that the child has none, and does not look whether some came.
fn heal_without_second_look(world: &World<Pairs>, huge: usize) {
    if world.zone.lower.credits(huge) == 0 {
        world.zone.change_tree(0, |entry| Some(entry.follow::<Pairs>(huge, 0, 0)));
    }
}

/// Tells the tree of the change before it is made.
fn follow_first(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let huge = block.0 >> 2;
    let now = world.zone.lower.credits(huge);
    world.zone.change_tree(0, |entry| Some(entry.follow::<Pairs>(huge, now, now + 1)));
    lower_free(world, block, slot)
}

/// Frees a huge frame, and does not tell the index.
fn free_without_the_index<G: Geometry>(
    world: &World<G>,
    huge: usize,
    from: Phase,
    to: Phase,
) -> bool {
    match to {
        Phase::Free => world.zone.lower.free_whole(huge, 1).is_some(),
        _ => (Machine::<G>::INDEX.turn)(world, huge, from, to),
    }
}

/// Gives up a reservation by `take`, and its tree by `unreserve`.
fn drain_by(
    world: &World<Pairs>,
    slot: Slot,
    take: impl Fn(&AtomicU64) -> u64,
    unreserve: impl Fn(&World<Pairs>, usize),
) {
    let (zone, class) = (&world.zone, woodlot_frame::Class(0));
    let old = Reservation::<Pairs>::from_word(take(zone.reservation(slot, class)));
    zone.give_held(old.huge_index(), old.held());
    if old.is_some() {
        unreserve(world, old.tree());
    }
}

fn swap_out(word: &AtomicU64) -> u64 {
    word.swap(0, Ordering::AcqRel)
}

fn drain_in_two_steps(world: &World<Pairs>, slot: Slot) {
    let take = |word: &AtomicU64| {
        let old = word.load(Ordering::Acquire);
        word.store(0, Ordering::Release);
        old
    };
    let unreserve = |world: &World<Pairs>, tree| {
        world.zone.change_tree(tree, |entry| Some(entry.unreserve()));
    };
    drain_by(world, slot, take, unreserve);
}

fn unreserve_without_the_index(world: &World<Pairs>, slot: Slot) {
    drain_by(world, slot, swap_out, |world, tree| {
        let unreserve = |entry| Some(Tree(entry).unreserve().0);
        change(&world.words.trees[tree], Ordering::AcqRel, unreserve);
    });
}

/// Looks at the states before the tree is given up.
fn unreserve_after_the_look(world: &World<Pairs>, slot: Slot) {
    drain_by(world, slot, swap_out, |world, tree| {
        let whole = world.zone.lower.count_whole_in_order(tree);
        let unreserve = |entry| Some(Tree(entry).unreserve().0);
        let before = change(&world.words.trees[tree], Ordering::AcqRel, unreserve).map(Tree);
        let now = Use { tree: before.expect("changed").unreserve(), whole };
        world.zone.index.update(tree, None, now);
    });
}

/// Gives up the tree and keeps the credits that were held.
fn drain_forgets_what_is_held(world: &World<Pairs>, slot: Slot) {
    let zone = &world.zone;
    let word = zone.reservation(slot, woodlot_frame::Class(0));
    zone.change(word, |now| Some(now.empty()));
    (Machine::<Pairs>::ZONE.drain)(world, slot);
}

/// Gives credits to a reservation that names the child, though it holds none of it.
fn repay_to_nothing_held(world: &World<Pairs>, block: Block, slot: Slot) -> bool {
    let (zone, huge) = (&world.zone, block.0 >> 2);
    let word = zone.reservation(slot, woodlot_frame::Class(0));
    if block.1 > 0 || zone.read(word).huge_index() != huge || !zone.read(word).is_some() {
        return (Machine::<Pairs>::ZONE.free)(world, block, slot);
    }
    free_and(world, block, |huge| {
        zone.change(word, |now| Some(now.holding(huge, now.held() + 1, now.polarity(), 0)));
    })
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

/// A free that gives its credits to the child so many times, and tells no tree.
fn untold(times: usize) -> Machine<Pairs> {
    let free: fn(&World<Pairs>, Block, Slot) -> bool = match times {
        0 => |world, block, _| free_and(world, block, |_| ()),
        1 => lower_free,
        _ => |world, block, slot| {
            let freed = (Machine::<Pairs>::ZONE.free)(world, block, slot);
            world.zone.give_held(block.0 >> 2, 1);
            freed
        },
    };
    Machine { free, ..Machine::ZONE }
}

mutants! {
    split_in_two = SPLIT.machine(Machine { free: split_in_two_steps, ..lower() })
        => "its free is refused";
    polarity_before_credit = SPLIT.machine(Machine { alloc: stale_polarity, ..lower() })
        => "a bit for every credit";
    bit_before_credit = BASE.machine(Machine { alloc: claim_first, ..lower() })
        => "credits for";
    credit_before_bit = BASE.machine(Machine { free: give_first, ..lower() })
        => "credits for";
    credit_for_another_polarity = TWICE.machine(Machine { free: give_unchecked, ..lower() })
        => "credits for";
    join_at_the_first_look = JOINED.machine(Machine { free: join_at_once, ..lower() })
        => "freed twice";
    open_without_the_right = OPEN.machine(Machine { alloc: open_unchecked, ..lower() })
        => "credits for";
    close_keeps_the_credits = CLOSE.machine(Machine { free: close_without_the_credits, ..lower() })
        => "has all credits and is not closed";
    close_by_more_than_one = CLOSE.machine(Machine { free: close_by_all, ..lower() })
        => "credits for";
    join_without_a_look = JOINED.machine(Machine { free: join_unseen, ..lower() })
        => "freed twice";
    lost_row_says_done = UNDO.machine(alloc_rows(Lost::SaysDone)) => "shares";
    lost_row_keeps_first = UNDO.machine(alloc_rows(Lost::KeepsFirst)) => "credits for";
    lost_row_takes_back_both = UNDO.machine(alloc_rows(Lost::TakesBackBoth)) => "not in the durable words";
    credits_before_undo = UNDO.machine(alloc_rows(Lost::GivesCreditsFirst)) => "credits for";
    free_forgets_the_credits = ZONE.machine(untold(0)) => "credits for";
    free_forgets_the_tree = ZONE.machine(untold(1)) => "tree 0";
    free_pays_twice = ZONE.machine(untold(2)) => "credits for";
    free_tells_the_tree_first = TAKE.machine(Machine { free: follow_first, ..Machine::ZONE })
        => "tree 0";
    drain_in_two = DRAINS.machine(Machine { drain: drain_in_two_steps, ..Machine::ZONE })
        => "not in the durable words";
    drain_forgets_the_credits = ZONE.machine(Machine { drain: drain_forgets_what_is_held, ..Machine::ZONE })
        => "credits for";
    free_to_a_child_not_held = USED_UP.machine(Machine { free: repay_to_nothing_held, ..Machine::ZONE })
        => "not in the durable words";
    alloc_never_steals = Scenario {
        threads: &[Script { at: 0, owns: &[], ops: &[Op::Alloc(0)] }],
        ..ZONE.machine(Machine { alloc: never_steals, ..Machine::ZONE })
    } => "but slot 1 does not get it";
    child_bit_without_second_look =
        TAKE.machine(Machine { alloc: take_without_second_look, ..Machine::ZONE })
        => "does not know of child 0";
    heal_forgets_to_look_again =
        HEAL.machine(Machine { heal: heal_without_second_look, ..Machine::ZONE })
        => "does not know of child 0";
    free_forgets_the_index =
        INDEX.machine(Machine { turn: free_without_the_index, ..Machine::INDEX })
        => "lost to the index";
    unreserve_forgets_the_index =
        UNRESERVE.machine(Machine { drain: unreserve_without_the_index, ..Machine::INDEX })
        => "lost to the index";
    unreserve_looks_first =
        UNRESERVE.machine(Machine { drain: unreserve_after_the_look, ..Machine::INDEX })
        => "lost to the index";
    clearer_without_second_look =
        INDEX.machine(Machine { search: search_without_second_look, ..Machine::INDEX })
        => "lost to the index";
    mask_without_second_look =
        INDEX.machine(Machine { search: search_without_second_look_at_the_leaf, ..Machine::INDEX })
        => "lost to the index";
}
