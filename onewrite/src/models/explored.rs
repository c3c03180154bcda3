//! The driver for the explorer: every interleaving, judged in every state.

use std::vec::Vec;

use woodlot_explore::{Model, Options, View};
use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::{FrameAllocator, FrameId, Geometry, Init, Order, Slot};

use super::script::{State, Thread};
use super::verdict::When;
use super::world::World;
use super::{Block, Scenario, TwoRows, std};
use crate::child::{Part, TAKEN};
use crate::row::Rows;

/// Accesses within which a thread that runs alone has finished its script, from any state; for each row of a huge frame.
const SOLO: u16 = 250;
/// Accesses of all threads together, likewise.
const STEPS: usize = 2000;
/// The most states of a scenario all of which must be explored: each of two threads, but for those that say otherwise.
const STATES: usize = 20_000_000;
/// How many states of the others are explored.
const PART: usize = 5_000_000;

/// Explores a scenario, or says why it does not.
pub(super) fn check<G: Geometry>(scenario: &Scenario) {
    let world = World::<G>::new(scenario);
    let options = Options::new().solo_progress(SOLO * G::ROWS as u16).max_steps(STEPS * G::ROWS);
    if scenario.in_part || scenario.threads.len() > 2 {
        woodlot_explore::scenario_in_part(scenario.name, PART, options, |model| {
            set_up(model, &world);
        });
    } else {
        woodlot_explore::scenario(scenario.name, STATES, options, |model| set_up(model, &world));
    }
}

fn name<'m, G: Geometry>(model: &mut Model<'m>, world: &'m World<G>) {
    model.name("row", &world.words.rows);
    model.name("states", &world.words.states);
    model.name("flags", &world.words.flags);
    model.name("slots", &world.words.slots);
    model.name("tree", &world.words.trees);
    model.name("hint", &world.words.hints);
}

fn set_up<'m, G: Geometry>(model: &mut Model<'m>, world: &'m World<G>) {
    name(model, world);
    model.name("isolated", std::slice::from_ref(&world.isolated));
    let threads = world.scenario.threads.len();
    for number in 0..threads {
        model.thread(move || {
            Thread::new(world, number).run();
        });
    }
    let states = move |view: &View<'_>, look: &dyn Fn(&[&State])| {
        let last = |thread| *view.notes::<State>(thread).last().expect("it says what it does");
        let states: Vec<&State> = (0..threads).map(last).collect();
        look(&states);
    };
    model.invariant(move |view| states(view, &|states| world.judge(states, When::UnderWay)));
    if world.scenario.dies {
        model.invariant(move |view| states(view, &|states| world.survive(states)));
    }
    model.finally(move |view| states(view, &|states| world.judge(states, When::Returned)));
    for order in 0..=G::MAX_ORDER as u8 {
        model.finally(move |_| world.exhaust(order));
    }
}

/// Frees a block of the setup, damages the last row, and recovers: if that is cut off at any write, the next recovery finds what it would have found.
pub(super) fn check_recovery(scenario: &Scenario, Block(at, order): Block) {
    let world = World::<TwoRows>::new(scenario);
    world.zone.free(FrameId(at), Order(order), Slot(0)).expect("it is allocated");
    // It says that it is taken, and has bits, which nobody may believe when it is opened, as the end cuts it.
    let last = Part::row::<TwoRows>((scenario.frames - 1) / TwoRows::ROW_FRAMES);
    let states = &world.words.states[last.word::<TwoRows>()];
    states.store(last.with(states.load(Relaxed), TAKEN), Relaxed);
    world.words.rows[last.rows::<TwoRows>().start].store(0xff, Relaxed);
    let free = world.zone.stats().free_frames;
    woodlot_explore::scenario(scenario.name, STATES, Options::new(), |model| {
        name(model, &world);
        model.thread(|| _ = world.zone.start_anew(Init::Recover));
        model.invariant(|_| {
            let recovered = world.after_a_crash();
            assert_eq!(recovered.stats().free_frames, free, "free frames after a second crash");
        });
    });
}
