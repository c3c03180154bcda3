//! What an access to an atomic does on this OS thread, and how a program is learned.
//!
//! ```text
//!   mode     known atomic                        unknown atomic
//!   Off      the core type                       the core type
//!   Learn    a step of the thread that runs      becomes known, with its stored value
//!   Meet     its stored value; writes are lost   becomes known, with its stored value
//!   Inspect  the state at hand; writes are lost  the core type
//! ```
//!
//! To learn what follows when a thread at some node observes a new value, its body runs from the
//! start: first it is fed with the node's history, then with the new value, and then it runs on
//! alone to its end, on a copy of the memory. So one run learns a whole path, each node of which
//! can be reached, and only a thread that goes on for ever has to be unwound.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;

use crate::learner::{Learner, message, stop};
use crate::program::{Access, Call, NodeId, Program};

/// An atomic, as the explorer sees it.
pub trait Place {
    fn address(&self) -> usize;
    /// What the core type holds: the initial value.
    fn stored(&self) -> u64;
}

enum Mode {
    Off,
    Learn(Learner),
    Meet,
    Inspect,
}

/// Everything that an exploration keeps where the atomics find it.
pub struct Runtime {
    mode: Mode,
    known: HashMap<usize, u32>,
    /// The initial contents of the known atomics.
    pub initial: Vec<u64>,
    /// Their contents as the running body sees them.
    memory: Vec<u64>,
}

