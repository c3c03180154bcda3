//! What threads keep to themselves: it is found, counted, and nobody else's.

mod engine;

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use woodlot_pool::{Block, FrameId, Order, Pool, PoolError};

use engine::new;

const MIB: usize = 1 << 20;
const HUGE: usize = 2 * MIB;
/// Of a pool that a hundred threads use.
const SIZE: usize = 128 * MIB;
/// Of each order that is kept.
const ORDERS: [Order; 5] = [Order(0), Order(1), Order(2), Order(3), Order(4)];

/// Has each of a hundred threads keep blocks of all orders of a new pool, and calls `look` while all of them are idle.
fn beside_idle_threads(look: impl FnOnce(&Pool)) -> Pool {
    let pool = new(SIZE).build().expect("a pool");
    let (idle, looked) = (Barrier::new(101), Barrier::new(101));
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for order in ORDERS {
                    drop(pool.alloc(order).expect("memory"));
                }
                idle.wait();
                looked.wait();
            });
        }
        idle.wait();
        // The threads go on whatever becomes of it.
        let result = catch_unwind(AssertUnwindSafe(|| look(&pool)));
        looked.wait();
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
    pool
}

#[test]
fn what_other_threads_keep_is_found() {
    // A hundred idle threads keep half of the pool, and hide nothing.
    for order in [0, 3, 6, 9, 10].map(Order) {
        beside_idle_threads(|pool| {
            let count = SIZE / 4096 / order.frames();
            let blocks = pool.alloc_batch(order, count).expect("all of it");
            let begins: HashSet<usize> = blocks.iter().map(|block| block.frame().0).collect();
            assert_eq!(begins.len(), count);
            pool.alloc(Order(0)).expect_err("there is no more");
        });
    }
    beside_idle_threads(|pool| drop(pool.alloc_run(SIZE).expect("all of it")));
    beside_idle_threads(|pool| drop(pool.claim(Order(9), SIZE / HUGE).expect("all of it")));
    beside_idle_threads(|pool| {
        let blocks = (0..SIZE / HUGE).map(|huge| pool.alloc_at(FrameId(huge * 512), Order(9)));
        blocks.for_each(|block| drop(block.expect("all of it")));
    });
    beside_idle_threads(|pool| {
        let resident = pool.resident();
        assert_eq!(pool.give_back(usize::MAX).expect("the system takes memory"), resident);
        assert_eq!(pool.resident(), 0);
    });
}

#[test]
fn what_threads_keep_is_free() {
    let pool = beside_idle_threads(|pool| {
        let one = pool.alloc(Order(0)).expect("memory");
        assert_eq!(pool.resident() - pool.free_bytes(), 4096, "what threads keep is free");
        drop(one);
    });
    // The threads are gone, and what they have left is free.
    assert_eq!(pool.resident(), pool.free_bytes());
    let all = pool.alloc_batch(Order(9), SIZE / HUGE).map(|blocks| blocks.len());
    assert_eq!(all.ok(), Some(SIZE / HUGE));
}

#[test]
fn what_threads_keep_is_not_adopted() {
    let pool = new(4 * MIB).build().expect("a pool");
    let refused = |frame: usize, order: u8| {
        // SAFETY: nobody has any block of the pool.
        let adopted = unsafe { pool.adopt(FrameId(frame), Order(order)) };
        let error = adopted.map(|block| block.frame()).expect_err("it is free");
        assert!(matches!(error, PoolError::NotAllocated(_)), "{error}");
    };
    for order in ORDERS {
        let block = pool.alloc(order).expect("memory");
        let (first, last) = (block.frame().0, block.frame().0 + order.frames() - 1);
        drop(block);
        // The block, its first and its last frame, and what it is a part of.
        refused(first, order.0);
        refused(first, 0);
        refused(last, 0);
        (order.0 + 1..10).for_each(|larger| refused(first >> larger << larger, larger));
    }
    // A block that is handed out again is free no more.
    let frame = pool.alloc(Order(2)).expect("memory").into_frame();
    // SAFETY: no handle has the block.
    let block = unsafe { pool.adopt(frame, Order(2)) }.expect("it is allocated");
    assert_eq!(block.frame(), frame);
}

/// Writes to the first words of a block who has it.
fn sign(block: &mut Block, owner: usize) {
    block[..8].copy_from_slice(&owner.to_le_bytes());
}

