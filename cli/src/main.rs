//! `woodlot`: page-frame allocators on real load.
//!
//! ```text
//!   args ─┬► job ──► replay (plan, sequential or threads, timing) ──► output (screen, files)
//!         │      └─► woodlot-trace (text and binary traces)
//!         └► woodlot-bench (bench, frag)
//! ```

mod args;
mod engine;
mod job;
mod output;
mod replay;

use std::process::{ExitCode, exit};

use clap::Parser;

use args::{Cli, Command};
use woodlot_bench::Failure;
use woodlot_bench::command;
use woodlot_bench::output::{Screen, note, remove_partial_files};

/// The exit code after Ctrl-C: 128 and the number of the signal, as shells have it.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    let cli = Cli::parse();
    stop_cleanly_on_interrupt().and_then(|()| run(cli)).unwrap_or_else(|failure| {
        note(&failure.to_string());
        failure.exit_code()
    })
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let mut screen = Screen::default();
    match cli.command {
        None => job::replay_shipped(&cli.replay, &mut screen)?,
        Some(Command::Replay { files, lists, replay }) => {
            job::replay_files(&files, lists, &replay, &mut screen)?
        }
        Some(Command::Trace(command)) => job::trace_command(command, &mut screen)?,
        Some(Command::Bench(args)) => return command::bench(*args),
        Some(Command::Frag(args)) => return command::frag(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Ctrl-C and termination remove what is half written and end the process at once.
fn stop_cleanly_on_interrupt() -> Result<(), Failure> {
    let stop = || {
        let _nothing_begins = remove_partial_files();
        note("interrupted");
        exit(INTERRUPTED);
    };
    ctrlc::set_handler(stop)
        .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be handled: {error}")))
}
