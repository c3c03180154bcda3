//! Page-frame allocation traces of a Linux kernel.
//!
//! ```text
//!   text (plain, .xz, .zst)  ─┐                     ┌─ LinuxFrames: who owned what, and when
//!   start-owned, hidden-owned ├──► Trace in memory ─┤
//!   curve.csv                ─┤                     └─ binary form (.wtrace), small and quick
//!   .wtrace                  ─┘
//! ```
//!
//! A [`Trace`] is self-contained: the events, which frames were owned when it begins, and Linux's
//! own curve of free huge frames to compare with. [`load()`] reads any of the forms and finds the
//! lists that belong to a text file beside it; [`shipped()`] yields three traces of one real boot
//! that are part of this crate.

mod archive;
mod binary;
mod error;
mod frame_set;
mod limits;
mod linux;
mod load;
mod model;
mod shipped;
mod text;

pub use binary::{MAGIC, VERSION, read_binary, write_binary};
pub use error::{Error, Result};
pub use frame_set::{FrameSet, HUGE_FRAMES, aligned_pieces, free_huge_ratio};
pub use linux::LinuxFrames;
pub use load::{Loaded, Sources, load};
pub use model::{
    CurveRow, Event, EventKind, Migrate, Pfn, Source, Span, StartSpan, StartUse, Trace, Zone,
};
pub use shipped::{Shipped, shipped};
pub use text::{Skipped, read_curve, read_events, read_hidden_owned, read_start_owned};

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
