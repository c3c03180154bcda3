//! The floor: what the processor's atomic instructions cost, on the same CPU in the same run; and what a cache line costs that another
//! CPU has.
//!
//! An allocator that keeps one bit for each frame cannot be faster than setting and clearing a
//! bit. All words have 64 bits and lie on no line with anything else; every swap is a
//! compare-exchange with acquire-release on success, relaxed on failure; every result is used.
//!
//! | | each operation |
//! |---|---|
//! | *hot CAS* | load the one word, swap it for one more |
//! | *hot pair* | load the one word, find a zero bit, swap it set; load, swap it clear: two swaps |
//! | *sequential set* | 64 KiB of zeros: load the word at hand, find a zero bit, swap it set; on to the next word when there is none |
//! | *sequential clear* | 64 KiB of ones, bit after bit: load its word, swap it clear |
//! | *random clear 256 KiB* | 256 KiB of ones, every bit once in random order: load its number (4 bytes, in sequence), load its word, swap it clear |
//! | *random clear 4 MiB* | 4 MiB of ones, 2 Mi of its bits, once each, likewise |
//! | *line there and back* | one word that two threads on two CPUs write to by turns: each waits for the other's number; the least of 16 pieces. Not where there is one CPU, or nobody says which there are |
//!
//! The last one says how far the first two CPUs are from each other. Those of a virtual machine may be moved from minute to minute, and what two
//! threads do together takes longer or shorter then.
//!
//! `C`, the unit of the targets, is the median of *hot CAS*. Times are CPU times, as everywhere.

use std::hint::black_box;

use serde::{Deserialize, Serialize};
use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::clock::{Tally, cpus, opaque};
use crate::patterns::on_threads;
use crate::random::Random;

/// One loop of the floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// One swap on one word.
    HotCas,
    /// Set a bit and clear it.
    HotPair,
    /// Set the bits of 64 KiB.
    SequentialSet,
    /// Clear them.
    SequentialClear,
    /// Clear the bits of 256 KiB in random order.
    RandomClear256K,
    /// Clear bits of 4 MiB in random order.
    RandomClear4M,
    /// A cache line goes to another CPU, and comes back.
    LineThereAndBack,
}

impl Loop {
    /// Every loop, in the order in which they are run and shown.
    pub const ALL: [Loop; 7] = [
        Loop::HotCas,
        Loop::HotPair,
        Loop::SequentialSet,
        Loop::SequentialClear,
        Loop::RandomClear256K,
        Loop::RandomClear4M,
        Loop::LineThereAndBack,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Loop::HotCas => "hot CAS",
            Loop::HotPair => "hot pair",
            Loop::SequentialSet => "sequential set",
            Loop::SequentialClear => "sequential clear",
            Loop::RandomClear256K => "random clear 256 KiB",
            Loop::RandomClear4M => "random clear 4 MiB",
            Loop::LineThereAndBack => "line there and back",
        }
    }
}

/// The one word, on a line (and the line that is fetched with it) of its own.
#[repr(align(128))]
struct Hot(AtomicU64);

/// The words of every loop, and the orders to clear them in.
pub struct Floor {
    hot: Box<Hot>,
    sequential: Vec<AtomicU64>,
    random: [(Vec<AtomicU64>, Vec<u32>); 2],
    rounds: usize,
}

/// Words in 64 KiB, 256 KiB and 4 MiB.
const SEQUENTIAL: usize = (64 << 10) / 8;
const RANDOM: [usize; 2] = [(256 << 10) / 8, (4 << 20) / 8];
/// How many bits are cleared in random order: all of 256 KiB.
const CLEARED: usize = RANDOM[0] * 64;

impl Floor {
    /// Words that have been touched. `rounds` is how many times a million operations the two hot
    /// loops do.
    pub fn new(seed: u64, rounds: usize) -> Floor {
        let mut random = Random::new(seed);
        let words = |count: usize| (0..count).map(|_| AtomicU64::new(u64::MAX)).collect();
        let random = RANDOM.map(|count| {
            let bits = random.distinct(CLEARED, count * 64);
            (words(count), bits.into_iter().map(|bit| bit as u32).collect())
        });
        Floor {
            hot: Box::new(Hot(AtomicU64::new(0))),
            sequential: words(SEQUENTIAL),
            random,
            rounds,
        }
    }

    /// Runs every loop once, in the order of [`Loop::ALL`]. One that there is not on this machine has no operations.
    pub fn sample(&mut self) -> [Tally; 7] {
        Loop::ALL.map(|which| {
            let mut tally = Tally::default();
            let hot = self.rounds << 20;
            match which {
                Loop::HotCas => tally.time(|| hot_cas(&self.hot.0, hot)),
                Loop::HotPair => {
                    self.hot.0.store(0, Ordering::Relaxed);
                    tally.time(|| hot_pair(&self.hot.0, hot));
                }
                Loop::SequentialSet => {
                    fill(&self.sequential, 0);
                    tally.time(|| sequential_set(&self.sequential));
                }
                // The loop before has set them.
                Loop::SequentialClear => tally.time(|| sequential_clear(&self.sequential)),
                Loop::RandomClear256K | Loop::RandomClear4M => {
                    let (words, bits) = &self.random[usize::from(which == Loop::RandomClear4M)];
                    fill(words, u64::MAX);
                    tally.time(|| random_clear(words, bits));
                }
                Loop::LineThereAndBack => tally = there_and_back(&Hot(AtomicU64::new(0))),
            }
            tally
        })
    }
}

