//! The contract.

use core::ops::Range;

use crate::{
    AllocError, BadSlot, Batch, Claim, ClassPolicy, FrameId, FreeBatchError, FreeError, FreeRuns,
    Geometry, HugeId, Init, InitError, IsolateError, MetadataSize, OfflineError, Order, Place,
    RangeRequest, RawMetadata, Region, Request, Slot, Stats, ZoneConfig, alloc_run, free_run,
};

/// What an engine declares that it cannot do. A call that needs it returns the call's
/// `Unsupported` error; whatever is not declared away must work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unsupported {
    /// [`Place::At`] and [`Place::Within`], and runs of frames with them.
    pub exact_frame: bool,
    /// Freeing a block in parts, or blocks together.
    pub partial_free: bool,
    /// Keeping classes apart. Every class can still be asked for.
    pub classes: bool,
    /// [`FrameAllocator::offline`] and [`FrameAllocator::online`].
    pub offline: bool,
    /// [`FrameAllocator::isolate`], and what follows from it.
    pub isolation: bool,
    /// [`Init::Recover`].
    pub recovery: bool,
    /// Memory that another slot holds is found: without this promise a slot may run out of memory
    /// while another one caches free frames.
    pub exact_exhaustion: bool,
}

/// A page-frame allocator for one zone.
///
/// # What is promised
///
/// * **Ownership.** An `Ok` from [`alloc`](Self::alloc) means that no other caller owns any frame
///   of the block until it is freed.
/// * **Exactness.** While a suitable block is free and no other call is in flight, `alloc`
///   succeeds on any slot and for any class: memory in another CPU's hands is found and taken.
/// * **Frees.** Any slot may free any frame. A block may be freed in parts, in any order; a free
///   may name any aligned order over frames that are allocated, however they came to be.
/// * **Wrong calls** are told apart by their error and change nothing. The allocator does not know
///   owners: a free of another owner's frames cannot be told from a right one, and a double free
///   that races with the reallocation of the same frame is outside the guarantee, but neither
///   corrupts anything beyond the frames named. (Two such frees of one frame at once may, until both
///   have returned, make other frames of its huge frame look free.)
/// * **Progress.** An engine whose documentation says *lock-free* never waits for another call: a
///   thread that stops for ever inside a call delays nobody. No call allocates from a heap or
///   panics; every call may be made from interrupt context.
///
/// Classes and slots are hints about locality: they decide where a block is taken from, never
/// whether there is one.
///
/// When several things are wrong with a call, the error names any one of them.
pub trait FrameAllocator: Sync {
    /// The frame sizes that the engine was compiled for.
    type Geometry: Geometry;

    /// The engine's name, for reports.
    const NAME: &'static str;

    /// What the engine cannot do.
    const UNSUPPORTED: Unsupported;

    /// The largest order that can be asked for: that of the geometry, unless the allocator makes larger blocks of runs.
    const MAX_ORDER: Order = Order::max::<Self::Geometry>();

    /// The zone as it was configured.
    fn zone(&self) -> &ZoneConfig;

    /// The classes of the zone.
    fn classes(&self) -> &ClassPolicy {
        &self.zone().classes
    }

    /// Allocates one block.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] where no block of the order is free in the place asked for; with
    /// [`Place::At`], [`AllocError::InUse`] where that very block is not free; otherwise what is wrong
    /// with the request.
    fn alloc(&self, request: Request) -> Result<FrameId, AllocError>;

    /// Frees the block of `order` at `frame`.
    ///
    /// # Errors
    /// [`FreeError::NotAllocated`] where some frame of the block is free already, otherwise what
    /// is wrong with the call. Nothing is freed then.
    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError>;

