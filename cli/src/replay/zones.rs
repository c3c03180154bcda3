//! The allocators of a replay: one for each zone, used as one.

use std::ops::Range;

use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, FreeBlocks, FreeError, HugeId,
    Init, InitError, Order, Owned, Request, Slot, ZoneConfig,
};

use woodlot_trace::{FrameSet, aligned_pieces};

use super::manner::{Blocks, Manner};
use super::plan::{Claim, Plan, Want};

/// Zones in rising order of their frames.
pub struct Zones<A> {
    zones: Vec<Owned<A>>,
}

impl<A: Construct + FrameAllocator<Geometry = Base4K>> Zones<A> {
    /// With the plan's claims made. Returns how many claims were refused, too.
    pub fn claimed(plan: &Plan, manner: Manner) -> Result<(Self, usize), InitError> {
        let zones = plan.zones.iter().map(|zone| {
            let config = ZoneConfig::new(zone.frames.len(), plan.slots);
            Owned::new(&config.starting_at(FrameId(zone.frames.start)), Init::Free)
        });
        let zones = Self { zones: zones.collect::<Result<_, _>>()? };
        let refused = match (manner.exact, manner.blocks) {
            (true, Blocks::InParts) => zones.claim(plan.claims.iter().copied()),
            // As blocks they could not be freed in parts.
            (true, _) => {
                let frames = |claim: &Claim| claim.frame..claim.frame + (1 << claim.order);
                let base = |claim| frames(claim).map(|frame| Claim { frame, order: 0, ..*claim });
                zones.claim(plan.claims.iter().flat_map(base))
            }
            (false, blocks) => zones.leave(plan, blocks),
        };
        Ok((zones, refused))
    }

    /// Claims blocks by their numbers; how many were refused.
    fn claim(&self, claims: impl Iterator<Item = Claim>) -> usize {
        let refused = |claim: &Claim| {
            let request = request(claim.order, claim.class, Slot(0)).at(FrameId(claim.frame));
            self.at(FrameId(claim.frame)).and_then(|zone| zone.alloc(request).ok()).is_none()
        };
        claims.filter(refused).count()
    }

    /// Allocates everything and frees all but what is claimed, the last first; how many claims were not
    /// to be had.
    fn leave(&self, plan: &Plan, blocks: Blocks) -> usize {
        let mut claimed = FrameSet::new(plan.frames());
        plan.claims.iter().for_each(|claim| _ = claimed.take(frames(claim.frame, claim.order)));
        let largest = if blocks == Blocks::InParts { Order::max::<Base4K>().0 } else { 0 };
        let mut all = Vec::new();
        for (zone, slot) in
            self.zones.iter().flat_map(|zone| (0..plan.slots).map(move |s| (zone, s)))
        {
            for order in (0..=largest).rev() {
                let request = request(order, Class::MOVABLE, Slot(slot));
                let blocks = std::iter::from_fn(|| zone.alloc(request).ok());
                all.extend(blocks.map(|frame| (frame.0, order, Slot(slot))));
            }
        }
        for &(first, order, slot) in all.iter().rev() {
            for run in claimed.free_runs(frames(first, order)) {
                for (frame, order) in aligned_pieces(run, largest) {
                    // It was allocated above; if it is refused, the check of the statistics says so.
                    let _ = self.free(FrameId(frame), Order(order), slot);
                }
            }
        }
        for (zone, slot) in
            self.zones.iter().flat_map(|zone| (0..plan.slots).map(move |s| (zone, s)))
        {
            // The zone has these slots.
            let _ = zone.drain(Slot(slot));
        }
        all.iter().for_each(|&(first, order, _)| _ = claimed.give(frames(first, order)));
        let missing =
            |claim: &&Claim| frames(claim.frame, claim.order).any(|f| claimed.contains(f));
        plan.claims.iter().filter(missing).count()
    }

    fn at(&self, frame: FrameId) -> Option<&Owned<A>> {
        self.zones.iter().find(|zone| zone.zone().range().contains(&frame))
    }

    /// Allocates from the zone wanted or, where it has nothing, from those below it.
    pub fn alloc(&self, want: Want, slot: Slot) -> Result<FrameId, AllocError> {
        let request = request(want.order, want.class, slot);
        let mut result = Err(AllocError::OutOfMemory);
        for zone in self.zones.iter().take(want.zone as usize + 1).rev() {
            result = zone.alloc(request);
            if result != Err(AllocError::OutOfMemory) {
                break;
            }
        }
        result
    }

    /// Frees a block.
    pub fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.at(frame).map_or(Err(FreeError::OutOfRange(frame)), |z| z.free(frame, order, slot))
    }

    /// The first slot allocates so many frames, or what there is, and frees them again: what is free is as before, and the slot elsewhere.
    pub fn pass(&self, frames: usize) {
        for zone in &self.zones {
            let alloc = || zone.alloc(request(0, Class::MOVABLE, Slot(0))).ok();
            let passed: Vec<FrameId> = std::iter::from_fn(alloc).take(frames).collect();
            // If one is refused, the check of the statistics says so.
            passed.iter().for_each(|&frame| _ = zone.free(frame, Order::BASE, Slot(0)));
        }
    }

    /// Free base frames and free huge frames, by the engine's statistics; those that are isolated are nobody's.
    pub fn free_counts(&self) -> (usize, usize) {
        let counts = self.zones.iter().map(|zone| {
            let stats = zone.stats();
            let range = zone.zone().huge_range::<Base4K>();
            let empty = |&huge: &usize| {
                zone.is_isolated(HugeId(huge)) && zone.frames_in_use(HugeId(huge)) == 0
            };
            let isolated = match stats.isolated_huge {
                0 => 0,
                _ => (range.start.0..range.end.0).filter(empty).count(),
            };
            (stats.free_frames + stats.isolated_frames, stats.free_huge + isolated)
        });
        counts.fold((0, 0), |(frames, huge), (f, h)| (frames + f, huge + h))
    }

    /// Free blocks of each order, those of all zones together.
    pub fn free_blocks(&self) -> Vec<usize> {
        let of: Vec<FreeBlocks> = self.zones.iter().map(|zone| FreeBlocks::of(&**zone)).collect();
        let sum = |order| of.iter().map(|blocks| blocks.count(order)).sum();
        Order::all::<Base4K>().map(sum).collect()
    }

    /// Each zone.
    pub fn each(&self) -> impl Iterator<Item = &Owned<A>> {
        self.zones.iter()
    }

    /// Does the engine think that this frame is free?
    pub fn is_free(&self, frame: usize) -> bool {
        let frame = FrameId(frame);
        self.at(frame).is_some_and(|zone| zone.is_free(frame, Order::BASE))
    }

    /// How many frames of a huge frame the engine thinks are free.
    pub fn free_in_huge(&self, huge: usize) -> usize {
        self.zones.iter().map(|zone| zone.free_in_huge(HugeId(huge))).sum()
    }
}

/// The frames of a block.
fn frames(first: usize, order: u8) -> Range<usize> {
    first..first + (1 << order)
}

fn request(order: u8, class: Class, slot: Slot) -> Request {
    Request::new(Order(order), class, slot)
}
