//! What a pool promises: memory of one owner, every order, the cap, claims, memory given back and taken again.

mod engine;
mod present;

use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;

use woodlot_pool::{Block, Engine, FrameId, Options, Order, Pool, PoolError, SlotBy};

use engine::new;

const MIB: usize = 1 << 20;
const HUGE: usize = 2 * MIB;

fn pool(size: usize) -> Pool {
    new(size).build().expect("anonymous memory")
}

/// Writes a word to each line of a block that names its owner and place.
fn fill(block: &mut [u8], owner: u64) {
    for (line, bytes) in block.chunks_exact_mut(64).enumerate() {
        bytes[..8].copy_from_slice(&(owner << 32 | line as u64).to_le_bytes());
    }
}

fn check(block: &[u8], owner: u64) {
    for (line, bytes) in block.chunks_exact(64).enumerate() {
        assert_eq!(bytes[..8], (owner << 32 | line as u64).to_le_bytes(), "owner {owner:#x}");
    }
}

/// A sequence that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

fn is_out_of_memory<T>(result: &Result<T, PoolError>) -> bool {
    matches!(result, Err(PoolError::OutOfMemory { .. }))
}

#[test]
fn each_pool_has_the_engine_that_was_asked_for() {
    for &engine in Engine::ALL {
        assert_eq!(engine.to_string().parse(), Ok(engine));
        let pool = Options::new(HUGE).engine(engine).build().expect("a pool");
        assert_eq!(pool.engine(), engine);
    }
    let refused = "LLFree".parse::<Engine>().expect_err("names are in small letters");
    assert_eq!(refused.to_string(), "there is no engine \"LLFree\", but llfree and onewrite");
}

#[test]
fn every_order_is_aligned_and_its_own() {
    let pool = pool(32 * MIB);
    let mut blocks: Vec<Block> = Vec::new();
    for order in (0..=10).map(Order) {
        let mut block = pool.alloc(order).expect("enough memory");
        assert_eq!(block.len(), 4096 << order.0);
        assert_eq!(block.as_ptr().addr() % block.len(), 0, "{order}");
        assert_eq!(pool.frame_of(block.as_ptr()), Some(block.frame()));
        assert_eq!(pool.pointer(block.frame()), Some(block.as_mut_ptr()));
        fill(&mut block, order.0.into());
        blocks.push(block);
    }
    for block in &blocks {
        check(block, block.order().0.into());
    }
    let frames: usize = blocks.iter().map(|block| block.len()).sum();
    assert_eq!(pool.resident() - pool.free_bytes(), frames);
    drop(blocks);
    assert_eq!(pool.resident(), pool.free_bytes());
}

#[test]
fn zeroed_memory_is_zero() {
    let pool = pool(HUGE);
    for _ in 0..2 {
        let mut block = pool.alloc_zeroed(Order(3)).expect("enough memory");
        assert!(block.iter().all(|&byte| byte == 0));
        block.fill(7);
    }
}

#[test]
fn all_memory_can_be_had_and_no_more() {
    let pool = pool(8 * MIB);
    let mut all = pool.alloc_batch(Order(0), 2048).expect("so many frames are there");
    for (owner, block) in all.iter_mut().enumerate() {
        fill(block, owner as u64);
    }
    let error = pool.alloc(Order(0)).expect_err("there is no more");
    assert_eq!(
        error.to_string(),
        "no 4096 neighbouring bytes are free; 0 bytes are free in all, 8388608 are resident, \
         and 8388608 may be",
    );
    for (owner, block) in all.iter().enumerate() {
        check(block, owner as u64);
    }
    all.truncate(5);
    assert!(is_out_of_memory(&pool.alloc_batch(Order(0), 2044)));
    assert_eq!(pool.free_bytes(), (2048 - 5) * 4096, "a batch is all or nothing");
}

