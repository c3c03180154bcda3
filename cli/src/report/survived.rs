//! Section 5.7 of LLFree's paper: how long a zone takes to open, and what processes leave that are killed.

use woodlot_bench::statistics::Summary;

use super::beside::{Beside, beside};
use super::data::{Crashes, Data, Openings};
use super::papers;
use super::section::{Section, Table};
use super::words::{count, number, percent, size, spread};

/// This run's figures and whether they keep the rule, as a claim takes them.
type Found = Option<(String, bool)>;

fn median(times: &[f64]) -> Option<f64> {
    Some(Summary::of(times)?.median)
}

/// Times of a zone as large as the paper's.
fn as_large(data: &Data) -> Option<&Openings> {
    data.openings.as_ref().filter(|openings| openings.memory == papers::SURVIVING)
}

/// An opening after a clean shutdown, beside the paper's.
pub fn clean(data: &Data) -> Found {
    let us = median(&as_large(data)?.clean_us)?;
    Some((format!("{} µs", number(us)), us <= papers::CLEAN_US))
}

/// A recovery by two threads, beside one.
pub fn two_threads(data: &Data) -> Found {
    let openings = data.openings.as_ref().filter(|_| data.machine.cpus() > 1)?;
    let (one, two) = (median(&openings.dirty_us)?, median(&openings.dirty_two_us)?);
    let said = format!("{} and {} µs: {} ×", number(one), number(two), number(one / two));
    Some((said, two < one))
}

/// What was found of processes that were killed.
pub fn killed(data: &Data) -> Found {
    let crashes = data.crashes.as_ref()?;
    Some((describe(crashes), crashes.is_right()))
}

fn describe(crashes: &Crashes) -> String {
    let Crashes { kills, recoveries, overlaps, lost, bound, wrong, .. } = crashes;
    let said = format!(
        "{} kills, {} recoveries, {} overlaps, {} frames lost of {} that the calls concerned",
        count(*kills),
        count(*recoveries),
        count(*overlaps),
        count(*lost),
        count(*bound)
    );
    wrong.iter().fold(said, |said, wrong| said + "; " + wrong)
}

/// The section.
pub fn section(data: &Data) -> Section {
    let zone = data.openings.as_ref().map_or("a zone".into(), |openings| size(openings.memory));
    Section {
        id: "section-5-7".into(),
        title: "Section 5.7: after a shutdown, and after a crash".into(),
        about: format!(
            "{zone}, of which a random half is allocated, is opened: in memory, by the wall. Processes that share a \
             small zone allocate and free blocks of every order, and write down what they own outside of the zone; \
             they are killed at any moment, the zone is recovered elsewhere, and compared with what they wrote. The \
             paper kills a process of its own that does nothing but allocate and free."
        ),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table { columns: vec!["what", "here"], rows: rows(data) },
        paper: given(data),
        paper_machine: papers::LLFREE_MACHINE,
    }
}

fn rows(data: &Data) -> Vec<Vec<String>> {
    let not_measured = || "not measured".to_string();
    let times = |of: fn(&Openings) -> &Vec<f64>| {
        data.openings.as_ref().and_then(|openings| Summary::of(of(openings)))
    };
    let opened = [
        ("opened after a crash, one thread, µs: median (min – max)", times(|o| &o.dirty_us)),
        ("opened after a crash, two threads, µs", times(|o| &o.dirty_two_us)),
        ("opened after a clean shutdown, µs", times(|o| &o.clean_us)),
        ("the same, every byte that survived compared, µs", times(|o| &o.clean_compared_us)),
    ];
    let opened = opened.map(|(what, summary)| (what.to_string(), spread(summary)));
    let crashes = data.crashes.as_ref();
    let counted =
        |of: fn(&Crashes) -> usize| crashes.map_or_else(not_measured, |crashes| count(of(crashes)));
    let processes = crashes.map_or_else(String::new, |crashes| {
        let numbers = crashes.processes.iter().map(usize::to_string);
        format!(" (at once: {})", numbers.collect::<Vec<_>>().join(", "))
    });
    let killed = [
        (format!("processes killed{processes}"), counted(|c| c.kills)),
        ("of them in a call".into(), counted(|c| c.in_a_call)),
        ("recoveries".into(), counted(|c| c.recoveries)),
        ("frames with two owners, or free and owned".into(), counted(|c| c.overlaps)),
        ("recoveries that found frames lost".into(), counted(|c| c.with_losses)),
        ("frames lost".into(), counted(|c| c.lost)),
        (
            "frames that the calls of the killed concerned: no more may be lost".into(),
            counted(|c| c.bound),
        ),
    ];
    opened.into_iter().chain(killed).map(|(what, here)| vec![what, here]).collect()
}

/// What the paper gives.
fn given(data: &Data) -> Vec<Beside> {
    let us = |of: fn(&Openings) -> &Vec<f64>| {
        Some(format!("{} µs", number(median(of(as_large(data)?))?)))
    };
    let crashes = || data.crashes.as_ref();
    let recovered = || {
        let crashes = crashes()?;
        let all = if crashes.is_right() { "all" } else { "not all" };
        Some(format!("{all} of {} recoveries", count(crashes.recoveries)))
    };
    let with_losses = || {
        let crashes = crashes()?;
        let share = 100.0 * crashes.with_losses as f64 / crashes.recoveries.max(1) as f64;
        Some(format!("{} of the recoveries", percent(share)))
    };
    let lost = || {
        let crashes = crashes()?;
        let each = crashes.lost as f64 / crashes.kills.max(1) as f64;
        Some(format!("{} frames for each kill; a call here concerns up to 1024", number(each)))
    };
    let source = "LLFree, section 5.7";
    vec![
        beside(
            "128 GiB, half allocated, after a crash, one thread",
            "2460 µs",
            us(|o| &o.dirty_us),
            source,
        ),
        beside(
            "the same by two threads",
            "not done (“could be parallelized”)",
            us(|o| &o.dirty_two_us),
            source,
        ),
        beside("the same after a clean shutdown", "477 µs", us(|o| &o.clean_us), source),
        beside("crashes injected", "1000", crashes().map(|crashes| count(crashes.kills)), source),
        beside("recovered", "all", recovered(), source),
        beside("experiments that lost frames", "about half", with_losses(), source),
        beside("frames lost", "at most one for each core", lost(), source),
    ]
}
