//! Zones: the chunks of a domain, side by side, with an allocator over them.

use core::ops::Range;

use woodlot_frame::{
    AllocError, Claim, Class, FrameAllocator, FrameId, FreeError, Geometry, HugeId, IsolateError,
    OfflineError, Place, RangeRequest, Request, Slot,
};

use crate::DomainId;
use crate::chunk;

/// An allocator of frames that are numbered from the first chunk of a domain to its last one, without its holes.
pub(crate) struct Zone<'a, A> {
    pub(crate) allocator: A,
    pub(crate) domain: DomainId,
    /// The longest piece: most frames lie there, and have the same numbers there as outside.
    pub(crate) longest: Frames,
    /// The chunk from which those in `chunks` are counted, and the one that stands for the first of them here.
    pub(crate) first: (usize, usize),
    /// Which chunk is at each place.
    pub(crate) chunks: &'a [u32],
    /// Frames behind the last one here that hold the metadata of a range that was added.
    pub(crate) metadata: Range<FrameId>,
}

/// What huge frames are before they are taken out, and after they are put back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// Free for everybody.
    Free,
    /// Isolated, and empty.
    Isolated,
}

/// Frames side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    pub(crate) start: usize,
    pub(crate) count: usize,
}

impl Frames {
    #[inline(always)]
    pub(crate) const fn has(self, frame: FrameId) -> bool {
        frame.0.wrapping_sub(self.start) < self.count
    }
}

