//! An allocator together with its metadata, for programs and tests that have a heap.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::{self, MaybeUninit};
use std::ops::Deref;

use crate::{Construct, Init, InitError, METADATA_ALIGN, RawMetadata, ZoneConfig};

/// What each byte of the volatile part is before a recovery: neither zero nor likely to be right.
const FORGOTTEN: u8 = 0xA5;

/// An allocator that owns its metadata. It manages numbers only: no memory stands behind the
/// frames.
pub struct Owned<A> {
    /// Always initialised. It may hold references to the metadata, which a function that takes this by
    /// value and drops it must not be taken to promise for its whole length.
    allocator: MaybeUninit<A>,
    metadata: RawMetadata,
}

// SAFETY: the pointers in `metadata` are only used to give the memory back in `drop`, with
// exclusive access; all sharing goes through `A`.
unsafe impl<A: Send> Send for Owned<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for Owned<A> {}

impl<A: Construct> Owned<A> {
    /// A new zone with metadata from the heap, in mode [`Init::Free`] or [`Init::Allocated`].
    ///
    /// # Errors
    /// What [`Construct::construct`] says of the configuration, or [`InitError::OutOfMemory`].
    pub fn new(config: &ZoneConfig, init: Init) -> Result<Self, InitError> {
        let size = A::metadata_size(config)?;
        let durable = (zeroed(size.durable)?, size.durable);
        let volatile = (zeroed(size.volatile).inspect_err(|_| release(durable))?, size.volatile);
        let metadata = RawMetadata { durable, volatile };
        // SAFETY: the memory is fresh, nobody else has it, and `drop` frees it only after the
        // allocator's last use.
        match unsafe { A::construct(config, metadata, init) } {
            Ok(allocator) => Ok(Self { allocator: MaybeUninit::new(allocator), metadata }),
            Err(error) => {
                release_both(metadata);
                Err(error)
            }
        }
    }

    /// Forgets everything but the durable part, and recovers from that: what happens at a restart. The
    /// volatile part is other memory then, of no meaning, so that a recovery that reads it is found.
    ///
    /// # Errors
    /// What [`Construct::construct`] says, or [`InitError::OutOfMemory`]; all is as it was then.
    pub fn recover(&mut self, config: &ZoneConfig) -> Result<(), InitError> {
        let len = self.metadata.volatile.1;
        let volatile = (zeroed(len)?, len);
        // SAFETY: so many bytes were just allocated.
        unsafe { volatile.0.write_bytes(FORGOTTEN, len) };
        let metadata = RawMetadata { volatile, ..self.metadata };
        // SAFETY: `&mut self` shows that no call is in flight on the old allocator, which the new
        // one replaces on the same durable memory; the volatile memory is fresh.
        let recovered = unsafe { A::construct(config, metadata, Init::Recover) };
        let recovered = recovered.inspect_err(|_| release(volatile))?;
        // SAFETY: it is initialised, and is so again at once.
        unsafe { self.allocator.assume_init_drop() };
        self.allocator.write(recovered);
        release(mem::replace(&mut self.metadata, metadata).volatile);
        Ok(())
    }

    /// Writes over the durable bytes what `edit` makes of a copy of them: they are looked at, or
    /// damaged, without a slice that would take them from the allocator.
    pub fn edit_durable(&mut self, edit: impl FnOnce(&mut [u8])) {
        let (start, len) = self.metadata.durable;
        let mut bytes = vec![0; len];
        // SAFETY: the memory is ours and initialised, and `&mut self` shows that no call is in
        // flight.
        unsafe { start.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        edit(&mut bytes);
        // SAFETY: as above; to the allocator it is atomics, for which all bytes are values.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

impl<A> Deref for Owned<A> {
    type Target = A;

    fn deref(&self) -> &A {
        // SAFETY: it is always initialised.
        unsafe { self.allocator.assume_init_ref() }
    }
}

impl<A> Drop for Owned<A> {
    fn drop(&mut self) {
        // SAFETY: it is initialised, and used for the last time.
        unsafe { self.allocator.assume_init_drop() };
        release_both(self.metadata);
    }
}

fn layout(bytes: usize) -> Layout {
    // Engines need at least one cache line of each part, and their sizes come from
    // `metadata_size`, which refuses what does not fit the address space.
    Layout::from_size_align(bytes.max(1), METADATA_ALIGN).expect("metadata fits the address space")
}

fn zeroed(bytes: usize) -> Result<*mut u8, InitError> {
    // SAFETY: `layout` has a size above zero.
    let start = unsafe { alloc_zeroed(layout(bytes)) };
    if start.is_null() { Err(InitError::OutOfMemory { bytes }) } else { Ok(start) }
}

fn release_both(metadata: RawMetadata) {
    release(metadata.durable);
    release(metadata.volatile);
}

fn release((start, len): (*mut u8, usize)) {
    // SAFETY: every part comes from `zeroed` with its length, and is released once.
    unsafe { dealloc(start, layout(len)) };
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    // Miri ends where a program asks for so much.
    #[cfg_attr(miri, ignore)]
    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        let bytes = 1 << 62;
        assert_eq!(zeroed(bytes), Err(InitError::OutOfMemory { bytes }));
    }
}
