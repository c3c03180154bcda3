//! The lower level: allocates frames (LLFree section 3.2.1).
//!
//! ```text
//!   states     a line for each tree                        what each huge frame is     durable
//!   rows       8 rows  │ 8 rows  │ 8 rows  │ …             its base frames             durable
//!   children   credits │ credits │ credits │ …             of split huge frames        volatile
//! ```
//!
//! A huge frame is allocated and freed by one swap of a state word. A base-frame allocation has two
//! steps: take credits from the child's counter, then claim free bits. The free releases the bits
//! first and gives the credits back after. When all the credits of a huge frame have come back to
//! its counter, whoever brought the last ones takes them all and *closes* it: it is free as a whole.
//! The reverse is to *open* it, which gives all of its credits to one caller.
//!
//! Huge frames are named by their index in the zone's metadata, not by their number.
//!
//! *Progress*: lock-free; a swap fails only because another one succeeded.
//! *Ordering*: taking a credit acquires what the giver published, giving one releases; a huge
//! frame's allocation acquires and its free releases. What makes a huge frame free acquires as well:
//! it ends what many frees began, and must see whether its tree is in the index. Splits move no
//! ownership between threads, the caller owns the frames before and after: they may be relaxed.
//! *Crash*: the states and the bits of split huge frames are the truth; credits are recomputed. Each
//! operation up to order 6, of order H and of order H+1 changes that truth by a single write; opening
//! and closing do not change it at all.

mod start;

pub(crate) use start::Start;

use core::marker::PhantomData;
use core::slice;

use woodlot_frame::Geometry;
use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};

use crate::line::Line;
use crate::rows::{ROW_ORDER, Rows, row_count, row_order};
use crate::state::{LANE, Phase, Polarity, Run, States};

/// The state words of a tree, which has up to 32 huge frames.
pub type TreeStates = Line<[AtomicU64; 2]>;

/// The words of a zone by which frames are owned.
pub(crate) struct Lower<'a, G> {
    rows: &'a [AtomicU64],
    states: &'a [TreeStates],
    children: &'a [AtomicU32],
    geometry: PhantomData<G>,
}

/// Why the lower level freed nothing, or not what was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Some frame is not allocated. So many were set free all the same, by two frees of the same
    /// frames that raced with an allocation, and their credits are to be given back; zero unless
    /// the caller made that mistake.
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

/// What is done with credits for which a counter has no room. Only frees of frames that their
/// callers do not own can bring that about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Surplus {
    /// The free is refused.
    Refuse,
    /// They are dropped: nobody can undo what they come from.
    Drop,
}

impl<'a, G: Geometry> Lower<'a, G> {
    pub(crate) fn new(
        rows: &'a [AtomicU64],
        states: &'a [TreeStates],
        children: &'a [AtomicU32],
    ) -> Self {
        debug_assert!(rows.len() >= children.len() * row_count::<G>());
        debug_assert!(states.len() * G::TREE_HUGE >= children.len());
        Self { rows, states, children, geometry: PhantomData }
    }

    /// The states past the end: nothing can be taken, freed or split.
    const NOTHING: States = States(0).with(Run::new(0, LANE), Phase::Offline);

