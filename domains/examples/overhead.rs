//! What domains cost, and what batches gain: `cargo run --release -p woodlot-domains --example overhead`.
//!
//! *Pairs*: an allocation and its free, on one thread and one slot, straight on LLFree, behind one domain, and behind
//! either of two that is the nearest; beside each what domains add to an operation, by the least times, in hot compare-and-swaps (C;
//! target of the first: 0.5). *Batches*: so many base frames from two domains in turn, and back, as `alloc_runs`, and one by one as the
//! FreeBSD paper's baseline has it: the domain iterator, a mutex and an allocation for each (figure 6). All take turns; the
//! times are wall time of 51 rounds.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use woodlot_domains::{DomainId, Domains, Map, Policy, Present, Rounds, Setup};
use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Base4K, Batch, FrameAllocator, FrameId, Init, METADATA_ALIGN, MetadataSize, Order, Owned,
    RawMetadata, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;

type Engine = LLFree<'static, Base4K>;

const ROUNDS: usize = 51;
/// Pairs in a round.
const PAIRS: usize = 20_000;
/// Frames of 1 GiB.
const GIB: usize = 1 << 18;

/// Nanoseconds of each of so many calls.
fn round(calls: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// An allocation and its free, called alike whatever the allocator.
#[inline(never)]
fn pair(zone: &impl FrameAllocator, order: Order, slot: Slot) {
    let request = Request::movable(order, slot);
    let frame = black_box(zone).alloc(black_box(request)).expect("a block");
    zone.free(frame, black_box(order), slot).expect("it is allocated");
}

/// Two domains of 1 GiB, with a hole between them.
fn two() -> Domains<'static, Engine> {
    let of = |start, domain| Present::new(FrameId(start)..FrameId(start + GIB), DomainId(domain));
    let mut ranges = [of(0, 0), of(3 * GIB, 1)];
    let homes = [DomainId(0), DomainId(1)];
    let setup = Setup::new(Map::new(&mut ranges).expect("a map"), 2).at_home(&homes);
    let memory = |bytes: usize| {
        let memory = vec![0u8; bytes + METADATA_ALIGN].leak().as_mut_ptr();
        (memory.wrapping_add(memory.align_offset(METADATA_ALIGN)), bytes)
    };
    let metadata = |_, size: MetadataSize| {
        Ok(RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) })
    };
    // SAFETY: the memory is new, initialised and stays.
    unsafe { setup.make(metadata, Init::Free) }.expect("two domains")
}

/// Median, least and standard deviation.
fn of(mut times: Vec<f64>) -> [f64; 3] {
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
    [times[times.len() / 2], times[0], (squares / times.len() as f64).sqrt()]
}

/// So many frames in runs, and back.
fn runs(machine: &Domains<'_, Engine>, rounds: &Rounds, frames: usize) {
    const NO_RUN: std::ops::Range<FrameId> = FrameId(0)..FrameId(0);
    let (mut out, policy) = ([NO_RUN; 64], Policy::RoundRobin(rounds));
    let request = Request::movable(Order::BASE, Slot(0));
    let count = machine.alloc_runs(request, frames, policy, Batch::All, &mut out).expect("frames");
    out.iter().take(count).for_each(|run| machine.free_range(run.clone(), Slot(0)).expect("ours"));
}

/// The same one by one, each with a lock.
fn singles(
    machine: &Mutex<Domains<'_, Engine>>,
    rounds: &Rounds,
    out: &mut Vec<FrameId>,
    frames: usize,
) {
    let (policy, request) = (Policy::RoundRobin(rounds), Request::movable(Order::BASE, Slot(0)));
    out.clear();
    out.extend((0..frames).map(|_| {
        let machine = machine.lock().expect("nobody panics");
        machine.alloc_by(request, policy).expect("a frame")
    }));
    for &frame in out.iter() {
        machine
            .lock()
            .expect("nobody panics")
            .free(frame, Order::BASE, Slot(0))
            .expect("it is ours");
    }
}

fn main() {
    let config = ZoneConfig::new(GIB, 1);
    let plain = Owned::<Engine>::new(&config, Init::Free).expect("a zone");
    let one = Owned::<Domains<'static, Engine>>::new(&config, Init::Free).expect("a zone");
    let (two, word) = (two(), AtomicU64::new(0));
    println!(
        "ns, median and least{:>12}{:>16}{:>16}{:>16}",
        "LLFree", "one", "first of 2", "second"
    );
    for order in [0, 3, 9].map(Order) {
        let mut times = [const { Vec::new() }; 5];
        for _ in 0..ROUNDS {
            times[0].push(round(PAIRS, || pair(&*plain, order, Slot(0))));
            times[1].push(round(PAIRS, || pair(&*one, order, Slot(0))));
            times[2].push(round(PAIRS, || pair(&two, order, Slot(0))));
            times[3].push(round(PAIRS, || pair(&two, order, Slot(1))));
            times[4].push(round(PAIRS, || {
                let before = word.load(Ordering::Relaxed);
                let swapped =
                    word.compare_exchange(before, before ^ 1, Ordering::AcqRel, Ordering::Relaxed);
                assert!(black_box(swapped).is_ok(), "nobody else changes it");
            }));
        }
        let [plain, one, first, second, swap] = times.map(of);
        print!("pair, order {:<6}", order.0);
        [plain, one, first, second]
            .iter()
            .for_each(|[median, least, _]| print!("{median:>8.1}{least:>8.1}"));
        println!("   C = {:.2} {:.2}", swap[0], swap[1]);
        // A pair is two operations.
        let added = |time: [f64; 3]| (time[1] - plain[1]) / 2.0 / swap[1];
        print!("{:>16}{:>16}", "more, C each", "");
        [one, first, second].iter().for_each(|&time| print!("{:>16.2}", added(time)));
        println!();
    }
    let (rounds, locked, mut out) = (Rounds::new(), Mutex::new(two), Vec::new());
    println!(
        "\nframes, and back: us, median, least, deviation      runs            one by one, locked    ratio"
    );
    for frames in [1, 4, 16, 64, 256, 1024, 4096] {
        let (mut batch, mut single) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let calls = 4096 / frames;
            let machine = locked.lock().expect("nobody panics");
            batch.push(round(calls, || runs(&machine, &rounds, frames)) / 1e3);
            drop(machine);
            single.push(round(calls, || singles(&locked, &rounds, &mut out, frames)) / 1e3);
        }
        let [batch, single] = [batch, single].map(of);
        print!("{frames:>6}{:>32}", "");
        [batch, single].iter().flatten().for_each(|time| print!("{time:>9.3}"));
        println!("{:>9.1}", single[0] / batch[0]);
    }
}
