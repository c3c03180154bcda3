//! What is measured, and how much of it.

use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::time::Instant;

use woodlot_bench::Failure;
use woodlot_bench::batches;
use woodlot_bench::check::{self, Effort};
use woodlot_bench::clock::process_cpu_seconds;
use woodlot_bench::dispersion::dispersion;
use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::frag::{self, FragSetup};
use woodlot_bench::measure::{Measured, Options, Run, Subject, measure};
use woodlot_bench::output::{Machine, ProgressBar, note, progress};
use woodlot_bench::patterns::{Pattern, Setup};
use woodlot_bench::recovery::{self, Recovery};
use woodlot_bench::size::Size;
use woodlot_frame::{Base4K, Order};
use woodlot_llfree::LLFree;
use woodlot_trace::shipped;

use super::data::{
    Crashes, Data, FORMAT, FloorLoop, Form, Fragmented, Held, Moment, Openings, Replayed, Timed,
};
use super::freebsd;
use super::heaps;
use super::kernel::Kernel;
use super::load::measure_load;
use super::papers;
use super::scope::{BUDDIES, BURST_ORDER, BURSTS, ENGINES, LISTS, thread_counts};
use super::words::threads_of;
#[cfg(target_os = "linux")]
use crate::crash;
use crate::replay::{self, Plan, Row, Side, ZoneLayout};

/// How much of everything.
struct Scale {
    memory: Size,
    repetitions: usize,
    operations: usize,
    frag_memory: Size,
    /// Zones that are started anew.
    starts_gib: &'static [u64],
    /// The zone that is opened again and again, and how often.
    opened: (Size, usize),
    /// How often a process is killed, and how many there are at once.
    kills: usize,
    processes: RangeInclusive<usize>,
    /// The zone whose state is scanned: each access costs two signals.
    scanned: Size,
    /// How often batches of pages are measured.
    batches: usize,
    freebsd: freebsd::Effort,
    heaps: heaps::Effort,
    targets: Option<Effort>,
}

