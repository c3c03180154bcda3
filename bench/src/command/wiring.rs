//! `bench wiring`.

use std::process::ExitCode;

use clap::Args;

use crate::Failure;
use crate::output::{Machine, Screen, must_be_available, note, progress};
use crate::size::Size;
use crate::statistics::Summary;
use crate::wiring::{Way, Wired, measure};

/// How much is wired.
#[derive(Args, Debug)]
pub struct WiringArgs {
    /// How much memory is wired, 4MiB or more. So much must be free
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: Size,
    /// How often everything is measured, after a first time that does not count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
}

/// Measures wiring in large pieces beside one fault for each page (FreeBSD anti-fragmentation, table II).
///
/// # Errors
/// When nothing could be measured.
pub fn wiring(args: &WiringArgs) -> Result<ExitCode, Failure> {
    let (bytes, repetitions) =
        (((args.memory.frames() * 4096) >> 21) << 21, args.repetitions as usize);
    must_be_available(bytes)?;
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let bar = progress("wiring", repetitions);
    let (ways, missing) = measure(&Way::ALL, bytes, repetitions, &|| bar.inc(1))?;
    bar.finish_and_clear();
    missing.iter().for_each(|why| note(why));
    screen.print(&format!(
        "{} wired, CPU time in ns for each page of 4 KiB: median (least) of {repetitions}; at the end the least share that \
         huge pages map\n\n",
        args.memory
    ))?;
    for wired in &ways {
        let beside = ways.iter().find(|other| other.way == wired.way.beside());
        screen.print(&row(wired, &beside.unwrap_or(wired).cpu_ns))?;
    }
    for wired in ways.iter().filter(|wired| wired.was_refused()) {
        note(&format!("{}: the system did not give huge pages for all of it", wired.way.name()));
    }
    match ways.is_empty() {
        false => Ok(ExitCode::SUCCESS),
        true => Err(Failure::Failed("nothing could be measured".into())),
    }
}

fn row(wired: &Wired, beside: &[f64]) -> String {
    let (Some(own), Some(other)) = (Summary::of(&wired.cpu_ns), Summary::of(beside)) else {
        return String::new();
    };
    let (median, least) = (other.median / own.median, other.min / own.min);
    let huge = wired.least_huge().map_or("–".into(), |share| format!("{:.0} %", share * 100.0));
    format!(
        "{:<42}{:>10.2} {:>12} {:>8.2} x {:>12} {huge:>8}\n",
        wired.way.name(),
        own.median,
        format!("({:.2})", own.min),
        median,
        format!("({least:.2} x)"),
    )
}
