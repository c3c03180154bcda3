//! Pools of two nodes: blocks go back to the node that has their memory, whichever CPU frees them.

use std::ptr::NonNull;
use std::sync::Mutex;

use woodlot_kmem::{Checked, Cookie, Direct, Hooks, Kmem, Misuse, Nodes, Octaves};

use crate::cpus::{Caches, caches, run_on};
use crate::memory::Memory;
use crate::{LLFree, calls};

/// Frames of a node.
const FRAMES: usize = 512;

/// Wrong calls that a node has heard of.
#[derive(Default)]
struct Heard(Mutex<Vec<Misuse>>);

// SAFETY: an address may be sent.
unsafe impl Sync for Heard {}

impl Hooks for Heard {
    fn misuse(&self, misuse: Misuse) {
        self.0.lock().expect("no test has failed").push(misuse);
    }
}

type Pools<'a> = Nodes<Kmem<Caches<2>, Direct<'a, LLFree>, Octaves, Heard>, 2>;

fn pools(memory: &[Memory<LLFree>; 2]) -> Pools<'_> {
    let pools =
        memory.each_ref().map(|memory| Kmem::new(caches::<2>(), memory.pages(), Heard::default()));
    Nodes::new(pools)
}

fn memory() -> [Memory<LLFree>; 2] {
    [Memory::new(FRAMES, 2), Memory::new(FRAMES, 2)]
}

/// After a flush all of memory is free.
fn nothing_is_kept(pools: &Pools<'_>, memory: &[Memory<LLFree>; 2]) {
    pools.flush();
    assert!(memory.iter().all(Memory::is_whole), "memory of a node is not free");
}

#[test]
fn whoever_frees_a_block_memory_stays_near() {
    let memory = memory();
    let pools = pools(&memory);
    let mut random = fastrand::Rng::with_seed(7);
    let mut used: Vec<(NonNull<u8>, usize)> = Vec::new();
    for call in 0..calls(20_000) {
        // CPU 0 is near node 0, CPU 1 near node 1. Each frees what the other has allocated as well.
        let cpu = random.usize(..2);
        run_on(cpu);
        if used.len() < 300 || random.bool() && used.len() < 600 {
            let bytes = random.usize(1..6000);
            let block = match call % 3 {
                0 => pools.alloc_aligned(bytes, 64, cpu),
                1 => pools.alloc_cookie(Cookie::new(bytes.min(4096)).expect("it is small"), cpu),
                _ => pools.alloc(bytes, cpu),
            };
            let block = block.expect("there is memory");
            assert_eq!(pools.node_of(block.as_ptr()), Some(cpu), "call {call}");
            used.push((block, bytes));
        } else {
            let (block, _) = used.swap_remove(random.usize(..used.len()));
            // SAFETY: it was allocated, and is used no more.
            unsafe { pools.free_any(block) };
        }
    }
    // SAFETY: as above.
    used.into_iter().for_each(|(block, _)| unsafe { pools.free_any(block) });
    assert!((0..2).all(|cpu| pools.flush_cpu(cpu)), "a CPU is not reached");
    nothing_is_kept(&pools, &memory);
}

#[test]
fn a_full_node_borrows_from_another_and_gives_back() {
    let memory = memory();
    let pools = pools(&memory);
    run_on(0);
    let blocks: Vec<_> = std::iter::from_fn(|| pools.alloc(4096, 1)).collect();
    let nodes: Vec<_> = blocks.iter().map(|block| pools.node_of(block.as_ptr())).collect();
    let far = nodes.iter().position(|&node| node == Some(0)).expect("it borrows");
    assert_eq!((far, blocks.len()), (FRAMES, 2 * FRAMES), "its own memory comes first");
    assert!(nodes[far..].iter().all(|&node| node == Some(0)));
    // SAFETY: they were allocated with this size, and are used no more.
    blocks.into_iter().for_each(|block| unsafe { pools.free(block, 4096) });
    let again = pools.alloc(4096, 1).expect("there is memory");
    assert_eq!(pools.node_of(again.as_ptr()), Some(1), "its memory came back to it");
    // SAFETY: as above.
    unsafe { pools.free_cookie(Cookie::of::<4096>(), again) };
    let far = pools.alloc(100, 9).expect("a node that there is not is as good as any");
    // SAFETY: as above.
    unsafe { pools.free(far, 100) };
    nothing_is_kept(&pools, &memory);
}

#[test]
fn a_block_of_no_node_is_named() {
    let memory = memory();
    let pools = pools(&memory);
    let mut other = 0_u64;
    let block = NonNull::from(&mut other).cast();
    // SAFETY: it is no block, which is found before anything is freed.
    unsafe { pools.free(block, 100) };
    let heard =
        pools.node(0).expect("a node").hooks().0.lock().expect("no test has failed").clone();
    assert_eq!(heard, [Misuse::Foreign(block.as_ptr())]);
    assert!(pools.node(1).expect("a node").hooks().0.lock().expect("as above").is_empty());
    assert!(pools.node(2).is_none());
    nothing_is_kept(&pools, &memory);
}

/// Pools with marks find each wrong free at the call, whichever node has the block.
#[test]
fn pools_with_marks_find_each_wrong_free() {
    let memory = memory();
    let pools = Nodes::new(memory.each_ref().map(|memory| {
        let hooks = Checked::new(Heard::default(), &memory.marks);
        Kmem::<_, _, Octaves, _>::new(caches::<2>(), memory.pages(), hooks)
    }));
    let heard = |node: usize| {
        let pool = pools.node(node).expect("there are two");
        std::mem::take(&mut *pool.hooks().hooks().0.lock().expect("no test has failed"))
    };
    run_on(0);
    let mut outside = 0u64;
    let outside = NonNull::from(&mut outside).cast::<u8>();
    for node in 0..2 {
        let [block, other] = [0, 1].map(|_| pools.alloc(64, node).expect("memory"));
        let page = pools.alloc(4096, node).expect("memory");
        let at = block.as_ptr();
        let cookie = Cookie::new(500).expect("it is small");
        // SAFETY: the block has so many bytes; what is wrong frees nothing, and each block is freed once.
        unsafe {
            let inside = block.add(16);
            pools.free(block, 128);
            pools.free_cookie(cookie, page);
            pools.free_any(inside);
            pools.free(block, 64);
            pools.free(block, 64);
            pools.free_any(block);
            let told = [
                Misuse::WrongSize(at),
                Misuse::WrongSize(page.as_ptr()),
                Misuse::Interior(inside.as_ptr()),
                Misuse::DoubleFree(at),
                Misuse::DoubleFree(at),
            ];
            assert_eq!((heard(node), heard(1 - node)), (told.into(), Vec::new()));
            pools.free_any(outside);
            assert_eq!(heard(0), [Misuse::Foreign(outside.as_ptr())]);
            let again = pools.alloc(64, node).expect("memory");
            assert_ne!(again, other, "a list was destroyed");
            pools.free(again, 64);
            pools.free(other, 64);
            pools.free(page, 4096);
        }
        assert_eq!((heard(0), heard(1)), (Vec::new(), Vec::new()));
    }
    pools.flush();
    assert!(memory.iter().all(Memory::is_whole), "memory of a node is not free");
}
