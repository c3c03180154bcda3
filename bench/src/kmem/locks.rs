//! *lock-manager*: a distributed lock manager, which the paper measures by the calls that miss a layer (section 4.4).
//!
//! ```text
//!   node (a thread)   transaction 1024 B ─► its locks, 512 B each
//!        │ request, release: a message of 64 B
//!        ▼
//!   master (a thread) resource 256 B ─► a granted lock for each holder, 512 B
//! ```
//!
//! Each thread is a node that masters a share of the [`RESOURCES`] resources. A transaction locks 1 to 8 resources, of
//! which half are among the first sixteenth. The node allocates the transaction and a lock for each, and sends the master
//! of each resource a message, which the master frees. The master allocates the resource where nobody has it, and the
//! granted lock; when a release comes it frees the lock, and the resource where it was the last. A node has 16 to 256
//! transactions under way: the number rises and falls, [`CYCLE`] transactions from one low to the next. Which one ends is
//! random.
//!
//! The paper's system flushes the caches of a CPU every 72 seconds, in which it frees 23,000 blocks (table 4). Here all
//! caches are flushed every so many transactions, or not at all: those misses come on top of the others.

use std::collections::HashMap;
use std::sync::{Barrier, Mutex};

use serde::{Deserialize, Serialize};
use woodlot_kmem::Sizes;

use super::case::Setup;
use super::frames::{Frames, Threads};
use crate::Failure;
use crate::patterns::on_threads;
use crate::random::Random;

/// Resources that can be locked.
const RESOURCES: usize = 1 << 14;
/// Transactions between two times of low load.
const CYCLE: usize = 1 << 12;
/// Frames: 256 MiB.
const FRAMES: usize = 1 << 16;

const MESSAGE: usize = 64;
const RESOURCE: usize = 256;
const LOCK: usize = 512;
const TRANSACTION: usize = 1024;

/// Calls and misses of one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LockRow {
    /// Bytes of a block.
    pub bytes: usize,
    /// Allocations, and frees.
    pub calls: [u64; 2],
    /// Of these, lists that came from the global layer, or went there because a cache was full.
    pub global: [u64; 2],
    /// Lists that went there because the caches were flushed.
    pub flushed: u64,
    /// Of these, times that the layer went on to the pages.
    pub pages: [u64; 2],
    /// Pages that were split, and pages that were coalesced.
    pub slabs: [u64; 2],
    /// The paper's bounds: of the first miss rate 1 / target, of the second 1 / gbltarget. No row has blocks that are pages, of which
    /// one list comes at a time.
    pub bounds: [f64; 2],
}

/// A block, as an address that goes from thread to thread.
#[derive(Clone, Copy)]
struct Block(*mut u8);

// SAFETY: a block belongs to whoever has it.
unsafe impl Send for Block {}

/// What a message says.
#[derive(Clone, Copy)]
enum Ask {
    Lock,
    Release,
}

/// Messages on their way to a node.
type Mailbox = Mutex<Vec<(Block, Ask, usize)>>;

/// A transaction under way.
struct Transaction {
    block: Block,
    locks: Vec<(usize, Block)>,
}

/// A thread.
struct Node<'a, S: Sizes> {
    heap: &'a Frames<S>,
    mailboxes: &'a [Mailbox],
    random: Random,
    /// What this node masters and somebody has: the resource, and the locks granted.
    resources: HashMap<usize, (Block, Vec<Block>)>,
    under_way: Vec<Transaction>,
    calls: [HashMap<usize, u64>; 2],
    refused: bool,
}

