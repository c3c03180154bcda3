//! `woodlot`: page-frame allocators on real load.

use std::process::ExitCode;

fn main() -> ExitCode {
    woodlot_cli::program()
}
