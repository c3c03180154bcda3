//! The loops whose time is taken. Each is a function of its own for each contender, calls it once
//! or twice each time round, and does nothing else than touch the next entry of an array.

use woodlot_frame::{FrameId, Order, Slot};

use crate::clock::opaque;
use crate::contender::Contender;

/// Blocks in a batch.
pub const BATCH: usize = 64;

/// Order and slot as the caller of an allocator knows them: at run time.
#[inline(always)]
fn hidden(order: Order, slot: Slot) -> (Order, Slot) {
    (Order(opaque(order.0 as usize) as u8), Slot(opaque(slot.0)))
}

/// Allocates into `blocks`; returns how many there were.
#[inline(never)]
pub fn fill<C: Contender>(c: &C, order: Order, slot: Slot, blocks: &mut [FrameId]) -> usize {
    let (order, slot) = hidden(order, slot);
    for (done, block) in blocks.iter_mut().enumerate() {
        match c.alloc(order, slot) {
            Some(frame) => *block = frame,
            None => return done,
        }
    }
    blocks.len()
}

/// Frees `blocks`; returns how many frees were accepted.
#[inline(never)]
pub fn release<C: Contender>(c: &C, order: Order, slot: Slot, blocks: &[FrameId]) -> usize {
    let (order, slot) = hidden(order, slot);
    blocks.iter().filter(|&&block| c.free(block, order, slot)).count()
}

/// Allocates into `blocks`, a batch at a time; returns how many there were.
#[inline(never)]
pub fn fill_batches<C: Contender>(
    c: &C,
    order: Order,
    slot: Slot,
    blocks: &mut [FrameId],
) -> usize {
    let (order, slot) = hidden(order, slot);
    let mut done = 0;
    for batch in blocks.chunks_mut(BATCH) {
        if !c.alloc_batch(order, slot, batch) {
            break;
        }
        done += batch.len();
    }
    done
}

/// Frees `blocks`, a batch at a time; returns how many there were in batches that were accepted.
#[inline(never)]
pub fn release_batches<C: Contender>(c: &C, order: Order, slot: Slot, blocks: &[FrameId]) -> usize {
    let (order, slot) = hidden(order, slot);
    let accepted = blocks.chunks(BATCH).filter(|batch| c.free_batch(batch, order, slot));
    accepted.map(<[FrameId]>::len).sum()
}

/// Frees every `threads`-th run of `run` blocks of each list, from the `thread`-th on.
#[inline(never)]
pub fn release_runs<C: Contender>(
    c: &C,
    order: Order,
    slot: Slot,
    lists: &[Vec<FrameId>],
    (run, thread, threads): (usize, usize, usize),
) -> usize {
    let (order, slot) = hidden(order, slot);
    let mut accepted = 0;
    for list in lists {
        for run in list.chunks(run).skip(thread).step_by(threads) {
            for &block in run {
                accepted += usize::from(c.free(block, order, slot));
            }
        }
    }
    accepted
}

/// Allocates a block and frees it, `pairs` times; returns how often both succeeded.
#[inline(never)]
pub fn repeat<C: Contender>(c: &C, order: Order, slot: Slot, pairs: usize) -> usize {
    let (order, slot) = hidden(order, slot);
    let mut done = 0;
    for _ in 0..pairs {
        let Some(frame) = c.alloc(order, slot) else { break };
        done += usize::from(c.free(FrameId(opaque(frame.0)), order, slot));
    }
    done
}

/// Allocates all of `blocks` and frees them, `rounds` times; returns how many were allocated and
/// freed.
#[inline(never)]
pub fn bursts<C: Contender>(
    c: &C,
    order: Order,
    slot: Slot,
    blocks: &mut [FrameId],
    rounds: usize,
) -> usize {
    let mut done = 0;
    for _ in 0..rounds {
        let filled = fill(c, order, slot, blocks);
        done += release(c, order, slot, &blocks[..filled]);
    }
    done
}

/// Frees one half of the blocks of each order and allocates as many, by turns; returns how many
/// were freed and allocated.
#[inline(never)]
pub fn alternate<C: Contender>(
    c: &C,
    slot: Slot,
    held: &mut [(Order, &mut [FrameId])],
    turns: usize,
) -> usize {
    let mut done = 0;
    for turn in 0..turns {
        for (order, blocks) in &mut *held {
            let (left, right) = blocks.split_at_mut(blocks.len() / 2);
            let half = if turn % 2 == 0 { left } else { right };
            let freed = release(c, *order, slot, half);
            done += fill(c, *order, slot, &mut half[..freed]);
        }
    }
    done
}

/// Frees the next block of `pool` and allocates one in its place, `pairs` times from `start` on;
/// returns how often both succeeded.
#[inline(never)]
pub fn replace<C: Contender>(
    c: &C,
    order: Order,
    slot: Slot,
    pool: &mut [FrameId],
    (start, pairs): (usize, usize),
) -> usize {
    let (order, slot) = hidden(order, slot);
    let mut next = start;
    for done in 0..pairs {
        if next >= pool.len() {
            next = 0;
        }
        let Some(block) = pool.get_mut(next) else { return done };
        if !c.free(*block, order, slot) {
            return done;
        }
        match c.alloc(order, slot) {
            Some(frame) => *block = frame,
            None => return done,
        }
        next += 1;
    }
    pairs
}

/// Asks for what is not there, `calls` times; returns how often that was said.
#[inline(never)]
pub fn ask_in_vain<C: Contender>(c: &C, order: Order, slot: Slot, calls: usize) -> usize {
    let (order, slot) = hidden(order, slot);
    (0..calls).filter(|_| c.alloc(order, slot).is_none()).count()
}
