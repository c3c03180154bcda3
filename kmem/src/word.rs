//! The words that a free block holds. They belong to whoever has the list that the block is on, so they are no atomics; but
//! for the explorer, of whose states they are a part.

/// Reads a word of a free block.
///
/// # Safety
/// It is aligned, was written before, and nobody writes to it meanwhile.
#[cfg(not(woodlot_explore))]
#[inline(always)]
pub(crate) unsafe fn read(at: *const u64) -> u64 {
    // SAFETY: as the caller says.
    unsafe { at.read() }
}

/// Writes a word of a free block.
///
/// # Safety
/// It is aligned, and the caller's.
#[cfg(not(woodlot_explore))]
#[inline(always)]
pub(crate) unsafe fn write(at: *mut u64, word: u64) {
    // SAFETY: as the caller says.
    unsafe { at.write(word) };
}

/// Asks for the cache line of an address, whatever lies there, where the language has a word for that.
#[inline(always)]
pub(crate) fn fetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it changes nothing that a program could see, of no address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(address));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(woodlot_explore)]
pub(crate) use explored::{read, write};

#[cfg(woodlot_explore)]
mod explored {
    use woodlot_frame::atomics::{AtomicU64, Ordering::Relaxed};

    /// # Safety
    /// As above.
    pub(crate) unsafe fn read(at: *const u64) -> u64 {
        // SAFETY: an atomic of the explorer has the layout of a word, and any contents.
        unsafe { (*at.cast::<AtomicU64>()).load(Relaxed) }
    }

    /// # Safety
    /// As above.
    pub(crate) unsafe fn write(at: *mut u64, word: u64) {
        // SAFETY: as above.
        unsafe { (*at.cast::<AtomicU64>()).store(word, Relaxed) };
    }
}
