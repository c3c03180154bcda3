//! The flags of huge frames: what is known of their memory, 32 huge frames a word ([`FlagsWord`]).
//!
//! # Invariants
//! 1. *reclaimed* is set only by a call that has the huge frame for itself: it is offline, or every row is taken by one owner, or by that
//!    call. It is cleared only by such a one, or by one that owns a frame in it. A huge frame in which a frame is owned does not become
//!    free, so nobody sets the flag meanwhile.
//! 2. *zeroed* is set likewise. A call that turns rows of a huge frame from free clears the flag afterwards: before it returns, and before it
//!    writes bits of a row that it opens. Until then the huge frame is not free, as the rows are the call's own, and nobody else gets frames of
//!    a row that it opens. A call that turns a row from taken to open clears the flag before: others may free other parts of the row at
//!    once, and have them. Nobody sets it meanwhile, as the call's caller owns frames of the row. So of a free huge frame the flag is true.
//!    A call that takes a huge frame and gives it back, as it cannot have another one as well, clears the flag too.
//!
//! *Progress*: wait-free, but for setting flags, which is lock-free.
//!
//! The words are durable, as the states are. A recovery keeps *reclaimed*, and forgets *zeroed*: who had a huge frame may have written there.

use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst};
use woodlot_frame::{FlagsWord, Geometry, HugeFlags};

use crate::OneWrite;
use crate::child::Part;
use crate::words::{Flags, LANE, load, one, swap};

impl<G: Geometry> OneWrite<'_, G> {
    /// The word that a child's flags are in.
    #[inline(always)]
    fn flags_word(&self, child: usize) -> Option<&AtomicU64> {
        self.flags.get(child / LANE)
    }

    /// The flags of the children in the word of one.
    #[inline(always)]
    pub(crate) fn flags_beside(&self, child: usize) -> Flags {
        FlagsWord(load(self.flags_word(child)))
    }

    /// The flags of a child.
    pub(crate) fn flags_of(&self, child: usize) -> HugeFlags {
        self.flags_beside(child).of(one(child))
    }

    /// What a call knows that has just taken rows, or opened one. From now on they may be written to.
    #[inline(always)]
    pub(crate) fn taken(&self, part: Part) -> HugeFlags {
        let Some(word) = self.flags_word(part.child) else { return HugeFlags::BACKED };
        let flags: Flags = FlagsWord(load(Some(word)));
        // Those of one word of states are of one word of flags.
        let set = one(part.child) * if part.is_pair::<G>() { 3 } else { 1 };
        // Nearly always none of the word is zeroed: one comparison.
        if flags.has_zeroed(Flags::EVERY) && flags.has_zeroed(set) {
            // In line: for a call the callers would have to save registers.
            let _ = word.fetch_and(Flags::but_zeroed(set), SeqCst);
        }
        flags.of(set)
    }

    /// Sets the flags of a child that the caller has for itself.
    pub(crate) fn put_flags(&self, child: usize, flags: HugeFlags) {
        let Some(word) = self.flags_word(child) else { return };
        let mut before = self.flags_beside(child);
        while let Err(now) = swap(word, before.0, before.with(one(child), flags).0) {
            before = FlagsWord(now);
        }
    }

    /// Says of a child that it has memory. The caller owns a frame in it.
    pub(crate) fn has_memory(&self, child: usize) {
        let word = self.flags_word(child).into_iter();
        word.for_each(|word| _ = word.fetch_and(Flags::but_reclaimed(one(child)), SeqCst));
    }
}
