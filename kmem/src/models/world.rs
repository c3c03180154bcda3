//! An allocator over a few pages, or one for each of two nodes, and the CPUs of their threads.
#![allow(clippy::missing_const_for_thread_local, reason = "loom's have no constants")]

use std::boxed::Box;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::vec::Vec;

#[cfg(woodlot_loom)]
use loom::thread_local;
#[cfg(woodlot_explore)]
use std::thread_local;
use woodlot_frame::atomics::{AtomicU32, Ordering};

use super::script::Shared;
use super::{Scenario, std};
use crate::page::{Descriptor, Kind, PageId};
use crate::{Cpus, Guarded, Hooks, Kmem, Misuse, NoPages, Nodes, PAGE, Pages, Size, Sizes, Table};

/// CPUs, and threads on them.
pub(super) const CPUS: usize = 2;

/// Lists of two blocks; lists of one, which are always full; and blocks that are pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Three;

impl Sizes for Three {
    const TABLE: &'static Table = &Table::few([(1024, 2), (2048, 1), (4096, 1)]);
}

/// Where a thread is.
#[derive(Clone, Copy)]
struct Seat {
    cpu: usize,
    /// How many `enter` have no `leave` yet.
    depth: usize,
    /// Is it moved to the next CPU whenever it can be?
    wanders: bool,
}

thread_local! {
    static SEAT: Cell<Seat> = Cell::new(Seat { cpu: 0, depth: 0, wanders: false });
}

/// The thread runs on this CPU from now on.
pub(super) fn sit(cpu: usize) {
    SEAT.with(|seat| seat.set(Seat { cpu, depth: 0, wanders: false }));
}

/// The thread is moved between any two steps of a call from now on.
pub(super) fn wander() {
    SEAT.with(|seat| seat.set(Seat { cpu: 0, depth: 0, wanders: true }));
}

/// The CPU that the thread was on last.
pub(super) fn seat() -> usize {
    SEAT.with(Cell::get).cpu
}

/// CPUs, each of which is kept to one caller between `enter` and `leave`: 1, and 0 otherwise.
pub(super) struct Seats([AtomicU32; CPUS]);

/// Caches of CPUs on which nobody is.
pub(super) fn caches() -> Guarded<Seats, CPUS> {
    Guarded::new(Seats(std::array::from_fn(|_| AtomicU32::new(0))))
}

// SAFETY: the word of a CPU is 1 from the first `enter` to the last `leave`, and a thread stays where it is meanwhile.
unsafe impl Cpus for Seats {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        let Seat { mut cpu, depth, wanders } = SEAT.with(Cell::get);
        if wanders && depth == 0 {
            cpu = (cpu + 1) % CPUS;
        }
        let taken = &self.0[cpu];
        let take = || taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if depth == 0 {
            #[cfg(woodlot_explore)]
            woodlot_explore::wait_until(take);
            #[cfg(woodlot_loom)]
            while !take() {
                loom::thread::yield_now();
            }
        }
        SEAT.with(|seat| seat.set(Seat { cpu, depth: depth + 1, wanders }));
        (cpu, ())
    }

    fn leave(&self, (): ()) {
        let Seat { cpu, depth, wanders } = SEAT.with(Cell::get);
        SEAT.with(|seat| seat.set(Seat { cpu, depth: depth - 1, wanders }));
        if depth == 1 {
            self.0[cpu].store(0, Ordering::Release);
        }
    }

    /// The caller does it itself, in the other one's place.
    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let seat = SEAT.with(Cell::get);
        assert_eq!(seat.depth, 0, "a call from a CPU that is kept");
        sit(cpu);
        self.enter();
        call();
        self.leave(());
        SEAT.with(|here| here.set(seat));
        true
    }

    #[cfg(woodlot_loom)]
    fn wait(&self, _: usize) {
        loom::thread::yield_now();
    }
}

/// A page of memory.
#[repr(align(4096))]
struct Page(
    #[expect(dead_code, reason = "it is accessed by its address")] UnsafeCell<[u64; PAGE / 8]>,
);

