//! What `bench scale` says of two CPUs, on two CPUs: `cargo run --release -p woodlot-bench --example two_cpus`.
//!
//! ```text
//!   one CPU    allocates ─┐          ┌─ allocates        a word goes there and back,
//!   the other             └─ frees ──┘                   with the number of a frame
//! ```
//!
//! The CPUs call by turns, as the model's do, and say so to each other by one word. A line's *move* is half of what a turn of both takes more
//! where each adds to a second word by one instruction. What a turn takes more than the first word alone, and than the two calls do on one CPU,
//! is divided by that: so many lines moved for each call. *Repeat* is a pair of calls on each CPU, *remote* an allocation on one and its free on the other. *Read*
//! is what a line costs, in moves, that is read and then written by a compare-and-swap: two to the model.

use std::time::Instant;

use woodlot_bench::patterns::on_threads;
use woodlot_bench::statistics::Summary;
use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Base4K, Construct, FrameAllocator, FrameId, Init, Order, Owned, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;

const TURNS: u64 = 1 << 14;
const REPETITIONS: usize = 31;
const ZONE: usize = 1 << 21;

/// A word on lines of its own.
#[repr(align(128))]
struct Word(AtomicU64);

/// What a CPU does in its turn with the number that came, and the number that goes.
type Turn<'a> = &'a (dyn Fn(u64) -> u64 + Sync);

/// ns for a turn of both CPUs.
fn by_turns(turns: [Turn; 2]) -> f64 {
    let word = Word(AtomicU64::new(0));
    let times = on_threads(0..2u64, |_, cpu| {
        let turn = turns[cpu as usize];
        let mut start = Instant::now();
        for round in 0..2 * TURNS {
            // The first half does not count.
            if round == TURNS {
                start = Instant::now();
            }
            // The lower bits are the number of the turn, modulo 2^24.
            let before = (2 * round + cpu) & 0xff_ffff;
            let came = loop {
                let now = word.0.load(Ordering::Acquire);
                if now & 0xff_ffff == before {
                    break now >> 24;
                }
            };
            let goes = turn(came);
            word.0.store((goes << 24) | ((before + 1) & 0xff_ffff), Ordering::Release);
        }
        start.elapsed().as_secs_f64() * 1e9 / TURNS as f64
    });
    times.into_iter().fold(0.0, f64::max)
}

/// ns of a move, and of a pair of calls; the moves of a line that is read and then written, and of a call of *repeat* and *remote*.
fn sample<A: FrameAllocator + Sync>(zone: &A, order: Order) -> [f64; 5] {
    let alloc = |cpu| zone.alloc(Request::movable(order, Slot(cpu))).expect("a block").0 as u64;
    let free = |frame: u64, cpu| {
        zone.free(FrameId(frame as usize), order, Slot(cpu)).expect("it is allocated");
    };
    let pass: Turn = &|came| came;
    let second_word = Word(AtomicU64::new(0));
    let adds: Turn = &|came| {
        let _ = second_word.0.fetch_add(1, Ordering::AcqRel);
        came
    };
    let reads: Turn = &|came| {
        let now = second_word.0.load(Ordering::Relaxed);
        let swapped =
            second_word.0.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Relaxed);
        swapped.expect("it is this CPU's turn");
        came
    };
    let pair = |cpu: usize| {
        move |came: u64| {
            free(alloc(cpu), cpu);
            came
        }
    };
    let (first, second) = (pair(0), pair(1));
    let allocates: Turn = &|_| alloc(0);
    let frees: Turn = &|came| {
        free(came, 1);
        0
    };
    let line = by_turns([pass, pass]);
    let [moved, read] = [adds, reads].map(|turn| (by_turns([turn, turn]) - line) / 2.0);
    let [one, both] = [[&first as Turn, pass], [&first, &second]].map(by_turns);
    let remote = by_turns([allocates, frees]);
    // What the two calls of *remote* take where nothing moves.
    let pair = one - line;
    let [repeat, remote] = [(both - line - 2.0 * pair) / 4.0, (remote - line - pair) / 2.0];
    [moved, pair, read / moved, repeat / moved, remote / moved]
}

fn measure<A: FrameAllocator + Construct + Sync>(name: &str, order: Order) {
    let config = ZoneConfig::new(ZONE, 2);
    let mut found = [const { Vec::new() }; 5];
    for _ in 0..REPETITIONS {
        // Another one each time, so that *repeat* does not begin with what *remote* has left.
        let zone = Owned::<A>::new(&config, Init::Free).expect("a zone");
        let all = sample::<A>(&zone, order);
        found.iter_mut().zip(all).for_each(|(found, one)| found.push(one));
    }
    let of = |at: usize| Summary::of(&found[at]).expect("repetitions").median;
    let [moved, pair, read, repeat, remote] = std::array::from_fn(of);
    println!(
        "{name:<10} {:<3} {moved:>12.1} {pair:>12.1} {read:>8.2} {repeat:>10.2} {remote:>10.2}",
        order.0
    );
}

fn main() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(cpus > 1, "this needs two CPUs");
    println!("medians of {REPETITIONS}; lines for each call");
    println!("engine     order  a move, ns     pair, ns     read     repeat     remote");
    for order in [0, 3, 9].map(Order) {
        measure::<LLFree<'static, Base4K>>("llfree", order);
        measure::<OneWrite<'static, Base4K>>("onewrite", order);
    }
}
