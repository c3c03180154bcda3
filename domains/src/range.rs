//! Runs of frames, from the domains that a policy says.
//!
//! ```text
//!   turn     domain 1 ─► domain 0 ─► domain 2     the domain in turn, then the nearest that the policy allows
//!   search   from the first to the last frame that the domain has in the place: a run of its frames alone
//!   last     in all of the place: a run of frames of any that the policy allows
//! ```

use core::ops::Range;

use woodlot_frame::{
    AllocError, FrameAllocator, FrameId, Place, RangeRequest, Slot, alloc_run, blocks_in,
};

use crate::DomainId;
use crate::domains::Domains;
use crate::one::OneDomain;
use crate::policy::{DomainSet, Policy};
use crate::turns::Wanted;

impl<'a, A: FrameAllocator> Domains<'a, A> {
    /// Allocates a run of frames from the domain that the policy says; where that has none, from the nearest others, and where
    /// none of them has one by itself, across those that the policy allows. A run is one page for a policy that takes the
    /// domains in turn.
    ///
    /// # Errors
    /// As [`alloc_range`](FrameAllocator::alloc_range) and [`alloc_by`](Self::alloc_by): [`AllocError::OutOfMemory`], too,
    /// where the run at the frame that the request names has frames of a domain that the policy does not allow.
    ///
    /// # Progress
    /// As [`alloc_range`](FrameAllocator::alloc_range), for each domain that is asked, and at last for all of the place. Each
    /// search is linear in the huge frames from the first to the last one that the domain has there, holes too.
    pub fn alloc_range_by(
        &self,
        request: RangeRequest,
        policy: Policy<'_>,
    ) -> Result<Range<FrameId>, AllocError> {
        self.check(policy)?;
        if let Place::At(_) = request.place {
            return self.range_at(request, policy.allowed());
        }
        self.range_from(request, policy, self.in_turn(policy))
    }

    /// A run as a policy says that gives no shares.
    pub(crate) fn range_allowed(
        &self,
        request: RangeRequest,
        policy: Policy<'_>,
    ) -> Result<Range<FrameId>, AllocError> {
        match request.place {
            Place::At(_) => self.range_at(request, policy.allowed()),
            _ => self.range_from(request, policy, None),
        }
    }

    /// A run at a frame, of these domains.
    fn range_at(
        &self,
        request: RangeRequest,
        allowed: DomainSet,
    ) -> Result<Range<FrameId>, AllocError> {
        let run = alloc_run(&OneDomain::of(self, allowed), request);
        let is_left_out = |frame| self.domain_of(frame).is_some_and(|domain| !allowed.has(domain));
        match run {
            Err(AllocError::InUse(frame)) if is_left_out(frame) => Err(AllocError::OutOfMemory),
            run => run,
        }
    }

    /// A run from the domain in turn and then from those that a policy allows.
    fn range_from(
        &self,
        request: RangeRequest,
        policy: Policy<'_>,
        in_turn: Option<DomainId>,
    ) -> Result<Range<FrameId>, AllocError> {
        let window = self.window(request.place);
        let (mut wanted, mut asked) = (None, DomainSet::default());
        let mut found = Err(AllocError::NoPlace(window.start));
        for domain in in_turn.into_iter().chain(self.domains_of(policy, request.slot)) {
            let part = self.part_of(domain, &window);
            if part.is_empty() || asked.has(domain) {
                continue;
            }
            asked = asked.with(domain);
            wanted.get_or_insert(Wanted { domain, in_turn: in_turn == Some(domain) });
            found = alloc_run(&OneDomain::of(self, DomainSet::one(domain)), request.within(part));
            if !matches!(found, Err(AllocError::OutOfMemory | AllocError::NoPlace(_))) {
                break;
            }
        }
        // A place that is too small may be so for the one domain alone, and where none was asked the request may be wrong.
        if asked.len() > 1 && found == Err(AllocError::OutOfMemory)
            || matches!(found, Err(AllocError::NoPlace(_)))
        {
            found = alloc_run(&OneDomain::of(self, asked), request);
        }
        if let (Ok(run), Some(wanted)) = (&found, wanted) {
            self.count_run(run.clone(), request.slot, wanted);
        }
        found
    }

    /// From the first to the last frame that a domain has in a range.
    fn part_of(&self, domain: DomainId, range: &Range<FrameId>) -> Range<FrameId> {
        let parts = self.zones_of(domain).filter_map(|zone| zone.part_outside(range));
        let both = |one: Range<FrameId>, other: Range<FrameId>| {
            one.start.min(other.start)..one.end.max(other.end)
        };
        parts.reduce(both).unwrap_or_default()
    }

    /// Counts what each domain gave to a run.
    pub(crate) fn count_run(&self, run: Range<FrameId>, slot: Slot, wanted: Wanted) {
        for (part, order) in blocks_in(self, run) {
            let given = self.domain_of(part).into_iter();
            given.for_each(|given| self.turns.count(slot, wanted, given, order.frames()));
        }
    }
}