    /// Allocates up to `out.len()` blocks and writes their first frames to `out`; returns how
    /// many. Runs of neighbouring blocks are preferred. With [`Place::At`] the blocks are
    /// those that follow one another from there. An empty `out` yields `Ok(0)`.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc): with [`Batch::All`] if any block was not to be had (none is kept
    /// then, and `out` holds nothing of meaning), with [`Batch::UpTo`] if not even the first was.
    /// [`AllocError::BatchTooLong`] with [`Batch::All`] and [intents](crate::Intents), where a record has no room for so
    /// many; with [`Batch::UpTo`] there are no more then than it has room for.
    ///
    /// # Crash
    /// Some of the blocks may be allocated. With [`Intents`](crate::Intents) it is all or none, but for one write.
    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        alloc_each(self, request, batch, out)
    }

    /// Frees the blocks of `order` that begin at `frames`, in this order.
    ///
    /// # Errors
    /// Stops at the first block that [`free`](Self::free) would refuse, and says which it is; the
    /// blocks before it are free, it and those behind it untouched. [`FreeError::BatchTooLong`] with
    /// [intents](crate::Intents), where a record has no room for so many: none is free then.
    ///
    /// # Crash
    /// Some of the blocks may be free. With [`Intents`](crate::Intents) it is all or none, but for one write.
    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        free_each(self, frames, order, slot)
    }

    /// Allocates a run of neighbouring frames, of any length: more than a block of the largest order
    /// has, or a number that is no power of two. The run is made of free memory, never by moving frames.
    /// [`free_range`](Self::free_range) frees it, or single frees do: the run is as good as the largest
    /// aligned blocks that it consists of.
    ///
    /// The first run is taken that is long enough, from the lowest frame on; one of less than a huge frame
    /// breaks a free huge frame only where no run lies beside what is in use already.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] where no such run is free. Exact when no other call is in flight. With
    /// [`Place::At`], [`AllocError::InUse`] and [`AllocError::OutOfRange`] as for [`alloc`](Self::alloc);
    /// [`AllocError::NoPlace`] where none could ever be free, otherwise what is wrong with the request.
    ///
    /// # Progress
    /// As [`alloc`](Self::alloc). The search is linear in the huge frames of the place, and looks at the
    /// frames of those in use in part. A run is claimed block by block, upwards; where another call was
    /// faster, what was claimed is given back and the search goes on behind. Of several calls that are in
    /// each other's way, the one with the highest claim goes on.
    ///
    /// # Crash
    /// Blocks of a run that was being allocated may be allocated. With [`Intents`](crate::Intents) it is all or none,
    /// but for one write.
    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        alloc_run(self, request)
    }

    /// Frees a run of frames in the largest blocks that it consists of, whatever they were allocated as.
    /// This is how boot memory is handed over, and what frees a run of
    /// [`alloc_range`](Self::alloc_range). An engine without [partial
    /// frees](Unsupported::partial_free) frees the blocks of the run as they were allocated. An empty range is
    /// freed at once.
    ///
    /// # Errors
    /// [`FreeError::NotAllocated`] with the first frame that is free already,
    /// [`FreeError::Unsupported`] with an engine that cannot free a part of a block,
    /// [`FreeError::OutOfRange`] with the first frame outside the zone, otherwise what is wrong with the
    /// call. Nothing is freed then. (Only a call that frees frames of the same run at the same time, which
    /// one of the two does not own, can stop this one half-way.)
    ///
    /// # Progress
    /// As [`free`](Self::free), twice for each block: all are looked at before the first is freed.
    ///
    /// # Crash
    /// Blocks of a run that was being freed may be free. With [`Intents`](crate::Intents) it is all or none, but for
    /// one write.
    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        free_run(self, frames, slot)
    }

    /// The largest order of a block that may begin at `frame`, however it is aligned: smaller than that of the geometry only in an
    /// allocator of several parts, where a border between them is near. Runs are allocated and freed in blocks no larger.
    fn largest_at(&self, frame: FrameId) -> Order {
        let _ = frame;
        Order::max::<Self::Geometry>()
    }

    /// Would [`free`](Self::free) succeed? Changes nothing.
    ///
    /// # Errors
    /// What `free` would say at this moment.
    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError>;

    /// Gives back everything that `slot` holds for itself (reservations, caches), so that the
    /// statistics show where the free frames really are. Its next allocation starts afresh.
    ///
    /// # Errors
    /// Where the zone has no such slot.
    fn drain(&self, slot: Slot) -> Result<(), BadSlot>;

    /// Takes `count` huge frames out, all of which must be free: nobody can allocate them until
    /// they are put back. All or none. A tree is `Geometry::TREE_HUGE` huge frames.
    ///
    /// # Errors
    /// [`OfflineError::InUse`] with the first frame that is allocated or offline,
    /// [`OfflineError::OutOfRange`] where a huge frame is not wholly inside the zone or `count` is
    /// zero.
    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError>;

    /// Puts `count` huge frames back. All or none.
    ///
    /// # Errors
    /// [`OfflineError::NotOffline`] where some huge frame is not offline,
    /// [`OfflineError::OutOfRange`] as for [`offline`](Self::offline).
    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError>;

    /// Isolates `count` huge frames, whatever they are used as: from now on nobody gets a frame of them, and
    /// frees go on. So they empty as their frames are freed, or moved by whoever can. What is empty is the
    /// caller's: it [takes](Self::claim_isolated) the huge frame, or [lets others](Self::unisolate) have it again. All or
    /// none.
    ///
    /// What is free in them is not *free* for any other call of this trait until then: not in a count, a map or a
    /// search; a request that names a frame of them is refused, the isolator's too. An allocation or a free that
    /// began before this returned may still take frames of them to its slot, and whoever begins an allocation before that
    /// call has returned may get them there. With no other call in flight, none is to be had when this returns.
    ///
    /// For compaction, for contiguous memory in a range of choice, and for memory that is to be unplugged.
    ///
    /// The isolation is the huge frame's: no call knows who began it. So only its isolator ends it, by
    /// [`unisolate`](Self::unisolate) or [`claim_isolated`](Self::claim_isolated), unless it is known to have died. Whoever
    /// ends that of a living one, as whoever brings [online](Self::online) what another one has offline, makes the
    /// isolator's next call fail or mean the isolation of who came after. No other huge frame is damaged by that, no frame is
    /// lost or handed out twice, and of several calls that end one isolation at the same time, at most one claims the huge
    /// frame.
    ///
    /// # Errors
    /// [`IsolateError::Isolated`] with the first that is isolated already: of several callers one wins.
    /// [`IsolateError::Offline`] with the first that is offline, [`IsolateError::OutOfRange`] where a huge frame is
    /// not wholly inside the zone or `count` is zero, [`IsolateError::Unsupported`].
    ///
    /// # Progress
    /// As [`alloc`](Self::alloc); linear in the slots and in `count`.
    ///
    /// # Crash
    /// Isolation does not survive a crash: after a recovery, what is free in these huge frames is free. The frames that
    /// are allocated stay so.
    fn isolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let _ = (first, count);
        Err(IsolateError::Unsupported)
    }

    /// Ends the isolation of `count` huge frames: what is free in them can be allocated again. All or none.
    ///
    /// # Errors
    /// [`IsolateError::NotIsolated`] with the first that is not, otherwise as [`isolate`](Self::isolate).
    ///
    /// # Progress
    /// As [`free`](Self::free); linear in `count`.
    fn unisolate(&self, first: HugeId, count: usize) -> Result<(), IsolateError> {
        let _ = (first, count);
        Err(IsolateError::Unsupported)
    }

    /// Takes `count` isolated huge frames that are empty, and ends their isolation: as blocks of the order of a huge
    /// frame that the caller has allocated, or offline. All or none.
    ///
    /// # Errors
    /// [`IsolateError::InUse`] with the first frame that is allocated still, [`IsolateError::NotIsolated`] with the first
    /// huge frame that is not isolated or that another call is claiming, [`IsolateError::BadSlot`], otherwise as
    /// [`isolate`](Self::isolate). Nothing is taken then. A free under way counts as not yet done.
    ///
    /// # Progress
    /// As [`offline`](Self::offline).
    ///
    /// # Crash
    /// Some of them may be taken.
    fn claim_isolated(
        &self,
        first: HugeId,
        count: usize,
        claim: Claim,
    ) -> Result<(), IsolateError> {
        let _ = (first, count, claim);
        Err(IsolateError::Unsupported)
    }

    /// Is a huge frame isolated? False for what is no huge frame of the zone.
    fn is_isolated(&self, huge: HugeId) -> bool {
        let _ = huge;
        false
    }

    /// How many frames of a huge frame are allocated at this moment, isolated or not: how many are to be moved for it
    /// to be empty. 0 outside the zone and for huge frames that are offline.
    fn frames_in_use(&self, huge: HugeId) -> usize {
        count_used(self, huge)
    }

    /// Which of the 64 frames around `frame` are allocated at this moment, isolated or not: bit *i* stands for the *i*-th
    /// frame from `frame`, rounded down to a multiple of 64. Frames outside the zone, and those offline, are not
    /// allocated.
    fn used_map(&self, frame: FrameId) -> u64 {
        used_map(self, frame)
    }

    /// Is a block of `order` free? For watermark checks: near-constant time where a huge frame is free, at
    /// worst, where nothing is, linear in the zone's trees. Exact when no other call is in flight. An order
    /// too large is never available.
    fn is_available(&self, order: Order) -> bool;

    /// About how many frames are free, in O(slots). Exact when no call is in flight, and since
    /// [`stats`](Self::stats) was last called, with no other call in flight, no slot was used by two
    /// calls at once and `stats` was not called beside other calls. What is lost by either, the next
    /// such `stats` makes good.
    fn free_frames(&self) -> usize;

    /// Counts the zone in O(trees + slots).
    fn stats(&self) -> Stats;

    /// Is every frame of the block free at this moment? False for what is not a block of the zone, and for what
    /// is [isolated](Self::isolate).
    fn is_free(&self, frame: FrameId, order: Order) -> bool;

    /// Which of the 64 frames around `frame` are free at this moment: bit *i* stands for the *i*-th frame
    /// from `frame`, rounded down to a multiple of 64. Frames outside the zone, and those isolated, are not free.
    fn free_map(&self, frame: FrameId) -> u64 {
        let first = frame.0 & !63;
        (0..64)
            .filter(|&bit| self.is_free(FrameId(first | bit), Order::BASE))
            .fold(0, |map, bit| map | 1 << bit)
    }

    /// The runs of free frames among `frames`, in order, each as long as it goes at this moment. What
    /// changes meanwhile may be seen before or after the change.
    fn free_runs(&self, frames: Range<FrameId>) -> FreeRuns<'_, Self> {
        FreeRuns::new(self, frames)
    }

    /// How many frames of a huge frame are free at this moment: the map of free huge frames, and
    /// what compaction chooses by. 0 outside the zone and for huge frames that are offline or isolated.
    fn free_in_huge(&self, huge: HugeId) -> usize;

    /// The free huge frames, in order, from both ends.
    fn free_huge_frames(&self) -> impl DoubleEndedIterator<Item = HugeId> + '_
    where
        Self: Sized,
    {
        let range = self.zone().huge_range::<Self::Geometry>();
        (range.start.0..range.end.0)
            .map(HugeId)
            .filter(|&huge| self.free_in_huge(huge) == Self::Geometry::HUGE_FRAMES)
    }
}

