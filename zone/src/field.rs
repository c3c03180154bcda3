//! The constant words of the zone page, and of the page of an owner table, by their places. LAYOUT.md has the same table.

use core::fmt;

/// The first word of a zone: `Woodlot` and a byte that no text has.
pub const MAGIC: u64 = u64::from_le_bytes(*b"Woodlot\x1a");

/// The first word of an owner table: `Owners`, a byte that no text has, and zero.
pub(crate) const OWNERS_MAGIC: u64 = u64::from_le_bytes(*b"Owners\x1a\0");

/// A word of the zone page, or of the page of an owner table, and what it says. The number is its place in the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(usize)]
pub enum Field {
    /// Whether there is a zone at all. Written last, in one piece.
    Magic = 0,
    /// The checksum of the constant words behind this one.
    Checksum = 1,
    /// The version of the zone page.
    Version = 2,
    /// Features that whoever opens the zone must know, one bit each.
    Incompatible = 3,
    /// Features that need not be known.
    Compatible = 4,
    /// The allocator: 1 is LLFree.
    Engine = 5,
    /// The version of the allocator's durable part.
    EngineVersion = 6,
    /// The size of a base frame is 2 to the power of this, in bytes.
    BaseShift = 7,
    /// The order of a huge frame.
    HugeOrder = 8,
    /// How many huge frames a tree has.
    TreeHuge = 9,
    /// How what was written becomes durable: see [`Persistence`](crate::Persistence).
    Persistence = 10,
    /// The number of the first frame.
    Start = 11,
    /// How many frames.
    Frames = 12,
    /// How many slots.
    Slots = 13,
    /// How many classes.
    Classes = 14,
    /// A byte for each class: how many classes it fills.
    Fills = 15,
    /// The classes that class 0 turns to, a byte each.
    Turns0 = 16,
    /// The same of class 1.
    Turns1 = 17,
    /// The same of class 2.
    Turns2 = 18,
    /// The same of class 3.
    Turns3 = 19,
    /// The same of class 4.
    Turns4 = 20,
    /// The same of class 5.
    Turns5 = 21,
    /// The same of class 6.
    Turns6 = 22,
    /// The same of class 7.
    Turns7 = 23,
    /// The bytes of the zone's memory, from the zone page on.
    Length = 24,
    /// Where the durable part begins, in bytes from the zone page.
    DurableOffset = 25,
    /// The bytes of the durable part.
    DurableBytes = 26,
    /// Where the volatile part begins.
    VolatileOffset = 27,
    /// The bytes of the volatile part.
    VolatileBytes = 28,
    /// How many writes of a batch the record of a slot has room for; 0 where there are no records.
    RecordRoom = 29,
    /// Of an owner table: for how many members it has room.
    Members = 48,
    /// Of an owner table: where the members begin, in bytes from its page.
    MembersOffset = 49,
    /// Of an owner table: where the slots begin.
    SlotsOffset = 50,
    /// Of an owner table: where the tags begin.
    TagsOffset = 51,
    /// The version of the volatile part. Not constant: whoever opens the zone writes it.
    VolatileVersion = 65,
}

impl Field {
    /// The words that are checked one by one, after magic, checksum, version and features.
    pub(crate) const COMPARED: [Field; 25] = [
        Field::Engine,
        Field::EngineVersion,
        Field::BaseShift,
        Field::HugeOrder,
        Field::TreeHuge,
        Field::Persistence,
        Field::Start,
        Field::Frames,
        Field::Slots,
        Field::Classes,
        Field::Fills,
        Field::Turns0,
        Field::Turns1,
        Field::Turns2,
        Field::Turns3,
        Field::Turns4,
        Field::Turns5,
        Field::Turns6,
        Field::Turns7,
        Field::Length,
        Field::DurableOffset,
        Field::DurableBytes,
        Field::VolatileOffset,
        Field::VolatileBytes,
        Field::RecordRoom,
    ];

    /// The words of the eight classes' turns.
    pub(crate) const TURNS: [Field; 8] = [
        Field::Turns0,
        Field::Turns1,
        Field::Turns2,
        Field::Turns3,
        Field::Turns4,
        Field::Turns5,
        Field::Turns6,
        Field::Turns7,
    ];

    const fn name(self) -> &'static str {
        match self {
            Field::Magic => "magic number",
            Field::Checksum => "checksum of the zone page",
            Field::Version => "version of the zone page",
            Field::Incompatible => "features that must be known",
            Field::Compatible => "features that need not be known",
            Field::Engine => "allocator",
            Field::EngineVersion => "version of the durable part",
            Field::BaseShift => "shift of a base frame",
            Field::HugeOrder => "order of a huge frame",
            Field::TreeHuge => "huge frames of a tree",
            Field::Persistence => "persistence",
            Field::Start => "first frame",
            Field::Frames => "number of frames",
            Field::Slots => "number of slots",
            Field::Classes => "number of classes",
            Field::Fills => "what the classes fill",
            Field::Turns0 => "turns of class 0",
            Field::Turns1 => "turns of class 1",
            Field::Turns2 => "turns of class 2",
            Field::Turns3 => "turns of class 3",
            Field::Turns4 => "turns of class 4",
            Field::Turns5 => "turns of class 5",
            Field::Turns6 => "turns of class 6",
            Field::Turns7 => "turns of class 7",
            Field::Length => "length of the zone",
            Field::DurableOffset => "place of the durable part",
            Field::DurableBytes => "length of the durable part",
            Field::VolatileOffset => "place of the volatile part",
            Field::VolatileBytes => "length of the volatile part",
            Field::RecordRoom => "room of a slot's record",
            Field::Members => "room for members",
            Field::MembersOffset => "place of the members",
            Field::SlotsOffset => "place of the slots",
            Field::TagsOffset => "place of the tags",
            Field::VolatileVersion => "version of the volatile part",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn the_compared_words_follow_one_another() {
        assert!(Field::COMPARED.windows(2).all(|pair| pair[0] as usize + 1 == pair[1] as usize));
        assert!(Field::TURNS.windows(2).all(|pair| pair[0] as usize + 1 == pair[1] as usize));
        assert_eq!(Field::COMPARED[0] as usize, Field::Compatible as usize + 1);
    }
}
