//! What `bench scale` says of two CPUs, on two CPUs: `cargo run --release -p woodlot-bench --example two_cpus`.
//!
//! ```text
//!   one CPU    allocates ─┐          ┌─ allocates        a word goes there and back,
//!   the other             └─ frees ──┘                   with the number of a frame
//! ```
//!
//! The CPUs call by turns, as the model's do, and say so to each other by one word. A line's move is half of what a turn of both takes more
//! where both add to a second word. What a turn takes more than the first word alone, and than the two calls do on one CPU, is divided by that: so
//! many lines moved. *Repeat* is a pair of calls on each CPU, *remote* an allocation on one and a free of a block of some time before on the other.

use std::collections::VecDeque;
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
/// So many blocks are on the way from one CPU to the other: the list of `bench scale`.
const LIST: usize = 32;
const ZONE: usize = 1 << 21;

/// A word on lines of its own.
#[repr(align(128))]
struct Word(AtomicU64);

/// What a CPU does in its turn with the number that came, and the number that goes.
type Turn<'a> = &'a (dyn Fn(&mut VecDeque<FrameId>, u64) -> u64 + Sync);

/// ns for a turn of both CPUs.
fn by_turns(turns: [Turn; 2]) -> f64 {
    let word = Word(AtomicU64::new(0));
    let times = on_threads(0..2u64, |_, cpu| {
        let turn = turns[cpu as usize];
        let mut held = VecDeque::with_capacity(2 * LIST);
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
            let goes = turn(&mut held, came);
            word.0.store((goes << 24) | ((before + 1) & 0xff_ffff), Ordering::Release);
        }
        start.elapsed().as_secs_f64() * 1e9 / TURNS as f64
    });
    times.into_iter().fold(0.0, f64::max)
}

fn measure<A: FrameAllocator + Construct + Sync>(name: &str, order: Order) {
    let config = ZoneConfig::new(ZONE, 2);
    let zone = Owned::<A>::new(&config, Init::Free).expect("a zone");
    let alloc = |cpu| zone.alloc(Request::movable(order, Slot(cpu))).expect("a block").0 as u64;
    let free = |frame, cpu| zone.free(frame, order, Slot(cpu)).expect("it is allocated");
    let pass: Turn = &|_, came| came;
    let second_word = Word(AtomicU64::new(0));
    let adds: Turn = &|_, came| {
        let count = second_word.0.load(Ordering::Relaxed);
        let _ =
            second_word.0.compare_exchange(count, count + 1, Ordering::AcqRel, Ordering::Relaxed);
        came
    };
    let pair = |cpu: usize| {
        move |_: &mut VecDeque<FrameId>, came: u64| {
            free(FrameId(alloc(cpu) as usize), cpu);
            came
        }
    };
    let (first, second) = (pair(0), pair(1));
    let allocates: Turn = &|_, _| alloc(0);
    let frees: Turn = &|held, came| {
        held.push_back(FrameId(came as usize));
        if held.len() > LIST {
            held.pop_front().into_iter().for_each(|frame| free(frame, 1));
        }
        0
    };
    let mut found = [const { Vec::new() }; 4];
    for _ in 0..REPETITIONS {
        let line = by_turns([pass, pass]);
        let [one, both] = [[&first as Turn, pass], [&first, &second]].map(by_turns);
        let remote = by_turns([allocates, frees]);
        // A pair on one CPU is what the two calls of *remote* take where nothing moves.
        let (pair, moved) = (one - line, (by_turns([adds, adds]) - line) / 2.0);
        found[0].push(moved);
        found[1].push(pair);
        found[2].push((both - line - 2.0 * pair) / moved / 4.0);
        found[3].push((remote - line - pair) / moved / 2.0);
    }
    let of = |at: usize| Summary::of(&found[at]).expect("repetitions").median;
    println!(
        "{name:<10} {:<3} {:>12.1} {:>12.1} {:>14.2} {:>14.2}",
        order.0,
        of(0),
        of(1),
        of(2),
        of(3)
    );
}

fn main() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(cpus > 1, "this needs two CPUs");
    println!("medians of {REPETITIONS}; lines for each call");
    println!("engine     order    a move, ns     pair, ns         repeat         remote");
    for order in [0, 3, 9].map(Order) {
        measure::<LLFree<'static, Base4K>>("llfree", order);
        measure::<OneWrite<'static, Base4K>>("onewrite", order);
    }
}
