//! Runs of frames, allocated and freed block by block.
//!
//! ```text
//!   window     where the run may lie         zone ∩ place, with the first aligned frame
//!   free runs  what is free in the window    from the lowest frame on
//!   claim      the blocks of one run         upwards; all, or those taken are given back
//! ```
//!
//! A run is claimed upwards. Where two claims meet, the one that comes to the other's first block gives
//! back what it has, and the other goes on. A third may stand in the other's way, and so on upwards; the
//! highest has nobody in its way but calls that have succeeded, and single blocks. So claims alone do not keep
//! each other from success for ever.

use core::ops::Range;

use crate::run::{blocks_by, first, largest};
use crate::{
    AllocError, FrameAllocator, FrameId, FreeError, Geometry, HugeId, OfflineError, Order, Place,
    RangeRequest, Request, Slot, ZoneConfig,
};

/// A run as the blocks that it consists of: what [`FrameAllocator::alloc_range`] does unless an engine
/// knows better.
///
/// # Errors
/// As [`FrameAllocator::alloc_range`].
pub fn alloc_run<A: FrameAllocator + ?Sized>(
    allocator: &A,
    request: RangeRequest,
) -> Result<Range<FrameId>, AllocError> {
    if A::UNSUPPORTED.exact_frame {
        return Err(AllocError::Unsupported);
    }
    let zone = allocator.zone();
    check(zone, &request)?;
    match request.place {
        Place::At(frame) => {
            let run = run_at(zone, &request, frame)?;
            let used = |&(frame, order): &_| !allocator.is_free(frame, order);
            // Looked at first: a call that is refused changes no tree's class, either.
            match blocks_in(allocator, run.clone()).find(used) {
                Some(block) => Err(block),
                None => claim(allocator, &request, run.clone()),
            }
            .map_err(|block| in_use(allocator, block))?;
            Ok(run)
        }
        Place::Anywhere => search(allocator, &request, zone.range()),
        Place::Within { start, end } if start > end => Err(AllocError::Reversed(start)),
        Place::Within { start, end } => search(allocator, &request, start..end),
    }
}

/// The fewest blocks of an allocator that a run of frames consists of, from the first to the last: none reaches over a border
/// [within it](FrameAllocator::largest_at).
pub fn blocks_in<A: FrameAllocator + ?Sized>(
    allocator: &A,
    frames: Range<FrameId>,
) -> impl Iterator<Item = (FrameId, Order)> + Clone + '_ {
    blocks_by(frames, |start, end| largest_in(allocator, start, end))
}

/// The order of the largest block of an allocator that begins at `start` and ends at `end` or before.
fn largest_in<A: FrameAllocator + ?Sized>(
    allocator: &A,
    start: FrameId,
    end: FrameId,
) -> Option<Order> {
    let order = largest::<A::Geometry>(start, end)?;
    Some(order.min(allocator.largest_at(start)))
}

/// A block inside of a range of frames: what an engine does with [`Place::Within`].
///
/// # Errors
/// As [`FrameAllocator::alloc`].
#[cold]
pub fn alloc_within<A: FrameAllocator + ?Sized>(
    allocator: &A,
    request: Request,
) -> Result<FrameId, AllocError> {
    if request.order > A::MAX_ORDER {
        return Err(AllocError::OrderTooLarge(request.order));
    }
    allocator.alloc_range(request.as_range()).map(|run| run.start)
}

/// What is wrong with a request, wherever the run is to lie.
fn check(zone: &ZoneConfig, request: &RangeRequest) -> Result<(), AllocError> {
    if request.frames == 0 {
        return Err(AllocError::NoFrames);
    }
    if request.align.frames() == 0 {
        return Err(AllocError::OrderTooLarge(request.align));
    }
    if request.slot.0 >= zone.slots {
        return Err(AllocError::BadSlot(request.slot));
    }
    if !zone.classes.has(request.class) {
        return Err(AllocError::BadClass(request.class));
    }
    Ok(())
}

/// The run that begins at `frame`.
fn run_at(
    zone: &ZoneConfig,
    request: &RangeRequest,
    frame: FrameId,
) -> Result<Range<FrameId>, AllocError> {
    if !frame.is_aligned(request.align) {
        return Err(AllocError::Misaligned(frame, request.align));
    }
    let end = frame.checked_add(request.frames).filter(|&end| end <= zone.end());
    match end {
        Some(end) if frame >= zone.start => Ok(frame..end),
        _ => Err(AllocError::OutOfRange(frame)),
    }
}

/// The error for a run with this block in use: the first frame of it that is.
fn in_use<A: FrameAllocator + ?Sized>(
    allocator: &A,
    (frame, order): (FrameId, Order),
) -> AllocError {
    AllocError::InUse(first(frame, order, |frame| !allocator.is_free(frame, Order::BASE)))
}

