//! `bench wiring`.

use std::process::ExitCode;

use clap::Args;

use crate::Failure;
use crate::output::{Machine, Screen, must_be_available, note, progress};
use crate::size::Size;
use crate::statistics::Summary;
use crate::wiring::{Way, Wired, measure, threads};

/// How much is wired.
#[derive(Args, Debug)]
pub struct WiringArgs {
    /// How much memory is wired, 4MiB or more. So much must be free
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: Size,
    /// How often everything is measured, what is of fresh memory each time after a time that does not count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Only ways whose name contains this, and those that they are compared with: `fresh`, `n threads`
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub only: String,
}

/// Measures wiring in large pieces beside one fault for each page (FreeBSD anti-fragmentation, table II).
///
/// # Errors
/// When nothing could be measured.
pub fn wiring(args: &WiringArgs) -> Result<ExitCode, Failure> {
    let ways = Way::named(&args.only);
    if ways.is_empty() {
        return Err(Failure::Usage(format!("no way has {:?} in its name", args.only)));
    }
    let (bytes, repetitions) =
        (((args.memory.frames() * 4096) >> 21) << 21, args.repetitions as usize);
    must_be_available(bytes)?;
    let mut screen = Screen::default();
    screen.print(&Machine::here().describe())?;
    let bar = progress("wiring", repetitions);
    let (ways, missing) = measure(&ways, bytes, repetitions, &|| bar.inc(1))?;
    bar.finish_and_clear();
    missing.iter().for_each(|why| note(why));
    screen.print(&format!(
        "{} wired, median (least) of {repetitions}: CPU time of all threads in ns for each page of 4 KiB; time on the wall in \
         ms for all of it; how many times as fast as one by one, by CPU time, of several threads on the wall; the least share \
         that huge pages map. n is {}, the CPUs that this program may use: n threads take no less CPU time\n\n",
        args.memory,
        threads()
    ))?;
    let of = |way: Way| ways.iter().find(|other| other.way == way);
    for wired in &ways {
        screen.print(&row(wired, of(wired.way.beside()).unwrap_or(wired)))?;
        if let Some(beside) = wired.way.beside_threads().and_then(of) {
            screen.print(&beside_threads(wired, beside))?;
        }
    }
    for wired in ways.iter().filter(|wired| wired.was_refused()) {
        note(&format!("{}: the system did not give huge pages for all of it", wired.way.name()));
    }
    match ways.is_empty() {
        false => Ok(ExitCode::SUCCESS),
        true => Err(Failure::Failed("nothing could be measured".into())),
    }
}

/// How many times as fast as another one: by medians, and by the least.
fn faster(wired: &Wired, beside: &Wired) -> Option<String> {
    let times = |of: &Wired| match wired.way.has_threads() {
        true => Summary::of(&of.wall_ms),
        false => Summary::of(&of.cpu_ns),
    };
    let (own, other) = (times(wired)?, times(beside)?);
    let ratios =
        [other.median / own.median, other.min / own.min].map(|ratio| format!("{ratio:.2}"));
    let clock = if wired.way.has_threads() { "wall" } else { "" };
    Some(format!("{:>8} x {:>10} {clock:<4}", ratios[0], format!("({})", ratios[1])))
}

fn row(wired: &Wired, beside: &Wired) -> String {
    let both = |samples| {
        let Summary { median, min, .. } = Summary::of(samples)?;
        Some(format!("{median:>9.2} {:>11}", format!("({min:.2})")))
    };
    let columns = (both(&wired.cpu_ns), both(&wired.wall_ms), faster(wired, beside));
    let (Some(cpu), Some(wall), Some(faster)) = columns else { return String::new() };
    let huge = wired.least_huge().map_or("–".into(), |share| format!("{:.0} %", share * 100.0));
    format!("{:<48}{cpu} {wall}{faster} {huge:>6}\n", wired.way.name())
}

/// The row below that of several threads.
fn beside_threads(wired: &Wired, beside: &Wired) -> String {
    let Some(faster) = faster(wired, beside) else { return String::new() };
    format!("{:<91}{faster}\n", format!("  beside {}", beside.way.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wired(way: Way, cpu_ns: f64, wall_ms: f64) -> Wired {
        Wired { way, cpu_ns: vec![cpu_ns], wall_ms: vec![wall_ms], huge: vec![1.0] }
    }

    #[test]
    fn a_name_of_no_way_is_refused() {
        let args = WiringArgs { memory: Size::mib(4), repetitions: 1, only: "nobody".into() };
        let refused = wiring(&args).unwrap_err();
        assert!(matches!(&refused, Failure::Usage(why) if why.contains("no way")), "{refused:?}");
    }

    #[test]
    fn threads_are_compared_on_the_wall() {
        let beside = wired(Way::FreshOneByOne, 8.0, 8.0);
        let one = row(&wired(Way::FreshWiredHuge, 2.0, 4.0), &beside);
        assert!(one.contains(" 4.00 x     (4.00)      "), "{one}");
        let own = wired(Way::FreshWiredHugeThreads, 2.0, 1.0);
        let several = row(&own, &beside);
        assert!(several.contains(" 8.00 x     (8.00) wall "), "{several}");
        let fair = beside_threads(&own, &wired(Way::FreshOneByOneThreads, 8.0, 4.0));
        assert!(fair.contains(" 4.00 x     (4.00) wall"), "{fair}");
        let place = |row: &str| row.find(" x ");
        assert_eq!((place(&one), place(&fair)), (place(&several), place(&several)));
    }
}
