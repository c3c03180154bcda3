//! The state word: the states of sixteen huge frames (LLFree section 3.2.1, child entries).
//!
//! ```text
//!   64 bits in four lanes of 16; bit i of the lower three is for huge frame i
//!   ┌──────────┬────────────────┬──────────────┬──────────────┐
//!   │ joins    │ p, polarity    │ b            │ a            │
//!   └──────────┴────────────────┴──────────────┴──────────────┘
//!     b a
//!     0 0  split      its base frames are allocated one by one: the bit field says which
//!     0 1  free       as a whole
//!     1 0  whole      allocated as a whole
//!     1 1  offline    taken out
//! ```
//!
//! * `joins`: one number for all sixteen huge frames. The number is odd while a join (below) may be looking
//!   at bits. It changes when a first join begins, and whenever a free makes joins look again, or an
//!   [isolation](crate::lower) all who look. A recovery forgets it.
//!
//! Any value is legal. Every writer changes the whole word by one read-modify-write. So order H+1, which is
//! two neighbours, is one write as well (the paper's 32-bit swap over two 16-bit entries, section 4.2.1).
//! The states are durable, together with the bit fields. The credits of split huge frames are not durable,
//! and have words of their own ([`lower`](crate::lower)). So one write allocates or frees a huge frame, and
//! arithmetic on two words finds a free huge frame, or a pair, in a whole tree.
//!
//! # Why a polarity
//!
//! While a huge frame is not split, its bits all have the *free* value. To free a part of a whole huge
//! frame, all bits must first mean *allocated*. Writing 512 bits is not atomic, but turning `p` is. The
//! swap `(whole, p) → (split, !p)` (*split*) gives all bits the other meaning at once. Nobody waits, and a
//! crash leaves the state before or the state after. The reverse frees a huge frame whose base frames were
//! allocated one by one: once every bit is seen to be allocated, the swap `(split, p) → (free, !p)`
//! (*join*) frees them all.
//!
//! Invariants, numbered for the rest:
//!
//! 1. The credits of a huge frame are in its counter, in reservations and in flight. They are 0 unless the
//!    huge frame is split. They are then as many as its free bits, whenever no multi-row claim is half
//!    done.
//! 2. A caller that holds a credit may use the `p` that it loads after it got the credit. For a huge frame
//!    stops being split only by a caller that holds all of its credits (*close*) or owns all of its frames
//!    (*join*).
//! 3. A caller that owns a frame may use the `p` that it loads, until it gives the frame's bit back.

/// The meaning of the bits of one huge frame: which value a free frame's bit has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Polarity(pub(crate) bool);

impl Polarity {
    /// A row in which every frame is free.
    pub(crate) const fn all_free(self) -> u64 {
        if self.0 { !0 } else { 0 }
    }

    /// The set of free frames in a row.
    pub(crate) const fn free_in(self, row: u64) -> u64 {
        row ^ !self.all_free()
    }
}

/// What a huge frame is used as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Split = 0,
    Free = 1,
    Whole = 2,
    Offline = 3,
}

/// Some of the sixteen huge frames of a word, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run(u64);

/// Huge frames for which a word stands.
pub(crate) const LANE: usize = 16;

const ALL: u64 = (1 << LANE) - 1;

/// Every huge frame of a word.
pub(crate) const EVERY: Run = Run(ALL);
const B: u32 = LANE as u32;
const P: u32 = 2 * LANE as u32;
/// One in the number of joins.
const JOIN: u64 = 1 << (3 * LANE);

impl Run {
    /// `count` huge frames from huge frame `first` of their tree on.
    #[inline(always)]
    pub(crate) const fn new(first: usize, count: usize) -> Run {
        Run(((1 << count) - 1) << (first % LANE))
    }

    /// Those of sixteen huge frames whose bit is set in the lowest lane of `bits`.
    pub(crate) const fn of(bits: u64) -> Run {
        Run(bits & ALL)
    }

    /// A bit for each member, in the lowest lane.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// How many members it has.
    pub(crate) const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in either.
    pub(crate) const fn or(self, other: Run) -> Run {
        Run(self.0 | other.0)
    }

    /// Those that are not in `other`.
    pub(crate) const fn but(self, other: Run) -> Run {
        Run(self.0 & !other.0)
    }

    /// The numbers of the members, the lowest first.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..LANE).filter(move |bit| self.0 >> bit & 1 != 0)
    }

    /// What the lanes a and b say of the run in a phase.
    #[inline(always)]
    const fn lanes(self, phase: Phase) -> u64 {
        match phase {
            Phase::Split => 0,
            Phase::Free => self.0,
            Phase::Whole => self.0 << B,
            Phase::Offline => self.0 | self.0 << B,
        }
    }

    /// The members of the run.
    pub(crate) fn each(self) -> impl Iterator<Item = Run> {
        (0..LANE).map(move |bit| Run(self.0 & 1 << bit)).filter(|one| one.0 != 0)
    }
}

