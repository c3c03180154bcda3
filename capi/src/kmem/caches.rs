//! Caches of CPUs that functions of C keep to their caller.
//!
//! ```text
//!   enter, leave, call │ cache of CPU 0 │ cache of CPU 1 │ …        memory of the caller, WOODLOT_KMEM_CACHE_SIZE each
//! ```

use core::ffi::c_void;
use core::ptr::NonNull;

use woodlot_kmem::{Cpus, Guarded, List, PerCpu, SizeId, Which};

use super::types::{Call, Enter, KmemCpus, Leave};
use crate::error::Error;
use crate::memory::check;

/// The one CPU of a cache: whoever comes to it was let in by [`Caches`].
pub struct Kept;

// SAFETY: the cache is reached between `enter` and `leave` of its CPU only.
unsafe impl Cpus for Kept {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        (0, ())
    }

    fn leave(&self, (): ()) {}
}

/// The cache of one CPU.
type CpuCache = Guarded<Kept, 1>;

/// Bytes of the cache of a CPU: `WOODLOT_KMEM_CACHE_SIZE`.
pub const CACHE_SIZE: usize = size_of::<CpuCache>();

/// The caches of all CPUs.
pub struct Caches {
    context: *mut c_void,
    enter: Enter,
    leave: Leave,
    call: Option<Call>,
    caches: &'static [CpuCache],
}

// SAFETY: the functions may be called on any CPU, as the header asks of them.
unsafe impl Sync for Caches {}

impl Caches {
    /// # Errors
    /// [`Error::NoCallback`] without one of the functions that must be there.
    ///
    /// # Safety
    /// The functions do what the header says.
    unsafe fn new(cpus: &KmemCpus, caches: &'static [CpuCache]) -> Result<Caches, Error> {
        let KmemCpus { context, enter, leave, call, .. } = *cpus;
        let (Some(enter), Some(leave)) = (enter, leave) else { return Err(Error::NoCallback) };
        Ok(Caches { context, enter, leave, call, caches })
    }

    fn enter(&self) -> Held<'_> {
        let mut state = 0;
        // SAFETY: as the caller of `new` has promised.
        let cpu = unsafe { (self.enter)(self.context, &mut state) };
        Held { caches: self, cpu, state }
    }

    /// Calls with the cache of this CPU, if it has one.
    fn here<R>(&self, call: impl FnOnce(Option<&CpuCache>) -> R) -> R {
        let held = self.enter();
        call(self.caches.get(held.cpu))
    }
}

/// A CPU that is kept to the holder until this is dropped.
pub struct Held<'a> {
    caches: &'a Caches,
    cpu: usize,
    state: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: as the caller of `Caches::new` has promised; it was entered once.
        unsafe { (self.caches.leave)(self.caches.context, self.state) };
    }
}

/// The caches of an allocator, which count what they are asked for.
#[cfg(feature = "counted")]
pub(super) type Cached = woodlot_kmem::Counted<Caches>;
/// The caches of an allocator.
#[cfg(not(feature = "counted"))]
pub(super) type Cached = Caches;

#[cfg(feature = "counted")]
pub(super) fn counted(caches: Caches) -> Cached {
    Cached::new(caches)
}

#[cfg(not(feature = "counted"))]
pub(super) fn counted(caches: Caches) -> Cached {
    caches
}

/// What another CPU is to take from, and what it took.
struct Theft<'a> {
    cache: &'a CpuCache,
    size: SizeId,
    stolen: Option<[List; 2]>,
}

/// Runs on the CPU whose cache it is.
unsafe extern "C" fn steal_here(theft: *mut c_void) {
    // SAFETY: it is what `steal` has passed, who waits.
    let theft = unsafe { &mut *theft.cast::<Theft<'_>>() };
    theft.stolen = theft.cache.steal(0, theft.size);
}

// SAFETY: each cache is reached on its CPU between `enter` and `leave` alone, and keeps the promise then.
unsafe impl PerCpu for Caches {
    type Guard<'a> = Held<'a>;

    #[inline]
    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        self.here(|cache| cache?.pop(size))
    }

    #[inline]
    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says.
        self.here(|cache| cache.is_some_and(|cache| unsafe { cache.push(size, block, target) }))
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        // SAFETY: as the caller says.
        self.here(|cache| cache.map_or(list, |cache| unsafe { cache.exchange(which, size, list) }))
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        self.here(|cache| match cache {
            // SAFETY: as the caller says.
            Some(cache) => unsafe { cache.put(which, size, list) },
            None => Err(list),
        })
    }

    fn guard(&self) -> Held<'_> {
        self.enter()
    }

    fn current(&self) -> usize {
        self.enter().cpu
    }

    fn cpus(&self) -> usize {
        self.caches.len()
    }

    fn steal(&self, cpu: usize, size: SizeId) -> Option<[List; 2]> {
        let cache = self.caches.get(cpu)?;
        let held = self.enter();
        if held.cpu == cpu {
            return cache.steal(0, size);
        }
        drop(held);
        let mut theft = Theft { cache, size, stolen: None };
        // SAFETY: as the caller of `new` has promised: it returns when the other CPU has done it, or does not do it.
        unsafe { (self.call?)(self.context, cpu, Some(steal_here), (&raw mut theft).cast()) };
        theft.stolen
    }

    fn sign(&self, cpu: usize, size: SizeId) -> Option<u64> {
        let held = self.enter();
        self.caches.get(cpu).filter(|_| held.cpu == cpu)?.sign(0, size)
    }
}

/// Bytes of the caches of so many CPUs.
pub(super) fn caches_size(cpus: &KmemCpus) -> Result<usize, Error> {
    if cpus.enter.is_none() || cpus.leave.is_none() {
        return Err(Error::NoCallback);
    }
    match cpus.cpus.checked_mul(CACHE_SIZE) {
        Some(0) => Err(Error::NoCpus),
        Some(size) if size <= isize::MAX as usize => Ok(size),
        _ => Err(Error::TooLong),
    }
}

/// Empty caches of all CPUs.
///
/// # Safety
/// The functions do what the header says. Unless it is null or misaligned, `start` leads to [`caches_size`] bytes, which nobody
/// else uses from now on.
pub(super) unsafe fn caches_in(cpus: &KmemCpus, start: *mut c_void) -> Result<Caches, Error> {
    let start = start.cast::<CpuCache>();
    check(start)?;
    // SAFETY: as the caller says: there is room for so many.
    let caches = unsafe {
        (0..cpus.cpus).for_each(|cpu| start.add(cpu).write(CpuCache::new(Kept)));
        core::slice::from_raw_parts(start, cpus.cpus)
    };
    // SAFETY: as the caller says.
    unsafe { Caches::new(cpus, caches) }
}
