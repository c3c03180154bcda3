//! Runs histories on all cores, until there are enough images or something is wrong.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use clap::Parser;
use fastrand::Rng;
use woodlot_persist::defects::{ALL, Defect};
use woodlot_persist::figures::Figures;
use woodlot_persist::run::history;

/// Enumerates what a crash could leave of random histories, and recovers it.
#[derive(Parser)]
struct Args {
    /// At least so many images
    #[arg(long)]
    images: u64,
    /// What every choice follows from
    #[arg(long)]
    seed: u64,
    /// Only the history of this seed
    #[arg(long)]
    replay: Option<u64>,
}

/// A seeded defect must be found in so many histories.
const DEFECT_HISTORIES: u64 = 4000;

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(30);

pub fn main() -> ExitCode {
    let args = Args::parse();
    let ended = match args.replay {
        Some(seed) => history(seed, Defect::Nothing).map(|figures| figures.to_string()),
        None => run(&args),
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

fn run(args: &Args) -> Result<String, String> {
    println!("seed {}", args.seed);
    let first = Rng::with_seed(args.seed).u64(..) >> 16;
    let found = defects_are_found(first)?;
    let figures = search(first, args.images)?;
    Ok(format!("{figures}; {found} of {found} seeded defects found"))
}

/// Every seeded defect is found; how many there are.
fn defects_are_found(first: u64) -> Result<usize, String> {
    for &defect in ALL {
        let found = (first..first + DEFECT_HISTORIES).enumerate();
        let mut found = found.filter_map(|(n, seed)| Some((n + 1, history(seed, defect).err()?)));
        let (histories, why) = found.next().ok_or_else(|| {
            format!("{defect:?} survives {DEFECT_HISTORIES} histories from seed {first} on")
        })?;
        let why = why.lines().next().unwrap_or_default();
        println!("{defect:?}: found in {histories} histories: {why}");
    }
    Ok(ALL.len())
}

/// Runs histories on all cores until there are so many images.
fn search(first: u64, images: u64) -> Result<Figures, String> {
    let next = Mutex::new((first, Figures::default(), Ok(()), Instant::now()));
    let begin = Instant::now();
    let work = || {
        while let Some(seed) = {
            let mut state = next.lock().expect("nobody panics with it");
            let (seed, figures, ended, _) = &mut *state;
            let mine = (figures.all() < images && ended.is_ok()).then_some(*seed);
            *seed += 1;
            mine
        } {
            let ended = history(seed, Defect::Nothing);
            let mut state = next.lock().expect("nobody panics with it");
            let (_, figures, all, told) = &mut *state;
            match ended {
                Ok(more) => *figures += more,
                Err(why) => *all = Err(why),
            }
            if told.elapsed() > PROGRESS {
                eprintln!("{} images after {} s", figures.all(), begin.elapsed().as_secs());
                *told = Instant::now();
            }
        }
    };
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (_, figures, ended, _) = next.into_inner().expect("nobody panics with it");
    ended.map(|()| figures)
}
