//! Persistence: what it takes until a write to the durable part outlives a loss of power.
//!
//! ```text
//!   memory                          a write is persistent            the model
//!   none, or a file with sync       when the caller says so          Volatile
//!   caches outlive a crash (eADR)   when it is visible               Volatile
//!   caches do not, memory does      when its line is written back    Adr
//!   (ADR)                           and a fence has followed
//! ```
//!
//! LLFree section 3.2.3: each operation's authoritative change is one write to one cache line. So a model needs two
//! steps: to write a line back, and to wait for what was written back.

use core::ptr;

use crate::atomics::AtomicU64;

#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
mod adr;

#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
pub use adr::{Adr, WriteBack};

/// Words in a cache line.
const LINE_WORDS: usize = 8;

/// How an engine makes its durable words persistent.
///
/// A write is *persistent* after the line was [written back](Self::write_back) after it, and the same thread
/// then made a [fence](Self::fence). A write that is not persistent may be so all the same: caches write lines
/// back when they like. The writes to one line become persistent in their order.
///
/// # Progress
/// Wait-free.
pub trait Persistence: Copy + Send + Sync {
    /// The model's name, for reports.
    const NAME: &'static str;

    /// Does an engine name each authoritative write in a durable record before it makes it? See [`Intents`].
    const INTENTS: bool = false;

    /// The model as this machine can do it; `None` if it cannot.
    fn detect() -> Option<Self>;

    /// Begins to write back the cache line that holds the word.
    fn write_back(self, word: &AtomicU64);

    /// Waits until all lines are persistent that this thread has begun to write back.
    fn fence(self);

    /// Begins to write back every line of words that lie side by side.
    #[inline(always)]
    fn write_back_all(self, words: &[AtomicU64]) {
        let Some(first) = words.first() else {
            return;
        };
        self.write_back(first);
        let next = LINE_WORDS - ptr::from_ref(first).addr() / size_of::<u64>() % LINE_WORDS;
        words.iter().skip(next).step_by(LINE_WORDS).for_each(|word| self.write_back(word));
    }
}

/// Nothing is written back.
///
/// This is for memory that does not outlive a crash, for machines whose caches do (eADR), and for files: what a
/// file holds is right after a sync that no call was under way beside.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Volatile;

impl Persistence for Volatile {
    const NAME: &'static str = "no write-back";

    #[inline(always)]
    fn detect() -> Option<Self> {
        Some(Self)
    }

    #[inline(always)]
    fn write_back(self, _: &AtomicU64) {}

    #[inline(always)]
    fn fence(self) {}

    #[inline(always)]
    fn write_back_all(self, _: &[AtomicU64]) {}
}

/// `P`, and before each authoritative write the engine names it in a durable record of the slot: an *intent*.
///
/// After a crash at most one write for each slot is in doubt, and its frames are named. What a call allocates or frees, a
/// block of any order, a batch or a run of any length, it has allocated or freed entirely or not at all, but for that
/// write. A record has [room](crate::ZoneConfig::record_room) for a batch of so many blocks. A longer one is refused with
/// `BatchTooLong`, and nothing is changed, if all of it is asked for or it is to be freed; as many blocks as there are
/// ([`Batch::UpTo`](crate::Batch)) are no more than there is room for.
///
/// Slots are exclusive: a slot has one call at a time, and an interrupt handler has a slot of its own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Intents<P>(pub P);

impl<P: Persistence> Persistence for Intents<P> {
    const NAME: &'static str = "intents";

    const INTENTS: bool = true;

    #[inline(always)]
    fn detect() -> Option<Self> {
        P::detect().map(Self)
    }

    #[inline(always)]
    fn write_back(self, word: &AtomicU64) {
        self.0.write_back(word);
    }

    #[inline(always)]
    fn fence(self) {
        self.0.fence();
    }

    #[inline(always)]
    fn write_back_all(self, words: &[AtomicU64]) {
        self.0.write_back_all(words);
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use core::cell::RefCell;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    std::thread_local! {
        static LINES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// Notes the lines.
    #[derive(Clone, Copy)]
    struct Noting;

    impl Persistence for Noting {
        const NAME: &'static str = "noting";

        fn detect() -> Option<Self> {
            Some(Self)
        }

        fn write_back(self, word: &AtomicU64) {
            LINES.with_borrow_mut(|lines| lines.push(ptr::from_ref(word).addr() / 64));
        }

        fn fence(self) {}
    }

    #[test]
    fn every_line_of_a_run_of_words_is_written_back_once() {
        let words: Vec<AtomicU64> = (0..40).map(AtomicU64::new).collect();
        for (first, last) in (0..9).flat_map(|first| (first..40).map(move |last| (first, last))) {
            LINES.take();
            Noting::write_back_all(Noting, &words[first..last]);
            let lines = words[first..last].iter().map(|word| ptr::from_ref(word).addr() / 64);
            let (written, lines) = (LINES.take(), BTreeSet::from_iter(lines));
            assert_eq!(written, Vec::from_iter(lines), "words {first} to {last}");
        }
    }
}
