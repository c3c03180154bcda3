//! Movable blocks that are brought together while they are read and written.
#![cfg(target_os = "linux")]

mod engine;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use woodlot_pool::{
    Asks, Counters, Event, FrameId, HugeId, Movable, Options, Order, Patience, Pool, PoolError,
    Settings, Stop, Target,
};

use engine::new;

const MIB: usize = 1 << 20;
const HUGE: usize = 512;

/// Fills a pool with movable blocks of an order and drops all but every `keeps`th. Each is filled with its number.
fn fragmented(pool: &Pool, order: Order, keeps: usize) -> Vec<Movable<'_>> {
    let mut blocks: Vec<_> = std::iter::from_fn(|| pool.alloc_movable(order).ok()).collect();
    blocks.sort_by_key(Movable::frame);
    let mut number = 0..;
    blocks.retain(|_| number.next().is_some_and(|number: usize| number.is_multiple_of(keeps)));
    blocks.iter().enumerate().for_each(|(number, block)| write(block, number as u64));
    blocks
}

fn write(block: &Movable<'_>, number: u64) {
    let mut bytes = block.write();
    let (words, _) = bytes.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| *word = number.to_ne_bytes());
}

/// All words of a block are this number.
fn number(block: &Movable<'_>) -> u64 {
    let bytes = block.read();
    let (words, _) = bytes.as_chunks::<8>();
    let first = u64::from_ne_bytes(words[0]);
    assert!(words.iter().all(|word| *word == words[0]), "a block is torn");
    first
}

