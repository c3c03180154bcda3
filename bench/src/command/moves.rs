//! `bench moves`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use woodlot_frame::Order;

use crate::Failure;
use crate::moves::{Cost, Seen, cost, storm, win};
use crate::output::{Machine, Screen, must_be_available};
use crate::size::Size;
use crate::statistics::Summary;
use crate::waits::Waits;

/// Blocks that are read, written and moved.
const BLOCKS: usize = 64;

/// What moves, and for how long.
#[derive(Args, Debug)]
pub struct MovesArgs {
    /// The memory in which huge frames are won back, 8MiB or more. Twice as much must be free
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub memory: Size,
    /// How much of it stays in use, at random places. At most half, so that all of it can move
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=50))]
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
    let bytes = ((args.memory.frames() * 4096) >> 21) << 21;
    // One pool in which blocks move, and one in which they are copied.
    must_be_available(2 * bytes)?;
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let (mut costs, mut per_gib, mut huge) = (vec![], vec![], 0);
    let seeds = args.seed..args.seed + u64::from(args.repetitions);
    for seed in seeds.clone() {
        let won = win(bytes, args.kept.into(), seed)?;
        costs.push(won.cost);
        per_gib.push(won.per_gib());
        huge = won.huge;
    }
    screen.print(&format!(
        "{} in blocks, {} % of them kept: CPU time for each block, median (least to most) of {}\n\n\
         huge frames won, in blocks of 4 KiB\n{}\
         huge frames for each GiB  {}; {huge} in all, as many as there can be\n\n",
        args.memory,
        args.kept,
        args.repetitions,
        parts(&costs, Order(0)),
        shown(per_gib.into_iter(), ""),
    ))?;
    for (order, what) in [(Order(0), "4 KiB"), (Order(9), "2 MiB")] {
        let costs: Result<Vec<Cost>, _> =
            seeds.clone().map(|seed| cost(bytes, order, args.kept.into(), seed)).collect();
        screen.print(&format!("all blocks of {what}, at random\n{}\n", parts(&costs?, order)))?;
    }
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

/// What a move costs, and each of its parts.
fn parts(costs: &[Cost], order: Order) -> String {
    let bytes = (order.frames() * 4096) as f64;
    let all = |of: fn(&Cost) -> f64| costs.iter().map(of);
    let handle: fn(&Cost) -> f64 =
        |cost| cost.moves.cpu() - cost.copies.cpu() - cost.allocations.cpu();
    format!(
        "  a move                  {}\n  \
           a copy alone            {}\n  \
           an allocation alone     {}\n  \
           the rest: its handle    {}\n  \
           moved a second          {}\n  \
           of copies alone         {}\n",
        shown(all(|cost| cost.moves.cpu()), " ns"),
        shown(all(|cost| cost.copies.cpu()), " ns"),
        shown(all(|cost| cost.allocations.cpu()), " ns"),
        shown(all(handle), " ns"),
        shown(costs.iter().map(|cost| bytes / cost.moves.cpu()), " GB"),
        shown(all(Cost::speed), ""),
    )
}

fn shown(samples: impl Iterator<Item = f64>, unit: &str) -> String {
    let all = Summary::of(&samples.collect::<Vec<_>>());
    all.map_or(String::new(), |all| {
        format!("{:.3} ({:.3} to {:.3}){unit}", all.median, all.min, all.max)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Tally;

    #[test]
    fn what_is_left_of_a_move_is_its_handle() {
        let tally = |cpu_ns| Tally { operations: 2, cpu_ns, wall_ns: 0.0 };
        let (moves, copies, allocations) = (tally(2000.0), tally(1600.0), tally(100.0));
        let shown = parts(&[Cost { moves, copies, allocations }], Order(0));
        for line in [
            "  a move                  1000.000 (1000.000 to 1000.000) ns\n",
            "  the rest: its handle    150.000 (150.000 to 150.000) ns\n",
            "  moved a second          4.096 (4.096 to 4.096) GB\n",
            "  of copies alone         0.800 (0.800 to 0.800)\n",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }
}
