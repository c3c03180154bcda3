//! `instructions`.

use std::process::ExitCode;

use clap::Args;
use woodlot_frame::{Base4K, Order};

use crate::Failure;
use crate::engine::Engine;
use crate::instructions::{count, pairs};
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
}

/// Counts the instructions of a pair of each order; or makes pairs, for counting them.
///
/// # Errors
/// When nothing can be counted, or the engine does not serve the order.
pub fn instructions(args: InstructionsArgs) -> Result<ExitCode, Failure> {
    let InstructionsArgs { engine, .. } = args;
    if let (Some(order), Some(number)) = (args.order, args.pairs) {
        pairs(engine, Order(order), number)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::default();
    screen.print(&format!("instructions for one allocation and its free, {engine}\n"))?;
    for order in Order::all::<Base4K>().filter(|&order| engine.serves(order)) {
        screen.print(&format!("order {:2}: {:.1}\n", order.0, count(engine, order)?))?;
    }
    Ok(ExitCode::SUCCESS)
}