fn check(blocks: &[Movable<'_>]) {
    blocks.iter().enumerate().for_each(|(at, block)| assert_eq!(number(block), at as u64));
}

#[test]
fn blocks_are_brought_together_whole() {
    for order in [0, 1, 4, 7].map(Order) {
        let pool = new(16 * MIB).build().expect("a pool");
        let blocks = fragmented(&pool, order, 4);
        pool.alloc(Order(9)).expect_err("no huge frame is free");
        let report = pool.compact(Target::Huge(usize::MAX)).expect("it can");
        assert_eq!((report.won, report.possible, report.moves), (6, 6, 6 * 128), "{order}");
        assert_eq!(report.blocks, 6 * 128 / order.frames());
        check(&blocks);
        let huge = pool.alloc_batch(Order(9), 6).expect("all that can be free are");
        drop((huge, blocks));
        assert_eq!(pool.free_bytes(), 16 * MIB);
    }
}

#[test]
fn what_does_not_move_keeps_its_huge_frame() {
    let pool = new(8 * MIB).magazines(false).build().expect("a pool");
    // One of four: three huge frames could be free, were all of it movable.
    let mut blocks = fragmented(&pool, Order(0), 4);
    let pins: Vec<_> = [0, HUGE, 2 * HUGE]
        .map(|first| {
            blocks.retain(|block| block.frame() != FrameId(first));
            pool.alloc_at(FrameId(first), Order(0)).expect("it is free")
        })
        .into();
    let report = pool.compact(Target::Huge(3)).expect("it can");
    assert_eq!((report.stop, report.won), (Some(Stop::NoSource), 1));
    // They are known by their counts, and nobody has looked at their frames.
    assert_eq!((report.pinned, report.blocked, report.possible), (3, 0, 1));
    let huge = pool.alloc(Order(9)).expect("the one that has no pin");
    assert_eq!(huge.frame(), FrameId(3 * HUGE));
    assert_eq!(pins.len(), 3);
}

#[test]
fn what_threads_keep_does_not_hold_it_up() {
    let pool = new(8 * MIB).build().expect("a pool");
    let blocks = fragmented(&pool, Order(0), 4);
    // Each time the thread keeps some of what it has dropped.
    for won in [3, 0] {
        let report = pool.compact(Target::Huge(3)).expect("it can");
        assert_eq!((report.won, report.blocked), (won, 0));
    }
    check(&blocks);
}

#[test]
fn what_threads_keep_is_free_to_the_daemon() {
    // Six huge frames' worth is free, to the frame: alone, and as neighbours.
    for (huge, order) in [(6, 9), (2, 10)] {
        let (pool, asks) = (new(16 * MIB).build().expect("a pool"), Asks::new());
        let mut blocks = fragmented(&pool, Order(0), 4);
        if order == 10 {
            // Two huge frames' worth.
            let more = std::iter::from_fn(|| pool.alloc_movable(Order(0)).ok());
            blocks.extend(more.take(4 * HUGE));
            blocks.iter().enumerate().for_each(|(at, block)| write(block, at as u64));
        }
        // The thread keeps some of what it drops, which is in use when the run is planned.
        drop(pool.alloc_movable(Order(0)).expect("memory"));
        match order {
            9 => asks.ask(huge),
            _ => asks.ask_block(Order(order)),
        };
        let all = serve(&pool, &asks).all;
        assert_eq!((all.won, all.pinned, all.blocked), (huge, 0, 0), "{order}: {all:?}");
        check(&blocks);
        pool.alloc(Order(order)).expect("it was won");
    }
}

#[test]
fn a_block_that_is_read_or_written_stays() {
    let pool = new(4 * MIB).magazines(false).build().expect("a pool");
    let block = pool.alloc_movable(Order(0)).expect("memory");
    let huge = block.frame().0 / HUGE;
    let range = Target::Range(HugeId(huge)..HugeId(huge + 1));
    let reading = block.read();
    let report = pool.compact(range.clone()).expect("it can");
    assert_eq!((report.stop, report.won), (Some(Stop::Blocked), 0));
    assert!(report.failed > 0);
    drop(reading);
    assert_eq!(pool.compact(range).expect("it can").won, 1);
    assert_ne!(block.frame().0 / HUGE, huge);
}

#[test]
fn memory_is_there_where_blocks_go() {
    let pool = new(16 * MIB).magazines(false).build().expect("a pool");
    let blocks: Vec<_> = (0..100).map(|_| pool.alloc_movable(Order(0)).expect("memory")).collect();
    blocks.iter().enumerate().for_each(|(at, block)| write(block, at as u64));
    let huge = HugeId(blocks[0].frame().0 / HUGE);
    assert_eq!(pool.resident(), 2 * MIB, "all of them are in one huge frame");
    let report = pool.compact(Target::Range(huge..HugeId(huge.0 + 1))).expect("it can");
    assert_eq!((report.stop, report.moves), (Some(Stop::Won), 100));
    assert_eq!(pool.resident(), 4 * MIB);
    assert_eq!(pool.free_bytes(), 4 * MIB - 100 * 4096);
    check(&blocks);
}

#[test]
fn what_is_won_may_go_to_the_system() {
    let options = new(16 * MIB).magazines(false).give_back_above(14 * MIB);
    let pool = options.build().expect("a pool");
    let blocks = fragmented(&pool, Order(0), 8);
    assert_eq!(pool.resident(), 16 * MIB, "no huge frame is free");
    pool.compact(Target::Huge(1)).expect("it can");
    assert_eq!(pool.resident(), 16 * MIB, "not more than that is free");
    drop(blocks);
    let blocks = fragmented(&pool, Order(0), 16);
    assert_eq!(pool.resident(), 16 * MIB);
    pool.compact(Target::Huge(usize::MAX)).expect("it can");
    assert!(pool.resident() < 16 * MIB, "{}", pool.resident());
    check(&blocks);
}

#[test]
fn what_cannot_be_compacted_is_said() {
    let pool = new(8 * MIB).build().expect("a pool");
    for target in [Target::Range(HugeId(3)..HugeId(5)), Target::Block(Order(18))] {
        let refused = pool.compact(target).expect_err("it is not there");
        assert!(matches!(refused, PoolError::NotCompacted(_)), "{refused}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    // SAFETY: only this pool uses the file.
    let shared = unsafe { Options::new(8 * MIB).shared(file.path()) }.build().expect("a pool");
    assert!(matches!(shared.compact(Target::Huge(1)), Err(PoolError::Shared)));
    let (stop, asks) = (AtomicBool::new(true), Asks::new());
    let refused = shared.compact_until(&stop, &asks, Settings::default(), |_| {});
    assert!(matches!(refused, Err(PoolError::Shared)));
}

/// A daemon that works for nobody but who asks, on this thread, until it has done what it can.
fn serve(pool: &Pool, asks: &Asks) -> Counters {
    let stop = AtomicBool::new(false);
    let settings = Settings { threshold: 1000, moves: 0, ..Settings::default() };
    let counters = pool.compact_until(&stop, asks, settings, |event| {
        stop.fetch_or(matches!(event, Event::Below(_) | Event::Finished(_)), Ordering::Release);
    });
    counters.expect("it is no shared pool")
}

#[test]
fn who_finds_no_large_block_asks_and_waits_or_does_not() {
    for order in [9, 10].map(Order) {
        let (pool, asks) = (new(16 * MIB).build().expect("a pool"), Asks::new());
        let blocks = fragmented(&pool, Order(0), 4);
        let refused = |patience, wait: &dyn Fn() -> bool| {
            let refused = pool.alloc_or_ask(order, &asks, patience, wait);
            let is_whole = |bytes| bytes == order.frames() * 4096;
            assert!(
                matches!(refused, Err(PoolError::OutOfMemory { bytes, .. }) if is_whole(bytes))
            );
        };
        refused(Patience::Fail, &|| unreachable!());
        assert_eq!(serve(&pool, &asks).asked, 0, "nobody has asked");
        let patient = pool.alloc_or_ask(order, &asks, Patience::Wait, || {
            assert_eq!(serve(&pool, &asks).asked, 1);
            true
        });
        let patient = patient.expect("what the daemon has won");
        refused(Patience::Wait, &|| false);
        assert_eq!(serve(&pool, &asks).asked, 1, "it gave up, and had asked");
        let there = pool.alloc_or_ask(order, &asks, Patience::Wait, || unreachable!());
        let there = there.expect("what came too late");
        refused(Patience::Ask, &|| unreachable!());
        assert_eq!(serve(&pool, &asks).asked, 1, "it did not wait, and had asked");
        assert!(pool.alloc(order).is_ok());
        check(&blocks);
        drop((patient, there, blocks));
    }
    let (pool, asks) = (new(2 * MIB).build().expect("a pool"), Asks::new());
    let small = fragmented(&pool, Order(0), 1);
    pool.alloc_or_ask(Order(0), &asks, Patience::Wait, || unreachable!()).expect_err("all in use");
    let error = pool.alloc_or_ask(Order(11), &asks, Patience::Wait, || unreachable!());
    assert!(matches!(error, Err(PoolError::OrderTooLarge(_))));
    drop(small);
}

/// Sets the flag also if its thread panics: nobody waits for it then.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Threads read, write, allocate and free while the daemon compacts, until it has won some huge frames.
#[test]
fn nothing_is_torn_or_lost_beside_the_daemon() {
    const WON: usize = 16;
    /// Of each writer.
    const TURNS: usize = 100_000;
    let pool = new(32 * MIB).build().expect("a pool");
    let (stop, asks, won) = (AtomicBool::new(false), Asks::new(), AtomicUsize::new(0));
    let settings =
        Settings { moves: 0, rest: 1_000_000, longest_rest: 1_000_000, ..Settings::default() };
    let (pool, stop, asks, won) = (&pool, &stop, &asks, &won);
    let counters = thread::scope(|scope| {
        let daemon = scope.spawn(move || {
            let _stops = Stops(stop);
            pool.compact_until(stop, asks, settings, |event| {
                if let Event::Finished(report) = event {
                    won.fetch_add(report.won, Ordering::Relaxed);
                }
            })
        });
        for seed in 0..2 {
            scope.spawn(move || {
                let _stops = Stops(stop);
                let mut turn = seed;
                let mut blocks = fragmented(pool, Order(0), 4);
                let mut numbers: Vec<u64> = (0..blocks.len() as u64).collect();
                for _ in 0..TURNS {
                    if won.load(Ordering::Relaxed) >= WON || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    for at in 0..blocks.len() {
                        turn = u64::wrapping_mul(turn, 6364136223846793005)
                            .wrapping_add(1442695040888963407);
                        assert_eq!(number(&blocks[at]), numbers[at], "a write is lost");
                        match turn >> 60 {
                            0..4 => {
                                numbers[at] = turn;
                                write(&blocks[at], turn);
                            }
                            // Elsewhere, as the next one that is free.
                            4 => {
                                if let Ok(block) = pool.alloc_movable(Order(0)) {
                                    write(&block, numbers[at]);
                                    blocks[at] = block;
                                }
                            }
                            _ => {}
                        }
                    }
                    // It falls apart again.
                    drop(fragmented(pool, Order(0), 1));
                }
            });
        }
        while !stop.load(Ordering::Acquire) && won.load(Ordering::Relaxed) < WON {
            asks.ask(1);
            daemon.thread().unpark();
            thread::yield_now();
        }
        stop.store(true, Ordering::Release);
        daemon.thread().unpark();
        daemon.join().expect("it does not panic").expect("it is no shared pool")
    });
    assert!(counters.all.won >= WON && counters.all.moves > 0, "{counters:?}");
    assert_eq!(pool.free_bytes(), pool.resident(), "all is free");
}
