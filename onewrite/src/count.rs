//! What can be seen of a zone without changing it.

use woodlot_frame::{ClassStats, FrameId, Geometry, HugeId, Stats};

use crate::OneWrite;
use crate::child::{FREE, OFFLINE, OPEN, TAKEN, state};
use crate::row::Rows;

impl<G: Geometry> OneWrite<'_, G> {
    /// The free frames of a row, as bits.
    pub(crate) fn free_bits(&self, row: usize) -> u64 {
        match self.state(row) {
            FREE if row < self.rows.len() => G::ALL,
            OPEN => self.bits(row),
            _ => 0,
        }
    }

    /// The allocated frames of a row, as bits; also those outside the zone.
    fn used_bits(&self, row: usize) -> u64 {
        match self.state(row) {
            TAKEN => G::ALL,
            OPEN => G::ALL & !self.bits(row),
            _ => 0,
        }
    }

    fn rows_of(&self, child: usize) -> impl Iterator<Item = usize> + use<G> {
        child * G::ROWS..(child + 1) * G::ROWS
    }

    /// How many frames of a child are free.
    pub(crate) fn free_in_child(&self, child: usize) -> usize {
        self.rows_of(child).map(|row| self.free_bits(row).count_ones() as usize).sum()
    }

    /// The child that a huge frame is, if the zone has any frame of it.
    pub(crate) fn child_of(&self, huge: HugeId) -> Option<usize> {
        let child = huge.0.checked_sub(self.ground.base >> G::HUGE_ORDER)?;
        (child < self.children.len()).then_some(child)
    }

    /// Counts everything: linear in the zone's huge frames, and in the rows that are open.
    pub(crate) fn tally(&self) -> Stats {
        let mut stats = Stats::default();
        let free_row = G::ROW_FRAMES;
        for child in 0..self.children.len() {
            let states = self.states(child);
            let free = self.rows_of(child).enumerate().map(|(n, row)| match state(states, n) {
                FREE => free_row,
                OPEN => self.bits(row).count_ones() as usize,
                _ => 0,
            });
            let free = free.sum::<usize>();
            stats.free_frames += free;
            stats.free_huge += usize::from(free == G::HUGE_FRAMES);
            stats.offline_huge += usize::from(state(states, 0) == OFFLINE);
        }
        let (first, last) = (self.zone.start.0, self.zone.end().0 - 1);
        stats.classes[0] = ClassStats {
            trees: last / G::TREE_FRAMES - first / G::TREE_FRAMES + 1,
            free_frames: stats.free_frames,
            free_huge: stats.free_huge,
        };
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
        self.map(frame, |row| self.free_bits(row))
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