thread_local! {
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Runs `f` on the runtime of this OS thread.
pub fn with<R>(f: impl FnOnce(&mut Runtime) -> R) -> R {
    RUNTIME.with_borrow_mut(|runtime| f(runtime.as_mut().expect("an exploration is on")))
}

/// An exploration is on as long as this lives.
pub struct Session(());

impl Session {
    pub fn start() -> Self {
        RUNTIME.with_borrow_mut(|runtime| {
            assert!(runtime.is_none(), "an exploration within an exploration");
            let (known, initial, memory) = Default::default();
            *runtime = Some(Runtime { mode: Mode::Off, known, initial, memory });
        });
        Session(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        RUNTIME.set(None);
    }
}

impl Runtime {
    /// The number of this atomic.
    pub fn know(&mut self, place: &impl Place) -> u32 {
        let initial = &mut self.initial;
        *self.known.entry(place.address()).or_insert_with(|| {
            initial.push(place.stored());
            self.memory.push(place.stored());
            u32::try_from(initial.len() - 1).expect("fewer than 2^32 atomics")
        })
    }

    fn enter(&mut self, mode: Mode, values: impl Iterator<Item = u64>) {
        self.memory.clear();
        self.memory.extend(values);
        self.mode = mode;
    }

    fn look_up(&self, place: &impl Place) -> Option<usize> {
        self.known.get(&place.address()).map(|&atom| atom as usize)
    }

    fn learner(&mut self) -> Option<&mut Learner> {
        if let Mode::Learn(learner) = &mut self.mode { Some(learner) } else { None }
    }

    /// The first half of an access: which atomic, and the value it is to see.
    fn begin(&mut self, place: &impl Place, call: Call) -> Option<(usize, u64)> {
        match self.mode {
            Mode::Off => None,
            // What a destructor does while a body unwinds is no step.
            Mode::Learn(_) if !std::thread::panicking() => {
                let atom = self.know(place);
                let held = self.memory[atom as usize];
                let access = Access { atom, call };
                let seen = self.learner()?.begin(access, held);
                Some((atom as usize, seen))
            }
            Mode::Meet => {
                let atom = self.know(place) as usize;
                Some((atom, self.memory[atom]))
            }
            _ => self.look_up(place).map(|atom| (atom, self.memory[atom])),
        }
    }

    /// The second half of an access.
    fn end(&mut self, atom: usize, write: Option<u64>) {
        let took_effect = match &mut self.mode {
            Mode::Learn(learner) if !std::thread::panicking() => learner.end(write),
            _ => true,
        };
        if let (true, Some(value)) = (took_effect, write) {
            self.memory[atom] = value;
        }
    }
}

/// An access to an atomic: the value seen, or `None` if the explorer does not want it.
pub fn access(
    place: &impl Place,
    call: Call,
    change: impl FnOnce(u64) -> Option<u64>,
) -> Option<u64> {
    let begun =
        RUNTIME.with_borrow_mut(|runtime| runtime.as_mut().and_then(|r| r.begin(place, call)));
    let (atom, seen) = begun?;
    let write = change(seen);
    with(|runtime| runtime.end(atom, write));
    Some(seen)
}

/// The value of an atomic, without a step.
pub fn peek(place: &impl Place) -> u64 {
    RUNTIME.with_borrow(|runtime| {
        let on = runtime.as_ref().filter(|r| !matches!(r.mode, Mode::Off));
        let held = on.and_then(|r| r.look_up(place).map(|atom| r.memory[atom]));
        held.unwrap_or_else(|| place.stored())
    })
}

/// Runs `f` on a copy of what is stored, and makes known whatever it accesses.
pub fn meet(f: impl FnOnce()) {
    with(|runtime| {
        let stored = runtime.initial.clone();
        runtime.enter(Mode::Meet, stored.into_iter());
    });
    f();
    with(|runtime| runtime.mode = Mode::Off);
}

/// Runs `look` on a copy of the memory `values`.
pub fn inspect<R>(
    values: impl Iterator<Item = u64>,
    look: impl FnOnce() -> R,
) -> Result<R, String> {
    with(|runtime| runtime.enter(Mode::Inspect, values));
    let result = catch_unwind(AssertUnwindSafe(look));
    with(|runtime| runtime.mode = Mode::Off);
    result.map_err(|payload| message(payload.as_ref()))
}

/// Learns what follows when the thread at the end of `path` observes what its last entry says, in
/// memory `values`; or, if `path` is empty, how the thread begins.
pub fn learn(
    body: &dyn Fn(),
    program: Program,
    path: Vec<(NodeId, u64)>,
    values: impl Iterator<Item = u64>,
    max_steps: usize,
) -> (Program, Result<(), String>) {
    let learner = Learner::new(program, path, max_steps);
    with(|runtime| runtime.enter(Mode::Learn(learner), values));
    let result = catch_unwind(AssertUnwindSafe(body));
    let mode = with(|runtime| std::mem::replace(&mut runtime.mode, Mode::Off));
    let Mode::Learn(learner) = mode else { unreachable!("the mode was set above") };
    learner.finish(result)
}

/// Adds to what this thread has reported; [`View::notes`](crate::View::notes) shows it. A note
/// belongs to the access before it, and is made with it in one step. No effect outside a thread of
/// an exploration.
pub fn note<T: 'static>(value: T) {
    RUNTIME.with_borrow_mut(|runtime| {
        if let Some(learner) = runtime.as_mut().and_then(Runtime::learner) {
            learner.note(Rc::new(value));
        }
    });
}

/// Declares that whatever this thread does and notes from here on follows from `state` and from how
/// often it has settled; what it noted before is forgotten. So the explorer needs not tell
/// histories apart that lead to the same state here: between two operations of a thread, say, where
/// `state` is what it owns. That makes models of several operations much smaller. A false
/// declaration hides states. No effect outside a thread of an exploration.
pub fn settle(state: &[u64]) {
    RUNTIME.with_borrow_mut(|runtime| {
        if let Some(learner) = runtime.as_mut().and_then(Runtime::learner) {
            learner.settle(state);
        }
    });
}

/// Waits until `holds` returns true, with a state space that stays finite: when it returns false,
/// the thread is taken to be where it was before. So `holds` must then have changed nothing, neither
/// atomics nor anything of its own. (A loop that is not written with this counts as progress of
/// the thread, and ends with [`Options::max_steps`](crate::Options::max_steps).)
///
/// # Panics
/// In an invariant or a `finally`, if it would wait; in a thread, if `holds` reads no atomic.
pub fn wait_until(mut holds: impl FnMut() -> bool) {
    loop {
        let first = RUNTIME.with_borrow_mut(|runtime| {
            runtime.as_mut().and_then(Runtime::learner).map(|learner| learner.accesses())
        });
        if holds() {
            return;
        }
        match first {
            Some(first) => {
                with(|runtime| runtime.learner().map(|learner| learner.fold(first)));
                stop();
            }
            None if RUNTIME.with_borrow(Option::is_some) => panic_any("nobody to wait for"),
            None => std::thread::yield_now(),
        }
    }
}
