//! One history: threads that call everything, and what must be true.
//!
//! ```text
//!   thread   on a CPU, moved now and then ──►  pools of two nodes, objects
//!      │                                              │
//!   ledger   each block in use, by address: never two that overlap; filled, and looked at before the free
//! ```
//!
//! At the end everything is freed and flushed: all pages are free, no descriptor knows of anything, no object is left.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use shuttle::thread;
use woodlot_frame::atomics::AtomicU32;
use woodlot_kmem::{Cookie, GLOBAL_TARGET, Objects, Octaves, PAGE, Sizes};

use crate::defect::Defect;
use crate::world::{CPUS, Caches, Maker, NODES, Object, Pools, caches, pools, sit};

/// What histories have done.
#[derive(Default)]
pub struct Figures {
    pub schedules: AtomicU64,
    pub calls: AtomicU64,
    /// Allocations that found no memory.
    pub refused: AtomicU64,
    /// Times that a global layer gave lists to the pages.
    pub excess: AtomicU64,
}

/// Blocks in use, by address, with their ends and what they are filled with.
type Ledger = Mutex<BTreeMap<usize, (usize, u8)>>;

/// A block in the hands of a thread.
#[derive(Clone, Copy)]
struct Block {
    at: NonNull<u8>,
    how: How,
}

// SAFETY: a block may be freed by any thread.
unsafe impl Send for Block {}

#[derive(Clone, Copy)]
enum How {
    Bytes(usize),
    /// An object of this kind.
    Object(usize),
}

struct World {
    pools: &'static Pools,
    objects: &'static Objects<Caches, Maker<'static>>,
    ledger: Ledger,
    /// What anybody may free.
    common: Mutex<Vec<Block>>,
    figures: Arc<Figures>,
}

/// Sizes that are asked for: small ones, of which a page has many, and up to pages.
const BYTES: [usize; 6] = [500, 1024, 2048, 4096, 2 * PAGE, 3 * PAGE];

/// Runs the history of a seed, under the schedule that shuttle makes.
pub fn run(seed: u64, defect: Defect, figures: &Arc<Figures>) {
    let mut random = Rng::with_seed(seed);
    let pages = [0; NODES].map(|_| if random.u8(..4) > 0 { random.usize(2..=8) } else { 31 });
    sit(0);
    // After a panic shuttle unwinds its threads in any order, so that nothing that they share may go with one of them.
    let pools: *mut Pools = Box::into_raw(Box::new(pools(pages, defect)));
    // SAFETY: it is freed last, when all threads have ended.
    let pools_of_all = unsafe { &*pools };
    let maker = Maker { pools: pools_of_all, there: AtomicU32::new(0) };
    let objects = Box::into_raw(Box::new(Objects::new(caches(defect), maker)));
    let (ledger, common) = Default::default();
    // SAFETY: as above.
    let objects_of_all = unsafe { &*objects };
    let figures = figures.clone();
    let world =
        Arc::new(World { pools: pools_of_all, objects: objects_of_all, ledger, common, figures });
    let threads = random.usize(2..=4);
    let start = |thread: usize| {
        let (world, mut random) = (world.clone(), random.fork());
        thread::spawn(move || world.work(thread % (CPUS + 1), &mut random))
    };
    let threads: Vec<_> = (0..threads).map(start).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a panic ends all"));
    world.settle(pages);
    world.figures.schedules.fetch_add(1, Relaxed);
    drop(world);
    // SAFETY: nobody else is left, and nobody panicked.
    unsafe {
        drop(Box::from_raw(objects));
        drop(Box::from_raw(pools));
    }
}

impl World {
    fn work(&self, cpu: usize, random: &mut Rng) {
        sit(cpu);
        let mut own = Vec::new();
        for _ in 0..random.usize(4..24) {
            self.figures.calls.fetch_add(1, Relaxed);
            match random.u8(..16) {
                0..6 => {
                    let bytes = BYTES[random.usize(..BYTES.len())];
                    let node = random.usize(..NODES);
                    let some = 0..random.usize(1..8);
                    own.extend(some.map_while(|_| self.alloc(bytes, node, random)));
                }
                6..8 => own.extend(self.object(random)),
                8..11 => {
                    for _ in 0..random.usize(..8).min(own.len()) {
                        self.free(own.swap_remove(random.usize(..own.len())));
                    }
                }
                11 => self.common.lock().expect("nobody has panicked").append(&mut own),
                12 => {
                    let block = self.common.lock().expect("nobody has panicked").pop();
                    block.into_iter().for_each(|block| self.free(block));
                }
                13 => assert!(self.pools.flush_cpu(random.usize(..CPUS))),
                14 => assert!(self.objects.flush_cpu(random.usize(..CPUS))),
                _ if random.bool() => self.pools.flush(),
                _ => self.objects.flush(),
            }
        }
        own.into_iter().for_each(|block| self.free(block));
    }

