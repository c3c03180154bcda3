//! *in-step*, *out-of-step* and *ring*: the same calls by threads that do the same at the same time,
//! and by threads that do not.

use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use woodlot_frame::FrameId;

use super::kinds::Metric;
use super::loops::{fill, release};
use super::runner::Part;
use super::setup::Setup;
use super::threads::on_threads;
use crate::clock::Tally;
use crate::contender::Contender;
use crate::random::Random;

/// Allocations, frees and what was refused.
#[derive(Default)]
struct Own {
    allocs: Tally,
    frees: Tally,
    refused: usize,
}

impl Own {
    fn fill<C: Contender>(&mut self, c: &C, setup: &Setup, thread: usize, list: &mut [FrameId]) {
        let before = self.allocs.operations;
        self.allocs.time(|| fill(c, setup.order, setup.slot(thread), list));
        self.refused += list.len() - (self.allocs.operations - before) as usize;
    }

    fn release<C: Contender>(&mut self, c: &C, setup: &Setup, thread: usize, list: &[FrameId]) {
        let before = self.frees.operations;
        self.frees.time(|| release(c, setup.order, setup.slot(thread), list));
        self.refused += list.len() - (self.frees.operations - before) as usize;
    }

    fn part(self) -> Part {
        let tallies = vec![(Metric::Alloc, self.allocs), (Metric::Free, self.frees)];
        Part { tallies, refused: self.refused }
    }
}

/// *in-step* and *out-of-step*. Each thread allocates until it has as many blocks as a random number
/// says, frees until it has no more than the next one says, and so on. In step all have the same
/// numbers, and wait for each other; out of step each has its own, every other thread begins with
/// all that it can have, and nobody waits.
pub(super) fn in_phases<C: Contender>(
    c: &C,
    setup: &Setup,
    lists: &mut [Vec<FrameId>],
    (seed, in_step): (u64, bool),
) -> Vec<Part> {
    let barrier = Barrier::new(setup.threads);
    let most = 2 * setup.operations.div_ceil(setup.threads);
    on_threads(lists, |thread, list| {
        let (mut own, mut held, mut asked) = (Own::default(), 0, 0);
        let own_numbers = if in_step { 0 } else { thread as u64 };
        let mut random = Random::new(seed ^ own_numbers << 32);
        if !in_step && thread % 2 == 1 {
            held = fill(c, setup.order, setup.slot(thread), list);
            own.refused += list.len() - held;
        }
        barrier.wait();
        while asked < most {
            let next = random.below(list.len() + 1);
            asked += next.abs_diff(held);
            if in_step {
                barrier.wait();
            }
            // After a refusal the list holds what is nobody's: the others are only not kept waiting.
            match next > held {
                _ if own.refused > 0 => {}
                true => own.fill(c, setup, thread, &mut list[held..next]),
                false => own.release(c, setup, thread, &list[next..held]),
            }
            held = next;
        }
        if in_step {
            barrier.wait();
        }
        if own.refused == 0 {
            own.release(c, setup, thread, &list[..held]);
        }
        own.part()
    })
}

/// A list that a thread has filled or will fill.
type Handed = Mutex<Vec<FrameId>>;

/// The lock is held while nobody else wants it, and taken outside of the time.
fn take(list: &Handed) -> MutexGuard<'_, Vec<FrameId>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// *ring*: in each round a thread allocates a list, and frees what its neighbour allocated in the
/// round before; every other thread frees first. They wait for each other between rounds.
pub(super) fn ring<C: Contender>(c: &C, setup: &Setup) -> Vec<Part> {
    let list = || Mutex::new(vec![FrameId(usize::MAX); setup.list()]);
    let lists: Vec<[Handed; 2]> = (0..setup.threads).map(|_| [list(), list()]).collect();
    let barrier = Barrier::new(setup.threads);
    let rounds = setup.rounds();
    on_threads(0..setup.threads, |thread, _| {
        let mut own = Own::default();
        let neighbour = (thread + 1) % setup.threads;
        for round in 0..=rounds {
            for half in [thread % 2 == 0, thread % 2 == 1] {
                if half && round < rounds {
                    own.fill(c, setup, thread, &mut take(&lists[thread][round % 2]));
                } else if !half && round > 0 {
                    own.release(c, setup, thread, &take(&lists[neighbour][(round + 1) % 2]));
                }
            }
            barrier.wait();
        }
        own.part()
    })
}
