//! A balloon: two guests allocate and free, while a host takes huge frames away from them and gives them back.
//! `cargo run --release -p woodlot-llfree --example balloon [GIB [ROUNDS]]`, by default 8 and 200.
//!
//! ```text
//!   guest, guest    alloc ─▶ is it reclaimed? put memory there ─▶ free
//!   host            soft: marks some ─▶ hard: takes some out ─▶ gives them back ─▶ unmarks
//! ```
//!
//! Everybody claims in a list outside of the zone what it owns, so an overlap is seen. In the end all is given back
//! and counted. A time is that of one call, divided by its huge frames: the median and the least of all rounds, of the
//! thread's CPU time and of the clock. A guest's wait is what one allocation takes. By the clock it contains what other
//! threads ran meanwhile on the same CPU.

use std::fmt;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};
use woodlot_frame::{
    Base4K, Class, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, Init, Order, Owned,
    Reclaim, Reclaiming, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;

type Zone = Owned<LLFree<'static, Base4K>>;

const GUESTS: usize = 2;
/// How long the host keeps what it has taken.
const PAUSE: Duration = Duration::from_micros(200);
const HUGE: Order = Order(Base4K::HUGE_ORDER as u8);

/// What is run.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Huge frames of the zone.
    pub huge_frames: usize,
    /// How often the host takes and gives.
    pub rounds: usize,
}

/// Nanoseconds for each huge frame, a number for each round.
#[derive(Default)]
struct Times {
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

/// What the host measured.
#[derive(Default)]
struct Host {
    soft: Times,
    hard: Times,
    give: Times,
    reclaimed: usize,
}

/// What the guests measured.
#[derive(Default)]
struct Guests {
    /// Nanoseconds of every allocation, by the clock and by the thread's CPU time.
    waits: [Vec<u64>; 2],
    refused: usize,
    put_back: usize,
}

/// What came of it.
pub struct Report {
    plan: Plan,
    alone: Host,
    beside: Host,
    guests: Guests,
    /// Frames that are not free, when everybody has given everything back.
    pub lost: usize,
    /// Frames that somebody got while another one had them.
    pub overlaps: usize,
}

/// The zone, and who owns what in it.
struct Machine {
    zone: Zone,
    claimed: Vec<AtomicBool>,
    overlaps: AtomicUsize,
    enough: AtomicBool,
}

impl Machine {
    fn claim(&self, frames: Range<usize>) {
        let taken = |claim: &&AtomicBool| claim.swap(true, Ordering::Relaxed);
        let overlaps = self.claimed[frames].iter().filter(taken).count();
        self.overlaps.fetch_add(overlaps, Ordering::Relaxed);
    }

