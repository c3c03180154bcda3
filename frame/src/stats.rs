//! What can be known about a zone without stopping it.

use crate::MAX_CLASSES;

/// A count over a whole zone. Exact when no call is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Free base frames that can be allocated.
    pub free_frames: usize,
    /// Huge frames all of whose base frames are free.
    pub free_huge: usize,
    /// Huge frames that are offline.
    pub offline_huge: usize,
    /// Huge frames that are isolated.
    pub isolated_huge: usize,
    /// Frames of them that are free for whoever has isolated them: none of `free_frames`.
    pub isolated_frames: usize,
    /// The same by class of the trees they lie in; an engine without classes counts all in the
    /// first.
    pub classes: [ClassStats; MAX_CLASSES],
}

/// The trees of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassStats {
    /// Trees.
    pub trees: usize,
    /// Free base frames in them.
    pub free_frames: usize,
    /// Free huge frames in them.
    pub free_huge: usize,
}
