//! Engines without their types: an engine is a value, and its zones are behind one interface.
//!
//! ```text
//!   Engine      which engine, and with which geometry     Engine::of::<LLFree<Base4K>>()
//!   Zone        a zone of it, with its metadata           Owned<LLFree<Base4K>>
//!   Allocator   the calls of the contract on it           LLFree<Base4K>
//! ```
//!
//! So the checks and the judge are compiled once, in this crate, and a test compiles for each engine
//! no more than the engine's own methods.

use std::ops::Range;

use woodlot_frame::{
    AllocError, BadSlot, Batch, Claim, ClassPolicy, Construct, FrameAllocator, FrameId,
    FreeBatchError, FreeBlocks, FreeError, Geometry, HugeId, Init, InitError, IsolateError,
    MetadataSize, OfflineError, Order, Owned, RangeRequest, RawMetadata, Request, Slot, Stats,
    Unsupported, ZoneConfig, alloc_each, blocks, free_each,
};

use crate::model::{Model, State};

/// [`FrameAllocator`] as a trait of objects: each call is the engine's own.
pub trait Allocator: Sync {
    /// [`FrameAllocator::zone`].
    fn zone(&self) -> &ZoneConfig;

    /// [`FrameAllocator::classes`].
    fn classes(&self) -> &ClassPolicy;

    /// [`Geometry::TREE_FRAMES`].
    fn tree_frames(&self) -> usize;

    /// [`FrameAllocator::alloc`].
    ///
    /// # Errors
    /// The engine's.
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError>;

    /// [`FrameAllocator::free`].
    ///
    /// # Errors
    /// The engine's.
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError>;

    /// [`FrameAllocator::alloc_batch`].
    ///
    /// # Errors
    /// The engine's.
    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError>;

    /// [`FrameAllocator::free_batch`].
    ///
    /// # Errors
    /// The engine's.
    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError>;

    /// [`FrameAllocator::alloc_range`].
    ///
    /// # Errors
    /// The engine's.
    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError>;

    /// [`FrameAllocator::free_range`].
    ///
    /// # Errors
    /// The engine's.
    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError>;

    /// [`FrameAllocator::can_free`].
    ///
    /// # Errors
    /// The engine's.
    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError>;

    /// [`alloc_each`] on the engine.
    ///
    /// # Errors
    /// The engine's.
    fn alloc_each(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError>;

    /// [`free_each`] on the engine.
    ///
    /// # Errors
    /// The engine's.
    fn free_each(&self, frames: &[FrameId], order: Order, slot: Slot)
    -> Result<(), FreeBatchError>;

    /// [`FrameAllocator::drain`].
    ///
    /// # Errors
    /// The engine's.
    fn drain(&self, slot: Slot) -> Result<(), BadSlot>;

    /// [`FrameAllocator::offline`].
    ///
    /// # Errors
    /// The engine's.
    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError>;

    /// [`FrameAllocator::online`].
    ///
    /// # Errors
    /// The engine's.
    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError>;

    /// [`FrameAllocator::isolate`].
    ///
    /// # Errors
    /// The engine's.
    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError>;

    /// [`FrameAllocator::unisolate`].
    ///
    /// # Errors
    /// The engine's.
    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError>;

    /// [`FrameAllocator::claim_isolated`].
    ///
    /// # Errors
    /// The engine's.
    fn claim_isolated(&self, first: HugeId, count: usize, claim: Claim)
    -> Result<(), IsolateError>;

    /// [`FrameAllocator::is_isolated`].
    fn is_isolated(&self, huge: HugeId) -> bool;

    /// [`FrameAllocator::frames_in_use`].
    fn frames_in_use(&self, huge: HugeId) -> usize;

    /// [`FrameAllocator::used_map`].
    fn used_map(&self, frame: FrameId) -> u64;

    /// [`FrameAllocator::is_available`].
    fn is_available(&self, order: Order) -> bool;

    /// [`FrameAllocator::free_frames`].
    fn free_frames(&self) -> usize;

    /// [`FrameAllocator::stats`].
    fn stats(&self) -> Stats;

    /// [`FrameAllocator::is_free`].
    fn is_free(&self, frame: FrameId, order: Order) -> bool;

    /// [`FrameAllocator::free_in_huge`].
    fn free_in_huge(&self, huge: HugeId) -> usize;

    /// [`FrameAllocator::free_map`].
    fn free_map(&self, frame: FrameId) -> u64;

    /// [`FrameAllocator::free_runs`], as a list.
    fn free_runs(&self, frames: Range<FrameId>) -> Vec<Range<FrameId>>;

    /// [`FrameAllocator::free_huge_frames`], as a list.
    fn free_huge_frames(&self) -> Vec<HugeId>;

    /// The same, from the last to the first.
    fn free_huge_frames_back(&self) -> Vec<HugeId>;

    /// [`FreeBlocks::of`] the engine.
    fn free_blocks(&self) -> FreeBlocks;
}

impl<A: FrameAllocator> Allocator for A {
    fn zone(&self) -> &ZoneConfig {
        A::zone(self)
    }

