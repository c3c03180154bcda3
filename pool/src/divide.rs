//! Work in pieces, which threads divide among them.
//!
//! A thread takes the next piece from one counter when it has done its last one: whoever is faster does more.

use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

use woodlot_frame::atomics::{AtomicU64, Ordering};

/// Does the pieces 0 to `pieces` - 1, each once, by so many threads, of which this is one. No more are started than there are
/// pieces; where the system starts fewer, those that there are do all of it.
///
/// # Errors
/// The first of a piece. No thread begins another piece then.
pub(crate) fn divide<E: Send + Sync>(
    pieces: usize,
    threads: NonZero<usize>,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed) = (AtomicU64::new(0), OnceLock::new());
    let take =
        || Some(next.fetch_add(1, Ordering::Relaxed) as usize).filter(|&piece| piece < pieces);
    let go = || {
        while let Some(piece) = take() {
            if let Err(error) = work(piece) {
                next.store(pieces as u64, Ordering::Relaxed);
                _ = failed.set(error);
            }
        }
    };
    thread::scope(|scope| {
        let start = || thread::Builder::new().spawn_scoped(scope, go);
        let _all = (1..threads.get().min(pieces)).all(|_| start().is_ok());
        go();
    });
    failed.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn threads(count: usize) -> NonZero<usize> {
        NonZero::new(count).expect("not zero")
    }

    #[test]
    fn each_piece_is_done_once() {
        for (pieces, count) in [(0, 3), (1, 1), (1, 8), (1000, 1), (1000, 4)] {
            let done = Mutex::new(vec![0; pieces]);
            let work = |piece: usize| {
                done.lock().expect("nobody panics")[piece] += 1;
                Ok::<(), ()>(())
            };
            divide(pieces, threads(count), work).expect("nothing fails");
            assert_eq!(done.into_inner().expect("nobody panics"), vec![1; pieces]);
        }
    }

    #[test]
    fn as_many_work_at_once_as_were_asked_for() {
        let (begun, more) = (Mutex::new(0), Condvar::new());
        let work = |_| {
            let mut count = begun.lock().expect("nobody panics");
            *count += 1;
            more.notify_all();
            let waited = more.wait_timeout_while(count, LONG, |count| *count < 3);
            if waited.expect("nobody panics").1.timed_out() { Err("alone") } else { Ok(()) }
        };
        divide(3, threads(3), work).expect("three threads");
    }

    #[test]
    fn no_more_are_started_than_there_are_pieces() {
        let (done, wait) = channel();
        thread::spawn(move || {
            divide(3, NonZero::<usize>::MAX, |_| Ok::<(), ()>(())).expect("nothing fails");
            done.send(()).expect("the test waits");
        });
        wait.recv_timeout(LONG).expect("it starts threads for ever");
    }

    #[test]
    fn the_first_error_stops_all() {
        for count in [1, 2] {
            let begun = AtomicU64::new(0);
            let work = |piece| {
                begun.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
                if piece == 2 { Err(piece) } else { Ok(()) }
            };
            assert_eq!(divide(500, threads(count), work), Err(2));
            let begun = begun.into_inner();
            assert!(begun < 250, "{begun} pieces were begun after an error");
        }
    }

    #[test]
    fn of_two_errors_the_first_is_told() {
        let second = Mutex::new(false);
        let begun = Condvar::new();
        let work = |piece| {
            let mut there = second.lock().expect("nobody panics");
            if piece == 1 {
                *there = true;
                begun.notify_all();
                drop(there);
                thread::sleep(Duration::from_millis(50));
            } else {
                _ = begun.wait_timeout_while(there, LONG, |there| !*there);
            }
            Err(piece)
        };
        assert_eq!(divide(2, threads(2), work), Err(0));
    }
}