impl<S: Sizes> Node<'_, S> {
    fn alloc(&mut self, bytes: usize) -> Block {
        *self.calls[0].entry(bytes).or_default() += 1;
        let block = self.heap.alloc(bytes);
        match block.is_null() {
            true => self.refused = true,
            // SAFETY: the block was just allocated.
            false => unsafe { block.write_bytes(0, bytes) },
        }
        Block(block)
    }

    fn free(&mut self, block: Block, bytes: usize) {
        *self.calls[1].entry(bytes).or_default() += 1;
        if !block.0.is_null() {
            // SAFETY: the block was allocated for so many bytes, and this node has it.
            unsafe { self.heap.free(block.0, bytes) };
        }
    }

    fn send(&mut self, ask: Ask, resource: usize) {
        let message = self.alloc(MESSAGE);
        let mailbox = &self.mailboxes[resource % self.mailboxes.len()];
        mailbox.lock().expect("nobody panics").push((message, ask, resource));
    }

    /// Does what others ask of this node.
    fn serve(&mut self, here: usize) {
        let messages = std::mem::take(&mut *self.mailboxes[here].lock().expect("nobody panics"));
        for (message, ask, resource) in messages {
            self.free(message, MESSAGE);
            match ask {
                Ask::Lock => self.grant(resource),
                Ask::Release => self.ungrant(resource),
            }
        }
    }

    fn grant(&mut self, resource: usize) {
        let lock = self.alloc(LOCK);
        if !self.resources.contains_key(&resource) {
            let block = self.alloc(RESOURCE);
            self.resources.insert(resource, (block, Vec::new()));
        }
        if let Some((_, granted)) = self.resources.get_mut(&resource) {
            granted.push(lock);
        }
    }

    /// Messages of a node arrive in order, so there is a lock.
    fn ungrant(&mut self, resource: usize) {
        let Some((_, granted)) = self.resources.get_mut(&resource) else { return };
        let (lock, is_last) = (granted.pop(), granted.is_empty());
        if let Some(lock) = lock {
            self.free(lock, LOCK);
        }
        if is_last && let Some((block, _)) = self.resources.remove(&resource) {
            self.free(block, RESOURCE);
        }
    }

    fn begin(&mut self) {
        let mut transaction = Transaction { block: self.alloc(TRANSACTION), locks: Vec::new() };
        for _ in 0..=self.random.below(8) {
            let among = if self.random.below(2) == 0 { RESOURCES / 16 } else { RESOURCES };
            let resource = self.random.below(among);
            transaction.locks.push((resource, self.alloc(LOCK)));
            self.send(Ask::Lock, resource);
        }
        self.under_way.push(transaction);
    }

    fn end(&mut self) {
        let which = self.random.below(self.under_way.len());
        let Transaction { block, locks } = self.under_way.swap_remove(which);
        for (resource, lock) in locks {
            self.send(Ask::Release, resource);
            self.free(lock, LOCK);
        }
        self.free(block, TRANSACTION);
    }

    /// One step of a node's life: the transactions under way become as many as the load wants.
    fn step(&mut self, here: usize, step: usize) {
        let phase = (step % CYCLE).abs_diff(CYCLE / 2);
        let load = 16 + 240 * (CYCLE / 2 - phase) / (CYCLE / 2);
        self.serve(here);
        self.begin();
        while self.under_way.len() > load {
            self.end();
        }
    }
}

/// Transactions between two flushes that have as many frees as the paper's system between two flushes of a CPU.
pub const FLUSH: usize = 1024;

/// Flushes all caches, and adds the lists that each size gives to its global layer. Nobody else uses the heap.
fn flush<S: Sizes>(heap: &Frames<S>, threads: usize, flushed: &mut HashMap<usize, u64>) {
    let puts = |heap: &Frames<S>| -> Vec<_> {
        heap.stats().iter().map(|stats| (stats.bytes, stats.global.puts)).collect()
    };
    let before = puts(heap);
    heap.flush_caches(threads);
    for ((bytes, before), (_, after)) in before.into_iter().zip(puts(heap)) {
        *flushed.entry(bytes).or_default() += after - before;
    }
}

/// So many transactions on so many threads, with a flush every so many; a row for each size that was used.
///
/// # Errors
/// There was no memory.
pub fn lock_manager<S: Sizes>(
    threads: usize,
    setup: &Setup,
    flush_every: Option<usize>,
) -> Result<Vec<LockRow>, Failure> {
    let heap = Frames::<S>::new(FRAMES, threads)?;
    let mailboxes: Vec<Mailbox> = (0..threads).map(|_| Mailbox::default()).collect();
    let barrier = Barrier::new(threads);
    let steps = setup.operations.div_ceil(threads);
    let every = flush_every.map(|every| every.div_ceil(threads));
    let flushed = Mutex::new(HashMap::new());
    let nodes = on_threads(0..threads, |here, _| {
        Threads::enter(here);
        let mut node = Node {
            heap: &heap,
            mailboxes: &mailboxes,
            random: Random::new(setup.seed + here as u64),
            resources: HashMap::new(),
            under_way: Vec::new(),
            calls: Default::default(),
            refused: false,
        };
        for step in 0..steps {
            node.step(here, step);
            if every.is_some_and(|every| (step + 1) % every == 0) {
                barrier.wait();
                if here == 0 {
                    flush(&heap, threads, &mut flushed.lock().expect("nobody panics"));
                }
                barrier.wait();
            }
        }
        while !node.under_way.is_empty() {
            node.end();
        }
        barrier.wait();
        node.serve(here);
        (node.calls, node.refused || !node.resources.is_empty())
    });
    if nodes.iter().any(|(_, failed)| *failed) {
        return Err(Failure::Failed("lock-manager: no memory, or a lock that stayed".into()));
    }
    let (stats, flushed) = (heap.stats(), flushed.into_inner().expect("nobody panics"));
    let row = |bytes: usize| {
        let calls = |of: usize| nodes.iter().filter_map(|(calls, _)| calls[of].get(&bytes)).sum();
        let stats = stats.iter().find(|stats| stats.bytes == bytes)?;
        let (global, slabs) = (stats.global, stats.coalesce);
        let flushed = flushed.get(&bytes).copied().unwrap_or(0);
        Some(LockRow {
            bytes,
            calls: [calls(0), calls(1)],
            global: [global.takes, global.puts - flushed],
            flushed,
            pages: [global.take_misses, global.put_misses],
            slabs: [slabs.splits, slabs.coalesces],
            bounds: [1.0 / stats.target as f64, 1.0 / stats.lists as f64],
        })
    };
    Ok([MESSAGE, RESOURCE, LOCK, TRANSACTION].into_iter().filter_map(row).collect())
}