impl Scale {
    fn of(form: Form) -> Scale {
        let effort = |repetitions, quick| Effort { repetitions, quick, seed: 1 };
        match form {
            Form::Smoke => Scale {
                memory: Size::gib(1),
                repetitions: 2,
                operations: 1 << 12,
                frag_memory: Size::gib(1),
                starts_gib: &[1, 2],
                opened: (Size::gib(1), 2),
                kills: 6,
                processes: 2..=2,
                scanned: Size::mib(32),
                batches: 2,
                freebsd: freebsd::Effort { builds: 2, wired: (Size::mib(8), 2) },
                heaps: heaps::Effort {
                    repetitions: 2,
                    operations: 1 << 12,
                    memory: Size::mib(4),
                    bytes: &[16, 4096],
                    watched: 16,
                    counts: false,
                },
                targets: None,
            },
            Form::Quick => Scale {
                memory: Size::gib(8),
                repetitions: 5,
                operations: 1 << 17,
                frag_memory: Size::gib(8),
                starts_gib: &[1, 8, 32, 128],
                opened: (papers::SURVIVING, 21),
                kills: 100,
                processes: 1..=4,
                scanned: Size::mib(128),
                batches: 51,
                freebsd: freebsd::Effort { builds: 10, wired: (Size::mib(256), 5) },
                heaps: heaps::Effort {
                    repetitions: 5,
                    operations: 1 << 17,
                    memory: Size::mib(32),
                    bytes: &[16, 64, 256, 1024, 4096],
                    watched: 64,
                    counts: true,
                },
                targets: Some(effort(3, true)),
            },
            Form::Full => Scale {
                memory: Size::gib(32),
                repetitions: 9,
                operations: 1 << 20,
                frag_memory: Size::gib(125),
                starts_gib: &[1, 8, 32, 128, 512],
                opened: (papers::SURVIVING, 51),
                kills: 1000,
                processes: 1..=8,
                scanned: Size::mib(256),
                batches: 501,
                freebsd: freebsd::Effort { builds: 10, wired: (Size::gib(1), 10) },
                heaps: heaps::Effort {
                    repetitions: 9,
                    operations: 1 << 20,
                    memory: Size::mib(64),
                    bytes: &[16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
                    watched: 128,
                    counts: true,
                },
                targets: Some(effort(7, false)),
            },
        }
    }
}

/// Whose state is looked at.
const DISPERSED: [Engine; 6] =
    [Engine::Llfree, Engine::Onewrite, Engine::Nbbs, Engine::Nbbs4, Engine::Linux, Engine::ListCas];
/// The zone of LLFree's table 1.
const PAPER_ZONE: (u64, usize) = (128, 52);
/// The patterns of LLFree's section 5.1.
const PATTERNS: [Pattern; 3] = [Pattern::Bulk, Pattern::Random, Pattern::Repeat];

/// Subjects that take turns in one run.
struct Group {
    name: String,
    subjects: Vec<Subject>,
}

/// What is timed.
fn groups(scale: &Scale, cpus: usize) -> Vec<Group> {
    let subject = |engine, pattern, order, threads: usize| {
        let (memory, operations, slots) = (scale.memory, scale.operations, threads);
        let setup = Setup::new(pattern, Order(order));
        // Constant occupancy holds blocks of five orders, as much memory of each.
        let burst = setup.burst.min((memory.frames() >> order) / (8 * threads));
        let setup = Setup { threads, slots, memory, operations, burst, ..setup };
        Subject { engine, setup }
    };
    let mut groups = Vec::new();
    for pattern in PATTERNS {
        for threads in thread_counts(cpus) {
            let mut subjects = Vec::new();
            for engine in ENGINES {
                subjects.extend([0, 9].map(|order| subject(engine, pattern, order, threads)));
            }
            subjects.extend(LISTS.map(|engine| subject(engine, pattern, 0, threads)));
            groups.push(Group { name: format!("{pattern}, {}", threads_of(threads)), subjects });
        }
        let threads = cpus.min(8);
        for orders in [[1, 2, 3, 4].as_slice(), &[5, 6, 7, 8, 10]] {
            let by_engine =
                |order: &u8| ENGINES.map(|engine| subject(engine, pattern, *order, threads));
            let subjects = orders.iter().flat_map(by_engine).collect();
            let name = format!("{pattern}, orders {} to {}", orders[0], orders[orders.len() - 1]);
            groups.push(Group { name, subjects });
        }
    }
    for pattern in BURSTS {
        for threads in thread_counts(cpus) {
            let all: &[u8] = if threads == cpus { pattern.orders() } else { &[BURST_ORDER] };
            let by_engine =
                |order: &u8| BUDDIES.map(|engine| subject(engine, pattern, *order, threads));
            let subjects = all.iter().flat_map(by_engine).collect();
            groups.push(Group { name: format!("{pattern}, {}", threads_of(threads)), subjects });
        }
    }
    for &gib in scale.starts_gib {
        let mut start = subject(Engine::Llfree, Pattern::Init, 0, 1);
        start.setup.memory = Size::gib(gib);
        groups.push(Group { name: format!("starting {gib} GiB"), subjects: vec![start] });
    }
    groups
}

/// Measures everything.
///
/// # Errors
/// When a shipped trace cannot be replayed, which is a defect. What an engine cannot do is noted in
/// the data instead.
pub fn run(form: Form) -> Result<Data, Failure> {
    let started = Instant::now();
    let (scale, machine) = (Scale::of(form), Machine::here());
    let cpus = machine.cpus();
    let mut data = Data {
        format: FORMAT,
        form,
        machine,
        seconds: 0.0,
        cpu_seconds: None,
        memory: scale.memory,
        floor: Loop::ALL.map(|which| FloorLoop { which, cpu_ns: Vec::new() }).to_vec(),
        times: Vec::new(),
        frag: Vec::new(),
        dispersion: Vec::new(),
        traces: replay_shipped()?,
        targets: Vec::new(),
        openings: None,
        crashes: None,
        batches: None,
        freebsd: None,
        heaps: None,
        load: None,
        kernel: Kernel::default(),
        missing: Vec::new(),
    };
    times(&mut data, &scale, &groups(&scale, cpus));
    fragment(&mut data, &scale);
    real_load(&mut data, &scale);
    disperse(&mut data, &scale);
    open_again(&mut data, &scale);
    kill(&mut data, &scale);
    measure_batches(&mut data, scale.batches);
    measure_freebsd(&mut data, scale.freebsd)?;
    measure_heaps(&mut data, scale.heaps)?;
    if let Some(effort) = scale.targets {
        hold_targets(&mut data, effort)?;
    }
    data.seconds = started.elapsed().as_secs_f64();
    data.cpu_seconds = process_cpu_seconds();
    Ok(data)
}

fn times(data: &mut Data, scale: &Scale, groups: &[Group]) {
    let steps = |group: &Group| (scale.repetitions + 1) * group.subjects.len();
    let bar = progress("times", groups.iter().map(steps).sum());
    let options = Options { repetitions: scale.repetitions, seed: 1, floor_rounds: 1 };
    let mut before = 0;
    for (index, group) in groups.iter().enumerate() {
        begin(&bar, &format!("{} ({} of {})", group.name, index + 1, groups.len()));
        let run =
            measure(&group.subjects, options, &|done| bar.set_position((before + done) as u64));
        before += steps(group);
        add(data, &run);
    }
    bar.finish_and_clear();
}

/// Says what is next: on the bar, or in a line where there is no terminal to draw one.
fn begin(bar: &ProgressBar, what: &str) {
    bar.set_message(what.to_string());
    if !std::io::stderr().is_terminal() {
        note(what);
    }
}

/// Adds what a run gave.
fn add(data: &mut Data, run: &Run) {
    for (known, (_, samples)) in data.floor.iter_mut().zip(&run.floor) {
        known.cpu_ns.extend(samples);
    }
    let hot_cas_ns = run.floor(Loop::HotCas).median;
    for Measured { subject: Subject { engine, setup }, outcome } in &run.measured {
        let Setup { pattern, order, threads, memory, .. } = *setup;
        match outcome {
            Err(why) => {
                data.missing.push(format!("{engine}, {pattern}, {order}, {threads} threads: {why}"))
            }
            Ok(figures) => data.times.extend(figures.iter().map(|figure| Timed {
                engine: *engine,
                pattern,
                metric: figure.metric,
                order: order.0,
                threads,
                memory,
                cpu_ns: figure.cpu.clone(),
                wall_ns: figure.wall.clone(),
                hot_cas_ns,
            })),
        }
    }
}

/// Churn, and threads that are not in step.
fn real_load(data: &mut Data, scale: &Scale) {
    let bar = progress("load", 1);
    begin(&bar, "churn, and threads out of step");
    let options = Options { repetitions: scale.repetitions, seed: 1, floor_rounds: 1 };
    let (memory, operations) = (scale.memory, scale.operations);
    data.load = Some(measure_load((memory, operations), options, &mut data.missing));
    bar.finish_and_clear();
}

fn fragment(data: &mut Data, scale: &Scale) {
    let setup = FragSetup { memory: scale.frag_memory, ..FragSetup::default() };
    for engine in ENGINES {
        let bar = progress("frag", setup.iterations);
        begin(&bar, &format!("frag, {engine}"));
        match frag::run(engine, &setup, &|done| bar.set_position(done as u64)) {
            Ok(states) => {
                let FragSetup { memory, slots, .. } = setup;
                data.frag.push(Fragmented { engine, memory, slots, states });
            }
            Err(why) => data.missing.push(format!("frag: {why}")),
        }
        bar.finish_and_clear();
    }
}

fn disperse(data: &mut Data, scale: &Scale) {
    let (gib, slots) = PAPER_ZONE;
    let bar = progress("state", DISPERSED.len());
    for engine in DISPERSED {
        begin(&bar, &format!("state of {engine}"));
        match dispersion(engine, Size::gib(gib), slots, scale.scanned) {
            Ok(found) => data.dispersion.push(found),
            Err(why) => data.missing.push(format!("state dispersion: {why}")),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
}

/// Opens a zone after a shutdown and after a crash.
fn open_again(data: &mut Data, scale: &Scale) {
    let (memory, repetitions) = scale.opened;
    let bar = progress("openings", 1);
    begin(&bar, "openings");
    match recovery::measure(memory, repetitions, 1) {
        Ok(Recovery { dirty, dirty_two, clean, clean_compared }) => {
            data.openings = Some(Openings {
                memory,
                dirty_us: dirty,
                dirty_two_us: dirty_two,
                clean_us: clean,
                clean_compared_us: clean_compared,
            });
        }
        Err(why) => data.missing.push(format!("opening a zone: {why}")),
    }
    bar.finish_and_clear();
}

/// Kills processes that share a zone.
#[cfg(target_os = "linux")]
fn kill(data: &mut Data, scale: &Scale) {
    let processes: Vec<usize> = scale.processes.clone().collect();
    let (place, kills) = (crash::Place::Memory, scale.kills);
    let (owners, intents, limit, defect) = (false, false, None, None);
    let engine = crash::Kept::default();
    let plan =
        crash::Plan { engine, place, processes, kills, limit, seed: 1, owners, intents, defect };
    let bar = progress("crashes", kills);
    begin(&bar, "crashes");
    match crash::run(&plan, &|kills| bar.set_position(kills as u64)) {
        Ok(ended) => {
            let all = crash::sum(&ended.tallies);
            data.crashes = Some(Crashes {
                processes: plan.processes,
                kills: all.kills,
                in_a_call: all.in_a_call,
                recoveries: all.recoveries.len(),
                with_losses: all.with_losses,
                overlaps: all.overlaps,
                lost: all.lost,
                bound: all.bound,
                wrong: ended.wrong,
            });
        }
        Err(why) => data.missing.push(format!("processes that are killed: {why}")),
    }
    bar.finish_and_clear();
}

/// Processes share a zone by what Linux has.
#[cfg(not(target_os = "linux"))]
fn kill(data: &mut Data, scale: &Scale) {
    let (kills, most) = (scale.kills, scale.processes.end());
    data.missing.push(format!("{kills} kills of up to {most} processes: only on Linux"));
}

/// Batches of pages from two domains.
fn measure_batches(data: &mut Data, repetitions: usize) {
    let bar = progress("batches", batches::steps(repetitions));
    begin(&bar, "batches");
    match batches::measure(repetitions, &|| bar.inc(1)) {
        Ok((found, _)) => data.batches = Some(found),
        Err(why) => data.missing.push(format!("batches: {why}")),
    }
    bar.finish_and_clear();
}

/// What else the paper on FreeBSD has.
fn measure_freebsd(data: &mut Data, effort: freebsd::Effort) -> Result<(), Failure> {
    let bar = progress("FreeBSD", freebsd::STEPS);
    let step = |what: &str| {
        begin(&bar, what);
        bar.inc(1);
    };
    let measured = freebsd::of(effort, &mut data.missing, &step);
    bar.finish_and_clear();
    data.freebsd = Some(measured?);
    Ok(())
}

fn measure_heaps(data: &mut Data, effort: heaps::Effort) -> Result<(), Failure> {
    let bar = progress("heaps", heaps::STEPS);
    let step = |what: &str| {
        begin(&bar, what);
        bar.inc(1);
    };
    let cpus = data.machine.cpus();
    let measured = heaps::measure(effort, cpus, &mut data.missing, &step);
    bar.finish_and_clear();
    data.heaps = Some(measured?);
    Ok(())
}

fn hold_targets(data: &mut Data, effort: Effort) -> Result<(), Failure> {
    let targets = check::load(None, None)?;
    let bar = progress("targets", targets.len());
    begin(&bar, "targets");
    check::judge_all(&targets, effort, &mut |group, verdicts| {
        bar.inc(group.len() as u64);
        data.targets.extend(group.iter().zip(verdicts).map(|(target, verdict)| Held {
            name: target.name.clone(),
            met: verdict.met,
            text: verdict.text.split_whitespace().collect::<Vec<_>>().join(" "),
        }));
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// The traces that ship, on LLFree.
fn replay_shipped() -> Result<Vec<Replayed>, Failure> {
    let shipped = shipped();
    let bar = progress("traces", shipped.len());
    begin(&bar, "traces");
    let replayed = shipped.into_iter().map(|shipped| {
        let trace = shipped.trace().map_err(|error| Failure::Failed(error.to_string()))?;
        let plan = Plan::new(&trace, ZoneLayout::default(), 20_000);
        let options = replay::Options {
            threads: false,
            compact: None,
            starts: 1,
            rounds: 0,
            base_frames: false,
        };
        let report = replay::replay::<LLFree<Base4K>>(&plan, options, &|_| {});
        let report = report.map_err(|error| Failure::Failed(format!("{}: {error}", trace.name)))?;
        bar.inc(1);
        let side = |side: &Side| (side.free_huge, side.free_frames);
        let moment = |row: &Row| Moment {
            after: row.after,
            regular: row.regular,
            ours: side(&row.ours),
            linux: side(&row.linux),
        };
        Ok(Replayed {
            means: (report.ratio(), report.means(|row| row.linux).ratio),
            moments: report.rows.iter().map(moment).collect(),
            trace: trace.name,
        })
    });
    let replayed = replayed.collect();
    bar.finish_and_clear();
    replayed
}
