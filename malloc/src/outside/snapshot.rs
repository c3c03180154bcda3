//! What a heap has and has done, at about one moment.

use woodlot_kmem::MAX_SIZES;

/// Whose the caches are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caches {
    /// Nobody has allocated yet.
    None,
    /// Of CPUs, by restartable sequences.
    Cpus,
    /// Of threads, as there are no restartable sequences.
    Threads,
}

/// What was asked of a layer. The caches are asked for blocks and given blocks, the layers below lists of blocks; a miss is a
/// request that had to be passed to the layer below.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Layer {
    /// How often it was asked for something; `None`, if nobody has counted.
    pub allocs: Option<u64>,
    /// Times that it had nothing to give.
    pub alloc_misses: u64,
    /// How often it was given something; `None`, if nobody has counted.
    pub frees: Option<u64>,
    /// Times that it had no room.
    pub free_misses: u64,
}

impl Layer {
    /// Requests that it could serve itself.
    pub fn alloc_hits(&self) -> Option<u64> {
        self.allocs.map(|all| all.saturating_sub(self.alloc_misses))
    }

    /// What it could keep.
    pub fn free_hits(&self) -> Option<u64> {
        self.frees.map(|all| all.saturating_sub(self.free_misses))
    }
}

/// Blocks, and what they take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Blocks {
    /// How many.
    pub count: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// What one size has, and what its layers have done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SizeSnapshot {
    /// Bytes of a block.
    pub bytes: usize,
    /// Blocks of a full list.
    pub target: usize,
    /// Blocks that the program has.
    pub in_use: usize,
    /// Free blocks in the caches of CPUs or threads.
    pub cached: usize,
    /// Free blocks in the global layer.
    pub global_blocks: usize,
    /// Free blocks in slabs.
    pub slab_free: usize,
    /// Pages of slabs.
    pub pages: usize,
    /// Of these, bytes behind the last block of a slab.
    pub cut_off: usize,
    /// The per-CPU layer. Its misses are lists that were asked of the global layer, or given to it, by flushes too. What it is
    /// asked for is counted by a library with the feature `counted` alone, as that costs more than it does itself.
    pub cpu: Layer,
    /// The global layer, which is asked as often as the per-CPU layer misses.
    pub global: Layer,
    /// Slabs that were made of pages.
    pub slabs_made: u64,
    /// Slabs all of whose blocks were free, and whose pages went back.
    pub slabs_freed: u64,
}

impl SizeSnapshot {
    /// The coalesce-to-page layer, which is asked as often as the global layer misses. Its misses are slabs: several may be made
    /// for one request, or be freed with it, so that it has served at least so many as its hits say.
    pub fn coalesce(&self) -> Layer {
        Layer {
            allocs: Some(self.global.alloc_misses),
            alloc_misses: self.slabs_made,
            frees: Some(self.global.free_misses),
            free_misses: self.slabs_freed,
        }
    }
}

/// What a heap has and has done, at about one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// The library's version, with zeros behind it.
    pub(super) library: [u8; 16],
    /// Whose the caches are.
    pub caches: Caches,
    /// Sequences that were aborted.
    pub aborts: u64,
    pub(super) sizes: [SizeSnapshot; MAX_SIZES],
    pub(super) size_count: usize,
    /// Blocks of more than 32 KiB, up to 4 MiB: whole pages.
    pub spans: Blocks,
    /// Blocks above that: mappings of their own.
    pub large: Blocks,
    /// Bytes of huge frames that may have memory.
    pub resident: usize,
    /// Bytes of addresses that a zone is open for.
    pub open: usize,
}

impl Snapshot {
    /// Each size, the smallest first.
    pub fn sizes(&self) -> &[SizeSnapshot] {
        self.sizes.get(..self.size_count).unwrap_or_default()
    }

    /// The version of the library, as it names itself.
    pub fn library(&self) -> &str {
        let text = self.library.split(|&byte| byte == 0).next().unwrap_or_default();
        core::str::from_utf8(text).unwrap_or("?")
    }

    /// Bytes of so many blocks of each size.
    pub(super) fn bytes(&self, blocks: impl Fn(&SizeSnapshot) -> usize) -> usize {
        self.sizes().iter().map(|size| blocks(size) * size.bytes).sum()
    }

    /// Bytes of free pages of huge frames that may have memory.
    pub fn free_pages(&self) -> usize {
        let slabs: usize = self.sizes().iter().map(|size| size.pages * woodlot_kmem::PAGE).sum();
        self.resident.saturating_sub(slabs + self.spans.bytes)
    }
}
