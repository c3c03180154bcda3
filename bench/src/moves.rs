//! Memory that moves while it is used: how fast, what it wins, and how long readers and writers wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use woodlot_frame::{FrameId, Order};
use woodlot_pool::{Block, Movable, Options, Pool};

use crate::Failure;
use crate::clock::Tally;
use crate::random::Random;

const PAGE: usize = 4096;
const HUGE: usize = 512;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("moves: {error}"))
}

/// What it takes to win huge frames back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Won {
    /// Huge frames that have become free as a whole.
    pub huge: usize,
    /// Moves, an operation for each page of 4 KiB: a frame taken, the copy, the handle that points there.
    pub moves: Tally,
    /// Copies of the same pages alone.
    pub copies: Tally,
}

impl Won {
    /// Bytes copied each second by moves, of those that copies alone do: 1 is as fast.
    pub fn speed(&self) -> f64 {
        self.copies.cpu() / self.moves.cpu()
    }

    /// Huge frames for each GiB copied.
    pub fn per_gib(&self) -> f64 {
        self.huge as f64 / (self.moves.operations as f64 * PAGE as f64 / (1 << 30) as f64)
    }
}

/// Fills a pool with movable blocks of 4 KiB, frees all but `kept` percent of them at random, and empties the huge frames
/// that have the fewest, as long as the others have room.
///
/// # Errors
/// What the pool refuses, and must not; a block whose contents have changed.
pub fn win(bytes: usize, kept: usize, seed: u64) -> Result<Won, Failure> {
    let options = Options::new(bytes).magazines(false).populate();
    let pool = options.build().map_err(failed)?;
    let mut blocks = Vec::new();
    while let Ok(block) = pool.alloc_movable(Order::BASE) {
        block.write().fill(block.frame().0 as u8);
        blocks.push((block.frame().0 as u8, block));
    }
    Random::new(seed).shuffle(&mut blocks);
    blocks.truncate(blocks.len() * kept / 100);
    let mut used = vec![Vec::new(); bytes / PAGE / HUGE];
    blocks.iter().for_each(|(_, block)| used[block.frame().0 / HUGE].push(block.frame()));
    used.sort_by_key(Vec::len);
    let possible = (bytes / PAGE - blocks.len()) / HUGE;
    let mut won = Won { huge: 0, moves: Tally::default(), copies: Tally::default() };
    // Nobody else gets a frame of those that are emptied.
    let emptied = &used[..possible.min(used.len())];
    let mut held: Vec<Block<'_>> = emptied.iter().flat_map(|frames| hold(&pool, frames)).collect();
    for frames in emptied {
        let (mut old, mut stays) = (Vec::with_capacity(HUGE), None);
        won.moves.time(|| {
            for &from in frames {
                let moved = pool.alloc(Order::BASE).map_err(failed).and_then(|to| {
                    let at = to.frame();
                    let moved = pool.move_block(from, to);
                    moved.map(|old| (old, at)).map_err(|(_, stays)| failed(format!("{stays:?}")))
                });
                match moved {
                    Ok(moved) => old.push(moved),
                    Err(why) => stays = Some(why),
                }
            }
            frames.len()
        });
        stays.map_or(Ok(()), Err)?;
        won.copies.time(|| {
            for (old, to) in &mut old {
                let new = pool.pointer(*to).unwrap_or(old.as_mut_ptr());
                // SAFETY: the block at the new place is movable, and nobody writes it.
                unsafe { old.as_mut_ptr().copy_from(new, PAGE) };
            }
            frames.len()
        });
        held.extend(old.into_iter().map(|(old, _)| old));
        won.huge += 1;
    }
    drop(held);
    if pool.alloc_batch(Order::huge::<woodlot_frame::Base4K>(), won.huge).is_err() {
        return Err(failed("what was emptied is not free"));
    }
    let is = |(value, block): &(u8, Movable<'_>)| block.read().iter().all(|byte| byte == value);
    if blocks.iter().all(is) { Ok(won) } else { Err(failed("a block has changed")) }
}

/// Takes all of a huge frame that is free.
fn hold<'p>(pool: &'p Pool, used: &[FrameId]) -> Vec<Block<'p>> {
    let Some(first) = used.first().map(|frame| frame.0 / HUGE * HUGE) else { return Vec::new() };
    let frames = (first..first + HUGE).map(FrameId).filter(|frame| !used.contains(frame));
    frames.filter_map(|frame| pool.alloc_at(frame, Order::BASE).ok()).collect()
}

/// How long somebody waited for each access: how many waits were of less than 2^n ns.
#[derive(Clone, Debug)]
pub struct Waits {
    counts: [u64; 40],
    /// The longest, in ns.
    pub longest: u64,
    /// How many.
    pub count: u64,
}

impl Waits {
    fn new() -> Waits {
        Waits { counts: [0; 40], longest: 0, count: 0 }
    }

