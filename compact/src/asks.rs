//! Who needs a large block asks the daemon for it.
//!
//! ```text
//!   ask ─► asked += n ─► the daemon, whatever the threshold ─► answered = what was asked when it began
//!                                └ it ends, or dies ───────────► closed: whatever is asked is answered
//! ```
//!
//! *Progress*: wait-free, but for [`alloc_or_ask`] and [`Asks::try_or_ask`], which wait as their caller says.

use woodlot_frame::atomics::{AtomicU8, AtomicU64, Ordering};
use woodlot_frame::{AllocError, FrameAllocator, FrameId, Geometry, Order, Request};

/// What was asked of a daemon: huge frames, counted since the beginning.
#[derive(Debug, Default)]
pub struct Asks {
    asked: AtomicU64,
    answered: AtomicU64,
    /// The largest order above a huge frame's that somebody has asked for since the daemon looked last, or 0.
    block: AtomicU8,
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
        Asks {
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            block: AtomicU8::new(0),
            closed: AtomicU8::new(0),
        }
    }

    /// Asks for so many huge frames.
    pub fn ask(&self, huge: usize) -> Ticket {
        let before = self.asked.fetch_add(huge as u64, Ordering::AcqRel);
        Ticket(before.wrapping_add(huge as u64))
    }

    /// Asks for one aligned block, of an order above that of a huge frame: its huge frames are won as neighbours. Of several such orders
    /// the daemon looks for the largest.
    pub fn ask_block(&self, order: Order) -> Ticket {
        // Before it is counted, so that whoever finds the ask finds the order.
        self.block.fetch_max(order.0, Ordering::AcqRel);
        self.ask(1)
    }

    /// Tries to allocate a block of an order, and turns to the daemon where there is none: `attempt` returns nothing then. For
    /// allocators over the one that is compacted; see [`alloc_or_ask`] for `wait`.
    pub fn try_or_ask<G: Geometry, T>(
        &self,
        order: Order,
        patience: Patience,
        mut wait: impl FnMut() -> bool,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(done) = attempt() {
            return Some(done);
        }
        let huge = Order::huge::<G>();
        // Smaller blocks are there as long as any huge frame is.
        if order < huge || patience == Patience::Fail {
            return None;
        }
        let ticket = if order > huge { self.ask_block(order) } else { self.ask(1) };
        if patience == Patience::Ask {
            return None;
        }
        while !self.is_answered(ticket) {
            if !wait() {
                return None;
            }
        }
        attempt()
    }

    /// The order of the block that was asked for, if one was; now it is the caller's to win.
    pub(crate) fn take_block(&self) -> Option<Order> {
        let order = self.block.swap(0, Ordering::AcqRel);
        (order > 0).then_some(Order(order))
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
    wait: impl FnMut() -> bool,
) -> Result<FrameId, AllocError> {
    let attempt = || match allocator.alloc(request) {
        Err(AllocError::OutOfMemory) => None,
        other => Some(other),
    };
    asks.try_or_ask::<A::Geometry, _>(request.order, patience, wait, attempt)
        .unwrap_or(Err(AllocError::OutOfMemory))
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
