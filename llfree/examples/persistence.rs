//! What write-backs and intents cost: `cargo run --release -p woodlot-llfree --example persistence`.
//!
//! With a kind, an order and a number it makes so many pairs and nothing else, for callgrind: `eadr 0 1000`, or
//! `eadr-intents`, `adr`, `adr-intents`.
//!
//! A pair is an allocation of order 0 and its free, on one thread and one slot. Each half changes one row, so with ADR
//! a pair writes two lines back and makes two fences; a free of a part of a huge frame that the slot does not hold
//! writes two lines back before one fence. The floors change words that nothing else uses, and write them back the same
//! way. All take turns, and the times are wall time, the median and the least of the rounds. The memory is ordinary:
//! persistent memory is slower, and what it adds it adds to floor and allocator alike.
//!
//! With intents each half stores to the slot's record before it changes the row; with ADR that line is written back
//! and fenced as well, so a pair has four of each.

use std::env::args;
use std::hint::black_box;
use std::time::Instant;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Adr, Base4K, FrameAllocator, Init, Intents, Order, Owned, Persistence, Request, Slot, Volatile,
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

fn pair<P: Persistence>(zone: &LLFree<'_, Base4K, P>, order: Order) {
    let request = Request::movable(order, Slot(0));
    let frame = black_box(zone).alloc(black_box(request)).expect("a frame");
    zone.free(frame, black_box(order), Slot(0)).expect("it is allocated");
}

type Zone<P> = Owned<LLFree<'static, Base4K, P>>;

/// A zone of 1 GiB.
fn zone<P: Persistence>() -> Zone<P> {
    Owned::new(&ZoneConfig::new(1 << 18, 1), Init::Free).expect("a zone")
}

fn pairs_of<P: Persistence>(order: Order, pairs: usize) {
    let zone = zone::<P>();
    (0..pairs).for_each(|_| pair(&zone, order));
}

/// So many pairs of an order, and nothing else.
fn only(kind: &str, order: &str, pairs: &str) {
    let order = Order(order.parse().expect("an order"));
    let pairs = pairs.parse().expect("a number of pairs");
    match kind {
        "eadr" => pairs_of::<Volatile>(order, pairs),
        "eadr-intents" => pairs_of::<Intents<Volatile>>(order, pairs),
        "adr" => pairs_of::<Adr>(order, pairs),
        "adr-intents" => pairs_of::<Intents<Adr>>(order, pairs),
        other => panic!("{other} is no kind"),
    }
}

/// Pairs of every order, without intents and with.
fn orders() {
    let (plain, named) = (zone::<Volatile>(), zone::<Intents<Volatile>>());
    println!("\nns for a pair{:>17}{:>18}", "without intents", "with intents");
    for order in (0..=10).map(Order) {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            times[0].push(round(|| pair(&plain, order)));
            times[1].push(round(|| pair(&named, order)));
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let [[a, b], [c, d]] = times.map(|times| [times[ROUNDS / 2], times[0]]);
        println!("order {:>2}{a:>13.1}{b:>9.1}{c:>10.1}{d:>9.1}", order.0);
    }
}

fn main() {
    let arguments: Vec<String> = args().skip(1).collect();
    if let [kind, order, pairs] = arguments.as_slice() {
        return only(kind, order, pairs);
    }
    let Some(adr) = Adr::detect() else {
        println!("this processor has no write-back that is known here");
        return;
    };
    let (plain, named) = (zone::<Volatile>(), zone::<Intents<Volatile>>());
    let (persistent, both) = (zone::<Adr>(), zone::<Intents<Adr>>());
    let order = Order::BASE;
    let lines = [const { Line(AtomicU64::new(0)) }; 2];
    let [first, second] = &lines;
    let contenders: [(&str, &dyn Fn() -> f64); 8] = [
        ("floor: an uncontended swap", &|| round(|| swap(&first.0))),
        ("no write-back: repeat pair", &|| round(|| pair(&plain, order))),
        ("no write-back, intents: repeat pair", &|| round(|| pair(&named, order))),
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
        ("ADR: repeat pair", &|| round(|| pair(&persistent, order))),
        ("ADR, intents: repeat pair", &|| round(|| pair(&both, order))),
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
    orders();
}
