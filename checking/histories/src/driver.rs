//! Runs batches on all cores, until one fails.

use std::ops::AddAssign;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use fastrand::Rng;
use woodlot_histories::batch::{BatchId, Engine, SCHEDULES};
use woodlot_histories::deaths;
use woodlot_histories::defects::{ALL, Defect};
use woodlot_histories::executions::on_all_cores;
use woodlot_histories::history::Figures;
use woodlot_histories::ledger::Judged;

/// Runs random histories of whole allocators under random schedules.
#[derive(Parser)]
struct Args {
    /// So many schedules of LLFree
    #[arg(long)]
    llfree: usize,
    /// So many of each form of NBBS, and of the one-write engine
    #[arg(long)]
    others: usize,
    /// So many of LLFree with intents, in which threads stop for ever
    #[arg(long)]
    deaths: usize,
    /// What every choice follows from
    #[arg(long)]
    seed: u64,
    /// Only this engine
    #[arg(long)]
    engine: Option<Engine>,
    /// Only this batch
    #[arg(long)]
    replay: Option<BatchId>,
    /// Only this batch in which threads stop for ever
    #[arg(long)]
    deaths_replay: Option<u64>,
}

/// A seeded defect must be found in so many batches, 1,024,000 schedules. The rarest took 31,000, 123,000 and 426,000 in three versions of the one-write engine.
const DEFECT_BATCHES: usize = 16_000;

/// Nothing may be found in so many batches where none is seeded.
const CONTROL_BATCHES: usize = 50;

