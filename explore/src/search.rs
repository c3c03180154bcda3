//! The depth-first search through all states.
//!
//! ```text
//!   state   = slots (contents of the atomics) + at (each thread's node)
//!   key     = xor of a print of each slot that is not as it was initially, and of each node
//!   stack   = one frame for each state on the path, with what undoes the step that led to it
//!   seen    = key -> what the finished subgraph says: steps to finish alone, number of paths
//! ```
//!
//! # Invariants
//! 1. A print is a 128-bit SipHash of (slot, value) or (thread, node). Two different states have
//!    the same key, so that one of them is lost, with probability 2^-128; for any two of 10⁸
//!    states to collide it is 10¹⁶ / 2^129 < 10^-22.
//! 2. `key` belongs to `slots` and `at`, which are the state of the topmost frame.
//! 3. Histories only grow (and so does the number of times a thread has settled), so the graph has
//!    cycles only where a thread waits ([`wait_until`](crate::wait_until)); such an edge counts as
//!    "never finishes alone".
//!
//! There is no partial-order reduction: sleep sets lose states when states are also cached.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::failure::{Failure, Step};
use crate::model::{Check, MAX_THREADS, Model, Options, Report, View};
use crate::program::{Edge, NodeId, Point, Program};
use crate::runtime::{self, inspect};

/// Of a thread that does not finish alone.
const NEVER: u16 = u16::MAX;

fn print_of(kind: u32, number: u32, value: u64) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64((u64::from(kind) << 32) | u64::from(number));
    hasher.write_u64(value);
    hasher.finish128().as_u128()
}

/// The contents of one atomic.
#[derive(Clone, Copy)]
struct Slot {
    value: u64,
    initial: u64,
    print: u128,
}

/// What is known of a state when all that follows it has been explored.
#[derive(Clone, Copy)]
struct Summary {
    /// Steps that each thread needs to finish alone.
    solo: [u16; MAX_THREADS],
    /// Schedules from here to the end.
    paths: u64,
}

/// The step that led to a state, with what it replaced.
#[derive(Clone, Copy)]
struct Taken {
    thread: usize,
    from: NodeId,
    atom: usize,
    slot: Slot,
    edge: Edge,
}

/// A state on the path.
struct Frame {
    key: u128,
    taken: Option<Taken>,
    /// How many of the last steps the same thread took.
    run: usize,
    /// The thread to try next.
    next: usize,
    summary: Summary,
}

/// Keys are hashes already.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u128")
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

pub struct Search<'m> {
    options: Options,
    model: Model<'m>,
    programs: Vec<Program>,
    slots: Vec<Slot>,
    at: Vec<NodeId>,
    key: u128,
    stack: Vec<Frame>,
    seen: HashMap<u128, Summary, BuildHasherDefault<KeyHasher>>,
    report: Report,
}

impl<'m> Search<'m> {
    /// Begins in the state in which no thread has made a step.
    pub fn new(options: Options, model: Model<'m>) -> Result<Self, Failure> {
        let threads = model.bodies.len();
        let programs = model.bodies.iter().map(|_| Program::default()).collect();
        let (slots, stack, seen) = Default::default();
        let report = Report {
            states: 0,
            transitions: 0,
            executions: 0,
            finals: 0,
            runs: 0,
            max_depth: 0,
            complete: true,
        };
        let at = vec![0; threads];
        let mut search =
            Search { options, model, programs, slots, at, key: 0, stack, seen, report };
        search.meet_atoms();
        for thread in 0..threads {
            search.learn(thread, None)?;
            search.key ^= search.node_print(thread, 0);
        }
        search.push(None);
        for thread in 0..threads {
            search.check_point(thread)?;
        }
        search.arrive()?;
        Ok(search)
    }

    /// Explores everything, or runs the one schedule that the options name.
    pub fn run(mut self) -> Result<Report, Failure> {
        if let Some(schedule) = self.options.schedule.take() {
            return self.replay(&schedule);
        }
        while let Some(frame) = self.stack.last_mut() {
            let thread = frame.next;
            if thread == self.at.len() {
                self.leave()?;
                continue;
            }
            frame.next += 1;
            if self.finished(thread) {
                continue;
            }
            let again = self.step(thread)?.again;
            if again && self.stuck()? {
                return Err(self.failure("deadlock: every unfinished thread waits".into()));
            }
            self.report.transitions += 1;
            if let Some(&summary) = self.seen.get(&self.key) {
                self.undo();
                self.absorb(thread, summary, again)?;
            } else if self.seen.len() >= self.options.max_states {
                self.report.complete = false;
                break;
            } else {
                self.arrive()?;
            }
        }
        Ok(self.report)
    }