/// One state word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct States(pub(crate) u64);

impl States {
    /// Every one of the run, when all are alike.
    #[inline(always)]
    pub(crate) const fn is(self, run: Run, phase: Phase) -> bool {
        self.0 & (run.0 | run.0 << B) == run.lanes(phase)
    }

    /// What one huge frame is.
    pub(crate) const fn phase(self, one: Run) -> Phase {
        match (self.0 & one.0 != 0, self.0 & one.0 << B != 0) {
            (false, false) => Phase::Split,
            (true, false) => Phase::Free,
            (false, true) => Phase::Whole,
            (true, true) => Phase::Offline,
        }
    }

    /// Of one huge frame.
    #[inline(always)]
    pub(crate) const fn polarity(self, one: Run) -> Polarity {
        Polarity(self.0 & one.0 << P != 0)
    }

    /// Is one huge frame split, with bits that mean this?
    #[inline(always)]
    pub(crate) const fn is_split(self, one: Run, polarity: Polarity) -> bool {
        self.is(one, Phase::Split) && self.polarity(one).0 == polarity.0
    }

    /// With the run in another phase.
    #[inline(always)]
    pub(crate) const fn with(self, run: Run, phase: Phase) -> States {
        States(self.0 & !(run.0 | run.0 << B) | run.lanes(phase))
    }

    /// With nothing but the first `count` huge frames, at most sixteen, and no joins; the others are
    /// split.
    pub(crate) const fn first(self, count: usize) -> States {
        let lane = (1 << count) - 1;
        States(self.0 & (lane | lane << B | lane << P))
    }

    /// Without the number of joins.
    pub(crate) const fn without_joins(self) -> States {
        States(self.0 & !(ALL << (3 * LANE)))
    }

    /// With the bits of the run meaning the opposite.
    pub(crate) const fn turned(self, run: Run) -> States {
        States(self.0 ^ run.0 << P)
    }

    /// With the run in phase `to`, if every one of it is in phase `from`.
    #[inline(always)]
    pub(crate) const fn change(self, run: Run, from: Phase, to: Phase) -> Option<States> {
        if self.is(run, from) { Some(self.turn(run, from, to)) } else { None }
    }

    /// With the run in phase `to`, every one of which is in phase `from`.
    #[inline(always)]
    pub(crate) const fn turn(self, run: Run, from: Phase, to: Phase) -> States {
        States(self.0 ^ run.lanes(from) ^ run.lanes(to))
    }

    /// May a join be looking at bits?
    #[inline(always)]
    pub(crate) const fn is_joining(self) -> bool {
        self.0 & JOIN != 0
    }

    /// With a join announced, if none is.
    pub(crate) const fn joining(self) -> States {
        if self.is_joining() { self } else { States(self.0.wrapping_add(JOIN)) }
    }

    /// With every join that was announced made to look again.
    pub(crate) const fn not_joining(self) -> States {
        if self.is_joining() { States(self.0.wrapping_add(JOIN)) } else { self }
    }

    /// With another number of joins, and every join that was announced made to look again: who has seen the word
    /// before does not swap it.
    pub(crate) const fn renumbered(self) -> States {
        let step = if self.is_joining() { JOIN } else { 2 * JOIN };
        States(self.0.wrapping_add(step))
    }

    /// With the run and the joins as in `to`, if they are as in `from`.
    pub(crate) const fn of(self, run: Run, from: States, to: States) -> Option<States> {
        let lanes = run.0 | run.0 << B | run.0 << P | ALL << (3 * LANE);
        let same = (self.0 ^ from.0) & lanes == 0;
        if same { Some(States(self.0 & !lanes | to.0 & lanes)) } else { None }
    }

    /// How many huge frames are free as a whole.
    #[inline(always)]
    pub(crate) const fn count_free(self) -> usize {
        self.free().count_ones() as usize
    }

    /// How many huge frames are offline.
    pub(crate) const fn count_offline(self) -> usize {
        (self.0 & self.0 >> B & ALL).count_ones() as usize
    }

    /// The first `count` huge frames, side by side and aligned, that are free: 1 or 2.
    #[inline(always)]
    pub(crate) const fn first_free(self, count: usize) -> Option<usize> {
        self.first_free_of(EVERY, count)
    }

    /// The same of those in `run`.
    #[inline(always)]
    pub(crate) const fn first_free_of(self, run: Run, count: usize) -> Option<usize> {
        let free = self.free() & run.0;
        let starts = if count == 1 { free } else { free & free >> 1 & 0x5555 };
        if starts == 0 { None } else { Some(starts.trailing_zeros() as usize) }
    }

