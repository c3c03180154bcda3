//! A per-CPU layer that counts what it is asked for, for tests, benchmarks and builds that are to say it.

use core::mem::offset_of;
use core::ptr::NonNull;

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::cpu::{PerCpu, Which};
use crate::list::List;
use crate::places::Place;
use crate::size::{MAX_SIZES, SizeId};

/// What the per-CPU layer of one size has been asked for, on all CPUs together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuCounts {
    /// Allocations.
    pub pops: u64,
    /// Of these, times that *main* was empty.
    pub pop_misses: u64,
    /// Frees.
    pub pushes: u64,
    /// Of these, times that *main* was full.
    pub push_misses: u64,
}

/// A count of calls, and of those that were in vain.
#[derive(Default)]
struct Calls {
    all: AtomicU64,
    misses: AtomicU64,
}

impl Calls {
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    const fn new() -> Calls {
        Calls { all: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    fn add(&self, is_miss: bool) {
        self.all.fetch_add(1, Ordering::Relaxed);
        if is_miss {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted(&self) -> (u64, u64) {
        (self.all.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

/// Caches that count their calls. Each call pays for that with an atomic addition to a counter that all CPUs share; the
/// caches themselves have none. A call that [`try_pop`](PerCpu::try_pop) or [`try_push`](PerCpu::try_push) could not serve is
/// made again, and counted then.
pub struct Counted<C> {
    caches: C,
    /// Pops and pushes of each size.
    counts: [[Calls; 2]; MAX_SIZES],
}

impl<C> Counted<C> {
    /// The caches inside lie so many bytes behind the begin.
    pub const CACHES: usize = offset_of!(Counted<C>, caches);
    /// Where [`CpuCounts::pops`] and [`CpuCounts::pushes`] lie, 64 bits each.
    pub const CALLS: [Place; 2] = {
        let stride = size_of::<[Calls; 2]>();
        let first = offset_of!(Counted<C>, counts) + offset_of!(Calls, all);
        [Place { offset: first, stride }, Place { offset: first + size_of::<Calls>(), stride }]
    };

    /// Counts from zero what these caches are asked for.
    #[cfg(not(any(woodlot_loom, woodlot_explore, woodlot_shuttle)))]
    pub const fn new(caches: C) -> Counted<C> {
        Counted { caches, counts: [const { [const { Calls::new() }; 2] }; MAX_SIZES] }
    }

    /// The same for atomics of a checker.
    #[cfg(any(woodlot_loom, woodlot_explore, woodlot_shuttle))]
    pub fn new(caches: C) -> Counted<C> {
        Counted { caches, counts: core::array::from_fn(|_| Default::default()) }
    }

    /// The caches inside.
    pub fn caches(&self) -> &C {
        &self.caches
    }

    /// What was counted for the size with this number; nothing above the number of sizes.
    pub fn counts(&self, size: usize) -> CpuCounts {
        let Some([pops, pushes]) = self.counts.get(size) else { return CpuCounts::default() };
        let ((pops, pop_misses), (pushes, push_misses)) = (pops.counted(), pushes.counted());
        CpuCounts { pops, pop_misses, pushes, push_misses }
    }

    fn count(&self, size: SizeId, push: bool, is_miss: bool) {
        if let Some([pops, pushes]) = self.counts.get(size.index()) {
            if push { pushes } else { pops }.add(is_miss);
        }
    }
}

// SAFETY: all is done by the caches inside, which keep the promise.
unsafe impl<C: PerCpu> PerCpu for Counted<C> {
    type Guard<'a>
        = C::Guard<'a>
    where
        Self: 'a;

    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        let block = self.caches.pop(size);
        self.count(size, false, block.is_none());
        block
    }

    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says.
        let done = unsafe { self.caches.push(size, block, target) };
        self.count(size, true, !done);
        done
    }

    fn try_pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        let block = self.caches.try_pop(size)?;
        self.count(size, false, false);
        Some(block)
    }

    unsafe fn try_push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says.
        let done = unsafe { self.caches.try_push(size, block, target) };
        if done {
            self.count(size, true, false);
        }
        done
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        // SAFETY: as the caller says.
        unsafe { self.caches.exchange(which, size, list) }
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        // SAFETY: as the caller says.
        unsafe { self.caches.put(which, size, list) }
    }

    fn guard(&self) -> C::Guard<'_> {
        self.caches.guard()
    }

    fn current(&self) -> usize {
        self.caches.current()
    }

    fn cpus(&self) -> usize {
        self.caches.cpus()
    }

    fn steal(&self, cpu: usize, size: SizeId) -> Option<[List; 2]> {
        self.caches.steal(cpu, size)
    }

    fn steal_each(
        &self,
        cpu: usize,
        sizes: impl Iterator<Item = SizeId>,
        give: impl FnMut(SizeId, [List; 2]),
    ) -> bool {
        self.caches.steal_each(cpu, sizes, give)
    }

    fn sign(&self, cpu: usize, size: SizeId) -> Option<u64> {
        self.caches.sign(cpu, size)
    }

    fn counted(&self, size: SizeId) -> Option<CpuCounts> {
        Some(self.counts(size.index()))
    }

    fn wait(&self, tries: usize) {
        self.caches.wait(tries);
    }
}
