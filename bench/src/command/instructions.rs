//! `instructions`.

use std::process::ExitCode;

use clap::Args;
use woodlot_frame::{Base4K, Order};

use crate::Failure;
use crate::engine::Engine;
use crate::instructions::{Count, Course, bare, count, pairs};
use crate::output::Screen;

/// What to count, or what to do under the simulator that counts.
#[derive(Args, Debug)]
pub struct InstructionsArgs {
    /// The allocator, as `bench` names it
    pub engine: Engine,
    /// Do nothing but pairs of an allocation and a free, of this order
    #[arg(requires = "pairs")]
    pub order: Option<u8>,
    /// How many
    #[arg(requires = "order")]
    pub pairs: Option<usize>,
    /// The loop of these pairs, without an allocator
    #[arg(long, requires = "pairs")]
    pub bare: bool,
    /// Half of 1 GiB is allocated and then freed, again and again, in place of a block after another
    #[arg(long)]
    pub bulk: bool,
}

/// Counts the instructions of a pair of each order; or makes pairs, for counting them.
///
/// # Errors
/// When nothing can be counted, or the engine does not serve the order.
pub fn instructions(args: InstructionsArgs) -> Result<ExitCode, Failure> {
    let InstructionsArgs { engine, .. } = args;
    let course = if args.bulk { Course::Bulk } else { Course::Repeat };
    if let (Some(order), Some(number)) = (args.order, args.pairs) {
        match args.bare {
            true => bare(course, Order(order), number)?,
            false => pairs(course, engine, Order(order), number)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::default();
    screen.print(&format!("instructions for one allocation and its free, {engine}\n"))?;
    for order in Order::all::<Base4K>().filter(|&order| engine.serves(order)) {
        let Count { pair, around } = count(course, engine, order)?;
        screen.print(&format!("order {:2}: {pair:.1}, and {around:.1} of the loop\n", order.0))?;
    }
    Ok(ExitCode::SUCCESS)
}
