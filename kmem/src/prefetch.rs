//! A hint to the processor, that a cache line is going to be written.
//!
//! A load of a line that another CPU has written gets a shared copy, and a store behind it asks that CPU once more. A line that
//! is fetched for writing comes over once. *Progress*: no step that waits.

/// Fetches the line of an address for writing, if the processor knows how. Any address may be named.
#[inline(always)]
pub(crate) fn for_write(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction accesses nothing that a program could see; it faults at no address.
    unsafe {
        core::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
