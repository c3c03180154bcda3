//! Random histories of whole allocators under random schedules: what `cargo xtask shuttle` runs.
//!
//! ```text
//!   plan        a zone, and calls for three to six threads: from one seed
//!      │
//!   history     the calls are made, through the contract alone   ──▶  ledger: who owns what, every call
//!      │               │                                                 │
//!   schedules   shuttle's, one thread left standing                      ▼
//!      │                                                 exhaustion: could memory have run out?
//!   batch       one plan, 64 schedules ◀─── engine │ defects
//! ```
//!
//! What is judged: no frame is owned twice; what was handed out is owned, and its free succeeds; wrong
//! calls are refused as what they are; memory runs out only where it could (`exhaustion`); when all
//! threads have ended, every count and every frame agrees with the suite's reference model, everything
//! can be freed, and everything allocated again in the largest orders; what is said to be zero, or to have no
//! memory, is so; no thread waits for one that is never scheduled again (`schedules`).
//!
//! Beside them stand histories with intents, in which threads stop for ever and a recovery follows (`deaths`).
//!
//! Under shuttle every access to an atomic word is sequentially consistent, and a place where another
//! thread may go on. A batch follows from its engine and its seed, and is replayed by them.

#[cfg(woodlot_shuttle)]
pub mod batch;
#[cfg(woodlot_shuttle)]
pub mod deaths;
pub mod defects;
pub mod engine;
#[cfg(woodlot_shuttle)]
pub mod executions;
pub mod exhaustion;
pub mod history;
pub mod ledger;
pub mod plan;
pub mod reclaim;
mod runs;
#[cfg(woodlot_shuttle)]
mod schedules;
mod seeding;
#[cfg(woodlot_shuttle)]
pub mod subject;