/// A batch as single allocations: what [`FrameAllocator::alloc_batch`] does unless an engine knows
/// better.
///
/// # Errors
/// As [`FrameAllocator::alloc_batch`].
pub fn alloc_each<A: FrameAllocator + ?Sized>(
    allocator: &A,
    request: Request,
    batch: Batch,
    out: &mut [FrameId],
) -> Result<usize, AllocError> {
    let (mut next, mut taken, mut refused) = (request, 0, None);
    for entry in out.iter_mut() {
        match allocator.alloc(next) {
            Ok(frame) => *entry = frame,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        taken += 1;
        if let Place::At(frame) = next.place {
            next = next.at(FrameId(frame.0.saturating_add(request.order.frames())));
        }
    }
    match refused {
        Some(error) if batch == Batch::All || taken == 0 => {
            for &frame in out.iter().take(taken) {
                // The block is ours, so the free succeeds.
                let _ = allocator.free(frame, request.order, request.slot);
            }
            Err(error)
        }
        _ => Ok(taken),
    }
}

/// A batch as single frees: what [`FrameAllocator::free_batch`] does unless an engine knows better.
///
/// # Errors
/// As [`FrameAllocator::free_batch`].
pub fn free_each<A: FrameAllocator + ?Sized>(
    allocator: &A,
    frames: &[FrameId],
    order: Order,
    slot: Slot,
) -> Result<(), FreeBatchError> {
    for (freed, &frame) in frames.iter().enumerate() {
        allocator.free(frame, order, slot).map_err(|cause| FreeBatchError { freed, cause })?;
    }
    Ok(())
}

/// How an engine is made from memory that the caller supplies.
pub trait Construct: FrameAllocator + Sized {
    /// How much metadata a zone needs.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError>;

    /// What the metadata consists of: `part` is told the name and the bytes of each piece, in the order in
    /// which they lie in their region, for those who look at accesses and want to know what they were to.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        let size = Self::metadata_size(config)?;
        part(Region::Durable, "durable", size.durable);
        part(Region::Volatile, "volatile", size.volatile);
        Ok(())
    }

    /// Makes an allocator for the zone. The bytes of the metadata need not be initialised in any
    /// way, except that [`Init::Recover`] reads the durable part.
    ///
    /// # Errors
    /// What is wrong with the configuration or the metadata; the metadata is untouched then.
    ///
    /// # Safety
    /// Each part of `metadata` must be valid for reads and writes of its length, initialised
    /// memory (of any value), and used by nobody else for as long as the allocator is used.
    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError>;
}

