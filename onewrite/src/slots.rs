//! The words of a slot: what it has freed, its share of the count of free frames, and for each class where it allocates.
//!
//! ```text
//!   41 cache lines for each slot; three for the zone, behind them all:    one for each slot and class, a site:
//!   ┌───────┬────────┬──────┬───────┬──────┬────────┬──────┬────────┐   ┌─────────┬────────────┬───────┐
//!   │ count │ newest │ last │ freed │ hole │ lowest │ home │ abroad │   │ row × 2 │ target × 2 │ child │
//!   ├───────┴────────┴──────┴───────┴──────┴────────┴──────┴────────┤   ├────────┬┴───────┬────┴───┬───┘
//!   │ 256 rows into which the slot has freed before                 │   │ cursor │ latest │ policy │
//!   ├─────────┬───────────┬───────┬─────────┬───────────────────────┤   └────────┴────────┴────────┘
//!   │ counted │ last hole │ asked │ no room │                       │
//!   ├─────────┴───────────┴───────┴─────────┴───────────────────────┤
//!   │ 32 holes before                                               │
//!   ├───────────────────────┬────────────────────────┬──────────────┤
//!   │ followed × 3, of rows │ followed × 3, of holes │              │
//!   ├───────────────────────┴────────────────────────┴──────────────┤
//!   │ 8 rows of others                                              │
//!   ├───────────────────────────────────────────────────────────────┤
//!   │ 8 holes of others                                             │
//!   └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! All but the count, the policy, and two words of the zone, say where is looked first, and may say anything.
//!
//! * *row*: the row from which the slot takes blocks below a row's order. *Target*: the huge frame from whose rows it takes them.
//!   Of both there is one for single frames, and one for larger blocks, which do not find room where single frames do.
//! * *child*: the huge frame from which the slot takes whole rows, a target like the others. What a slot aims at is marked in its
//!   [hint](crate::hints).
//! * *cursor*: the huge frame at which the next look around in the slot's part of the zone begins, and how many it passes at most. *Latest*: the last huge frame of which much was free, when
//!   the slot came there. Its tree is marked as the slot's.
//! * *policy*: the class, and how it turns to each class.
//! * *count*: the frames that the slot has freed less those it has allocated, modulo 2^64. It is loaded and stored, which
//!   costs no atomic operation; if two calls use one slot at once, the share of one may be lost. The zone's count is
//!   added to by offline and online, and by whoever counts the frames themselves.
//! * *nothing*, of the zone alone: of which orders no tree has a block, a [hint](crate::hints). *Isolated*, likewise: how many children are
//!   [isolated](crate::isolate).
//! * *newest*: the row into which the slot has freed last, until it is filled again. *Last*: where the one before it lies, and how many
//!   [holes](Line::count_holes) the slot has left. *Counted*: the count, when these were counted last.
//! * *freed*: the huge frame that the slot has freed last. *Hole*: the one of which it has freed the only rows that are free; *last hole*, and those before, as of rows. *Lowest*: the
//!   lowest of which it has freed a whole row since it looked from there on for one that is free; before that, where its sites begin.
//! * *rows and holes of others*: what the slot has [taken over](Slots::take_over). *Followed*, of either: the slot from which it has done so, that slot's last at that time, and which slot is asked next. *Asked*: the
//!   count, when the slot had [grown](Line::has_grown) last. *No room*: how many looks in a row have found [no room to grow](Line::gives_up).
//! * *home*: where the slot's part of the zone begins. *Abroad*: where the next look around in all of the zone begins.

use woodlot_frame::atomics::{AtomicU64, Ordering::Relaxed};
use woodlot_frame::{Class, ClassPolicy, MAX_CLASSES};

use crate::row::Rows;

const COUNT: usize = 0;
const NEWEST: usize = 1;
const LAST: usize = 2;
const FREED: usize = 3;
const HOLE: usize = 4;
const LOWEST: usize = 5;
const HOME: usize = 6;
const ABROAD: usize = 7;
/// Where the rows begin into which the slot has freed before the newest.
const LATELY: usize = 8;
/// How many of them are remembered. Who needs room for a large block frees hundreds of small ones first, and then allocates as many. Models have no use
/// for so many words, each of which takes them time.
const BEFORE: usize =
    if cfg!(any(woodlot_loom, woodlot_explore, woodlot_shuttle)) { 32 } else { 256 };
/// In a line of their own: others read the second.
const COUNTED: usize = LATELY + BEFORE;
const LAST_HOLE: usize = COUNTED + 1;
const ASKED: usize = COUNTED + 2;
const NO_ROOM: usize = COUNTED + 3;
const HOLES_LATELY: usize = COUNTED + 8;
/// How many holes are remembered before the last.
const HOLES_BEFORE: usize = BEFORE / 8;
const FOLLOWED: usize = HOLES_LATELY + HOLES_BEFORE;
const FOLLOWED_HOLES: usize = FOLLOWED + 4;
const OTHERS: usize = FOLLOWED + 8;
const OTHERS_HOLES: usize = OTHERS + TAKEN_OVER;
/// Words of a slot: whole cache lines, so that sites begin with one.
const WORDS: usize = OTHERS_HOLES + TAKEN_OVER;

