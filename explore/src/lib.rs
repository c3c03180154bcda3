//! An exhaustive explorer of interleavings, under sequential consistency, for real code.
//!
//! The code under test runs unchanged on [`atomic`]'s types. Every access to an atomic is one
//! step, everything between two accesses is local, and *all* schedules of up to
//! [`MAX_THREADS`] threads are covered: not sampled, not bounded in preemptions.
//!
//! ```text
//!   thread body ──run alone, fed with observed values──►  program (learned once)
//!                                                         node = next access or end
//!                                                         edge = (value seen, value written)
//!   programs + contents of the atomics ──depth first──►   states, each visited once
//!                                                         invariant at each, finally at the last
//! ```
//!
//! A thread is a deterministic function from the values it has observed to its next access. So
//! the explorer *learns* each thread as a tree (`program`), by running the real body whenever an
//! observation comes up for the first time, and searches the product of these trees (`search`).
//! The search itself never runs real code, needs no coroutines and no unsafe code, and goes
//! back a step by undoing it. Rejected: coroutines with re-execution of the prefix at every
//! backtrack, which costs a whole execution for each state instead of some ten nanoseconds.
//!
//! # Invariants
//! 1. A state is the contents of all atomics and each thread's place in its program. Two states
//!    with the same key are the same state, but for hash collisions: see `search`.
//! 2. A thread body is deterministic and communicates only through the atomics: it captures
//!    nothing that it changes (no `core::cell::Cell`, no `Mutex`), creates no atomics of its own, and
//!    may run any number of times. What a lock protects is in a [`Cell`]. What it wants to report it
//!    says by [`note`].
//! 3. The atomics that the threads use live, at one address, from before the exploration until
//!    after it. Exploring never changes what is stored in them.
//!
//! # What it does not see
//! Weak memory (loom sees it: with `--cfg woodlot_loom` the module `orderings` runs models under loom), spurious
//! failures of `compare_exchange_weak`, and data races on ordinary memory. A body must be able to unwind (no `panic = "abort"`, no `extern "C"` frame in it).
//!
//! # How large a model may be
//! 2 to 7 million transitions a second (`--example speed`, release, one core), some 100 bytes a
//! state. Two threads of 15 accesses and their retries are 8 million states, because histories
//! that differ are kept apart; [`settle`] between the operations makes them 6 thousand. Three
//! threads of 10 accesses and their retries are 7 million states with it, which stand for
//! 4.6 x 10^18 interleavings.
//!
//! # Example
//! ```
//! use woodlot_explore::atomic::{AtomicU64, Ordering::SeqCst};
//! use woodlot_explore::{Options, note};
//!
//! let counter = AtomicU64::new(0);
//! let report = Options::new().solo_progress(1).explore(|e| {
//!     e.name("counter", std::slice::from_ref(&counter));
//!     for _ in 0..2 {
//!         e.thread(|| note(counter.fetch_add(1, SeqCst)));
//!     }
//!     e.invariant(|view| assert!(view.finished(0) || counter.load(SeqCst) < 2));
//!     e.finally(|view| assert_ne!(view.notes::<u64>(0), view.notes::<u64>(1)));
//! });
//! report.assert_complete();
//! assert_eq!((report.states, report.executions), (5, 2));
//! ```
#![forbid(unsafe_code)]

pub mod atomic;
mod cell;
mod exploration;
mod failure;
mod learner;
mod model;
#[cfg(woodlot_loom)]
pub mod orderings;
mod program;
mod runtime;
mod scenario;
mod search;

pub use cell::Cell;
pub use exploration::explore;
pub use failure::{Failure, Step};
pub use model::{MAX_THREADS, Model, Options, Report, View};
pub use runtime::{note, settle, wait_until};
pub use scenario::{scenario, scenario_in_part};
