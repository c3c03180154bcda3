//! What a compaction is to win, and how.

use core::fmt;
use core::ops::Range;

use woodlot_frame::{HugeId, Order};

/// What a compaction is to win.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// So many huge frames, wherever it is cheapest.
    Huge(usize),
    /// These very huge frames, all of them or none.
    Range(Range<HugeId>),
    /// One aligned block of an order of at least a huge frame: of the geometry, or larger, such as a giant frame of 1 GiB (order 18
    /// with 4 KiB base frames). All of it or nothing, where the fewest frames are in use.
    Block(Order),
}

/// Who gives, and who receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manner {
    /// The emptiest huge frames give, and the fullest receive: the fewest moves (LLFree section 5.6).
    #[default]
    Matching,
    /// The last huge frames give, and the first receive: the two fingers of the paper and of Linux.
    Fingers,
}

/// Why there is nothing to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// There is room for fewer candidates than huge frames, of which there are so many.
    Memory(usize),
    /// The target is no range of huge frames, or no block of at least a huge frame.
    NoTarget,
    /// No block of the order could be won: wherever it is looked for some frame is pinned or does not exist, or the other huge
    /// frames have no room for what it holds.
    NoPlace,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(huge) => write!(f, "there must be room for {huge} candidates"),
            Self::NoTarget => f.write_str("the target is no range of huge frames"),
            Self::NoPlace => f.write_str("no place can be emptied"),
        }
    }
}

impl core::error::Error for PlanError {}