pub fn main() -> ExitCode {
    let args = Args::parse();
    let ended = match (args.replay, args.deaths_replay) {
        (Some(id), _) => id.run(None).map(|figures| format!("{id} passes: {}", said(&figures))),
        (None, Some(seed)) => deaths::run(seed, deaths::defects::Defect::Nothing)
            .map(|figures| format!("{seed} passes: {}", said_of_deaths(&figures))),
        (None, None) => run(&args),
    };
    match ended {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Judged<String> {
    let first = Rng::with_seed(args.seed).u64(..) >> 16;
    let mut found = defects_are_found(first)?;
    let mut all = Figures::default();
    let is_asked = |engine: Engine| args.engine.is_none_or(|only| only == engine);
    for &engine in Engine::value_variants().iter().filter(|&&engine| is_asked(engine)) {
        let schedules = if engine == Engine::Llfree { args.llfree } else { args.others };
        let start = Instant::now();
        let figures = search(engine, first, schedules.div_ceil(SCHEDULES))?;
        let name = BatchId { engine, seed: first };
        let rate = figures.schedules as f64 / start.elapsed().as_secs_f64();
        println!("{name} and on: {}; {rate:.0} a second", said(&figures));
        all += figures;
    }
    let mut figures = said(&all);
    if is_asked(Engine::Llfree) {
        let (deaths, more) = with_deaths(args.deaths, first)?;
        (figures, found) = (format!("{figures}; {deaths}"), found + more);
    }
    Ok(format!("{figures}; {found} of {found} seeded defects found"))
}

/// Histories of LLFree with intents, in which threads stop for ever, after their seeded defects; what was done, and how
/// many defects there are.
fn with_deaths(schedules: usize, first: u64) -> Judged<(String, usize)> {
    for &defect in deaths::defects::ALL {
        let seeds = first..first + DEFECT_BATCHES as u64;
        let failures = seeds.map(|seed| deaths::run(seed, defect).err());
        let found = failures.enumerate().find_map(|(number, why)| {
            let why = why.filter(|why| defect.is_found_by(why))?;
            Some((number * deaths::SCHEDULES + 1, why))
        });
        let Some((number, why)) = found else {
            return Err(format!(
                "deaths with {defect:?} pass {DEFECT_BATCHES} batches from {first}"
            ));
        };
        let why: String = why.lines().next().unwrap_or_default().chars().take(150).collect();
        println!("deaths {:24} found in {number:6} schedules: {why}", format!("{defect:?}"));
    }
    let start = Instant::now();
    let figures = sum_of_all("deaths", schedules.div_ceil(deaths::SCHEDULES), |number| {
        let seed = first + number;
        let line = |why| format!("{why}\nreplay: cargo xtask shuttle --deaths-replay {seed}");
        deaths::run(seed, deaths::defects::Defect::Nothing).map_err(line)
    })?;
    let (said, rate) =
        (said_of_deaths(&figures), figures.schedules as f64 / start.elapsed().as_secs_f64());
    println!("{said}; {rate:.0} a second");
    Ok((said, deaths::defects::ALL.len()))
}

fn said_of_deaths(figures: &deaths::log::Figures) -> String {
    let deaths::log::Figures { schedules, calls, dead, inside, cut_off, named } = figures;
    format!(
        "with intents {schedules} schedules of {calls} calls, in which {dead} threads stopped, {inside} of them \
         inside a call, of which {cut_off} were cut off; {named} frames of theirs were named"
    )
}

fn said(figures: &Figures) -> String {
    let Figures { schedules, calls, steps, stood, stood_inside, refusals } = figures;
    format!(
        "{schedules} schedules of {calls} calls and {steps} steps; in {stood} one thread stood \
         still, in {stood_inside} of them inside a call; {} times out of memory or in use, {} of \
         them for what other calls kept, {} for what moved",
        refusals.judged, refusals.kept, refusals.moved
    )
}

/// Runs so many batches of an engine on all cores.
fn search(engine: Engine, first: u64, batches: usize) -> Judged<Figures> {
    sum_of_all(&format!("{engine:?}"), batches, |number| {
        let id = BatchId { engine, seed: first + number };
        let line = |why| format!("{why}\nreplay: cargo xtask shuttle --replay {id}");
        id.run(None).map_err(line)
    })
}

/// Runs so many batches, by their numbers, on all cores; the sum of their figures.
fn sum_of_all<F: Copy + Default + AddAssign + Send>(
    name: &str,
    batches: usize,
    run: impl Fn(u64) -> Judged<F> + Sync,
) -> Judged<F> {
    let all = Mutex::new(F::default());
    on_all_cores(name, batches as u64, |number| {
        let figures = run(number)?;
        *all.lock().expect("nobody panics with it") += figures;
        Ok(())
    })?;
    Ok(all.into_inner().expect("nobody panics with it"))
}

/// Every defect on every engine that can have it; returns how many there are.
fn defects_are_found(first: u64) -> Judged<usize> {
    let mut found = 0;
    for &engine in Engine::value_variants() {
        nothing_is_found(engine, first)?;
        let has_all = matches!(engine, Engine::Llfree | Engine::Onewrite);
        let ours = |defect: &&Defect| has_all || !defect.is_partial_or_reclaim();
        for &defect in ALL.iter().filter(ours) {
            let (schedules, why) = find(engine, first, defect)?;
            let why: String = why.lines().next().unwrap_or_default().chars().take(150).collect();
            let name = format!("{defect:?}");
            println!("{engine:?} {name:24} found in {schedules:6} schedules: {why}");
            found += 1;
        }
    }
    Ok(found)
}

/// The wrapper that has the defects is right without one.
fn nothing_is_found(engine: Engine, first: u64) -> Judged {
    for number in 0..CONTROL_BATCHES {
        let id = BatchId { engine, seed: first + number as u64 };
        let ended = id.run(Some(Defect::Nothing));
        ended.map_err(|why| format!("{id}: found where no defect is seeded: {why}"))?;
    }
    Ok(())
}

/// How many schedules it took to find a defect by what is wrong, and what was said.
fn find(engine: Engine, first: u64, defect: Defect) -> Judged<(usize, String)> {
    for number in 0..DEFECT_BATCHES {
        let id = BatchId { engine, seed: first + number as u64 };
        match id.run(Some(defect)) {
            Err(why) if defect.is_found_by(&why) => return Ok((number * SCHEDULES + 1, why)),
            _ => {}
        }
    }
    let schedules = DEFECT_BATCHES * SCHEDULES;
    Err(format!("{engine:?} with {defect:?} passes {schedules} schedules from {first} on"))
}
