//! `bench wiring`.

use std::process::ExitCode;

use clap::Args;

use crate::Failure;
use crate::output::{Machine, Screen, must_be_available, note, progress};
use crate::size::Size;
use crate::statistics::Summary;
use crate::wiring::{Way, sample};

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
    let mut ways: Vec<(Way, Vec<f64>)> = Vec::new();
    for way in Way::ALL {
        match sample(way, bytes) {
            Ok(_) => ways.push((way, Vec::new())),
            Err(failure) => note(&format!("{}: {failure}", way.name())),
        }
    }
    let bar = progress("wiring", repetitions);
    for done in 0..repetitions {
        for (way, samples) in &mut ways {
            samples.push(sample(*way, bytes)?.cpu());
        }
        bar.set_position(done as u64 + 1);
    }
    bar.finish_and_clear();
    screen.print(&format!(
        "{} wired, CPU time in ns for each page of 4 KiB: median (least) of {repetitions}\n\n",
        args.memory
    ))?;
    for (way, samples) in &ways {
        let beside = ways.iter().find(|(other, _)| *other == way.beside()).map(|(_, all)| all);
        screen.print(&row(*way, samples, beside.unwrap_or(samples)))?;
    }
    match ways.is_empty() {
        false => Ok(ExitCode::SUCCESS),
        true => Err(Failure::Failed("nothing could be measured".into())),
    }
}

fn row(way: Way, samples: &[f64], beside: &[f64]) -> String {
    let (Some(own), Some(other)) = (Summary::of(samples), Summary::of(beside)) else {
        return String::new();
    };
    let (median, least) = (other.median / own.median, other.min / own.min);
    format!(
        "{:<42}{:>10.2} {:>12} {:>8.2} x {:>12}\n",
        way.name(),
        own.median,
        format!("({:.2})", own.min),
        median,
        format!("({least:.2} x)"),
    )
}