/// What a slot has freed: the newest at hand, and those before in a ring; and what it has taken over of the same from other slots.
#[derive(Clone, Copy)]
struct Ring {
    newest: usize,
    /// Where the one before the newest lies, modulo the length, and how many were remembered.
    last: usize,
    first: usize,
    length: usize,
    /// Whom the slot follows; [`SEEN`] behind that word, that one's last when the slot had looked at all before it; and [`ASKED_NEXT`] behind it, who is asked besides.
    followed: usize,
    others: usize,
}

const SEEN: usize = 1;
const ASKED_NEXT: usize = 2;

/// A slot's rings. Calls name them by number, so that the compiler knows where they lie.
const RINGS: [Ring; 2] = [
    Ring {
        newest: NEWEST,
        last: LAST,
        first: LATELY,
        length: BEFORE,
        followed: FOLLOWED,
        others: OTHERS,
    },
    Ring {
        newest: HOLE,
        last: LAST_HOLE,
        first: HOLES_LATELY,
        length: HOLES_BEFORE,
        followed: FOLLOWED_HOLES,
        others: OTHERS_HOLES,
    },
];
/// Rows into which the slot has freed.
pub(crate) const ROWS: usize = 0;
/// Huge frames of which it has freed the only rows that are free.
pub(crate) const HOLES: usize = 1;

/// So many slots are asked at once for what they have freed.
const SLOTS_ASKED: usize = 4;
/// So much of it is taken over at once, and kept: a cache line.
pub(crate) const TAKEN_OVER: usize = 8;
/// So many places of a ring are passed for that at most. One with what is not wanted, of which more is to be looked at, counts as some.
const PASSED: usize = 64;
const UNWANTED: usize = 4;

/// After so many looks for a huge frame of which half is free, and was not there, the slot takes the fullest, as others do, but for one look of so many, until it comes across one.
/// Where there is none, each look would cost ten times as much. With four in place of 16 the pressure replay has 0.814 for 0.822.
pub(crate) const IN_VAIN: usize = 16;
pub(crate) const ONE_IN: usize = 128;

const NOTHING: usize = 1;
/// In a line of its own: every call loads it, and it is seldom written.
const ISOLATED: usize = 16;
/// Words of the zone.
const ZONE: usize = 24;

/// Words of a site.
const SITE: usize = 8;
const ROW: usize = 0;
const TARGET: usize = 2;
const CHILD: usize = TARGET + 2;
const CURSOR: usize = 5;
const LATEST: usize = 6;
const POLICY: usize = 7;

/// Kinds of targets; the last is the child.
pub(crate) const KINDS: usize = 3;

/// Where the word of the cursor has the patience.
const PATIENCE: u32 = 48;

/// Where the word of the policy has the class itself, how many it fills up, and which.
const OWN: u32 = 32;
const FILLS: u32 = 36;
const FILLED: u32 = 40;

/// No row, huge frame or tree.
pub(crate) const NONE: usize = usize::MAX;

/// The words of all slots, the zone's behind them, and the sites.
pub(crate) struct Slots<'a> {
    slots: &'a [[AtomicU64; WORDS]],
    /// Its count, what says that there is nothing, and what says how much is isolated.
    zone: &'a [AtomicU64; ZONE],
    /// One for each class of each slot.
    sites: &'a [[AtomicU64; SITE]],
    classes: usize,
}

/// The words of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a>(&'a [AtomicU64; WORDS]);

/// Where a slot allocates for a class.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) line: Line<'a>,
    words: &'a [AtomicU64; SITE],
}

impl<'a> Slots<'a> {
    /// How many words that takes.
    pub(crate) const fn words(slots: usize, classes: usize) -> usize {
        slots * (WORDS + classes * SITE) + ZONE
    }

    /// The first [`words`](Self::words), of so many slots and classes, if there are so many.
    pub(crate) fn new(words: &'a [AtomicU64], slots: usize, classes: usize) -> Option<Self> {
        let words = words.get(..Self::words(slots, classes))?;
        let (lines, rest) = words.split_at_checked(slots * WORDS)?;
        let (zone, sites) = rest.split_first_chunk()?;
        Some(Slots { slots: lines.as_chunks().0, zone, sites: sites.as_chunks().0, classes })
    }

