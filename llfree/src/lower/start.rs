//! Starting up the lower level: from nothing, or from what an earlier life has left.
//!
//! A zone that begins free or allocated is two words for each tree, and zeroes for its bit fields, because
//! a huge frame that is not split has bits of the free value. A recovery keeps the states, and the bits of
//! split huge frames, whatever they are, and makes everything else agree with them. A huge frame that an
//! end of the zone cuts off is always split, and its frames outside are allocated.

use core::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering, clear};
use woodlot_frame::{FlagsWord, Geometry, Persistence};

use crate::row::{row_count, row_mask};
use crate::state::{LANE, Phase, Polarity, Run, States};

use super::Lower;
use crate::Repairs;
use crate::flags::Flags;

/// What a huge frame is at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Free,
    Allocated,
    Recover,
    /// As a recovery, but nothing is written.
    Inspect,
}

impl Start {
    /// Does it begin with what an earlier life has left?
    fn is_of_old(self) -> bool {
        matches!(self, Start::Recover | Start::Inspect)
    }
}

/// Starting up. No other call is under way.
impl<G: Geometry, P: Persistence> Lower<'_, G, P> {
    /// Begins to start up.
    ///
    /// # Safety
    /// Nobody else may use the words until all is set up.
    pub(crate) unsafe fn start(&self, start: Start) {
        if start != Start::Recover {
            // SAFETY: as the caller promises.
            unsafe { clear(self.rows) };
            self.children.iter().for_each(|child| child.store(0, Ordering::Relaxed));
        }
    }

    /// Sets up a tree that lies wholly in the zone; returns how many of its frames are free.
    pub(crate) fn start_inside(&self, tree: usize, start: Start, found: &mut Repairs) -> usize {
        let all = Run::new(0, G::TREE_HUGE.min(LANE));
        let alike = |phase| {
            let states = States(0).with(all, phase);
            self.state_words(tree).iter().for_each(|word| word.store(states.0, Ordering::Relaxed));
            self.flags_words(tree).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        };
        match start {
            Start::Free => {
                alike(Phase::Free);
                found.free_huge += G::TREE_HUGE;
                G::TREE_FRAMES
            }
            Start::Allocated => {
                alike(Phase::Whole);
                0
            }
            Start::Recover => self.recover_tree::<true>(tree, found),
            Start::Inspect => self.recover_tree::<false>(tree, found),
        }
    }

    fn recover_tree<const WRITE: bool>(&self, tree: usize, found: &mut Repairs) -> usize {
        let count = G::TREE_HUGE.min(LANE);
        let (mut free, mut reset) = (0, 0);
        self.recover_flags::<WRITE>(tree, G::TREE_HUGE, found);
        for (at, word) in self.state_words(tree).iter().enumerate() {
            let mut states = Self::existing(word, count, found);
            let before = states.count_free();
            let first = tree * G::TREE_HUGE + at * LANE;
            for (one, huge) in Run::new(0, count).each().zip(first..) {
                let (frames, phase) = self.recover::<WRITE>(
                    huge,
                    states.phase(one),
                    states.polarity(one),
                    &mut reset,
                );
                free += frames;
                states = states.with(one, phase);
                if WRITE {
                    self.set_credits(huge, if phase == Phase::Split { frames } else { 0 });
                }
            }
            put::<WRITE>(word, states.0);
            found.closed += states.count_free() - before;
            found.free_huge += states.count_free();
            found.offline_huge += states.count_offline();
        }
        found.rows_reset += reset;
        free
    }

    /// A state word without what stands for no huge frame, of which `count` exist.
    fn existing(word: &AtomicU64, count: usize, found: &mut Repairs) -> States {
        let before = States(word.load(Ordering::Relaxed));
        let states = before.first(count);
        found.joins_cleared += (before.without_joins() != before) as usize;
        found.states_cleared += (before.without_joins() != states) as usize;
        states
    }

    /// Forgets the flags of a tree that do not outlive a crash, and those of huge frames that do not exist.
    fn recover_flags<const WRITE: bool>(
        &self,
        tree: usize,
        huge_frames: usize,
        found: &mut Repairs,
    ) {
        for (at, word) in self.flags_words(tree).iter().enumerate() {
            let existing = Run::new(0, huge_frames.saturating_sub(at * LANE).min(LANE));
            let before: Flags = FlagsWord(word.load(Ordering::Relaxed));
            let flags = before.recovered(existing.bits());
            found.states_cleared += before.is_damaged(existing.bits()) as usize;
            if flags != before {
                put::<WRITE>(word, flags.0);
            }
        }
    }

    /// How many frames of a huge frame are free, and what it is, after an earlier life.
    #[inline(always)]
    fn recover<const WRITE: bool>(
        &self,
        huge: usize,
        phase: Phase,
        polarity: Polarity,
        reset: &mut usize,
    ) -> (usize, Phase) {
        let (phase, was_split) = match phase {
            Phase::Split => match self.rows(huge, polarity).count_free() {
                free if free < G::HUGE_FRAMES => return (free, Phase::Split),
                _ => (Phase::Free, true),
            },
            phase => (phase, false),
        };
        // The bits of a huge frame that is not split have the free value, always: its opening and its
        // split rely on it. So have the bits that stand for no frame, for a second recovery to find nothing to do.
        let changed = self.set_rows::<WRITE>(huge, |_, _| polarity.all_free());
        *reset += (changed != 0 && !was_split) as usize;
        (if phase == Phase::Free { G::HUGE_FRAMES } else { 0 }, phase)
    }

    /// Sets the rows of a huge frame that became free during a recovery, bits that stand for no frame as well, and its
    /// joins: a second recovery has nothing to do then.
    pub(crate) fn tidy(&self, huge: usize) {
        let _ = self.update(huge, Ordering::Relaxed, |states| Some(states.without_joins()));
        let polarity = self.polarity(huge);
        self.set_rows::<true>(huge, |_, _| polarity.all_free());
    }

    /// Begins to set up a tree at an end of the zone, of which only so many huge frames exist: the
    /// others cannot be taken.
    pub(crate) fn start_tree(
        &self,
        tree: usize,
        huge_frames: usize,
        found: &mut Repairs,
        start: Start,
    ) {
        // What a fresh zone's words were before means nothing.
        let mut ignored = Repairs::default();
        let found = if start.is_of_old() { found } else { &mut ignored };
        match start {
            Start::Free | Start::Allocated => self.recover_flags::<true>(tree, 0, found),
            Start::Recover => self.recover_flags::<true>(tree, huge_frames, found),
            Start::Inspect => self.recover_flags::<false>(tree, huge_frames, found),
        }
        for (at, word) in self.state_words(tree).iter().enumerate() {
            let here = huge_frames.saturating_sub(at * LANE).min(LANE);
            let states = Self::existing(word, here, found);
            if start != Start::Inspect {
                word.store(states.0, Ordering::Relaxed);
            }
        }
    }

    /// Sets up one huge frame, of which only the frames `inside` lie in the zone; returns how many
    /// of its frames are free.
    pub(crate) fn start_huge(
        &self,
        huge: usize,
        inside: Range<usize>,
        start: Start,
        found: &mut Repairs,
    ) -> usize {
        let (states, one) = (self.states(huge), Self::run(huge, 1));
        let (before, polarity) = match start {
            Start::Free => (Phase::Free, Polarity(false)),
            Start::Allocated => (Phase::Whole, Polarity(false)),
            Start::Recover | Start::Inspect => (states.phase(one), states.polarity(one)),
        };
        let is_whole = inside.len() == G::HUGE_FRAMES;
        let (free, phase) = match (is_whole, start) {
            (true, Start::Inspect) => {
                self.recover::<false>(huge, before, polarity, &mut found.rows_reset)
            }
            (true, _) => self.recover::<true>(huge, before, polarity, &mut found.rows_reset),
            (false, Start::Inspect) => {
                (self.cut_off::<false>(huge, inside, before, polarity, found), Phase::Split)
            }
            (false, _) => {
                let mut ignored = Repairs::default();
                let found = if start.is_of_old() { &mut *found } else { &mut ignored };
                let free = self.cut_off::<true>(huge, inside, before, polarity, found);
                self.persist_rows(huge);
                (free, Phase::Split)
            }
        };
        if start.is_of_old() {
            found.closed += (is_whole && before != phase) as usize;
            found.cut_open += (!is_whole && before != phase) as usize;
        }
        found.free_huge += (phase == Phase::Free) as usize;
        found.offline_huge += (phase == Phase::Offline) as usize;
        // A crash must not show the state without the bits: they were made of the state before.
        let waits = start == Start::Recover && !is_whole && before != phase;
        if start != Start::Inspect && !waits {
            self.set_state(huge, phase, polarity);
        }
        if start != Start::Inspect {
            self.set_credits(huge, if phase == Phase::Split { free } else { 0 });
        }
        free
    }

    /// Says of a huge frame that is cut off by an end of the zone that it is split. The bits that [`start_huge`](Self::start_huge)
    /// has set are durable.
    pub(crate) fn open_cut_off(&self, huge: usize) {
        self.set_state(huge, Phase::Split, self.polarity(huge));
    }

    fn set_credits(&self, huge: usize, credits: usize) {
        let child = self.children.get(huge).into_iter();
        child.for_each(|child| child.store(credits as u32, Ordering::Relaxed));
    }

    /// Sets up the bits of a huge frame that is cut off by an end of the zone: nothing outside is
    /// free. Returns how many are.
    fn cut_off<const WRITE: bool>(
        &self,
        huge: usize,
        inside: Range<usize>,
        phase: Phase,
        polarity: Polarity,
        found: &mut Repairs,
    ) -> usize {
        let (all_free, all_taken) = (polarity.all_free(), !polarity.all_free());
        let set = |index, row: u64| {
            let keep = inside_mask(&inside, index);
            let row = match phase {
                Phase::Split => row,
                Phase::Free => all_free,
                Phase::Whole | Phase::Offline => all_taken,
            };
            row & keep | all_taken & !keep
        };
        let rows = || self.row_words(huge).iter().map(|row| row.load(Ordering::Relaxed));
        let free = |row| (polarity.free_in(row) & row_mask::<G>()).count_ones() as usize;
        if phase == Phase::Split {
            let outside = |(index, row)| free(row) - free(set(index, row));
            found.outside += rows().enumerate().map(outside).sum::<usize>();
        }
        let count = rows().enumerate().map(|(index, row)| free(set(index, row))).sum();
        self.set_rows::<WRITE>(huge, set);
        count
    }

    fn persist_rows(&self, huge: usize) {
        self.persistence.write_back_all(self.row_words(huge));
        self.persistence.fence();
    }

    fn set_state(&self, huge: usize, phase: Phase, polarity: Polarity) {
        let one = Self::run(huge, 1);
        let states = self.states(huge).with(one, phase);
        let right = states.polarity(one) == polarity;
        let states = if right { states } else { states.turned(one) };
        let word = self.state_word(huge).into_iter();
        word.for_each(|word| word.store(states.0, Ordering::Relaxed));
    }

    fn row_words(&self, huge: usize) -> &[AtomicU64] {
        let first = huge * row_count::<G>();
        self.rows.get(first..first + row_count::<G>()).unwrap_or_default()
    }

    /// Sets the rows of a huge frame, unless nothing is to be written; returns how many said something else.
    /// Bits that stand for no frame say nothing.
    #[inline(always)]
    fn set_rows<const WRITE: bool>(&self, huge: usize, value: impl Fn(usize, u64) -> u64) -> usize {
        let mut changed = 0;
        for (index, row) in self.row_words(huge).iter().enumerate() {
            let before = row.load(Ordering::Relaxed);
            let after = value(index, before);
            changed += ((before ^ after) & row_mask::<G>() != 0) as usize;
            if before != after {
                put::<WRITE>(row, after);
            }
        }
        changed
    }
}

/// Writes a word, unless nothing is to be written.
#[inline(always)]
fn put<const WRITE: bool>(word: &AtomicU64, value: u64) {
    if WRITE {
        word.store(value, Ordering::Relaxed);
    }
}

/// The bits of row `index` whose frames lie in `inside`.
fn inside_mask(inside: &Range<usize>, index: usize) -> u64 {
    let first = index * 64;
    let below = |end: usize| match end.saturating_sub(first) {
        count @ ..64 => (1 << count) - 1,
        _ => !0u64,
    };
    below(inside.end) & !below(inside.start)
}
