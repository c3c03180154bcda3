//! `frag`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PathBufValueParser;
use woodlot_compact::Manner;

use super::values::percent;
use crate::Failure;
use crate::engine::{Engine, Engines};
use crate::frag::{Compacted, FragSetup, State, compact, csv, run, svg};
use crate::output::{Found, Machine, Screen, check_writable, keep_files, kept_in, note, progress};
use crate::size::Size;

/// How to fragment memory.
#[derive(Args, Debug)]
pub struct FragArgs {
    /// Who is measured, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "llfree")]
    pub engine: Engines,
    /// How much memory is managed, 4MiB to 16TiB. Only metadata is touched
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub memory: Size,
    /// How much of it is allocated at first
    #[arg(long, value_name = "PERCENT", default_value = "90", value_parser = percent)]
    pub fill: f64,
    /// How much of that is freed at random
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = percent)]
    pub freed: f64,
    /// How many iterations follow
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub iterations: u32,
    /// How much of what is allocated each iteration frees and allocates again
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    pub churn: f64,
    /// How many slots the calls go through, in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub slots: u16,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Instead of the curve: compact the zone, before the iterations and after them, by matching and by two fingers
    #[arg(long, conflicts_with_all = ["csv", "svg"])]
    pub compact: bool,
    /// Write the state after each iteration to a file; docs/csv.md in the repository has the columns
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub csv: Option<PathBuf>,
    /// Draw it to a file
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub svg: Option<PathBuf>,
}

/// Fragments memory and shows how it recovers.
///
/// # Errors
/// When no engine could be measured, or a file cannot be written.
pub fn frag(args: FragArgs) -> Result<ExitCode, Failure> {
    let setup = FragSetup {
        memory: args.memory,
        slots: args.slots.into(),
        fill: args.fill,
        freed: args.freed,
        iterations: args.iterations as usize,
        churn: args.churn,
        seed: args.seed,
    };
    if args.compact {
        return compact_all(&args.engine, &setup);
    }
    let files = Files { csv: args.csv.as_deref(), svg: args.svg.as_deref() };
    check_writable(files.paths())?;
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let (mut curves, mut kept) = (Vec::new(), Ok(()));
    for &engine in &args.engine.0 {
        let bar = progress(engine.name(), setup.iterations);
        let states = run(engine, &setup, &|done| bar.set_position(done as u64));
        bar.finish_and_clear();
        match states {
            Ok(states) => {
                screen.print(&describe(engine, &states))?;
                curves.push((engine, states));
                kept = files.keep(&setup, &curves);
            }
            Err(failure) => note(&failure.to_string()),
        }
    }
    if curves.is_empty() {
        return Err(Failure::Failed("nothing could be measured".into()));
    }
    kept?;
    for path in files.paths() {
        screen.print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Compacts the zone of each engine.
fn compact_all(engines: &Engines, setup: &FragSetup) -> Result<ExitCode, Failure> {
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let mut any = false;
    for &engine in &engines.0 {
        screen.print(&format!(
            "\n{engine}\n{:>10} {:>9} {:>10} {:>10} {:>10} {:>9} {:>10} {:>10} {:>9}\n",
            "iteration",
            "by",
            "free huge",
            "afterwards",
            "possible",
            "percent",
            "moves",
            "fewest",
            "ratio"
        ))?;
        for iterations in [0, setup.iterations] {
            for manner in [Manner::Matching, Manner::Fingers] {
                match compact(engine, setup, iterations, manner) {
                    Ok(compacted) => screen.print(&compacted_line(&compacted))?,
                    Err(failure) => {
                        note(&failure.to_string());
                        continue;
                    }
                }
                any = true;
            }
        }
    }
    match any {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::Failed("nothing could be measured".into())),
    }
}

fn compacted_line(compacted: &Compacted) -> String {
    let Compacted { manner, before, after, report } = compacted;
    let by = match manner {
        Manner::Matching => "matching",
        Manner::Fingers => "fingers",
    };
    format!(
        "{:>10} {by:>9} {:>10} {:>10} {:>10} {:>9.2} {:>10} {:>10} {:>9.3}\n",
        before.iteration,
        before.free_huge,
        after.free_huge,
        after.possible_huge,
        after.percent(),
        report.moves,
        report.fewest,
        compacted.over_fewest(),
    )
}

/// Where the results go.
struct Files<'a> {
    csv: Option<&'a Path>,
    svg: Option<&'a Path>,
}

impl<'a> Files<'a> {
    fn paths(&self) -> impl Iterator<Item = &'a Path> + use<'a> {
        self.csv.into_iter().chain(self.svg)
    }

    /// Writes the curves of the engines that are done, which are on the screen already.
    fn keep(&self, setup: &FragSetup, curves: &[(Engine, Vec<State>)]) -> Result<(), Failure> {
        let mut files = Vec::new();
        if let Some(path) = self.csv {
            files.push((path.to_path_buf(), csv(setup, curves)?));
        }
        if let Some(path) = self.svg {
            files.push((path.to_path_buf(), svg(setup, curves)?.into_bytes()));
        }
        let engines: Vec<_> = curves.iter().map(|(engine, _)| engine.name()).collect();
        let remark = format!("after {}", engines.join(", "));
        keep_files(
            &files,
            Found { results: String::new(), remark: remark + &kept_in(self.paths()) },
        )
    }
}

/// Some of the states: about ten, the first and the last among them.
fn describe(engine: Engine, states: &[State]) -> String {
    let mut text = format!(
        "\n{engine}\n{:>10} {:>12} {:>10} {:>9} {:>14}\n",
        "iteration", "free huge", "possible", "percent", "frames to move"
    );
    let step = states.len().div_ceil(10).max(1);
    let last = states.len().saturating_sub(1);
    for (index, state) in states.iter().enumerate() {
        if index % step == 0 || index == last {
            let State { iteration, free_huge, possible_huge, moves, .. } = state;
            let percent = state.percent();
            text += &format!(
                "{iteration:>10} {free_huge:>12} {possible_huge:>10} {percent:>9.1} {moves:>14}\n"
            );
        }
    }
    text
}