    fn replay(mut self, schedule: &[usize]) -> Result<Report, Failure> {
        for &thread in schedule {
            if thread >= self.at.len() || self.finished(thread) {
                let what = format!("the schedule does not fit: thread {thread} cannot run");
                return Err(self.failure(what));
            }
            let again = self.step(thread)?.again;
            if again && self.stuck()? {
                return Err(self.failure("deadlock: every unfinished thread waits".into()));
            }
            self.arrive()?;
        }
        eprintln!("{}", self.failure("the schedule ran without a failure".into()));
        self.report.complete = false;
        Ok(self.report)
    }

    fn point(&self, thread: usize) -> &Point {
        &self.programs[thread].node(self.at[thread]).point
    }

    fn finished(&self, thread: usize) -> bool {
        *self.point(thread) == Point::End
    }

    fn node_print(&self, thread: usize, node: NodeId) -> u128 {
        print_of(1, thread as u32, u64::from(node))
    }

    /// Makes room for the atomics that the runtime has come to know.
    fn meet_atoms(&mut self) {
        runtime::with(|runtime| {
            let new = &runtime.initial[self.slots.len()..];
            self.slots.extend(new.iter().map(|&value| Slot { value, initial: value, print: 0 }));
        });
    }

    /// Learns what follows when the thread observes `seen` at a node, or how it begins.
    fn learn(&mut self, thread: usize, what: Option<(NodeId, u64)>) -> Result<(), Failure> {
        let program = std::mem::take(&mut self.programs[thread]);
        let mut path = what.map(|(node, _)| program.path(node)).unwrap_or_default();
        path.extend(what);
        let values = self.slots.iter().map(|slot| slot.value);
        let body = &*self.model.bodies[thread];
        let max_steps = self.options.max_steps;
        let (program, result) = runtime::learn(body, program, path, values, max_steps);
        self.programs[thread] = program;
        self.report.runs += 1;
        self.meet_atoms();
        result.map_err(|why| self.failure(format!("thread {thread}: {why}")))
    }

    /// The edge out of `node` that the thread would take in the state at hand, and its atomic.
    fn edge(&mut self, thread: usize, node: NodeId) -> Result<(Edge, usize), Failure> {
        let Point::Access(access) = self.programs[thread].node(node).point else {
            unreachable!("only a thread with an access ahead makes a step")
        };
        let atom = access.atom as usize;
        let seen = access.observes(self.slots[atom].value);
        if self.programs[thread].edge(node, seen).is_none() {
            self.learn(thread, Some((node, seen)))?;
        }
        let edge = self.programs[thread].edge(node, seen).expect("it was learned");
        Ok((edge, atom))
    }

    /// Makes one step of this thread.
    fn step(&mut self, thread: usize) -> Result<Edge, Failure> {
        let from = self.at[thread];
        let (edge, atom) = self.edge(thread, from)?;
        let slot = self.slots[atom];
        self.push(Some(Taken { thread, from, atom, slot, edge }));
        if let Some(value) = edge.write.filter(|&value| value != slot.value) {
            let print = if value == slot.initial { 0 } else { print_of(0, atom as u32, value) };
            self.slots[atom] = Slot { value, print, ..slot };
            self.key ^= slot.print ^ print;
        }
        self.key ^= self.node_print(thread, from) ^ self.node_print(thread, edge.next);
        self.at[thread] = edge.next;
        self.stack.last_mut().expect("pushed above").key = self.key;
        self.check_point(thread)?;
        self.check_run(thread)?;
        Ok(edge)
    }

    fn push(&mut self, taken: Option<Taken>) {
        let run = match (self.stack.last(), &taken) {
            (Some(Frame { run, taken: Some(last), .. }), Some(taken))
                if last.thread == taken.thread =>
            {
                run + 1
            }
            _ => 1,
        };
        let summary = Summary { solo: [0; MAX_THREADS], paths: 0 };
        self.stack.push(Frame { key: self.key, taken, run, next: 0, summary });
    }

    /// Goes back over the last step.
    fn undo(&mut self) -> Option<Frame> {
        let frame = self.stack.pop()?;
        if let Some(Taken { thread, from, atom, slot, .. }) = frame.taken {
            self.slots[atom] = slot;
            self.at[thread] = from;
            self.key = self.stack.last()?.key;
        }
        Some(frame)
    }

