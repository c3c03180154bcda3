//! `cargo xtask capi`: the library for C, installed as a C program finds it, and used by such programs.
//!
//! ```text
//!   capi/ ─ static library ─► libwoodlot.a, libwoodlot.so, woodlot.h, woodlot.pc    install.rs
//!                             examples, bad input, the README's program             programs.rs
//! ```
//!
//! cargo-c does the same for those who have it (`cargo cinstall`); to build it takes longer than all of this.

mod install;
mod programs;

use std::path::PathBuf;

use clap::Args;

use crate::outcome::{Length, Outcome};
use crate::shell::{cargo, root};
use crate::trust::place;

/// Where the library goes, and what is done with it.
#[derive(Args)]
pub struct Capi {
    /// Only install the library, under this folder
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<PathBuf>,
    /// Only measure what a call through C costs over the same call from Rust
    #[arg(long, conflicts_with = "prefix")]
    bench: bool,
    #[command(flatten)]
    length: Length,
}

/// Installs, measures, or checks everything.
pub fn capi(options: &Capi) -> Result<Outcome, String> {
    if options.bench {
        bench()?;
        return Ok(Outcome::done());
    }
    match &options.prefix {
        Some(prefix) => {
            let here = std::env::current_dir().map_err(|error| error.to_string())?;
            install::install(&here.join(prefix))?;
            Ok(Outcome::done())
        }
        None => check(options.length),
    }
}

/// Installs under `target` and runs every program there is.
pub fn check(length: Length) -> Result<Outcome, String> {
    let root = root().canonicalize().map_err(|error| error.to_string())?;
    let prefix = root.join("target/c/prefix");
    let size = install::install(&prefix)?;
    let symbols = install::symbols(&prefix)?;
    let ran = programs::run_all(&prefix, &root.join("target/c/programs"))?;
    programs::link_kernel()?;
    let line = format!(
        "{} programs compiled and run with {}, {symbols} functions, {} KiB shared",
        ran.programs,
        ran.compilers.join(" and "),
        size >> 10,
    );
    match ran.missing {
        None => Ok(Outcome::Ran(line)),
        Some(missing) => Outcome::missing(length, format!("{missing} is not there; {line}")),
    }
}

/// The machine, and what a pair costs on it.
fn bench() -> Result<(), String> {
    println!("{}", place()?);
    let cost = ["run", "--profile", "capi", "--package", "woodlot-capi", "--example", "cost"];
    cargo(cost, &[("CARGO_TARGET_DIR", install::TARGET)])
}
