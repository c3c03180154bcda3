//! The atomic types of the whole project.
//!
//! Every atomic word of every engine is reached through this module, and nothing else names
//! `core::sync::atomic`: by `cfg` it becomes the processor's atomics, loom's (`--cfg woodlot_loom`: a
//! search over interleavings *and* memory orderings), the explorer's (`--cfg woodlot_explore`: an
//! exhaustive search over interleavings under sequential consistency) or shuttle's (`--cfg
//! woodlot_shuttle`: random interleavings under the same), or the processor's with an observer who is told of every
//! access (`--cfg woodlot_observe`: the persistence simulator, and the model of caches of `woodlot bench scale`). A word
//! is always accessed at one width.

#[cfg(all(woodlot_observe, not(any(woodlot_loom, woodlot_explore, woodlot_shuttle))))]
mod observed;

#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore, woodlot_observe)))]
pub use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(woodlot_loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(woodlot_explore, not(woodlot_loom)))]
pub use woodlot_explore::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(woodlot_shuttle, not(any(woodlot_loom, woodlot_explore))))]
pub use shuttle::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(woodlot_observe, not(any(woodlot_loom, woodlot_explore, woodlot_shuttle))))]
pub use observed::{
    Access, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Observer, Ordering, fence, fetch_to_write,
    observe,
};

/// Sets every word to zero, as fast as the memory takes it. A function of its own: of several calls of `memset` in one function the compiler may make
/// calls through a register, which Linux does not take.
///
/// # Safety
/// Nobody else may access the words meanwhile.
#[inline(never)]
#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore, woodlot_observe)))]
pub unsafe fn clear(words: &[AtomicU64]) {
    // SAFETY: atomics may be written through shared references and have any value; the caller
    // vouches that this races with nothing.
    unsafe { core::ptr::write_bytes(words.as_ptr().cast_mut().cast::<u8>(), 0, size_of_val(words)) }
}

/// The same, word by word.
///
/// # Safety
/// As above.
#[cfg(any(woodlot_loom, woodlot_shuttle, woodlot_explore, woodlot_observe))]
pub unsafe fn clear(words: &[AtomicU64]) {
    words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
}

/// Asks for the cache line of a word that is read next, and written after that. Where another CPU has written to it last, a load
/// brings a copy that both have, and the write waits a second time, for the line to be this CPU's alone; so it comes once.
/// It is a hint: nothing is accessed, and it does not matter if there is no such word. It is named by its place, as the access behind it
/// then is: else its address would have to be made first.
#[inline(always)]
#[cfg(not(all(woodlot_observe, not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))))]
pub fn fetch_to_write(words: &[AtomicU64], at: usize) {
    #[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore)))]
    prefetch::to_write(words.as_ptr().addr(), at);
    let _ = (words, at);
}

#[cfg(not(any(woodlot_loom, woodlot_shuttle, woodlot_explore, woodlot_observe)))]
mod prefetch {
    #[inline(always)]
    pub(super) fn to_write(words: usize, at: usize) {
        // SAFETY: a prefetch accesses nothing, and changes nothing that a program can see. A processor without this one takes
        // it for nothing.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        unsafe {
            core::arch::asm!("prefetchw [{} + 8 * {}]", in(reg) words, in(reg) at, options(nomem, nostack, preserves_flags));
        }
        // SAFETY: as above.
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        unsafe {
            core::arch::asm!("prfm pstl1keep, [{}, {}, lsl #3]", in(reg) words, in(reg) at, options(nomem, nostack, preserves_flags));
        }
        let _ = (words, at);
    }
}

/// Keeps the compiler from moving accesses across it. The processor still may.
#[inline]
pub fn compiler_fence() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}
