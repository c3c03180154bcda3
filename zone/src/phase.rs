//! What a zone is at a moment.

use core::fmt;

/// What a zone is at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Somebody recovers it, or stopped in the middle of that.
    Opening = 0,
    /// Somebody uses it, or stopped without closing it.
    InUse = 1,
    /// It was closed.
    Clean = 2,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "being opened",
            Self::InUse => "in use",
            Self::Clean => "closed",
        })
    }
}
