//! Memory that moves while it is used: how fast, what it wins, and how long readers and writers wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use woodlot_frame::{FrameId, Order};
use woodlot_pool::{Block, Movable, Options, Pool};

use crate::Failure;
use crate::clock::Tally;
use crate::random::Random;
use crate::waits::Waits;

const PAGE: usize = 4096;
const HUGE: usize = 512;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("moves: {error}"))
}

/// What moves cost, beside what their parts cost alone. The operations are blocks.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Cost {
    /// Moves: a block taken, the copy, the handle that points there.
    pub moves: Tally,
    /// Copies alone, of as many blocks that lie as these did, to blocks that lie as theirs do.
    pub copies: Tally,
    /// Allocations alone, of the blocks that copies go to.
    pub allocations: Tally,
}

impl Cost {
    /// Bytes copied each second by moves, of those that copies alone do: 1 is as fast.
    pub fn speed(&self) -> f64 {
        self.copies.cpu() / self.moves.cpu()
    }
}

/// What it takes to win huge frames back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Won {
    /// Huge frames that have become free as a whole.
    pub huge: usize,
    /// What the moves took.
    pub cost: Cost,
}

impl Won {
    /// Huge frames for each GiB copied.
    pub fn per_gib(&self) -> f64 {
        self.huge as f64 / (self.cost.moves.operations as f64 * PAGE as f64 / (1 << 30) as f64)
    }
}

/// Two pools with the same blocks at the same places, filled in turn. In one of them blocks move; in the other one they are
/// copied to where they would move, and stay. So neither finds memory in a cache that the other one would not find there.
struct Twins {
    moving: Pool,
    copied: Pool,
}

/// A block that moves, and the byte that it is filled with.
type Filled<'p> = (u8, Movable<'p>);

impl Twins {
    fn new(bytes: usize) -> Result<Twins, Failure> {
        let pool = || Options::new(bytes).magazines(false).populate().build().map_err(failed);
        Ok(Twins { moving: pool()?, copied: pool()? })
    }

    /// Fills both with blocks of an order, and frees all but `kept` percent of them at random, the same of both: at least one
    /// stays.
    fn fill(&self, order: Order, kept: usize, seed: u64) -> [Vec<Filled<'_>>; 2] {
        let mut both = [Vec::new(), Vec::new()];
        while both.iter_mut().zip([&self.moving, &self.copied]).all(|(blocks, pool)| {
            let block = pool.alloc_movable(order);
            block.is_ok_and(|block| {
                let byte = block.frame().0 as u8;
                block.write().fill(byte);
                blocks.push((byte, block));
                true
            })
        }) {}
        for blocks in &mut both {
            blocks.sort_by_key(|(_, block)| block.frame().0);
            Random::new(seed).shuffle(blocks);
            blocks.truncate((blocks.len() * kept / 100).max(1));
        }
        both
    }

    /// Moves the blocks that begin at some frames of the one pool, copies those of the other, and returns what is to be held
    /// so that neither pool hands it out again.
    fn go(&self, from: &[FrameId], order: Order, cost: &mut Cost) -> Result<Held<'_>, Failure> {
        let (mut old, mut failure) = (Vec::with_capacity(from.len()), None);
        cost.moves.time(|| {
            for &from in from {
                let moved = self.moving.alloc(order).map_err(failed).and_then(|to| {
                    let moved = self.moving.move_block(from, to);
                    moved.map_err(|(_, stays)| failed(format!("{stays:?}")))
                });
                match moved {
                    Ok(moved) => old.push(moved),
                    Err(why) => failure = Some(why),
                }
            }
            from.len()
        });
        let mut copies = Vec::with_capacity(from.len());
        cost.allocations.time(|| {
            copies.extend(from.iter().map_while(|_| self.copied.alloc(order).ok()));
            copies.len()
        });
        cost.copies.time(|| {
            for (to, from) in copies.iter_mut().zip(from) {
                if let Some(from) = self.copied.pointer(*from) {
                    // SAFETY: the block there is movable, and nobody writes it.
                    unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, to.len()) };
                }
            }
            copies.len()
        });
        if copies.len() < from.len() {
            failure = Some(failed("there is no room for copies"));
        }
        failure.map_or(Ok(Held { old, copies }), Err)
    }
}

/// What nobody else may get.
struct Held<'p> {
    /// Where blocks were that moved.
    old: Vec<Block<'p>>,
    /// Where blocks were copied to.
    copies: Vec<Block<'p>>,
}

