//! Why a zone was not made or opened.

use core::fmt;

use woodlot_frame::InitError;

use crate::field::{Field, MAGIC};
use crate::medium::NotDurable;
use crate::phase::Phase;

/// Why a zone was not made or opened. Nothing was changed, but where the variant says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZoneError {
    /// The memory does not begin at a multiple of [`PAGE`](crate::PAGE), or at address zero.
    Misaligned {
        /// Where it begins.
        address: usize,
    },
    /// The memory is shorter than the zone: a file that was truncated, or a configuration that needs more.
    Short {
        /// The bytes of the zone.
        needed: usize,
        /// The bytes of the memory.
        given: usize,
    },
    /// The zone page is all zero: there is no zone, and never was.
    Empty,
    /// The first word is that of something else.
    Foreign {
        /// The first word.
        magic: u64,
    },
    /// Someone began to format a zone here, or to format another one over it, and did not come to the end.
    Unfinished,
    /// A zone is here already. Who wants another one [erases](crate::erase) the zone page first.
    Exists,
    /// The constant part of the zone page is damaged.
    Checksum {
        /// By the words.
        expected: u64,
        /// What the page says.
        found: u64,
    },
    /// Whoever formatted the zone used features that this version does not know.
    Features {
        /// Those that are not known, one bit each.
        unknown: u64,
    },
    /// The zone keeps [intents](crate::Intents) and was opened without them, or the other way round.
    Intents {
        /// Does the zone keep them?
        kept: bool,
    },
    /// On a [`File`](crate::File) a record must lie in one page, which is written as a whole when power fails: it has room
    /// for 3, 7, 15, 31, 63, 127 or 255 writes.
    RecordOnFile {
        /// The room of the records of this zone.
        room: usize,
    },
    /// The zone is not what this program expects, or not what it can handle.
    Mismatch {
        /// In what.
        field: Field,
        /// What the program has.
        expected: u64,
        /// What the zone page says.
        found: u64,
    },
    /// The zone page names classes that contradict each other.
    Classes,
    /// The configuration of the zone, or the one that was asked for, is one that the allocator refuses.
    Config(InitError),
    /// Nobody has the zone in use, so nobody can be joined. `None`: the word of the state is damaged.
    NotInUse(Option<Phase>),
    /// The durable part of a clean zone is not what it was when the zone was closed.
    Damaged {
        /// The checksum when the zone was closed.
        expected: u64,
        /// The checksum now.
        found: u64,
    },
    /// The medium failed. The zone is in any state that a crash could have left.
    NotDurable(NotDurable),
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Misaligned { address } => {
                write!(f, "the memory begins at {address:#x}, which is no multiple of 4096 above 0")
            }
            Self::Short { needed, given } => {
                write!(f, "the memory has {given} bytes and the zone needs {needed}")
            }
            Self::Empty => f.write_str("there is no zone: its page is all zero"),
            Self::Foreign { magic } => {
                write!(f, "this is no zone: it begins with {magic:#018x}, not {:#018x}", MAGIC)
            }
            Self::Unfinished => f.write_str("this zone was not formatted to the end"),
            Self::Exists => f.write_str("there is a zone already"),
            Self::Checksum { expected, found } => write!(
                f,
                "the zone page is damaged: its words have the checksum {expected:#018x}, and it says {found:#018x}"
            ),
            Self::Features { unknown } => {
                write!(f, "the zone has features that are not known here: {unknown:#x}")
            }
            Self::Intents { kept: true } => {
                f.write_str("the zone keeps intents, and was opened without them")
            }
            Self::Intents { kept: false } => {
                f.write_str("the zone keeps no intents, and was opened with them")
            }
            Self::RecordOnFile { room } => write!(
                f,
                "records with room for {room} writes do not lie in one page each, and a file keeps pages apart"
            ),
            Self::Mismatch { field, expected, found } => {
                write!(f, "{field}: expected {expected:#x}, and the zone has {found:#x}")
            }
            Self::Classes => f.write_str("the classes of the zone contradict each other"),
            Self::Config(error) => write!(f, "{error}"),
            Self::NotInUse(Some(phase)) => write!(f, "nobody has the zone in use: it is {phase}"),
            Self::NotInUse(None) => {
                f.write_str("nobody has the zone in use: the word of its state is damaged")
            }
            Self::Damaged { expected, found } => write!(
                f,
                "the durable part has changed since the zone was closed: its checksum was {expected:#018x} and is \
                 {found:#018x}"
            ),
            Self::NotDurable(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for ZoneError {}

impl From<InitError> for ZoneError {
    fn from(error: InitError) -> Self {
        Self::Config(error)
    }
}

impl From<NotDurable> for ZoneError {
    fn from(error: NotDurable) -> Self {
        Self::NotDurable(error)
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn messages() {
        let mismatch = |field| ZoneError::Mismatch { field, expected: 16, found: 0x1f };
        for (error, message) in [
            (
                ZoneError::Misaligned { address: 0x40 },
                "the memory begins at 0x40, which is no multiple of 4096 above 0",
            ),
            (
                ZoneError::Short { needed: 9, given: 8 },
                "the memory has 8 bytes and the zone needs 9",
            ),
            (ZoneError::Empty, "there is no zone: its page is all zero"),
            (
                ZoneError::Foreign { magic: 1 },
                "this is no zone: it begins with 0x0000000000000001, not 0x1a746f6c646f6f57",
            ),
            (ZoneError::Unfinished, "this zone was not formatted to the end"),
            (ZoneError::Exists, "there is a zone already"),
            (
                ZoneError::Checksum { expected: 1, found: 2 },
                "the zone page is damaged: its words have the checksum 0x0000000000000001, and it says \
                 0x0000000000000002",
            ),
            (
                ZoneError::Features { unknown: 6 },
                "the zone has features that are not known here: 0x6",
            ),
            (
                ZoneError::Intents { kept: true },
                "the zone keeps intents, and was opened without them",
            ),
            (
                ZoneError::Intents { kept: false },
                "the zone keeps no intents, and was opened with them",
            ),
            (
                ZoneError::RecordOnFile { room: 511 },
                "records with room for 511 writes do not lie in one page each, and a file keeps pages apart",
            ),
            (mismatch(Field::Frames), "number of frames: expected 0x10, and the zone has 0x1f"),
            (
                mismatch(Field::VolatileVersion),
                "version of the volatile part: expected 0x10, and the zone has 0x1f",
            ),
            (ZoneError::Classes, "the classes of the zone contradict each other"),
            (InitError::EmptyZone.into(), "the zone has no frames"),
            (
                ZoneError::NotInUse(Some(Phase::Opening)),
                "nobody has the zone in use: it is being opened",
            ),
            (ZoneError::NotInUse(Some(Phase::Clean)), "nobody has the zone in use: it is closed"),
            (
                ZoneError::NotInUse(None),
                "nobody has the zone in use: the word of its state is damaged",
            ),
            (
                ZoneError::Damaged { expected: 1, found: 2 },
                "the durable part has changed since the zone was closed: its checksum was \
                 0x0000000000000001 and is 0x0000000000000002",
            ),
            (NotDurable(28).into(), "the memory could not be synchronised (error 28)"),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
}
