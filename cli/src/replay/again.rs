//! A plan that is carried out again and again, as a build is on a server: figure 7 of the paper on anti-fragmentation.
//!
//! ```text
//!   the plan │ what it left is freed, what it freed of the start is allocated again │ the plan │ … │ the plan
//! ```
//!
//! What it left goes as `make clean` and the end of a process free it; what it freed of the start comes back as a cache does that
//! fills again: in the largest aligned blocks that the frees had, as movable as it was, wherever the allocator puts it now.

use woodlot_frame::{Class, Slot};
use woodlot_trace::aligned_pieces;

use super::plan::{AT_START, Action, GridRow, Piece, Plan, Step, Want};

impl Plan {
    /// The same so many times, compared at the end of each.
    pub fn again(self, times: usize) -> Plan {
        let mut again = Again::new(self);
        again.end_of_round(1);
        for round in 2..=times {
            again.back();
            again.once_more();
            again.end_of_round(round);
        }
        again.plan
    }
}

/// A frame of a block of the plan.
type Part = (u32, u32);

struct Again {
    plan: Plan,
    /// How much of it is the plan as it was.
    steps: usize,
    blocks: usize,
    /// What is compared with: the last moment of the plan.
    last: Option<GridRow>,
    /// Frames of the start that the plan frees, in runs.
    caches: Vec<Piece>,
    /// Which frame of which block each frame of the start is now.
    start: Vec<Part>,
    /// How many blocks there were before this round.
    before: u32,
    /// What each round leaves.
    left: Vec<Piece>,
}

impl Again {
    fn new(mut plan: Plan) -> Again {
        let last = plan.rows.last().cloned();
        plan.rows.clear();
        let caches = plan.pieces.iter().filter(|piece| piece.block == AT_START).copied().collect();
        let left = left(&plan);
        Again {
            steps: plan.steps.len(),
            blocks: plan.orders.len(),
            start: (0..plan.frames() as u32).map(|frame| (AT_START, frame)).collect(),
            before: 0,
            last,
            caches,
            left,
            plan,
        }
    }

    fn end_of_round(&mut self, round: usize) {
        let after = self.plan.steps.len();
        let row = self.last.iter().cloned();
        self.plan.rows.extend(row.map(|row| GridRow {
            after,
            label: format!("round {round}"),
            regular: true,
            ..row
        }));
    }

    fn step(&mut self, action: Action) {
        self.plan.steps.push(Step { slot: Slot(0), action });
    }

    /// Back to where the plan began, but for what lies elsewhere.
    fn back(&mut self) {
        for piece in self.left.clone() {
            let first = self.plan.pieces.len() as u32;
            self.plan.pieces.push(Piece { block: piece.block + self.before, ..piece });
            self.step(Action::Free { first, count: 1 });
        }
        for piece in self.caches.clone() {
            let frames = piece.offset as usize..(piece.offset + piece.frames) as usize;
            let movable = self.plan.movable_at_start.contains(frames.start);
            let class = if movable { Class::MOVABLE } else { Class::LONG_LIVED };
            for (frame, order) in aligned_pieces(frames, 8) {
                let block = self.plan.orders.len() as u32;
                self.plan.orders.push(order);
                self.plan.movable.push(movable);
                let zone = self.plan.zones.iter().position(|zone| zone.frames.contains(&frame));
                let want = Want { order, class, zone: zone.unwrap_or(0) as u8 };
                self.step(Action::Alloc { block, want });
                let parts = (0..1 << order).map(|offset| (block, offset));
                let frames = self.start[frame..].iter_mut().zip(parts);
                frames.for_each(|(part, new)| *part = new);
            }
        }
    }

    /// The plan, with blocks of its own.
    fn once_more(&mut self) {
        self.before = self.plan.orders.len() as u32;
        self.plan.orders.extend_from_within(..self.blocks);
        self.plan.movable.extend_from_within(..self.blocks);
        for number in 0..self.steps {
            let Step { slot, action } = self.plan.steps[number];
            let action = match action {
                Action::Alloc { block, want } => Action::Alloc { block: block + self.before, want },
                Action::Free { first, count } => self.free_again(first, count),
                probe @ Action::Probe { .. } => probe,
            };
            self.plan.steps.push(Step { slot, action });
        }
    }

    fn free_again(&mut self, first: u32, count: u32) -> Action {
        let new = self.plan.pieces.len();
        for number in first as usize..(first + count) as usize {
            let piece = self.plan.pieces[number];
            let parts =
                (piece.offset..piece.offset + piece.frames).map(|offset| match piece.block {
                    AT_START => self.start[offset as usize],
                    block => (block + self.before, offset),
                });
            for (block, offset) in parts.collect::<Vec<Part>>() {
                match self.plan.pieces[new..].last_mut() {
                    Some(last) if last.block == block && last.offset + last.frames == offset => {
                        last.frames += 1;
                    }
                    _ => self.plan.pieces.push(Piece { block, offset, frames: 1 }),
                }
            }
        }
        Action::Free { first: new as u32, count: (self.plan.pieces.len() - new) as u32 }
    }
}

/// What a plan allocates and does not free, in runs.
fn left(plan: &Plan) -> Vec<Piece> {
    let mut owned: Vec<Vec<bool>> =
        plan.orders.iter().map(|&order| vec![true; 1 << order]).collect();
    for piece in plan.pieces.iter().filter(|piece| piece.block != AT_START) {
        let frames = piece.offset as usize..(piece.offset + piece.frames) as usize;
        owned[piece.block as usize][frames].fill(false);
    }
    let mut left = Vec::new();
    for (block, owned) in (0..).zip(owned) {
        let mut offset = 0;
        for run in owned.chunk_by(|one, other| one == other) {
            let frames = run.len() as u32;
            left.extend(run[0].then_some(Piece { block, offset, frames }));
            offset += frames;
        }
    }
    left
}
