//! Threads that are pinned and start together.

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
    thread::scope(|scope| {
        let work = &work;
        let start = |(index, state)| {
            scope.spawn(move || {
                pin(index);
                work(index, state)
            })
        };
        let threads: Vec<_> = states.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|t| t.join().expect("a benchmark's loop does not panic")).collect()
    })
}

/// Runs `work` on a thread of its own, pinned to the first CPU.
///
/// # Panics
/// If `work` does.
pub fn on_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(0);
            work()
        });
        thread.join().expect("a benchmark's loop does not panic")
    })
}
