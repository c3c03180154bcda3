//! A number for each thread of the process.
//!
//! ```text
//!   TAKEN   one bit a seat      claimed at a thread's first call, free again when the thread ends
//!   HIGH    seats ever taken    what a walk over all seats looks at
//!   HANDS   two latches a seat  what its thread is doing now, to whichever pool
//! ```
//!
//! 1. Two threads that live at the same time have different seats. What belongs to a seat belongs to its thread, and
//!    then to the next thread that gets the seat: it sees what the one before wrote (release, acquire).
//! 2. A thread that finds no seat, and one that is ending, has a number of [`SEATS`] or more: it has no seat, and works
//!    without.
//! 3. The latches are of the process and not of a pool. So a signal handler that calls one pool knows that it has
//!    interrupted its thread at another, and waits for nobody then: its thread may be waited for.
//!
//! **Progress.** Lock-free, and a signal handler may call it; a thread's first call must not come from one, because it
//! registers a destructor.

use std::cell::Cell;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};

use crate::handshake::Latch;

/// Threads that can have a seat at the same time.
pub(crate) const SEATS: usize = 1024;

static TAKEN: [AtomicU64; SEATS / 64] = [const { AtomicU64::new(0) }; SEATS / 64];
static HIGH: AtomicU32 = AtomicU32::new(0);
/// Threads that found no seat.
static WITHOUT: AtomicU32 = AtomicU32::new(0);

/// What the thread of a seat has its hands on. A line of its own.
#[repr(align(128))]
pub(crate) struct Hands {
    /// Busy while the thread is at a magazine.
    pub(crate) at: Latch,
    /// Busy while blocks are on their way between a magazine and the engine.
    pub(crate) moving: Latch,
}

static HANDS: [Hands; SEATS] = [const { Hands { at: Latch::new(), moving: Latch::new() } }; SEATS];

/// What a thread has before it has a number.
const NO_NUMBER: u32 = u32::MAX;

/// Frees the seat of a thread that ends.
struct Leave;

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(NO_NUMBER) };
    static LEAVE: Leave = const { Leave };
}

/// The number of this thread. It has one from its first call on.
#[inline]
pub(crate) fn number() -> usize {
    match NUMBER.get() {
        NO_NUMBER => new_number(),
        number => number as usize,
    }
}

/// The seat of this thread: a number of [`SEATS`] or more if it has none, or none yet.
#[inline]
pub(crate) fn seat() -> usize {
    NUMBER.get() as usize
}

/// The latches of a seat.
#[inline]
pub(crate) fn hands(seat: usize) -> Option<&'static Hands> {
    HANDS.get(seat)
}

/// Has the thread that asks its hands on blocks of some pool? Then a signal has interrupted a call.
pub(crate) fn is_interrupted() -> bool {
    hands(number()).is_some_and(|hands| hands.at.is_busy() || hands.moving.is_busy())
}

/// How many seats were taken at any time, from the first one on.
pub(crate) fn high() -> usize {
    HIGH.load(Ordering::Relaxed) as usize
}

/// How many seats are taken now.
pub(crate) fn taken() -> usize {
    TAKEN.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
}

#[cold]
fn new_number() -> usize {
    let number = sit_down().unwrap_or_else(|| {
        // Threads without a seat keep apart by slot.
        SEATS as u32 + WITHOUT.fetch_add(1, Ordering::Relaxed) % (NO_NUMBER - SEATS as u32)
    });
    NUMBER.set(number);
    // Where destructors run already, the seat stays taken.
    let _ = LEAVE.try_with(|_| ());
    number as usize
}

/// The lowest free seat.
fn sit_down() -> Option<u32> {
    for (index, word) in TAKEN.iter().enumerate() {
        let mut taken = word.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let bit = taken.trailing_ones();
            let with = taken | 1 << bit;
            match word.compare_exchange_weak(taken, with, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let seat = index as u32 * 64 + bit;
                    HIGH.fetch_max(seat + 1, Ordering::Relaxed);
                    return Some(seat);
                }
                Err(now) => taken = now,
            }
        }
    }
    None
}

impl Drop for Leave {
    fn drop(&mut self) {
        let seat = NUMBER.replace(SEATS as u32) as usize;
        if seat < SEATS {
            TAKEN[seat / 64].fetch_and(!(1 << (seat % 64)), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_live_at_once_have_seats_of_their_own() {
        for _ in 0..3 {
            let (all_sit, seats) = (Barrier::new(50), Mutex::new(Vec::new()));
            thread::scope(|scope| {
                for _ in 0..50 {
                    scope.spawn(|| {
                        seats.lock().expect("nobody panics").push(number());
                        all_sit.wait();
                        assert_eq!(number(), number());
                    });
                }
            });
            let mut seats = seats.into_inner().expect("nobody panics");
            seats.sort_unstable();
            seats.dedup();
            assert_eq!(seats.len(), 50, "threads have seats of their own");
            // The seats of threads that have ended are taken again; other tests have a few.
            assert!(seats[49] < 300 && high() > seats[49], "{seats:?}, {}", high());
        }
    }

    #[test]
    fn a_thread_that_ends_has_no_seat() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                SEEN.store(number() as u32, Ordering::Relaxed);
            }
        }
        static SEEN: AtomicU32 = AtomicU32::new(0);
        thread_local!(static LATE: Late = const { Late });
        // Destructors run in the order in which they were registered, or the reverse.
        thread::spawn(|| {
            number();
            LATE.with(|_| ());
        })
        .join()
        .expect("it ends");
        let first = SEEN.load(Ordering::Relaxed);
        thread::spawn(|| {
            LATE.with(|_| ());
            number();
        })
        .join()
        .expect("it ends");
        let seen = [first, SEEN.load(Ordering::Relaxed)];
        assert_eq!(seen.iter().filter(|&&seen| seen as usize >= SEATS).count(), 1, "{seen:?}");
    }
}