    /// How many huge frames the words stand for.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// The bit field of a huge frame, read with `polarity`.
    #[inline(always)]
    pub(crate) fn rows(&self, huge: usize, polarity: Polarity) -> Rows<'a, G> {
        let first = huge * row_count::<G>();
        let rows = self.rows.get(first..first + row_count::<G>());
        Rows::new(rows.unwrap_or_default(), polarity)
    }

    /// The rows in which the block of `order` at frame `index` of the zone lies, and the offset of the frame
    /// in them: one row, or those of its huge frame.
    #[inline(always)]
    pub(crate) fn rows_of(
        &self,
        index: usize,
        order: u32,
        polarity: Polarity,
    ) -> (usize, Rows<'a, G>) {
        if order > ROW_ORDER {
            let offset = index & (G::HUGE_FRAMES - 1);
            return (offset, self.rows(index >> G::HUGE_ORDER, polarity));
        }
        let one = self.rows.get(index >> row_order::<G>()).map(slice::from_ref);
        let offset = index & ((1 << row_order::<G>()) - 1);
        (offset, Rows::new(one.unwrap_or_default(), polarity))
    }

    /// Huge frames side by side, in their state word.
    #[inline(always)]
    const fn run(huge: usize, count: usize) -> Run {
        Run::new(huge % G::TREE_HUGE, count)
    }

    /// The state words of a tree.
    #[inline(always)]
    fn state_words(&self, tree: usize) -> &'a [AtomicU64] {
        let words = self.states.get(tree).map_or(&[][..], |line| line.0.as_slice());
        // A tree of up to sixteen huge frames has but one.
        if G::TREE_HUGE > LANE { words } else { words.get(..1).unwrap_or_default() }
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
        let word = self.state_word(huge).ok_or(Self::NOTHING)?;
        let mut states = States(word.load(Ordering::Relaxed));
        loop {
            let Some(next) = change(states) else {
                return Err(states);
            };
            match word.compare_exchange(states.0, next.0, success, Ordering::Relaxed) {
                Ok(_) => return Ok(states),
                Err(now) => states = States(now),
            }
        }
    }

    /// How many huge frames of a tree are free as a whole.
    #[inline(always)]
    pub(crate) fn count_whole(&self, tree: usize) -> usize {
        let free = |word: &AtomicU64| States(word.load(Ordering::Acquire)).count_free();
        self.state_words(tree).iter().map(free).sum()
    }

    /// How many huge frames of a tree are offline.
    pub(crate) fn count_offline(&self, tree: usize) -> usize {
        let offline = |word: &AtomicU64| States(word.load(Ordering::Acquire)).count_offline();
        self.state_words(tree).iter().map(offline).sum()
    }

    /// As [`count_whole`](Self::count_whole), so that of this call and a change of the states at the same
    /// time at least one sees what the other did before: by a read-modify-write, which is ordered before
    /// or after the change, and publishes what its caller did before. Weaker than this it would be a load.
    pub(crate) fn count_whole_in_order(&self, tree: usize) -> usize {
        let free = |word: &AtomicU64| States(word.fetch_or(0, Ordering::AcqRel)).count_free();
        self.state_words(tree).iter().map(free).sum()
    }

    /// How many huge frames of its tree were and are free, when the word of huge frame `huge` was
    /// `before`, and `gained` more are free in it now. When there were none in the word before, then
    /// none in the tree: two words that begin to have some at the same time are both told of as the
    /// first.
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
    pub(crate) fn allocate_first(&self, tree: usize, count: usize) -> Option<(usize, States)> {
        self.take_first(tree, count, Phase::Whole)
    }

    /// Opens a huge frame of a tree that is free as a whole: all of its credits are the caller's.
    pub(crate) fn open_first(&self, tree: usize) -> Option<(usize, States)> {
        self.take_first(tree, 1, Phase::Split)
    }

    #[inline(always)]
    fn take_first(&self, tree: usize, count: usize, to: Phase) -> Option<(usize, States)> {
        for (at, word) in self.state_words(tree).iter().enumerate() {
            let mut states = States(word.load(Ordering::Relaxed));
            while let Some(first) = states.first_free(count) {
                let next = states.turn(Run::new(first, count), Phase::Free, to);
                match word.compare_exchange(states.0, next.0, Ordering::Acquire, Ordering::Relaxed)
                {
                    Ok(_) => return Some((tree * G::TREE_HUGE + at * LANE + first, states)),
                    Err(now) => states = States(now),
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
    ) -> Option<States> {
        let run = Self::run(huge, count);
        self.update(huge, success, |states| states.change(run, from, to)).ok()
    }

    /// Makes a huge frame free as a whole, of which the caller has all the credits.
    pub(crate) fn close(&self, huge: usize) -> Option<States> {
        self.turn(huge, 1, Phase::Split, Phase::Free, Ordering::AcqRel)
    }

    /// Frees `count` huge frames, one or the two of a pair, that were allocated as a whole.
    #[inline(always)]
    pub(crate) fn free_whole(&self, huge: usize, count: usize) -> Option<States> {
        self.turn(huge, count, Phase::Whole, Phase::Free, Ordering::AcqRel)
    }

    /// The same where some were allocated by their base frames (*join*). It is announced before their
    /// bits are looked at. A free of a part, of which no credits are held, can be of the same frames only
    /// by a wrong call; it looks for the announcement after it has released its bits
    /// ([`still_means`](Self::still_means)): so either its bits are seen here, or it stops the join,
    /// which looks again, or it is refused.
    #[cold]
    pub(crate) fn free_joined(&self, huge: usize, count: usize) -> Result<States, Refusal> {
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
                self.credits(huge) == 0 && self.rows(huge, seen.polarity(one)).is_full()
            };
            if !split().all(full) {
                return Err(Refusal::NotAllocated(0));
            }
            let free = whole.with(run, Phase::Free).joining();
            let join = |now: States| now.of(run, announced, free);
            if let Ok(before) = self.update(huge, Ordering::AcqRel, join) {
                return Ok(before);
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

    /// Splits a huge frame that is allocated as a whole.
    #[cold]
    fn split(&self, huge: usize) -> Result<Polarity, Refusal> {
        let one = Self::run(huge, 1);
        let split =
            |states: States| Some(states.change(one, Phase::Whole, Phase::Split)?.turned(one));
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
    ) -> Result<Polarity, Refusal> {
        let polarity = self.splittable(huge)?;
        match self.rows(huge, polarity).release(offset, order) {
            Ok(()) => Ok(polarity),
            Err(gone) => Err(Refusal::NotAllocated(gone)),
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
            true => Ok(polarity),
            false => Err(Refusal::NotAllocated(0)),
        }
    }

    /// Do the bits of a huge frame mean what they did when some of them were released? They do for
    /// the owner of those frames; a free of frames that the caller does not own may have turned
    /// bits that had another meaning, and must turn them back.
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
impl<G: Geometry> Lower<'_, G> {
    /// The credits in the counter of a huge frame.
    #[inline(always)]
    pub(crate) fn credits(&self, huge: usize) -> usize {
        self.children.get(huge).map_or(0, |child| child.load(Ordering::Acquire) as usize)
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
        let all = |credits| (credits >= least && credits > 0).then_some(0);
        self.count(huge, Ordering::Acquire, all)
    }

    /// Takes `count` credits.
    pub(crate) fn take(&self, huge: usize, count: usize) -> Option<Credits> {
        self.count(huge, Ordering::Acquire, |credits| credits.checked_sub(count))
    }

    /// Gives credits to their counter. When that makes them all, they are the caller's instead,
    /// who is to [`close`](Self::close) the huge frame. `None`, and nothing given: there is no room
    /// for them.
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
        more if more > G::HUGE_FRAMES && surplus == Surplus::Refuse => None,
        _ => Some(0),
    };
    let credits = count(child, Ordering::AcqRel, give)?;
    Some(Given { credits, all: credits.after < credits.before + given })
}

/// The words of the huge frame and of the row in which a frame lies.
pub(crate) struct Place<'a, G> {
    states: &'a AtomicU64,
    row: &'a [AtomicU64],
    child: &'a AtomicU32,
    geometry: PhantomData<G>,
}

impl<'a, G: Geometry> Lower<'a, G> {
    /// The words for the frame `index`, counted from the first that the metadata is for.
    ///
    /// # Safety
    /// There is such a frame.
    #[inline(always)]
    pub(crate) unsafe fn place(&self, index: usize) -> Place<'a, G> {
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
                geometry: PhantomData,
            }
        }
    }
}

