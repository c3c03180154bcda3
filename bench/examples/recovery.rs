//! How long a zone takes to open: `cargo run --release -p woodlot-bench --example recovery [GIB] [REPETITIONS]`.
//!
//! The zone has 4 KiB frames, of which a random half is allocated. Besides, the time of a compare-and-swap, which
//! other machines' figures can be scaled by.

use std::hint::black_box;
use std::time::Instant;

use woodlot_bench::recovery::measure;
use woodlot_bench::size::Size;
use woodlot_bench::statistics::Summary;
use woodlot_frame::atomics::{AtomicU64, Ordering};

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let (gib, repetitions) = (args.next().unwrap_or(128), args.next().unwrap_or(51));
    println!("{gib} GiB, medians of {repetitions}");
    println!("compare-and-swap       {:8.2} ns", compare_and_swap());
    let found = measure(Size::gib(gib as u64), repetitions.max(1), 1).expect("it opens");
    for (name, times) in [
        ("dirty, one thread     ", &found.dirty),
        ("dirty, two threads    ", &found.dirty_two),
        ("clean                 ", &found.clean),
        ("clean, all compared   ", &found.clean_compared),
    ] {
        let Summary { median, min, .. } = Summary::of(times).expect("there is one repetition");
        println!("{name} {:8.3} ms, least {:.3} ms", median / 1e3, min / 1e3);
    }
    let of = |times| Summary::of(times).expect("there is one repetition");
    let (one, two) = (of(&found.dirty), of(&found.dirty_two));
    println!(
        "two threads are {:.2} times as fast, least {:.2}",
        one.median / two.median,
        one.min / two.min
    );
}

/// One on a word that nobody else uses, in ns: the least of several runs.
fn compare_and_swap() -> f64 {
    const SWAPS: u64 = 1 << 20;
    let word = AtomicU64::new(0);
    let run = || {
        let start = Instant::now();
        for value in 0..SWAPS {
            let swap = word.compare_exchange(value, value + 1, Ordering::AcqRel, Ordering::Relaxed);
            let _ = black_box(swap);
        }
        word.store(0, Ordering::Relaxed);
        start.elapsed().as_secs_f64() * 1e9 / SWAPS as f64
    };
    (0..9).map(|_| run()).fold(f64::INFINITY, f64::min)
}
