//! Who owns which frame, as the processes say, outside of the zone.
//!
//! ```text
//!   file   │ zone │ desk: a finding, then a seat for each process │ log: a word for each frame │
//!
//!   seat   id │ calls made, 2 words │ frames of the call under way │ … 16 words
//!   word   ┌ state, 2 ┬ id, 30 ┐     0 nobody's │ 1 owned by id │ 2 being freed by id
//!          └──────────┴────────┘
//!
//!   alloc  doubt := frames │ call │ nobody's or another's being freed ▶ owned │ doubt := 0
//!   free   doubt := frames │ owned ▶ being freed │ call │ being freed ▶ nobody's │ doubt := 0
//! ```
//!
//! 1. Who takes a word from a state that it must not have has found a defect: an owner in an allocation, anything
//!    but itself in a free. What another is about to clear may be overwritten; so it clears by a swap.
//! 2. A frame that is owned in the log is allocated, whenever its owner was killed. A frame that nobody owns in
//!    the log and that is allocated when nobody is left is lost; its process was in a call that concerned it.
//! 3. So no more frames are lost than the seats of the killed say, each of one call.

use std::ops::Range;

use woodlot_bench::Failure;
use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_zone::PAGE;

use crate::zone::file::Mapped;

/// How many processes there can be at once.
pub const SEATS: usize = 32;

/// Words of the finding, and of a seat.
const WORDS: usize = 16;
/// Words of the desk.
const DESK: usize = (1 + SEATS) * WORDS;

/// Of a seat: who sits there, how many calls it made (in two words), and the frames of its call under way.
const ID: usize = 0;
const CALLS: usize = 1;
const DOUBT: usize = 3;

/// What is wrong, if something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Wrong {
    /// A frame was allocated that another process owned.
    Overlap = 1,
    /// A frame that a process owned was another's when it was to be freed.
    Taken = 2,
    /// The zone did not free what a process owned.
    Refused = 3,
}

/// A defect that a process has found: which frame, and what its word said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    pub wrong: Wrong,
    pub frame: usize,
    pub word: u32,
    pub by: u32,
}

impl Finding {
    /// In words; a process is named by its number.
    pub fn describe(&self) -> String {
        let Finding { wrong, frame, word, by } = *self;
        let whose = describe(word);
        match wrong {
            Wrong::Overlap => format!("process {by} was given frame {frame:#x}, which was {whose}"),
            Wrong::Taken => {
                format!("process {by} was to free its frame {frame:#x}, which was {whose}")
            }
            Wrong::Refused => {
                format!(
                    "process {by} could not free its frame {frame:#x}: the zone says it is not allocated"
                )
            }
        }
    }
}

/// A word of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    Nobody,
    /// It was returned by an allocation.
    Owned(u32),
    /// A free has begun.
    Freeing(u32),
}

impl Owner {
    const ID: u32 = (1 << 30) - 1;

    pub fn word(self) -> u32 {
        match self {
            Owner::Nobody => 0,
            Owner::Owned(id) => 1 << 30 | id & Self::ID,
            Owner::Freeing(id) => 2 << 30 | id & Self::ID,
        }
    }

    pub fn of(word: u32) -> Owner {
        match word >> 30 {
            1 => Owner::Owned(word & Self::ID),
            2 => Owner::Freeing(word & Self::ID),
            _ => Owner::Nobody,
        }
    }
}

fn describe(word: u32) -> String {
    match Owner::of(word) {
        Owner::Nobody => "nobody's".into(),
        Owner::Owned(id) => format!("owned by process {id}"),
        Owner::Freeing(id) => format!("being freed by process {id}"),
    }
}

/// The log of a zone's frames, and the desk.
#[derive(Clone, Copy)]
pub struct Log<'a> {
    desk: &'a [AtomicU32],
    frames: &'a [AtomicU32],
    /// The first frame's number.
    start: usize,
}

impl<'a> Log<'a> {
    /// The bytes that it takes.
    pub fn bytes(frames: usize) -> usize {
        ((DESK + frames) * size_of::<u32>()).next_multiple_of(PAGE)
    }

    /// The log that lies in a mapping, behind a zone of `zone` bytes.
    ///
    /// # Errors
    /// When the mapping is too short.
    pub fn of(mapped: &'a Mapped, zone: usize, frames: Range<usize>) -> Result<Self, Failure> {
        let end = zone + (DESK + frames.len()) * size_of::<u32>();
        if end > mapped.len() {
            return Err(Failure::Failed("the file has no room for the log of its frames".into()));
        }
        let (desk, words) = mapped.words(zone..end).split_at(DESK);
        Ok(Log { desk, frames: words, start: frames.start })
    }