/// How many frames of a huge frame are allocated, by the maps of their words: what
/// [`FrameAllocator::frames_in_use`] does unless an engine knows better.
fn count_used<A: FrameAllocator + ?Sized>(allocator: &A, huge: HugeId) -> usize {
    let first = huge.first::<A::Geometry>().0;
    let frames = A::Geometry::HUGE_FRAMES;
    // A huge frame can be less than a word.
    let mask = if frames < 64 { ((1u64 << frames) - 1) << (first & 63) } else { !0 };
    let words = (0..frames).step_by(64).map(|offset| FrameId(first.saturating_add(offset)));
    words.map(|word| (allocator.used_map(word) & mask).count_ones() as usize).sum()
}

/// Which of the 64 frames around `frame` are in the zone, not offline and not free: what
/// [`FrameAllocator::used_map`] does unless an engine knows better. Only for an engine that does not isolate, of which
/// what is isolated is not free either.
fn used_map<A: FrameAllocator + ?Sized>(allocator: &A, frame: FrameId) -> u64 {
    let is_used = |&bit: &usize| {
        let frame = FrameId(frame.0 & !63 | bit);
        let absent = matches!(
            allocator.can_free(frame, Order::BASE, Slot(0)),
            Err(FreeError::NotAllocated(_) | FreeError::Offline(_) | FreeError::OutOfRange(_))
        );
        !absent && !allocator.is_free(frame, Order::BASE)
    };
    (0..64).filter(is_used).fold(0, |map, bit| map | 1 << bit)
}
