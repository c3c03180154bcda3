//! The protocol once more, with a defect that can be chosen: what `climb.rs` and `forest.rs` do, and
//! what they must not do instead.
//!
//! `Bug::None` is the protocol as it should be: the scenarios must hold for it too, so that it is the
//! defect that a mutant dies of.

use woodlot_frame::Geometry;

use super::Block;
use super::world::Cells;
use crate::field::{BITS, Branch, State, is_block, mask, pattern};
use crate::forest::Forest;
use crate::search::Found;
use crate::shape::{Cell, Node, Place, Shape};

/// A defect.
#[cfg_attr(loom, expect(dead_code, reason = "for the explorer"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bug {
    /// As it should be.
    None,
    /// A climb leaves the marks of releases alone.
    NotContested,
    /// A climb ends where something beside it is in use already.
    ClimbEndsEarly,
    /// A climb does not look whether the node above is a block.
    BlockAboveIgnored,
    /// A climb marks the other branch.
    WrongBranch,
    /// A climb that fails leaves everything as it is.
    NoUndo,
    /// A climb that fails takes back its block, and tells nobody above.
    UndoTellsNobody,
    /// A climb that fails takes back what lies below the block that it met (the paper's).
    UndoStopsBelow,
    /// A release clears the branch without looking below again.
    NoSecondLook,
    /// A release looks below, but not after its mark was contested.
    NoThirdLook,
    /// A release goes on though something beside it is in use.
    NoEarlyStop,
    /// A release that finds a mark leaves it to its owner without a word.
    MarkNotContested,
    /// Marks are nobody's: whoever finds one clears it (the paper's).
    SharedMarks,
    /// A release clears the branches before the block is free.
    ClearedFirst,
    /// A cell counts as free when the field is zero, whatever is in the others.
    FieldForCell,
    /// A block takes its first field only.
    FirstFieldOnly,
    /// A free takes a block of any size.
    SizeIgnored,
    /// A free writes zero without looking.
    FreeUnchecked,
    /// A free does not take back what is known of its root.
    SpentNotTakenBack,
    /// A search that found nothing says so without looking again.
    SpentUnverified,
}

/// The forest with a defect.
pub(super) struct Wrong<'w, G: Geometry, F: Cells> {
    pub(super) forest: &'w Forest<'static, G, F>,
    pub(super) bug: Bug,
}

