//! Huge frames as cells of a map.
//!
//! ```text
//!   huge frames │ │ │ │ │ │ │ │ │ …      a group of neighbours, a power of two of them, is a cell
//!   cells       │   a   │   b   │ …      with a shade each
//!   rows        a b c d                  of as many cells, a power of two
//! ```

use woodlot_zone::{HugeUse, HugeView};

/// How a cell is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shade {
    /// Free as a whole.
    Free,
    /// In use in part: so many tenths, rounded down. A huge frame that is split and full has nine.
    Split(u8),
    /// Allocated as a whole.
    Whole,
    /// Out of use.
    Offline,
}

impl Shade {
    /// The tenths that a split huge frame can be drawn with.
    pub const TENTHS: u8 = 10;

    /// Of some huge frames: what all of them are, or how much of those that are not offline is in use.
    fn of(group: &[HugeView]) -> Shade {
        let all = |what| group.iter().all(|huge| huge.used_as == what);
        if let Some((_, alike)) = [
            (HugeUse::Free, Shade::Free),
            (HugeUse::Whole, Shade::Whole),
            (HugeUse::Offline, Shade::Offline),
        ]
        .into_iter()
        .find(|&(what, _)| all(what))
        {
            return alike;
        }
        let online = group.iter().filter(|huge| huge.used_as != HugeUse::Offline);
        let (used, frames) = online
            .fold((0, 0), |(used, frames), huge| (used + used_frames(huge), frames + huge.frames));
        let tenths = used * usize::from(Self::TENTHS) / frames.max(1);
        Shade::Split(tenths.min(usize::from(Self::TENTHS) - 1) as u8)
    }
}

/// The frames of a huge frame that are in use.
fn used_frames(huge: &HugeView) -> usize {
    match huge.used_as {
        HugeUse::Free | HugeUse::Offline => 0,
        HugeUse::Split { free } => huge.frames.saturating_sub(free),
        HugeUse::Whole => huge.frames,
    }
}

/// Cells in rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    /// How many huge frames a cell stands for.
    pub group: usize,
    /// How many cells a row has, but the last one.
    pub columns: usize,
    /// The cells.
    pub rows: Vec<Vec<Shade>>,
}

impl Grid {
    /// At most so many columns, and so many rows. A row is a power of two of cells, so that
    /// what lies below one another is at equal distances.
    pub fn of(huge: &[HugeView], columns: usize, rows: usize) -> Grid {
        let columns = 1 << columns.max(1).ilog2();
        let group = huge.len().div_ceil(columns * rows.max(1)).next_power_of_two();
        let cells: Vec<Shade> = huge.chunks(group).map(Shade::of).collect();
        let rows = cells.chunks(columns).map(<[Shade]>::to_vec).collect();
        Grid { group, columns, rows }
    }

    /// How many huge frames lie before a row.
    pub fn before(&self, row: usize) -> usize {
        row * self.columns * self.group
    }
}

/// How many huge frames there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Free as a whole.
    pub free: usize,
    /// Split.
    pub split: usize,
    /// The frames of the split ones, and how many of them are in use.
    pub split_frames: usize,
    pub split_used: usize,
    /// Allocated as a whole.
    pub whole: usize,
    /// Out of use.
    pub offline: usize,
}

impl Counts {
    pub fn of(huge: &[HugeView]) -> Counts {
        let mut counts = Counts::default();
        for huge in huge {
            match huge.used_as {
                HugeUse::Free => counts.free += 1,
                HugeUse::Whole => counts.whole += 1,
                HugeUse::Offline => counts.offline += 1,
                HugeUse::Split { .. } => {
                    counts.split += 1;
                    counts.split_frames += huge.frames;
                    counts.split_used += used_frames(huge);
                }
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_frame::HugeId;

    fn huge(used_as: &[HugeUse]) -> Vec<HugeView> {
        let one = |(id, &used_as)| HugeView { id: HugeId(id), frames: 512, used_as };
        used_as.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_cell_is_what_all_of_it_are_or_how_much_is_in_use() {
        let [free, whole, offline] = [HugeUse::Free, HugeUse::Whole, HugeUse::Offline];
        let split = |free| HugeUse::Split { free };
        for (group, shade) in [
            (vec![free, free], Shade::Free),
            (vec![whole], Shade::Whole),
            (vec![offline, offline], Shade::Offline),
            (vec![split(512)], Shade::Split(0)),
            (vec![split(0)], Shade::Split(9)),
            (vec![split(256)], Shade::Split(5)),
            (vec![free, whole], Shade::Split(5)),
            (vec![whole, offline], Shade::Split(9)),
            (vec![free, offline], Shade::Split(0)),
            (vec![free, free, free, split(0)], Shade::Split(2)),
        ] {
            assert_eq!(Shade::of(&huge(&group)), shade, "{group:?}");
        }
    }

    #[test]
    fn rows_are_powers_of_two_and_hold_every_huge_frame_once() {
        for (count, columns, rows, group, found) in [
            (3, 70, 32, 1, vec![3]),
            (65, 70, 32, 1, vec![64, 1]),
            (65536, 70, 32, 32, vec![64; 32]),
            (65537, 70, 32, 64, [vec![64; 16], vec![1]].concat()),
            (5, 1, 2, 4, vec![1, 1]),
        ] {
            let grid = Grid::of(&huge(&vec![HugeUse::Free; count]), columns, rows);
            let lengths: Vec<usize> = grid.rows.iter().map(Vec::len).collect();
            assert_eq!((grid.group, lengths), (group, found), "{count}");
            assert_eq!(grid.before(1), grid.group * grid.columns);
        }
    }
}