fn fill(words: &[AtomicU64], value: u64) {
    words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
}

#[inline(always)]
fn swap(word: &AtomicU64, old: u64, new: u64) -> u64 {
    let swapped = word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
    swapped.unwrap_or_else(|found| found)
}

#[inline(never)]
fn hot_cas(word: &AtomicU64, operations: usize) -> usize {
    let mut sum = 0u64;
    for _ in 0..operations {
        let now = word.load(Ordering::Relaxed);
        sum = sum.wrapping_add(swap(word, now, now.wrapping_add(1)));
    }
    black_box(sum);
    operations
}

#[inline(never)]
fn hot_pair(word: &AtomicU64, operations: usize) -> usize {
    let mut sum = 0u64;
    for _ in 0..operations {
        let now = word.load(Ordering::Relaxed);
        let bit = opaque(now.trailing_ones() as usize) as u32 & 63;
        sum = sum.wrapping_add(swap(word, now, now | 1 << bit));
        let now = word.load(Ordering::Relaxed);
        sum = sum.wrapping_add(swap(word, now, now & !(1 << bit)));
    }
    black_box(sum);
    operations
}

#[inline(never)]
fn sequential_set(words: &[AtomicU64]) -> usize {
    let mut set = 0;
    for word in words {
        loop {
            let now = word.load(Ordering::Relaxed);
            if now == u64::MAX {
                break;
            }
            let bit = now.trailing_ones();
            set += usize::from(swap(word, now, now | 1 << bit) == now);
        }
    }
    set
}

#[inline(never)]
fn sequential_clear(words: &[AtomicU64]) -> usize {
    (0..words.len() * 64).map(|bit| clear(words, opaque(bit))).sum()
}

#[inline(never)]
fn random_clear(words: &[AtomicU64], bits: &[u32]) -> usize {
    bits.iter().map(|&bit| clear(words, bit as usize)).sum()
}

/// Pieces of a sample, the least of which counts: in the others one of the two may not have run all the time.
const PIECES: u64 = 16;
/// How often the line goes and comes in a piece.
const ROUND_TRIPS: u64 = 256;
/// So many looks at the word, and the CPU is given to others: to the other thread, where both have one.
const LOOKS: u32 = 1 << 14;

/// Two threads write the numbers from 1 on by turns. What a piece took the one who began. The first piece, for which the other one
/// has yet to begin, does not count.
fn there_and_back(line: &Hot) -> Tally {
    if cpus().len() < 2 {
        return Tally::default();
    }
    let tallies = on_threads(0..2, |_, behind| {
        let pieces = (0..=PIECES).map(|piece| {
            let mut tally = Tally::default();
            tally.time(|| by_turns(&line.0, piece * ROUND_TRIPS, behind));
            tally
        });
        pieces.skip(1).min_by(|one, other| one.cpu_ns.total_cmp(&other.cpu_ns))
    });
    tallies.into_iter().flatten().next().unwrap_or_default()
}

/// Of the round trips of a piece, the first of which this is, writes the first number, or the one behind it, when the number before is there.
#[inline(never)]
fn by_turns(word: &AtomicU64, first: u64, behind: u64) -> usize {
    for before in (first..first + ROUND_TRIPS).map(|trip| 2 * trip + behind) {
        let mut looks = 0_u32;
        while word.load(Ordering::Acquire) != before {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                std::thread::yield_now();
            }
        }
        word.store(before + 1, Ordering::Release);
    }
    ROUND_TRIPS as usize
}

#[inline(always)]
fn clear(words: &[AtomicU64], bit: usize) -> usize {
    let Some(word) = words.get(bit / 64) else { return 0 };
    let now = word.load(Ordering::Relaxed);
    usize::from(swap(word, now, now & !(1 << (bit % 64))) == now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loop_does_what_its_name_says() {
        let hot = AtomicU64::new(0);
        assert_eq!((hot_cas(&hot, 100), hot.load(Ordering::Relaxed)), (100, 100));
        assert_eq!((hot_pair(&hot, 100), hot.load(Ordering::Relaxed)), (100, 100));
        let words: Vec<_> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let all = |value| words.iter().all(|word| word.load(Ordering::Relaxed) == value);
        assert_eq!((sequential_set(&words), all(u64::MAX)), (512, true));
        assert_eq!((sequential_clear(&words), all(0)), (512, true));
        fill(&words, u64::MAX);
        let bits: Vec<u32> = (0..512).rev().collect();
        assert_eq!((random_clear(&words, &bits), all(0)), (512, true));
    }

    /// Each number is written by the one whose it is, and the last one is there.
    #[test]
    fn a_line_goes_and_comes() {
        let line = Hot(AtomicU64::new(0));
        let tally = there_and_back(&line);
        let (timed, all) =
            if cpus().len() < 2 { (0, 0) } else { (ROUND_TRIPS, (1 + PIECES) * ROUND_TRIPS) };
        assert_eq!((tally.operations, line.0.load(Ordering::Relaxed)), (timed, 2 * all));
    }

    #[test]
    fn the_bits_to_clear_are_different_and_all_there() {
        let floor = Floor::new(3, 1);
        for ((words, bits), count) in floor.random.iter().zip(RANDOM) {
            assert_eq!((words.len(), bits.len()), (count, CLEARED));
            fill(words, u64::MAX);
            assert_eq!(random_clear(words, bits), CLEARED);
        }
    }
}
