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

use woodlot_frame::atomics::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use woodlot_frame::{Class, FlagsWord, Geometry, Init, InitError, ZoneConfig};

use crate::OneWrite;
use crate::child::{self, FREE, OFFLINE, OPEN, Part, TAKEN};
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
    /// Writes every word. Nobody else uses the zone yet. Returns how many frames are free. A recovery may be cut off at any write, and begun
    /// anew: it finds what it found.
    pub(crate) fn start(&self, init: Init) -> usize {
        let mut free = 0;
        for (word, rows) in self.rows.chunks_exact(G::WORD_ROWS).enumerate() {
            let (part, _) = Part::pair::<G>(word * G::SHARERS);
            let said = match init {
                Init::Free => part.all(FREE),
                Init::Allocated => part.all(TAKEN),
                Init::Recover => self.states_in(part),
            };
            let first = part.offset::<G>();
            let end = first + part.frames::<G>();
            let inside = first >= self.ground.start && end <= self.ground.end;
            if inside && part.is_closed(said) {
                rows.iter().for_each(|row| clear(row, init));
                set(self.states, word, said);
                free += part.free_frames::<G>(said);
                continue;
            }
            let children = rows.chunks_exact(G::ROWS).zip(part.child..);
            free += children
                .map(|(rows, child)| self.start_child(child, said, rows, init))
                .sum::<usize>();
        }
        self.start_flags(init);
        self.hints.iter().for_each(|hint| hint.store(0, Relaxed));
        // What is in use is of the first class.
        let trees = if init == Init::Free { 0 } else { of_class(Class::MOVABLE) };
        (0..self.trees.len()).for_each(|tree| set(self.trees, tree, trees));
        free
    }

    /// Writes the rows of a huge frame of which some are open, offline, or outside, if there is something to write. Returns how many frames are free.
    #[inline(always)]
    fn start_child(&self, child: usize, said: u64, rows: &[AtomicU64], init: Init) -> usize {
        let part = Part::whole::<G>(child);
        let first = part.offset::<G>();
        let inside = first >= self.ground.start && first + G::HUGE_FRAMES <= self.ground.end;
        if inside
            && init == Init::Recover
            && let Some(sound) = Self::free_in_sound(part.lowest::<G>(said), rows)
        {
            return sound;
        }
        let whole = part.rows::<G>().all(|row| self.ground.inside::<G>(row) == G::ALL);
        let offline = whole && part.is(said, OFFLINE);
        let (mut free, mut states, mut empty) = (0, 0, 0);
        for row in part.rows::<G>() {
            let said = match child::state::<G>(said, row) {
                OFFLINE if !offline => TAKEN,
                said => said,
            };
            let (state, bits) = self.started_row(row, said);
            states = Part::row::<G>(row).with(states, state);
            free += if state == FREE { G::ROW_FRAMES } else { bits.count_ones() as usize };
            if bits == 0 {
                empty |= child::lower::<G>(row);
            } else {
                set(self.rows, row, bits);
            }
        }
        // Those of the other huge frame of the word stay. Bits behind mean nothing.
        let (all, _) = Part::pair::<G>(child - child % G::SHARERS);
        let (word, beside) = (part.word::<G>(), self.states_in(all) & !part.mask());
        set(self.states, word, beside | states);
        // Only now: a row is closed with its bits, so that a recovery that is cut off here loses none.
        child::rows_in::<G>(child, empty).for_each(|row| set(self.rows, row, 0));
        free
    }

    /// How many frames are free of a huge frame, with these states of its rows, in which there is nothing to repair: no closed row has bits, none is
    /// offline, and some frame of each open one is allocated.
    #[inline(always)]
    fn free_in_sound(said: u64, rows: &[AtomicU64]) -> Option<usize> {
        let is_sound = |(n, row): (usize, &AtomicU64)| {
            let bits = row.load(Relaxed);
            match child::state::<G>(said, n) {
                OFFLINE => false,
                OPEN => bits < G::ALL,
                _ => bits == 0,
            }
        };
        let sound = rows.iter().enumerate().fold(true, |sound, row| sound & is_sound(row));
        // Counted apart: in one loop with the above it takes half as long again.
        let singly = rows.iter().map(|row| row.load(Relaxed).count_ones() as usize);
        let closed = Part::whole::<G>(0).free_frames::<G>(said);
        sound.then(|| closed + singly.sum::<usize>())
    }

    /// Of what outlives a crash, the flags of huge frames that lie wholly in the zone; of anything else none.
    fn start_flags(&self, init: Init) {
        let (start, end) =
            (self.ground.start.div_ceil(G::HUGE_FRAMES), self.ground.end >> G::HUGE_ORDER);
        for (word, first) in self.flags.iter().zip((0..).step_by(LANE)) {
            let before: Flags = FlagsWord(word.load(Relaxed));
            let below = |child: usize| (1u64 << child.saturating_sub(first).min(LANE)) - 1;
            let existing = below(end) & !below(start);
            let after =
                if init == Init::Recover { before.recovered(existing) } else { FlagsWord(0) };
            if after != before {
                word.store(after.0, Release);
            }
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

/// Makes the bits of a closed row 0; a recovery leaves those alone that are, as nearly all of them.
#[inline(always)]
fn clear(row: &AtomicU64, init: Init) {
    if init != Init::Recover || row.load(Relaxed) != 0 {
        row.store(0, Relaxed);
    }
}

/// Writes a word of a zone that nobody else uses yet, after those before it: whoever recovers after a death here sees them in this order.
#[inline(always)]
fn set(words: &[AtomicU64], index: usize, value: u64) {
    words.get(index).into_iter().for_each(|word| word.store(value, Release));
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base64K, FrameAllocator, FrameId, Order, Owned, Request, Slot};

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
            let sound = OneWrite::free_in_sound(states, &zone.rows[..8]);
            assert_eq!(sound, expected, "{bits:x?}");
            let free = zone.start(Init::Recover);
            assert_eq!(free, zone.stats().free_frames, "{bits:x?}");
            let after = || [0, 1, 2, 3, 4, 5, 6, 7].map(|row| zone.bits(row));
            let words =
                || [0, 1].map(|word: usize| zone.states[word % zone.states.len()].load(Relaxed));
            let once = words();
            assert_eq!((zone.start(Init::Recover), words()), (free, once), "a second recovery");
            assert!(expected.is_none_or(|of| free == of && after() == bits), "{bits:x?}: {free}");
        }
        // Of 32 frames.
        let sound = |bits| crate::OneWrite::<Base64K>::free_in_sound(OPEN, &[AtomicU64::new(bits)]);
        assert_eq!(
            [1, 1 << 31, 1 << 32, u64::from(u32::MAX)].map(sound),
            [Some(1), Some(1), None, None]
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
        assert_eq!(zone.start(Init::Recover), 3);
        assert_eq!([Init::Allocated, Init::Free].map(|init| zone.start(init)), [0, 1000]);
        let request = Request::new(order, Class::MOVABLE, Slot(0));
        assert_eq!(zone.alloc(request.at(FrameId(1500))), Ok(FrameId(1500)));
        assert_eq!([Init::Recover; 2].map(|init| zone.start(init)), [999; 2]);
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
            let _ = zone.start(init);
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

    #[test]
    fn the_ends_cut_rows() {
        let zone = ZoneConfig::new(100, 1).starting_at(FrameId(1034));
        let ground = Ground::of::<Base4K>(&zone).expect("a zone");
        assert_eq!((ground.base, ground.children), (1024, 2));
        let inside = [0, 1, 2].map(|row| ground.inside::<Base4K>(row));
        assert_eq!(inside, [!0 << 10, (1 << 46) - 1, 0]);
    }
}
