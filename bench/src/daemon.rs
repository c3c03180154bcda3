//! A pool under load beside its daemon, and without it: how long calls take, and what the daemon wins.
//!
//! ```text
//!   churn    fills the pool with movable blocks, frees most of them at random, and goes on with one for one
//!   reader   reads blocks that stay; none is torn, and none goes back in time
//!   writer   writes them; no write is lost
//!   daemon   compacts, or is not there
//! ```
//!
//! The churn is the caller's thread, which has called the pool before any other: its slot is the same with the daemon and without. The
//! daemon has another one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use woodlot_frame::Order;
use woodlot_pool::{Asks, Counters, Movable, Options, Pool, Settings};

use crate::Failure;
use crate::clock::Tally;
use crate::moves::{number, read, stopping, write};
use crate::random::Random;
use crate::waits::Waits;

/// Slots of the pool: no two threads share one, however few CPUs there are.
const SLOTS: usize = 4;
/// Blocks that are read and written.
const BLOCKS: usize = 64;
/// The churn fills so many of a hundred frames, and leaves so many.
const FULL: usize = 90;
/// See [`FULL`].
const LEFT: usize = 30;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("daemon: {error}"))
}

/// What a load has seen.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Allocations of the churn.
    pub allocations: Waits,
    /// Its frees.
    pub frees: Waits,
    /// The thread of the churn, what it writes and checks included. The operations are allocations and frees.
    pub churn: Tally,
    /// How long a reader waited for a block.
    pub reads: Waits,
    /// How long the writer did.
    pub writes: Waits,
    /// What the daemon has done, if there was one.
    pub daemon: Option<Counters>,
}

impl Load {
    /// Huge frames that the daemon has won for each GiB that it has copied; nothing if it has copied nothing.
    pub fn per_gib(&self) -> Option<f64> {
        let all = self.daemon.filter(|daemon| daemon.all.moves > 0)?.all;
        Some(all.won as f64 * f64::from(1 << 18) / all.moves as f64)
    }
}

/// A load of a pool of such options for so long, beside a daemon with these settings or without one. The churn is this thread.
///
/// # Errors
/// A block that is torn, lost or in two hands; what the pool refuses, and must not.
pub fn load(
    options: Options,
    time: Duration,
    seed: u64,
    settings: Option<Settings>,
) -> Result<Load, Failure> {
    let pool = options.slots(SLOTS).populate().build().map_err(failed)?;
    let blocks: Result<Vec<Movable<'_>>, _> =
        (0..BLOCKS).map(|_| pool.alloc_movable(Order::BASE)).collect();
    let blocks = blocks.map_err(failed)?;
    blocks.iter().for_each(|block| block.write().fill(0));
    let (stop, ended, asks) = (AtomicBool::new(false), AtomicBool::new(false), Asks::new());
    let (blocks, stop, ended, asks, whole) = (&blocks, &stop, &ended, &asks, &pool);
    let seen = thread::scope(|scope| {
        let compacts =
            |settings| whole.compact_until(ended, asks, settings, |_| {}).map_err(failed);
        let daemon =
            settings.map(|settings| scope.spawn(move || stopping(stop, || compacts(settings))));
        let reader = scope.spawn(move || stopping(stop, || read(blocks, stop)));
        let writer = scope.spawn(move || stopping(stop, || write(blocks, stop)));
        scope.spawn(move || sleep(time, stop));
        let ends = Ends(ended);
        let churn = stopping(stop, || churn(whole, seed, stop));
        let panicked = |_| failed("a thread panicked");
        let all = [reader.join(), writer.join()].map(|end| end.map_err(panicked));
        // To the very end there is a daemon beside the others.
        drop(ends);
        let daemon = daemon.map(|daemon| {
            daemon.thread().unpark();
            daemon.join().map_err(panicked)
        });
        let daemon = daemon.transpose()?.transpose()?;
        let [reads, writes] = all;
        Ok(Load { reads: reads??, writes: writes??, daemon, ..churn? })
    })?;
    let free = pool.resident() - BLOCKS * 4096;
    match pool.free_bytes() == free {
        true => Ok(seen),
        false => Err(failed(format!("{} bytes are free, not {free}", pool.free_bytes()))),
    }
}

/// Sleeps for so long, or until the others stop, and stops them.
fn sleep(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
}

/// Ends the daemon when it is dropped: also where the churn panics.
struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A block, and the number in all its words.
type Numbered<'p> = (u64, Movable<'p>);

/// Memory that falls apart again and again.
struct Churn<'p> {
    pool: &'p Pool,
    blocks: Vec<Numbered<'p>>,
    next: u64,
    random: Random,
    load: Load,
}

