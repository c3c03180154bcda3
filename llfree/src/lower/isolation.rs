//! Isolation, below: a huge frame whose credits stay in its counter.
//!
//! ```text
//!   counter, 32 bits
//!    31  30  29    14 13      0
//!   ┌───┬───┬────────┬─────────┐      i = 0   credits, less than all; who brings the last takes all, and closes
//!   │ i │ c │ number │ credits │      i = 1   credits, up to all; nobody takes any
//!   └───┴───┴────────┴─────────┘      c = 1   with i: the claim of that number is under way, and has all credits in its
//!                                             hands. Otherwise the number is 0
//! ```
//!
//! An allocation of base frames takes credits first. Of an isolated huge frame it gets none, and so no bit. Frees bring
//! credits as ever; they stay. An allocation of a whole huge frame needs one that is *free*, and an isolated one is
//! *split*, whatever it was before: of one that was whole all bits mean *allocated* then, and its owner frees it by a
//! join. So nothing looks at isolation that takes a block. It is volatile, as the counters are.
//!
//! Invariants, beside those of [`state`](crate::state):
//!
//! 4. An isolated huge frame is split, as soon as its isolator has been at its state.
//! 5. It stays split until it is claimed, or isolated no more. Who makes a huge frame free, or claims it (*close*,
//!    *join*, *claim*), looks at the counter between a look at the state word and the swap of that word. Whoever begins or
//!    ends an isolation changes the counter first, and the state word after it, always. So the swap comes before that
//!    change of the state word, which the isolator sees: it splits what is not split; or the swap fails; or the look at
//!    the counter has seen what was changed there.
//! 6. A claim takes all credits at once, by one swap of the counter that leaves its *mark* there, *c* and a number: so of
//!    several claims, and of calls that end the isolation, one has them. Until the mark goes, nobody isolates the huge
//!    frame, or ends its isolation. Then the claim changes the state, if its mark is still there; the mark goes last.
//!    Whoever finds a mark and then a state that is not split lets that mark go, and no other: who claimed may have died.
//!    While a mark is there, only its claim changes the state, so its claim has. A claim whose mark is gone before it has
//!    changed the state, by a call for what is not its caller's, fails, and gives its credits to whoever has isolated the
//!    huge frame by then, or closes it.
//!
//! Numbers are counted in the zone, modulo 2^16. A call that is delayed between its look at a mark and its swap takes the
//! mark of a later claim only if one of the two calls was overtaken by 2^16 claims meanwhile. The later claim then fails,
//! and nothing is lost.
//!
//! *Ordering*: the isolator's change of the state word releases what it did to the counter; whoever closes or joins
//! has acquired the state word that it swaps.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{Geometry, Persistence};

use super::{Credits, Given, Lower, Surplus};
use crate::record::{Intent, Operation};
use crate::state::{Phase, States};

/// The bit of a counter that says: isolated.
const ISOLATED: usize = 1 << 31;

/// The bit that says, beside it: a claim is under way.
const CLAIMED: usize = 1 << 30;

/// Where the number of that claim begins.
const NUMBER: u32 = 14;

/// The most credits; also the bits that they are in.
const CREDITS: usize = (1 << NUMBER) - 1;

/// Does a value of a counter say so?
#[inline(always)]
pub(super) const fn is_isolated(counter: usize) -> bool {
    counter & ISOLATED != 0
}

/// Is a claim under way?
const fn is_claimed(counter: usize) -> bool {
    counter & CLAIMED != 0
}

/// What is in a counter, isolated or not.
const fn credits(counter: usize) -> usize {
    counter & CREDITS
}

/// A claim: its number in the zone, in the place where counters have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark(usize);

impl Mark {
    /// The mark of the claim of this number, of which the lower 16 bits are kept.
    pub(crate) const fn of(number: u64) -> Mark {
        Mark(ISOLATED | CLAIMED | (number as usize) << NUMBER & (CLAIMED - 1))
    }

    /// The mark in a counter.
    const fn in_counter(counter: usize) -> Option<Mark> {
        if is_claimed(counter) { Some(Mark(counter & !CREDITS)) } else { None }
    }

    /// Is it in a counter?
    const fn is_in(self, counter: usize) -> bool {
        counter & !CREDITS == self.0
    }
}

/// Where credits went.
pub(crate) enum To {
    /// To a counter as all are.
    Counter(Given),
    /// To that of an isolated huge frame; so many had room.
    Isolated(usize),
}

/// Why a huge frame was not closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Open {
    /// It is isolated, and was to be closed; or the mark of the claim is gone, and it was to be claimed.
    ByItsCounter,
    /// It is not split, after a mistake of some caller.
    NotSplit,
}