    fn alloc(&self, bytes: usize, node: usize, random: &mut Rng) -> Option<Block> {
        let at = match Cookie::new(bytes) {
            Some(cookie) if random.bool() => self.pools.alloc_cookie(cookie, node),
            _ => self.pools.alloc(bytes, node),
        };
        self.figures.refused.fetch_add(u64::from(at.is_none()), Relaxed);
        let at = at?;
        self.enter(
            at,
            Octaves::of(bytes).map_or(bytes, |id| Octaves::size(id).bytes),
            random.u8(..),
        );
        Some(Block { at, how: How::Bytes(bytes) })
    }

    fn object(&self, random: &mut Rng) -> Option<Block> {
        let kind = random.usize(..NODES);
        let object = self.objects.alloc(kind)?;
        self.objects.builder().check(kind, object);
        self.enter(object.cast(), size_of::<[u64; 2]>(), random.u8(..));
        Some(Block { at: object.cast(), how: How::Object(kind) })
    }

    /// Notes a block that was handed out, and fills it.
    fn enter(&self, at: NonNull<u8>, bytes: usize, fill: u8) {
        let start = at.addr().get();
        let mut ledger = self.ledger.lock().expect("nobody has panicked");
        let before = ledger.range(..start + bytes).next_back();
        assert!(before.is_none_or(|(_, &(end, _))| end <= start), "a block has two owners");
        ledger.insert(start, (start + bytes, fill));
        // SAFETY: the block was just handed out.
        unsafe { at.write_bytes(fill, bytes) };
    }

    fn free(&self, block: Block) {
        let start = block.at.addr().get();
        let known = self.ledger.lock().expect("nobody has panicked").remove(&start);
        let (end, fill) = known.expect("a block in use is in the ledger");
        // SAFETY: the block is in use.
        let bytes = unsafe { std::slice::from_raw_parts(block.at.as_ptr(), end - start) };
        assert!(bytes.iter().all(|&byte| byte == fill), "a block was written to");
        // SAFETY: it was handed out so, and nobody uses it any more.
        unsafe {
            match block.how {
                How::Bytes(bytes) if (start / 16).is_multiple_of(2) => {
                    self.pools.free(block.at, bytes)
                }
                How::Bytes(_) => self.pools.free_any(block.at),
                How::Object(kind) => self.objects.free(kind, block.at.cast::<Object>()),
            }
        }
    }

    /// All threads have ended.
    fn settle(&self, pages: [usize; NODES]) {
        sit(0);
        let common = std::mem::take(&mut *self.common.lock().expect("nobody has panicked"));
        common.into_iter().for_each(|block| self.free(block));
        self.judge_counts();
        self.objects.flush();
        let there = self.objects.builder().there.load(woodlot_frame::atomics::Ordering::Relaxed);
        assert_eq!(there, 0, "objects are lost");
        self.pools.flush();
        for (node, pages) in pages.into_iter().enumerate() {
            let pool = self.pools.node(node).expect("a node");
            assert!(pool.pages().is_whole(), "blocks are lost");
            let all = pool.alloc(pages * PAGE).expect("all of memory is free, in one piece");
            // SAFETY: it was just allocated.
            unsafe { pool.free(all, pages * PAGE) };
        }
    }

    /// No layer has more than it may.
    fn judge_counts(&self) {
        for pool in (0..NODES).filter_map(|node| self.pools.node(node)) {
            for size in (0..Octaves::COUNT).filter_map(|size| pool.stats(size)) {
                self.figures.excess.fetch_add(size.global.put_misses, Relaxed);
                let most = (2 * GLOBAL_TARGET + 1) * size.target;
                assert!(size.global_blocks < most, "the global layer keeps too much");
            }
        }
    }
}
