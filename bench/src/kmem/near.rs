//! Which node each block is near, and how blocks flow between the layers, seen from outside.
//!
//! ```text
//!                    arrive (B)                    allocate (A)
//!   global layer  ─────────────►  caches of CPUs  ─────────────►  callers
//!                 ◄─────────────                  ◄─────────────
//!                    leave (E)                     free (D)
//! ```
//!
//! The letters are those of the paper's figure 10. A page is near the node whose CPU asked for it when it was handed out.
//! [`Watched`] wraps the caches, and sees lists come and go; whoever drives the allocator tells a [`Flows`] of the blocks
//! that it allocates and frees. One thread plays all CPUs, so that between two calls every block is in one place.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use woodlot_kmem::{Descriptor, List, NoPages, PAGE, PageId, Pages, PerCpu, SizeId, Which};

/// Blocks that went one way: all, and those near the CPU's node.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Flow {
    pub(super) all: u64,
    near: u64,
}

impl Flow {
    pub(super) fn add(&mut self, is_near: bool) {
        self.all += 1;
        self.near += u64::from(is_near);
    }

    /// What share of them is near: the paper's purity. All of nothing is.
    pub(super) fn purity(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.near as f64 / self.all as f64 }
    }
}

/// Every way.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    /// From a CPU's cache to the caller, or from the global layer through the CPU.
    pub(super) allocated: Flow,
    /// From the caller to the CPU's cache.
    pub(super) freed: Flow,
    /// From the global layer to a CPU.
    pub(super) arrived: Flow,
    /// From a CPU to the global layer.
    pub(super) left: Flow,
}

/// What is known of blocks and pages.
pub(super) struct State {
    /// The node of each page that was handed out, by its address.
    home: HashMap<usize, usize>,
    /// Blocks in a cache, or taken from one and not yet elsewhere: true while they are in it.
    cached: HashMap<usize, bool>,
    /// Blocks that the present call has taken from a cache.
    taken: Vec<usize>,
    /// The node of the CPU that makes the present call.
    here: usize,
    counts: Counts,
}

/// What is known, for all who watch.
pub(super) struct Flows(Mutex<State>);

impl Flows {
    pub(super) fn new() -> Flows {
        let (home, cached, taken) = (HashMap::new(), HashMap::new(), Vec::new());
        Flows(Mutex::new(State { home, cached, taken, here: 0, counts: Counts::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// A CPU of this node makes the next calls.
    pub(super) fn enter(&self, node: usize) {
        self.state().here = node;
    }

    /// Counts from zero.
    pub(super) fn reset(&self) {
        self.state().counts = Counts::default();
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts
    }

    /// The node that a block is near.
    pub(super) fn home(&self, block: NonNull<u8>) -> usize {
        self.state().home_of(block)
    }

    /// A call has allocated this block.
    pub(super) fn allocated(&self, block: NonNull<u8>) {
        let mut state = self.state();
        let is_near = state.is_near(block);
        if state.cached.remove(&block.addr().get()).is_none() {
            // It came through without a stop in the cache.
            state.counts.arrived.add(is_near);
        }
        state.counts.allocated.add(is_near);
        state.settle();
    }

    /// The next call frees this block.
    pub(super) fn free(&self, block: NonNull<u8>) {
        let mut state = self.state();
        let is_near = state.is_near(block);
        state.counts.freed.add(is_near);
        state.cached.insert(block.addr().get(), true);
    }

    /// That call is done.
    pub(super) fn freed(&self) {
        self.state().settle();
    }
}

impl State {
    fn home_of(&self, block: NonNull<u8>) -> usize {
        let page = block.addr().get() & !(PAGE - 1);
        self.home.get(&page).copied().unwrap_or(usize::MAX)
    }

    fn is_near(&self, block: NonNull<u8>) -> bool {
        self.home_of(block) == self.here
    }

    /// These blocks come into a cache.
    fn arrive(&mut self, coming: Vec<NonNull<u8>>) {
        for block in coming {
            let is_near = self.is_near(block);
            if self.cached.insert(block.addr().get(), true).is_none() {
                self.counts.arrived.add(is_near);
            }
        }
    }

    /// What was taken from a cache and did not come back has gone to the global layer.
    fn settle(&mut self) {
        for block in std::mem::take(&mut self.taken) {
            if self.cached.get(&block) == Some(&false) {
                self.cached.remove(&block);
                let is_near = self.home.get(&(block & !(PAGE - 1))) == Some(&self.here);
                self.counts.left.add(is_near);
            }
        }
    }
}

/// The addresses of a list's blocks.
fn blocks(mut list: List) -> Vec<NonNull<u8>> {
    std::iter::from_fn(|| {
        // SAFETY: the list is the caller's, who does not change it meanwhile.
        let (block, rest) = unsafe { list.pop() }?;
        list = rest;
        Some(block)
    })
    .collect()
}

/// Caches whose lists are watched.
pub(super) struct Watched<C> {
    pub(super) caches: C,
    pub(super) flows: &'static Flows,
}

// SAFETY: all is done by the caches inside, which keep the promise; lists are only read, by whoever has them.
unsafe impl<C: PerCpu> PerCpu for Watched<C> {
    type Guard<'a>
        = C::Guard<'a>
    where
        Self: 'a;

    fn pop(&self, size: SizeId) -> Option<NonNull<u8>> {
        self.caches.pop(size)
    }

    unsafe fn push(&self, size: SizeId, block: NonNull<u8>, target: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.caches.push(size, block, target) }
    }

    unsafe fn exchange(&self, which: Which, size: SizeId, list: List) -> List {
        let mut state = self.flows.state();
        let coming = blocks(list);
        // SAFETY: as the caller says.
        let old = unsafe { self.caches.exchange(which, size, list) };
        state.arrive(coming);
        for block in blocks(old) {
            state.cached.insert(block.addr().get(), false);
            state.taken.push(block.addr().get());
        }
        old
    }

    unsafe fn put(&self, which: Which, size: SizeId, list: List) -> Result<(), List> {
        let mut state = self.flows.state();
        let coming = blocks(list);
        // SAFETY: as the caller says.
        unsafe { self.caches.put(which, size, list) }?;
        state.arrive(coming);
        Ok(())
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
}

/// Pages that are near whoever asks for them first.
pub(super) struct Homes<P> {
    pub(super) pages: P,
    pub(super) flows: &'static Flows,
}

// SAFETY: all is done by the pages inside, which keep the promise.
unsafe impl<P: Pages> Pages for Homes<P> {
    fn alloc(&self, count: usize, align: usize, cpu: usize) -> Result<PageId, NoPages> {
        let first = self.pages.alloc(count, align, cpu)?;
        let mut state = self.flows.state();
        let here = state.here;
        let start = self.pages.address(first).addr().get();
        state.home.extend((0..count).map(|page| (start + page * PAGE, here)));
        Ok(first)
    }

    unsafe fn free(&self, first: PageId, count: usize, cpu: usize) {
        // SAFETY: as the caller says.
        unsafe { self.pages.free(first, count, cpu) };
    }

    fn address(&self, page: PageId) -> NonNull<u8> {
        self.pages.address(page)
    }

    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        self.pages.find(address)
    }

    fn descriptor(&self, page: PageId) -> &Descriptor {
        self.pages.descriptor(page)
    }
}
