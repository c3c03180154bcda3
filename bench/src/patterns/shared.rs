//! The patterns in which threads free what others allocated.

use std::sync::{Barrier, Mutex, PoisonError};

use woodlot_frame::FrameId;

use super::kinds::Metric;
use super::loops::{fill, release, release_runs};
use super::runner::Part;
use super::setup::Setup;
use super::threads::on_threads;
use crate::clock::Tally;
use crate::contender::Contender;

/// How many neighbours in a list one thread frees in *exit-storm*: about as many as Linux frees in
/// one go when a process ends.
pub const STORM_RUN: usize = 32;

/// *remote*: thread 2 *p* fills one of pair *p*'s lists while thread 2 *p* + 1 frees the other.
/// The locks are held while nobody else wants them, and taken outside the time.
pub(super) fn remote<C: Contender>(c: &C, setup: &Setup) -> Vec<Part> {
    let list = || Mutex::new(vec![FrameId(usize::MAX); setup.list()]);
    let pairs: Vec<_> = (0..setup.threads / 2).map(|_| [list(), list()]).collect();
    let barrier = Barrier::new(setup.threads);
    let rounds = setup.rounds();
    on_threads(0..setup.threads, |thread, _| {
        let (mut tally, mut refused) = (Tally::default(), 0);
        let (order, slot, allocates) = (setup.order, setup.slot(thread), thread % 2 == 0);
        let mine = if allocates { 0..rounds } else { 1..rounds + 1 };
        for round in 0..=rounds {
            if mine.contains(&round) {
                // The freeing thread is one round behind.
                let turn = (round + usize::from(!allocates)) % 2;
                let list = pairs.get(thread / 2).map(|pair| &pair[turn]);
                let list = list.map(|list| list.lock().unwrap_or_else(PoisonError::into_inner));
                if let Some(mut list) = list {
                    let before = tally.operations;
                    tally.time(|| match allocates {
                        true => fill(c, order, slot, &mut list),
                        false => release(c, order, slot, &list),
                    });
                    refused += list.len() - (tally.operations - before) as usize;
                }
            }
            barrier.wait();
        }
        let metric = if allocates { Metric::Alloc } else { Metric::Free };
        Part { tallies: vec![(metric, tally)], refused }
    })
}

/// *exit-storm*.
pub(super) fn exit_storm<C: Contender>(
    c: &C,
    setup: &Setup,
    lists: &mut [Vec<FrameId>],
) -> Vec<Part> {
    let barrier = Barrier::new(setup.threads);
    let empty = |_| Part { tallies: vec![(Metric::Free, Tally::default())], refused: 0 };
    let mut parts: Vec<Part> = (0..setup.threads).map(empty).collect();
    let order = setup.order;
    for _ in 0..setup.rounds() {
        let missing = on_threads(&mut *lists, |thread, list| {
            barrier.wait();
            list.len() - fill(c, order, setup.slot(thread), list)
        });
        if missing.iter().any(|&missing| missing > 0) {
            parts[0].refused += missing.iter().sum::<usize>();
            return parts;
        }
        let lists = &*lists;
        let tallies = on_threads(0..setup.threads, |thread, _| {
            let mut tally = Tally::default();
            let deal = (STORM_RUN, thread, setup.threads);
            barrier.wait();
            tally.time(|| release_runs(c, order, setup.slot(thread), lists, deal));
            tally
        });
        let freed: u64 = tallies.iter().map(|tally| tally.operations).sum();
        parts[0].refused += lists.iter().map(Vec::len).sum::<usize>() - freed as usize;
        for (part, tally) in parts.iter_mut().zip(tallies) {
            part.tallies[0].1 = part.tallies[0].1.and(tally);
        }
    }
    parts
}