/// The first run inside a window that is long enough and can be claimed.
fn search<A: FrameAllocator + ?Sized>(
    allocator: &A,
    request: &RangeRequest,
    window: Range<FrameId>,
) -> Result<Range<FrameId>, AllocError> {
    let zone = allocator.zone();
    let window = window.start.max(zone.start)..window.end.min(zone.end());
    if fit(request, &window).is_none() {
        return Err(AllocError::NoPlace(window.start));
    }
    let small = request.frames < A::Geometry::HUGE_FRAMES;
    let beside = || small.then(|| take_first(allocator, request, &window, beside_free_huge::<A>));
    let anywhere = || take_first(allocator, request, &window, |run| [run, NOWHERE]);
    beside().flatten().or_else(anywhere).ok_or(AllocError::OutOfMemory)
}

/// No frames.
const NOWHERE: Range<FrameId> = FrameId(0)..FrameId(0);

/// The two ends of a free run that lie in huge frames which are in use in part; the run itself, if it
/// covers no huge frame.
fn beside_free_huge<A: FrameAllocator + ?Sized>(run: Range<FrameId>) -> [Range<FrameId>; 2] {
    let last = run.end.huge::<A::Geometry>().first::<A::Geometry>();
    match align_up(run.start, Order::huge::<A::Geometry>()) {
        Some(first) if first < last => [run.start..first, last..run.end],
        _ => [run, NOWHERE],
    }
}

/// Claims the first run that fits into what `parts` makes of the free runs of a window.
fn take_first<A: FrameAllocator + ?Sized>(
    allocator: &A,
    request: &RangeRequest,
    window: &Range<FrameId>,
    parts: impl Fn(Range<FrameId>) -> [Range<FrameId>; 2],
) -> Option<Range<FrameId>> {
    let mut runs = FreeRuns::new(allocator, window.clone());
    while let Some(run) = runs.next() {
        let Some(found) = parts(run).iter().find_map(|part| fit(request, part)) else { continue };
        match claim(allocator, request, found.clone()) {
            Ok(()) => return Some(found),
            // The way is blocked here: no run across this frame will do.
            Err((block, _)) => runs.go_to(FrameId(block.0 + 1)),
        }
    }
    None
}

/// The first place in a free run for what is asked for.
fn fit(request: &RangeRequest, run: &Range<FrameId>) -> Option<Range<FrameId>> {
    let start = align_up(run.start, request.align)?;
    let end = start.checked_add(request.frames)?;
    (end <= run.end).then_some(start..end)
}

/// The first frame from `frame` on that is aligned to `order`.
fn align_up(frame: FrameId, order: Order) -> Option<FrameId> {
    let rest = order.frames().wrapping_sub(1);
    Some(FrameId(frame.checked_add(rest)?.0 & !rest))
}

/// Allocates every block of a run, or none.
///
/// # Errors
/// The block that was in the way.
fn claim<A: FrameAllocator + ?Sized>(
    allocator: &A,
    request: &RangeRequest,
    run: Range<FrameId>,
) -> Result<(), (FrameId, Order)> {
    let blocks = blocks_in(allocator, run);
    let take = |(frame, order)| {
        allocator.alloc(Request::new(order, request.class, request.slot).at(frame)).is_ok()
    };
    let taken = blocks.clone().take_while(|&block| take(block)).count();
    let Some(lost) = blocks.clone().nth(taken) else { return Ok(()) };
    for (frame, order) in blocks.take(taken) {
        // The block is this call's own, so the free succeeds.
        let _ = allocator.free(frame, order, request.slot);
    }
    Err(lost)
}

/// A run freed as the blocks that it consists of: what [`FrameAllocator::free_range`] does unless an
/// engine knows better.
///
/// # Errors
/// As [`FrameAllocator::free_range`].
pub fn free_run<A: FrameAllocator + ?Sized>(
    allocator: &A,
    frames: Range<FrameId>,
    slot: Slot,
) -> Result<(), FreeError> {
    can_free_run(allocator, frames.clone(), slot)?;
    each_block(allocator, &frames, |frame, order| allocator.free(frame, order, slot))
}

/// Would [`free_run`] succeed? Changes nothing.
///
/// # Errors
/// What it would say at this moment.
pub fn can_free_run<A: FrameAllocator + ?Sized>(
    allocator: &A,
    frames: Range<FrameId>,
    slot: Slot,
) -> Result<(), FreeError> {
    let zone = allocator.zone();
    if slot.0 >= zone.slots {
        return Err(FreeError::BadSlot(slot));
    }
    if frames.start > frames.end {
        return Err(FreeError::Reversed(frames.start));
    }
    if frames.is_empty() {
        return Ok(());
    }
    if frames.start < zone.start {
        return Err(FreeError::OutOfRange(frames.start));
    }
    if frames.end > zone.end() {
        return Err(FreeError::OutOfRange(frames.start.max(zone.end())));
    }
    each_block(allocator, &frames, |frame, order| allocator.can_free(frame, order, slot))
}

