//! Two runs side by side.
//!
//! Times are in C, the median of hot CAS in the same run, so that a machine that was slower as a
//! whole shows no difference. A figure differs when both hold:
//!
//! 1. the intervals from the least to the most of its repetitions have nothing in common; and
//! 2. the medians differ by more than 5 %, and by more than the floor did: the loops of the floor
//!    are the same code in both runs, so what they changed by in C is noise.
//!
//! For a figure that is the same in both runs and whose repetitions are independent, the first
//! happens by chance in 2 of `(a + b)! / (a! b!)` cases with *a* and *b* repetitions; how many of all
//! figures that would be is said.

use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::statistics::Summary;

use super::data::{Data, Timed};
use super::section::number;

/// The least difference that counts.
const LEAST: f64 = 0.05;

/// What came of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Faster,
    Slower,
    Same,
}

/// Two summaries in C.
fn judge(a: Summary, b: Summary, noise: f64) -> Verdict {
    let change = b.median / a.median - 1.0;
    match change.abs() > noise {
        true if b.max < a.min => Verdict::Faster,
        true if b.min > a.max => Verdict::Slower,
        _ => Verdict::Same,
    }
}

/// What is compared with what.
fn same_figure(a: &Timed, b: &Timed) -> bool {
    let key = |t: &Timed| (t.engine, t.pattern, t.metric, t.order, t.threads, t.memory);
    key(a) == key(b)
}

/// Times in C.
fn in_c(timed: &Timed) -> Option<Summary> {
    let c = timed.hot_cas_ns;
    let scaled: Vec<f64> = timed.cpu_ns.iter().map(|ns| ns / c).collect();
    Summary::of(&scaled).filter(|_| c > 0.0)
}

/// By how much the floor differs, in C: the largest change of one of its loops.
fn floor_change(a: &Data, b: &Data) -> f64 {
    let loops = |data: &Data| {
        let c = data.floor(Loop::HotCas)?.median;
        Loop::ALL
            .iter()
            .map(|which| Some(data.floor(*which)?.median / c))
            .collect::<Option<Vec<_>>>()
    };
    let changes = loops(a)
        .zip(loops(b))
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| (b / a - 1.0).abs()).fold(0.0, f64::max));
    changes.unwrap_or(0.0)
}

/// How likely it is that `a` and `b` samples of one distribution have nothing in common.
fn by_chance(a: usize, b: usize) -> f64 {
    let ways: f64 = (1..=b).map(|k| (a + k) as f64 / k as f64).product();
    2.0 / ways
}

/// A line of the table.
fn line(what: &str, a: &str, b: &str, ratio: &str, verdict: &str) -> String {
    let line = format!("{what:<62} {a:>20} {b:>20} {ratio:>8} {verdict}");
    format!("{}\n", line.trim_end())
}

/// The comparison in words.
pub fn compare(a: &Data, b: &Data) -> String {
    let change = floor_change(a, b);
    let noise = change.max(LEAST);
    let pairs =
        || a.times.iter().filter_map(|a| Some((a, b.times.iter().find(|b| same_figure(a, b))?)));
    let mut text = format!("A: {}\nB: {}\n", a.machine.describe(), b.machine.describe());
    text += &format!(
        "floor: changed by up to {:.1} % in C. A difference counts if the intervals of all \
         repetitions are apart and the medians differ by more than {:.1} %.\n\n",
        100.0 * change,
        100.0 * noise
    );
    text += &line("in C: median (min – max)", "A", "B", "B / A", "");
    let (mut faster, mut slower, mut same, mut expected) = (0, 0, 0, 0.0);
    for (first, second) in pairs() {
        let (Some(in_a), Some(in_b)) = (in_c(first), in_c(second)) else { continue };
        expected += by_chance(first.cpu_ns.len(), second.cpu_ns.len());
        let verdict = match judge(in_a, in_b, noise) {
            Verdict::Faster => {
                faster += 1;
                "FASTER"
            }
            Verdict::Slower => {
                slower += 1;
                "SLOWER"
            }
            Verdict::Same => {
                same += 1;
                ""
            }
        };
        let Timed { engine, pattern, metric, order, threads, memory, .. } = first;
        let what =
            format!("{engine} {pattern} {metric}, order {order}, {threads} threads, {memory}");
        let of =
            |s: Summary| format!("{} ({} – {})", number(s.median), number(s.min), number(s.max));
        let ratio = format!("{:.2}", in_b.median / in_a.median);
        text += &line(&what, &of(in_a), &of(in_b), &ratio, verdict);
    }
    text += &huge_frames(a, b);
    let only = |of: &Data, other: &Data| {
        let unmatched = |one: &&Timed| !other.times.iter().any(|two| same_figure(one, two));
        of.times.iter().filter(unmatched).count()
    };
    text += &format!(
        "\nB is faster in {faster}, slower in {slower}, and the noise hides any difference in \
         {same}; if nothing had changed, chance alone would set about {expected:.1} intervals apart. \
         Only in A: {}; only in B: {}.\n",
        only(a, b),
        only(b, a)
    );
    text
}

/// Fragmentation, which has no noise: any difference is one.
fn huge_frames(a: &Data, b: &Data) -> String {
    let end = |data: &Data, engine: Engine| Some(data.states(engine)?.last()?.percent());
    let mut text = String::new();
    for frag in &a.frag {
        let engine = frag.engine;
        let comparable = b
            .frag
            .iter()
            .any(|b| (b.engine, b.memory, b.slots) == (engine, frag.memory, frag.slots));
        if let (true, Some(a), Some(b)) = (comparable, end(a, engine), end(b, engine)) {
            let differs = if (a - b).abs() > 1e-9 { "DIFFERS" } else { "" };
            let what = format!("{engine} frag, percent of possible huge frames");
            text += &line(&what, &format!("{a:.2}"), &format!("{b:.2}"), "", differs);
        }
    }
    text
}