    fn disclaim(&self, frames: Range<usize>) {
        self.claimed[frames].iter().for_each(|claim| claim.store(false, Ordering::Relaxed));
    }
}

fn frames_of(frame: FrameId, order: Order) -> Range<usize> {
    frame.0..frame.0 + order.frames()
}

fn frames_of_huge(huge: HugeId) -> Range<usize> {
    frames_of(huge.first::<Base4K>(), HUGE)
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl Times {
    /// Makes a call that says for how many huge frames it was.
    fn measure(&mut self, call: impl FnOnce() -> usize) -> usize {
        let (cpu, wall) = (cpu_ns(), Instant::now());
        let count = call();
        let times = [(cpu_ns() - cpu) as f64, wall.elapsed().as_nanos() as f64];
        if count > 0 {
            let [cpu, wall] = times.map(|ns| ns / count as f64);
            self.cpu.push(cpu);
            self.wall.push(wall);
        }
        count
    }
}

/// Takes and gives for so many rounds.
fn host(machine: &Machine, rounds: usize) -> Host {
    let zone = &machine.zone;
    let mut found = Host::default();
    let some = vec![HugeId(0); zone.zone().frames / Base4K::HUGE_FRAMES / 8];
    let (mut marked, mut taken) = (some.clone(), some);
    for _ in 0..rounds {
        let count = found.soft.measure(|| zone.reclaim(Reclaim::Soft, &mut marked));
        found.reclaimed += count;
        let marked = &marked[..count];
        let count = found.hard.measure(|| zone.reclaim(Reclaim::Hard, &mut taken));
        found.reclaimed += count;
        let taken = &taken[..count];
        taken.iter().for_each(|&huge| machine.claim(frames_of_huge(huge)));
        thread::sleep(PAUSE);
        taken.iter().for_each(|&huge| machine.disclaim(frames_of_huge(huge)));
        found.give.measure(|| {
            zone.give(taken, HugeFlags::BACKED).expect("they are offline");
            count
        });
        // Where a guest has not put memory, the host does.
        for &huge in marked {
            if zone.flags(huge).reclaimed && zone.offline(huge, 1).is_ok() {
                zone.give(&[huge], HugeFlags::BACKED).expect("it is offline");
            }
        }
    }
    found
}

/// Allocates and frees until the host has enough.
fn guest(machine: &Machine, number: usize) -> Guests {
    let (zone, slot) = (&machine.zone, Slot(number));
    let mut rng = Rng::with_seed(number as u64);
    let mut found = Guests::default();
    let mut owned: Vec<(FrameId, Order)> = Vec::new();
    let most = zone.zone().frames / 4 / GUESTS;
    let mut frames = 0;
    while !machine.enough.load(Ordering::Acquire) {
        let order = if rng.u8(0..4) == 0 { HUGE } else { Order(rng.u8(0..9)) };
        if frames + order.frames() <= most {
            let request = Request::new(order, Class(rng.u8(0..4)), slot);
            let (cpu, wall) = (cpu_ns(), Instant::now());
            let block = zone.alloc(request);
            let waits = [wall.elapsed().as_nanos() as u64, cpu_ns() - cpu];
            found.waits.iter_mut().zip(waits).for_each(|(all, ns)| all.push(ns));
            let Ok(frame) = block else {
                found.refused += 1;
                continue;
            };
            let huge = frame.huge::<Base4K>();
            if zone.flags(huge).reclaimed {
                zone.set_backed(huge).expect("it is in the zone");
                found.put_back += 1;
            }
            machine.claim(frames_of(frame, order));
            frames += order.frames();
            owned.push((frame, order));
        }
        while frames > most / 2 || rng.bool() {
            if owned.is_empty() {
                break;
            }
            let (frame, order) = owned.swap_remove(rng.usize(..owned.len()));
            machine.disclaim(frames_of(frame, order));
            zone.free(frame, order, slot).expect("it is in use");
            frames -= order.frames();
        }
    }
    for (frame, order) in owned {
        machine.disclaim(frames_of(frame, order));
        zone.free(frame, order, slot).expect("it is in use");
    }
    found
}

/// Runs the host alone, and beside two guests.
pub fn run(plan: Plan) -> Result<Report, Box<dyn std::error::Error>> {
    let frames = plan.huge_frames * Base4K::HUGE_FRAMES;
    let machine = Machine {
        zone: Owned::new(&ZoneConfig::new(frames, GUESTS), Init::Free)?,
        claimed: (0..frames).map(|_| AtomicBool::new(false)).collect(),
        overlaps: AtomicUsize::new(0),
        enough: AtomicBool::new(false),
    };
    let alone = host(&machine, plan.rounds);
    let (beside, guests) = thread::scope(|scope| {
        let machine = &machine;
        let guests = [0, 1].map(|number| scope.spawn(move || guest(machine, number)));
        let beside = host(machine, plan.rounds);
        machine.enough.store(true, Ordering::Release);
        let mut all = Guests::default();
        for guest in guests {
            let one = guest.join().expect("a guest ends by itself");
            all.waits.iter_mut().zip(one.waits).for_each(|(all, more)| all.extend(more));
            all.refused += one.refused;
            all.put_back += one.put_back;
        }
        (beside, all)
    });
    for slot in (0..GUESTS).map(Slot) {
        machine.zone.drain(slot)?;
    }
    let lost = frames - machine.zone.stats().free_frames;
    let overlaps = machine.overlaps.into_inner();
    Ok(Report { plan, alone, beside, guests, lost, overlaps })
}

/// A number below which this part of them lies.
fn part<T: Copy + PartialOrd + Default>(numbers: &[T], part: f64) -> T {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("a number"));
    let at = (sorted.len().saturating_sub(1) as f64 * part) as usize;
    sorted.get(at).copied().unwrap_or_default()
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cpu, wall] = [&self.cpu, &self.wall].map(|ns| (part(ns, 0.5), part(ns, 0.0)));
        write!(f, "{:8.1} {:8.1} {:8.1} {:8.1}", cpu.0, cpu.1, wall.0, wall.1)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { plan, alone, beside, guests, .. } = self;
        let gib = plan.huge_frames as f64 / 512.0;
        writeln!(f, "{gib} GiB, {} rounds; ns per huge frame", plan.rounds)?;
        writeln!(f, "                              CPU             clock")?;
        writeln!(f, "                     median    least   median    least")?;
        for (name, host) in [("host alone", alone), ("two guests", beside)] {
            for (what, times) in [("soft", &host.soft), ("hard", &host.hard), ("give", &host.give)]
            {
                writeln!(f, "{name:10} {what:6}  {times}")?;
            }
        }
        let Guests { waits, refused, put_back } = guests;
        writeln!(f, "reclaimed beside the guests: {} huge frames", beside.reclaimed)?;
        writeln!(f, "guests: {} allocations, {refused} refused", waits[0].len())?;
        writeln!(f, "memory put there by a guest: {put_back} times")?;
        for (name, waits) in ["clock", "CPU"].into_iter().zip(waits) {
            let [median, most, longest] = [0.5, 0.9999, 1.0].map(|share| part(waits, share));
            write!(f, "a guest's wait, {name}: median {median} ns, 99.99 % {most} ns, ")?;
            writeln!(f, "longest {longest} ns")?;
        }
        write!(f, "lost: {} frames; overlaps: {}", self.lost, self.overlaps)
    }
}

fn main() -> ExitCode {
    let mut plan = Plan { huge_frames: 8 * 512, rounds: 200 };
    let mut arguments = std::env::args().skip(1);
    for (what, unit, number) in
        [("GIB", 512, &mut plan.huge_frames), ("ROUNDS", 1, &mut plan.rounds)]
    {
        let Some(given) = arguments.next() else { break };
        match given.parse::<u16>() {
            Ok(count @ 1..) => *number = usize::from(count) * unit,
            _ => {
                eprintln!("{what} must be a number from 1 to 65535, not {given:?}");
                return ExitCode::from(2);
            }
        }
    }
    match run(plan) {
        Ok(report) => {
            println!("{report}");
            ExitCode::from((report.lost > 0 || report.overlaps > 0) as u8)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
