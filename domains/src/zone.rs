//! A zone: the chunks of a domain, side by side, with an allocator over them.

use woodlot_frame::{AllocError, FrameAllocator, FrameId, FreeError};

use crate::DomainId;
use crate::chunk;

/// An allocator of frames that are numbered from the first chunk of a domain to its last one, without its holes.
pub(crate) struct Zone<'a, A> {
    pub(crate) allocator: A,
    pub(crate) domain: DomainId,
    /// The chunk from which these are counted.
    pub(crate) first: usize,
    /// Which chunk is at each place.
    pub(crate) chunks: &'a [u32],
}

impl<A: FrameAllocator> Zone<'_, A> {
    /// The frame with this number here.
    #[inline(always)]
    pub(crate) fn frame(&self, there: FrameId) -> FrameId {
        let chunk = self.chunks.get(chunk::of::<A::Geometry>(there));
        let chunk = self.first + chunk.map_or(0, |&chunk| chunk as usize);
        chunk::frame::<A::Geometry>(chunk, chunk::offset::<A::Geometry>(there))
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
