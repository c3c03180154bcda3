//! Many pages at once, from the domains that a policy says, as runs.
//!
//! ```text
//!   count ─► shares: how many from each domain ─► the largest blocks that fit, down to single pages ─► runs
//!                                                 what a domain lacks comes from the nearest others
//! ```
//!
//! FreeBSD anti-fragmentation, section III-C.

use core::fmt;
use core::ops::Range;

use woodlot_frame::{AllocError, Batch, FrameAllocator, FrameId, Geometry, Order, Place, Request};

use crate::domains::Domains;
use crate::map::MAX_DOMAINS;
use crate::policy::Policy;
use crate::turns::Wanted;
use crate::zone::Zone;

/// Blocks that are asked of a zone at a time.
const AT_A_TIME: usize = 32;

/// Why there are no runs. Nothing is allocated then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunsError {
    /// What the allocator says: [`AllocError::OutOfMemory`] where the domains have not so many pages,
    /// [`AllocError::NoSuchDomain`] where the policy names one that the machine does not know.
    Alloc(AllocError),
    /// The request names a place. A policy does.
    Placed,
    /// So many pages lie in more runs than there is room for.
    TooManyRuns,
}

impl fmt::Display for RunsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunsError::Alloc(error) => error.fmt(f),
            RunsError::Placed => f.write_str("the request names a place, and so does the policy"),
            RunsError::TooManyRuns => f.write_str("there is no room for so many runs"),
        }
    }
}

impl core::error::Error for RunsError {}

impl From<AllocError> for RunsError {
    fn from(error: AllocError) -> Self {
        RunsError::Alloc(error)
    }
}

/// Runs as they are found: one that goes on where the last one ends makes that longer.
struct Runs<'o> {
    out: &'o mut [Range<FrameId>],
    len: usize,
}

impl Runs<'_> {
    /// Adds a block. False, if there is no room.
    fn push(&mut self, first: FrameId, order: Order) -> bool {
        let end = FrameId(first.0 + order.frames());
        let last = self.len.checked_sub(1).and_then(|last| self.out.get_mut(last));
        match last {
            Some(last) if last.end == first => last.end = end,
            Some(last) if last.start == end => last.start = first,
            _ => {
                let Some(place) = self.out.get_mut(self.len) else { return false };
                *place = first..end;
                self.len += 1;
            }
        }
        true
    }
}

impl<'a, A: FrameAllocator> Domains<'a, A> {
    /// Allocates `count` pages of the request's order from the domains that the policy says, and writes the runs that
    /// they make up to `out`; returns how many runs. With [`Batch::UpTo`] there may be fewer pages, where there is no
    /// more memory or no more room.
    ///
    /// Pages are taken as the largest blocks that are free, and can be freed singly: by an allocator that can free a
    /// part of a block.
    ///
    /// # Errors
    /// Why there are none.
    ///
    /// # Progress
    /// As [`alloc`](FrameAllocator::alloc), for each block.
    pub fn alloc_runs(
        &self,
        request: Request,
        count: usize,
        policy: Policy<'_>,
        batch: Batch,
        out: &mut [Range<FrameId>],
    ) -> Result<usize, RunsError> {
        if request.place != Place::Anywhere {
            return Err(RunsError::Placed);
        }
        if request.slot.0 >= self.config.slots {
            return Err(AllocError::BadSlot(request.slot).into());
        }
        self.check(policy)?;
        let mut runs = Runs { out, len: 0 };
        let mut left = count;
        let mut result = self.fill(request, policy, &mut left, &mut runs);
        if left > 0 && result.is_ok() && (batch == Batch::All || left == count) {
            result = Err(AllocError::OutOfMemory.into());
        }
        match result {
            Err(RunsError::TooManyRuns) if batch == Batch::UpTo && left < count => Ok(runs.len),
            Err(error) => {
                let taken = runs.out.iter().take(runs.len);
                // They are the caller's own, so that each free succeeds.
                taken.for_each(|run| _ = self.free_range(run.clone(), request.slot));
                Err(error)
            }
            Ok(()) => Ok(runs.len),
        }
    }

