//! The lower level: allocates frames (LLFree section 3.2.1).
//!
//! ```text
//!   states     a line for each tree                        what each huge frame is     durable
//!   flags      in the same line                            what its memory is          durable
//!   rows       8 rows  │ 8 rows  │ 8 rows  │ …             its base frames             durable
//!   children   credits │ credits │ credits │ …             of split huge frames        volatile
//! ```
//!
//! One swap of a state word allocates or frees a huge frame. An allocation of base frames has two steps: it
//! takes credits from the child's counter, and then claims free bits. The free releases the bits first, and
//! gives the credits back after. When all credits of a huge frame have come back to its counter, the call
//! that brought the last ones takes them all and *closes* the huge frame: it is then free as a whole. To
//! *open* a huge frame is the reverse: one caller gets all of its credits.
//!
//! Huge frames are named by their index in the zone's metadata, not by their number.
//!
//! *Progress*: lock-free; a swap fails only because another one succeeded.
//! *Ordering*: taking a credit acquires what the giver published, and giving one releases. The allocation
//! of a huge frame acquires, and its free releases. A call that makes a huge frame free acquires as well:
//! it ends what many frees began, and must see whether the tree is in the index. Splits may be relaxed: the
//! caller owns the frames before and after, so no frame changes hands.
//! *Crash*: the states and the bits of split huge frames are the truth; a recovery computes credits anew.
//! Each operation up to order 6, of order H and of order H+1 changes that truth by a single write. Opening
//! and closing do not change it.
//! With a [`Persistence`] that writes back, each such write is persistent before the call returns, and before
//! anybody gets what rests on it: the opening before its credits, a release before its credit. The close is not
//! written back. A later write to the same word takes it along, and the rows that it follows are persistent.

mod flags;
mod isolation;
mod start;

pub(crate) use isolation::{Mark, Open, To};
pub(crate) use start::Start;

use isolation::is_isolated;

use core::marker::PhantomData;
use core::slice;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{FlagsWord, Geometry, HugeFlags, Persistence, Prefer};

use crate::flags::Flags;
use crate::line::Line;
use crate::record::{Intent, Operation};
use crate::row::{ROW_ORDER, row_count, row_mask, row_order};
use crate::rows::{Rows, claiming};
use crate::state::{EVERY, LANE, Phase, Polarity, Run, States};

/// The words of a tree, which has up to 32 huge frames: two of states, and two of flags.
pub type TreeStates = Line<[AtomicU64; 4]>;

/// The words of a zone by which frames are owned.
pub(crate) struct Lower<'a, G, P> {
    rows: &'a [AtomicU64],
    states: &'a [TreeStates],
    children: &'a [AtomicU32],
    persistence: P,
    geometry: PhantomData<G>,
}

/// Why the lower level freed nothing, or not what was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Some frame is not allocated. The number is how many frames were set free all the same: their credits
    /// are to be given back. It is zero unless two frees of the same frames raced with an allocation, which
    /// is the callers' mistake.
    NotAllocated(usize),
    /// The huge frame is offline.
    Offline,
}

/// How a counter changed: as many credits as it had, and as many as it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credits {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

/// What is done with credits for which a counter has no room. Only a free of frames that its caller does
/// not own can bring such credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Surplus {
    /// The free is refused.
    Refuse,
    /// They are dropped: nobody can undo what they come from.
    Drop,
}

impl Surplus {
    /// Are credits dropped that a counter has no room for? Not what only looks so, because it is isolated.
    const fn is_dropped_from(self, counter: usize) -> bool {
        matches!(self, Surplus::Drop) && !is_isolated(counter)
    }
}

impl<'a, G: Geometry, P: Persistence> Lower<'a, G, P> {
    pub(crate) fn new(
        rows: &'a [AtomicU64],
        states: &'a [TreeStates],
        children: &'a [AtomicU32],
        persistence: P,
    ) -> Self {
        debug_assert!(rows.len() >= children.len() * row_count::<G>());
        debug_assert!(states.len() * G::TREE_HUGE >= children.len());
        Self { rows, states, children, persistence, geometry: PhantomData }
    }

