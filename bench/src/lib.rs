//! Measures page-frame allocators: against what the processor's atomic instructions cost in the
//! same run, against each other, and against targets.
//!
//! ```text
//!   command ──► check ──► measure ──► patterns ──► contender     one narrow trait, inlined away
//!      │          │          └─────► floor           ▲
//!      │          └─► frag ────────────────────────┐ │
//!      ├─► batches (of domains)                    │ │
//!      ├─► output (screen, files, machine)        engine         the table of contenders
//!      └─► chart (figures)           dispersion ───┘
//! ```
//!
//! # What is measured
//!
//! Loops over `alloc` and `free` as a program would write them: each contender's loop is compiled
//! for that contender, chosen once before the clock is read, and does nothing else than the calls
//! and one load or store of an array that was touched before. Order and slot are hidden from the
//! compiler, and so is each frame between its allocation and its free in *repeat*; without that, a
//! call of constant order would be specialised further than most callers are.
//!
//! Times are of the thread's CPU (`CLOCK_THREAD_CPUTIME_ID`) and of the wall, each divided by the
//! number of operations; what the two clock reads cost is measured once and taken off. Contenders
//! and floor take turns within each repetition, so that a machine that slows down slows down all.
//! The first repetition warms up and is thrown away.
//!
//! # What is not measured
//!
//! * Frames are numbers: no memory stands behind them, nobody writes to what was allocated, and
//!   the caches hold more metadata than they would beside a real program.
//! * The loops' own array traffic (8 bytes an operation) is in the figures of the contenders; in
//!   those of the floor only where its loop says so.
//! * Threads are pinned to the CPUs that this process may use, in the order of their numbers.
//!   Which of them share a core or a socket is not asked; *line there and back* of the floor says how far two of them are from
//!   each other.
//! * On a virtual machine CPU time contains what the hypervisor took away unannounced.
//! * Interrupts, page faults of the metadata (it is touched before) and TLB misses of the frames.
#![deny(missing_docs)]

pub mod batches;
pub mod chart;
pub mod check;
pub mod clock;
pub mod command;
pub mod contender;
#[cfg(target_os = "linux")]
pub mod daemon;
pub mod dispersion;
pub mod engine;
mod failure;
pub mod floor;
pub mod frag;
pub mod instructions;
pub mod kmem;
pub mod measure;
#[cfg(target_os = "linux")]
pub mod moves;
pub mod output;
pub mod patterns;
pub mod random;
pub mod recovery;
pub mod registry;
pub mod scale;
pub mod size;
pub mod stacks;
pub mod statistics;
#[cfg(target_os = "linux")]
pub mod waits;
#[cfg(target_os = "linux")]
pub mod wiring;

pub use failure::Failure;

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
