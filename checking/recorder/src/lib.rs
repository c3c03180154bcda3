//! Atomics that record what is written, written back and fenced: what `--cfg woodlot_persist` makes of the atomics
//! of `woodlot-frame`.
//!
//! ```text
//!   atomic      core's atomics; each access is a place where another thread may go on
//!      │
//!   recorder    one thread at a time has the baton; the events, in the order in which they happened
//! ```
//!
//! Outside of [`record`] the atomics are those of the processor, and nothing is recorded. Inside, an access is
//! sequentially consistent, whatever ordering it names.

pub mod atomic;
mod recorder;

pub use recorder::{Event, LINE_WORDS, Store, fence, mark, recent_stores, record, write_back};
