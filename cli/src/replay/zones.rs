//! The allocators of a replay: one for each zone, used as one.

use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, FreeError, HugeId, Init,
    InitError, Order, Owned, Request, Slot, ZoneConfig,
};

use super::plan::{Plan, Want};

/// Zones in rising order of their frames.
pub struct Zones<A> {
    zones: Vec<Owned<A>>,
}

impl<A: Construct + FrameAllocator<Geometry = Base4K>> Zones<A> {
    /// Everything free, then the plan's claims. Returns how many claims were refused, too.
    pub fn claimed(plan: &Plan) -> Result<(Self, usize), InitError> {
        let zones = plan.zones.iter().map(|zone| {
            let config = ZoneConfig::new(zone.frames.len(), plan.slots);
            Owned::new(&config.starting_at(FrameId(zone.frames.start)), Init::Free)
        });
        let zones = Self { zones: zones.collect::<Result<_, _>>()? };
        let claim = |claim: &&super::plan::Claim| {
            let request = request(claim.order, claim.class, Slot(0)).at(FrameId(claim.frame));
            zones.at(FrameId(claim.frame)).and_then(|zone| zone.alloc(request).ok()).is_none()
        };
        let refused = plan.claims.iter().filter(claim).count();
        Ok((zones, refused))
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

    /// Free base frames and free huge frames, by the engine's statistics.
    pub fn free_counts(&self) -> (usize, usize) {
        let stats = self.zones.iter().map(|zone| zone.stats());
        stats.fold((0, 0), |(frames, huge), s| (frames + s.free_frames, huge + s.free_huge))
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

fn request(order: u8, class: Class, slot: Slot) -> Request {
    Request::new(Order(order), slot).class(class)
}
