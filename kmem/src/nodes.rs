//! A pool for each node of a machine whose memory is not equally near to all CPUs.
//!
//! ```text
//!   node 0   CPUs 0, 1 ──alloc──► Kmem over the pages of node 0
//!                        ╲    ╱
//!                      free by address
//!                        ╱    ╲
//!   node 1   CPUs 2, 3 ──alloc──► Kmem over the pages of node 1
//! ```
//!
//! 1. A block is freed to the pool whose pages have its address, whichever CPU frees it.
//! 2. So every cache of a pool, and every list of it, has blocks of its own node only.
//!
//! Section 5.5 of the paper: caches of CPUs are as pure as what is freed to them, so there has to be a pool for each node.
//!
//! *Progress*: as of [`Kmem`]; a free looks at the range of one pool after the other.

use core::ptr::NonNull;

use crate::cpu::PerCpu;
use crate::kmem::{Cookie, Hooks, Kmem};
use crate::pages::Pages;
use crate::size::Sizes;

/// Pools of `N` nodes, by number.
pub struct Nodes<K, const N: usize>([K; N]);

impl<C, P, S, H, const N: usize> Nodes<Kmem<C, P, S, H>, N>
where
    C: PerCpu,
    P: Pages,
    S: Sizes,
    H: Hooks,
{
    /// The pool of each node. Their pages have different addresses, and each has caches for all CPUs.
    pub const fn new(pools: [Kmem<C, P, S, H>; N]) -> Self {
        const { assert!(N > 0) };
        Nodes(pools)
    }

    /// The pool of a node.
    pub fn node(&self, node: usize) -> Option<&Kmem<C, P, S, H>> {
        self.0.get(node)
    }

    /// The number of the node whose pool has this address.
    #[inline]
    pub fn node_of(&self, at: *mut u8) -> Option<usize> {
        self.0.iter().position(|pool| pool.pages().find(at).is_some())
    }

    /// Allocates `bytes` bytes of a node: usually of the caller's. If that has none even when its caches are flushed, of the
    /// first other node that has.
    ///
    /// `None`: no node has memory.
    #[inline]
    pub fn alloc(&self, bytes: usize, node: usize) -> Option<NonNull<u8>> {
        self.near(node, |pool| pool.alloc(bytes))
    }

    /// The same by a cookie.
    #[inline]
    pub fn alloc_cookie(&self, cookie: Cookie<S>, node: usize) -> Option<NonNull<u8>> {
        self.near(node, |pool| pool.alloc_cookie(cookie))
    }

    /// The same at a multiple of `align`, a power of two.
    #[inline]
    pub fn alloc_aligned(&self, bytes: usize, align: usize, node: usize) -> Option<NonNull<u8>> {
        self.near(node, |pool| pool.alloc_aligned(bytes, align))
    }

    /// Frees what [`alloc`](Self::alloc) returned for so many bytes, to its node.
    ///
    /// # Safety
    /// It did, and the caller uses the memory no more.
    #[inline]
    pub unsafe fn free(&self, block: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller says, and the pool is the one that it came from.
        self.with_owner(block, |pool| unsafe { pool.free(block, bytes) });
    }

    /// Frees a block of a cookie's size, to its node.
    ///
    /// # Safety
    /// The block was allocated here for this size, and the caller uses it no more.
    #[inline]
    pub unsafe fn free_cookie(&self, cookie: Cookie<S>, block: NonNull<u8>) {
        // SAFETY: as the caller says, and the pool is the one that it came from.
        self.with_owner(block, |pool| unsafe { pool.free_cookie(cookie, block) });
    }

    /// Frees a block of any size, to its node.
    ///
    /// # Safety
    /// The block was allocated here, and the caller uses it no more.
    #[inline]
    pub unsafe fn free_any(&self, block: NonNull<u8>) {
        // SAFETY: as the caller says, and the pool is the one that it came from.
        self.with_owner(block, |pool| unsafe { pool.free_any(block) });
    }

    /// Gives the blocks that a CPU keeps to the global layers of their nodes. False, if the CPU cannot be reached.
    pub fn flush_cpu(&self, cpu: usize) -> bool {
        self.0.iter().filter(|pool| !pool.flush_cpu(cpu)).count() == 0
    }

    /// Gives all free blocks back to the pages of their nodes.
    pub fn flush(&self) {
        self.0.iter().for_each(Kmem::flush);
    }

    /// Asks the pool of a node first, then those behind it, then those before it.
    #[inline]
    fn near<T>(&self, node: usize, alloc: impl Fn(&Kmem<C, P, S, H>) -> Option<T>) -> Option<T> {
        let (before, behind) = self.0.split_at_checked(node).unwrap_or((&[], &self.0));
        behind.iter().chain(before).find_map(alloc)
    }

    /// Calls with the pool that has the block. A block of no pool is told to the hooks of the first one.
    #[inline]
    fn with_owner(&self, block: NonNull<u8>, free: impl Fn(&Kmem<C, P, S, H>)) {
        match self.node_of(block.as_ptr()).and_then(|node| self.node(node)) {
            Some(pool) => free(pool),
            // SAFETY: no page of the pool has the block, so that nothing is freed.
            None => self.0.first().into_iter().for_each(|pool| unsafe { pool.free_any(block) }),
        }
    }
}
