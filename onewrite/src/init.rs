//! How a zone is made: the huge frames that cover it, the frames outside, and recovery.
//!
//! ```text
//!   base       start                              end
//!   ├── pair ──┼── pair ──┼── pair ──┼── pair ─────┼──┤
//!   ▓▓▓▓▓▓▓▓▓▓▓                                    ▓▓▓     outside: allocated for ever
//! ```
//!
//! The children begin with the first frame of the zone, rounded down to a block of the largest order. Rows that lie
//! outside are taken, rows that an end cuts are open, and the frames outside never free. No free reaches
//! them, because every free is checked against the zone.
//!
//! # Recovery
//! Rows, their states and flags are durable. A recovery accepts any bytes: it believes the states, of open rows the bits, and of the flags
//! what is reclaimed. What a part of a huge frame says about being offline becomes allocated: better lost
//! than handed out twice. A row of which every frame is free is closed.

use core::ops::Range;

use woodlot_frame::atomics::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use woodlot_frame::{Class, FlagsWord, Geometry, Init, InitError, ZoneConfig};

use crate::OneWrite;
use crate::child::{self, FREE, OFFLINE, OPEN, Part, TAKEN};
use crate::ones::Ones;
use crate::row::Rows;
use crate::words::{Flags, LANE, of_class};

/// The most slots.
const MAX_SLOTS: usize = 1 << 16;
/// The most frames.
const MAX_FRAMES: usize = 1 << (usize::BITS - 8);

/// The huge frames over a zone.
#[derive(Clone, Copy)]
pub(crate) struct Ground {
    /// The number of the first child's first frame.
    pub(crate) base: usize,
    pub(crate) children: usize,
    /// Children of a slot's part of the zone, in which it looks first: as many whole trees for each slot, of which neighbours share
    /// one where they do not come out even.
    pub(crate) part: usize,
    /// Where the zone begins and ends, counted from there.
    pub(crate) start: usize,
    end: usize,
}

impl Ground {
    /// # Errors
    /// What is wrong with the zone.
    pub(crate) fn of<G: Geometry>(zone: &ZoneConfig) -> Result<Self, InitError> {
        let () = G::FITS;
        zone.check(MAX_FRAMES, MAX_SLOTS)?;
        let start = zone.start.0 & (G::MAX_FRAMES - 1);
        let end = start + zone.frames;
        let children = 2 * end.div_ceil(G::MAX_FRAMES);
        let trees = children.div_ceil(G::TREE);
        let part = trees.div_ceil(zone.slots).max(1) * G::TREE;
        Ok(Ground { base: zone.start.0 - start, children, part, start, end })
    }

    /// Does the block of `order` lie in the zone that is so many frames from the base, and is it aligned?
    #[inline(always)]
    pub(crate) const fn has(&self, offset: usize, order: u32) -> bool {
        // The base is a multiple of the largest block, so the last frame of one that is aligned differs in these bits.
        let within = (1 << order) - 1;
        offset & within == 0 && offset >= self.start && offset | within < self.end
    }

    /// The words of states of which every row lies in the zone.
    fn inner_words<G: Geometry>(&self) -> Range<usize> {
        let frames = G::WORD_ROWS << G::ROW_ORDER;
        let end = self.end / frames;
        self.start.div_ceil(frames).min(end)..end
    }

    /// The frames of a row that lie in the zone, as bits.
    fn inside<G: Geometry>(&self, row: usize) -> u64 {
        let first = row << G::ROW_ORDER;
        let before = |frame: usize| match frame.saturating_sub(first) {
            frames if frames >= 64 => !0,
            frames => (1u64 << frames) - 1,
        };
        G::ALL & before(self.end) & !before(self.start)
    }
}

