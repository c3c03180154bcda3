//! Frames of one zone as three domains, whose chunks alternate.

use woodlot_domains::{DomainId, Domains, Map, Present, Setup, SetupError};
use woodlot_frame::{
    AllocError, BadSlot, Batch, Construct, FrameAllocator, FrameId, FreeBatchError, FreeError,
    Geometry, HugeId, Init, InitError, METADATA_ALIGN, MetadataSize, OfflineError, Order,
    RawMetadata, Request, Slot, Stats, Unsupported, ZoneConfig,
};

/// The most chunks that are kept apart; the rest is the last domain's.
const PARTS: usize = 24;

/// Three domains with all frames of a zone.
pub struct Split<A: 'static>(Domains<'static, A>);

/// The sum of what the domains take, each from a cache line of its own.
fn sum(sizes: impl Iterator<Item = MetadataSize>) -> MetadataSize {
    sizes.fold(MetadataSize { durable: 0, volatile: 0 }, |sum, size| MetadataSize {
        durable: sum.durable + size.durable.next_multiple_of(METADATA_ALIGN),
        volatile: sum.volatile + size.volatile.next_multiple_of(METADATA_ALIGN),
    })
}

fn with_setup<G: Geometry, R>(
    config: &ZoneConfig,
    call: impl FnOnce(Setup<'_>) -> Result<R, SetupError>,
) -> Result<R, InitError> {
    if config.frames == 0 {
        return Err(InitError::EmptyZone);
    }
    let end = config.start.checked_add(config.frames).ok_or(InitError::ZoneTooLarge)?;
    let mut ranges = Vec::new();
    let mut start = config.start;
    while start < end {
        let next = FrameId((start.0 | (G::MAX_FRAMES - 1)).saturating_add(1)).min(end);
        let next = if ranges.len() == PARTS { end } else { next };
        ranges.push(Present::new(start..next, DomainId((ranges.len() % 3) as u8)));
        start = next;
    }
    let map = Map::new(&mut ranges).expect("the ranges do not overlap");
    let homes: Vec<_> = (0..config.slots.min(64)).map(|slot| DomainId((slot % 3) as u8)).collect();
    let setup = Setup { classes: config.classes, ..Setup::new(map, config.slots) };
    call(setup.at_home(&homes)).map_err(|error| match error {
        SetupError::Zone(_, error) => error,
        other => panic!("{other}"),
    })
}

impl<A: Construct + 'static> Construct for Split<A> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        with_setup::<A::Geometry, _>(config, |setup| {
            let sizes = setup.sizes::<A>().collect::<Result<Vec<_>, _>>()?;
            Ok(sum(sizes.into_iter().map(|(_, size)| size)))
        })
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        metadata.check(Self::metadata_size(config)?)?;
        with_setup::<A::Geometry, _>(config, |setup| {
            let mut taken = MetadataSize { durable: 0, volatile: 0 };
            let memory = |_, size: MetadataSize| {
                // SAFETY: the memory has room for all parts.
                let part = unsafe {
                    RawMetadata {
                        durable: (metadata.durable.0.add(taken.durable), size.durable),
                        volatile: (metadata.volatile.0.add(taken.volatile), size.volatile),
                    }
                };
                taken = sum([taken, size].into_iter());
                Ok(part)
            };
            // SAFETY: as the caller says; the parts do not overlap.
            Ok(Split(unsafe { setup.make(memory, init) }?))
        })
    }
}

impl<A: FrameAllocator + 'static> FrameAllocator for Split<A> {
    type Geometry = A::Geometry;

    const NAME: &'static str = A::NAME;

    const UNSUPPORTED: Unsupported = A::UNSUPPORTED;

    fn zone(&self) -> &ZoneConfig {
        self.0.zone()
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        self.0.alloc(request)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.0.free(frame, order, slot)
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        self.0.alloc_batch(request, batch, out)
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        self.0.free_batch(frames, order, slot)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        self.0.can_free(frame, order, slot)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        self.0.drain(slot)
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.0.offline(first, count)
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        self.0.online(first, count)
    }

    fn is_available(&self, order: Order) -> bool {
        self.0.is_available(order)
    }

    fn free_frames(&self) -> usize {
        self.0.free_frames()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        self.0.is_free(frame, order)
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        self.0.free_map(frame)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        self.0.free_in_huge(huge)
    }
}