    /// The word of a frame.
    pub fn word(&self, frame: usize) -> &'a AtomicU32 {
        &self.frames[frame - self.start]
    }

    /// Every frame with its owner.
    pub fn owners(&self) -> impl Iterator<Item = (usize, Owner)> + use<'a> {
        let start = self.start;
        let words = self.frames.iter().enumerate();
        words.map(move |(at, word)| (start + at, Owner::of(word.load(Ordering::Acquire))))
    }

    /// Takes a frame's word from what it must be to what it is to be.
    pub fn change(&self, frame: usize, from: Owner, to: Owner) -> Result<(), u32> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let swapped = self.word(frame).compare_exchange(from.word(), to.word(), success, failure);
        swapped.map(drop)
    }

    pub fn seat(&self, seat: usize) -> Seat<'a> {
        let first = (1 + seat) * WORDS;
        Seat(&self.desk[first..first + WORDS])
    }

    /// Says what is wrong: the first finding stays.
    pub fn report(&self, finding: Finding) {
        let free = self.desk[1].compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
        if free.is_ok() {
            let Finding { wrong, frame, word, by } = finding;
            let [low, high] = [frame as u32, (frame as u64 >> 32) as u32];
            for (at, value) in [(2, low), (3, high), (4, word), (5, by)] {
                self.desk[at].store(value, Ordering::Relaxed);
            }
            self.desk[0].store(wrong as u32, Ordering::Release);
        }
    }

    /// What was found, if anything was.
    pub fn finding(&self) -> Option<Finding> {
        let wrong = self.desk[0].load(Ordering::Acquire);
        let wrong = [Wrong::Overlap, Wrong::Taken, Wrong::Refused]
            .into_iter()
            .find(|&known| known as u32 == wrong)?;
        let [low, high, word, by] =
            [2, 3, 4, 5].map(|at: usize| self.desk[at].load(Ordering::Relaxed));
        let frame = (u64::from(high) << 32 | u64::from(low)) as usize;
        Some(Finding { wrong, frame, word, by })
    }
}

/// What a process says of itself.
#[derive(Clone, Copy)]
pub struct Seat<'a>(&'a [AtomicU32]);

impl Seat<'_> {
    /// Who sits there, or sat there last.
    pub fn id(&self) -> u32 {
        self.0[ID].load(Ordering::Acquire)
    }

    /// For a process that begins.
    pub fn take(&self, id: u32) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.0[ID].store(id, Ordering::Release);
    }

    pub fn calls(&self) -> u64 {
        let [low, high] = [0, 1].map(|at| self.0[CALLS + at].load(Ordering::Acquire));
        u64::from(high) << 32 | u64::from(low)
    }

    /// The frames of the call under way.
    pub fn doubt(&self) -> usize {
        self.0[DOUBT].load(Ordering::Acquire) as usize
    }

    /// A call concerns so many frames.
    pub fn begin(&self, frames: usize) {
        self.0[DOUBT].store(frames as u32, Ordering::Release);
    }

    /// The call has returned, and the log knows.
    pub fn end(&self) {
        self.0[DOUBT].store(0, Ordering::Release);
        let low = self.0[CALLS].load(Ordering::Relaxed).wrapping_add(1);
        self.0[CALLS].store(low, Ordering::Release);
        if low == 0 {
            self.0[CALLS + 1].fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_was_written() {
        for owner in [Owner::Nobody, Owner::Owned(7), Owner::Freeing(Owner::ID)] {
            assert_eq!(Owner::of(owner.word()), owner);
        }
    }

    #[test]
    fn the_first_finding_stays_and_is_told_in_words() {
        let file = tempfile::tempfile().unwrap();
        let mapped = Mapped::fill(file, Log::bytes(10)).unwrap();
        let log = Log::of(&mapped, 0, 5..15).unwrap();
        assert_eq!(log.finding(), None);
        let finding = |by| {
            let word = Owner::Owned(3).word();
            Finding { wrong: Wrong::Overlap, frame: 0x1_0000_0009, word, by }
        };
        log.report(finding(4));
        log.report(finding(5));
        assert_eq!(log.finding(), Some(finding(4)));
        let said = "process 4 was given frame 0x100000009, which was owned by process 3";
        assert_eq!(finding(4).describe(), said);
        assert!(Log::of(&mapped, PAGE, 5..15).is_err());
    }

    #[test]
    fn a_seat_counts() {
        let file = tempfile::tempfile().unwrap();
        let mapped = Mapped::fill(file, Log::bytes(1)).unwrap();
        let seat = Log::of(&mapped, 0, 0..1).unwrap().seat(SEATS - 1);
        seat.take(9);
        seat.begin(1024);
        assert_eq!((seat.doubt(), seat.calls()), (1024, 0));
        seat.end();
        assert_eq!((seat.doubt(), seat.calls()), (0, 1));
    }
}
