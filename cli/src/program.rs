//! The program: its command line, Ctrl-C and exit codes.

use std::process::{ExitCode, exit};

use clap::Parser;
use woodlot_bench::Failure;
use woodlot_bench::output::{Interrupted, Screen, note};

use crate::{Cli, run, stop};

/// The exit code after Ctrl-C: 128 and the number of the signal, as shells have it.
const INTERRUPTED: i32 = 130;

/// Does what the command line says, and reports what went wrong; the exit code.
pub fn program() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => stop_cleanly_on_interrupt().and_then(|()| run(cli)),
        Err(wrong) if wrong.use_stderr() => wrong.exit(),
        Err(help) => Screen::default().print_with(|| help.print()).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|failure| {
        note(&failure.to_string());
        failure.exit_code()
    })
}

/// Ctrl-C and termination remove what is half written, say what is kept and end the process at once; unless the
/// command ends by itself.
fn stop_cleanly_on_interrupt() -> Result<(), Failure> {
    let interrupt = || {
        if stop::ask() {
            return;
        }
        let interrupted = Interrupted::now();
        match interrupted.found() {
            None => note("interrupted"),
            Some(found) => {
                // The process ends whether the results can be printed or not.
                let _ = Screen::default().print(&found.results);
                note(&format!("interrupted {}", found.remark));
            }
        }
        exit(INTERRUPTED);
    };
    ctrlc::set_handler(interrupt)
        .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be handled: {error}")))
}
