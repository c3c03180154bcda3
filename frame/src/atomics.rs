//! The atomic types of the whole project.
//!
//! Every atomic word of every engine is reached through this module, and nothing else names
//! `core::sync::atomic`: by `cfg` it becomes the processor's atomics, loom's (`--cfg loom`: a
//! search over interleavings *and* memory orderings) or the explorer's (`--cfg woodlot_explore`:
//! an exhaustive search over interleavings under sequential consistency). A word is always
//! accessed at one width.

#[cfg(not(any(loom, woodlot_explore)))]
pub use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(woodlot_explore, not(loom)))]
pub use woodlot_explore::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