    #[inline(always)]
    pub(crate) fn line(&self, slot: usize) -> Option<Line<'a>> {
        self.slots.get(slot).map(Line)
    }

    /// Where a slot allocates for a class, if there are both.
    #[inline(always)]
    pub(crate) fn site(&self, slot: usize, class: Class) -> Option<Site<'a>> {
        let class = usize::from(class.0);
        if class >= self.classes {
            return None;
        }
        let line = self.line(slot)?;
        // As there is the slot, the product is at most the number of a site.
        let words = self.sites.get(slot.wrapping_mul(self.classes) + class)?;
        Some(Site { line, words })
    }

    /// Where a slot allocates, for each class.
    pub(crate) fn sites(&self, slot: usize) -> impl Iterator<Item = Site<'a>> {
        let classes = (0..self.classes).filter_map(|class| u8::try_from(class).ok());
        classes.filter_map(move |class| self.site(slot, Class(class)))
    }

    /// Before the first call: sites apart from one another in so many children, the parts of the slots apart by whole trees of so many, and
    /// so many frames free.
    pub(crate) fn start(
        &self,
        policy: &ClassPolicy,
        (children, tree): (usize, usize),
        free: usize,
    ) {
        let begin = |n: usize, of: usize| children as u64 * n as u64 / of as u64;
        let trees = children.div_ceil(tree) as u64;
        for (n, line) in self.slots.iter().enumerate() {
            line.iter().for_each(|word| word.store(NONE as u64, Relaxed));
            [COUNT, LAST, COUNTED, LAST_HOLE, ASKED, NO_ROOM]
                .into_iter()
                .for_each(|word| Line(line).set(word, 0));
            [FOLLOWED, FOLLOWED_HOLES]
                .into_iter()
                .for_each(|at| Line(line).set(at + ASKED_NEXT, n + 1));
            let first = begin(n, self.slots.len());
            [LOWEST, ABROAD].into_iter().for_each(|word| line[word].store(first, Relaxed));
            let home = trees * n as u64 / self.slots.len() as u64;
            line[HOME].store(home * tree as u64, Relaxed);
        }
        self.zone.iter().for_each(|word| word.store(0, Relaxed));
        let classes = policy.all().cycle();
        for ((n, site), class) in self.sites.iter().enumerate().zip(classes) {
            site.iter().for_each(|word| word.store(NONE as u64, Relaxed));
            site[CURSOR].store(begin(n, self.sites.len()), Relaxed);
            site[POLICY].store(turns(policy, class), Relaxed);
        }
        self.add(free as u64);
    }

    /// Of which orders the zone has no block, as bits.
    pub(crate) fn nothing(&self) -> &'a AtomicU64 {
        &self.zone[NOTHING]
    }

    /// How many children are isolated.
    #[inline(always)]
    pub(crate) fn isolated(&self) -> &'a AtomicU64 {
        &self.zone[ISOLATED]
    }

    /// Adds to the zone's count.
    pub(crate) fn add(&self, frames: u64) {
        self.zone[COUNT].fetch_add(frames, Relaxed);
    }

    /// The sum of all counts, modulo 2^64.
    fn sum(&self) -> u64 {
        let counts = self.slots.iter().map(|line| line[COUNT].load(Relaxed));
        counts.fold(self.zone[COUNT].load(Relaxed), u64::wrapping_add)
    }

    /// How many frames are free by the counts, at most `frames`. The sum itself may be out of that range while
    /// other calls change it, or after two calls used one slot at once.
    pub(crate) fn free(&self, frames: usize) -> usize {
        // Not `clamp`, which panics where the limits are the wrong way round.
        (self.sum() as i64).max(0).min(frames as i64) as usize
    }

    /// Takes over what other slots have freed, a cache line of it at most, if it is wanted: from the one that this slot follows, or from one of the next few, which it follows from then on.
    /// Nobody waits for that: what two calls take or forget at once is a hint less.
    pub(crate) fn take_over<const OF: usize>(
        &self,
        line: Line<'_>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> bool {
        let followed = const { RINGS[OF].followed };
        let (seen, next) = (followed + SEEN, followed + ASKED_NEXT);
        for nth in 0..SLOTS_ASKED {
            let (slot, from) = if nth == 0 {
                (line.get(followed), line.get(seen))
            } else {
                let slot = line.get(next);
                let behind = slot.wrapping_add(1);
                line.set(next, if behind < self.slots.len() { behind } else { 0 });
                if slot == line.get(followed) {
                    continue;
                }
                (slot, 0)
            };
            let other = self.line(slot).filter(|other| !core::ptr::eq(line.0, other.0));
            let Some(other) = other else { continue };
            let (to, found) = line.take_over_from::<OF>(other, from, &is_wanted);
            if found || nth == 0 {
                line.set(followed, slot);
                line.set(seen, to);
            }
            if found {
                return true;
            }
        }
        false
    }

    /// Makes the sum equal to the count `free`, unless another call changes the zone's count meanwhile. So of two
    /// calls that count at once, only one corrects the sum.
    pub(crate) fn heal(&self, free: u64) {
        let now = self.zone[COUNT].load(Relaxed);
        let right = now.wrapping_add(free).wrapping_sub(self.sum());
        if right != now {
            let _ = self.zone[COUNT].compare_exchange(now, right, Relaxed, Relaxed);
        }
    }
}

