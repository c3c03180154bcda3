//! Two runs side by side.
//!
//! Times are in C, the median of hot CAS in the same run, so that a machine that was slower as a
//! whole shows no difference. A figure differs when both hold:
//!
//! 1. the intervals from the least to the most of its repetitions have nothing in common; and
//! 2. the medians differ by more than 5 %, and by more than the *noise between runs*: that is the most
//!    that a loop of one thread of the floor changed by in C, for those are the same code in both runs, or three
//!    standard deviations of what all figures changed by, whichever is more. The deviation is taken
//!    from the middle half of the figures, so that the few that have really changed do not count.
//!
//! For a figure that is the same in both runs and whose repetitions are independent, the first
//! happens by chance in 2 of `(a + b)! / (a! b!)` cases with *a* and *b* repetitions; how many of all
//! figures that would be is said.

use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::statistics::Summary;

use super::data::{Data, Timed};
use super::words::{number, size, threads_of};

/// The least difference that counts.
const LEAST: f64 = 0.05;
/// Standard deviations that are noise.
const DEVIATIONS: f64 = 3.0;
/// Of normal errors: the standard deviation over the median of the absolute ones.
const NORMAL: f64 = 1.4826;

/// What came of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Faster,
    Slower,
    Same,
}

/// Two summaries in C.
fn judge(a: Summary, b: Summary, noise: f64) -> Verdict {
    let change = (b.median / a.median).max(a.median / b.median) - 1.0;
    match change > noise {
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
        // Of several threads' figures the text says where the CPUs were.
        let of_one_cpu = Loop::ALL.iter().filter(|which| **which != Loop::LineThereAndBack);
        of_one_cpu.map(|which| Some(data.floor(*which)?.median / c)).collect::<Option<Vec<_>>>()
    };
    let changes = loops(a)
        .zip(loops(b))
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| (b / a - 1.0).abs()).fold(0.0, f64::max));
    changes.unwrap_or(0.0)
}

/// How far the CPUs were from each other in both, where both say so.
fn lines_of(a: &Data, b: &Data) -> Option<[f64; 2]> {
    let line = |data: &Data| Some(data.floor(Loop::LineThereAndBack)?.median);
    Some([line(a)?, line(b)?])
}

/// The noise of what figures changed by from A to B, as a part of them.
fn scatter(figures: &[(&Timed, Summary, Summary)]) -> f64 {
    let logarithms = figures.iter().map(|(_, a, b)| (b.median / a.median).ln());
    let median = |values: &[f64]| Summary::of(values).map_or(0.0, |values| values.median);
    let changes: Vec<f64> = logarithms.collect();
    let middle = median(&changes);
    let errors: Vec<f64> = changes.iter().map(|change| (change - middle).abs()).collect();
    (DEVIATIONS * NORMAL * median(&errors)).exp_m1()
}

/// How likely it is that `a` and `b` samples of one distribution have nothing in common.
fn by_chance(a: usize, b: usize) -> f64 {
    let ways: f64 = (1..=b).map(|k| (a + k) as f64 / k as f64).product();
    2.0 / ways
}

/// A line of the table.
fn line(what: &str, a: &str, b: &str, ratio: &str, verdict: &str) -> String {
    let line = format!("{what:<68} {a:>20} {b:>20} {ratio:>8} {verdict}");
    format!("{}\n", line.trim_end())
}

/// A figure that both runs have, in C.
struct Pair<'a> {
    figure: &'a Timed,
    a: Summary,
    b: Summary,
    verdict: Verdict,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        self.b.median / self.a.median
    }

    fn name(&self) -> String {
        let Timed { engine, pattern, metric, order, threads, memory, .. } = self.figure;
        let (threads, memory) = (threads_of(*threads), size(*memory));
        format!("{engine} {pattern} {metric}, order {order}, {threads}, {memory}")
    }

    fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Faster => "FASTER",
            Verdict::Slower => "SLOWER",
            Verdict::Same => "",
        };
        let of =
            |s: Summary| format!("{} ({} – {})", number(s.median), number(s.min), number(s.max));
        line(&self.name(), &of(self.a), &of(self.b), &format!("{:.2}", self.ratio()), verdict)
    }
}