#[test]
fn the_cap_bounds_what_is_resident() {
    let pool = new(16 * MIB).cap(3 * HUGE).build().expect("a pool");
    let mut blocks = pool.alloc_batch(Order(9), 3).expect("so much is allowed");
    assert_eq!(pool.resident(), pool.cap());
    for order in [0, 9, 10] {
        assert!(is_out_of_memory(&pool.alloc(Order(order))), "order {order}");
    }
    // Two of the three are not neighbours, but the cap leaves room for two that are.
    blocks.remove(1);
    blocks.remove(0);
    let kept = blocks[0].frame();
    let pair = pool.alloc(Order(10)).expect("memory elsewhere is given back for it");
    assert!(pool.resident() <= pool.cap());
    assert!(!(pair.frame()..FrameId(pair.frame().0 + 1024)).contains(&kept));
}

#[test]
fn a_pair_is_found_by_giving_back_what_is_not_one() {
    let pool = new(16 * MIB).cap(4 * HUGE).build().expect("a pool");
    let mut blocks = pool.alloc_batch(Order(9), 4).expect("so much is allowed");
    blocks.sort_by_key(Block::frame);
    // The pairs are broken: 0 and 2 are free, 1 and 3 in use.
    blocks.remove(2);
    blocks.remove(0);
    let mut pair = pool.alloc(Order(10)).expect("two more elsewhere");
    fill(&mut pair, 9);
    assert_eq!(pool.resident(), pool.cap());
    assert!(is_out_of_memory(&pool.alloc(Order(0))));
}

#[test]
fn threads_keep_their_memory() {
    for by in [SlotBy::Cpu, SlotBy::Thread] {
        let pool = new(64 * MIB).slots(3).slot_by(by).build().expect("a pool");
        let (send, receive) = mpsc::channel::<(Block, u64)>();
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let (pool, send) = (&pool, send.clone());
                scope.spawn(move || churn(pool, thread, &send));
            }
            drop(send);
            // Any thread may drop what another one has allocated.
            for (block, owner) in receive {
                check(&block, owner);
            }
        });
        assert_eq!(pool.resident(), pool.free_bytes());
    }
}

/// Allocates, checks and frees blocks of all orders while others do, and memory comes and goes.
fn churn<'p>(pool: &'p Pool, thread: u64, send: &mpsc::Sender<(Block<'p>, u64)>) {
    let (mut numbers, mut blocks) = (Numbers(thread), Vec::new());
    for step in 0..800u64 {
        let owner = thread << 24 | step;
        let order = [0, 0, 0, 0, 1, 2, 3, 5, 7, 9, 10][numbers.below(11)];
        if let Ok(mut block) = pool.alloc(Order(order)) {
            fill(&mut block, owner);
            blocks.push((block, owner));
        }
        if blocks.len() > 20 {
            let (block, owner) = blocks.swap_remove(numbers.below(blocks.len()));
            check(&block, owner);
            if step % 3 == 0 {
                send.send((block, owner)).expect("the receiver waits for all");
            }
        }
        if step % 50 == 0 {
            let given = pool.give_back(8 * MIB).expect("the system takes memory");
            assert!(given <= 8 * MIB);
        }
    }
}

#[test]
fn an_allocation_waits_for_memory_that_is_being_given_back() {
    let pool = new(4 * HUGE).build().expect("a pool");
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for _ in 0..500 {
                pool.give_back(4 * HUGE).expect("the system takes memory");
            }
        });
        start.wait();
        for _ in 0..500 {
            let blocks = pool.alloc_batch(Order(9), 4).expect("nobody else has any");
            drop(blocks);
        }
    });
}