/// Attempts something with every block that a run consists of, up to the first refusal.
fn each_block<A: FrameAllocator + ?Sized>(
    allocator: &A,
    frames: &Range<FrameId>,
    attempt: impl Fn(FrameId, Order) -> Result<(), FreeError>,
) -> Result<(), FreeError> {
    let mut next = frames.start;
    while let Some(largest) = largest_in(allocator, next, frames.end) {
        let order = block_at(allocator, next, largest, &attempt)?;
        next = FrameId(next.0 + order.frames());
    }
    Ok(())
}

/// The order of the block at `frame` with which the attempt succeeds: the largest, or with an engine that
/// frees blocks only as they were allocated, the one that is there.
fn block_at<A: FrameAllocator + ?Sized>(
    allocator: &A,
    frame: FrameId,
    largest: Order,
    attempt: impl Fn(FrameId, Order) -> Result<(), FreeError>,
) -> Result<Order, FreeError> {
    let smallest = if A::UNSUPPORTED.partial_free { 0 } else { largest.0 };
    let mut orders = (smallest..=largest.0).rev().map(Order);
    let mut refused = FreeError::Unsupported;
    let succeeds = |order: &Order| match attempt(frame, *order) {
        Ok(()) => true,
        Err(error) => {
            refused = error;
            false
        }
    };
    match orders.find(succeeds) {
        Some(order) => Ok(order),
        None => Err(match refused {
            // What is isolated is not free for an allocation.
            FreeError::NotAllocated(_) => FreeError::NotAllocated(first(frame, largest, |frame| {
                let freed = allocator.can_free(frame, Order::BASE, Slot(0));
                matches!(freed, Err(FreeError::NotAllocated(_)))
            })),
            other => other,
        }),
    }
}

/// Free runs of frames, from the lowest to the highest: see
/// [`FrameAllocator::free_runs`].
pub struct FreeRuns<'a, A: ?Sized> {
    allocator: &'a A,
    next: FrameId,
    end: FrameId,
}

impl<'a, A: FrameAllocator + ?Sized> FreeRuns<'a, A> {
    pub(crate) fn new(allocator: &'a A, frames: Range<FrameId>) -> Self {
        let zone = allocator.zone().range();
        Self { allocator, next: frames.start.max(zone.start), end: frames.end.min(zone.end) }
    }

    /// Goes on with `frame`, before or behind the last run.
    pub(crate) fn go_to(&mut self, frame: FrameId) {
        self.next = frame;
    }

    /// Passes by frames as long as they are free, or as long as they are not.
    fn pass(&mut self, free: bool) {
        while self.next < self.end {
            let (passed, looked_at) = self.alike(free);
            self.next = FrameId(self.next.0.saturating_add(passed)).min(self.end);
            if passed < looked_at {
                return;
            }
        }
    }

    /// Of how many frames from the next one on, at most, are the first free or not; and how many were
    /// looked at.
    fn alike(&self, free: bool) -> (usize, usize) {
        let huge = self.next.huge::<A::Geometry>();
        if self.next == huge.first::<A::Geometry>() {
            let all = A::Geometry::HUGE_FRAMES;
            match self.allocator.free_in_huge(huge) {
                0 => return (if free { 0 } else { all }, all),
                count if count == all => return (if free { all } else { 0 }, all),
                _ => {}
            }
        }
        let offset = self.next.0 & 63;
        let map = self.allocator.free_map(self.next) >> offset;
        let alike = if free { map } else { !map }.trailing_ones() as usize;
        (alike.min(64 - offset), 64 - offset)
    }
}

impl<A: FrameAllocator + ?Sized> Iterator for FreeRuns<'_, A> {
    type Item = Range<FrameId>;

    fn next(&mut self) -> Option<Range<FrameId>> {
        loop {
            self.pass(false);
            let start = self.next;
            self.pass(true);
            if start < self.next {
                return Some(start..self.next);
            }
            // The frame may have been taken between the two looks.
            if start >= self.end {
                return None;
            }
        }
    }
}

impl OfflineError {
    /// The error for a huge frame that is not free: the first frame of it that is in use.
    pub fn in_use<A: FrameAllocator + ?Sized>(allocator: &A, huge: HugeId) -> OfflineError {
        let (frame, order) = (huge.first::<A::Geometry>(), Order::huge::<A::Geometry>());
        Self::InUse(first(frame, order, |frame| !allocator.is_free(frame, Order::BASE)))
    }
}