    fn add(&mut self, wait: Duration) {
        let ns = wait.as_nanos() as u64;
        self.counts[(64 - ns.leading_zeros()).min(39) as usize] += 1;
        self.longest = self.longest.max(ns);
        self.count += 1;
    }

    /// Of all but one in `n` it is below this, in ns: a power of two.
    pub fn all_but_one_in(&self, n: u64) -> u64 {
        let mut above = self.count;
        let enough = self.counts.iter().position(|count| {
            above -= count;
            above * n <= self.count
        });
        1 << enough.unwrap_or(39)
    }
}

/// What readers and writers have seen while blocks moved, or did not.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Moves done.
    pub moves: u64,
    /// Moves that gave up, as readers or writers did not leave.
    pub refused: u64,
    /// The waits of the reader.
    pub reads: Waits,
    /// The waits of the writer.
    pub writes: Waits,
}

/// One thread reads and one writes blocks of an order in turn, for so long, while a third one moves them if `moves`.
///
/// # Errors
/// A torn block or a lost write; what the pool refuses, and must not.
pub fn storm(order: Order, blocks: usize, time: Duration, moves: bool) -> Result<Seen, Failure> {
    let bytes = ((2 * blocks) << order.0) * PAGE;
    let pool = Options::new(bytes.next_multiple_of(2 << 20) + (4 << 20)).build().map_err(failed)?;
    let blocks: Result<Vec<Movable<'_>>, _> =
        (0..blocks).map(|_| pool.alloc_movable(order)).collect();
    let blocks = blocks.map_err(failed)?;
    blocks.iter().for_each(|block| block.write().fill(0));
    let (stop, done, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (blocks, pool, stop, done, refused) = (&blocks, &pool, &stop, &done, &refused);
    thread::scope(|scope| {
        let reader = scope.spawn(move || stopping(stop, || read(blocks, stop)));
        let writer = scope.spawn(move || stopping(stop, || write(blocks, stop)));
        let mover = scope.spawn(move || {
            stopping(stop, || {
                while moves && !stop.load(Relaxed) {
                    for block in blocks {
                        let to = pool.alloc(order).map_err(failed)?;
                        let moved =
                            pool.move_block(block.frame(), to).map(|mut old| old.fill(0xee));
                        if moved.is_ok() { done } else { refused }.fetch_add(1, Relaxed);
                    }
                }
                Ok(())
            })
        });
        let end = Instant::now() + time;
        while Instant::now() < end && !stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Relaxed);
        let panicked = |_| failed("a thread panicked");
        mover.join().map_err(panicked)??;
        let (reads, writes) =
            (reader.join().map_err(panicked)??, writer.join().map_err(panicked)??);
        Ok(Seen { moves: done.load(Relaxed), refused: refused.load(Relaxed), reads, writes })
    })
}

/// Does something, and stops the others if it fails.
fn stopping<T>(stop: &AtomicBool, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    work().inspect_err(|_| stop.store(true, Relaxed))
}

/// All words of a block are the number of its last write.
fn number(bytes: &[u8]) -> Result<u64, Failure> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let first = words.next().unwrap_or(0);
    if words.all(|word| word == first) { Ok(first) } else { Err(failed("a block is torn")) }
}

fn read(blocks: &[Movable<'_>], stop: &AtomicBool) -> Result<Waits, Failure> {
    let (mut waits, mut seen) = (Waits::new(), vec![0; blocks.len()]);
    while !stop.load(Relaxed) {
        for (block, seen) in blocks.iter().zip(&mut seen) {
            let before = Instant::now();
            let bytes = block.read();
            waits.add(before.elapsed());
            let now = number(&bytes)?;
            if now < *seen {
                return Err(failed("a write is lost"));
            }
            *seen = now;
        }
    }
    Ok(waits)
}

fn write(blocks: &[Movable<'_>], stop: &AtomicBool) -> Result<Waits, Failure> {
    let mut waits = Waits::new();
    for turn in 1_u64.. {
        for block in blocks {
            let before = Instant::now();
            let mut bytes = block.write();
            waits.add(before.elapsed());
            if number(&bytes)? != turn - 1 {
                return Err(failed("a write is lost"));
            }
            let (words, _) = bytes.as_chunks_mut::<8>();
            words.iter_mut().for_each(|word| *word = turn.to_ne_bytes());
        }
        if stop.load(Relaxed) {
            break;
        }
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_frames_are_won() {
        let won = win(16 << 20, 25, 1).unwrap();
        assert_eq!(won.huge, 6);
        assert!(won.moves.operations > 0 && won.moves.operations < 6 * 256);
        assert_eq!(won.moves.operations, won.copies.operations);
    }

    #[test]
    fn readers_and_writers_see_what_was_written() {
        for moves in [false, true] {
            let seen = storm(Order(0), 8, Duration::from_millis(100), moves).unwrap();
            assert!(seen.writes.count >= 8 && (moves || seen.moves == 0));
            assert!(seen.reads.all_but_one_in(2) <= seen.reads.longest.next_power_of_two().max(1));
        }
    }
}