    /// The states past the end: nothing can be taken, freed or split.
    const NOTHING: States = States(0).with(Run::new(0, LANE), Phase::Offline);

    /// How many huge frames the words stand for.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// The bit field of a huge frame, read with `polarity`.
    #[inline(always)]
    pub(crate) fn rows(&self, huge: usize, polarity: Polarity) -> Rows<'a, G, P> {
        let first = huge * row_count::<G>();
        let rows = self.rows.get(first..first + row_count::<G>());
        Rows::new(rows.unwrap_or_default(), polarity, self.persistence)
    }

    /// The rows in which the block of `order` at frame `index` of the zone lies, and the offset of the frame
    /// in them: one row, or those of its huge frame.
    #[inline(always)]
    pub(crate) fn rows_of(
        &self,
        index: usize,
        order: u32,
        polarity: Polarity,
    ) -> (usize, Rows<'a, G, P>) {
        if order > ROW_ORDER {
            let offset = index & (G::HUGE_FRAMES - 1);
            return (offset, self.rows(index >> G::HUGE_ORDER, polarity));
        }
        let one = self.rows.get(index >> row_order::<G>()).map(slice::from_ref);
        let offset = index & ((1 << row_order::<G>()) - 1);
        (offset, Rows::new(one.unwrap_or_default(), polarity, self.persistence))
    }

    /// Huge frames side by side, in their state word.
    #[inline(always)]
    pub(crate) const fn run(huge: usize, count: usize) -> Run {
        Run::new(huge % G::TREE_HUGE, count)
    }

    /// The state words of a tree.
    #[inline(always)]
    fn state_words(&self, tree: usize) -> &'a [AtomicU64] {
        let words = self.states.get(tree).map_or(&[][..], |line| line.0.as_slice());
        words.get(..Self::WORDS).unwrap_or_default()
    }

    /// The word that a huge frame's state is in.
    #[inline(always)]
    fn state_word(&self, huge: usize) -> Option<&'a AtomicU64> {
        let within = huge % G::TREE_HUGE / LANE;
        self.states.get(huge / G::TREE_HUGE)?.0.get(within)
    }

    #[inline(always)]
    fn states(&self, huge: usize) -> States {
        match self.state_word(huge) {
            Some(word) => States(word.load(Ordering::Acquire)),
            None => Self::NOTHING,
        }
    }

    /// What a huge frame is.
    pub(crate) fn phase(&self, huge: usize) -> Phase {
        self.states(huge).phase(Self::run(huge, 1))
    }

    /// Was a huge frame in this phase, by a state word that was seen?
    pub(crate) fn was(&self, states: States, huge: usize, phase: Phase) -> bool {
        states.phase(Self::run(huge, 1)) == phase
    }

    /// The polarity of a huge frame of which the caller holds credits or owns frames.
    #[inline(always)]
    pub(crate) fn polarity(&self, huge: usize) -> Polarity {
        self.states(huge).polarity(Self::run(huge, 1))
    }

    /// The same by a state word that was seen; opening a huge frame keeps it.
    #[inline(always)]
    pub(crate) fn polarity_in(&self, states: States, huge: usize) -> Polarity {
        states.polarity(Self::run(huge, 1))
    }

    /// Changes the state word of `huge` as `change` says, unless that says `None`; returns the
    /// word before, or the one that was refused.
    #[inline(always)]
    fn update(
        &self,
        huge: usize,
        success: Ordering,
        change: impl Fn(States) -> Option<States>,
    ) -> Result<States, States> {
        self.update_or(huge, success, change, || {})
    }

    /// The same; `lost` is told whenever another call's change comes between.
    #[inline(always)]
    fn update_or(
        &self,
        huge: usize,
        success: Ordering,
        change: impl Fn(States) -> Option<States>,
        lost: impl Fn(),
    ) -> Result<States, States> {
        let word = self.state_word(huge).ok_or(Self::NOTHING)?;
        let mut states = States(word.load(Ordering::Relaxed));
        loop {
            let Some(next) = change(states) else {
                return Err(states);
            };
            match word.compare_exchange(states.0, next.0, success, Ordering::Relaxed) {
                Ok(_) => return Ok(states),
                Err(now) => {
                    lost();
                    states = States(now);
                }
            }
        }
    }

    /// Makes a state word persistent, and what was written back before.
    #[inline(always)]
    fn persist(&self, word: &AtomicU64) {
        self.persistence.write_back(word);
        self.persistence.fence();
    }

    /// Makes the state of a huge frame persistent, and the bits that were written back. A free of a part of a
    /// huge frame does so even if another call has split it: that call's write may not be persistent yet.
    #[inline(always)]
    pub(crate) fn persist_states(&self, huge: usize) {
        self.state_word(huge).into_iter().for_each(|word| self.persist(word));
    }

    /// Makes the bits persistent that the caller has released in a huge frame of which it saw credits. There are
    /// credits only of a huge frame whose split or opening is persistent.
    #[inline(always)]
    pub(crate) fn persist_released(&self) {
        self.persistence.fence();
    }

    /// What makes a write persistent.
    #[inline(always)]
    pub(crate) fn persistence(&self) -> P {
        self.persistence
    }

    /// Makes all states and rows persistent.
    pub(crate) fn persist_all(&self) {
        self.persistence.write_back_all(self.rows);
        self.states.iter().for_each(|line| self.persistence.write_back_all(&line.0));
        self.persistence.fence();
    }

    /// How many huge frames of a tree are offline.
    pub(crate) fn count_offline(&self, tree: usize) -> usize {
        let offline = |word: &AtomicU64| States(word.load(Ordering::Acquire)).count_offline();
        self.state_words(tree).iter().map(offline).sum()
    }

    /// Those of a run in the word of `huge` that are in this phase.
    pub(crate) fn those_in(&self, huge: usize, run: Run, phase: Phase) -> Run {
        let states = self.states(huge);
        run.each().filter(|&one| states.is(one, phase)).fold(Run::of(0), Run::or)
    }

    /// How many huge frames of a tree are free as a whole.
    #[inline(always)]
    pub(crate) fn count_whole(&self, tree: usize) -> usize {
        let free = |word: &AtomicU64| States(word.load(Ordering::Acquire)).count_free();
        self.state_words(tree).iter().map(free).sum()
    }

    /// As [`count_whole`](Self::count_whole), by a read-modify-write. If another call changes the states at the
    /// same time, this access is ordered before or after that change, and publishes what its caller did
    /// before. So at least one of the two calls sees what the other did. A plain load would not promise that.
    pub(crate) fn count_whole_in_order(&self, tree: usize) -> usize {
        let free = |word: &AtomicU64| States(word.fetch_or(0, Ordering::AcqRel)).count_free();
        self.state_words(tree).iter().map(free).sum()
    }

    /// How many huge frames of a tree were free and are free now. The state word of huge frame `huge` was
    /// `before`, and `gained` more of its huge frames are free now. If none was free in the word before, the
    /// tree counts as having had none: of two words that gain their first at the same time, each is told of
    /// as the first.
    pub(crate) fn count_changed(&self, huge: usize, before: States, gained: isize) -> [usize; 2] {
        let others = self.state_words(huge / G::TREE_HUGE).iter().enumerate();
        let others = others.filter(|&(at, _)| at != huge % G::TREE_HUGE / LANE);
        let free = |word: &AtomicU64| States(word.load(Ordering::Relaxed)).count_free();
        let others: usize = others.map(|(_, word)| free(word)).sum();
        let here = before.count_free();
        let before = if here > 0 { here + others } else { 0 };
        [before, (here + others).wrapping_add_signed(gained)]
    }

    /// Allocates `count` huge frames of a tree, one or an aligned pair: the first that are free.
    /// Returns which, and their states before.
    #[inline(always)]
    pub(crate) fn allocate_first(
        &self,
        tree: usize,
        count: usize,
        intent: Intent<'_, G, P>,
    ) -> Option<(usize, States)> {
        let (huge, before, _) = self.take_first(tree, count, Phase::Whole, |_| EVERY, intent)?;
        Some((huge, before))
    }

    /// The same of those that are preferred, if anything is. Returns their flags as well.
    pub(crate) fn allocate_preferred(
        &self,
        tree: usize,
        count: usize,
        prefer: Option<Prefer>,
        intent: Intent<'_, G, P>,
    ) -> Option<(usize, States, HugeFlags)> {
        let preferred = |flags: &AtomicU64| {
            let flags: Flags = FlagsWord(flags.load(Ordering::Acquire));
            prefer.map_or(EVERY, |prefer| Run::of(flags.preferred(prefer)))
        };
        let (huge, before, flags) =
            self.take_first(tree, count, Phase::Whole, preferred, intent)?;
        Some((huge, before, flags.of(Self::run(huge, count).bits())))
    }

    /// Opens a huge frame of a tree that is free as a whole: all of its credits are the caller's.
    pub(crate) fn open_first(&self, tree: usize) -> Option<(usize, States)> {
        let (huge, before, _) =
            self.take_first(tree, 1, Phase::Split, |_| EVERY, Intent::none())?;
        Some((huge, before))
    }

    /// Takes the first free huge frames of a tree that are of those which `may` says by the flags.
    #[inline(always)]
    fn take_first(
        &self,
        tree: usize,
        count: usize,
        to: Phase,
        may: impl Fn(&AtomicU64) -> Run,
        intent: Intent<'_, G, P>,
    ) -> Option<(usize, States, Flags)> {
        let first = tree * G::TREE_HUGE;
        let Line([low, high, flags_of_low, flags_of_high]) = self.states.get(tree)?;
        let take =
            |states, flags, huge| self.take_in((states, flags), huge, count, to, &may, intent);
        match take(low, flags_of_low, first) {
            None if Self::WORDS > 1 => take(high, flags_of_high, first + LANE),
            taken => taken,
        }
    }

    /// The same of a state word, of which `huge` is the first.
    #[inline(always)]
    fn take_in(
        &self,
        (word, flags): (&AtomicU64, &AtomicU64),
        huge: usize,
        count: usize,
        to: Phase,
        may: impl Fn(&AtomicU64) -> Run,
        intent: Intent<'_, G, P>,
    ) -> Option<(usize, States, Flags)> {
        let mut states = States(word.load(Ordering::Relaxed));
        while let Some(first) = states.first_free_of(may(flags), count) {
            let run = Run::new(first, count);
            let next = states.turn(run, Phase::Free, to);
            Self::say(intent, huge + first, count, Phase::Free, to);
            match word.compare_exchange(states.0, next.0, claiming::<P>(), Ordering::Relaxed) {
                Ok(_) => {
                    self.persist(word);
                    return Some((huge + first, states, Self::taken(flags, run)));
                }
                Err(now) => {
                    intent.withdraw();
                    states = States(now);
                }
            }
        }
        None
    }

    /// Is a huge frame, or an aligned pair, of the tree free?
    pub(crate) fn has_free(&self, tree: usize, order: u32) -> bool {
        let count = 1 << (order - G::HUGE_ORDER);
        let states = |word: &AtomicU64| States(word.load(Ordering::Acquire));
        self.state_words(tree).iter().any(|word| states(word).first_free(count).is_some())
    }

    /// Changes `count` huge frames, one or the two of a pair, from one phase to another; returns their
    /// states before.
    #[inline(always)]
    pub(crate) fn turn(
        &self,
        huge: usize,
        count: usize,
        from: Phase,
        to: Phase,
        success: Ordering,
        intent: Intent<'_, G, P>,
    ) -> Option<States> {
        self.turn_run(huge, Self::run(huge, count), from, to, success, intent)
    }

    /// The same of any huge frames in the word of `huge`.
    #[inline(always)]
    pub(crate) fn turn_run(
        &self,
        huge: usize,
        run: Run,
        from: Phase,
        to: Phase,
        success: Ordering,
        intent: Intent<'_, G, P>,
    ) -> Option<States> {
        let change = |states: States| {
            let next = states.change(run, from, to)?;
            Self::say(intent, huge, run.count(), from, to);
            Some(next)
        };
        let before = self.update_or(huge, success, change, || intent.withdraw()).ok()?;
        self.persist_states(huge);
        if from == Phase::Free {
            self.taken_of(huge, run);
        }
        Some(before)
    }

    /// Says that huge frames are about to change, if that allocates or frees them for a slot.
    #[inline(always)]
    fn say(intent: Intent<'_, G, P>, huge: usize, count: usize, from: Phase, to: Phase) {
        let operation = match (from, to) {
            (Phase::Free, Phase::Whole) => Operation::Alloc,
            (Phase::Whole, Phase::Free) => Operation::Free,
            _ => return,
        };
        intent.write(operation, G::HUGE_ORDER + count.trailing_zeros(), huge << G::HUGE_ORDER);
    }

    /// Frees `count` huge frames, one or the two of a pair, that were allocated as a whole.
    #[inline(always)]
    pub(crate) fn free_whole(
        &self,
        huge: usize,
        count: usize,
        intent: Intent<'_, G, P>,
    ) -> Option<States> {
        self.turn(huge, count, Phase::Whole, Phase::Free, Ordering::AcqRel, intent)
    }

    /// Frees huge frames some of which were allocated by their base frames (*join*). The join announces
    /// itself before it looks at their bits. Only a wrong call can free a part of the same frames
    /// meanwhile. Such a free looks for the announcement after it has released its bits
    /// ([`still_means`](Self::still_means)). So the join sees those bits, or the free makes the join look
    /// again, or the free is refused.
    ///
    /// Returns the states before, and those that are isolated. They stay split, and the caller has all of their credits.
    #[cold]
    pub(crate) fn free_joined(
        &self,
        huge: usize,
        count: usize,
        intent: Intent<'_, G, P>,
    ) -> Result<(States, Run), Refusal> {
        let run = Self::run(huge, count);
        loop {
            let seen = self.states(huge);
            let split = || run.each().zip(huge..).filter(|&(one, _)| seen.is(one, Phase::Split));
            let whole = split().fold(seen, |all, (one, _)| all.with(one, Phase::Whole).turned(one));
            if !whole.is(run, Phase::Whole) {
                let offline = run.each().any(|one| seen.is(one, Phase::Offline));
                return Err(if offline { Refusal::Offline } else { Refusal::NotAllocated(0) });
            }
            let announced = seen.joining();
            if self.update(huge, Ordering::AcqRel, |now| now.of(run, seen, announced)).is_err() {
                continue;
            }
            let full = |(one, huge)| {
                let credits = self.isolated_credits(huge).unwrap_or_else(|| self.credits(huge));
                credits == 0 && self.rows(huge, seen.polarity(one)).is_full()
            };
            if !split().all(full) {
                return Err(Refusal::NotAllocated(0));
            }
            let isolated = split().filter(|&(_, huge)| self.is_isolated(huge));
            let isolated = isolated.fold(Run::of(0), |all, (one, _)| all.or(one));
            let free = whole.with(run, Phase::Free).with(isolated, Phase::Split).joining();
            let join = |now: States| {
                let next = now.of(run, announced, free)?;
                Self::say(intent, huge, count, Phase::Whole, Phase::Free);
                Some(next)
            };
            let joined = self.update_or(huge, Ordering::AcqRel, join, || intent.withdraw());
            if let Ok(before) = joined {
                self.persist_states(huge);
                return Ok((before, isolated));
            }
        }
    }

    /// The polarity of a huge frame that is split.
    #[inline(always)]
    pub(crate) fn split_polarity(&self, huge: usize) -> Option<Polarity> {
        self.split_polarity_in(self.states(huge), huge)
    }

    /// The same by a state word that was seen.
    #[inline(always)]
    pub(crate) fn split_polarity_in(&self, states: States, huge: usize) -> Option<Polarity> {
        let one = Self::run(huge, 1);
        states.is(one, Phase::Split).then(|| states.polarity(one))
    }

    /// The polarity of a huge frame of which a part is to be freed; it is split first, if it was
    /// allocated as a whole.
    fn splittable(&self, huge: usize) -> Result<Polarity, Refusal> {
        self.split_polarity(huge).map_or_else(|| self.split(huge), Ok)
    }

    /// Splits a huge frame that is allocated as a whole. The caller makes that persistent, with the bits that it
    /// releases.
    #[cold]
    fn split(&self, huge: usize) -> Result<Polarity, Refusal> {
        let one = Self::run(huge, 1);
        let split =
            |states: States| Some(states.change(one, Phase::Whole, Phase::Split)?.turned(one));
        // Others may write to what its owner frees in parts, and the whole may become free. Before the split, for a
        // process may die behind it.
        self.taken_of(huge, one);
        match self.update(huge, Ordering::Relaxed, split) {
            Ok(whole) => Ok(whole.turned(one).polarity(one)),
            Err(now) => match now.phase(one) {
                // Another free of a part came first.
                Phase::Split => Ok(now.polarity(one)),
                Phase::Offline => Err(Refusal::Offline),
                _ => Err(Refusal::NotAllocated(0)),
            },
        }
    }

    /// Releases the bits of a block of base frames, splitting the huge frame first if it was
    /// allocated as a whole. The credits are still the caller's then, to give or to keep.
    #[inline(always)]
    pub(crate) fn release(
        &self,
        huge: usize,
        offset: usize,
        order: u32,
        intent: Intent<'_, G, P>,
    ) -> Result<Polarity, Refusal> {
        let polarity = self.splittable(huge)?;
        self.persist_split(huge, order);
        match self.rows(huge, polarity).release(offset, order, intent) {
            Ok(()) => {
                self.persist_states(huge);
                Ok(polarity)
            }
            Err(gone) => Err(Refusal::NotAllocated(gone)),
        }
    }

    /// Before a block of several rows is released step by step: what was released must not be whole again after a
    /// crash.
    #[inline(always)]
    pub(crate) fn persist_split(&self, huge: usize, order: u32) {
        if P::INTENTS && order > ROW_ORDER {
            self.persist_states(huge);
        }
    }

    /// The same for the frames `mask` of a row.
    pub(crate) fn release_in(
        &self,
        huge: usize,
        row: usize,
        mask: u64,
    ) -> Result<Polarity, Refusal> {
        let polarity = self.splittable(huge)?;
        match self.rows(huge, polarity).release_in(row, mask) {
            true => {
                self.persist_states(huge);
                Ok(polarity)
            }
            false => Err(Refusal::NotAllocated(0)),
        }
    }

    /// Do the bits of a huge frame still have the meaning under which a free released some of them? They do if
    /// the caller owned those frames. A free of frames that the caller does not own may have turned bits
    /// that had another meaning, and must turn them back.
    #[inline(always)]
    pub(crate) fn still_means(&self, huge: usize, polarity: Polarity) -> bool {
        let (states, one) = (self.states(huge), Self::run(huge, 1));
        states.is_split(one, polarity) && (!states.is_joining() || self.stop_joins(huge, polarity))
    }

    /// Makes the joins under way look again.
    #[cold]
    fn stop_joins(&self, huge: usize, polarity: Polarity) -> bool {
        let one = Self::run(huge, 1);
        let stop = |states: States| states.is_split(one, polarity).then_some(states.not_joining());
        self.update(huge, Ordering::AcqRel, stop).is_ok()
    }

    /// Is every frame of the block free?
    pub(crate) fn is_free(&self, huge: usize, offset: usize, order: u32) -> bool {
        if order >= G::HUGE_ORDER {
            return (huge..huge + (1 << (order - G::HUGE_ORDER)))
                .all(|huge| self.count_free(huge) == G::HUGE_FRAMES);
        }
        let (states, one) = (self.states(huge), Self::run(huge, 1));
        match states.phase(one) {
            Phase::Split => self.rows(huge, states.polarity(one)).is_free(offset, order),
            phase => phase == Phase::Free,
        }
    }

    /// Is every frame of the block allocated?
    ///
    /// # Errors
    /// What a free of the block would be refused for.
    pub(crate) fn check_allocated(
        &self,
        huge: usize,
        offset: usize,
        order: u32,
    ) -> Result<(), Refusal> {
        let (count, order) = match order.checked_sub(G::HUGE_ORDER) {
            Some(pair) => (1 << pair, G::HUGE_ORDER),
            None => (1, order),
        };
        (huge..huge + count).try_for_each(|huge| {
            let (states, one) = (self.states(huge), Self::run(huge, 1));
            let some_free = match states.phase(one) {
                Phase::Split => self.rows(huge, states.polarity(one)).has_free(offset, order),
                Phase::Offline => return Err(Refusal::Offline),
                phase => phase == Phase::Free,
            };
            if some_free { Err(Refusal::NotAllocated(0)) } else { Ok(()) }
        })
    }

    /// The free frames of the row at `offset`.
    pub(crate) fn free_in_row(&self, huge: usize, offset: usize) -> u64 {
        let (states, one) = (self.states(huge), Self::run(huge, 1));
        match states.phase(one) {
            Phase::Split => self.rows(huge, states.polarity(one)).free_in_row(offset),
            Phase::Free => row_mask::<G>(),
            Phase::Whole | Phase::Offline => 0,
        }
    }

    /// The allocated frames of the row at `offset`, or frames outside the zone.
    pub(crate) fn used_in_row(&self, huge: usize, offset: usize) -> u64 {
        match self.phase(huge) {
            Phase::Offline => 0,
            _ => !self.free_in_row(huge, offset) & row_mask::<G>(),
        }
    }

    /// How many frames of a huge frame are free, by its bits.
    pub(crate) fn count_free(&self, huge: usize) -> usize {
        let (states, one) = (self.states(huge), Self::run(huge, 1));
        match states.phase(one) {
            Phase::Split => self.rows(huge, states.polarity(one)).count_free(),
            Phase::Free => G::HUGE_FRAMES,
            Phase::Whole | Phase::Offline => 0,
        }
    }
}

