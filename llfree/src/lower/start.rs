//! Starting up the lower level: from nothing, or from what an earlier life has left.
//!
//! A zone that begins free or allocated is two words for each tree, and zeroes for its bit fields, because
//! a huge frame that is not split has bits of the free value. A recovery keeps the states, and the bits of
//! split huge frames, whatever they are, and makes everything else agree with them. A huge frame that an
//! end of the zone cuts off is always split, and its frames outside are allocated.

use core::ops::Range;

use woodlot_frame::atomics::{Ordering, clear};
use woodlot_frame::{Geometry, Persistence};

use crate::rows::row_count;
use crate::state::{LANE, Phase, Polarity, Run, States};

use super::Lower;

/// What a huge frame is at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Free,
    Allocated,
    Recover,
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
    pub(crate) fn start_inside(&self, tree: usize, start: Start) -> usize {
        let all = Run::new(0, G::TREE_HUGE.min(LANE));
        let alike = |phase| {
            let states = States(0).with(all, phase);
            self.state_words(tree).iter().for_each(|word| word.store(states.0, Ordering::Relaxed));
        };
        match start {
            Start::Free => {
                alike(Phase::Free);
                G::TREE_FRAMES
            }
            Start::Allocated => {
                alike(Phase::Whole);
                0
            }
            Start::Recover => self.recover_tree(tree),
        }
    }

    fn recover_tree(&self, tree: usize) -> usize {
        let count = G::TREE_HUGE.min(LANE);
        let mut free = 0;
        for (at, word) in self.state_words(tree).iter().enumerate() {
            let mut states = States(word.load(Ordering::Relaxed)).first(count);
            let first = tree * G::TREE_HUGE + at * LANE;
            for (one, huge) in Run::new(0, count).each().zip(first..) {
                let (frames, phase) = self.recover(huge, states.phase(one), states.polarity(one));
                free += frames;
                states = states.with(one, phase);
                self.set_credits(huge, if phase == Phase::Split { frames } else { 0 });
            }
            word.store(states.0, Ordering::Relaxed);
        }
        free
    }

    /// How many frames of a huge frame are free, and what it is, after an earlier life.
    #[inline(always)]
    fn recover(&self, huge: usize, phase: Phase, polarity: Polarity) -> (usize, Phase) {
        let phase = match phase {
            Phase::Split => match self.rows(huge, polarity).count_free() {
                free if free < G::HUGE_FRAMES => return (free, Phase::Split),
                _ => Phase::Free,
            },
            phase => phase,
        };
        // The bits of a huge frame that is not split have the free value, always: its opening and its
        // split rely on it. So have the bits that stand for no frame, for a second recovery to find nothing to do.
        self.set_rows(huge, |_, _| polarity.all_free());
        (if phase == Phase::Free { G::HUGE_FRAMES } else { 0 }, phase)
    }

    /// Begins to set up a tree at an end of the zone, of which only so many huge frames exist: the
    /// others cannot be taken.
    pub(crate) fn start_tree(&self, tree: usize, huge_frames: usize) {
        for (at, word) in self.state_words(tree).iter().enumerate() {
            let here = huge_frames.saturating_sub(at * LANE).min(LANE);
            let states = States(word.load(Ordering::Relaxed)).first(here);
            word.store(states.0, Ordering::Relaxed);
        }
    }

    /// Sets up one huge frame, of which only the frames `inside` lie in the zone; returns how many
    /// of its frames are free.
    pub(crate) fn start_huge(&self, huge: usize, inside: Range<usize>, start: Start) -> usize {
        let (states, one) = (self.states(huge), Self::run(huge, 1));
        let (phase, polarity) = match start {
            Start::Free => (Phase::Free, Polarity(false)),
            Start::Allocated => (Phase::Whole, Polarity(false)),
            Start::Recover => (states.phase(one), states.polarity(one)),
        };
        let (free, phase) = if inside.len() == G::HUGE_FRAMES {
            self.recover(huge, phase, polarity)
        } else {
            let free = self.cut_off(huge, inside, phase, polarity);
            // A crash must not show the state without the bits: they were made of the state before.
            self.persist_rows(huge);
            (free, Phase::Split)
        };
        self.set_state(huge, phase, polarity);
        self.set_credits(huge, if phase == Phase::Split { free } else { 0 });
        free
    }

    fn set_credits(&self, huge: usize, credits: usize) {
        let child = self.children.get(huge).into_iter();
        child.for_each(|child| child.store(credits as u32, Ordering::Relaxed));
    }

    /// Sets up the bits of a huge frame that is cut off by an end of the zone: nothing outside is
    /// free. Returns how many are.
    fn cut_off(
        &self,
        huge: usize,
        inside: Range<usize>,
        phase: Phase,
        polarity: Polarity,
    ) -> usize {
        let (all_free, all_taken) = (polarity.all_free(), !polarity.all_free());
        self.set_rows(huge, |index, row| {
            let keep = inside_mask(&inside, index);
            let row = match phase {
                Phase::Split => row,
                Phase::Free => all_free,
                Phase::Whole | Phase::Offline => all_taken,
            };
            row & keep | all_taken & !keep
        });
        self.rows(huge, polarity).count_free()
    }

    fn persist_rows(&self, huge: usize) {
        let first = huge * row_count::<G>();
        let rows = self.rows.get(first..first + row_count::<G>()).unwrap_or_default();
        self.persistence.write_back_all(rows);
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

    #[inline(always)]
    fn set_rows(&self, huge: usize, value: impl Fn(usize, u64) -> u64) {
        let first = huge * row_count::<G>();
        let rows = self.rows.get(first..first + row_count::<G>()).unwrap_or_default();
        for (index, row) in rows.iter().enumerate() {
            let before = row.load(Ordering::Relaxed);
            let after = value(index, before);
            if before != after {
                row.store(after, Ordering::Relaxed);
            }
        }
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