impl<G: Geometry, P: Persistence> Lower<'_, G, P> {
    /// What is in a counter.
    #[inline(always)]
    pub(super) fn counter(&self, huge: usize) -> usize {
        self.children.get(huge).map_or(0, |child| child.load(Ordering::Acquire) as usize)
    }

    /// Is a huge frame isolated?
    #[inline(always)]
    pub(crate) fn is_isolated(&self, huge: usize) -> bool {
        is_isolated(self.counter(huge))
    }

    /// The credits of a huge frame that is isolated, and that nobody is claiming.
    pub(crate) fn isolated_credits(&self, huge: usize) -> Option<usize> {
        let counter = self.counter(huge);
        (is_isolated(counter) && !is_claimed(counter)).then_some(credits(counter))
    }

    /// Isolates a huge frame, so far as its credits go: those that its counter had. `None`: it is isolated already.
    pub(crate) fn isolate_credits(&self, huge: usize) -> Option<usize> {
        let isolate = |counter| (!is_isolated(counter)).then_some(counter | ISOLATED);
        self.count(huge, Ordering::AcqRel, isolate).map(|counter| counter.before)
    }

    /// Makes a huge frame split of which the credits are isolated, whatever it was; returns its states before. The
    /// caller has all of its credits then, if it was free. `Err`: it is offline.
    pub(crate) fn isolate_state(&self, huge: usize) -> Result<States, States> {
        let one = Self::run(huge, 1);
        let split = |states: States| match states.phase(one) {
            Phase::Split => Some(states.renumbered()),
            Phase::Free => Some(states.with(one, Phase::Split).renumbered()),
            Phase::Whole => Some(states.with(one, Phase::Split).turned(one).renumbered()),
            Phase::Offline => None,
        };
        // Others may write to what is freed in parts. Before the split, for a process may die behind it; and after it,
        // for an owner may just have said that its huge frame is zeroed.
        self.taken_of(huge, one);
        let before = self.update(huge, Ordering::AcqRel, split)?;
        self.taken_of(huge, one);
        self.persist_states(huge);
        Ok(before)
    }

    /// Ends the isolation of a huge frame; says of the credits that were in its counter what [`give`](Self::give) does,
    /// and how many they were. `None`: it is not isolated.
    pub(crate) fn unisolate(&self, huge: usize) -> Option<(Given, usize)> {
        let end = |counter| {
            let left = if credits(counter) < G::HUGE_FRAMES { credits(counter) } else { 0 };
            (is_isolated(counter) && !is_claimed(counter)).then_some(left)
        };
        let counter = self.count(huge, Ordering::AcqRel, end)?;
        // Who closes or joins may have looked at the counter before.
        let _ = self.update(huge, Ordering::AcqRel, |states| Some(states.renumbered()));
        let (had, after) = (credits(counter.before), counter.after);
        Some((Given { credits: Credits { before: 0, after }, all: had > after }, had))
    }

    /// Begins a claim: takes every credit of an isolated huge frame, if all are in its counter.
    pub(crate) fn begin_claim(&self, huge: usize, mark: Mark) -> bool {
        let begin = |counter| (counter == ISOLATED | G::HUGE_FRAMES).then_some(mark.0);
        self.count(huge, Ordering::AcqRel, begin).is_some()
    }

    /// Withdraws a claim: the huge frame is isolated as before, with all of its credits in its counter. False: its mark is
    /// gone, and the caller has the credits.
    pub(crate) fn withdraw_claim(&self, huge: usize, mark: Mark) -> bool {
        let back = |counter| mark.is_in(counter).then_some(ISOLATED | G::HUGE_FRAMES);
        self.count(huge, Ordering::AcqRel, back).is_some()
    }

    /// Ends a claim that has changed the state, and with it the isolation; also that of a caller who died in between.
    pub(crate) fn end_claim(&self, huge: usize) {
        let Some(mark) = Mark::in_counter(self.counter(huge)) else { return };
        if self.phase(huge) != Phase::Split {
            let end = |counter| mark.is_in(counter).then_some(0);
            let _ = self.count(huge, Ordering::AcqRel, end);
        }
    }

    /// Ends a claim of a split huge frame whose caller died, where no other call is under way. The huge frame is isolated as
    /// before, with the credits that came since, or with those that the claim had.
    pub(crate) fn end_dead_claim(&self, huge: usize) {
        let had = if self.count_free(huge) == G::HUGE_FRAMES { G::HUGE_FRAMES } else { 0 };
        let end = |counter| is_claimed(counter).then_some(ISOLATED | credits(counter).max(had));
        let _ = self.count(huge, Ordering::AcqRel, end);
    }

    /// Takes `count` credits of an isolated huge frame, for a mistake that is to be made good.
    pub(crate) fn take_isolated_back(&self, huge: usize, count: usize) -> bool {
        let back = |counter| {
            credits(counter).checked_sub(count).filter(|_| is_isolated(counter))?;
            Some(counter - count)
        };
        self.count(huge, Ordering::AcqRel, back).is_some()
    }

    /// Gives credits to the counter of a huge frame, isolated or not. `None`: it has no room for them.
    pub(crate) fn give_either(&self, huge: usize, count: usize, surplus: Surplus) -> Option<To> {
        loop {
            if let Some(more) = self.add_isolated(huge, count, surplus) {
                return Some(To::Isolated(more));
            }
            if let Some(given) = self.give(huge, count, surplus) {
                return Some(To::Counter(given));
            }
            // There was no room, or others have isolated it in between.
            if credits(self.counter(huge)) + count > G::HUGE_FRAMES {
                return None;
            }
        }
    }

    /// Gives credits to the counter of a huge frame that is isolated; returns for how many there was room.
    pub(crate) fn give_if_isolated(&self, huge: usize, count: usize) -> Option<usize> {
        self.add_isolated(huge, count, Surplus::Drop)
    }

    fn add_isolated(&self, huge: usize, count: usize, surplus: Surplus) -> Option<usize> {
        let add = |counter| {
            let (sum, all) = (credits(counter) + count, G::HUGE_FRAMES);
            let fits = sum <= all || surplus == Surplus::Drop;
            (is_isolated(counter) && fits).then_some(counter - credits(counter) + sum.min(all))
        };
        let counter = self.count(huge, Ordering::AcqRel, add)?;
        Some(counter.after - counter.before)
    }

    /// Makes a huge frame, of which the caller has all the credits, free as a whole. Unless it is isolated. A crash may
    /// undo that: its bits say the same.
    pub(crate) fn close(&self, huge: usize) -> Result<States, Open> {
        self.close_as(huge, Phase::Free, |counter| !is_isolated(counter), Intent::none())
    }

    /// Makes a huge frame what `to` says of which the caller has [begun](Self::begin_claim) a claim. It then has no
    /// credits, and is isolated until the claim [ends](Self::end_claim).
    pub(crate) fn claim(
        &self,
        huge: usize,
        mark: Mark,
        to: Phase,
        intent: Intent<'_, G, P>,
    ) -> Result<States, Open> {
        let before = self.close_as(huge, to, |counter| mark.is_in(counter), intent)?;
        self.persist_states(huge);
        Ok(before)
    }

    fn close_as(
        &self,
        huge: usize,
        to: Phase,
        may: impl Fn(usize) -> bool,
        intent: Intent<'_, G, P>,
    ) -> Result<States, Open> {
        let word = self.state_word(huge).ok_or(Open::NotSplit)?;
        let mut states = States(word.load(Ordering::Acquire));
        loop {
            let closed = states.change(Self::run(huge, 1), Phase::Split, to);
            let closed = closed.ok_or(Open::NotSplit)?;
            if !may(self.counter(huge)) {
                return Err(Open::ByItsCounter);
            }
            if to == Phase::Whole {
                intent.write(Operation::Alloc, G::HUGE_ORDER, huge << G::HUGE_ORDER);
            }
            match word.compare_exchange(states.0, closed.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(states),
                Err(now) => {
                    intent.withdraw();
                    states = States(now);
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_above_all_credits() {
        assert!(is_isolated(ISOLATED) && is_isolated(ISOLATED | 4096) && !is_isolated(4096));
        assert!(is_claimed(ISOLATED | CLAIMED) && !is_claimed(ISOLATED | 4096));
        let counters = [ISOLATED, ISOLATED | 511, 4096, Mark::of(!0).0 | 3];
        assert_eq!(counters.map(credits), [0, 511, 4096, 3]);
    }

    #[test]
    fn marks_differ_by_their_numbers() {
        let (one, other) = (Mark::of(7), Mark::of(8));
        assert_eq!((one, other.0 & ISOLATED), (Mark::of(7 + (1 << 16)), ISOLATED));
        assert!(one.is_in(one.0 | 3) && !one.is_in(other.0) && !one.is_in(ISOLATED));
        assert_eq!(Mark::in_counter(one.0 | 3), Some(one));
        assert_eq!(Mark::in_counter(ISOLATED | 3), None);
        assert_eq!(Mark::of(!0).0, 0xffff_c000);
    }
}
