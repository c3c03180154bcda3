//! The memory that an allocator keeps its own state in, supplied by the caller.

use crate::{InitError, Region};

/// What every part of the metadata is aligned to: a cache line.
pub const METADATA_ALIGN: usize = 64;

/// How many bytes of metadata an allocator needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataSize {
    /// The part that a recovery starts from; in persistent memory if the zone is to survive.
    pub durable: usize,
    /// The part that is recomputed at every start.
    pub volatile: usize,
}

/// The metadata of one zone: two pieces of memory.
///
/// The memory must be readable and writable, used by nobody else, and stay so for as long as the
/// allocator made from it is used; see [`Construct::construct`](crate::Construct::construct).
#[derive(Clone, Copy, Debug)]
pub struct RawMetadata {
    /// Start and length in bytes of the durable part.
    pub durable: (*mut u8, usize),
    /// Start and length in bytes of the volatile part.
    pub volatile: (*mut u8, usize),
}

impl RawMetadata {
    /// Is this memory long enough for `size`, aligned, and in two separate pieces?
    ///
    /// # Errors
    /// [`InitError::Short`], [`InitError::Misaligned`] or [`InitError::Overlap`].
    pub fn check(&self, size: MetadataSize) -> Result<(), InitError> {
        let parts = [
            (Region::Durable, self.durable, size.durable),
            (Region::Volatile, self.volatile, size.volatile),
        ];
        for (region, (start, given), needed) in parts {
            if given < needed {
                return Err(InitError::Short { region, needed, given });
            }
            let wraps = start.addr().checked_add(given).is_none();
            if start.is_null() || start.addr() & (METADATA_ALIGN - 1) != 0 || wraps {
                return Err(InitError::Misaligned(region));
            }
        }
        let (a, b) = (self.durable.0.addr(), self.volatile.0.addr());
        if a < b + size.volatile && b < a + size.durable {
            return Err(InitError::Overlap);
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use core::ptr::without_provenance_mut as at;

    const SIZE: MetadataSize = MetadataSize { durable: 128, volatile: 64 };

    fn check(durable: (usize, usize), volatile: (usize, usize)) -> Result<(), InitError> {
        let (durable, volatile) = ((at(durable.0), durable.1), (at(volatile.0), volatile.1));
        RawMetadata { durable, volatile }.check(SIZE)
    }

    #[test]
    fn each_fault_has_its_own_error() {
        assert_eq!(check((64, 128), (192, 64)), Ok(()));
        assert_eq!(check((128, 128), (64, 64)), Ok(()));
        let short = InitError::Short { region: Region::Durable, needed: 128, given: 127 };
        assert_eq!(check((64, 127), (192, 64)), Err(short));
        assert_eq!(check((96, 128), (256, 64)), Err(InitError::Misaligned(Region::Durable)));
        assert_eq!(check((64, 128), (0, 64)), Err(InitError::Misaligned(Region::Volatile)));
        let end = usize::MAX - 63;
        assert_eq!(check((64, 128), (end, 64)), Err(InitError::Misaligned(Region::Volatile)));
        assert_eq!(check((64, 128), (128, 64)), Err(InitError::Overlap));
        assert_eq!(check((64, 128), (64, 64)), Err(InitError::Overlap));
    }
}