fn is_signed(block: &Block, owner: usize) -> bool {
    block[..8] == owner.to_le_bytes()
}

#[test]
fn threads_that_share_the_last_blocks() {
    const THREADS: usize = 4;
    for magazines in [true, false] {
        let pool = new(HUGE).magazines(magazines).build().expect("a pool");
        let began = Instant::now();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let pool = &pool;
                scope.spawn(move || {
                    // Together they have use for all blocks of the pool.
                    let mut blocks: Vec<(Block, usize)> = Vec::new();
                    for step in 0..20_000 {
                        let owner = step * THREADS + thread;
                        if blocks.len() == 512 / THREADS
                            || (step / 300 % 2 == 1 && blocks.len() > 40)
                        {
                            let (block, owner) = blocks.swap_remove(owner % blocks.len());
                            assert!(is_signed(&block, owner), "{owner} is overwritten");
                            continue;
                        }
                        // Other calls in the engine may have the last ones for the moment in which they look at
                        // them, with magazines or without. At rest nothing is missing: see below.
                        let mut block = loop {
                            if let Ok(block) = pool.alloc(Order(0)) {
                                break block;
                            }
                            assert!(began.elapsed() < Duration::from_secs(60), "memory is lost");
                        };
                        sign(&mut block, owner);
                        blocks.push((block, owner));
                    }
                    assert!(blocks.iter().all(|(block, owner)| is_signed(block, *owner)));
                });
            }
        });
        assert_eq!(pool.free_bytes(), HUGE);
        assert_eq!(pool.alloc_batch(Order(0), 512).map(|blocks| blocks.len()).ok(), Some(512));
    }
}

