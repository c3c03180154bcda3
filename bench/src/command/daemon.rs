//! `bench daemon`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use woodlot_pool::{Engine, Options, Settings};

use crate::Failure;
use crate::daemon::{Load, load};
use crate::output::{Machine, Screen, must_be_available};
use crate::size::Size;
use crate::statistics::Summary;
use crate::waits::Waits;

/// Which load, and for how long.
#[derive(Args, Debug)]
pub struct DaemonArgs {
    /// The pool, 8MiB or more; LLFree's trees are of 64MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub memory: Size,
    /// The pool's engine: llfree or onewrite
    #[arg(long, value_name = "NAME", default_value_t)]
    pub engine: Engine,
    /// How long each turn takes; 3600 is the full test
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
    /// Turns with the daemon, and as many without, one after the other
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// No turns without the daemon: all the time is for the test
    #[arg(long)]
    pub only: bool,
    /// The most MiB that it moves in a second; 0 is as much as it can
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub rate: u32,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Measures a pool under load with its daemon and without, in turns, and fails if a block is torn, lost or in two hands.
///
/// # Errors
/// That, or when nothing could be measured.
pub fn daemon(args: &DaemonArgs) -> Result<ExitCode, Failure> {
    let bytes = ((args.memory.frames() * 4096) >> 21 << 21).max(8 << 20);
    must_be_available(bytes)?;
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let settings = Settings {
        // In each tenth of a second.
        moves: args.rate as usize * 256 / 10,
        rest: 10_000_000,
        longest_rest: 100_000_000,
        ..Settings::default()
    };
    let options = || Options::new(bytes).engine(args.engine);
    let (time, mut with, mut without) = (Duration::from_secs(args.seconds.into()), vec![], vec![]);
    for seed in (args.seed..).take(args.repetitions as usize) {
        // By turns who is first.
        for beside in [seed % 2 == 0, seed % 2 == 1] {
            if beside {
                with.push(load(options(), time, seed, Some(settings.clone()))?);
            } else if !args.only {
                without.push(load(options(), time, seed, None)?);
            }
        }
    }
    screen.print(&format!(
        "{} MiB, {}, {} turns of {} s: ns, below which are all but one in …\n{}",
        bytes >> 20,
        args.engine,
        args.repetitions,
        args.seconds,
        HEADINGS
    ))?;
    for (what, loads) in [("with", &with), ("without", &without)] {
        let rows = CALLS.map(|(name, of)| row(name, what, loads, of));
        screen.print(&rows.concat())?;
    }
    for (name, of) in CALLS {
        screen.print(&ratios(name, &with, &without, of))?;
    }
    screen.print(&won(&with))?;
    screen.print("no block was torn, lost or in two hands\n")?;
    Ok(ExitCode::SUCCESS)
}

const HEADINGS: &str = "                             calls       2    1000 1000000     longest\n";

type Of = fn(&Load) -> &Waits;
const CALLS: [(&str, Of); 4] = [
    ("allocations", |load| &load.allocations),
    ("frees", |load| &load.frees),
    ("reads", |load| &load.reads),
    ("writes", |load| &load.writes),
];

/// All turns together.
fn row(name: &str, what: &str, loads: &[Load], of: Of) -> String {
    let mut all = Waits::new();
    loads.iter().for_each(|load| all.join(of(load)));
    if all.count == 0 {
        return String::new();
    }
    let [half, most, nearly] = [2, 1000, 1_000_000].map(|n| all.all_but_one_in(n));
    format!(
        "{name:<12} {what:<8}{:>13}{half:>12}{most:>12}{nearly:>12}{:>12}\n",
        all.count, all.longest
    )
}

/// With the daemon, as a multiple of without: turn by turn.
fn ratios(name: &str, with: &[Load], without: &[Load], of: Of) -> String {
    let ratio = |n: u64| {
        let each = with.iter().zip(without);
        let each = each.map(|(with, without)| {
            of(with).all_but_one_in(n) as f64 / of(without).all_but_one_in(n).max(1) as f64
        });
        shown(each)
    };
    if without.is_empty() {
        return String::new();
    }
    format!("{name:<12} with / without: one in 2 {}, one in 1000 {}\n", ratio(2), ratio(1000))
}

fn shown(samples: impl Iterator<Item = f64>) -> String {
    let all = Summary::of(&samples.collect::<Vec<_>>());
    all.map_or("-".into(), |all| format!("{:.2} ({:.2} to {:.2})", all.median, all.min, all.max))
}

/// What the daemon did.
fn won(with: &[Load]) -> String {
    let mut all = woodlot_pool::Report::default();
    with.iter().filter_map(|load| load.daemon).for_each(|daemon| all.add(&daemon.all));
    format!(
        "the daemon: {} huge frames won with {} moves, {} failed, {} gone, {} huge frames given up, for each GiB copied {}\n",
        all.won,
        all.moves,
        all.failed,
        all.gone,
        all.blocked,
        shown(with.iter().filter_map(Load::per_gib)),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use woodlot_frame::{Base4K, Geometry};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: DaemonArgs,
    }

    #[test]
    fn the_churn_and_the_mover_have_trees_of_their_own() {
        let args = Program::parse_from(["daemon"]).args;
        assert!(
            args.memory.frames() >= 4 * 32 * Base4K::HUGE_FRAMES,
            "LLFree's tree has 32 huge frames"
        );
    }
}