    fn classes(&self) -> &ClassPolicy {
        A::classes(self)
    }

    fn tree_frames(&self) -> usize {
        A::Geometry::TREE_FRAMES
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        A::alloc(self, request)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        A::free(self, frame, order, slot)
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        A::alloc_batch(self, request, batch, out)
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        A::free_batch(self, frames, order, slot)
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        A::alloc_range(self, request)
    }

    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        A::free_range(self, frames, slot)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        A::can_free(self, frame, order, slot)
    }

    fn alloc_each(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        alloc_each(self, request, batch, out)
    }

    fn free_each(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        free_each(self, frames, order, slot)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        A::drain(self, slot)
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        A::offline(self, first, count)
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        A::online(self, first, count)
    }

    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        A::isolate(self, first, count)
    }

    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        A::unisolate(self, first, count)
    }

    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        A::claim_isolated(self, first, count, claim)
    }

    fn is_isolated(&self, huge: HugeId) -> bool {
        A::is_isolated(self, huge)
    }

    fn frames_in_use(&self, huge: HugeId) -> usize {
        A::frames_in_use(self, huge)
    }

    fn used_map(&self, frame: FrameId) -> u64 {
        A::used_map(self, frame)
    }

    fn is_available(&self, order: Order) -> bool {
        A::is_available(self, order)
    }

    fn free_frames(&self) -> usize {
        A::free_frames(self)
    }

    fn stats(&self) -> Stats {
        A::stats(self)
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        A::is_free(self, frame, order)
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        A::free_in_huge(self, huge)
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        A::free_map(self, frame)
    }

    fn free_runs(&self, frames: Range<FrameId>) -> Vec<Range<FrameId>> {
        A::free_runs(self, frames).collect()
    }

    fn free_huge_frames(&self) -> Vec<HugeId> {
        A::free_huge_frames(self).collect()
    }

    fn free_huge_frames_back(&self) -> Vec<HugeId> {
        A::free_huge_frames(self).rev().collect()
    }

    fn free_blocks(&self) -> FreeBlocks {
        FreeBlocks::of(self)
    }
}

/// [`Owned`] as a trait of objects.
pub trait Zone: Sync {
    /// The allocator.
    fn allocator(&self) -> &dyn Allocator;

    /// [`Owned::recover`].
    ///
    /// # Errors
    /// The engine's.
    fn recover(&mut self, config: &ZoneConfig) -> Result<(), InitError>;

    /// [`Owned::edit_durable`].
    fn edit_durable(&mut self, edit: &mut dyn FnMut(&mut [u8]));
}

impl<A: Construct> Zone for Owned<A> {
    fn allocator(&self) -> &dyn Allocator {
        &**self
    }

    fn recover(&mut self, config: &ZoneConfig) -> Result<(), InitError> {
        Owned::recover(self, config)
    }

    fn edit_durable(&mut self, edit: &mut dyn FnMut(&mut [u8])) {
        Owned::edit_durable(self, edit);
    }
}

/// What was made, or why it could not be.
type Made<T> = Result<Box<T>, InitError>;