/// The counters of the children.
impl<G: Geometry, P: Persistence> Lower<'_, G, P> {
    /// The credits in the counter of a huge frame that can be had: none, if it is isolated.
    #[inline(always)]
    pub(crate) fn credits(&self, huge: usize) -> usize {
        let counter = self.counter(huge);
        if is_isolated(counter) { 0 } else { counter }
    }

    /// Has a huge frame that is not isolated fewer credits than so many in its counter?
    #[inline(always)]
    pub(crate) fn has_fewer(&self, huge: usize, than: usize) -> bool {
        // The bit that says isolated is above all credits.
        self.counter(huge) < than
    }

    /// Changes a counter as `change` says, unless that says `None`.
    #[inline(always)]
    fn count(
        &self,
        huge: usize,
        success: Ordering,
        change: impl Fn(usize) -> Option<usize>,
    ) -> Option<Credits> {
        count(self.children.get(huge)?, success, change)
    }

    /// Takes every credit of a counter that has at least `least`, and one.
    pub(crate) fn take_all(&self, huge: usize, least: usize) -> Option<Credits> {
        let all = |credits| (credits >= least && credits > 0 && !is_isolated(credits)).then_some(0);
        self.count(huge, Ordering::Acquire, all)
    }

    /// Takes `count` credits.
    pub(crate) fn take(&self, huge: usize, count: usize) -> Option<Credits> {
        let take = |credits: usize| credits.checked_sub(count).filter(|_| !is_isolated(credits));
        self.count(huge, Ordering::Acquire, take)
    }

    /// Gives credits to their counter. If these are the last ones, the caller gets all credits of the huge frame
    /// instead, and must [close](Self::close) it. `None`: the counter has no room for them, or is that of an isolated
    /// huge frame, and is unchanged.
    #[inline(always)]
    pub(crate) fn give(&self, huge: usize, count: usize, surplus: Surplus) -> Option<Given> {
        give::<G>(self.children.get(huge)?, count, surplus)
    }
}

