//! Random calls of one thread, which is moved from CPU to CPU between their steps.

use woodlot_frame::{Construct, FrameAllocator};
use woodlot_kmem::{Counted, CpuCounts, Kmem, PAGE, Pages, PerCpu, Sizes};

use crate::cpus::{caches, wander};
use crate::memory::{InUse, Memory};
use crate::model::{Model, alloc, free};
#[cfg(target_os = "linux")]
use crate::space::{Space, dope};
use crate::{calls, on_all};
#[cfg(target_os = "linux")]
use woodlot_kmem::Vmblks;

/// How often the counts are judged.
const ROUND: usize = 400;

fn history<S: Sizes>(pages: &impl InUse, seed: u64) {
    let kmem: Kmem<_, _, S> = Kmem::new(caches::<3>(), pages, ());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::default();
    // One CPU more than there are caches for.
    wander(4, seed);
    for round in 0..calls(4000).div_ceil(ROUND) {
        // Rounds in which more is allocated take turns with those in which more is freed.
        let allocs = [200, 80, 20, 128][round % 4];
        for _ in 0..ROUND.min(calls(4000)) {
            if random.u8(..) < allocs {
                model.add(alloc(&kmem, &mut random, 14).expect("there is memory"));
            } else if let Some(block) = model.remove(&mut random) {
                free(&kmem, &mut random, block);
            }
        }
        model.judge(&kmem, false);
        if random.bool() {
            kmem.flush();
            model.judge(&kmem, true);
        }
    }
    while let Some(block) = model.remove(&mut random) {
        free(&kmem, &mut random, block);
    }
    kmem.flush();
    model.judge(&kmem, true);
}

fn random_calls<Z: Construct + FrameAllocator, S: Sizes>() {
    for seed in 0..4 {
        let memory = Memory::<Z>::new(4096, 3);
        history::<S>(&memory.pages(), seed);
        assert!(memory.is_whole(), "seed {seed}");
    }
}

on_all!(random_calls);

/// The same at addresses to which frames are mapped.
#[cfg(target_os = "linux")]
fn mapped<Z: Construct + FrameAllocator, S: Sizes>() {
    let memory = Memory::<Z>::new(4096, 3);
    let (space, dope) = (Space::new(5, 4096), dope(5));
    // SAFETY: the addresses and the frames are this test's.
    let pages = unsafe { Vmblks::new(&*memory.zone, &space, space.start(), &dope) };
    history::<S>(&pages.expect("it fits"), 4);
    assert!(memory.is_whole());
    assert_eq!(space.mapped(), 0);
}

#[cfg(target_os = "linux")]
on_all!(mapped);

/// Of each layer's calls, as many miss as reach the next one.
fn misses_add_up<Z: Construct + FrameAllocator, S: Sizes>() {
    let memory = Memory::<Z>::new(4096, 1);
    let kmem: Kmem<_, _, S> = Kmem::new(Counted::new(caches::<1>()), memory.pages(), ());
    let mut random = fastrand::Rng::with_seed(1);
    let mut model = Model::default();
    let (mut allocs, mut frees) = (0, 0);
    wander(1, 1);
    for _ in 0..calls(4000) {
        if random.bool() && model.len() < 400 {
            let block = alloc(&kmem, &mut random, 12).expect("there is memory");
            allocs += u64::from(!block.is_span);
            model.add(block);
        } else if let Some(block) = model.remove(&mut random) {
            frees += u64::from(!block.is_span);
            free(&kmem, &mut random, block);
        }
    }
    let (mut pops, mut pushes) = (0, 0);
    for size in 0..S::COUNT {
        let cpu = kmem.caches().counts(size);
        let stats = kmem.stats(size).expect("there is this size");
        assert_eq!(stats.cpu, Some(cpu));
        assert!(stats.global.takes <= cpu.pop_misses && cpu.pop_misses <= cpu.pops);
        assert!(stats.global.puts <= cpu.push_misses && cpu.push_misses <= cpu.pushes);
        assert!(stats.global.take_misses <= stats.global.takes);
        // Nobody is moved, so that a CPU comes back for lists as the paper says: once in `target` calls.
        let (target, all) = (stats.target as u64, cpu.pops + cpu.pushes);
        assert!((stats.global.takes + stats.global.puts) * target <= all + target, "{stats:?}");
        pops += cpu.pops;
        pushes += cpu.pushes;
    }
    assert_eq!((pops, pushes), (allocs, frees));
    assert_eq!(kmem.caches().counts(S::COUNT).pops, 0);
    while let Some(block) = model.remove(&mut random) {
        free(&kmem, &mut random, block);
    }
}

on_all!(misses_add_up);

/// A call that the fast way could not serve is made again: of a block that is less than a page, one, or more.
fn each_call_is_counted_once<Z: Construct + FrameAllocator, S: Sizes>() {
    let memory = Memory::<Z>::new(4096, 1);
    let kmem: Kmem<_, _, S> = Kmem::new(Counted::new(caches::<1>()), memory.pages(), ());
    for (bytes, count) in [(64, 1000), (PAGE, 200), (S::MOST, 200)] {
        let before = counts(&kmem, bytes);
        let alloc =
            |_| kmem.alloc_cached(bytes).or_else(|| kmem.alloc(bytes)).expect("there is memory");
        let blocks: Vec<_> = (0..count).map(alloc).collect();
        for (at, block) in blocks.into_iter().enumerate() {
            // SAFETY: the block is in use, and is used no more.
            unsafe {
                let is_freed = match at % 2 {
                    0 => kmem.free_cached(block),
                    _ => kmem.free_cached_sized(block, bytes),
                };
                if !is_freed {
                    kmem.free_any(block);
                }
            }
        }
        let (cpu, takes) = counts(&kmem, bytes);
        assert_eq!((cpu.pops - before.0.pops, cpu.pushes - before.0.pushes), (count, count));
        assert!(takes > before.1 && takes <= cpu.pop_misses);
    }
    kmem.flush();
    assert!(memory.is_whole(), "what the cache had no room for is free as well");
    let plain: Kmem<_, _, S> = Kmem::new(caches::<1>(), memory.pages(), ());
    assert_eq!(plain.stats(0).expect("there is this size").cpu, None);
}

/// What the caches of a size were asked for, and the global layer for lists.
fn counts<C: PerCpu, P: Pages, S: Sizes>(kmem: &Kmem<C, P, S>, bytes: usize) -> (CpuCounts, u64) {
    let stats = |size| kmem.stats(size).expect("there is this size");
    let stats = (0..S::COUNT).map(stats).find(|size| size.bytes == bytes).expect("there is one");
    (stats.cpu.expect("it is counted"), stats.global.takes)
}

on_all!(each_call_is_counted_once);