/// The words that `get` and `set` of a type name.
macro_rules! words {
    ($type:ident, $words:tt; $($(#[$doc:meta])* $get:ident, $set:ident, $word:ident;)*) => {
        impl $type<'_> {
            #[inline(always)]
            fn get(self, word: usize) -> usize {
                self.$words[word].load(Relaxed) as usize
            }

            #[inline(always)]
            fn set(self, word: usize, to: usize) {
                self.$words[word].store(to as u64, Relaxed);
            }
            $(
                $(#[$doc])*
                #[inline(always)]
                pub(crate) fn $get(self) -> usize {
                    self.get($word)
                }

                #[inline(always)]
                pub(crate) fn $set(self, to: usize) {
                    self.set($word, to);
                }
            )*
        }
    };
}

words! { Line, 0;
    last_freed, set_last_freed, FREED;
    lowest, set_lowest, LOWEST;
    abroad, set_abroad, ABROAD;
    /// How many looks in a row have found no huge frame of which half is free, though the slot grows.
    without_room, set_without_room, NO_ROOM;
}

words! { Site, words;
    latest, set_latest, LATEST;
}

/// How a class turns to others, in one word: four bits for each class, its place among those to which the class turns; above them the class itself,
/// how many classes it fills up, and these as bits.
fn turns(policy: &ClassPolicy, class: Class) -> u64 {
    let own = u64::from(class.0) << OWN | (policy.fills(class).count() as u64) << FILLS;
    let filled = policy.fills(class).fold(own, |word, of| word | 1 << (FILLED + u32::from(of.0)));
    policy
        .turns(class)
        .zip(0..)
        .fold(filled, |word, (of, nth): (_, u64)| word | nth << (4 * u32::from(of.0)))
}

impl Site<'_> {
    /// A word that is not a number of something.
    #[inline(always)]
    fn word(self, word: usize) -> u64 {
        self.words[word].load(Relaxed)
    }

    /// The class.
    #[inline(always)]
    pub(crate) fn class(self) -> Class {
        Class((self.word(POLICY) >> OWN & (MAX_CLASSES - 1) as u64) as u8)
    }

    /// To how many classes it turns before this one.
    #[inline(always)]
    pub(crate) fn turn(self, class: Class) -> usize {
        (self.word(POLICY) >> (4 * u32::from(class.0))) as usize & (MAX_CLASSES - 1)
    }

    /// How many classes it fills up: those to which it turns first.
    #[inline(always)]
    pub(crate) fn fills(self) -> usize {
        (self.word(POLICY) >> FILLS) as usize & 0xf
    }

    /// The same, as bits.
    #[inline(always)]
    pub(crate) fn filled(self) -> u64 {
        self.word(POLICY) >> FILLED
    }

    /// Where the next look around begins, and how many children it passes at most.
    #[inline(always)]
    pub(crate) fn cursor(self) -> (usize, usize) {
        let word = self.word(CURSOR);
        ((word & ((1 << PATIENCE) - 1)) as usize, (word >> PATIENCE) as usize)
    }

    #[inline(always)]
    fn look(self, child: usize, patience: usize) {
        self.words[CURSOR].store(child as u64 | (patience as u64) << PATIENCE, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_cursor(self, child: usize) {
        self.look(child, self.cursor().1);
    }

    #[inline(always)]
    pub(crate) fn set_patience(self, children: usize) {
        self.look(self.cursor().0, children);
    }

    /// The row for blocks of `order`.
    #[inline(always)]
    pub(crate) fn row(self, order: u32) -> usize {
        self.get(ROW + usize::from(order > 0))
    }

    #[inline(always)]
    pub(crate) fn set_row(self, order: u32, row: usize) {
        self.set(ROW + usize::from(order > 0), row);
    }

    /// The huge frame from which it takes rows.
    #[inline(always)]
    pub(crate) fn child(self) -> usize {
        self.get(CHILD)
    }

    #[inline(always)]
    pub(crate) fn set_child(self, child: usize) {
        self.set(CHILD, child);
    }

    /// The target for blocks of `order`.
    #[inline(always)]
    pub(crate) fn target(self, order: u32) -> usize {
        self.get(TARGET + usize::from(order > 0))
    }

    /// Which of the targets is that for blocks of `order`: of single frames, of larger blocks below a row's order, of rows.
    pub(crate) const fn kind<G: Rows>(order: u32) -> usize {
        match order {
            0 => 0,
            order if order < G::ROW_ORDER => 1,
            _ => 2,
        }
    }

    /// The last huge frame of which much was free, which is another one from now on.
    pub(crate) fn swap_latest(self, child: usize) -> usize {
        self.words[LATEST].swap(child as u64, Relaxed) as usize
    }

    /// The target of a kind, which is another one from now on.
    pub(crate) fn swap_target(self, kind: usize, child: usize) -> usize {
        self.words[TARGET + kind].swap(child as u64, Relaxed) as usize
    }

    /// The targets of every kind.
    pub(crate) fn targets(self) -> [usize; KINDS] {
        core::array::from_fn(|kind| self.get(TARGET + kind))
    }
}

impl Line<'_> {
    /// Counts frames that a call on this slot has freed, or allocated (negative).
    #[inline(always)]
    pub(crate) fn count(self, frames: isize) {
        // In 64 bits on every machine, as the sum is.
        let count = &self.0[COUNT];
        count.store(count.load(Relaxed).wrapping_add_signed(frames as i64), Relaxed);
    }

    /// How many frames it has freed more than it has allocated.
    fn freed_more(self) -> i64 {
        self.0[COUNT].load(Relaxed) as i64
    }

    /// Where its part of the zone begins.
    pub(crate) fn home(self) -> usize {
        self.get(HOME)
    }

    /// A row of this child has become free.
    #[inline(always)]
    pub(crate) fn emptied(self, child: usize) {
        if child < self.lowest() {
            self.set_lowest(child);
        }
    }

    /// The slot has freed this.
    #[inline(always)]
    pub(crate) fn freed<const OF: usize>(self, what: usize) {
        let at = const { RINGS[OF].newest };
        let newest = self.get(at);
        if newest != what {
            if newest != NONE {
                self.remember::<OF>(newest);
            }
            self.set(at, what);
        }
    }

    #[inline(always)]
    fn remember<const OF: usize>(self, what: usize) {
        let of = const { RINGS[OF] };
        // The next place, and a hole more.
        let last = self.get(of.last).wrapping_add(of.length + 1);
        self.set(of.last, last);
        self.set(of.first + last % of.length, what);
    }

    /// Takes over from one slot what came since its last was this, the oldest first: that slot takes back the newest. Nothing, unless it has freed more than it has allocated, by as
    /// many frames as the ring has places: who allocates as much comes back to what it has left. Says how far it has looked, and whether there was something.
    fn take_over_from<const OF: usize>(
        self,
        other: Line<'_>,
        seen: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> (usize, bool) {
        let of = const { RINGS[OF] };
        // Each adds one to what is left, and a place.
        let (step, last) = (of.length + 1, other.get(of.last));
        let place = |back: usize| of.first + last.wrapping_sub(back) % of.length;
        if other.freed_more() < of.length as i64 {
            return (seen, false);
        }
        // What that slot has taken back is one less. Holes that it has counted are whole lengths less.
        let since = last.wrapping_sub(seen);
        let is_lap = since as isize >= (of.length * step) as isize;
        let mut new = if is_lap { of.length } else { since % of.length };
        if other.get(place(0)) == NONE {
            new = 0;
        }
        let mut free = (of.others..of.others + TAKEN_OVER).filter(|&at| self.get(at) == NONE);
        let mut at = free.next().or(Some(of.others));
        let (mut passed, mut found) = (0, false);
        while new > 0
            && passed < PASSED
            && let Some(to) = at
        {
            new -= 1;
            match other.get(place(new)) {
                NONE => passed += 1,
                freed if is_wanted(freed) => {
                    other.set(place(new), NONE);
                    self.set(to, freed);
                    (at, found) = (free.next(), true);
                }
                _ => passed += UNWANTED,
            }
        }
        (last.wrapping_sub(new * step), found)
    }

    /// One of those that were taken over from other slots.
    pub(crate) fn of_others<const OF: usize>(self, nth: usize) -> usize {
        self.get(const { RINGS[OF].others } + nth % TAKEN_OVER)
    }

    /// Forgets it.
    pub(crate) fn forget_of_others<const OF: usize>(self, nth: usize) {
        self.set(const { RINGS[OF].others } + nth % TAKEN_OVER, NONE);
    }

    /// Has the slot allocated more, less what it has freed, than ever before when this was asked? Who frees what it has allocated, and allocates as much again, has not.
    pub(crate) fn has_grown(self) -> bool {
        let count = self.get(COUNT);
        let has_grown = (count.wrapping_sub(self.get(ASKED)) as isize) < 0;
        if has_grown {
            self.set(ASKED, count);
        }
        has_grown
    }

    /// Does the slot look for no huge frame of which half is free, as many looks have found none?
    pub(crate) fn gives_up(self) -> bool {
        let looks = self.without_room();
        looks >= IN_VAIN && !looks.is_multiple_of(ONE_IN)
    }

    /// A look has come across a huge frame of which half is free, or was for one in vain.
    pub(crate) fn looked_for_room(self, found: bool) {
        self.set_without_room(if found { 0 } else { self.without_room().saturating_add(1) });
    }

    /// Counts the holes that the slot has left here and there, at most so many. Each row into which it has freed is one. Each frame that it has allocated since it
    /// counted them last, beyond those freed meanwhile, has filled one, whatever the order of its block. Who frees what lies together leaves few holes; who frees one
    /// block of many and allocates another, more and more.
    pub(crate) fn count_holes(self, most: usize) -> usize {
        let (count, last) = (self.get(COUNT), self.get(LAST));
        let grown = (self.get(COUNTED).wrapping_sub(count) as isize).max(0) as usize;
        self.set(COUNTED, count);
        let holes = (last / BEFORE).min(most).saturating_sub(grown);
        self.set(LAST, holes.wrapping_mul(BEFORE).wrapping_add(last % BEFORE));
        holes
    }

    /// What the slot has freed last, unless that was forgotten: at hand.
    #[inline(always)]
    pub(crate) fn newest_at_hand<const OF: usize>(self) -> usize {
        self.get(const { RINGS[OF].newest })
    }

    /// The same, or one before, but for those that are forgotten.
    pub(crate) fn newest<const OF: usize>(self) -> Option<usize> {
        let of = const { RINGS[OF] };
        // Two calls may use one slot at once, so each word is read once.
        let newest = self.get(of.newest);
        if newest != NONE {
            return Some(newest);
        }
        let last = self.get(of.last);
        let before = self.get(of.first + last % of.length);
        if before == NONE {
            return None;
        }
        self.set(of.newest, before);
        self.set(of.first + last % of.length, NONE);
        self.set(of.last, last.checked_sub(1).unwrap_or(of.length - 1));
        Some(before)
    }

    /// Forgets it.
    #[inline(always)]
    pub(crate) fn forget_newest<const OF: usize>(self) {
        self.set(const { RINGS[OF].newest }, NONE);
    }

    /// Forgets all rows: none is found behind a place that has none.
    pub(crate) fn forget_all(self) {
        self.forget_newest::<ROWS>();
        self.set(LATELY + self.get(LAST) % BEFORE, NONE);
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base64K};

    fn words() -> [AtomicU64; Slots::words(3, 4)] {
        core::array::from_fn(|_| AtomicU64::new(77))
    }

    fn slots(words: &[AtomicU64]) -> Slots<'_> {
        let slots = Slots::new(words, 3, 4).expect("enough words");
        slots.start(&ClassPolicy::SHIPPED, (300, 100), 250);
        slots
    }

    #[test]
    fn counts_sum_up_and_slots_are_apart() {
        let words = words();
        let slots = slots(&words);
        let line = |slot| slots.line(slot).expect("a slot");
        let site = |slot, class| slots.site(slot, class).expect("a site");
        let [first, next] = [Class::MOVABLE, Class::IMMOVABLE].map(|class| site(0, class));
        assert_eq!(
            [first, next, site(2, Class::MOVABLE)].map(|site| site.cursor()),
            [0, 25, 200].map(|child| (child, 0))
        );
        assert!(slots.line(3).is_none() && slots.site(3, Class::MOVABLE).is_none());
        assert!(slots.site(0, Class(4)).is_none() && slots.sites(1).count() == 4);
        line(0).count(-8);
        line(2).count(3);
        slots.add(5);
        assert_eq!(slots.free(300), 250);
        first.set_row(0, 42);
        first.set_row(3, 43);
        assert_eq!(first.swap_target(2, 7), NONE);
        assert_eq!([0, 1, 5].map(|order| first.row(order)), [42, 43, 43]);
        assert_eq!((first.child(), next.child(), next.row(0)), (7, NONE, NONE));
        assert_eq!(site(1, Class::MOVABLE).row(0), NONE);
        assert_eq!([0, 1].map(|kind| first.swap_target(kind, 8 + kind)), [NONE; 2]);
        assert_eq!([0, 1, 5].map(|order| first.target(order)), [8, 9, 9]);
        assert_eq!(first.targets(), [8, 9, 7]);
        slots.heal(99);
        assert_eq!((slots.free(300), slots.free(98)), (99, 98));
        line(0).count(-100);
        assert_eq!(slots.free(300), 0);
    }

    #[test]
    fn a_site_knows_its_class_and_how_it_turns_to_others() {
        let words = words();
        let slots = slots(&words);
        for class in ClassPolicy::SHIPPED.all() {
            let site = slots.site(1, class).expect("a site");
            let fills = ClassPolicy::SHIPPED.fills(class).count();
            assert_eq!((site.class(), site.fills()), (class, fills));
            let turned = ClassPolicy::SHIPPED.turns(class).map(|of| site.turn(of));
            assert!(turned.eq(0..4));
            let filled = ClassPolicy::SHIPPED.fills(class).fold(0, |filled, of| filled | 1 << of.0);
            assert_eq!(site.filled(), filled);
        }
    }

    #[test]
    fn each_kind_of_blocks_has_a_target() {
        assert_eq!([0, 1, 5, 6, 9].map(Site::kind::<Base4K>), [0, 1, 1, 2, 2]);
        assert_eq!([0, 1, 4, 5].map(Site::kind::<Base64K>), [0, 1, 1, 2]);
    }

    /// In zones of any size: each slot has a part of its own as long as there are trees for all, and no two parts share more than a tree.
    #[test]
    fn the_parts_of_slots_are_whole_trees_and_apart() {
        let words = words();
        let slots = Slots::new(&words, 3, 4).expect("enough words");
        for (children, homes) in [
            (300, [0, 3, 6]),
            (288, [0, 3, 6]),
            (322, [0, 3, 7]),
            (96, [0, 1, 2]),
            (64, [0, 0, 1]),
            (2, [0, 0, 0]),
        ] {
            slots.start(&ClassPolicy::SHIPPED, (children, 32), 250);
            let begun = [0, 1, 2].map(|slot| slots.line(slot).map(Line::home));
            assert_eq!(begun, homes.map(|tree| Some(32 * tree)), "{children} children");
        }
    }

    #[test]
    fn the_cursor_and_the_patience_share_a_word() {
        let words = words();
        let slots = slots(&words);
        let site = slots.site(0, Class::HUGE).expect("a site");
        site.set_patience(512);
        site.set_cursor(299);
        assert_eq!(site.cursor(), (299, 512));
        site.set_patience(3);
        assert_eq!(site.cursor(), (299, 3));
    }

    #[test]
    fn the_newest_row_comes_first_and_the_oldest_is_forgotten() {
        let words = words();
        let slots = slots(&words);
        let line = slots.line(1).expect("a slot");
        let next = || line.newest::<ROWS>().inspect(|_| line.forget_newest::<ROWS>());
        assert_eq!((next(), line.newest_at_hand::<ROWS>()), (None, NONE));
        [5, 5, 6, 5].into_iter().for_each(|row| line.freed::<ROWS>(row));
        assert_eq!([(); 4].map(|()| next()), [Some(5), Some(6), Some(5), None]);
        (0..BEFORE + 4).for_each(|row| line.freed::<ROWS>(row));
        line.set_abroad(77);
        assert_eq!((line.newest_at_hand::<ROWS>(), line.abroad()), (BEFORE + 3, 77));
        (3..BEFORE + 4).rev().for_each(|row| assert_eq!(next(), Some(row)));
        assert_eq!(next(), None);
        [5, 6, 7].into_iter().for_each(|row| line.freed::<ROWS>(row));
        line.forget_all();
        assert_eq!(next(), None);
        [8, 9].into_iter().for_each(|row| line.freed::<ROWS>(row));
        assert_eq!([(); 3].map(|()| next()), [Some(9), Some(8), None]);
    }

    #[test]
    fn holes_are_left_by_frees_here_and_there_and_filled_by_growth() {
        let words = words();
        let slots = slots(&words);
        let line = slots.line(1).expect("a slot");
        let frees = |rows: usize, each: usize| {
            (0..rows * each).for_each(|n| line.freed::<ROWS>(n / each));
            line.count((rows * each) as isize);
        };
        assert_eq!(line.count_holes(99), 0);
        // The newest of five is at hand, and is no hole yet.
        frees(5, 64);
        assert_eq!([(); 2].map(|()| line.count_holes(99)), [4; 2]);
        // What is freed is allocated again before anything is filled.
        frees(5, 1);
        line.count(-5);
        assert_eq!(line.count_holes(99), 9);
        line.count(-3);
        assert_eq!([(); 2].map(|()| line.count_holes(99)), [6; 2]);
        let rows =
            [(); 4].map(|()| line.newest::<ROWS>().inspect(|_| line.forget_newest::<ROWS>()));
        assert_eq!(
            (rows, line.count_holes(99)),
            ([4, 3, 2, 1].map(Some), 6),
            "they are remembered"
        );
        line.count(-7);
        assert_eq!(line.count_holes(99), 0);
        (0..3 * BEFORE).for_each(|row| line.freed::<ROWS>(row));
        // The place of the last is in the same word: what that adds is one in as many as it has.
        assert!((3 * BEFORE - 1..3 * BEFORE + 4).contains(&line.count_holes(usize::MAX)));
        assert_eq!([99, usize::MAX].map(|most| line.count_holes(most)), [99; 2]);
        // Two calls may use one slot at once, and leave anything there.
        words.iter().for_each(|word| word.store(NONE as u64, Relaxed));
        assert!(line.count_holes(99) <= 99);
        (0..2 * BEFORE).for_each(|row| line.freed::<ROWS>(row));
        assert!(line.count_holes(99) <= 99);
    }

    /// What a slot takes over, of rows, that is odd.
    fn taken_over(slots: &Slots<'_>, line: Line<'_>) -> [Option<usize>; TAKEN_OVER] {
        slots.take_over::<ROWS>(line, |row| row % 2 == 1);
        core::array::from_fn(|nth| {
            let row = line.of_others::<ROWS>(nth);
            line.forget_of_others::<ROWS>(nth);
            (row != NONE).then_some(row)
        })
    }

    /// A slot frees a frame of each of these rows.
    fn frees(line: Line<'_>, rows: impl IntoIterator<Item = usize>) {
        for row in rows {
            line.freed::<ROWS>(row);
            line.count(1);
        }
    }

    #[test]
    fn a_slot_takes_over_what_another_has_left_that_frees_more_than_it_allocates() {
        let words = words();
        let slots = slots(&words);
        let [first, other] = [0, 2].map(|slot| slots.line(slot).expect("a slot"));
        let take = || taken_over(&slots, first);
        let nothing = [None; TAKEN_OVER];
        frees(other, 0..BEFORE);
        other.count(-1);
        assert_eq!([take(), take()], [nothing; 2]);
        other.count(1);
        // The oldest that is wanted comes first, and a cache line of it.
        let odd = |from: usize| core::array::from_fn(|n| Some(from + 2 * n));
        assert_eq!([take(), take()], [odd(1), odd(1 + 2 * TAKEN_OVER)]);
        // What is not wanted stays where it was, and what is taken over is gone. So is what came before it.
        let back = || other.newest::<ROWS>().inspect(|_| other.forget_newest::<ROWS>());
        assert!((4 * TAKEN_OVER..BEFORE).rev().all(|row| back() == Some(row)));
        assert_eq!((back(), take()), (None, nothing));
    }

    #[test]
    fn a_slot_goes_on_where_it_has_looked_last() {
        let words = words();
        let slots = slots(&words);
        let [first, other] = [0, 1].map(|slot| slots.line(slot).expect("a slot"));
        let take = || taken_over(&slots, first);
        let odd = |n: usize| core::array::from_fn(|at| Some(2 * (n + at) + 1));
        let mut freed = 0;
        // Says which the oldest is that is remembered: but for the newest, as many as a ring has.
        let mut more = |rows: usize| {
            frees(other, (freed..freed + rows).map(|n| 2 * n + 1));
            freed += rows;
            freed - 1 - BEFORE
        };
        let mut at = more(2 * BEFORE);
        for _ in 0..BEFORE / TAKEN_OVER {
            assert_eq!(take(), odd(at));
            at += TAKEN_OVER;
        }
        assert_eq!(take(), [None; TAKEN_OVER]);
        // As many as a ring has, and twice as many: the place of the last is the same.
        for laps in [1, 2] {
            at = more(laps * BEFORE);
            assert_eq!([take(), take()], [odd(at), odd(at + TAKEN_OVER)], "{laps}");
        }
        // It has fallen behind, by more than is remembered.
        at = more(3 * BEFORE + 5);
        assert_eq!(take(), odd(at));
        more(3);
        assert_eq!(take(), odd(at + TAKEN_OVER));
        // What that slot takes back is not new; nor is all that it still has, where it has counted its holes.
        while take() != [None; TAKEN_OVER] {}
        let last = more(TAKEN_OVER) + BEFORE;
        assert_eq!(other.newest::<ROWS>(), Some(2 * last + 1));
        other.forget_newest::<ROWS>();
        assert_eq!(other.newest::<ROWS>(), Some(2 * last - 1));
        assert_eq!(take(), odd(last - TAKEN_OVER).map(|row| row.filter(|&row| row < 2 * last - 1)));
        other.count_holes(0);
        assert_eq!(take(), [None; TAKEN_OVER]);
        more(TAKEN_OVER + 1);
        assert_eq!(take().into_iter().flatten().count(), TAKEN_OVER);
        // Nor is what was passed.
        frees(other, (0..=BEFORE).map(|n| 2 * n));
        (0..BEFORE).for_each(|_| assert_eq!(take(), [None; TAKEN_OVER]));
        other.count_holes(0);
        assert!(!slots.take_over::<ROWS>(first, |_| true));
    }

    #[test]
    fn a_slot_asks_a_few_others_at_once_and_passes_a_few_rows() {
        const MANY: usize = 7;
        let words: [AtomicU64; Slots::words(MANY, 1)] =
            core::array::from_fn(|_| AtomicU64::new(77));
        let slots = Slots::new(&words, MANY, 1).expect("enough words");
        slots.start(&ClassPolicy::SHIPPED, (300, 100), 250);
        let line = |slot| slots.line(slot).expect("a slot");
        let (first, other) = (line(0), line(MANY - 1));
        let take = || taken_over(&slots, first)[0];
        // The one that is followed, nobody, and three others.
        frees(other, (0..=BEFORE).map(|n| 2 * n + 1));
        assert_eq!([take(), take()], [None, Some(1)]);
        while take().is_some() {}
        // It goes on with that one, and behind those that it has asked before where that has nothing.
        let nearer = line(1);
        frees(nearer, (0..=BEFORE).map(|n| 2 * n + 1));
        frees(other, [4 * BEFORE + 1, 2]);
        assert_eq!([take(), take(), take()], [Some(2 * BEFORE + 1), None, Some(1)]);
        // What is not wanted is passed, so much at once.
        while take().is_some() {}
        let looks = PASSED / UNWANTED;
        frees(nearer, (0..2 * looks).map(|n| 2 * n).chain([1, 3]));
        assert_eq!([take(), take(), take()], [Some(2 * BEFORE + 1), None, Some(1)]);
    }

    #[test]
    fn holes_are_taken_over_as_rows_are_and_kept_where_there_is_room() {
        let words = words();
        let slots = slots(&words);
        let [first, other] = [0, 1].map(|slot| slots.line(slot).expect("a slot"));
        (0..=2 * TAKEN_OVER).for_each(|child| other.freed::<HOLES>(child));
        other.count(HOLES_BEFORE as isize - 1);
        assert!(!slots.take_over::<HOLES>(first, |_| true));
        other.count(1);
        assert!(slots.take_over::<HOLES>(first, |_| true));
        let kept = || core::array::from_fn(|nth| first.of_others::<HOLES>(nth));
        let mut all: [usize; TAKEN_OVER] = core::array::from_fn(|nth| nth);
        assert_eq!((kept(), first.newest::<HOLES>()), (all, None));
        // There is room for two; and where there is none, for one.
        [3, 6].into_iter().for_each(|nth| first.forget_of_others::<HOLES>(nth));
        for places in [&[3, 6][..], &[0]] {
            assert!(slots.take_over::<HOLES>(first, |_| true));
            let next = all.into_iter().max().expect("some") + 1;
            places.iter().zip(next..).for_each(|(&nth, hole)| all[nth] = hole);
            assert_eq!(kept(), all);
        }
        assert_eq!(other.newest::<HOLES>(), Some(2 * TAKEN_OVER));
    }

    #[test]
    fn who_allocates_again_what_it_has_freed_has_not_grown() {
        let words = words();
        let slots = slots(&words);
        let line = slots.line(1).expect("a slot");
        assert!(!line.has_grown());
        for grown in [true, false, false] {
            line.count(-64);
            assert_eq!([line.has_grown(), line.has_grown()], [grown, false]);
            line.count(64);
            assert!(!line.has_grown());
        }
        line.count(-65);
        assert!(line.has_grown());
    }
}
