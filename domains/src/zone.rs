//! Zones: the chunks of a domain, side by side, with an allocator over them.

use core::ops::Range;

use woodlot_frame::{AllocError, FrameAllocator, FrameId, FreeError, Geometry};

use crate::DomainId;
use crate::chunk;

/// An allocator of frames that are numbered from the first chunk of a domain to its last one, without its holes.
pub(crate) struct Zone<'a, A> {
    pub(crate) allocator: A,
    pub(crate) domain: DomainId,
    pub(crate) longest: Run,
    /// The chunk from which these are counted.
    pub(crate) first: usize,
    /// Which chunk is at each place.
    pub(crate) chunks: &'a [u32],
}

/// The longest run of chunks of a zone: most frames lie there, and find their numbers without a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Its first frame, as the caller counts them, and in the zone.
    outside: usize,
    there: usize,
    frames: usize,
}

impl Run {
    /// So many chunks from this one on, at this place of the zone.
    pub(crate) fn new<G: Geometry>(chunks: &Range<usize>, place: usize) -> Run {
        let first = |chunk| chunk::frame::<G>(chunk, 0).0;
        let frames = (chunks.end - chunks.start).saturating_mul(G::MAX_FRAMES);
        Run { outside: first(chunks.start), there: first(place), frames }
    }
}

impl<A: FrameAllocator> Zone<'_, A> {
    /// The frame with this number here.
    #[inline(always)]
    pub(crate) fn frame(&self, there: FrameId) -> FrameId {
        let offset = there.0.wrapping_sub(self.longest.there);
        if offset < self.longest.frames {
            return FrameId(self.longest.outside.wrapping_add(offset));
        }
        self.frame_of_chunk(there)
    }

    #[inline(never)]
    fn frame_of_chunk(&self, there: FrameId) -> FrameId {
        let chunk = self.chunks.get(chunk::of::<A::Geometry>(there));
        let chunk = self.first + chunk.map_or(0, |&chunk| chunk as usize);
        chunk::frame::<A::Geometry>(chunk, chunk::offset::<A::Geometry>(there))
    }

    /// A frame's number here, if it lies in the longest run.
    #[inline(always)]
    pub(crate) fn there(&self, frame: FrameId) -> Option<FrameId> {
        let offset = frame.0.wrapping_sub(self.longest.outside);
        (offset < self.longest.frames).then(|| FrameId(self.longest.there.wrapping_add(offset)))
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
}

/// All zones, of which the first is nearer than a pointer.
pub(crate) struct Zones<'a, A> {
    pub(crate) first: Zone<'a, A>,
    pub(crate) others: &'a [Zone<'a, A>],
}

impl<'a, A> Zones<'a, A> {
    /// The zone with this number.
    #[inline(always)]
    pub(crate) fn get(&self, number: usize) -> Option<&Zone<'a, A>> {
        if number == 0 { Some(&self.first) } else { self.other(number) }
    }

    #[inline(never)]
    fn other(&self, number: usize) -> Option<&Zone<'a, A>> {
        self.others.get(number.wrapping_sub(1))
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Zone<'a, A>> + Clone {
        core::iter::once(&self.first).chain(self.others)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.others.len().saturating_add(1)
    }
}
