//! `bench moves`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use woodlot_frame::Order;

use crate::Failure;
use crate::moves::{Seen, Waits, storm, win};
use crate::output::{Machine, Screen};
use crate::size::Size;
use crate::statistics::Summary;

/// Blocks that are read, written and moved.
const BLOCKS: usize = 64;

/// What moves, and for how long.
#[derive(Args, Debug)]
pub struct MovesArgs {
    /// The memory in which huge frames are won back, 4MiB or more. So much must be free
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub memory: Size,
    /// How much of it stays in use, at random places
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub kept: u8,
    /// How often that is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// How long blocks of each size are read, written and moved at the same time; 3600 is the full test
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seconds: u32,
    /// What random choices follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Measures moves of memory that is in use, and fails if a reader sees a torn block, or a write is lost.
///
/// # Errors
/// That, or when nothing could be measured.
pub fn moves(args: &MovesArgs) -> Result<ExitCode, Failure> {
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let bytes = ((args.memory.frames() * 4096) >> 21) << 21;
    let (mut moves, mut copies, mut speeds, mut per_gib) = (vec![], vec![], vec![], vec![]);
    let mut huge = 0;
    for repetition in 0..u64::from(args.repetitions) {
        let won = win(bytes, args.kept.into(), args.seed + repetition)?;
        moves.push(won.moves.cpu());
        copies.push(won.copies.cpu());
        speeds.push(won.speed());
        per_gib.push(won.per_gib());
        huge = won.huge;
    }
    let shown = |samples: &[f64], unit| {
        let all = Summary::of(samples);
        all.map_or(String::new(), |all| {
            format!("{:.3} ({:.3} to {:.3}){unit}", all.median, all.min, all.max)
        })
    };
    screen.print(&format!(
        "{} in blocks of 4 KiB, {} % of them kept: median (least to most) of {}\n\
         a move of a page          {}\n\
         a copy of it alone        {}\n\
         bytes a second, of copies {}\n\
         huge frames for each GiB  {}; {huge} in all, as many as there can be\n\n",
        args.memory,
        args.kept,
        args.repetitions,
        shown(&moves, " ns"),
        shown(&copies, " ns"),
        shown(&speeds, ""),
        shown(&per_gib, ""),
    ))?;
    screen.print(
        "a reader and a writer of 64 blocks: ns that they wait, below which are all but one in …\n",
    )?;
    screen.print("order  moves              accesses       2      1000   1000000     longest\n")?;
    for order in [0, 9].map(Order) {
        for with in [false, true] {
            let time = Duration::from_secs(args.seconds.into());
            let seen = storm(order, BLOCKS, time, with)?;
            screen.print(&rows(order, &seen))?;
        }
    }
    screen.print("no block was torn, and no write was lost\n")?;
    Ok(ExitCode::SUCCESS)
}

fn rows(order: Order, seen: &Seen) -> String {
    let row = |who, waits: &Waits| {
        let [half, most, all] = [2, 1000, 1_000_000].map(|n| waits.all_but_one_in(n));
        format!(
            "{:<7}{:>9} {who}{:>11}{half:>8}{most:>10}{all:>10}{:>12}\n",
            order.0, seen.moves, waits.count, waits.longest
        )
    };
    let refused = format!("       {:>9} gave up\n", seen.refused);
    row("reads  ", &seen.reads)
        + &row("writes ", &seen.writes)
        + if seen.moves + seen.refused > 0 { &refused } else { "" }
}