    /// A state is seen for the first time.
    fn arrive(&mut self) -> Result<(), Failure> {
        let open = Summary { solo: [NEVER; MAX_THREADS], paths: 0 };
        self.seen.insert(self.key, open);
        self.report.states += 1;
        self.report.max_depth = self.report.max_depth.max(self.stack.len() - 1);
        self.check(&self.model.invariants, "an invariant")?;
        if (0..self.at.len()).all(|thread| self.finished(thread)) {
            self.report.finals += 1;
            self.check(&self.model.finals, "finally")?;
            self.stack.last_mut().expect("the state has a frame").summary.paths = 1;
        }
        Ok(())
    }

    /// All that follows the state at hand has been explored.
    fn leave(&mut self) -> Result<(), Failure> {
        let Some(Frame { key, taken, summary, .. }) = self.undo() else { return Ok(()) };
        self.seen.insert(key, summary);
        match taken {
            Some(taken) => self.absorb(taken.thread, summary, taken.edge.again),
            None => {
                self.report.executions = summary.paths;
                Ok(())
            }
        }
    }

    /// Notes what the step of `thread` from the state at hand leads to.
    fn absorb(&mut self, thread: usize, after: Summary, again: bool) -> Result<(), Failure> {
        let summary = &mut self.stack.last_mut().expect("the step began somewhere").summary;
        let solo = if again { NEVER } else { after.solo[thread].saturating_add(1) };
        summary.solo[thread] = solo;
        summary.paths = summary.paths.saturating_add(after.paths);
        // To show it, let the thread run alone from here: `check_run` will stop it.
        while self.options.solo.is_some_and(|most| solo > most) && !self.finished(thread) {
            self.step(thread)?;
        }
        Ok(())
    }

    fn check_point(&self, thread: usize) -> Result<(), Failure> {
        match self.point(thread) {
            Point::Panicked(why) => Err(self.failure(format!("thread {thread} panicked: {why}"))),
            Point::TooLong => {
                let steps = self.options.max_steps;
                Err(self.failure(format!("thread {thread} takes more than {steps} steps")))
            }
            Point::Access(_) | Point::End => Ok(()),
        }
    }

    /// Has the thread run alone for longer than it may need to finish?
    fn check_run(&self, thread: usize) -> Result<(), Failure> {
        let run = self.stack.last().map_or(0, |frame| frame.run);
        match self.options.solo {
            Some(most) if run > usize::from(most) => {
                let what =
                    format!("no progress: thread {thread}, alone, is not done in {most} steps");
                Err(self.failure(what))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, checks: &[Check<'m>], name: &str) -> Result<(), Failure> {
        let view = View { programs: &self.programs, at: &self.at };
        for check in checks {
            let values = self.slots.iter().map(|slot| slot.value);
            inspect(values, || check(&view))
                .map_err(|why| self.failure(format!("{name} does not hold: {why}")))?;
        }
        Ok(())
    }

    /// Does every unfinished thread, in the memory at hand, come back to where it waits without
    /// changing anything? Then so it will be for ever.
    fn stuck(&mut self) -> Result<bool, Failure> {
        for thread in 0..self.at.len() {
            let mut node = self.at[thread];
            if self.finished(thread) {
                continue;
            }
            loop {
                if !matches!(self.programs[thread].node(node).point, Point::Access(_)) {
                    return Ok(false);
                }
                let (edge, atom) = self.edge(thread, node)?;
                if edge.again {
                    break;
                }
                if edge.write.is_some_and(|value| value != self.slots[atom].value) {
                    return Ok(false);
                }
                node = edge.next;
            }
        }
        Ok(true)
    }

    fn failure(&self, what: String) -> Failure {
        let steps = self.stack.iter().filter_map(|frame| frame.taken);
        Failure { what, steps: steps.map(|taken| self.describe(taken)).collect() }
    }

    fn describe(&self, Taken { thread, from, atom, slot, edge }: Taken) -> Step {
        let call = match &self.programs[thread].node(from).point {
            Point::Access(access) => access.call.to_string(),
            _ => unreachable!("a step is an access"),
        };
        let name = self.model.names.get(&(atom as u32)).cloned();
        let atom = name.unwrap_or_else(|| format!("#{atom}"));
        Step { thread, call, atom, before: slot.value, after: edge.write.unwrap_or(slot.value) }
    }
}
