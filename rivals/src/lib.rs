//! The page-frame allocators that people use today, behind the same contract as Woodlot's own.
//!
//! They are what LLFree's paper (Wrenger et al., USENIX ATC 2023) compares with in sections 5.2 to
//! 5.4, each as good as its design allows:
//!
//! ```text
//!   LinuxBuddy        lists per CPU ── refill, flush ──▶ buddy lists      a lock for each
//!   LinuxBuddyNoPcp                                      buddy lists      one lock
//!   ListLocked        one list                                            one lock
//!   ListCas           one list                                            lock-free (Treiber)
//!   ListLocal         one list per slot                                   nothing at all
//!   ────────────────────────────────────────────────────────────────────────────────
//!   page array        64 bytes for each frame, as Linux's struct page
//! ```
//!
//! All keep their state in the page array, so virtually every call touches the cache line of the
//! frame it is about. The list allocators serve one order, chosen by a const parameter; all others
//! are refused as unsupported.
//!
//! Everything shared is atomic, relaxed where a lock orders it, so that a slot that is shared
//! against a rival's documentation costs frames but is never undefined behaviour.
#![deny(missing_docs)]

mod config;
mod linux;
mod list;
mod lock;
mod pages;

pub use linux::{Linux, LinuxBuddy, LinuxBuddyNoPcp};
pub use list::{List, ListCas, ListLocal, ListLocked};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