impl<G: Geometry> OneWrite<'_, G> {
    /// Begins anew, whatever the words are, of which nobody else uses any yet. Returns how many frames are free.
    pub(crate) fn start_anew(&self, init: Init) -> usize {
        self.clear(init);
        self.start(init)
    }

    /// Makes every word 0 that [`start`](Self::start) wants to be 0.
    fn clear(&self, init: Init) {
        let clear = |words: &[AtomicU64]| words.iter().for_each(|word| word.store(0, Relaxed));
        if init != Init::Recover {
            [self.rows, self.states, self.flags].into_iter().for_each(clear);
        }
        clear(self.trees);
        self.hints.iter().for_each(|hint| hint.store(0, Relaxed));
    }

    /// Writes every word that is not 0 in a zone that begins so. Nobody else uses the zone yet; its volatile words are 0, and if it is not a
    /// recovery its durable ones, too. Returns how many frames are free. A recovery may be cut off at any write, and begun anew: it finds what it found.
    pub(crate) fn start(&self, init: Init) -> usize {
        let (all, _) = Part::pair::<G>(0);
        let inner = self.ground.inner_words::<G>();
        let mut free = match init {
            Init::Free => inner.len() * all.frames::<G>(),
            Init::Allocated => {
                (0..self.states.len()).for_each(|word| set(self.states, word, all.all(TAKEN)));
                0
            }
            Init::Recover => self.recover_words(inner.clone()),
        };
        let ends = (0..inner.start).chain(inner.end..self.states.len());
        let ends = ends.flat_map(|word| word * G::SHARERS..(word + 1) * G::SHARERS);
        free += ends.map(|child| self.start_child(child)).sum::<usize>();
        if init == Init::Recover {
            self.recover_flags();
        }
        if init != Init::Free {
            // What is in use is of the first class.
            (0..self.trees.len()).for_each(|tree| set(self.trees, tree, of_class(Class::MOVABLE)));
        }
        self.slots.start(&self.zone.classes, (self.ground.children, G::TREE), free);
        free
    }

    /// Recovers the huge frames of these words of states, which lie in the zone. Returns how many frames are free.
    fn recover_words(&self, words: Range<usize>) -> usize {
        let (mut closed, mut singly) = (0, Ones::default());
        let states = self.states.iter().zip(self.rows.chunks_exact(G::WORD_ROWS));
        let (all, _) = Part::pair::<G>(0);
        for (word, (states, rows)) in states.enumerate().take(words.end).skip(words.start) {
            let said = states.load(Relaxed) & all.mask();
            if all.is_closed(said) {
                closed += all.free_frames::<G>(said);
                rows.iter().for_each(|row| put(row, 0));
                continue;
            }
            for (rows, child) in rows.chunks_exact(G::ROWS).zip(word * G::SHARERS..) {
                let whole = Part::whole::<G>(child);
                if Self::is_sound(whole.lowest::<G>(said), rows) {
                    closed += whole.free_frames::<G>(said);
                    singly.add(rows);
                } else {
                    closed += self.start_child(child);
                }
            }
        }
        closed + singly.count()
    }

    /// Writes what is to change in a huge frame of which some rows are outside, or there is something to repair. Returns how many frames are free.
    fn start_child(&self, child: usize) -> usize {
        let (part, said) = (Part::whole::<G>(child), self.states(child));
        let whole = part.rows::<G>().all(|row| self.ground.inside::<G>(row) == G::ALL);
        let offline = whole && part.is(said, OFFLINE);
        let (mut free, mut states, mut closed) = (0, 0, 0);
        for row in part.rows::<G>() {
            let said = match child::state::<G>(said, row) {
                OFFLINE if !offline => TAKEN,
                said => said,
            };
            let (state, bits) = self.started_row(row, said);
            states = Part::row::<G>(row).with(states, state);
            free += if state == FREE { G::ROW_FRAMES } else { bits.count_ones() as usize };
            if state == OPEN {
                set(self.rows, row, bits);
            } else {
                closed |= child::lower::<G>(row);
            }
        }
        // Those of the other huge frame of the word stay. Bits behind mean nothing.
        let (all, _) = Part::pair::<G>(child - child % G::SHARERS);
        let (word, beside) = (part.word::<G>(), self.states_in(all) & !part.mask());
        set(self.states, word, beside | states);
        // Only now: a row is closed with its bits, so that a recovery that is cut off here loses none. One that is opened has its bits before.
        child::rows_in::<G>(child, closed).for_each(|row| set(self.rows, row, 0));
        free
    }

    /// Is there nothing to repair in a huge frame with these states of its rows: no closed row has bits, none is offline, and some frame of each open
    /// one is allocated?
    #[inline(always)]
    fn is_sound(said: u64, rows: &[AtomicU64]) -> bool {
        let all = |end: fn(u64, usize) -> u64| {
            let within = |(n, row): (usize, &AtomicU64)| row.load(Relaxed) < end(said, n);
            rows.iter().enumerate().fold(true, |sound, row| sound & within(row))
        };
        // Nearly always, of memory that has been in use for long.
        if Part::whole::<G>(0).is(said, OPEN) {
            return all(|_, _| G::ALL);
        }
        all(|said, n| G::BITS_END[child::state::<G>(said, n) as usize])
    }

    /// Leaves of the flags what outlives a crash, of huge frames that lie wholly in the zone.
    fn recover_flags(&self) {
        let (start, end) =
            (self.ground.start.div_ceil(G::HUGE_FRAMES), self.ground.end >> G::HUGE_ORDER);
        for (word, first) in self.flags.iter().zip((0..).step_by(LANE)) {
            let before: Flags = FlagsWord(word.load(Relaxed));
            let below = |child: usize| (1u64 << child.saturating_sub(first).min(LANE)) - 1;
            put(word, before.recovered(below(end) & !below(start)).0);
        }
    }

    /// The state and the bits that a row begins with of which a state is said.
    fn started_row(&self, row: usize, said: u64) -> (u64, u64) {
        let inside = self.ground.inside::<G>(row);
        let bits = match said {
            FREE => inside,
            OPEN => inside & self.rows.get(row).map_or(0, |word| word.load(Relaxed)),
            _ => 0,
        };
        match said {
            _ if inside == 0 => (TAKEN, 0),
            _ if bits == G::ALL => (FREE, 0),
            _ if inside != G::ALL => (OPEN, bits),
            said => (said, bits),
        }
    }
}

