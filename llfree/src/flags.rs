//! The flags word ([`FlagsWord`]): what is known of the memory behind the sixteen huge frames of the state word beside it.
//!
//! Invariants:
//!
//! 1. *reclaimed* is set only by a caller that has the huge frame for itself: offline, or allocated as a whole.
//!    It is cleared only by such a caller, or by one that owns a frame in it. A huge frame in which a frame is owned
//!    does not become free, so nobody sets the flag meanwhile.
//! 2. *zeroed* is set only by a caller that has the huge frame for itself. Whoever takes a huge frame out of *free* or
//!    splits it clears the flag before anybody else gets a frame of it. So of a free huge frame the flag is true.
//!
//! The word lies in the cache line of the states: a swap that makes a huge frame free publishes the flags set before, and a
//! write-back of the state takes them along.

use woodlot_frame::FlagsWord;

use crate::state::LANE;

/// One flags word. The sets of huge frames are those of a [`Run`](crate::state::Run).
pub(crate) type Flags = FlagsWord<{ LANE as u32 }>;