#[test]
fn memory_given_back_is_the_systems() {
    let pool = pool(32 * MIB);
    let mut blocks = pool.alloc_batch(Order(9), 16).expect("all of it");
    blocks.iter_mut().for_each(|block| block.fill(1));
    assert_eq!(present::pages(&pool), 32 * 256);
    // One page stays in the last huge frame.
    drop(blocks);
    let page = pool.alloc(Order(0)).expect("memory");
    assert_eq!(pool.give_back(4 * MIB - 1).expect("the system takes memory"), 2 * MIB);
    assert_eq!(present::pages(&pool), 30 * 256);
    assert_eq!(pool.give_back(usize::MAX).expect("the system takes memory"), 28 * MIB);
    assert_eq!((pool.resident(), pool.free_bytes()), (HUGE, HUGE - 4096));
    assert_eq!(present::pages(&pool), 512);
    assert_eq!(pool.give_back(usize::MAX).expect("there is none"), 0);
    assert!(page.iter().all(|&byte| byte == 1), "what is in use stays");
    // It comes again, and the pool has not lost any.
    let again = pool.alloc_batch(Order(9), 15).expect("all but the page's");
    assert!(again.iter().all(|block| block.iter().all(|&byte| byte == 0)));
    assert!(is_out_of_memory(&pool.alloc(Order(9))));
}

#[test]
fn memory_above_the_mark_is_given_back() {
    let pool = new(32 * MIB).give_back_above(8 * MIB).build().expect("a pool");
    let small = pool.alloc_batch(Order(0), 8192).expect("all of it");
    drop(small);
    assert!(pool.free_bytes() <= 8 * MIB + HUGE, "{pool:?}");
    assert!(pool.free_bytes() >= 4 * MIB, "{pool:?}");
    let huge = pool.alloc_batch(Order(10), 8).expect("all of it");
    assert_eq!(pool.free_bytes(), 0);
    drop(huge);
    assert!(pool.free_bytes() <= 8 * MIB, "{pool:?}");
    let run = pool.alloc_run(32 * MIB).expect("all of it");
    drop(run);
    assert!(pool.free_bytes() <= 8 * MIB, "{pool:?}");
}

#[test]
fn runs_of_any_length() {
    let pool = pool(16 * MIB);
    for bytes in [1, 4096, 4097, HUGE - 1, HUGE + 1, 5 * MIB + 1, 16 * MIB] {
        let mut run = pool.alloc_run(bytes).expect("enough memory");
        assert_eq!(run.len(), bytes.next_multiple_of(4096));
        assert_eq!(run.len(), (run.range().end.0 - run.range().start.0) * 4096);
        fill(&mut run, bytes as u64);
        let page = pool.alloc(Order(0));
        assert_eq!(page.is_ok(), bytes < 16 * MIB);
        check(&run, bytes as u64);
        drop((run, page));
        pool.give_back(4 * MIB).expect("the system takes memory");
    }
    assert!(matches!(pool.alloc_run(0), Err(PoolError::NoBytes)));
    assert!(is_out_of_memory(&pool.alloc_run(16 * MIB + 1)));
    assert!(is_out_of_memory(&pool.alloc_run(usize::MAX)));
}

#[test]
fn a_claim_keeps_its_promise() {
    let pool = pool(16 * MIB);
    let claim = pool.claim(Order(2), 300).expect("so much is there");
    // Nobody else leaves any memory, and four threads use the claim.
    let rest: Vec<Block> = std::iter::from_fn(|| pool.alloc(Order(0)).ok()).collect();
    thread::scope(|scope| {
        for owner in 0..4 {
            let claim = &claim;
            scope.spawn(move || {
                let mut blocks: Vec<Block> =
                    (0..75).map(|_| claim.alloc().expect("it is promised")).collect();
                blocks.iter_mut().for_each(|block| fill(block, owner));
                blocks.iter().for_each(|block| check(block, owner));
                blocks.into_iter().for_each(|block| claim.put(block).expect("it has room"));
            });
        }
    });
    assert_eq!(claim.left(), 300);
    let blocks: Vec<Block> = std::iter::from_fn(|| claim.alloc().ok()).collect();
    assert_eq!(blocks.len(), 300);
    let error = claim.alloc().expect_err("it is used up");
    assert_eq!(error.to_string(), "all 300 blocks of the claim are handed out");
    drop(blocks);
    // What was dropped is the pool's, and a claim of too much takes nothing.
    assert_eq!(pool.free_bytes(), 300 * 16384);
    assert!(is_out_of_memory(&pool.claim(Order(2), 301)));
    assert_eq!(pool.free_bytes(), 300 * 16384);
    drop((rest, claim));
    let claim = pool.claim(Order(9), 8).expect("all of it");
    assert!(is_out_of_memory(&pool.alloc(Order(0))));
    drop(claim);
    assert_eq!(pool.free_bytes(), pool.resident());
}

