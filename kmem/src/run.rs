//! Runs: blocks of a list that follow one another in memory, upwards or downwards.
//!
//! ```text
//!   list   b5 ─► b4 ─► b3 ─► b9 ─► …         b5, b4 and b3 are a run; it lies at b3
//! ```
//!
//! 1. Blocks that were allocated one after another mostly lie so, and so do those that were freed one after another.
//! 2. In a run each block's word is known before it is loaded, so that no load waits for another one: a processor looks at
//!    several blocks at a time.
//!
//! *Progress*: a step for each block of the run.

use crate::list::List;
use crate::word;

/// How far a run may go.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Blocks below the first one of the list.
    pub(crate) below: usize,
    /// Blocks above it.
    pub(crate) above: usize,
    /// Blocks of the run, in either direction: at least one.
    pub(crate) most: usize,
}

/// Blocks that follow one another in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Blocks below the first one of the list.
    pub(crate) below: usize,
    /// How many, at least one.
    pub(crate) blocks: usize,
}

/// The run that a list begins with, of blocks of so many bytes, and the list behind it. `None` if the list is empty.
///
/// # Safety
/// The list is the caller's.
pub(crate) unsafe fn split(list: List, bytes: usize, room: Room) -> Option<(Run, List)> {
    // SAFETY: as the caller says.
    let (first, mut rest) = unsafe { list.pop() }?;
    let step = rest.first_address().wrapping_sub(first.addr().get());
    let is_down = step == bytes.wrapping_neg();
    let beside = if is_down {
        room.below
    } else if step == bytes {
        room.above
    } else {
        0
    };
    let most = beside.min(room.most - 1).min(rest.len());
    // What the list behind the run is if the run goes on so, and where that ends.
    // SAFETY: the list is the caller's. No block is looked at before the one before it has said that it is the next one; so `&&`, not `&`.
    let behind = |more: usize| unsafe {
        let last = first.byte_offset(step.wrapping_mul(more) as isize);
        List::from_word(word::read(last.as_ptr().cast()))
    };
    // What is expected is computed from the number, so that nothing waits for what was loaded. Four blocks are looked at in a row, so that
    // less of the time goes to the loop.
    let goes_on = |more| behind(more) == rest.behind(step, more);
    let mut more = most.min(1);
    while more + 4 <= most
        && goes_on(more)
        && goes_on(more + 1)
        && goes_on(more + 2)
        && goes_on(more + 3)
    {
        more += 4;
    }
    while more < most && goes_on(more) {
        more += 1;
    }
    if more > 0 {
        rest = behind(more);
    }
    Some((Run { below: if is_down { more } else { 0 }, blocks: more + 1 }, rest))
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use core::ptr::NonNull;
    use std::vec::Vec;

    use super::*;

    const BLOCKS: usize = 12;
    const ALL: Room = Room { below: BLOCKS - 1, above: BLOCKS - 1, most: BLOCKS - 1 };

    /// The runs of a list that pops these blocks of 16 bytes, in this order: below, and how many.
    fn runs(order: &[usize], room: Room) -> Vec<(usize, usize)> {
        let mut memory = [[0u64; 2]; BLOCKS];
        let blocks = memory.each_mut().map(|block| NonNull::from(block).cast::<u8>());
        // SAFETY: each block is pushed once.
        let mut list =
            order.iter().rev().fold(List::EMPTY, |list, &at| unsafe { list.push(blocks[at]) });
        core::iter::from_fn(|| {
            // SAFETY: the list is the test's.
            let (run, rest) = unsafe { split(list, 16, room) }?;
            assert_eq!(rest.len() + run.blocks, list.len());
            list = rest;
            Some((run.below, run.blocks))
        })
        .collect()
    }

    #[test]
    fn a_run_goes_up_or_down() {
        assert_eq!(runs(&[], ALL), []);
        assert_eq!(runs(&[3], ALL), [(0, 1)]);
        assert_eq!(runs(&[0, 1, 2, 3], ALL), [(0, 4)]);
        assert_eq!(runs(&[9, 8, 7], ALL), [(2, 3)]);
        assert_eq!(runs(&[5, 4, 3, 9, 1, 2], ALL), [(2, 3), (0, 1), (0, 2)]);
        assert_eq!(runs(&[5, 6, 5 - 1], ALL), [(0, 2), (0, 1)]);
        assert_eq!(runs(&[1, 3, 5, 7], ALL), [(0, 1); 4]);
    }

    /// Wherever a list goes by a block elsewhere, though the one beside holds what it would hold if it were on the list.
    #[test]
    fn a_run_ends_where_the_next_block_lies_elsewhere() {
        const LAST: usize = BLOCKS - 1;
        for missing in 2..LAST {
            let mut memory = [[0u64; 2]; BLOCKS];
            let blocks = memory.each_mut().map(|block| NonNull::from(block).cast::<u8>());
            // SAFETY: each block is pushed once, and then one takes the place of another one.
            let list = unsafe {
                let run = blocks[..LAST].iter().rev();
                let list = run.fold(List::EMPTY, |list, &block| list.push(block));
                let [other, before, elsewhere] =
                    [blocks[missing], blocks[missing - 1], blocks[LAST]].map(NonNull::cast::<u64>);
                elsewhere.write(other.read());
                before.write(List::word_of(elsewhere.cast()) + (LAST - missing - 1) as u64);
                list
            };
            // SAFETY: the list is the test's.
            let split = unsafe { split(list, 16, ALL) };
            let (run, rest) = split.expect("there are blocks");
            assert_eq!((run.below, run.blocks), (0, missing));
            assert_eq!((rest.first(), rest.len()), (Some(blocks[LAST]), LAST - missing));
        }
    }

    #[test]
    fn a_run_ends_where_there_is_no_room() {
        let order = [4, 5, 6, 7, 8, 9];
        assert_eq!(runs(&order, Room { above: 2, ..ALL }), [(0, 3), (0, 3)]);
        assert_eq!(runs(&order, Room { most: 4, ..ALL }), [(0, 4), (0, 2)]);
        assert_eq!(runs(&[4, 3, 2, 1], Room { below: 1, ..ALL }), [(1, 2), (1, 2)]);
        assert_eq!(runs(&[4, 3], Room { most: 1, ..ALL }), [(0, 1), (0, 1)]);
        let up: [usize; BLOCKS] = core::array::from_fn(|at| at);
        let down = up.map(|at| BLOCKS - 1 - at);
        for room in 1..BLOCKS - 1 {
            assert_eq!(runs(&up, Room { above: room, ..ALL })[0], (0, room + 1));
            assert_eq!(runs(&down, Room { below: room, ..ALL })[0], (room, room + 1));
            assert_eq!(runs(&up, Room { most: room, ..ALL })[0], (0, room));
        }
    }
}