fn churn(pool: &Pool, seed: u64, stop: &AtomicBool) -> Result<Load, Failure> {
    let frames = pool.size() / 4096;
    let mut churn = Churn::new(pool, seed);
    while !stop.load(Ordering::Relaxed) {
        let (mut tally, mut result) = (churn.load.churn, Ok(()));
        tally.time(|| {
            let before = churn.load.allocations.count + churn.load.frees.count;
            result = churn.round(frames, stop);
            (churn.load.allocations.count + churn.load.frees.count - before) as usize
        });
        churn.load.churn = tally;
        result?;
    }
    churn.drain()
}

impl<'p> Churn<'p> {
    fn new(pool: &'p Pool, seed: u64) -> Self {
        Churn { pool, blocks: vec![], next: 1, random: Random::new(seed), load: Load::default() }
    }

    fn round(&mut self, frames: usize, stop: &AtomicBool) -> Result<(), Failure> {
        let goes_on = || !stop.load(Ordering::Relaxed);
        while self.blocks.len() < frames * FULL / 100 && goes_on() {
            self.allocate()?;
        }
        while self.blocks.len() > frames * LEFT / 100 && goes_on() {
            self.free()?;
        }
        for _ in (0..frames).take_while(|_| goes_on()) {
            self.free()?;
            self.allocate()?;
        }
        Ok(())
    }

    /// Frees all blocks, outside of the time: with the daemon and without, frees are timed in the same phases.
    fn drain(mut self) -> Result<Load, Failure> {
        while !self.blocks.is_empty() {
            drop(self.take()?);
        }
        Ok(self.load)
    }

    fn allocate(&mut self) -> Result<(), Failure> {
        let pool = self.pool;
        let block =
            self.load.allocations.time(|| pool.alloc_movable(Order::BASE)).map_err(failed)?;
        let mut bytes = block.write();
        let (words, _) = bytes.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = self.next.to_ne_bytes());
        drop(bytes);
        self.blocks.push((self.next, block));
        self.next += 1;
        Ok(())
    }

    /// Frees any block.
    fn free(&mut self) -> Result<(), Failure> {
        let block = self.take()?;
        self.load.frees.time(|| drop(block));
        Ok(())
    }

    /// Any block, which has what was written to it.
    fn take(&mut self) -> Result<Movable<'p>, Failure> {
        let at = self.random.below(self.blocks.len());
        let (written, block) = self.blocks.swap_remove(at);
        if number(&block.read())? != written {
            return Err(failed("a block has what was written to another one"));
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use woodlot_pool::Engine;

    use super::*;

    fn small() -> Options {
        Options::new(8 << 20)
    }

    #[test]
    fn the_daemon_wins_huge_frames_under_load() {
        let settings = Settings { moves: 0, rest: 1_000_000, ..Settings::default() };
        for &engine in Engine::ALL {
            let options = Options::new(16 << 20).engine(engine);
            let once = |time| {
                let (options, settings) = (options.clone(), Some(settings.clone()));
                load(options, Duration::from_millis(time), time, settings).unwrap()
            };
            // However slow the machine is: longer each time that nothing was won, or the pool was not full yet.
            let seen = (1..=40)
                .map(|tries| once(100 * tries))
                .find(|seen| seen.per_gib() > Some(0.0) && seen.frees.count > 0)
                .expect("some time");
            assert!(seen.frees.count <= seen.allocations.count);
            // What is left at the end is freed, and counts neither here nor there.
            assert_eq!(seen.churn.operations, seen.allocations.count + seen.frees.count);
        }
    }

    #[test]
    fn the_churn_is_the_callers_thread_with_the_daemon_and_without() {
        for settings in [None, Some(Settings::default())] {
            let (mut caller, mut seen) = (Tally::default(), Load::default());
            caller.time(|| {
                seen = load(small(), Duration::from_millis(50), 1, settings).unwrap();
                1
            });
            assert!(seen.churn.cpu_ns > 0.0 && caller.cpu_ns >= seen.churn.cpu_ns);
        }
    }

    #[test]
    fn a_load_that_is_to_stop_at_once_is_timed_for_nothing() {
        let pool = Options::new(8 << 20).build().unwrap();
        let mut stopped = Churn::new(&pool, 1);
        stopped.round(pool.size() / 4096, &AtomicBool::new(true)).unwrap();
        assert_eq!((stopped.load.allocations.count, stopped.load.frees.count), (0, 0));
        (0..100).for_each(|_| stopped.allocate().unwrap());
        let end = stopped.drain().unwrap();
        assert_eq!((end.allocations.count, end.frees.count), (100, 0));
        assert_eq!(pool.free_bytes(), pool.resident());
    }

    #[test]
    fn without_a_daemon_nothing_is_won() {
        let seen = load(small(), Duration::from_millis(50), 1, None).unwrap();
        assert!(seen.daemon.is_none() && seen.per_gib().is_none());
        assert!(seen.reads.count > 0 && seen.writes.count > 0);
    }
}