/// Writes a word of a zone that nobody else uses yet, if it is to change, after those before it: whoever recovers after a death here sees them in this
/// order.
#[inline(always)]
fn put(word: &AtomicU64, value: u64) {
    if word.load(Relaxed) != value {
        word.store(value, Release);
    }
}

/// The same of the word at `index`, if there is one.
#[inline(always)]
fn set(words: &[AtomicU64], index: usize, value: u64) {
    words.get(index).into_iter().for_each(|word| put(word, value));
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{
        Base4K, Base64K, FrameAllocator, FrameId, FreeError, Order, Owned, Request, Slot,
    };

    /// A recovery writes to a huge frame only where there is something to repair.
    #[test]
    fn what_is_sound_is_counted_and_left_alone() {
        type OneWrite<'a> = crate::OneWrite<'a, Base4K>;

        let part = |first, count, state| Part::of::<Base4K>(0, first, count).all(state);
        let open = part(0, 8, OPEN);
        let cases = [
            (open, [1, 0, 3, !1, 0, 0, 0, 1 << 63], Some(67)),
            (part(1, 2, OPEN) | part(0, 1, TAKEN), [0, 5, 7, 0, 0, 0, 0, 0], Some(5 + 5 * 64)),
            (open, [1, 0, 3, !0, 0, 0, 0, 0], None),
            (part(0, 7, OPEN) | part(7, 1, TAKEN), [1, 0, 0, 0, 0, 0, 0, 1], None),
            (part(0, 7, OPEN), [1, 0, 0, 0, 0, 0, 0, 1], None),
            (part(0, 7, OPEN) | part(7, 1, OFFLINE), [1, 0, 0, 0, 0, 0, 0, 0], None),
        ];
        for (states, bits, expected) in cases {
            let zone = Owned::<OneWrite<'_>>::new(&ZoneConfig::new(1024, 1), Init::Allocated);
            let zone = zone.expect("a zone");
            // The other huge frame of the word is allocated, and bits behind mean nothing.
            set(zone.states, 0, states | Part::whole::<Base4K>(1).all(TAKEN) | !0 << 32);
            bits.into_iter().enumerate().for_each(|(row, bits)| set(zone.rows, row, bits));
            let sound = OneWrite::is_sound(states, &zone.rows[..8]);
            assert_eq!(sound, expected.is_some(), "{bits:x?}");
            let free = zone.start_anew(Init::Recover);
            assert_eq!(free, zone.stats().free_frames, "{bits:x?}");
            assert!(OneWrite::is_sound(zone.states(0), &zone.rows[..8]), "{bits:x?}: repaired");
            let after = || [0, 1, 2, 3, 4, 5, 6, 7].map(|row| zone.bits(row));
            let words =
                || [0, 1].map(|word: usize| zone.states[word % zone.states.len()].load(Relaxed));
            let once = words();
            assert_eq!(
                (zone.start_anew(Init::Recover), words()),
                (free, once),
                "a second recovery"
            );
            assert!(expected.is_none_or(|of| free == of && after() == bits), "{bits:x?}: {free}");
        }
        // Of 32 frames.
        let sound = |bits| crate::OneWrite::<Base64K>::is_sound(OPEN, &[AtomicU64::new(bits)]);
        assert_eq!(
            [1, 1 << 31, 1 << 32, u64::from(u32::MAX)].map(sound),
            [true, true, false, false]
        );
    }

    /// What is free is counted in rows of which the ends cut off a part as well, and in those behind the ends.
    #[test]
    fn what_is_free_at_first_is_counted() {
        let config = ZoneConfig::new(1000, 1).starting_at(FrameId(1034));
        let zone = Owned::<OneWrite<Base4K>>::new(&config, Init::Allocated).expect("a zone");
        let order = Order(0);
        for frame in [1034, 1100, 2033] {
            assert_eq!(zone.free(FrameId(frame), order, Slot(0)), Ok(()));
        }
        assert_eq!(zone.start_anew(Init::Recover), 3);
        assert_eq!([Init::Allocated, Init::Free].map(|init| zone.start_anew(init)), [0, 1000]);
        let request = Request::new(order, Class::MOVABLE, Slot(0));
        assert_eq!(zone.alloc(request.at(FrameId(1500))), Ok(FrameId(1500)));
        assert_eq!([Init::Recover; 2].map(|init| zone.start_anew(init)), [999; 2]);
    }

    /// Of huge frames that lie wholly in the zone; and only a recovery believes anything.
    #[test]
    fn flags_begin_with_what_outlives_a_crash() {
        const HUGE: usize = Base4K::HUGE_FRAMES;
        let config = ZoneConfig::new(70 * HUGE, 1).starting_at(FrameId(2 * HUGE + 5));
        let zone = Owned::<OneWrite<Base4K>>::new(&config, Init::Free).expect("a zone");
        // The first huge frame is cut, and so is the last, with which a pair begins; bits behind mean nothing.
        let recovered = [!1 & 0xffff_ffff, 0xffff_ffff, 0x3f];
        for (init, expected) in
            [(Init::Recover, recovered), (Init::Allocated, [0; 3]), (Init::Free, [0; 3])]
        {
            assert_eq!(zone.flags.len(), 3);
            zone.flags.iter().for_each(|word| word.store(!0, Relaxed));
            let _ = zone.start_anew(init);
            let flags = [0, 1, 2].map(|word: usize| zone.flags[word].load(Relaxed));
            assert_eq!(flags, expected, "{init:?}");
        }
    }

    #[test]
    fn the_largest_zone_and_the_most_slots() {
        let of = |start, frames, slots| {
            let zone = ZoneConfig::new(frames, slots).starting_at(FrameId(start));
            Ground::of::<Base4K>(&zone).map(|ground| ground.children)
        };
        assert_eq!(of(0, MAX_FRAMES, MAX_SLOTS), Ok(MAX_FRAMES >> Base4K::HUGE_ORDER));
        assert_eq!(of(0, MAX_FRAMES + 1, 1), Err(InitError::ZoneTooLarge));
        assert_eq!(of(usize::MAX, 1, 1), Err(InitError::ZoneTooLarge));
        assert_eq!(of(0, 1, MAX_SLOTS + 1), Err(InitError::TooManySlots));
    }

    /// Where an end of the zone cuts a row, which is open then, the frames beyond are not in use: they are none.
    #[test]
    fn frames_beyond_the_ends_are_refused() {
        let config = ZoneConfig::new(1000, 1).starting_at(FrameId(1035));
        let zone = Owned::<OneWrite<Base4K>>::new(&config, Init::Allocated).expect("a zone");
        for (frame, order) in [(1034, 0), (2035, 0), (1034, 1), (2034, 1), (2032, 2)] {
            let refused = zone.free(FrameId(frame), Order(order), Slot(0));
            assert!(matches!(refused, Err(FreeError::OutOfRange(_))), "{frame}: {refused:?}");
        }
        assert_eq!(zone.stats().free_frames, 0);
    }

    #[test]
    fn the_ends_cut_rows() {
        let zone = ZoneConfig::new(100, 1).starting_at(FrameId(1034));
        let ground = Ground::of::<Base4K>(&zone).expect("a zone");
        assert_eq!((ground.base, ground.children), (1024, 2));
        let inside = [0, 1, 2].map(|row| ground.inside::<Base4K>(row));
        assert_eq!(inside, [!0 << 10, (1 << 46) - 1, 0]);
        // Words of 1024 frames, of which the zone begins with the eleventh of the first.
        let inner = |frames| {
            let zone = ZoneConfig::new(frames, 1).starting_at(FrameId(1034));
            let free = Owned::<OneWrite<Base4K>>::new(&zone, Init::Free).map(|zone| zone.stats());
            assert_eq!(free.map(|stats| stats.free_frames), Ok(frames));
            Ground::of::<Base4K>(&zone).map(|ground| ground.inner_words::<Base4K>())
        };
        let words = [100, 1014, 2037, 2038, 3062].map(inner);
        assert_eq!(words, [0..0, 1..1, 1..1, 1..2, 1..3].map(Ok));
    }
}
