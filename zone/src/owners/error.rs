//! Why an owner table was not made or opened, and why a member did not get what it asked for.

use core::fmt;

use woodlot_frame::{BadSlot, Slot};

use super::members::Member;
use super::tags::MOST_IDS;
use crate::ZoneError;
use crate::field::OWNERS_MAGIC;
use crate::medium::NotDurable;

/// Why something of an owner table failed. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OwnersError {
    /// The table's page or memory is not what it must be. The causes are those of a zone page.
    Page(ZoneError),
    /// A table has room for 1 to 32767 members.
    Members(usize),
    /// The zone could not be made durable.
    NotDurable(NotDurable),
    /// The table is that of a zone with other frames or slots than the allocator's.
    OtherZone,
    /// Every entry has a member.
    Full,
    /// The zone has no such slot.
    BadSlot(Slot),
    /// Another member has the slot.
    SlotTaken {
        /// Which.
        slot: Slot,
        /// The member's identity; `None`: it has just gone.
        by: Option<u64>,
    },
    /// Every slot has a member.
    NoSlot,
    /// The member is not one any more: it has left, or was released.
    Gone(Member),
    /// Another one has the right to sweep, and is not dead.
    BeingSwept {
        /// Its identity.
        by: u64,
    },
    /// The caller has the right to sweep no more: another one took it, to whom this one was dead, or a copy of the right
    /// that a fork had made gave it up.
    RightLost,
    /// Another member is just freeing what this one has left.
    BeingReleased {
        /// The identity of who does it. If that one is dead, release it first. `None`: it has just gone.
        by: Option<u64>,
    },
}

impl fmt::Display for OwnersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |f: &mut fmt::Formatter<'_>, by: Option<u64>| match by {
            Some(identity) => write!(f, "the member with identity {identity:#x}"),
            None => f.write_str("a member that has just gone"),
        };
        match *self {
            Self::Page(ZoneError::Empty) => {
                f.write_str("there is no owner table: its page is all zero")
            }
            Self::Page(ZoneError::Exists) => f.write_str("there is an owner table already"),
            Self::Page(ZoneError::Unfinished) => {
                f.write_str("this owner table was not formatted to the end")
            }
            Self::Page(ZoneError::Foreign { magic }) => write!(
                f,
                "this is no owner table: it begins with {magic:#018x}, not {OWNERS_MAGIC:#018x}"
            ),
            Self::Page(error) => write!(f, "owner table: {error}"),
            Self::NotDurable(error) => write!(f, "{error}"),
            Self::Members(asked) => {
                write!(f, "an owner table has room for 1 to {MOST_IDS} members, not for {asked}")
            }
            Self::OtherZone => {
                f.write_str("the owner table is that of a zone with other frames or slots")
            }
            Self::Full => f.write_str("the owner table has no room for another member"),
            Self::BadSlot(slot) => write!(f, "{}", BadSlot(slot)),
            Self::SlotTaken { slot, by } => {
                write!(f, "slot {} is taken by ", slot.0)?;
                has(f, by)
            }
            Self::NoSlot => f.write_str("every slot is taken"),
            Self::Gone(member) => {
                write!(f, "the member with identity {:#x} has gone", member.identity())
            }
            Self::BeingSwept { by } => {
                write!(f, "the one with identity {by:#x} has the right to sweep")
            }
            Self::RightLost => f.write_str("the right to sweep is lost"),
            Self::BeingReleased { by } => {
                f.write_str("the member is being released by ")?;
                has(f, by)
            }
        }
    }
}

impl core::error::Error for OwnersError {}

impl From<ZoneError> for OwnersError {
    fn from(error: ZoneError) -> Self {
        match error {
            ZoneError::NotDurable(error) => Self::NotDurable(error),
            error => Self::Page(error),
        }
    }
}