    /// Takes what the policy says from each domain, and then what is left from those that have more.
    fn fill(
        &self,
        request: Request,
        policy: Policy<'_>,
        left: &mut usize,
        runs: &mut Runs<'_>,
    ) -> Result<(), RunsError> {
        if Self::is_above(request.order) {
            return self.fill_giant(request, policy, left, runs);
        }
        if !policy.is_even() {
            let first = self.turn_of(policy, request.slot).next();
            let Some(first) = first else { return Ok(()) };
            let wanted = Wanted { domain: first.domain, in_turn: false };
            return self.take_in_turn(policy, request, wanted, left, runs);
        }
        let (count, domains) = (*left, self.with_memory());
        let first = policy.first_page(count).checked_rem(domains.len()).unwrap_or(0);
        // What each domain was to give, and does not have.
        let mut lacking = [0; MAX_DOMAINS];
        for (number, (domain, lacks)) in domains.iter().zip(&mut lacking).enumerate() {
            // Pages `first .. first + count` in turn: how many fall to this domain.
            let before = |end: usize| end.saturating_sub(number).div_ceil(domains.len());
            let share = before(first.saturating_add(count)) - before(first);
            *lacks = share;
            let wanted = Wanted { domain, in_turn: true };
            let mut own = self.zones_of(domain);
            let taken = own.try_for_each(|zone| self.take(zone, request, wanted, lacks, runs));
            *left -= share - *lacks;
            taken?;
        }
        if *left > 0 {
            for (domain, lacks) in domains.iter().zip(&mut lacking) {
                let (asked, wanted) = (*lacks, Wanted { domain, in_turn: true });
                let taken = self.take_in_turn(policy, request, wanted, lacks, runs);
                *left -= asked - *lacks;
                taken?;
            }
        }
        Ok(())
    }

    /// Takes giant frames, one by one: there is no larger block.
    fn fill_giant(
        &self,
        request: Request,
        policy: Policy<'_>,
        left: &mut usize,
        runs: &mut Runs<'_>,
    ) -> Result<(), RunsError> {
        for number in 0..*left {
            let policy = match policy {
                Policy::Interleave { page } => {
                    Policy::Interleave { page: page.saturating_add(number) }
                }
                other => other,
            };
            match self.alloc_by(request, policy) {
                Ok(block) if runs.push(block, request.order) => *left -= 1,
                Ok(block) => {
                    // It is the caller's own, so that the free succeeds.
                    let _ = self.free(block, request.order, request.slot);
                    return Err(RunsError::TooManyRuns);
                }
                Err(AllocError::OutOfMemory) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes pages from the zones in turn.
    fn take_in_turn(
        &self,
        policy: Policy<'_>,
        request: Request,
        wanted: Wanted,
        left: &mut usize,
        runs: &mut Runs<'_>,
    ) -> Result<(), RunsError> {
        let mut turn = self.turn_of(policy, request.slot);
        while *left > 0
            && let Some(zone) = turn.next()
        {
            self.take(zone, request, wanted, left, runs)?;
        }
        Ok(())
    }

    /// Takes pages from a zone: the largest blocks first.
    fn take(
        &self,
        zone: &Zone<'a, A>,
        request: Request,
        wanted: Wanted,
        left: &mut usize,
        runs: &mut Runs<'_>,
    ) -> Result<(), RunsError> {
        let unit = u32::from(request.order.0);
        let mut order = A::Geometry::MAX_ORDER.max(unit);
        while let Some(log) = left.checked_ilog2() {
            order = order.min(unit + log);
            let mut blocks = [FrameId(0); AT_A_TIME];
            let most = (*left >> (order - unit)).min(AT_A_TIME);
            let larger = Request { order: Order(order as u8), ..request };
            let room = blocks.get_mut(..most).unwrap_or_default();
            match zone.allocator.alloc_batch(larger, Batch::UpTo, room) {
                Ok(some) => {
                    let mut found = room.iter().take(some).map(|&block| zone.frame(block));
                    while let Some(block) = found.next() {
                        if !runs.push(block, larger.order) {
                            let free = |block| _ = self.free(block, larger.order, larger.slot);
                            core::iter::once(block).chain(found).for_each(free);
                            return Err(RunsError::TooManyRuns);
                        }
                        *left -= 1 << (order - unit);
                        self.turns.count(request.slot, wanted, zone.domain, 1 << order);
                    }
                }
                Err(AllocError::OutOfMemory) if order == unit => break,
                Err(AllocError::OutOfMemory) => order -= 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
