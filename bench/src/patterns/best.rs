//! The best placement: whoever knows where everything lies, and always fills up what is fullest.
//!
//! ```text
//!   free frames of a huge frame    0    1    2  …  511   512
//!   huge frames with so many       ·    ▪▪   ▪      ▪    ▪▪▪▪▪▪▪
//!                                       └─ a base frame goes here: what is fuller is full
//! ```
//!
//! Blocks need not be aligned within their huge frame: so no allocator that places by the same rule
//! can keep more huge frames free. The frame of a block is the first of its huge frame.

use std::sync::{Mutex, MutexGuard, PoisonError};

use woodlot_frame::{Base4K, FrameId, Geometry, Order, Slot};

use crate::Failure;
use crate::contender::Contender;

const HUGE: usize = Base4K::HUGE_FRAMES;

/// Where everything lies.
pub(super) struct Best(Mutex<State>);

struct State {
    /// The free frames of each huge frame.
    free: Vec<usize>,
    /// The huge frames with so many free frames.
    with: Vec<Vec<usize>>,
    /// Where each huge frame lies in its list.
    at: Vec<usize>,
    /// Which lists have something in them.
    filled: [u64; HUGE / 64 + 1],
}

/// The huge frame that a frame lies in, of so many. One of the registry's allocators counts frames from one.
pub(super) fn huge_of(frame: FrameId, all: usize) -> usize {
    (frame.0 / HUGE).min(all - 1)
}

impl Best {
    fn state(&self) -> MutexGuard<'_, State> {
        // One thread uses it at a time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes frames out of the huge frame that this one lies in, wherever they are.
    pub(super) fn occupy(&self, frame: FrameId, frames: usize) {
        let mut state = self.state();
        let huge = huge_of(frame, state.free.len());
        let left = state.free[huge].saturating_sub(frames);
        state.change(huge, left);
    }

    /// How many huge frames are free.
    pub(super) fn free_huge(&self) -> usize {
        self.state().with[HUGE].len()
    }
}

impl State {
    fn change(&mut self, huge: usize, free: usize) {
        let before = std::mem::replace(&mut self.free[huge], free);
        let (list, at) = (&mut self.with[before], self.at[huge]);
        list.swap_remove(at);
        match list.get(at) {
            Some(&moved) => self.at[moved] = at,
            None if list.is_empty() => self.filled[before / 64] &= !(1 << (before % 64)),
            None => {}
        }
        self.at[huge] = self.with[free].len();
        self.with[free].push(huge);
        self.filled[free / 64] |= 1 << (free % 64);
    }

    /// The fewest free frames, at least so many, that some huge frame has.
    fn fullest(&self, least: usize) -> Option<usize> {
        let mut word = self.filled[least / 64] & (!0 << (least % 64));
        let mut index = least / 64;
        while word == 0 {
            index += 1;
            word = *self.filled.get(index)?;
        }
        Some(index * 64 + word.trailing_zeros() as usize)
    }
}

impl Contender for Best {
    fn new(frames: usize, _: usize) -> Result<Self, Failure> {
        let huge = frames / HUGE;
        let mut with = vec![Vec::new(); HUGE + 1];
        with[HUGE] = (0..huge).collect();
        let mut filled = [0; HUGE / 64 + 1];
        filled[HUGE / 64] = 1;
        let (free, at) = (vec![HUGE; huge], (0..huge).collect());
        Ok(Self(Mutex::new(State { free, with, at, filled })))
    }

    fn alloc(&self, order: Order, _: Slot) -> Option<FrameId> {
        let mut state = self.state();
        let free = state.fullest(order.frames())?;
        let &huge = state.with[free].last()?;
        state.change(huge, free - order.frames());
        Some(FrameId(huge * HUGE))
    }

    fn free(&self, frame: FrameId, order: Order, _: Slot) -> bool {
        let mut state = self.state();
        let huge = huge_of(frame, state.free.len());
        let free = state.free[huge] + order.frames();
        if free <= HUGE {
            state.change(huge, free);
        }
        free <= HUGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_huge_frame_with_room_is_filled_up() {
        let best = Best::new(4 * HUGE, 1).unwrap();
        best.occupy(FrameId(HUGE + 7), HUGE - 2);
        best.occupy(FrameId(3 * HUGE), HUGE - 8);
        let alloc = |order| best.alloc(Order(order), Slot(0)).map(|frame| frame.0 / HUGE);
        assert_eq!((alloc(2), best.free_huge()), (Some(3), 2));
        assert_eq!([alloc(0), alloc(0), alloc(0)], [Some(1), Some(1), Some(3)]);
        assert_eq!((alloc(1), alloc(0), best.free_huge()), (Some(3), Some(3), 1 + 1));
        assert!(alloc(0).is_some() && best.free_huge() == 1);
        assert!(alloc(9).is_some() && alloc(9).is_none() && best.free_huge() == 0);
    }

    #[test]
    fn what_is_freed_comes_back() {
        let best = Best::new(2 * HUGE, 1).unwrap();
        let blocks: Vec<_> = std::iter::from_fn(|| best.alloc(Order(3), Slot(0))).collect();
        assert_eq!((blocks.len(), best.free_huge()), (128, 0));
        assert!(blocks.iter().all(|&block| best.free(block, Order(3), Slot(0))));
        assert_eq!(best.free_huge(), 2);
        assert!(!best.free(blocks[0], Order(3), Slot(0)));
    }
}
