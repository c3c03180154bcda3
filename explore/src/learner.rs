//! One run of a thread's body, alone, to learn what it does after something it has not seen yet.
//!
//! ```text
//!   accesses  0 1 2 … k          k+1 …                                     end
//!             fed with the path  as the memory says: each makes a node     a node, or Stop
//! ```
//!
//! The last entry of the path is the new observation. All that comes after it is what the thread
//! does alone from a state that can be reached, so every node made can be reached.

use std::any::Any;
use std::panic::resume_unwind;
use std::rc::Rc;

use crate::program::{Access, Edge, NodeId, Notes, Point, Program};

/// The payload that unwinds a body of which nothing more is to be learned.
struct Stop;

/// Unwinds the body that runs, without a word.
pub fn stop() -> ! {
    resume_unwind(Box::new(Stop))
}

/// What a panic said.
pub fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or("a panic".to_owned())
}

/// A run of one body.
#[derive(Default)]
pub struct Learner {
    program: Program,
    /// The history to feed the body with.
    path: Vec<(NodeId, u64)>,
    /// The accesses so far, each with the value observed.
    trail: Vec<(NodeId, u64)>,
    notes: Notes,
    /// How often it has settled.
    phase: usize,
    /// On what, if it has made no access since.
    settled: Option<Vec<u64>>,
    /// What the last access of the trail wrote.
    write: Option<u64>,
    /// Between the two halves of an access.
    inside: bool,
    max_steps: usize,
}

impl Learner {
    pub fn new(program: Program, path: Vec<(NodeId, u64)>, max_steps: usize) -> Self {
        Learner { program, path, max_steps, ..Learner::default() }
    }

    /// How many accesses the body has made.
    pub fn accesses(&self) -> usize {
        self.trail.len()
    }

    /// The first half of an access to an atomic that holds `held`: the value to see.
    pub fn begin(&mut self, access: Access, held: u64) -> u64 {
        assert!(!self.inside, "the closure of a fetch_update must not touch atomics");
        let place = self.trail.len();
        let (node, seen) = match self.path.get(place) {
            Some(&(node, seen)) => {
                let known = &self.program.node(node).point;
                assert!(*known == Point::Access(access), "{access:?} where {known:?} was expected");
                self.settled = None;
                (node, seen)
            }
            None if place == self.max_steps => {
                self.grow(Point::TooLong);
                stop()
            }
            None => match self.grow(Point::Access(access)) {
                Some(node) => (node, access.observes(held)),
                None => stop(),
            },
        };
        self.trail.push((node, seen));
        self.write = None;
        self.inside = true;
        seen
    }

    /// The second half. Does the write take effect? Those of the history are in the memory already.
    pub fn end(&mut self, write: Option<u64>) -> bool {
        self.inside = false;
        self.write = write;
        self.trail.len() >= self.path.len()
    }

    /// The thread has come to a node. `None` if there is nothing more to learn: it was known.
    fn grow(&mut self, mut point: Point) -> Option<NodeId> {
        let goes_on = matches!(point, Point::Access(_) | Point::End);
        let key = self.settled.take().filter(|_| goes_on).map(|state| (self.phase, state));
        let known = key.as_ref().and_then(|key| self.program.settled.get(key).copied());
        if let Some(next) = known {
            let expected = &self.program.node(next).point;
            if *expected == point {
                self.link_to(next);
                return None;
            }
            let what = format!("settled on one state, then {expected:?}, another time {point:?}");
            point = Point::Panicked(what);
        }
        let next = self.program.add(self.trail.last().copied(), point, Rc::clone(&self.notes));
        self.link_to(next);
        if let (Some(key), None) = (key, known) {
            self.program.settled.insert(key, next);
        }
        known.is_none().then_some(next)
    }

    fn link_to(&mut self, next: NodeId) {
        if let Some(&(from, seen)) = self.trail.last() {
            self.program.link(from, Edge { seen, write: self.write, next, again: false });
        }
    }

    /// The round that began with access `first` has failed.
    pub fn fold(&mut self, first: usize) {
        assert!(self.trail.len() > first, "a wait that looks at no atomic never ends");
        assert!(self.trail.len() >= self.path.len(), "a failed wait where none was expected");
        let (from, seen) = self.trail[self.trail.len() - 1];
        let next = self.trail[first].0;
        self.program.link(from, Edge { seen, write: self.write, next, again: true });
    }

    pub fn note(&mut self, note: Rc<dyn Any>) {
        Rc::make_mut(&mut self.notes).push(note);
    }

    pub fn settle(&mut self, state: &[u64]) {
        self.phase += 1;
        self.settled = Some(state.to_vec());
        self.notes = Notes::default();
    }

    /// The body has returned or unwound: what is known now, unless it did not follow the path.
    pub fn finish(mut self, result: std::thread::Result<()>) -> (Program, Result<(), String>) {
        let point = match result {
            Ok(()) => Some(Point::End),
            Err(payload) if payload.is::<Stop>() => None,
            Err(payload) => Some(Point::Panicked(message(payload.as_ref()))),
        };
        if self.trail.len() < self.path.len() {
            let why = format!("the thread is not deterministic: {point:?} within its history");
            return (self.program, Err(why));
        }
        if let Some(point) = point {
            self.grow(point);
        }
        (self.program, Ok(()))
    }
}