impl<A: FrameAllocator> Zone<'_, A> {
    /// The frame with this number here.
    #[inline(always)]
    pub(crate) fn frame(&self, there: FrameId) -> FrameId {
        if self.longest.has(there) { there } else { self.frame_of_chunk(there) }
    }

    #[cold]
    #[inline(never)]
    fn frame_of_chunk(&self, there: FrameId) -> FrameId {
        let (first, there_first) = self.first;
        let place = chunk::of::<A::Geometry>(there).wrapping_sub(there_first);
        let chunk = first + self.chunks.get(place).map_or(0, |&chunk| chunk as usize);
        chunk::frame::<A::Geometry>(chunk, chunk::offset::<A::Geometry>(there))
    }

    /// The first frame here that is this one or lies behind it; the end, if there is none.
    fn from(&self, frame: FrameId) -> FrameId {
        if self.chunks.is_empty() {
            return frame;
        }
        let ((first, there_first), wanted) = (self.first, chunk::of::<A::Geometry>(frame));
        let place = self.chunks.partition_point(|&chunk| first + (chunk as usize) < wanted);
        let is_here = self.chunks.get(place).is_some_and(|&at| first + at as usize == wanted);
        let offset = if is_here { chunk::offset::<A::Geometry>(frame) } else { 0 };
        chunk::frame::<A::Geometry>(there_first + place, offset)
    }

    /// Its whole huge frames from this one on, as they are numbered here, by number.
    pub(crate) fn huge_from(&self, huge: HugeId) -> impl Iterator<Item = HugeId> + use<A> {
        let own = self.allocator.zone().huge_range::<A::Geometry>();
        let first = self.from(huge.first::<A::Geometry>()).huge::<A::Geometry>();
        (first.max(own.start).0..own.end.0).map(HugeId)
    }

    /// Its frames of a range, as they are numbered here.
    fn part(&self, range: &Range<FrameId>) -> Range<FrameId> {
        let own = self.allocator.zone().range();
        self.from(range.start).max(own.start)..self.from(range.end).min(own.end)
    }

    /// Has it frames of a range?
    pub(crate) fn reaches(&self, range: &Range<FrameId>) -> bool {
        !self.part(range).is_empty()
    }

    /// From its first to its last frame of a range, as the caller counts them, if it has some.
    pub(crate) fn part_outside(&self, range: &Range<FrameId>) -> Option<Range<FrameId>> {
        let part = self.part(range);
        let last = part.end.0.checked_sub(1).filter(|_| !part.is_empty())?;
        Some(self.frame(part.start)..FrameId(self.frame(FrameId(last)).0 + 1))
    }

    /// A block anywhere, or inside of a range: with frames as the caller counts them.
    #[inline(always)]
    pub(crate) fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let block = match request.place {
            Place::Within { start, end } => self.alloc_within(request, start..end),
            _ => self.allocator.alloc(request),
        };
        block.map(|block| self.frame(block))
    }

    /// A hole is passed by: what lies on both sides of it is side by side here, and a block lies in one chunk.
    #[cold]
    fn alloc_within(&self, request: Request, range: Range<FrameId>) -> Result<FrameId, AllocError> {
        self.allocator.alloc(request.within(self.from(range.start)..self.from(range.end)))
    }

    /// An error of the allocator, with frames as the caller counts them.
    #[cold]
    pub(crate) fn alloc_error(&self, error: AllocError) -> AllocError {
        match error {
            AllocError::OutOfRange(frame) => AllocError::OutOfRange(self.frame(frame)),
            AllocError::Misaligned(frame, order) => {
                AllocError::Misaligned(self.frame(frame), order)
            }
            AllocError::InUse(frame) => AllocError::InUse(self.frame(frame)),
            other => other,
        }
    }

    /// The same for a free.
    #[cold]
    pub(crate) fn free_error(&self, error: FreeError) -> FreeError {
        match error {
            FreeError::NotAllocated(frame) => FreeError::NotAllocated(self.frame(frame)),
            FreeError::OutOfRange(frame) => FreeError::OutOfRange(self.frame(frame)),
            FreeError::Misaligned(frame, order) => FreeError::Misaligned(self.frame(frame), order),
            FreeError::Offline(frame) => FreeError::Offline(self.frame(frame)),
            other => other,
        }
    }

    /// The huge frames that have no metadata, among these, and whether there are others.
    fn whole(&self, first: HugeId, count: usize) -> (usize, bool) {
        let end = self.metadata.start.0 >> A::Geometry::HUGE_ORDER;
        match self.metadata.is_empty() || first.0 + count <= end {
            true => (count, false),
            false => (end.saturating_sub(first.0), true),
        }
    }

    /// Has this huge frame no metadata?
    pub(crate) fn is_whole(&self, huge: HugeId) -> bool {
        self.whole(huge, 1) == (1, false)
    }

    /// What shares a huge frame with metadata.
    fn rest(&self) -> Range<FrameId> {
        FrameId(self.metadata.start.0 & !(A::Geometry::HUGE_FRAMES - 1))..self.metadata.start
    }

    /// Takes huge frames out. Those of the metadata go last, and together, and what shares one with it is never isolated.
    pub(crate) fn take_out(
        &self,
        first: HugeId,
        count: usize,
        before: Before,
    ) -> Result<(), OfflineError> {
        let (whole, last) = self.whole(first, count);
        let begin = first.first::<A::Geometry>();
        if last && begin > self.rest().start {
            return Err(OfflineError::InUse(begin));
        }
        match before {
            _ if whole == 0 => {}
            Before::Free => self.allocator.offline(first, whole)?,
            Before::Isolated => self.claim(first, whole)?,
        }
        let taken = if last { self.take_rest(HugeId(first.0 + count)) } else { Ok(()) };
        taken.inspect_err(|_| {
            // They were just taken out.
            let _ = self.put_back_whole(first, whole, before);
        })
    }

    /// Claims isolated huge frames as offline.
    fn claim(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let claimed = self.allocator.claim_isolated(first, count, Claim::Offline);
        claimed.map_err(|error| Self::not_taken(error, first))
    }

    /// Why isolated huge frames from this one on are not taken out.
    fn not_taken(error: IsolateError, first: HugeId) -> OfflineError {
        match error {
            IsolateError::InUse(frame) => OfflineError::InUse(frame),
            IsolateError::NotIsolated(huge) => OfflineError::InUse(huge.first::<A::Geometry>()),
            IsolateError::OutOfRange => OfflineError::OutOfRange,
            IsolateError::Unsupported => OfflineError::Unsupported,
            _ => OfflineError::InUse(first.first::<A::Geometry>()),
        }
    }

    /// Says why an isolated huge frame cannot be taken out, so far as can be seen.
    pub(crate) fn may_go(&self, huge: HugeId) -> Result<(), OfflineError> {
        match self.is_whole(huge) {
            true => self.is_empty(huge).map_err(|error| Self::not_taken(error, huge)),
            false => Ok(()),
        }
    }

    /// Puts huge frames back that have no metadata.
    fn put_back_whole(
        &self,
        first: HugeId,
        count: usize,
        before: Before,
    ) -> Result<(), OfflineError> {
        match before {
            _ if count == 0 => {}
            Before::Free => self.allocator.online(first, count)?,
            Before::Isolated => self.isolate_again(first, count, Claim::Offline),
        }
        Ok(())
    }

    fn take_rest(&self, end: HugeId) -> Result<(), OfflineError> {
        let rest = self.rest();
        let before = (rest.start.0 - self.longest.start) >> A::Geometry::HUGE_ORDER;
        let is_end = end.first::<A::Geometry>() >= self.metadata.end;
        if !is_end || self.allocator.stats().offline_huge < before {
            return Err(OfflineError::InUse(self.metadata.start));
        }
        if rest.is_empty() {
            return Ok(());
        }
        let frames = rest.end.0 - rest.start.0;
        let request = RangeRequest::new(frames, Class::MOVABLE, Slot(0)).at(rest.start);
        match self.allocator.alloc_range(request) {
            Ok(_) => Ok(()),
            Err(AllocError::InUse(frame)) => Err(OfflineError::InUse(frame)),
            Err(_) => Err(OfflineError::InUse(rest.start)),
        }
    }

    /// Puts back what was taken out.
    pub(crate) fn put_back(
        &self,
        first: HugeId,
        count: usize,
        before: Before,
    ) -> Result<(), OfflineError> {
        let (whole, last) = self.whole(first, count);
        self.put_back_whole(first, whole, before)?;
        if last && !self.rest().is_empty() {
            let freed = self.allocator.free_range(self.rest(), Slot(0));
            return freed.map_err(|_| OfflineError::NotOffline);
        }
        Ok(())
    }

    /// Says why a huge frame cannot come online, so far as can be seen: what is neither free nor allocated nor isolated is
    /// offline, or has no whole huge frame of the allocator.
    pub(crate) fn is_offline(&self, huge: HugeId) -> Result<(), OfflineError> {
        let zone = &self.allocator;
        if A::UNSUPPORTED.offline {
            return Ok(());
        }
        let is_online =
            zone.is_isolated(huge) || zone.frames_in_use(huge) > 0 || zone.free_in_huge(huge) > 0;
        if is_online { Err(OfflineError::NotOffline) } else { Ok(()) }
    }

    /// Says why the isolation of a huge frame cannot end.
    pub(crate) fn is_isolated(&self, huge: HugeId) -> Result<(), IsolateError> {
        match A::UNSUPPORTED.isolation || self.allocator.is_isolated(huge) {
            true => Ok(()),
            false => Err(IsolateError::NotIsolated(huge)),
        }
    }

    /// Says why a huge frame cannot be claimed.
    pub(crate) fn is_empty(&self, huge: HugeId) -> Result<(), IsolateError> {
        self.is_isolated(huge)?;
        if A::UNSUPPORTED.isolation || self.allocator.frames_in_use(huge) == 0 {
            return Ok(());
        }
        let first = huge.first::<A::Geometry>().0;
        let mut frames = (first..first + A::Geometry::HUGE_FRAMES).map(FrameId);
        let is_used = |frame: &FrameId| self.allocator.used_map(*frame) >> (frame.0 & 63) & 1 != 0;
        // Or its last frame has just been freed.
        frames.find(is_used).map_or(Ok(()), |frame| Err(IsolateError::InUse(frame)))
    }

    /// Is everything of a range that was added taken out, which has no metadata here?
    pub(crate) fn is_gone(&self) -> bool {
        let huge = self.longest.count >> A::Geometry::HUGE_ORDER;
        self.metadata.is_empty() && self.allocator.stats().offline_huge == huge
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use woodlot_frame::{Base4K, Construct, Init, METADATA_ALIGN, RawMetadata, ZoneConfig};
    use woodlot_llfree::LLFree;

    /// Memory that stays.
    fn memory(bytes: usize) -> (*mut u8, usize) {
        let memory = vec![0_u8; bytes + METADATA_ALIGN].leak().as_mut_ptr();
        (memory.wrapping_add(memory.align_offset(METADATA_ALIGN)), bytes)
    }

    /// Eight huge frames, of which the metadata has the last one and a half.
    fn zone() -> Zone<'static, LLFree<'static, Base4K>> {
        let huge = Base4K::HUGE_FRAMES;
        let metadata = FrameId(6 * huge + huge / 2)..FrameId(8 * huge);
        let config = ZoneConfig::new(metadata.start.0, 1);
        let size = LLFree::<Base4K>::metadata_size(&config).expect("it is small");
        let own = RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) };
        // SAFETY: the memory is new, and stays; no frame is looked at.
        let allocator = unsafe { LLFree::construct(&config, own, Init::Free) };
        Zone {
            allocator: allocator.expect("it is right"),
            domain: DomainId(0),
            longest: Frames { start: 0, count: 8 * huge },
            first: (0, 0),
            chunks: &[],
            metadata,
        }
    }

    #[test]
    fn metadata_goes_together() {
        let zone = zone();
        let take_out = |first, count| zone.take_out(HugeId(first), count, Before::Free);
        assert_eq!(take_out(0, 6), Ok(()));
        let free = zone.allocator.free_frames();
        let part = FrameId(7 * Base4K::HUGE_FRAMES);
        assert_eq!(take_out(7, 1), Err(OfflineError::InUse(part)));
        let start = zone.metadata.start;
        assert_eq!(take_out(6, 1), Err(OfflineError::InUse(start)));
        assert_eq!(zone.allocator.free_frames(), free, "nothing has changed");
        assert_eq!(take_out(6, 2), Ok(()));
        assert_eq!(zone.allocator.free_frames(), 0);
    }
}