/// A few pages. A bit of `used` for each.
pub(super) struct Few {
    memory: Box<[Page]>,
    descriptors: Box<[Descriptor]>,
    used: AtomicU32,
}

// SAFETY: a page is one caller's, as `used` says.
unsafe impl Sync for Few {}

impl Few {
    fn new(pages: usize) -> Few {
        Few {
            memory: (0..pages).map(|_| Page(UnsafeCell::new([0; PAGE / 8]))).collect(),
            descriptors: (0..pages).map(|_| Descriptor::default()).collect(),
            used: AtomicU32::new(0),
        }
    }

    /// Is everything free, and nothing known of any page?
    fn is_whole(&self) -> bool {
        let is_clear = self.descriptors.iter().all(|page| page.kind() == Kind::None);
        self.used.load(Ordering::Relaxed) == 0 && is_clear
    }

    fn start(&self) -> NonNull<u8> {
        NonNull::from(&*self.memory).cast()
    }
}

fn bits(first: usize, count: usize) -> u32 {
    ((1 << count) - 1) << first
}

// SAFETY: pages are handed out by a compare-exchange that sets their bits, which were not set.
unsafe impl Pages for Few {
    fn alloc(&self, count: usize, align: usize, _: usize) -> Result<PageId, NoPages> {
        assert_eq!(align, PAGE);
        let mut used = self.used.load(Ordering::Acquire);
        loop {
            let firsts = 0..(self.memory.len() + 1).saturating_sub(count);
            let first = firsts.into_iter().find(|&first| used & bits(first, count) == 0);
            let first = first.ok_or(NoPages)?;
            let taken = used | bits(first, count);
            match self.used.compare_exchange(used, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(PageId(first as u32)),
                Err(now) => used = now,
            }
        }
    }

    unsafe fn free(&self, first: PageId, count: usize, _: usize) {
        let bits = bits(first.0 as usize, count);
        let before = self.used.fetch_and(!bits, Ordering::AcqRel);
        assert_eq!(before & bits, bits, "pages are freed that nobody has");
    }

    fn address(&self, page: PageId) -> NonNull<u8> {
        NonNull::from(&self.memory[page.0 as usize]).cast()
    }

    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        let offset = address.addr().wrapping_sub(self.start().addr().get());
        (offset < self.memory.len() * PAGE)
            .then_some((PageId((offset / PAGE) as u32), offset % PAGE))
    }

    fn descriptor(&self, page: PageId) -> &Descriptor {
        &self.descriptors[page.0 as usize]
    }
}

/// Nobody frees wrongly.
pub(super) struct Right;

impl Hooks for Right {
    fn misuse(&self, misuse: Misuse) {
        panic!("{misuse}");
    }
}

/// A block in use: from this offset in memory on, so many bytes, as they were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    pub(super) at: usize,
    pub(super) bytes: usize,
}

impl Block {
    /// Do two blocks overlap? Both are as large as their sizes are.
    pub(super) fn overlaps(self, other: Block) -> bool {
        let end = |block: Block| block.at + block.size();
        self.at < end(other) && other.at < end(self)
    }

    fn size(self) -> usize {
        Three::of(self.bytes).map_or(self.bytes.next_multiple_of(PAGE), |id| Three::size(id).bytes)
    }
}

/// No two blocks overlap, whoever has them.
pub(super) fn judge<'b>(blocks: impl Iterator<Item = &'b Block>) {
    let blocks: Vec<Block> = blocks.copied().collect();
    for (number, block) in blocks.iter().enumerate() {
        let overlaps = blocks[..number].iter().any(|other| other.overlaps(*block));
        assert!(!overlaps, "a block has two owners: {blocks:?}");
    }
}

/// What the threads of a scenario share: an allocator for each node, whose pages follow those of the node before. A thread
/// asks for memory of the node that has the number of its CPU, if there is more than one.
pub(super) struct World<const N: usize> {
    nodes: Nodes<Kmem<Guarded<Seats, CPUS>, Few, Three, Right>, N>,
    scenario: Scenario,
    /// What the setup has allocated.
    blocks: Vec<Option<Block>>,
    /// What the owner of a kilobyte writes to.
    #[cfg(woodlot_loom)]
    owned: Vec<loom::cell::UnsafeCell<bool>>,
}

