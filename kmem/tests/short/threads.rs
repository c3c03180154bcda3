//! Threads that run on CPUs, are moved from one to another, free what others allocated, and flush each other.

use std::sync::Mutex;
use std::thread;

use woodlot_frame::{Construct, FrameAllocator};
use woodlot_kmem::{Hooks, Kmem, Misuse, Sizes};

use crate::cpus::{Caches, caches, wander};
use crate::memory::Memory;
use crate::model::{Block, Model, alloc, free};
use crate::{calls, on_all};

/// CPUs, and threads on them.
const CPUS: usize = 3;
const THREADS: usize = 4;

/// Nobody frees wrongly here.
struct Right;

impl Hooks for Right {
    fn misuse(&self, misuse: Misuse) {
        panic!("{misuse}");
    }
}

/// What threads do to one another's blocks.
fn worker<Z: FrameAllocator, S: Sizes>(
    kmem: &Kmem<Caches<CPUS>, woodlot_kmem::Direct<'_, Z>, S, Right>,
    common: &Mutex<Vec<Block>>,
    seed: u64,
    sure: bool,
) {
    wander(CPUS, seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut own: Vec<Block> = Vec::new();
    for call in 0..calls(3000) {
        match random.u8(..16) {
            0..7 => match alloc(kmem, &mut random, 13) {
                Some(block) => own.push(block),
                None => assert!(!sure, "there is memory"),
            },
            7..11 if !own.is_empty() => {
                let block = own.swap_remove(random.usize(..own.len()));
                free(kmem, &mut random, block);
            }
            11..14 => {
                // What one thread has allocated is freed by another.
                let mut blocks = common.lock().expect("nobody has panicked");
                blocks.append(&mut own);
                let most = if call % 512 < 256 { 300 } else { 30 };
                let kept = blocks.len().min(most);
                let taken = blocks.split_off(kept);
                drop(blocks);
                taken.into_iter().for_each(|block| free(kmem, &mut random, block));
            }
            14 if random.u8(..8) == 0 => kmem.flush(),
            15 if random.u8(..4) == 0 => assert!(kmem.flush_cpu(random.usize(..CPUS))),
            _ => {}
        }
    }
    own.into_iter().for_each(|block| free(kmem, &mut random, block));
}

fn threads<Z: Construct + FrameAllocator, S: Sizes>(frames: usize, sure: bool) {
    let memory = Memory::<Z>::new(frames, CPUS);
    let kmem: Kmem<_, _, S, _> = Kmem::new(caches::<CPUS>(), memory.pages(), Right);
    let common = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for seed in 1..=THREADS as u64 {
            let (kmem, common) = (&kmem, &common);
            scope.spawn(move || worker(kmem, common, seed, sure));
        }
    });
    let mut model = Model::default();
    let mut random = fastrand::Rng::with_seed(0);
    common.into_inner().expect("nobody has panicked").into_iter().for_each(|block| {
        block.check();
        model.add(block);
    });
    model.judge(&kmem, false);
    while let Some(block) = model.remove(&mut random) {
        free(&kmem, &mut random, block);
    }
    kmem.flush();
    model.judge(&kmem, true);
    assert!(memory.is_whole());
}

fn enough<Z: Construct + FrameAllocator, S: Sizes>() {
    threads::<Z, S>(4096, true);
}

/// Allocations fail, and flush all CPUs while others are at work there.
fn scarce<Z: Construct + FrameAllocator, S: Sizes>() {
    threads::<Z, S>(512, false);
}

on_all!(enough);
on_all!(scarce);
