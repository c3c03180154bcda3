//! `bench stacks`.

use std::process::ExitCode;

use clap::Args;
use woodlot_frame::Base4K;
use woodlot_llfree::LLFree;
use woodlot_onewrite::OneWrite;
use woodlot_pool::Engine;
use woodlot_stacks::Shape;

use crate::Failure;
use crate::output::Screen;
use crate::stacks::{self, Left, by_address, packed};

/// Which stacks.
#[derive(Args, Debug)]
pub struct StacksArgs {
    /// The pages of a stack, 1 to 32, beside its guard
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub pages: u16,
    /// How many stacks
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub stacks: u32,
    /// The engine of the zone: llfree or onewrite
    #[arg(long, value_name = "NAME", default_value_t)]
    pub engine: Engine,
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
        "{} stacks of {} pages and a guard, in a zone of {}\n\n\
         frames                huge frames   free order-0 holes   for 1000 stacks   frames to spare\n",
        shape.stacks(),
        shape.pages(),
        args.engine,
    ))?;
    let [one, other] = match args.engine {
        Engine::OneWrite => both::<OneWrite<'static, Base4K>>(shape)?,
        _ => both::<LLFree<'static, Base4K>>(shape)?,
    };
    for (name, left) in [("by address", one), ("packed", other)] {
        screen.print(&row(name, left, shape))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn both<A: stacks::Engine>(shape: Shape) -> Result<[Left; 2], Failure> {
    Ok([by_address::<A>(shape)?, packed::<A>(shape)?])
}

fn row(name: &str, left: Left, shape: Shape) -> String {
    let per_1000 = left.holes_per_1000(shape.stacks());
    format!("{name:<20}{:>13}{:>21}{per_1000:>18.1}{:>18}\n", left.huge, left.holes, left.spare)
}
