//! The patterns in which threads allocate and free in bursts, without waiting for each other.

use std::sync::Barrier;

use woodlot_frame::{FrameId, Order};

use super::kinds::Metric;
use super::loops::{alternate, bursts, fill, release};
use super::runner::Part;
use super::setup::Setup;
use super::threads::on_threads;
use crate::clock::Tally;
use crate::contender::Contender;

/// *linux-scalability* and *thread-test*: a list is a burst.
pub(super) fn in_bursts<C: Contender>(
    c: &C,
    setup: &Setup,
    lists: &mut [Vec<FrameId>],
) -> Vec<Part> {
    let barrier = Barrier::new(setup.threads);
    on_threads(lists, |thread, list| {
        let (mut tally, rounds) = (Tally::default(), setup.rounds());
        barrier.wait();
        tally.time(|| bursts(c, setup.order, setup.slot(thread), list, rounds));
        let refused = list.len() * rounds - tally.operations as usize;
        Part { tallies: vec![(Metric::Pair, tally)], refused }
    })
}

/// *constant-occupancy*: what a thread holds it allocates before and frees after, outside the time.
pub(super) fn constant_occupancy<C: Contender>(
    c: &C,
    setup: &Setup,
    lists: &mut [Vec<FrameId>],
) -> Vec<Part> {
    let barrier = Barrier::new(setup.threads);
    on_threads(lists, |thread, list| {
        let (mut tally, slot) = (Tally::default(), setup.slot(thread));
        let mut held = by_order(setup, list);
        let each = held.iter_mut().map(|(order, blocks)| fill(c, *order, slot, blocks));
        let allocated: usize = each.sum();
        barrier.wait();
        if allocated == setup.list() {
            // Both halves of all of it in each round.
            let turns = 2 * setup.rounds();
            tally.time(|| alternate(c, slot, &mut held, turns));
        }
        let expected = setup.list() * setup.rounds();
        let mut refused = expected - tally.operations as usize;
        if refused == 0 {
            let each = held.iter().map(|(order, blocks)| release(c, *order, slot, blocks));
            refused = setup.list() - each.sum::<usize>();
        }
        Part { tallies: vec![(Metric::Pair, tally)], refused }
    })
}

/// A thread's list, divided among the orders of the blocks that it holds.
fn by_order<'a>(setup: &Setup, list: &'a mut [FrameId]) -> Vec<(Order, &'a mut [FrameId])> {
    let mut left = list;
    let parts = setup.held().map(|(order, blocks)| {
        let (part, rest) = std::mem::take(&mut left).split_at_mut(blocks);
        left = rest;
        (order, part)
    });
    parts.collect()
}