/// An engine compiled for a geometry: what it says of itself, and how zones of it are made.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// [`FrameAllocator::NAME`].
    pub name: &'static str,
    /// [`FrameAllocator::UNSUPPORTED`].
    pub unsupported: Unsupported,
    /// The order of a huge frame.
    pub huge_order: Order,
    /// [`FrameAllocator::MAX_ORDER`].
    pub max_order: Order,
    /// The largest order of the geometry: two huge frames.
    pub pair_order: Order,
    /// [`Geometry::HUGE_FRAMES`].
    pub huge_frames: usize,
    /// [`Geometry::TREE_HUGE`].
    pub tree_huge: usize,
    /// [`Geometry::TREE_FRAMES`].
    pub tree_frames: usize,
    huge_of: fn(FrameId) -> HugeId,
    first_of: fn(HugeId) -> FrameId,
    huge_range: fn(&ZoneConfig) -> Range<HugeId>,
    blocks: fn(Range<FrameId>) -> Vec<(FrameId, Order)>,
    metadata_size: fn(&ZoneConfig) -> Result<MetadataSize, InitError>,
    zone: fn(&ZoneConfig, Init) -> Made<dyn Zone>,
    construct: unsafe fn(&ZoneConfig, RawMetadata, Init) -> Made<dyn Allocator>,
}

impl Engine {
    /// The engine of this type.
    pub const fn of<A: Construct + 'static>() -> Engine {
        Engine {
            name: A::NAME,
            unsupported: A::UNSUPPORTED,
            huge_order: Order::huge::<A::Geometry>(),
            max_order: A::MAX_ORDER,
            pair_order: Order::max::<A::Geometry>(),
            huge_frames: A::Geometry::HUGE_FRAMES,
            tree_huge: A::Geometry::TREE_HUGE,
            tree_frames: A::Geometry::TREE_FRAMES,
            huge_of: FrameId::huge::<A::Geometry>,
            first_of: HugeId::first::<A::Geometry>,
            huge_range: ZoneConfig::huge_range::<A::Geometry>,
            blocks: |run| blocks::<A::Geometry>(run).collect(),
            metadata_size: A::metadata_size,
            zone: owned::<A>,
            construct: constructed::<A>,
        }
    }

    /// The judge of a fresh zone.
    pub fn model(&self, config: &ZoneConfig, init: Init) -> Model {
        let model = Model::new(config, init, self.huge_order, self.unsupported);
        model.with_max_order(self.max_order)
    }

    /// The judge of a zone with the states that `state` says.
    pub fn model_of(&self, config: &ZoneConfig, state: impl Fn(FrameId) -> State) -> Model {
        let model = Model::from_states(config, self.huge_order, self.unsupported, state);
        model.with_max_order(self.max_order)
    }

    // ---- Its geometry ----

    /// Every order, smallest first.
    pub fn orders(&self) -> impl DoubleEndedIterator<Item = Order> + Clone + use<> {
        (0..=self.max_order.0).map(Order)
    }

    /// The huge frame that a frame lies in.
    pub fn huge_of(&self, frame: FrameId) -> HugeId {
        (self.huge_of)(frame)
    }

    /// The first frame of a huge frame.
    pub fn first_of(&self, huge: HugeId) -> FrameId {
        (self.first_of)(huge)
    }

    /// The huge frames that lie wholly inside a zone.
    pub fn huge_range(&self, config: &ZoneConfig) -> Range<HugeId> {
        (self.huge_range)(config)
    }

    /// The largest blocks that a run consists of.
    pub fn blocks(&self, run: Range<FrameId>) -> Vec<(FrameId, Order)> {
        (self.blocks)(run)
    }

    // ---- How it is made ----

    /// [`Construct::metadata_size`].
    ///
    /// # Errors
    /// The engine's.
    pub fn metadata_size(&self, config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        (self.metadata_size)(config)
    }

    /// [`Owned::new`].
    ///
    /// # Errors
    /// The engine's.
    pub fn zone(&self, config: &ZoneConfig, init: Init) -> Made<dyn Zone> {
        (self.zone)(config, init)
    }

    /// [`Construct::construct`].
    ///
    /// # Errors
    /// The engine's.
    ///
    /// # Safety
    /// What [`Construct::construct`] asks for.
    pub unsafe fn construct(
        &self,
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Made<dyn Allocator> {
        // SAFETY: the caller promises the same.
        unsafe { (self.construct)(config, metadata, init) }
    }
}

fn owned<A: Construct + 'static>(config: &ZoneConfig, init: Init) -> Made<dyn Zone> {
    Ok(Box::new(Owned::<A>::new(config, init)?))
}

/// # Safety
/// What [`Construct::construct`] asks for.
unsafe fn constructed<A: Construct + 'static>(
    config: &ZoneConfig,
    metadata: RawMetadata,
    init: Init,
) -> Made<dyn Allocator> {
    // SAFETY: the caller promises the same.
    Ok(Box::new(unsafe { A::construct(config, metadata, init) }?))
}
