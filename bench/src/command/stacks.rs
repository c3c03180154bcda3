//! `bench stacks`.

use std::process::ExitCode;

use clap::Args;
use woodlot_stacks::Shape;

use crate::Failure;
use crate::output::Screen;
use crate::stacks::{Left, by_address, packed};

/// Which stacks.
#[derive(Args, Debug)]
pub struct StacksArgs {
    /// The pages of a stack, 1 to 32, beside its guard
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub pages: u16,
    /// How many stacks
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub stacks: u32,
}

/// Counts the holes that guards leave in memory (FreeBSD anti-fragmentation, figure 5).
///
/// # Errors
/// When nothing could be counted.
pub fn stacks(args: &StacksArgs) -> Result<ExitCode, Failure> {
    let shape = Shape::new(args.pages.into(), args.stacks as usize);
    let shape = shape.ok_or_else(|| Failure::Usage("no such stacks".into()))?;
    let mut screen = Screen::default();
    screen.print(&format!(
        "{} stacks of {} pages and a guard, in a zone of LLFree\n\n\
         frames                huge frames   free order-0 holes   for 1000 stacks   frames to spare\n",
        shape.stacks(),
        shape.pages(),
    ))?;
    for (name, left) in [("by address", by_address(shape)?), ("packed", packed(shape)?)] {
        screen.print(&row(name, left, shape))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, left: Left, shape: Shape) -> String {
    let per_1000 = left.holes_per_1000(shape.stacks());
    format!("{name:<20}{:>13}{:>21}{per_1000:>18.1}{:>18}\n", left.huge, left.holes, left.spare)
}
