//! Who needs a large block asks the daemon for it.
//!
//! ```text
//!   ask ─► asked += n ─► the daemon, whatever the threshold ─► answered = what was asked when it began
//!                                └ it ends, or dies ───────────► closed: whatever is asked is answered
//! ```
//!
//! *Progress*: wait-free, but for [`alloc_or_ask`], which waits as its caller says.

use woodlot_frame::atomics::{AtomicU8, AtomicU64, Ordering};
use woodlot_frame::{AllocError, FrameAllocator, FrameId, Order, Request};

/// What was asked of a daemon: huge frames, counted since the beginning.
#[derive(Debug, Default)]
pub struct Asks {
    asked: AtomicU64,
    answered: AtomicU64,
    /// 1: nobody serves them any more.
    closed: AtomicU8,
}

/// What somebody asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(u64);

/// What an allocation of a large order does where there is no such block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Nothing.
    Fail,
    /// It asks the daemon, for the sake of those that come later, and fails.
    Ask,
    /// It asks, and tries again when the daemon has done what it can.
    Wait,
}

impl Asks {
    /// Nobody has asked.
    #[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
    pub const fn new() -> Asks {
        Asks { asked: AtomicU64::new(0), answered: AtomicU64::new(0), closed: AtomicU8::new(0) }
    }

    /// Asks for so many huge frames.
    pub fn ask(&self, huge: usize) -> Ticket {
        let before = self.asked.fetch_add(huge as u64, Ordering::AcqRel);
        Ticket(before.wrapping_add(huge as u64))
    }

    /// Has the daemon done since what it could? True as well where they are [closed](Self::close).
    pub fn is_answered(&self, ticket: Ticket) -> bool {
        self.closed.load(Ordering::Acquire) != 0
            || self.answered.load(Ordering::Acquire).wrapping_sub(ticket.0) as i64 >= 0
    }

    /// No daemon serves them from now on: whatever is or will be asked counts as answered, so that nobody waits in vain.
    pub fn close(&self) {
        self.closed.store(1, Ordering::Release);
    }

    /// What was asked up to now, and how many huge frames of it nobody has answered for.
    pub(crate) fn open(&self) -> (Ticket, usize) {
        let asked = self.asked.load(Ordering::Acquire);
        let open = asked.wrapping_sub(self.answered.load(Ordering::Acquire)) as i64;
        // Negative where somebody has asked since, and another daemon has answered that.
        (Ticket(asked), open.max(0) as usize)
    }

    /// All that was asked up to the ticket is done, as far as it could be.
    pub(crate) fn answer(&self, ticket: Ticket) {
        // Two daemons may serve the same asks: none takes back what the other has answered.
        let mut answered = self.answered.load(Ordering::Acquire);
        while ticket.0.wrapping_sub(answered) as i64 > 0 {
            match self.answered.compare_exchange(
                answered,
                ticket.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(other) => answered = other,
            }
        }
    }
}

/// Allocates a block, and turns to the daemon where there is none. `wait` is called again and again until the daemon has
/// answered: it sleeps, or does something else; false gives up.
///
/// # Errors
/// As [`FrameAllocator::alloc`].
pub fn alloc_or_ask<A: FrameAllocator>(
    allocator: &A,
    request: Request,
    asks: &Asks,
    patience: Patience,
    mut wait: impl FnMut() -> bool,
) -> Result<FrameId, AllocError> {
    let refused = match allocator.alloc(request) {
        Err(AllocError::OutOfMemory) => Err(AllocError::OutOfMemory),
        other => return other,
    };
    let huge = request
        .order
        .0
        .checked_sub(Order::huge::<A::Geometry>().0)
        .map(|more| Order(more).frames());
    // Smaller blocks are there as long as any huge frame is.
    let (Some(huge), true) = (huge, patience != Patience::Fail) else { return refused };
    // A block of two needs neighbours: compaction that looks for neither gets them only if it wins more.
    let ticket = asks.ask(huge);
    if patience == Patience::Ask {
        return refused;
    }
    while !asks.is_answered(ticket) {
        if !wait() {
            return refused;
        }
    }
    allocator.alloc(request)
}

#[cfg(all(test, not(any(woodlot_loom, woodlot_shuttle, woodlot_explore))))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn what_another_daemon_has_answered_is_not_open() {
        let asks = Asks::new();
        let ticket = asks.ask(6);
        assert_eq!(asks.open(), (ticket, 6));
        asks.answer(ticket);
        // As this daemon has read it before the other one answered.
        asks.asked.store(5, Ordering::Relaxed);
        assert_eq!(asks.open().1, 0);
    }
}