#[test]
fn memory_that_is_taken_back_all_the_time() {
    let pool = new(16 * MIB).build().expect("a pool");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (pool, done) = (&pool, &done);
            scope.spawn(move || {
                let mut blocks: Vec<(Block, usize)> = Vec::new();
                for step in 0..1_000_000 {
                    let owner = step * 3 + thread;
                    let mut block = pool.alloc(ORDERS[step % 5]).expect("there is enough");
                    sign(&mut block, owner);
                    blocks.push((block, owner));
                    if step % 97 > 60 || blocks.len() > 60 {
                        for (block, owner) in blocks.drain(step % (blocks.len())..) {
                            assert!(is_signed(&block, owner), "{owner} is overwritten");
                        }
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        // Each of these shuts the gate.
        while !done.load(Ordering::Relaxed) {
            pool.give_back(HUGE).expect("the system takes memory");
            drop(pool.alloc_at(FrameId(4095), Order(0)));
        }
    });
    assert_eq!(pool.free_bytes(), pool.resident());
    assert_eq!(pool.alloc_batch(Order(9), 8).map(|blocks| blocks.len()).ok(), Some(8));
}

#[test]
fn a_thread_that_outlives_a_pool() {
    let pools = [(); 3].map(|()| new(HUGE).build().expect("a pool"));
    for pool in pools {
        let mut block = pool.alloc(Order(0)).expect("memory");
        sign(&mut block, 1);
        drop(block);
        // The next pool is not told what this thread kept of this one.
        drop(pool);
    }
}

static SIGNALLED: OnceLock<Pool> = OnceLock::new();
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static OVERWRITTEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    let Some(pool) = SIGNALLED.get() else { return };
    // Frees of the last one look at the mark.
    for order in [Order(0), Order(4), Order(9)] {
        let (Ok(mut one), Ok(mut other)) = (pool.alloc(order), pool.alloc(order)) else { return };
        sign(&mut one, 1);
        sign(&mut other, 2);
        let wrong = !is_signed(&one, 1) || !is_signed(&other, 2);
        OVERWRITTEN.fetch_add(wrong.into(), Ordering::Relaxed);
    }
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn signal_handlers_use_the_pool_of_the_thread_they_interrupt() {
    let options = new(16 * MIB).give_back_above(HUGE);
    let pool = SIGNALLED.get_or_init(|| options.build().expect("a pool"));
    // SAFETY: the handler calls the pool, which takes no lock while it has memory.
    unsafe { libc::signal(libc::SIGUSR1, on_signal as *const () as libc::sighandler_t) };
    // The first call of a thread registers a destructor, which is not for a handler.
    drop(pool.alloc(Order(0)));
    // SAFETY: it has no arguments.
    let me = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread lives, for it waits for this one.
                unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        let (began, mut blocks) = (Instant::now(), Vec::new());
        for step in 100.. {
            let mut block = pool.alloc(Order(0)).expect("there is enough");
            sign(&mut block, step);
            blocks.push((block, step));
            if blocks.len() == 40 {
                for (block, step) in blocks.drain(step % 40..) {
                    assert!(is_signed(&block, step), "overwritten");
                }
            }
            let enough = SIGNALS.load(Ordering::Relaxed) >= 1000 && step > 20_000;
            if enough || began.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(SIGNALS.load(Ordering::Relaxed) > 0);
    assert_eq!(OVERWRITTEN.load(Ordering::Relaxed), 0);
    assert_eq!(pool.free_bytes(), pool.resident());
}

static BOTH: [OnceLock<Pool>; 2] = [const { OnceLock::new() }; 2];
static HANDLED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static BOTH_DONE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Which pool this thread uses; its handlers use the other one.
    static MINE: Cell<Option<usize>> = const { Cell::new(None) };
}

extern "C" fn on_other_signal(_: libc::c_int) {
    let Some(mine) = MINE.get() else { return };
    let served = BOTH[1 - mine].get().is_some_and(|other| other.alloc(Order(10)).is_ok());
    OVERWRITTEN.fetch_add(served.into(), Ordering::Relaxed);
    HANDLED[mine].fetch_add(1, Ordering::Relaxed);
}

#[test]
fn signal_handlers_use_the_pool_of_another_thread() {
    for pool in &BOTH {
        let pool = pool.get_or_init(|| new(16 * MIB).build().expect("a pool"));
        // No block of 4 MiB is free: handlers look for memory in vain.
        for window in 0..4 {
            pool.alloc_at(FrameId(window * 1024), Order(0)).expect("all is free").leak();
        }
    }
    // SAFETY: the handler calls a pool, which waits for nobody if it has interrupted a call.
    unsafe { libc::signal(libc::SIGUSR2, on_other_signal as *const () as libc::sighandler_t) };
    let (said, ids) = channel();
    for mine in [0, 1] {
        let said = said.clone();
        // Threads that are stuck are left alone.
        thread::spawn(move || {
            let pools = BOTH.each_ref().map(|pool| pool.get().expect("it is made"));
            pools.iter().for_each(|pool| drop(pool.alloc(Order(0))));
            MINE.set(Some(mine));
            // SAFETY: it has no arguments.
            said.send(unsafe { libc::pthread_self() }).expect("the test waits");
            while !BOTH_DONE.load(Ordering::Relaxed) {
                drop(pools[mine].alloc(Order(0)));
            }
            MINE.set(None);
            said.send(0).expect("the test waits");
        });
    }
    let threads: [libc::pthread_t; 2] = [(); 2].map(|()| ids.recv().expect("it has begun"));
    let handled = || HANDLED.each_ref().map(|handled| handled.load(Ordering::Relaxed));
    let (mut before, mut at) = (handled(), Instant::now());
    while handled().iter().any(|&handled| handled < 100) {
        // SAFETY: both live until they are told that all is done.
        threads.iter().for_each(|&thread| unsafe { _ = libc::pthread_kill(thread, libc::SIGUSR2) });
        thread::yield_now();
        if handled() != before {
            (before, at) = (handled(), Instant::now());
        }
        assert!(at.elapsed() < Duration::from_secs(20), "two handlers wait for each other");
    }
    BOTH_DONE.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        ids.recv_timeout(Duration::from_secs(60)).expect("it ends");
    }
    assert_eq!(OVERWRITTEN.load(Ordering::Relaxed), 0);
}

#[test]
fn a_child_has_a_copy() {
    let pool = new(4 * MIB).build().expect("a pool");
    let mut block = pool.alloc(Order(0)).expect("memory");
    sign(&mut block, 7);
    drop(pool.alloc(Order(0)));
    // SAFETY: only this thread has the pool; the child calls the pool and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut works = || -> Option<()> {
            let mut mine = pool.alloc(Order(0)).ok()?;
            sign(&mut mine, 8);
            sign(&mut block, 9);
            drop(mine);
            let rest = pool.alloc_batch(Order(0), 1023).ok()?;
            drop(rest);
            (pool.give_back(HUGE).ok()? == HUGE).then_some(())
        };
        let status = i32::from(works().is_none());
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child works on its copy");
    assert!(is_signed(&block, 7), "and on nothing else");
}