impl<'a, G: Geometry> Place<'a, G> {
    /// What the huge frame is, beside its neighbours.
    #[inline(always)]
    pub(crate) fn states(&self) -> States {
        States(self.states.load(Ordering::Acquire))
    }

    /// The row of the frame `index`, and the frame's offset in it.
    #[inline(always)]
    pub(crate) fn row_of(&self, index: usize, polarity: Polarity) -> (usize, Rows<'a, G>) {
        (index & ((1 << row_order::<G>()) - 1), Rows::new(self.row, polarity))
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
    /// Has the giver got all the credits of the huge frame now, which it is to close?
    pub(crate) all: bool,
}

#[cfg(test)]
#[cfg(not(any(loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::LLFree;
    use woodlot_frame::{
        Base4K, FrameAllocator, FrameId, Init, Order, Owned, Request, Slot, ZoneConfig,
    };

    /// Two trees. In the second one huge frames 13 to 20 are free, on both sides of the border of its words;
    /// all others are allocated.
    fn eight_left() -> Owned<LLFree<'static, Base4K>> {
        let config = ZoneConfig::new(2 * Base4K::TREE_FRAMES, 1);
        let zone = Owned::<LLFree<'static, Base4K>>::new(&config, Init::Free).expect("a zone");
        for huge in (0..32 + 13).chain(32 + 21..64) {
            let request = Request::new(Order(9), Slot(0)).at(FrameId(huge * Base4K::HUGE_FRAMES));
            zone.alloc(request).expect("it is free");
        }
        zone
    }

    #[test]
    fn free_huge_frames_of_a_tree_are_counted_in_all_of_its_words() {
        let zone = eight_left();
        let lower = &zone.lower;
        assert_eq!([0, 1].map(|tree| lower.count_whole(tree)), [0, 8]);
        assert_eq!([0, 1].map(|tree| lower.count_whole_in_order(tree)), [0, 8]);
        for (huge, gained) in [(32, -1), (32 + 15, 2), (32 + 16, -2), (63, 1)] {
            let counts = lower.count_changed(huge, lower.states(huge), gained);
            assert_eq!(counts, [8, 8usize.wrapping_add_signed(gained)], "{huge}, {gained}");
        }
        let none = lower.states(0);
        assert_eq!(lower.count_changed(32, none, 1), [0, 5 + 1], "the first of its word");
        assert_eq!(lower.count_changed(63, none, 2), [0, 3 + 2], "the first of its word");
        assert_eq!(lower.count_changed(31, none, 1), [0, 1]);
    }

    #[test]
    fn all_credits_are_taken_if_they_are_enough() {
        let zone = eight_left();
        let (lower, huge) = (&zone.lower, 32 + 14);
        let frame = FrameId(huge * Base4K::HUGE_FRAMES);
        zone.alloc(Request::new(Order(3), Slot(0)).at(frame)).expect("it is free");
        let all = Base4K::HUGE_FRAMES - 8;
        assert_eq!(lower.take_all(huge, all + 1), None);
        let taken = lower.take_all(huge, all).expect("there are as many");
        assert_eq!((taken.before, taken.after, lower.credits(huge)), (all, 0, 0));
        assert_eq!(lower.take_all(huge, 0), None, "there are none");
    }
}
