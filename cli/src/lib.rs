//! What the `woodlot` command does, so that its command line can be tested.
//!
//! ```text
//!   program ─ args ─┬► job ──► replay (plan, sequential or threads, timing) ──► output (screen, files)
//!                 │      └─► woodlot-trace (text and binary traces)
//!                 ├► zone ──► woodlot-zone (files that hold a zone; Linux)
//!                 ├► top ──► zone (a zone file in use; Linux)
//!                 ├► kmem ──► woodlot-malloc (the heap of a process that runs; Linux)
//!                 ├► crash ─► zone, processes of this program (Linux)
//!                 ├► domains ─► woodlot-domains (a machine's memory, as firmware says it)
//!                 ├► report ──► woodlot-bench, replay ──► output (page, data)
//!                 └► woodlot-bench (bench, frag)
//! ```

mod args;
#[cfg(target_os = "linux")]
mod crash;
mod domains;
mod job;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kmem;
mod output;
mod program;
mod replay;
mod report;
pub mod stop;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod zone;

use std::process::ExitCode;

use woodlot_bench::Failure;
use woodlot_bench::command::{self, Others};
use woodlot_bench::instructions;
use woodlot_bench::output::Screen;

pub use args::Cli;
use args::Command;
pub use program::program;

/// Does what the command line says.
///
/// # Errors
/// Why it could not be done.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    if cfg!(woodlot_observe) && !is_scale(&cli) {
        let only =
            "this build's atomics tell of each access, which takes time: it has `bench scale` only";
        return Err(Failure::Usage(only.into()));
    }
    instructions::enable();
    let mut screen = Screen::default();
    match cli.command {
        None => job::replay_shipped(&cli.replay, &mut screen)?,
        Some(Command::Replay { files, lists, replay }) => {
            job::replay_files(&files, lists, &replay, &mut screen)?
        }
        Some(Command::Trace(command)) => job::trace_command(command, &mut screen)?,
        Some(Command::Bench(args)) => return command::bench(*args),
        Some(Command::Frag(args)) => return command::frag(args),
        Some(Command::Instructions(args)) => return command::instructions(args),
        Some(Command::KmemPairs(args)) => return command::kmem_pairs(&args),
        Some(Command::KmemSample(args)) => return command::kmem_sample(&args),
        Some(Command::Domains(command)) => domains::domains_command(&command, &mut screen)?,
        Some(Command::Report(args)) => report::report(&args, &mut screen)?,
        #[cfg(target_os = "linux")]
        Some(Command::Zone(command)) => zone::zone_command(command, &mut screen)?,
        #[cfg(target_os = "linux")]
        Some(Command::Top(args)) => top::top(&args, &mut screen)?,
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        Some(Command::Kmem(command)) => kmem::kmem_command(&command, &mut screen)?,
        #[cfg(target_os = "linux")]
        Some(Command::Crash(args)) => return crash::crash(&args, &mut screen),
        #[cfg(target_os = "linux")]
        Some(Command::CrashProcess(args)) => {
            let found = crash::child(&args)?;
            return Ok(if found { ExitCode::from(crash::FOUND) } else { ExitCode::SUCCESS });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Is it `bench scale`?
fn is_scale(cli: &Cli) -> bool {
    matches!(&cli.command, Some(Command::Bench(args)) if matches!(args.others, Some(Others::Scale(_))))
}
