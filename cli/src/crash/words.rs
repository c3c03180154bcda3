//! A run in words: a table, and what is wrong.

use woodlot_bench::statistics::Summary;

use super::run::{Ended, Tally};
use crate::top::table;

const HEADINGS: [&str; 12] = [
    "processes",
    "kills",
    "in a call",
    "calls",
    "per second",
    "recoveries",
    "median us",
    "max us",
    "overlaps",
    "resolved",
    "frames lost",
    "of at most",
];

/// The table, and the sums in a sentence.
pub fn describe(ended: &Ended, owners: bool, intents: bool) -> String {
    let all = sum(&ended.tallies);
    let given_back = match owners {
        true => "; the table of the owners gave all of them back",
        false => "",
    };
    let resolved = match intents {
        true => format!("{} frames in doubt were named, and freed\n", all.resolved),
        false => String::new(),
    };
    let per_kill = all.lost as f64 / all.kills.max(1) as f64;
    table(HEADINGS, ended.tallies.iter().map(row))
        + &format!(
            "{} kills, {} of them in a call; {} recoveries, {} of them after one that was killed as well\n\
             {} overlaps; {} recoveries found frames lost, {} frames in {} pieces: {per_kill:.1} for each kill, and the \
             calls of the killed concerned or hid {}{given_back}\n{resolved}",
            all.kills,
            all.in_a_call,
            all.recoveries.len(),
            all.recoverers,
            all.overlaps,
            all.with_losses,
            all.lost,
            all.pieces,
            all.bound,
        )
}

fn row(tally: &Tally) -> [String; HEADINGS.len()] {
    let times = Summary::of(&tally.recoveries);
    let us = |of: fn(Summary) -> f64| times.map_or("-".into(), |times| format!("{:.1}", of(times)));
    [
        tally.processes.to_string(),
        tally.kills.to_string(),
        tally.in_a_call.to_string(),
        tally.calls.to_string(),
        format!("{:.0}", tally.calls as f64 / tally.seconds.max(1e-9)),
        tally.recoveries.len().to_string(),
        us(|times| times.median),
        us(|times| times.max),
        tally.overlaps.to_string(),
        tally.resolved.to_string(),
        tally.lost.to_string(),
        tally.bound.to_string(),
    ]
}

/// All numbers of processes together.
pub fn sum(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |mut sum, one| {
        sum.kills += one.kills;
        sum.in_a_call += one.in_a_call;
        sum.calls += one.calls;
        sum.seconds += one.seconds;
        sum.recoveries.extend(&one.recoveries);
        sum.recoverers += one.recoverers;
        sum.overlaps += one.overlaps;
        sum.resolved += one.resolved;
        sum.with_losses += one.with_losses;
        sum.lost += one.lost;
        sum.pieces += one.pieces;
        sum.bound += one.bound;
        sum
    })
}
