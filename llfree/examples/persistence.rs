//! What write-backs cost: `cargo run --release -p woodlot-llfree --example persistence`.
//!
//! A pair is an allocation of order 0 and its free, on one thread and one slot. Each half changes one row, so with ADR
//! a pair writes two lines back and makes two fences; a free of a part of a huge frame that the slot does not hold
//! writes two lines back before one fence. The floors change words that nothing else uses, and write them back the same
//! way. All take turns, and the times are wall time, the median and the least of the rounds. The memory is ordinary:
//! persistent memory is slower, and what it adds it adds to floor and allocator alike.

use std::hint::black_box;
use std::time::Instant;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Adr, Base4K, FrameAllocator, Init, Order, Owned, Persistence, Request, Slot, Volatile,
    ZoneConfig,
};
use woodlot_llfree::LLFree;

/// Rounds of each, and pairs in a round.
const ROUNDS: usize = 51;
const PAIRS: usize = 20_000;

/// A word in a cache line of its own.
#[repr(align(64))]
struct Line(AtomicU64);

/// Nanoseconds of a pair.
fn round(pair: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..PAIRS).for_each(|_| pair());
    start.elapsed().as_nanos() as f64 / PAIRS as f64
}

/// Changes a word as a swap of the allocator does.
fn swap(word: &AtomicU64) {
    let before = word.load(Ordering::Relaxed);
    let swapped = word.compare_exchange(before, before ^ 1, Ordering::AcqRel, Ordering::Relaxed);
    assert!(black_box(swapped).is_ok(), "nobody else changes it");
}

fn pair<P: Persistence>(zone: &LLFree<'_, Base4K, P>) {
    let request = Request::movable(Order::BASE, Slot(0));
    let frame = black_box(zone).alloc(black_box(request)).expect("a frame");
    zone.free(frame, black_box(Order::BASE), Slot(0)).expect("it is allocated");
}

fn main() {
    let Some(adr) = Adr::detect() else {
        println!("this processor has no write-back that is known here");
        return;
    };
    let config = ZoneConfig::new(1 << 18, 1);
    let plain = Owned::<LLFree<Base4K, Volatile>>::new(&config, Init::Free).expect("a zone");
    let persistent = Owned::<LLFree<Base4K, Adr>>::new(&config, Init::Free).expect("a zone");
    let lines = [const { Line(AtomicU64::new(0)) }; 2];
    let [first, second] = &lines;
    let contenders: [(&str, &dyn Fn() -> f64); 5] = [
        ("no write-back: repeat pair", &|| round(|| pair(&plain))),
        ("floor: two swaps, two write-backs, one fence", &|| {
            round(|| {
                lines.iter().for_each(|line| swap(&line.0));
                lines.iter().for_each(|line| adr.write_back(&line.0));
                adr.fence();
            })
        }),
        ("floor: swap, write-back, fence, twice on one line", &|| {
            round(|| {
                for _ in 0..2 {
                    swap(&first.0);
                    adr.write_back(&first.0);
                    adr.fence();
                }
            })
        }),
        ("floor: swap, write-back, fence, on each of two lines", &|| {
            round(|| {
                for line in [first, second] {
                    swap(&line.0);
                    adr.write_back(&line.0);
                    adr.fence();
                }
            })
        }),
        ("ADR: repeat pair", &|| round(|| pair(&persistent))),
    ];
    let mut times = contenders.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, contender), times) in contenders.iter().zip(&mut times) {
            times.push(contender());
        }
    }
    println!("{:?}, ns for a pair{:>36}{:>9}", adr.instruction(), "median", "least");
    for ((name, _), times) in contenders.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name:<55}{:>7.1}{:>9.1}", times[ROUNDS / 2], times[0]);
    }
}