/// Changes a counter as `change` says, unless that says `None`.
#[inline(always)]
fn count(
    child: &AtomicU32,
    success: Ordering,
    change: impl Fn(usize) -> Option<usize>,
) -> Option<Credits> {
    let mut before = child.load(Ordering::Relaxed);
    loop {
        let after = change(before as usize)?;
        match child.compare_exchange(before, after as u32, success, Ordering::Relaxed) {
            Ok(_) => return Some(Credits { before: before as usize, after }),
            Err(now) => before = now,
        }
    }
}

/// Gives credits to a counter, as [`Lower::give`] does.
#[inline(always)]
fn give<G: Geometry>(child: &AtomicU32, given: usize, surplus: Surplus) -> Option<Given> {
    let give = |credits: usize| match credits + given {
        less if less < G::HUGE_FRAMES => Some(less),
        more if more > G::HUGE_FRAMES && !surplus.is_dropped_from(credits) => None,
        _ => Some(0),
    };
    let credits = count(child, Ordering::AcqRel, give)?;
    Some(Given { credits, all: credits.after < credits.before + given })
}

/// The words of the huge frame and of the row in which a frame lies.
pub(crate) struct Place<'a, G, P> {
    states: &'a AtomicU64,
    row: &'a [AtomicU64],
    child: &'a AtomicU32,
    persistence: P,
    geometry: PhantomData<G>,
}

