//! The flags of huge frames, beside their states in the cache line of the tree.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FlagsWord, Geometry, HugeFlags, Persistence};

use super::Lower;
use crate::flags::Flags;
use crate::state::{EVERY, LANE, Phase, Run, States};

impl<'a, G: Geometry, P: Persistence> Lower<'a, G, P> {
    /// State words of a tree: two, or one where a tree has up to sixteen huge frames.
    pub(crate) const WORDS: usize = G::TREE_HUGE.div_ceil(LANE);

    /// The word that a huge frame's flags are in.
    #[inline(always)]
    fn flags_word(&self, huge: usize) -> Option<&'a AtomicU64> {
        let within = huge % G::TREE_HUGE / LANE;
        self.states.get(huge / G::TREE_HUGE)?.0.get(2 + within)
    }

    /// The flags words of a tree.
    pub(super) fn flags_words(&self, tree: usize) -> &'a [AtomicU64] {
        let words = self.states.get(tree).and_then(|line| line.0.get(2..2 + Self::WORDS));
        words.unwrap_or_default()
    }

    /// The flags of the huge frames in the word of `huge`.
    fn flags_beside(&self, huge: usize) -> Flags {
        FlagsWord(self.flags_word(huge).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    /// The flags of a huge frame.
    pub(crate) fn flags(&self, huge: usize) -> HugeFlags {
        self.flags_beside(huge).of(Self::run(huge, 1).bits())
    }

    /// What a caller knows that has just taken a run out of *free*. From now on it may be written to.
    #[inline(always)]
    pub(super) fn taken(word: &AtomicU64, run: Run) -> Flags {
        let flags = FlagsWord(word.load(Ordering::Relaxed));
        if flags.has_zeroed(EVERY.bits()) {
            Self::forget_zeroed(word, flags, run);
        }
        flags
    }

    #[cold]
    fn forget_zeroed(word: &AtomicU64, flags: Flags, run: Run) {
        if flags.has_zeroed(run.bits()) {
            word.fetch_and(Flags::but_zeroed(run.bits()), Ordering::Relaxed);
        }
    }

    /// The same of a run in the word of `huge`.
    #[inline(always)]
    pub(super) fn taken_of(&self, huge: usize, run: Run) {
        self.flags_word(huge).into_iter().for_each(|word| {
            Self::taken(word, run);
        });
    }

    /// Sets the flags of a run in the word of `huge`, which the caller has for itself. Returns those before. The
    /// caller makes that persistent with the state.
    pub(crate) fn set_flags(&self, huge: usize, run: Run, flags: HugeFlags) -> Flags {
        let Some(word) = self.flags_word(huge) else {
            return FlagsWord(0);
        };
        let mut before = FlagsWord(word.load(Ordering::Relaxed));
        loop {
            let after = before.with(run.bits(), flags);
            // The swap of the state publishes it, when the caller gives the huge frames away.
            let relaxed = Ordering::Relaxed;
            match word.compare_exchange(before.0, after.0, relaxed, relaxed) {
                Ok(_) => return before,
                Err(now) => before = FlagsWord(now),
            }
        }
    }

    /// Is a huge frame, whose flags its owner has set, still allocated as a whole, or offline? If somebody has isolated
    /// it, the flags say no more that it is zeroed. By a read-modify-write: the isolator comes before, and is seen, or
    /// after, and sees the flags.
    pub(crate) fn is_still_whole(&self, huge: usize) -> bool {
        let run = Self::run(huge, 1);
        let word = self.state_word(huge);
        let states = word.map_or(Self::NOTHING, |word| States(word.fetch_or(0, Ordering::AcqRel)));
        let is_whole = matches!(states.phase(run), Phase::Whole | Phase::Offline);
        if !is_whole {
            self.taken_of(huge, run);
        }
        is_whole
    }

    /// Says of a huge frame that it has memory. The caller owns a frame in it. Other owners that see this see the
    /// memory.
    pub(crate) fn set_backed(&self, huge: usize) {
        let run = Self::run(huge, 1);
        if let Some(word) = self.flags_word(huge) {
            word.fetch_and(Flags::but_reclaimed(run.bits()), Ordering::Release);
            self.persist(word);
        }
    }

    /// Takes up to `most` free huge frames out, of those in the word of `huge` that `may` says by the flags. Returns
    /// which, and their states before. Nothing is persistent yet.
    pub(crate) fn take_out(
        &self,
        huge: usize,
        most: usize,
        may: impl Fn(Flags) -> Run,
    ) -> Option<(Run, States)> {
        let word = self.state_word(huge)?;
        let mut states = States(word.load(Ordering::Relaxed));
        loop {
            // The flags may be older than the state, and only say what is better: who has taken a run out looks again.
            let run = states.free_of(may(self.flags_beside(huge)), most);
            if run.is_empty() {
                return None;
            }
            let next = states.turn(run, Phase::Free, Phase::Offline);
            match word.compare_exchange(states.0, next.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((run, states)),
                Err(now) => states = States(now),
            }
        }
    }

    /// The states and flags of a tree, word by word.
    pub(crate) fn words_of(&self, tree: usize) -> impl Iterator<Item = (States, Flags)> {
        let first = tree * G::TREE_HUGE;
        (0..Self::WORDS).map(move |at| {
            let huge = first + at * LANE;
            (self.states(huge), self.flags_beside(huge))
        })
    }
}