/// Fills two pools with movable blocks of an order, frees all but `kept` percent of them at random, at most 50, and moves the
/// others in one pool, one after the other, while they are copied in the other.
///
/// # Errors
/// What a pool refuses, and must not; a block whose contents have changed.
pub fn cost(bytes: usize, order: Order, kept: usize, seed: u64) -> Result<Cost, Failure> {
    let (twins, mut cost) = (Twins::new(bytes)?, Cost::default());
    let [blocks, _stay] = twins.fill(order, kept, seed);
    let from: Vec<FrameId> = blocks.iter().map(|(_, block)| block.frame()).collect();
    // As many bytes at a time, whatever the order.
    let turn = (HUGE / 4 / order.frames()).max(1);
    let held: Result<Vec<_>, _> =
        from.chunks(turn).map(|from| twins.go(from, order, &mut cost)).collect();
    held?;
    unchanged(&blocks).map(|()| cost)
}

/// Fills two pools with movable blocks of 4 KiB, frees all but `kept` percent of them at random, and empties the huge frames
/// of one that have the fewest, as long as the others have room. In the other one the same blocks are copied.
///
/// # Errors
/// What a pool refuses, and must not; a block whose contents have changed.
pub fn win(bytes: usize, kept: usize, seed: u64) -> Result<Won, Failure> {
    let twins = Twins::new(bytes)?;
    let [blocks, stay] = twins.fill(Order::BASE, kept, seed);
    let mut used = vec![Vec::new(); bytes / PAGE / HUGE];
    blocks.iter().for_each(|(_, block)| used[block.frame().0 / HUGE].push(block.frame()));
    used.sort_by_key(Vec::len);
    let possible = (bytes / PAGE - blocks.len()) / HUGE;
    let mut won = Won { huge: 0, cost: Cost::default() };
    // Nobody else gets a frame of those that are emptied.
    let emptied = &used[..possible.min(used.len())];
    let pools = [&twins.moving, &twins.copied];
    let mut held: Vec<Block<'_>> = pools
        .iter()
        .flat_map(|pool| emptied.iter().flat_map(|frames| hold(pool, frames)))
        .collect();
    for frames in emptied {
        let Held { old, copies } = twins.go(frames, Order::BASE, &mut won.cost)?;
        held.extend(old);
        held.extend(copies);
        won.huge += 1;
    }
    drop((held, stay));
    if twins.moving.alloc_batch(Order::huge::<woodlot_frame::Base4K>(), won.huge).is_err() {
        return Err(failed("what was emptied is not free"));
    }
    unchanged(&blocks).map(|()| won)
}

fn unchanged(blocks: &[Filled<'_>]) -> Result<(), Failure> {
    let is = |(value, block): &Filled<'_>| block.read().iter().all(|byte| byte == value);
    if blocks.iter().all(is) { Ok(()) } else { Err(failed("a block has changed")) }
}

/// Takes all of a huge frame that is free.
fn hold<'p>(pool: &'p Pool, used: &[FrameId]) -> Vec<Block<'p>> {
    let Some(first) = used.first().map(|frame| frame.0 / HUGE * HUGE) else { return Vec::new() };
    let frames = (first..first + HUGE).map(FrameId).filter(|frame| !used.contains(frame));
    frames.filter_map(|frame| pool.alloc_at(frame, Order::BASE).ok()).collect()
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
pub(crate) fn stopping<T>(
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    work().inspect_err(|_| stop.store(true, Relaxed))
}

/// All words of a block are the number of its last write.
pub(crate) fn number(bytes: &[u8]) -> Result<u64, Failure> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let first = words.next().unwrap_or(0);
    if words.all(|word| word == first) { Ok(first) } else { Err(failed("a block is torn")) }
}

pub(crate) fn read(blocks: &[Movable<'_>], stop: &AtomicBool) -> Result<Waits, Failure> {
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

pub(crate) fn write(blocks: &[Movable<'_>], stop: &AtomicBool) -> Result<Waits, Failure> {
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
        let Cost { moves, copies, allocations } = won.cost;
        assert!(moves.operations > 0 && moves.operations < 6 * 256);
        assert_eq!([copies.operations, allocations.operations], [moves.operations; 2]);
    }

    #[test]
    fn all_that_is_kept_moves_once() {
        for (order, blocks) in [(Order::BASE, 1024), (Order(9), 2)] {
            let Cost { moves, copies, .. } = cost(16 << 20, order, 25, 1).unwrap();
            assert_eq!((moves.operations, copies.operations), (blocks, blocks), "{order:?}");
        }
    }

    #[test]
    fn readers_and_writers_see_what_was_written() {
        let seen = |time, moves| storm(Order(0), 8, Duration::from_millis(time), moves).unwrap();
        let still = seen(50, false);
        assert_eq!((still.moves, still.refused), (0, 0));
        // However slow the machine is: longer each time that nothing moved.
        let moved = (1..=40)
            .map(|tries| seen(50 * tries, true))
            .find(|seen| seen.moves > 0)
            .expect("a move");
        for Seen { reads, writes, .. } in [still, moved] {
            assert!(writes.count >= 8 && reads.all_but_one_in(2) <= reads.longest);
        }
    }
}
