//! `half ENGINE…`: pairs of an allocation and a free of a base frame, where half of 8 GiB is allocated
//! before: the first half in one go, or every frame by the toss of a coin; in multiples of hot CAS.

use std::process::ExitCode;

use woodlot_bench::clock::Tally;
use woodlot_bench::contender::{Contender, Contract};
use woodlot_bench::engine::{Engine, Visit};
use woodlot_bench::floor::{Floor, Loop};
use woodlot_bench::random::Random;
use woodlot_frame::{Base4K, Construct, FrameAllocator, FrameId, Order, Slot};

const FRAMES: usize = 8 << 18;
const PAIRS: usize = 1 << 20;
const REPETITIONS: usize = 9;

struct Half;

impl Visit for Half {
    /// CPU time of a pair in nanoseconds, by what was allocated before: in a row, at random.
    type Output = [f64; 2];

    fn contract<A>(self) -> [f64; 2]
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        measure::<Contract<A>>()
    }

    fn foreign<C: Contender + 'static>(self) -> [f64; 2] {
        measure::<C>()
    }
}

fn measure<C: Contender>() -> [f64; 2] {
    [false, true].map(|random| {
        let zone = C::new(FRAMES, 1).expect("the machine has the memory");
        allocate_half(&zone, random);
        let mut times: Vec<f64> = (0..REPETITIONS).map(|_| pairs(&zone)).collect();
        times.sort_by(f64::total_cmp);
        times[REPETITIONS / 2]
    })
}

fn allocate_half<C: Contender>(zone: &C, random: bool) {
    let alloc = || zone.alloc(Order(0), Slot(0)).expect("there is room");
    let blocks: Vec<FrameId> =
        (0..if random { FRAMES } else { FRAMES / 2 }).map(|_| alloc()).collect();
    let mut chosen = Random::new(1);
    for block in blocks.into_iter().filter(|_| random && chosen.bits() & 1 == 0) {
        assert!(zone.free(block, Order(0), Slot(0)));
    }
}

fn pairs<C: Contender>(zone: &C) -> f64 {
    let mut tally = Tally::default();
    tally.time(|| {
        let pair = |_: &usize| {
            let frame = zone.alloc(Order(0), Slot(0)).expect("there is room");
            zone.free(frame, Order(0), Slot(0))
        };
        (0..PAIRS).filter(pair).count()
    });
    tally.cpu()
}

fn main() -> ExitCode {
    let engines: Result<Vec<Engine>, String> =
        std::env::args().skip(1).map(|name| name.parse()).collect();
    let engines = match engines {
        Ok(engines) if !engines.is_empty() => engines,
        _ => {
            eprintln!("usage: half ENGINE…");
            return ExitCode::from(2);
        }
    };
    let mut floor = Floor::new(1, 1);
    floor.sample();
    let hot = Loop::ALL.iter().position(|&which| which == Loop::HotCas).expect("it is one");
    for engine in engines {
        let unit = floor.sample()[hot].cpu();
        if let Some([row, random]) = engine.visit(Order(0), Half) {
            println!(
                "{engine:12} C {unit:.2} ns; in a row {row:.1} ns, {:.1} C; at random {random:.1} \
                 ns, {:.1} C",
                row / unit,
                random / unit
            );
        }
    }
    ExitCode::SUCCESS
}