impl<'a, G: Geometry, P: Persistence> Lower<'a, G, P> {
    /// The words for the frame `index`, counted from the first that the metadata is for.
    ///
    /// # Safety
    /// There is such a frame.
    #[inline(always)]
    pub(crate) unsafe fn place(&self, index: usize) -> Place<'a, G, P> {
        let huge = index >> G::HUGE_ORDER;
        let within = huge % G::TREE_HUGE / LANE;
        let row = index >> row_order::<G>();
        debug_assert!(row < self.rows.len() && huge < self.children.len());
        // SAFETY: `from_parts` has cut each slice to what the zone's frames need, and a tree has at most
        // as many huge frames as its two state words.
        unsafe {
            Place {
                states: self.states.get_unchecked(huge / G::TREE_HUGE).0.get_unchecked(within),
                row: self.rows.get_unchecked(row..row + 1),
                child: self.children.get_unchecked(huge),
                persistence: self.persistence,
                geometry: PhantomData,
            }
        }
    }
}

impl<'a, G: Geometry, P: Persistence> Place<'a, G, P> {
    /// What the huge frame is, beside its neighbours.
    #[inline(always)]
    pub(crate) fn states(&self) -> States {
        States(self.states.load(Ordering::Acquire))
    }

    /// The row of the frame `index`, and the frame's offset in it.
    #[inline(always)]
    pub(crate) fn row_of(&self, index: usize, polarity: Polarity) -> (usize, Rows<'a, G, P>) {
        (index & ((1 << row_order::<G>()) - 1), Rows::new(self.row, polarity, self.persistence))
    }

    /// As [`Lower::persist_states`].
    #[inline(always)]
    pub(crate) fn persist_states(&self) {
        self.persistence.write_back(self.states);
        self.persistence.fence();
    }

    /// As [`Lower::give`].
    #[inline(always)]
    pub(crate) fn give(&self, count: usize) -> Option<Given> {
        give::<G>(self.child, count, Surplus::Refuse)
    }
}

/// What became of credits that were given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    /// How the counter changed.
    pub(crate) credits: Credits,
    /// Does the giver have all credits of the huge frame now? It must then close the huge frame.
    pub(crate) all: bool,
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests;
