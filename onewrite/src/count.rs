//! What can be seen of a zone without changing it.

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{ClassStats, FrameId, Geometry, HugeId, MAX_CLASSES, Stats};

use crate::OneWrite;
use crate::child::{self, FREE, OFFLINE, OPEN, Part, TAKEN};
use crate::row::Rows;
use crate::words::load;

/// The bits of rows laid over one another: those that any row has, and those that two have or more. No branch depends on what
/// rows have; who knows that no two have a bit in common counts once for all.
#[inline(always)]
fn laid_over(rows: &[AtomicU64]) -> (u64, u64) {
    rows.iter().fold((0, 0), |(any, twice), word| {
        let bits = load(Some(word));
        (any | bits, twice | any & bits)
    })
}

impl<G: Geometry> OneWrite<'_, G> {
    /// The free frames of a row, as bits; none of an isolated huge frame.
    pub(crate) fn bits_free(&self, row: usize) -> u64 {
        match self.state(row) {
            _ if self.isolates(row / G::ROWS) => 0,
            FREE if row < self.rows.len() => G::ALL,
            OPEN => self.bits(row),
            _ => 0,
        }
    }

    /// The allocated frames of a row, as bits; also those outside the zone.
    pub(crate) fn used_bits(&self, row: usize) -> u64 {
        match self.state(row) {
            TAKEN => G::ALL,
            OPEN => G::ALL & !self.bits(row),
            _ => 0,
        }
    }

    /// How many frames of a child are free, isolated or not.
    pub(crate) fn free_in_child(&self, child: usize) -> usize {
        self.free_frames_of(child, self.states(child))
    }

    /// The same of one whose rows are in these states.
    pub(crate) fn free_frames_of(&self, child: usize, states: u64) -> usize {
        let free = Self::free_closed(child, states);
        let open = self.open_rows_of(child, states);
        open.fold(free, |free, row| free + self.bits(row).count_ones() as usize)
    }

    /// How many frames are free in rows of a child that are not open, whose rows are in these states.
    #[inline(always)]
    pub(crate) fn free_closed(child: usize, states: u64) -> usize {
        Part::whole::<G>(child).free_frames::<G>(states)
    }

    /// How many frames are free of the child of a row, if there is such a row; wrong for rows that are just opened or closed.
    #[inline(always)]
    pub(crate) fn free_beside(&self, row: usize) -> Option<usize> {
        let child = row / G::ROWS;
        let rows = self.rows_of(child)?;
        Some(Self::counted(rows, Self::free_closed(child, self.states(child))))
    }

    /// The rows of a child, if it exists.
    #[inline(always)]
    pub(crate) fn rows_of(&self, child: usize) -> Option<&[AtomicU64]> {
        // That of no row wraps to an end before its beginning.
        let first = child * G::ROWS;
        self.rows.get(first..first.wrapping_add(G::ROWS))
    }

    /// The bits of the open rows of a child, laid over one another: at least so many frames are free as these are. All, if there is no such child.
    #[inline(always)]
    pub(crate) fn holes(&self, child: usize) -> u64 {
        self.rows_of(child).map_or(!0, |rows| laid_over(rows).0)
    }

    /// Is no more of the child of a row free than is worth a search for `order`? No is said of some.
    #[inline(always)]
    pub(crate) fn is_nearly_full(&self, row: usize, order: u32) -> bool {
        let child = row / G::ROWS;
        let Some(rows) = self.rows_of(child) else { return false };
        let (any, twice) = laid_over(rows);
        twice == 0
            && any.count_ones() as usize <= Self::full(order)
            && Self::free_closed(child, self.states(child)) == 0
    }

    /// How many frames of a child are free whose rows are in these states; wrong for rows that are just opened or closed.
    #[inline(always)]
    pub(crate) fn free_counted(&self, child: usize, states: u64) -> usize {
        let free = Self::free_closed(child, states);
        self.rows_of(child).map_or(free, |rows| Self::counted(rows, free))
    }

    /// The same of these rows, and so many frames in others. Most huge frames that are in use have no hole, or a few in different columns.
    #[inline(always)]
    fn counted(rows: &[AtomicU64], free: usize) -> usize {
        match laid_over(rows) {
            (0, _) => free,
            (any, 0) => free + any.count_ones() as usize,
            _ => rows.iter().fold(free, |free, word| free + load(Some(word)).count_ones() as usize),
        }
    }

    /// The open rows of a child.
    pub(crate) fn open_rows(&self, child: usize) -> impl Iterator<Item = usize> + Clone + use<G> {
        self.open_rows_of(child, self.states(child))
    }

    fn open_rows_of(
        &self,
        child: usize,
        states: u64,
    ) -> impl Iterator<Item = usize> + Clone + use<G> {
        child::rows_in::<G>(child, child::open_rows(states))
    }

    /// Their bits.
    pub(crate) fn open_bits(&self, child: usize) -> impl Iterator<Item = u64> {
        self.open_rows(child).map(|row| self.bits(row))
    }

    /// The child that a huge frame is, if the zone has any frame of it.
    pub(crate) fn child_of(&self, huge: HugeId) -> Option<usize> {
        let child = huge.0.checked_sub(self.ground.base >> G::HUGE_ORDER)?;
        (child < self.ground.children).then_some(child)
    }

    /// Counts everything: linear in the zone's huge frames, and in the rows that are open. A tree is of the class of which most of its
    /// huge frames are.
    pub(crate) fn tally(&self) -> Stats {
        let mut stats = Stats::default();
        // Huge frames outside the zone are of no tree of their own.
        let (first, last) =
            (self.zone.start.0 / G::TREE_FRAMES, (self.zone.end().0 - 1) / G::TREE_FRAMES);
        let tree_of = |child: usize| {
            ((self.ground.base + (child << G::HUGE_ORDER)) / G::TREE_FRAMES).max(first).min(last)
        };
        let (mut tree, mut children) =
            (ClassStats { trees: 1, ..ClassStats::default() }, [0; MAX_CLASSES]);
        for child in 0..self.ground.children {
            children[usize::from(self.class_of(child).0) % MAX_CLASSES] += 1;
            let states = self.states(child);
            let free = self.free_frames_of(child, states);
            stats.offline_huge += usize::from(Part::whole::<G>(child).is(states, OFFLINE));
            if self.isolates(child) {
                stats.isolated_huge += 1;
                stats.isolated_frames += free;
            } else {
                tree.free_frames += free;
                tree.free_huge += usize::from(free == G::HUGE_FRAMES);
            }
            if child + 1 == self.ground.children || tree_of(child) != tree_of(child + 1) {
                stats.free_frames += tree.free_frames;
                stats.free_huge += tree.free_huge;
                let most =
                    (0..MAX_CLASSES).rev().max_by_key(|&class| children.get(class)).unwrap_or(0);
                // Every class has its statistics.
                stats.classes.get_mut(most).into_iter().for_each(|class| {
                    class.trees += tree.trees;
                    class.free_frames += tree.free_frames;
                    class.free_huge += tree.free_huge;
                });
                (tree.free_frames, tree.free_huge, children) = (0, 0, [0; MAX_CLASSES]);
            }
        }
        stats
    }

    /// Of the 64 frames around `frame` those whose bits say so, in the rows that the zone has.
    fn map(&self, frame: FrameId, bits: impl Fn(usize) -> u64) -> u64 {
        let starts = (0..64usize).step_by(G::ROW_FRAMES);
        starts.fold(0, |map, at| {
            let offset = (frame.0 & !63 | at).checked_sub(self.ground.base);
            map | offset.map_or(0, |offset| bits(offset >> G::ROW_ORDER)) << at
        })
    }

    pub(crate) fn map_of_free(&self, frame: FrameId) -> u64 {
        self.map(frame, |row| self.bits_free(row))
    }

    pub(crate) fn map_of_used(&self, frame: FrameId) -> u64 {
        let first = frame.0 & !63;
        let before = |frame: usize| (1u64 << frame.saturating_sub(first).min(63)) - 1;
        let (start, end) = (self.zone.start.0, self.zone.end().0);
        let until = if end.saturating_sub(first) >= 64 { !0 } else { before(end) };
        let from = if start.saturating_sub(first) >= 64 { !0 } else { before(start) };
        self.map(frame, |row| self.used_bits(row)) & until & !from
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use woodlot_frame::{
        Base4K, Base16K, Base64K, Class, FrameAllocator, Init, Order, Owned, Request, Slot,
        ZoneConfig,
    };

    /// Of two huge frames all is allocated, but for these frames of the second one: all that the look beside one of its rows
    /// says is the second one's.
    fn frees_are_counted<G: Geometry>(free: &[(usize, u8)]) {
        let zone = ZoneConfig::new(2 * G::HUGE_FRAMES, 1);
        let zone = Owned::<OneWrite<G>>::new(&zone, Init::Allocated).expect("a zone");
        for &(at, order) in free {
            let done = zone.free(FrameId(G::HUGE_FRAMES + at), Order(order), Slot(0));
            assert_eq!(done, Ok(()));
        }
        let sum = free.iter().map(|&(_, order)| 1 << order).sum();
        for row in G::ROWS..2 * G::ROWS {
            assert_eq!(zone.free_beside(row), Some(sum), "{} {free:?}", G::NAME);
        }
        assert_eq!(zone.free_beside(0), Some(0));
        assert_eq!(zone.free_beside(2 * G::ROWS), None);
    }

    #[test]
    fn what_is_free_beside_a_row_is_counted() {
        for hole in [0, 5, 63, 64, 511] {
            frees_are_counted::<Base4K>(&[(hole, 0)]);
        }
        frees_are_counted::<Base4K>(&[]);
        frees_are_counted::<Base4K>(&[(0, 0), (1, 0)]);
        frees_are_counted::<Base4K>(&[(0, 5), (128, 6), (256, 8)]);
        frees_are_counted::<Base4K>(&[(64, 6), (3, 0)]);
        frees_are_counted::<Base4K>(&[(64, 6)]);
        frees_are_counted::<Base64K>(&[(31, 0)]);
        frees_are_counted::<Base64K>(&[(0, 5)]);
    }

    #[test]
    fn the_rows_of_a_huge_frame_are_its_own() {
        let zone = ZoneConfig::new(4 * Base4K::HUGE_FRAMES, 1);
        let zone = Owned::<OneWrite<Base4K>>::new(&zone, Init::Allocated).expect("a zone");
        assert_eq!(zone.free(FrameId(5), Order(0), Slot(0)), Ok(()));
        let beside = [0, 1, 2].map(|child| zone.free_beside(child * Base4K::ROWS));
        assert_eq!(beside, [1, 0, 0].map(Some));
        for (child, rows) in zone.rows.chunks(Base4K::ROWS).enumerate() {
            let own = zone.rows_of(child).map(|rows| rows.as_ptr_range());
            assert_eq!(own, Some(rows.as_ptr_range()));
        }
    }

    #[test]
    fn a_huge_frame_is_nearly_full_with_a_few_holes_at_different_places() {
        let many: [_; 17] = core::array::from_fn(|at| (3 * at, 0));
        let cases: [(&[(usize, u8)], _); 7] = [
            (&[(5, 0)], true),
            (&[(5, 0), (6, 0), (64 + 9, 0)], true),
            (&[(5, 0), (128, 6)], false),
            (&[(5, 0), (64 + 5, 0)], false),
            (&[(5, 0), (32, 0), (448, 4)], false),
            (&many[..16], true),
            (&many, false),
        ];
        for (free, few) in cases {
            let zone = ZoneConfig::new(2 * Base4K::HUGE_FRAMES, 1);
            let zone = Owned::<OneWrite<Base4K>>::new(&zone, Init::Allocated).expect("a zone");
            for &(at, order) in free {
                assert_eq!(zone.free(FrameId(at), Order(order), Slot(0)), Ok(()));
            }
            assert_eq!(zone.is_nearly_full(0, 0), few, "{free:?}");
        }
    }

    #[test]
    fn a_tree_is_of_the_class_of_most_of_its_huge_frames() {
        let zone = ZoneConfig::new(2 * Base4K::TREE_FRAMES, 1);
        let zone = Owned::<OneWrite<Base4K>>::new(&zone, Init::Free).expect("a zone");
        (0..20).for_each(|child| zone.becomes(child, Class::HUGE));
        (32..48).for_each(|child| zone.becomes(child, Class::LONG_LIVED));
        let request = Request::new(Order(0), Class::LONG_LIVED, Slot(0));
        assert_eq!(zone.alloc(request.at(FrameId(40 * 512))), Ok(FrameId(40 * 512)));
        let [movable, _, huge, ..] = zone.stats().classes;
        assert_eq!(huge, ClassStats { trees: 1, free_frames: 32 * 512, free_huge: 32 });
        assert_eq!(movable, ClassStats { trees: 1, free_frames: 32 * 512 - 1, free_huge: 31 });
    }

    #[test]
    fn the_same_bit_of_several_rows_is_not_one_frame() {
        for bit in [0, 31, 63] {
            for rows in 1..=Base4K::ROWS {
                let holes = [0, 1, 2, 3, 4, 5, 6, 7].map(|row| (64 * row + bit, 0));
                frees_are_counted::<Base4K>(&holes[..rows]);
            }
            let holes: [_; 32] = core::array::from_fn(|row| (64 * row + bit, 0));
            frees_are_counted::<Base16K>(&holes[..17]);
            frees_are_counted::<Base16K>(&holes);
        }
    }
}