impl<G: Geometry, F: Cells> Wrong<'_, G, F> {
    fn is(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    /// Changes a cell as `change` says, or not at all; the value before.
    fn update(&self, cell: Cell, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let mut value = self.forest.load(cell);
        loop {
            match self.forest.swap(cell, value, change(value).ok_or(value)?) {
                Ok(()) => return Ok(value),
                Err(now) => value = now,
            }
        }
    }

    /// The first free node of an order, one after the other.
    pub(super) fn search(&self, order: u32) -> Option<Block> {
        if self.is(Bug::SpentNotTakenBack) {
            return self.forest.search(order, 0).map(Block::of);
        }
        let nodes = (0..self.forest.shape.frames() >> order).map(|index| Node { order, index });
        let found = nodes.into_iter().find(|&node| self.take(node)).map(Block::of);
        if found.is_none() && self.is(Bug::SpentUnverified) {
            self.forest.spend(0, order, || Found::None(false));
        }
        found
    }

    pub(super) fn take(&self, node: Node) -> bool {
        let place = Shape::<G, F>::place(node);
        let (mask, size) = (mask(place.first, place.size), place.size);
        let block = match self.is(Bug::FirstFieldOnly) && size > 0 {
            true => 1 << (place.first as u32 * BITS) | u64::from(size) << 5,
            false => pattern(place.first, size, 0),
        };
        let free = |value| (value & mask == 0).then_some(value | block);
        if self.update(place.cell, free).is_err() {
            return false;
        }
        let climbed = self.climb(place.cell);
        match climbed {
            Ok(()) => true,
            Err(_) if self.is(Bug::NoUndo) => false,
            Err(met) => {
                let shared = self.is(Bug::SharedMarks);
                let top = (shared || self.is(Bug::UndoStopsBelow)).then_some(met);
                if shared {
                    self.mark_all(place.cell, top);
                }
                self.clear(place, top, !self.is(Bug::UndoTellsNobody));
                false
            }
        }
    }

    fn climb(&self, mut cell: Cell) -> Result<(), Cell> {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            let branch = match self.is(Bug::WrongBranch) {
                true => Branch::new((cell.number >> 1) & ((1 << F::LOG) - 1), !cell.number & 1),
                false => branch,
            };
            let pass = |value| match branch.state(value) {
                _ if is_block(branch.field(value)) => None,
                State::Free => Some(branch.with(value, State::Occupied)),
                State::Coalescent if self.is(Bug::SharedMarks) => {
                    Some(branch.with(value, State::Occupied))
                }
                State::Coalescent if !self.is(Bug::NotContested) => {
                    Some(branch.with(value, State::Contested))
                }
                _ => None,
            };
            if let Err(value) = self.update(above, pass) {
                let block = is_block(branch.field(value));
                if block && !self.is(Bug::BlockAboveIgnored) {
                    return Err(above);
                }
                if !block && self.is(Bug::ClimbEndsEarly) {
                    return Ok(());
                }
            }
            cell = above;
        }
        Ok(())
    }

    pub(super) fn free(&self, node: Node) -> bool {
        let place = Shape::<G, F>::place(node);
        if self.is(Bug::ClearedFirst) {
            self.release(place.cell, None);
        }
        if self.is(Bug::SharedMarks) {
            self.mark_all(place.cell, None);
        }
        let cleared = self.clear(place, None, true);
        if self.is(Bug::SpentUnverified) {
            self.forest.unspend(node);
        }
        cleared
    }

    fn clear(&self, place: Place, top: Option<Cell>, tell: bool) -> bool {
        let mask = mask(place.first, place.size);
        let there = |value| match self.bug {
            Bug::FreeUnchecked => Some(value & !mask),
            Bug::SizeIgnored if is_block(value >> (place.first as u32 * BITS)) => {
                Some(value & !mask)
            }
            Bug::FirstFieldOnly => {
                is_block(value >> (place.first as u32 * BITS)).then_some(value & !mask)
            }
            _ => (value & mask == pattern(place.first, place.size, 0)).then_some(value & !mask),
        };
        let Ok(value) = self.update(place.cell, there) else { return false };
        if tell && value & !mask == 0 {
            self.release(place.cell, top);
        }
        true
    }

    /// The paper's first phase: marks all the way up to a buddy in use.
    fn mark_all(&self, mut cell: Cell, top: Option<Cell>) {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            if top == Some(above) {
                return;
            }
            let mark = |value| Some(branch.with(value, State::Coalescent));
            let value = self.update(above, mark).unwrap_or_else(|value| value);
            let buddy = Branch::new((cell.number >> 1) & ((1 << F::LOG) - 1), !cell.number & 1);
            if buddy.state(value) == State::Occupied {
                return;
            }
            cell = above;
        }
    }

    fn release(&self, mut cell: Cell, top: Option<Cell>) {
        while let Some((above, branch)) = Shape::<G, F>::above(cell) {
            if top == Some(above) {
                return;
            }
            let left = match self.bug {
                Bug::SharedMarks => self.clear_shared(above, branch),
                _ => self.clear_own(cell, above, branch),
            };
            let zero = |left: u64| match self.bug {
                Bug::FieldForCell => branch.field(left) == 0,
                _ => left == 0,
            };
            match left {
                Some(left) if zero(left) || self.is(Bug::NoEarlyStop) => cell = above,
                _ => return,
            }
        }
    }

    /// The paper's third phase at one level.
    fn clear_shared(&self, above: Cell, branch: Branch) -> Option<u64> {
        let clear = |value| {
            (branch.state(value) == State::Coalescent).then(|| branch.with(value, State::Free))
        };
        self.update(above, clear).ok().map(|value| branch.with(value, State::Free))
    }

    fn clear_own(&self, cell: Cell, above: Cell, branch: Branch) -> Option<u64> {
        let own = |value| match branch.state(value) {
            State::Occupied => Some(branch.with(value, State::Coalescent)),
            State::Coalescent if !self.is(Bug::MarkNotContested) => {
                Some(branch.with(value, State::Contested))
            }
            _ => None,
        };
        let before = self.update(above, own).ok()?;
        if branch.state(before) != State::Occupied {
            return None;
        }
        let sure = [Bug::NoSecondLook, Bug::NoEarlyStop, Bug::ClearedFirst].contains(&self.bug);
        let look = || sure || self.bug == Bug::FieldForCell || self.forest.load(cell) == 0;
        let mut zero = look();
        loop {
            let settle = |value| {
                Some(match branch.state(value) {
                    State::Contested => branch.with(value, State::Coalescent),
                    _ if zero => branch.with(value, State::Free),
                    _ => branch.with(value, State::Occupied),
                })
            };
            let value = self.update(above, settle).unwrap_or_else(|value| value);
            if branch.state(value) != State::Contested {
                return zero.then(|| branch.with(value, State::Free));
            }
            zero = self.is(Bug::NoThirdLook) && zero || look();
        }
    }
}