#[test]
fn a_claim_takes_only_its_own() {
    let (pool, other) = (pool(HUGE), pool(HUGE));
    let claim = pool.claim(Order(0), 1).expect("one");
    for block in [other.alloc(Order(0)), pool.alloc(Order(1)), pool.alloc(Order(0))] {
        let (block, error) = claim.put(block.expect("memory")).expect_err("not of the claim");
        assert!(matches!(error, PoolError::NotOfClaim));
        drop(block);
    }
    assert_eq!((claim.left(), claim.order()), (1, Order(0)));
}

#[test]
fn numbers_in_place_of_handles() {
    let pool = pool(4 * MIB);
    let mut block = pool.alloc(Order(4)).expect("memory");
    fill(&mut block, 5);
    let frame = block.into_frame();
    assert_eq!(pool.resident() - pool.free_bytes(), 65536);
    // SAFETY: no handle has the block.
    let block = unsafe { pool.adopt(frame, Order(4)) }.expect("it is allocated");
    check(&block, 5);
    drop(block);
    // SAFETY: the pool refuses a block that is free.
    let error = unsafe { pool.adopt(frame, Order(4)) }.expect_err("it is free");
    assert!(matches!(error, PoolError::NotAllocated(_)), "{error}");
    // SAFETY: the pool refuses a block outside.
    let error = unsafe { pool.adopt(FrameId(1 << 20), Order(0)) }.expect_err("it is outside");
    assert!(error.to_string().starts_with("not a block of this pool: "), "{error}");
    let leaked = pool.alloc(Order(0)).expect("memory").leak();
    leaked.fill(1);
    std::mem::forget(pool.alloc(Order(0)).expect("memory"));
    assert_eq!(pool.resident() - pool.free_bytes(), 2 * 4096, "what is forgotten is lost");
    assert_eq!(pool.pointer(FrameId(1024)), None);
    assert_eq!(pool.frame_of(std::ptr::null()), None);
}

#[test]
fn a_block_at_a_frame() {
    let pool = new(16 * MIB).cap(2 * HUGE).build().expect("a pool");
    let block = pool.alloc_at(FrameId(3 * 512 + 8), Order(3)).expect("it is free");
    assert_eq!(block.frame(), FrameId(3 * 512 + 8));
    for (frame, order) in [(3 * 512 + 9, 0), (3 * 512 + 1, 1), (4096, 0), (0, 11)] {
        let error = pool.alloc_at(FrameId(frame), Order(order)).expect_err("not to be had");
        assert!(matches!(error, PoolError::Place(_)), "{error}");
    }
    let pair = pool.alloc_at(FrameId(1024), Order(10));
    assert!(matches!(pair, Err(PoolError::Place(_))), "a part of it is in use");
    assert!(is_out_of_memory(&pool.alloc_at(FrameId(2048), Order(10))));
    let other = pool.alloc_at(FrameId(0), Order(9)).expect("the cap has room");
    drop(other);
    let third = pool.alloc_at(FrameId(7 * 512), Order(9)).expect("the free one is given back");
    assert_eq!((third.frame(), pool.resident()), (FrameId(7 * 512), 2 * HUGE));
}

#[test]
fn orders_above_the_largest() {
    for order in [11, 12, 63, 64, 255] {
        let refused = pool(HUGE).alloc(Order(order)).map(|block| block.len());
        assert!(matches!(refused, Err(PoolError::OrderTooLarge(_))), "{order}: {refused:?}");
    }
}

#[test]
fn handles_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Pool>();
    shared::<Block>();
    shared::<woodlot_pool::Run>();
    shared::<woodlot_pool::Claim>();
}
