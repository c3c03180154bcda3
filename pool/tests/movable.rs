//! Blocks that move while they are read and written.
#![cfg(target_os = "linux")]

mod engine;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use woodlot_pool::{Block, FrameId, Movable, Order, Pool, Stays};

use engine::new;

const MIB: usize = 1 << 20;

fn pool() -> Pool {
    new(16 * MIB).build().expect("a pool")
}

fn moved<'p>(pool: &'p Pool, block: &Movable<'_>) -> Result<Block<'p>, (Block<'p>, Stays)> {
    pool.move_block(block.frame(), pool.alloc(block.order()).expect("memory"))
}

#[test]
fn contents_move_and_the_old_place_is_the_callers() {
    let pool = pool();
    for order in [0, 3, 9].map(Order) {
        let block = pool.alloc_movable(order).expect("memory");
        let mut bytes = block.write();
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
        drop(bytes);
        let from = block.frame();
        let mut old = moved(&pool, &block).expect("nobody is at it");
        assert_eq!((old.frame(), old.order(), block.order()), (from, order, order));
        assert_ne!(block.frame(), from);
        old.fill(0);
        assert_eq!(block.read().len(), order.frames() * 4096);
        assert!(block.read().iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
        // It is found at its new place, and no more at the old one.
        let (old, stays) = pool.move_block(from, old).expect_err("it is not there");
        assert_eq!(stays, Stays::NotMovable);
        let back = pool.move_block(block.frame(), old).expect("it is there");
        assert_eq!(block.frame(), from);
        assert!(block.read().iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
        drop((block, back));
        assert_eq!(pool.free_bytes(), pool.resident(), "all of it is free");
    }
}

#[test]
fn what_does_not_move() {
    let (pool, other) = (pool(), pool());
    let take = || pool.alloc(Order(0)).expect("memory");
    let stays = |from, to| {
        let (to, stays): (Block<'_>, Stays) = pool.move_block(from, to).expect_err("it stays");
        drop(to);
        stays
    };
    let plain = take();
    assert_eq!(stays(plain.frame(), take()), Stays::NotMovable, "before there is any that moves");
    let block = pool.alloc_movable(Order(0)).expect("memory");
    assert_eq!(stays(plain.frame(), take()), Stays::NotMovable);
    assert_eq!(stays(FrameId(1 << 40), take()), Stays::NotMovable, "outside of the pool");
    let large = pool.alloc(Order(1)).expect("memory");
    assert_eq!(stays(block.frame(), large), Stays::NotMovable, "of another order");
    let foreign = other.alloc(Order(0)).expect("memory");
    let (foreign, refused) = pool.move_block(block.frame(), foreign).expect_err("another pool");
    assert_eq!(refused, Stays::NotMovable);
    drop(foreign);
    let from = block.frame();
    let reading = block.read();
    assert_eq!(stays(from, take()), Stays::InUse, "it is read");
    assert_eq!(block.frame(), from);
    drop(reading);
    let writing = block.write();
    assert_eq!(stays(from, take()), Stays::InUse, "it is written");
    drop(writing);
    // Whoever did not stop has not left it shut.
    assert_eq!(block.write().len(), 4096);
    assert_eq!(block.read().len(), 4096);
    let (old, to) = (block.frame(), take());
    drop(block);
    assert_eq!(stays(old, to), Stays::NotMovable, "it is freed");
    drop(plain);
    assert_eq!(pool.free_bytes(), pool.resident());
}

/// A thread is done, also if it fails: nobody waits for it then.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// All words of a block are the number of its last write.
fn number(bytes: &[u8]) -> u64 {
    let mut words =
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8")));
    let first = words.next().expect("a word");
    assert!(words.all(|word| word == first), "a torn block");
    first
}

/// Readers and a writer of each of some blocks, and a thread that moves them until all have done what they do.
#[test]
fn nothing_is_torn_and_no_write_is_lost() {
    const WRITES: u64 = 1000;
    let pool = pool();
    for order in [0, 4].map(Order) {
        let blocks: Vec<Movable<'_>> =
            (0..4).map(|_| pool.alloc_movable(order).expect("memory")).collect();
        blocks.iter().for_each(|block| block.write().fill(0));
        let (left, moves) = (AtomicUsize::new(2), AtomicU64::new(0));
        thread::scope(|scope| {
            let (blocks, left, moves, pool) = (&blocks, &left, &moves, &pool);
            scope.spawn(move || {
                // So that there are some, however the threads run.
                while left.load(Relaxed) > 0 || moves.load(Relaxed) < 1000 {
                    for block in blocks {
                        if let Ok(mut old) = moved(pool, block) {
                            // Whoever still reads there sees it.
                            old.fill(0xee);
                            moves.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
            for half in blocks.chunks(2) {
                scope.spawn(move || {
                    let _done = Done(left);
                    for write in 1..=WRITES {
                        for block in half {
                            let mut bytes = block.write();
                            assert_eq!(number(&bytes), write - 1, "a write is lost");
                            bytes.chunks_exact_mut(8).for_each(|word| {
                                word.copy_from_slice(&write.to_ne_bytes());
                            });
                        }
                    }
                });
            }
            scope.spawn(move || {
                let mut seen = [0; 4];
                while left.load(Relaxed) > 0 {
                    for (block, seen) in blocks.iter().zip(&mut seen) {
                        let now = number(&block.read());
                        assert!(now >= *seen, "a write is lost");
                        *seen = now;
                    }
                }
            });
        });
        assert!(blocks.iter().all(|block| number(&block.read()) == WRITES), "a write is lost");
    }
    assert_eq!(pool.free_bytes(), pool.resident());
}

/// Blocks are dropped and made while they are moved.
#[test]
fn a_free_waits_for_a_move() {
    let (pool, left) = (pool(), AtomicUsize::new(1));
    let frames = [const { AtomicUsize::new(0) }; 8];
    thread::scope(|scope| {
        scope.spawn(|| {
            while left.load(Relaxed) > 0 {
                for frame in &frames {
                    let to = pool.alloc(Order(2)).expect("memory");
                    if let Ok(mut old) = pool.move_block(FrameId(frame.load(Relaxed)), to) {
                        old.fill(0xee);
                    }
                }
            }
        });
        let _done = Done(&left);
        for round in 0..5000_usize {
            let block = pool.alloc_movable(Order(2)).expect("memory");
            let value = (round % 200) as u8;
            block.write().fill(value);
            frames[round % 8].store(block.frame().0, Relaxed);
            assert!(block.read().iter().all(|&byte| byte == value), "somebody else's");
            assert!(block.read().iter().all(|&byte| byte == value), "somebody else's");
        }
    });
    assert_eq!(pool.free_bytes(), pool.resident(), "each frame is freed once");
}