    /// Those of `run` that are free, the first `most` of them.
    pub(crate) fn free_of(self, run: Run, most: usize) -> Run {
        let mut free = self.free() & run.0;
        let mut beyond = free;
        for _ in 0..most.min(LANE) {
            beyond &= beyond.wrapping_sub(1);
        }
        free ^= beyond;
        Run(free)
    }

    #[inline(always)]
    const fn free(self) -> u64 {
        self.0 & !(self.0 >> B) & ALL
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_two_bits_and_touches_no_other() {
        let phases = [Phase::Split, Phase::Free, Phase::Whole, Phase::Offline];
        for (from, to) in phases.into_iter().flat_map(|from| phases.map(|to| (from, to))) {
            for background in phases {
                let (one, other) = (Run::new(37, 1), Run::new(38, 1));
                let word = States(0).with(Run::new(0, 16), background).turned(other);
                let before = word.with(one, from);
                assert_eq!((before.phase(one), before.phase(other)), (from, background));
                let after = before.change(one, from, to).unwrap();
                assert_eq!((after.phase(one), after.phase(other)), (to, background));
                assert_eq!(after, word.with(one, to));
                assert!(phases.into_iter().all(|phase| after.is(one, phase) == (phase == to)));
                assert_eq!(after.change(one, from, to).is_some(), from == to);
                assert_eq!(after.polarity(other), Polarity(true));
            }
        }
    }

    #[test]
    fn a_pair_changes_as_a_whole_or_not() {
        let pair = Run::new(6, 2);
        let both = States(0).with(pair, Phase::Free);
        assert_eq!(
            (both.count_free(), both.first_free(2), both.first_free(1)),
            (2, Some(6), Some(6))
        );
        assert_eq!(both.change(pair, Phase::Free, Phase::Whole).unwrap().count_free(), 0);
        let half = both.with(Run::new(6, 1), Phase::Offline);
        assert_eq!(half.change(pair, Phase::Free, Phase::Whole), None);
        assert_eq!((half.first_free(2), half.first_free(1)), (None, Some(7)));
        let apart = States(0).with(Run::new(7, 2), Phase::Free);
        assert_eq!((apart.first_free(2), apart.count_free()), (None, 2), "7 and 8 are no pair");
        assert_eq!(Run::new(7, 2).each().count(), 2);
    }

    #[test]
    fn joins_are_announced_once_and_made_to_look_again() {
        let word = States(0).with(Run::new(0, 16), Phase::Whole).turned(Run::new(3, 1));
        let (joining, stopped) = (word.joining(), word.joining().not_joining());
        let announced = [word, joining, stopped, stopped.joining()].map(States::is_joining);
        assert_eq!(announced, [false, true, false, true]);
        assert_eq!((joining.joining(), stopped.not_joining()), (joining, stopped));
        assert_ne!(stopped, word, "who looked meanwhile sees that it was stopped");
        let renumbered = [word, joining].map(States::renumbered);
        assert_eq!(renumbered.map(States::is_joining), [false, false]);
        assert!(!renumbered.contains(&word) && !renumbered.contains(&joining));
        assert_eq!(renumbered.map(States::without_joins), [word.without_joins(); 2]);
        for number in 0..16 {
            let one = Run::new(number, 1);
            let seen =
                [word, joining, stopped].map(|states| (states.phase(one), states.polarity(one)));
            assert_eq!(seen, [(Phase::Whole, Polarity(number == 3)); 3]);
        }
    }

    #[test]
    fn a_run_changes_if_it_and_the_joins_are_as_they_were() {
        let (run, beside) = (Run::new(5, 2), Run::new(7, 1));
        let from = States(0).with(run, Phase::Whole).joining();
        let to = from.with(run, Phase::Free).turned(run).not_joining();
        assert_eq!(from.of(run, from, to), Some(to));
        for other in [from.with(beside, Phase::Offline), from.turned(beside)] {
            let States(changed) = other;
            assert_eq!(other.of(run, from, to), Some(States(to.0 ^ from.0 ^ changed)));
        }
        for member in run.each() {
            assert_eq!(from.with(member, Phase::Split).of(run, from, to), None);
            assert_eq!(from.with(member, Phase::Offline).of(run, from, to), None);
            assert_eq!(from.turned(member).of(run, from, to), None);
        }
        assert_eq!(from.not_joining().of(run, from, to), None);
    }

    #[test]
    fn the_polarity_turns_the_meaning_of_every_bit() {
        let one = Run::new(3, 1);
        let turned = States(0).turned(one);
        assert_eq!(turned.polarity(one).free_in(States(0).polarity(one).all_free()), 0);
        assert_eq!(turned.turned(one), States(0));
    }
}
