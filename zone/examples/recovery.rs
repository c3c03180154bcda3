//! How long a zone takes to open: `cargo run --release -p woodlot-zone --example recovery [GIB] [REPETITIONS]`.
//!
//! The zone has 4 KiB frames, all allocated one by one, every second one freed again, so that every row has to be
//! looked at. Besides, the time of a compare-and-swap, which other machines' figures can be scaled by.

use std::alloc::{Layout, alloc_zeroed};
use std::fmt::{self, Display, Formatter};
use std::hint::{black_box, spin_loop};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use woodlot_frame::{
    Base4K, FrameAllocator, FrameId, Geometry, Init, Order, Request, Slot, ZoneConfig,
};
use woodlot_zone::{Check, Closed, Memory, Opened, Opening, PAGE, Shared, Zone};

type Found<'a> = (Zone<'a, Base4K, Shared>, Opened);

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let (gib, repetitions) = (args.next().unwrap_or(128), args.next().unwrap_or(51));
    let config = ZoneConfig::new(gib << (30 - Base4K::BASE_SHIFT), 2);
    let len = woodlot_zone::Layout::of::<Base4K>(&config).expect("a zone").len;
    let layout = Layout::from_size_align(len, PAGE).expect("it fits");
    // SAFETY: the layout has a size; the memory is never freed.
    let start = unsafe { alloc_zeroed(layout) };
    // SAFETY: it was just allocated, for ever.
    let memory = || unsafe { Memory::new(start, len) }.expect("it is aligned");
    println!("{gib} GiB, metadata {} KiB, medians of {repetitions}", len >> 10);
    println!("compare-and-swap       {:8.2} ns", compare_and_swap());

    // SAFETY: nobody else has the memory.
    let zone = unsafe { Zone::<Base4K, _>::format(memory(), &config, Init::Allocated, Shared) };
    let zone = zone.expect("a zone");
    for frame in (0..config.frames).step_by(2) {
        zone.free(FrameId(frame), Order::BASE, Slot(0)).expect("it is allocated");
    }
    let free = zone.stats().free_frames;

    // SAFETY: the zone before is not used any more.
    let open = |check| unsafe { Zone::<Base4K, _>::open(memory(), None, check, Shared) };
    let dirty = Times::of(repetitions, || {}, || timed(|| open(Check::Quick).expect("it opens")));
    println!("dirty, one thread      {dirty}");
    let two = Times::of(repetitions, || {}, || two_threads_open(memory()));
    let [median, least] = [dirty.median / two.median, dirty.least / two.least];
    println!("dirty, two threads     {two}: {median:.2} times as fast, least {least:.2}");
    let close = || assert_eq!(open(Check::Quick).expect("it opens").0.close(), Ok(Closed::Clean));
    for (name, check) in
        [("clean                 ", Check::Quick), ("clean, all compared   ", Check::Full)]
    {
        let clean = Times::of(repetitions, close, || timed(|| open(check).expect("it opens")));
        println!("{name} {clean}");
    }

    let (zone, _) = open(Check::Quick).expect("it opens");
    assert_eq!(zone.stats().free_frames, free);
    zone.alloc(Request::movable(Order::BASE, Slot(1))).expect("half of it is free");
}

/// The second thread is there already, and waits for something to do.
fn two_threads_open(memory: Memory<'static>) -> (Found<'static>, Duration) {
    let opening = OnceLock::new();
    let is_there = AtomicU64::new(0);
    let start = thread::scope(|scope| {
        scope.spawn(|| {
            is_there.store(1, Ordering::Release);
            while opening.get().is_none() {
                spin_loop();
            }
            opening.get().into_iter().for_each(Opening::help);
        });
        while is_there.load(Ordering::Acquire) == 0 {
            spin_loop();
        }
        let start = Instant::now();
        // SAFETY: the zone before is not used any more.
        let begin = unsafe { Opening::begin(memory, None, Check::Quick, Shared) };
        opening.get_or_init(|| begin.expect("it opens")).help();
        start
    });
    let opening = opening.into_inner().expect("it was begun");
    let opened = opening.finish().expect("it opens");
    (opened, start.elapsed())
}

/// Times of `what` in ms, each after `before`: the median and the least.
struct Times {
    median: f64,
    least: f64,
}

impl Times {
    fn of<T>(repetitions: usize, before: impl Fn(), what: impl Fn() -> (T, Duration)) -> Times {
        let one = |_| {
            before();
            what().1.as_secs_f64() * 1e3
        };
        let mut times: Vec<f64> = (0..repetitions.max(1)).map(one).collect();
        times.sort_by(f64::total_cmp);
        let [first, .., median] = [0, 0, times.len() / 2].map(|at| times.get(at).copied());
        Times { median: median.unwrap_or_default(), least: first.unwrap_or_default() }
    }
}

impl Display for Times {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:8.3} ms, least {:.3} ms", self.median, self.least)
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = black_box(what());
    (done, start.elapsed())
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