impl<const N: usize> Shared for World<N> {
    fn new(scenario: &Scenario) -> World<N> {
        let pool = |_| Kmem::new(caches(), Few::new(scenario.pages), Right);
        let mut world = World {
            nodes: Nodes::new(std::array::from_fn(pool)),
            scenario: *scenario,
            blocks: Vec::new(),
            #[cfg(woodlot_loom)]
            owned: (0..4 * N * scenario.pages)
                .map(|_| loom::cell::UnsafeCell::new(false))
                .collect(),
        };
        world.blocks = world.set_up();
        world
    }

    fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn blocks(&self) -> &[Option<Block>] {
        &self.blocks
    }

    fn alloc(&self, bytes: usize) -> Option<Block> {
        let block = self.nodes.alloc(bytes, seat() % N)?;
        let node = self.nodes.node_of(block.as_ptr()).expect("a block of a node");
        let at = node * self.node_bytes() + block.addr().get() - self.start(node).addr().get();
        let block = Block { at, bytes };
        self.hand_over(block, true);
        Some(block)
    }

    fn free(&self, block: Block) {
        self.hand_over(block, false);
        let (node, at) = (block.at / self.node_bytes(), block.at % self.node_bytes());
        // SAFETY: the block lies in the memory, was allocated here, and nobody uses it.
        unsafe { self.nodes.free_any(self.start(node).add(at)) };
    }

    fn flush_cpu(&self, cpu: usize) {
        assert!(self.nodes.flush_cpu(cpu));
    }

    fn flush(&self) {
        self.nodes.flush();
    }

    fn settle<'b>(&self, blocks: impl Iterator<Item = &'b Block>) {
        let blocks: Vec<Block> = blocks.copied().collect();
        judge(blocks.iter());
        sit(0);
        blocks.into_iter().for_each(|block| self.free(block));
        self.is_empty();
        for size in Three::all().map(Three::size) {
            self.exhaust(size);
        }
    }
}

impl<const N: usize> World<N> {
    fn start(&self, node: usize) -> NonNull<u8> {
        self.nodes.node(node).expect("there is this node").pages().start()
    }

    /// Bytes of a node.
    fn node_bytes(&self) -> usize {
        self.scenario.pages * PAGE
    }

    /// A block gets an owner, or loses it.
    #[cfg(woodlot_loom)]
    fn hand_over(&self, block: Block, to: bool) {
        for cell in &self.owned[block.at / 1024..(block.at + block.size()) / 1024] {
            cell.with_mut(|owned| {
                // SAFETY: loom checks that nobody else is at the cell.
                let before = unsafe { std::mem::replace(&mut *owned, to) };
                assert_ne!(before, to, "a block has two owners");
            });
        }
    }

    #[cfg(not(woodlot_loom))]
    fn hand_over(&self, _: Block, _: bool) {}

    /// All of memory in one size, and back.
    fn exhaust(&self, size: &Size) {
        let all = (0..N * self.scenario.pages * size.blocks).map(|number| {
            sit(number % CPUS);
            self.alloc(size.bytes).expect("all of memory can be had")
        });
        let all: Vec<Block> = all.collect();
        judge(all.iter());
        assert_eq!(self.alloc(size.bytes), None, "there is more than there is");
        for (number, block) in all.into_iter().enumerate() {
            sit(number % CPUS);
            self.free(block);
        }
        self.is_empty();
    }

    /// After a flush nothing is anywhere.
    fn is_empty(&self) {
        let what = "blocks are lost";
        self.nodes.flush();
        for pool in (0..N).filter_map(|node| self.nodes.node(node)) {
            assert!(pool.pages().is_whole(), "{what}");
            for number in 0..Three::COUNT {
                let stats = pool.stats(number).expect("there is this size");
                let left = (stats.global_blocks, stats.coalesce.free, stats.pages);
                assert_eq!(left, (0, 0, 0), "{what}");
            }
        }
    }
}
