//! Threads that are pinned and start together.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::clock::pin;

/// Runs `work` once for each state, each on a thread of its own, pinned to a CPU of its own as far
/// as there are so many; returns what each yields, in order.
///
/// # Panics
/// If `work` does.
pub fn on_threads<S: Send, T: Send>(
    states: impl IntoIterator<Item = S>,
    work: impl Fn(usize, S) -> T + Sync,
) -> Vec<T> {
    let mut parts = Vec::new();
    for state in states {
        parts.push(Mutex::new((Some(state), None)));
    }
    each_pinned(parts.len(), &|index| {
        let mut part = parts[index].lock().unwrap_or_else(PoisonError::into_inner);
        part.1 = part.0.take().map(|state| work(index, state));
    });
    let mut results = Vec::new();
    for part in parts {
        let (_, result) = part.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.extend(result);
    }
    results
}

/// Runs `work` on a thread of its own, pinned to the first CPU.
///
/// # Panics
/// If `work` does.
pub fn on_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    on_threads([work], |_, work| work()).pop().expect("one state has one result")
}

/// Runs `work` with each of these numbers, each on a thread of its own. Threads are started by code that is compiled once, not for
/// each pattern of each engine: that was an eighth of this crate.
fn each_pinned(count: usize, work: &(dyn Fn(usize) + Sync)) {
    thread::scope(|scope| {
        let start = |index| {
            scope.spawn(move || {
                pin(index);
                work(index);
            })
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        threads.into_iter().for_each(|t| t.join().expect("a benchmark's loop does not panic"));
    });
}