/// The comparison in words: what differs, every figure, and the verdict at the end.
pub fn compare(a: &Data, b: &Data) -> String {
    let (mut figures, mut expected) = (Vec::new(), 0.0);
    for first in &a.times {
        let Some(second) = b.times.iter().find(|second| same_figure(first, second)) else {
            continue;
        };
        if let (Some(in_a), Some(in_b)) = (in_c(first), in_c(second)) {
            expected += by_chance(first.cpu_ns.len(), second.cpu_ns.len());
            figures.push((first, in_a, in_b));
        }
    }
    let (change, scatter) = (floor_change(a, b), scatter(&figures));
    let noise = change.max(scatter).max(LEAST);
    let judged = |(figure, a, b)| Pair { figure, a, b, verdict: judge(a, b, noise) };
    let pairs: Vec<Pair> = figures.into_iter().map(judged).collect();
    let mut differ: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.verdict != Verdict::Same).collect();
    differ.sort_by(|one, other| other.ratio().total_cmp(&one.ratio()));
    let frag = huge_frames(a, b);
    let heading = line("in C: median (min – max)", "A", "B", "B / A", "");
    let mut text = format!("A: {}\nB: {}\n", a.machine.describe(), b.machine.describe());
    if !a.machine.same_processor(&b.machine) {
        text +=
            "A and B were measured on different processors: what differs may be the processors'.\n";
    }
    text += &format!(
        "floor: changed by up to {:.1} % in C; figures scatter by {:.1} % (three standard deviations). \
         A difference counts if the intervals of all repetitions are apart and the medians differ by \
         more than {:.1} %.\n",
        100.0 * change,
        100.0 * scatter,
        100.0 * noise
    );
    if let Some([a, b]) = lines_of(a, b) {
        text += &format!(
            "A cache line took {a:.0} ns to another CPU and back in A, {b:.0} ns in B: figures of several threads follow that.\n"
        );
    }
    text += "\nEvery figure\n";
    text += &heading;
    pairs.iter().for_each(|pair| text += &pair.line());
    frag.iter().for_each(|(line, _)| text += line);
    let frag_differs = frag.iter().filter(|(_, differs)| *differs);
    if !differ.is_empty() || frag_differs.clone().next().is_some() {
        text += &format!("\nWhat differs, the slowest first\n{heading}");
        differ.iter().for_each(|pair| text += &pair.line());
        frag_differs.for_each(|(line, _)| text += line);
    }
    text + &summary(a, b, &pairs, expected)
        + &verdict(&differ, frag.iter().any(|(_, differs)| *differs))
}

/// How many figures differ, and how many would by chance.
fn summary(a: &Data, b: &Data, pairs: &[Pair], expected: f64) -> String {
    let of = |verdict| pairs.iter().filter(|pair| pair.verdict == verdict).count();
    let only = |of: &Data, other: &Data| {
        let unmatched = |one: &&Timed| !other.times.iter().any(|two| same_figure(one, two));
        of.times.iter().filter(unmatched).count()
    };
    format!(
        "\nB is faster in {}, slower in {}, and the noise hides any difference in {}; if nothing had \
         changed, chance alone would set about {expected:.1} intervals apart. Only in A: {}; only in \
         B: {}.\n",
        of(Verdict::Faster),
        of(Verdict::Slower),
        of(Verdict::Same),
        only(a, b),
        only(b, a)
    )
}

/// The last line.
fn verdict(differ: &[&Pair], frag_differs: bool) -> String {
    let most = |pair: &&Pair| format!("; most in {} ({:.2} ×)", pair.name(), pair.ratio());
    let slower = differ.iter().filter(|pair| pair.verdict == Verdict::Slower);
    let faster = differ.iter().filter(|pair| pair.verdict == Verdict::Faster);
    let mut said = Vec::new();
    if let Some(first) = slower.clone().next() {
        said.push(format!("B is slower in {}{}", slower.count(), most(first)));
    }
    if let Some(last) = faster.clone().next_back() {
        said.push(format!("B is faster in {}{}", faster.count(), most(last)));
    }
    if frag_differs {
        said.push("huge frames differ".into());
    }
    match said.is_empty() {
        true => "Verdict: no difference.\n".into(),
        false => format!("Verdict: {}.\n", said.join(". ")),
    }
}

/// Fragmentation, which has no noise: any difference is one. Each line, and whether it differs.
fn huge_frames(a: &Data, b: &Data) -> Vec<(String, bool)> {
    let end = |data: &Data, engine: Engine| Some(data.states(engine)?.last()?.percent());
    let mut lines = Vec::new();
    for frag in &a.frag {
        let engine = frag.engine;
        let comparable = b
            .frag
            .iter()
            .any(|b| (b.engine, b.memory, b.slots) == (engine, frag.memory, frag.slots));
        if let (true, Some(a), Some(b)) = (comparable, end(a, engine), end(b, engine)) {
            let differs = (a - b).abs() > 1e-9;
            let what = format!("{engine} frag, percent of possible huge frames");
            let said = if differs { "DIFFERS" } else { "" };
            lines.push((line(&what, &format!("{a:.2}"), &format!("{b:.2}"), "", said), differs));
        }
    }
    lines
}
