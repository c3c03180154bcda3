//! Targets of heaps: measured, compared, counted.
//!
//! Targets of one benchmark are measured in one run, with the rivals and the floor, by turns. What cannot be measured is
//! short, and so is what is held against the best rival while one of the rivals is missing: it could be the best.
//!
//! A time is met or short by what the repetitions say in the middle. The ratio of the least times is printed beside it, each of which is of a repetition of its
//! own, and the rival's of whoever has the least: where a neighbour shares the cores now and then, these are times without it.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use woodlot_kmem::{Octaves, Quarters};

use super::case::{Case, Interface, Metric, Setup, What};
use super::contender::{Contender, Contenders};
use super::count::{Count, counts};
use super::emptied::{Emptied, emptied};
use super::libraries::Libraries;
use super::locks::{LockRow, lock_manager};
use super::measure::{Kept, Line, measure};
use super::targets::{Layer, OWN, Target, Task, Timed, Unit};
use super::transfers::{TransferRow, transfers};
use super::waste::{Load, WasteRow, waste};
use crate::Failure;
use crate::check::{Held, Table, Verdict};
use crate::output::{Screen, progress};
use crate::statistics::Summary;

/// Rivals that a program can have linked in; the first one is always there.
pub const LINKED: [&str; 4] = ["system", "mimalloc", "jemalloc", "snmalloc"];
/// Frames that each CPU may keep.
const KEPT: usize = 4;

/// What is measured for several targets at once.
#[derive(Clone, PartialEq, Debug)]
enum Run {
    Timed { what: What, preloaded: bool },
    Instructions,
    Transfers,
    Locks,
    Waste,
    Emptied,
}

impl Run {
    fn of(target: &Target) -> Run {
        match &target.task {
            Task::Time(timed, _)
            | Task::Wins(timed, _)
            | Task::Flat(timed)
            | Task::Peak(timed, _) => {
                Run::Timed { what: timed.what, preloaded: timed.is_preloaded() }
            }
            Task::Instructions(..) => Run::Instructions,
            Task::Transfers => Run::Transfers,
            Task::Misses(..) => Run::Locks,
            Task::Waste => Run::Waste,
            Task::Kept | Task::Huge | Task::Again => Run::Emptied,
        }
    }
}

/// What it found.
enum Found {
    Timed(Kept),
    Counts(Vec<Count>),
    Transfers(Vec<TransferRow>),
    Locks(Vec<LockRow>),
    Waste(Vec<WasteRow>),
    Emptied(Emptied),
}

/// A target, and what came of it.
#[derive(Serialize)]
pub struct Judged {
    row: String,
    name: String,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Who is measured, and how.
pub struct Checked<'a> {
    /// Heaps of this program.
    pub contenders: &'a Contenders,
    /// Those of others, in processes of their own.
    pub libraries: &'static Libraries,
    /// The setup of each benchmark.
    pub setup: &'a dyn Fn(What) -> Setup,
    /// How many repetitions count.
    pub repetitions: usize,
    /// How many CPUs pairs run on that are to be flat.
    pub cpus: usize,
}

/// Measures all targets and prints which are met; exit code 1 where one is short.
///
/// # Errors
/// It cannot be printed.
pub fn check(
    targets: &[Target],
    checked: &Checked,
    screen: &mut Screen,
) -> Result<(Vec<Judged>, ExitCode), Failure> {
    let mut table = Table::begin(screen)?;
    let bar = progress("targets", targets.len());
    let mut all = Vec::new();
    for group in targets.chunk_by(|one, other| Run::of(one) == Run::of(other)) {
        let found = checked.found(group);
        let judged = group.iter().map(|target| Judged {
            row: target.row.clone(),
            name: target.name.clone(),
            verdict: match &found {
                Ok(found) => checked.judge(target, found).unwrap_or_else(Verdict::missing),
                Err(cause) => Verdict::missing(cause.clone()),
            },
        });
        let judged: Vec<Judged> = judged.collect();
        bar.inc(group.len() as u64);
        bar.suspend(|| table.add(judged.iter().map(|one| (&*one.name, &one.verdict))))?;
        all.extend(judged);
    }
    bar.finish_and_clear();
    Ok((all, table.end()?))
}

impl Checked<'_> {
    /// Measures what neighbours want that are measured together.
    fn found(&self, group: &[Target]) -> Result<Found, Failure> {
        let Some(first) = group.first() else {
            return Err(Failure::Failed("no target".into()));
        };
        Ok(match Run::of(first) {
            Run::Timed { what, preloaded } => Found::Timed(self.timed(group, what, preloaded)?),
            Run::Instructions => {
                let mut sizes = Vec::new();
                for target in group {
                    if let Task::Instructions(bytes, _) = target.task {
                        add(&mut sizes, [bytes]);
                    }
                }
                let kmem = self.contenders.0.iter().filter(|one| one.name() == OWN[0]);
                Found::Counts(counts(&Contenders(kmem.copied().collect()), &sizes))
            }
            Run::Transfers => Found::Transfers(transfers(&(self.setup)(What::Transfers))?),
            Run::Locks => {
                let setup = (self.setup)(What::LockManager);
                let threads = setup.threads.last().copied().unwrap_or(1);
                Found::Locks(lock_manager::<Octaves>(threads, &setup, None)?)
            }
            Run::Waste => Found::Waste(waste::<Quarters>(&(self.setup)(What::Waste))?),
            Run::Emptied => Found::Emptied(emptied(&(self.setup)(What::Emptied))?),
        })
    }

    /// Every heap in every case that a target has.
    fn timed(&self, group: &[Target], what: What, preloaded: bool) -> Result<Kept, Failure> {
        let (mut bytes, mut threads) = (Vec::new(), vec![1]);
        for target in group {
            match &target.task {
                Task::Time(timed, _) => add(&mut bytes, timed.case.bytes),
                Task::Flat(timed) => {
                    add(&mut bytes, timed.case.bytes);
                    add(&mut threads, [self.cpus]);
                }
                Task::Wins(_, sizes) | Task::Peak(_, sizes) => {
                    add(&mut bytes, sizes.iter().copied());
                }
                _ => {}
            }
        }
        bytes.sort_unstable();
        let setup = Setup { bytes, threads, ..(self.setup)(what) };
        let children = self.libraries.found.iter().map(|child| child as &dyn Contender);
        let children = Contenders(children.collect());
        let contenders = if preloaded { &children } else { self.contenders };
        measure(what, contenders, (&setup, self.repetitions), &|| {})
    }

    /// Holds a target against what was found for it.
    fn judge(&self, target: &Target, found: &Found) -> Result<Verdict, Failure> {
        let limit = target.limit;
        let held = |figure, unit, (against, name): (f64, &str)| {
            Verdict::of(&Held { figure, unit, against, name: name.into(), limit, least: false })
        };
        let at_least = |figure, unit, name: &str| {
            let name = name.into();
            Verdict::of(&Held { figure, unit, against: 1.0, name, limit, least: true })
        };
        Ok(match (&target.task, found) {
            (Task::Time(timed, unit), Found::Timed(kept)) => {
                let own = own(kept, timed)?;
                let figure = median(own)?;
                match unit {
                    Unit::Floor => {
                        let floor = beside(kept, timed)?;
                        let name = format!("{figure:.2} ns; floor {:.2}", median(floor)?);
                        let verdict = held(over(own, floor)?, "", (1.0, &name));
                        verdict.of_least(least_over(own, floor)?)
                    }
                    Unit::NsAtC245 => {
                        let (c, least) =
                            kept.c().map_or((f64::NAN, f64::NAN), |c| (c.median, c.min));
                        let name = format!("ns at C = 2.45; C = {c:.2}{}", shared(kept, timed));
                        let verdict = held(figure, "ns", (c / 2.45, &name));
                        verdict.of_least(summary(own)?.min / (least / 2.45))
                    }
                    Unit::BestRival => {
                        let rivals = self.rivals(kept, timed)?;
                        let (best, ratio) = rivals.best.ok_or_else(not_measured)?;
                        let rival = median(best)?;
                        let name = format!("{figure:.2} ns; {} {rival:.2}", best.contender);
                        let verdict = held(ratio, "", (1.0, &name)).of_least(rivals.least);
                        rivals.all_there(verdict, kept)
                    }
                }
            }
            (Task::Wins(timed, sizes), Found::Timed(kept)) => {
                let mut wins = 0.0;
                let mut missing = Rivals::default();
                for &bytes in sizes {
                    let case = Case { bytes: Some(bytes), ..timed.case };
                    let timed = Timed { case, ..timed.clone() };
                    let rivals = self.rivals(kept, &timed)?;
                    let (_, ratio) = rivals.best.ok_or_else(not_measured)?;
                    wins += f64::from(u8::from(ratio < 1.0));
                    add(&mut missing.missing, rivals.missing);
                }
                missing.all_there(at_least(wins, "", &format!("of {} sizes", sizes.len())), kept)
            }
            (Task::Flat(timed), Found::Timed(kept)) => {
                if self.cpus < 2 {
                    return Err(Failure::Failed("this machine has one CPU".into()));
                }
                let all = Case { threads: self.cpus, ..timed.case };
                let flat = flat(kept, timed, &Timed { case: all, ..timed.clone() })?;
                held(flat.ratio, "", (1.0, &format!("{flat}, {} CPUs", self.cpus)))
            }
            (Task::Peak(timed, sizes), Found::Timed(kept)) => {
                let mut peak = 0.0_f64;
                for &bytes in sizes {
                    let case = Case { bytes: Some(bytes), ..timed.case };
                    peak = peak.max(summary(own(kept, &Timed { case, ..timed.clone() })?)?.max);
                }
                held(peak, "", (1.0, "payload, every size"))
            }
            (&Task::Instructions(bytes, interface), Found::Counts(counts)) => {
                held(instructions(counts, bytes, interface)?, "", (1.0, "instructions"))
            }
            (Task::Transfers, Found::Transfers(rows)) => {
                let pairs = rows.iter().filter(|row| !row.handed_over);
                let most = pairs.clone().map(|row| row.moved).fold(0.0, f64::max);
                let cpus = pairs.map(|row| row.cpus).max().ok_or_else(not_measured)?;
                held(most, "", (1.0, &format!("a pair, 1 to {cpus} CPUs")))
            }
            (&Task::Misses(layer, bytes, metric), Found::Locks(rows)) => {
                let row = rows.iter().find(|row| row.bytes == bytes).ok_or_else(not_measured)?;
                let (rate, bound) = misses(row, layer, metric);
                held(100.0 * rate, "%", (100.0 * bound, &format!("at most {:.2} %", 100.0 * bound)))
            }
            (Task::Waste, Found::Waste(rows)) => {
                let heavy = rows.iter().filter(|row| row.load == Load::Heavy);
                let (slabs, asked) = heavy
                    .fold((0, 0), |(slabs, asked), row| (slabs + row.slabs, asked + row.asked));
                held(slabs as f64 / asked.max(1) as f64, "", (1.0, "bytes asked for"))
            }
            (Task::Kept, Found::Emptied(found)) => {
                held(found.kept_each(), "", (1.0, &format!("each of {} CPUs", found.cpus)))
            }
            (Task::Huge, Found::Emptied(found)) => {
                at_least(found.huge_percent(), "%", &format!("of {} huge frames", found.huge))
            }
            (Task::Again, Found::Emptied(found)) => {
                let name = format!("all but {KEPT} frames a CPU");
                at_least(found.again_percent(KEPT), "%", &name)
            }
            _ => return Err(not_measured()),
        })
    }

    /// The best of the rivals, and those who are not there.
    fn rivals<'k>(&self, kept: &'k Kept, timed: &Timed) -> Result<Rivals<'k>, Failure> {
        let expected = if timed.is_preloaded() { Libraries::rivals() } else { LINKED.to_vec() };
        let own = own(kept, timed)?;
        let there = kept.lines.iter().filter(|line| is(line, timed));
        let there = there.filter(|line| !OWN.contains(&&*line.contender));
        let there: Vec<_> = there.filter_map(|line| Some((line, over(own, line).ok()?))).collect();
        let is_there = |name: &str| there.iter().any(|(rival, _)| rival.contender == name);
        let missing = expected.into_iter().filter(|name| !is_there(name)).map(String::from);
        let missing = missing.collect();
        let all_least = there.iter().filter_map(|(line, _)| least_over(own, line).ok());
        let least = all_least.fold(0.0, f64::max);
        let best = there.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
        Ok(Rivals { best, least, missing })
    }
}

/// Whom a time is held against.
#[derive(Default)]
struct Rivals<'k> {
    /// The one that the heap's time is most times as long as, and how many.
    best: Option<(&'k Line, f64)>,
    /// How many times the least of any rival the heap's least time is.
    least: f64,
    missing: Vec<String>,
}

impl Rivals<'_> {
    /// A verdict, short where somebody is missing.
    fn all_there(&self, verdict: Verdict, kept: &Kept) -> Verdict {
        if self.missing.is_empty() {
            return verdict;
        }
        let why = |name: &String| {
            let failed = kept.failures.iter().find(|failure| failure.starts_with(&**name));
            failed.cloned().unwrap_or_else(|| name.clone())
        };
        let missing: Vec<String> = self.missing.iter().map(why).collect();
        verdict.but(&format!("(missing: {})", missing.join(", ")))
    }
}

/// Adds those that are not there yet.
fn add<T: PartialEq>(to: &mut Vec<T>, some: impl IntoIterator<Item = T>) {
    for one in some {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

fn not_measured() -> Failure {
    Failure::Failed("not measured".into())
}

fn is(line: &Line, timed: &Timed) -> bool {
    line.case == timed.case && line.metric == timed.metric
}

/// How far the CPUs are from each other, where several threads run: it bounds what they hand over, and C does not know of it.
fn shared(kept: &Kept, timed: &Timed) -> String {
    let line = Summary::of(&kept.line_there_and_back).filter(|_| timed.case.threads > 1);
    line.map_or(String::new(), |line| {
        let Summary { median, min, max } = line;
        format!("; a line there and back {median:.0} ns ({min:.0} to {max:.0})")
    })
}

/// A heap's own figures.
fn own<'a>(kept: &'a Kept, timed: &Timed) -> Result<&'a Line, Failure> {
    let line = kept.lines.iter().find(|line| line.contender == timed.heap && is(line, timed));
    line.ok_or_else(|| {
        let failed = kept.failures.iter().find(|failure| failure.starts_with(&*timed.heap));
        failed.map_or_else(not_measured, |why| Failure::Failed(format!("not measured: {why}")))
    })
}

/// The floor beside a heap's figures.
fn beside<'a>(kept: &'a Kept, timed: &Timed) -> Result<&'a Line, Failure> {
    let line = kept.sequence_pairs.iter().find(|line| is(line, timed));
    line.ok_or_else(|| Failure::Failed("no floor beside it: only pairs have one, and none if there are no restartable sequences".into()))
}

fn summary(line: &Line) -> Result<Summary, Failure> {
    Summary::of(&line.values).ok_or_else(not_measured)
}

fn median(line: &Line) -> Result<f64, Failure> {
    Ok(summary(line)?.median)
}

/// How many times another's figure it is, in each repetition.
fn ratios(line: &Line, other: &Line) -> impl Iterator<Item = f64> {
    line.values.iter().zip(&other.values).map(|(one, other)| one / other)
}

fn median_of(ratios: impl Iterator<Item = f64>) -> Result<f64, Failure> {
    Ok(Summary::of(&ratios.collect::<Vec<f64>>()).ok_or_else(not_measured)?.median)
}

/// How many times another's figure it is: the median of what each repetition says, in which they were measured one after the other. A
/// machine that has one speed now and another one then has the same for both.
fn over(line: &Line, other: &Line) -> Result<f64, Failure> {
    median_of(ratios(line, other))
}

/// How many times another's least its own is, of the repetitions that both have.
fn least_over(line: &Line, other: &Line) -> Result<f64, Failure> {
    let both = line.values.len().min(other.values.len());
    let least = |line: &Line| Summary::of(line.values.get(..both)?).map(|summary| summary.min);
    least(line).zip(least(other)).map(|(one, other)| one / other).ok_or_else(not_measured)
}

/// A heap's time on one CPU and on all, and the floor's beside it.
struct Flat {
    /// The heap's on all CPUs over the floor's there, over the same on one: the median of all repetitions.
    ratio: f64,
    heap: [f64; 2],
    floor: [f64; 2],
}

/// The figures that were measured: a clock that falls while all CPUs work is seen there, and not in the ratio.
impl fmt::Display for Flat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flat { heap: [one, all], floor: [one_floor, all_floor], .. } = self;
        write!(f, "one {one:.2} ns, all {all:.2} ({:.2}); ", all / one)?;
        write!(f, "floor {one_floor:.2}, {all_floor:.2} ({:.2})", all_floor / one_floor)
    }
}

fn flat(kept: &Kept, one: &Timed, all: &Timed) -> Result<Flat, Failure> {
    let heaps = [own(kept, one)?, own(kept, all)?];
    let floors = [beside(kept, one)?, beside(kept, all)?];
    let in_floors = |at: usize| ratios(heaps[at], floors[at]);
    let ratio = median_of(in_floors(1).zip(in_floors(0)).map(|(all, one)| all / one))?;
    let heap = [median(heaps[0])?, median(heaps[1])?];
    Ok(Flat { ratio, heap, floor: [median(floors[0])?, median(floors[1])?] })
}

/// Instructions of a pair, to the tenth: callgrind's counts differ by so much from run to run.
fn instructions(counts: &[Count], bytes: usize, interface: Interface) -> Result<f64, Failure> {
    let count = counts.iter().find(|one| (one.bytes, one.interface) == (bytes, interface));
    let count = count.ok_or_else(not_measured)?;
    let why = || Failure::Failed(count.not_counted.clone().unwrap_or_default());
    Ok((10.0 * count.instructions.ok_or_else(why)?).round() / 10.0)
}

/// The share of calls, or of lists, that went on to the next layer, and the paper's bound for it.
fn misses(row: &LockRow, layer: Layer, metric: Metric) -> (f64, f64) {
    let of = usize::from(metric == Metric::Free);
    let share = |missed: u64, calls: u64| missed as f64 / calls.max(1) as f64;
    match layer {
        Layer::Cpu => (share(row.global[of], row.calls[of]), row.bounds[0]),
        Layer::Global => (share(row.pages[of], row.global[of]), row.bounds[1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmem::targets::parse;

    fn line(contender: &str, bytes: usize, threads: usize, value: f64) -> Line {
        let (contender, metric) = (contender.to_string(), Metric::Pair);
        let interface = Some(Interface::Standard);
        let case = Case { threads, bytes: Some(bytes), interface };
        Line { contender, case, metric, values: vec![value], wall: vec![] }
    }

    /// Pairs: kmem takes 3 ns on one thread and 3.3 on two, snmalloc 4 and jemalloc 5.
    fn kept() -> Kept {
        let rivals = [("system", 9.0), ("mimalloc", 6.0), ("jemalloc", 5.0), ("snmalloc", 4.0)];
        let own = [line("kmem", 32, 1, 3.0), line("kmem", 32, 2, 3.3), line("malloc", 32, 1, 1.0)];
        let rivals = rivals.map(|(name, value)| line(name, 32, 1, value));
        let lines = own.into_iter().chain(rivals).collect();
        let (hot_cas, sequence_pair) = (vec![4.9], vec![2.0]);
        Kept { hot_cas, sequence_pair, lines, ..Kept::default() }
    }

    fn checked(cpus: usize) -> Checked<'static> {
        let contenders: &'static Contenders = Box::leak(Box::new(Contenders(Vec::new())));
        let libraries = Box::leak(Box::default());
        Checked { contenders, libraries, setup: &|_| Setup::default(), repetitions: 1, cpus }
    }

    fn target(lines: &str, limit: f64) -> Target {
        let text = format!("[[target]]\nrow = \"r\"\nlimit = {limit:?}\n{lines}");
        parse(&text).unwrap().remove(0)
    }

    fn pair(lines: &str, limit: f64) -> Target {
        let pair = "what = \"pair\"\nheaps = [\"kmem\"]\ninterface = \"standard\"\nbytes = [32]\n";
        target(&format!("{pair}{lines}"), limit)
    }

    fn judge(target: &Target, found: Found) -> Verdict {
        checked(2).judge(target, &found).unwrap()
    }

    #[test]
    fn a_time_is_held_against_the_floor_the_best_rival_or_c() {
        let is_met = |unit: &str, limit: f64| {
            let target = pair(&format!("unit = \"{unit}\""), limit);
            judge(&target, Found::Timed(beside_floors(kept(), [[2.0; 3]; 2]))).met
        };
        assert!(is_met("floor", 1.5) && !is_met("floor", 1.4));
        assert!(is_met("best-rival", 0.75) && !is_met("best-rival", 0.7));
        // 3 ns where C is twice 2.45.
        assert!(is_met("ns-at-c-2.45", 1.5) && !is_met("ns-at-c-2.45", 1.4));
        let said = judge(&pair("unit = \"best-rival\"", 0.5), Found::Timed(kept())).text;
        assert!(
            said.contains("3.00 ns; snmalloc 4.00")
                && said.ends_with("short by 50.0 % (of the least: 0.750)"),
            "{said}"
        );
    }

    /// Of what several threads do together it is said how far their CPUs are from each other.
    #[test]
    fn a_line_there_and_back_stands_beside_what_threads_share() {
        let kept = || Kept { line_there_and_back: vec![98.6, 460.0, 101.0], ..kept() };
        let said = |threads: usize| {
            let mut target = pair("unit = \"ns-at-c-2.45\"", 1.5);
            if let Task::Time(timed, _) = &mut target.task {
                timed.case.threads = threads;
            }
            judge(&target, Found::Timed(kept())).text
        };
        assert!(
            said(2).contains("C = 4.90; a line there and back 101 ns (99 to 460)"),
            "{}",
            said(2)
        );
        assert!(!said(1).contains("a line"), "{}", said(1));
    }

    /// The least of all repetitions is said, of whichever rival that is, and of C; what is met goes by the middle. A rival that has failed since is looked at
    /// as far as it went.
    #[test]
    fn the_least_stands_beside_a_time() {
        let mut kept = beside_floors(kept(), [[2.0, 1.0, 2.0]; 2]);
        kept.hot_cas = vec![9.8, 4.9, 9.8];
        for line in &mut kept.lines {
            let value = line.values[0];
            let least = match &*line.contender {
                "kmem" => 2.0,
                "jemalloc" => 2.5,
                _ => value,
            };
            line.values = vec![value, least, value];
        }
        for (unit, least) in
            [("floor", "2.000"), ("best-rival", "0.800"), ("ns-at-c-2.45", "1.000")]
        {
            let target = pair(&format!("unit = \"{unit}\""), 0.5);
            let said = judge(&target, Found::Timed(kept.clone()));
            let ends = said.text.ends_with(&format!("(of the least: {least})"));
            assert!(ends && !said.met, "{said:?}");
        }
        let jemalloc = |line: &&mut Line| line.contender == "jemalloc";
        kept.lines.iter_mut().find(jemalloc).unwrap().values.truncate(1);
        let said = judge(&pair("unit = \"best-rival\"", 0.5), Found::Timed(kept));
        assert!(said.text.ends_with("(of the least: 0.600)"), "{said:?}");
    }

    /// The heap takes three quarters of the rival's time in two of three repetitions, at two speeds. Medians of their own would say 1.5.
    #[test]
    fn a_repetition_is_held_against_the_same_one_of_the_rival() {
        let mut kept = kept();
        for line in &mut kept.lines {
            let value = line.values[0];
            line.values = vec![2.0 * value, value, 2.0 * value];
        }
        let rival = |line: &&mut Line| line.contender == "snmalloc";
        kept.lines.iter_mut().find(rival).unwrap().values[2] = 4.0;
        let found =
            |limit| judge(&pair("unit = \"best-rival\"", limit), Found::Timed(kept.clone())).met;
        assert!(found(0.75) && !found(0.74));
    }

    #[test]
    fn a_peak_is_the_highest_and_nothing_is_none() {
        let lines = "what = \"worst\"\nheaps = [\"kmem\"]\nkind = \"peak\"\nmetric = \"peak\"\nbytes = [32]";
        let target = target(lines, 1.02);
        let case = Case { interface: None, ..line("kmem", 32, 1, 0.0).case };
        let found = |values: &[f64]| {
            let line = line("kmem", 32, 1, 0.0);
            let line = Line { case, metric: Metric::Peak, values: values.into(), ..line };
            checked(2).judge(&target, &Found::Timed(Kept { lines: vec![line], ..Kept::default() }))
        };
        assert!(found(&[1.01]).is_ok_and(|verdict| verdict.met));
        assert!(found(&[1.01, 1.03]).is_ok_and(|verdict| !verdict.met));
        assert!(found(&[]).is_err(), "nothing was measured");
    }

    #[test]
    fn a_rival_that_is_missing_could_be_the_best() {
        let target = pair("unit = \"best-rival\"", 1.0);
        let mut without = kept();
        without.lines.retain(|line| line.contender != "snmalloc");
        let found = judge(&target, Found::Timed(without.clone()));
        assert!(!found.met && found.text.ends_with("(missing: snmalloc)"), "{found:?}");
        without.failures.push("snmalloc: no memory for 32 bytes".into());
        let found = judge(&target, Found::Timed(without));
        assert!(found.text.ends_with("(missing: snmalloc: no memory for 32 bytes)"), "{found:?}");
        let mut nobody = kept();
        nobody.lines.retain(|line| line.contender != "kmem");
        assert!(checked(2).judge(&target, &Found::Timed(nobody)).is_err());
    }

    #[test]
    fn sizes_ahead_of_the_best_rival_are_counted() {
        let mut kept = kept();
        let names = ["kmem", "system", "mimalloc", "jemalloc", "snmalloc"];
        kept.lines.extend(names.map(|name| line(name, 64, 1, 7.0)));
        let wins = |sizes: &str, limit: f64| {
            let lines =
                "what = \"pair\"\nheaps = [\"kmem\"]\ninterface = \"standard\"\nkind = \"wins\"";
            let target = target(&format!("{lines}\nbytes = {sizes}"), limit);
            judge(&target, Found::Timed(kept.clone())).met
        };
        assert!(wins("[32]", 1.0) && wins("[32, 64]", 1.0));
        assert!(!wins("[32, 64]", 2.0), "as fast as the best is not ahead");
    }

    /// Floors of three repetitions, on one thread and on two.
    fn beside_floors(mut kept: Kept, floors: [[f64; 3]; 2]) -> Kept {
        let floor = |(threads, values): (usize, [f64; 3])| Line {
            values: values.into(),
            ..line("floor", 32, threads, 0.0)
        };
        kept.sequence_pairs = [1, 2].into_iter().zip(floors).map(floor).collect();
        kept
    }

    #[test]
    fn pairs_are_flat_or_not_and_one_cpu_says_nothing() {
        let kept = beside_floors(kept(), [[2.0; 3]; 2]);
        let found = |limit| judge(&pair("kind = \"flat\"", limit), Found::Timed(kept.clone())).met;
        assert!(found(1.11) && !found(1.09));
        let target = pair("kind = \"flat\"", 1.05);
        assert!(checked(1).judge(&target, &Found::Timed(kept)).is_err());
    }

    #[test]
    fn a_clock_that_falls_is_no_heap_s_and_is_said() {
        let target = pair("kind = \"flat\"", 1.05);
        let slower = beside_floors(kept(), [[2.0; 3], [2.2; 3]]);
        let found = judge(&target, Found::Timed(slower));
        assert!(found.met, "{}", found.text);
        for said in ["one 3.00 ns, all 3.30 (1.10)", "floor 2.00, 2.20 (1.10)", "2 CPUs", "1.000"] {
            assert!(found.text.contains(said), "{}", found.text);
        }
        let faster = beside_floors(kept(), [[2.2; 3], [2.0; 3]]);
        assert!(!judge(&target, Found::Timed(faster)).met, "what is worse than the floor is short");
        let without = checked(2).judge(&target, &Found::Timed(kept())).unwrap_err();
        assert!(without.to_string().contains("no restartable sequences"), "{without}");
    }

    /// In each repetition twice the floor, which is another one each time: medians of their own would say 1.5.
    #[test]
    fn each_repetition_has_its_own_floor() {
        let (one, all) = ([2.0, 3.0, 2.0], [3.0, 2.0, 3.0]);
        let mut kept = beside_floors(kept(), [one, all]);
        for line in kept.lines.iter_mut().filter(|line| line.contender == "kmem") {
            let floors = if line.case.threads == 1 { one } else { all };
            line.values = floors.map(|floor| 2.0 * floor).into();
        }
        kept.sequence_pairs[0].values[2] = 2.1;
        let found = judge(&pair("kind = \"flat\"", 1.0), Found::Timed(kept));
        assert!(found.met && found.text.contains("(1.50)"), "{}", found.text);
    }

    #[test]
    fn the_peak_is_that_of_the_worst_size() {
        let peaks = [(16, 1.01), (32, 1.03)].map(|(bytes, value)| Line {
            case: Case { threads: 1, bytes: Some(bytes), interface: None },
            metric: Metric::Peak,
            ..line("kmem", bytes, 1, value)
        });
        let found = |limit| {
            let lines = "what = \"worst\"\nheaps = [\"kmem\"]\nkind = \"peak\"\nbytes = [16, 32]";
            let kept = Kept { lines: peaks.to_vec(), ..Kept::default() };
            judge(&target(lines, limit), Found::Timed(kept)).met
        };
        assert!(found(1.03) && !found(1.02));
    }

    #[test]
    fn what_is_counted_is_held_against_its_bound() {
        let row = LockRow {
            bytes: 64,
            calls: [1000, 1000],
            global: [10, 20],
            flushed: 0,
            pages: [1, 10],
            slabs: [0, 0],
            bounds: [0.015, 0.2],
        };
        let misses = |layer: &str, metric: &str| {
            let kind = format!("kind = \"misses\"\nlayer = \"{layer}\"\nmetric = \"{metric}\"");
            let target = target(&format!("{kind}\nbytes = [64]"), 1.0);
            judge(&target, Found::Locks(vec![row])).met
        };
        assert!(misses("cpu", "alloc") && !misses("cpu", "free"));
        assert!(misses("global", "alloc") && !misses("global", "free"));

        let moved = |cpus, handed_over, moved| TransferRow {
            cpus,
            handed_over,
            pairs: 1,
            touched: 3.0,
            moved,
        };
        let transfers = |of_two| {
            let rows = vec![moved(1, false, 0.0), moved(2, false, of_two), moved(2, true, 2.0)];
            judge(&target("kind = \"transfers\"", 0.0), Found::Transfers(rows)).met
        };
        assert!(transfers(0.0) && !transfers(0.01));

        let slabs = |load, slabs| WasteRow { load, bytes: 16, asked: 10, blocks: 10, slabs };
        let waste = |heavy| {
            let rows = vec![slabs(Load::Heavy, heavy), slabs(Load::Low, 90)];
            judge(&target("kind = \"waste\"", 1.2), Found::Waste(rows)).met
        };
        assert!(waste(12) && !waste(13));
    }

    #[test]
    fn what_was_not_counted_says_why() {
        let counts = |instructions: Option<f64>| {
            let not_counted = instructions.is_none().then(|| "no valgrind".to_string());
            let (contender, interface) = ("kmem".to_string(), Interface::Cookie);
            let with_loop = instructions;
            let bytes = 32;
            Found::Counts(vec![Count {
                contender,
                bytes,
                interface,
                instructions,
                with_loop,
                not_counted,
            }])
        };
        let lines = "kind = \"instructions\"\nheaps = [\"kmem\"]\ninterface = \"cookie\"";
        let target = target(&format!("{lines}\nbytes = [32]"), 26.0);
        assert!(judge(&target, counts(Some(26.03))).met);
        assert!(!judge(&target, counts(Some(26.1))).met);
        let why = checked(2).judge(&target, &counts(None)).unwrap_err();
        assert_eq!(why.to_string(), "no valgrind");
    }

    #[test]
    fn what_is_measured_together_is_measured_once() {
        let targets = crate::kmem::load(None, None).unwrap();
        let runs: Vec<Run> = targets
            .chunk_by(|one, other| Run::of(one) == Run::of(other))
            .map(|group| Run::of(&group[0]))
            .collect();
        for (at, run) in runs.iter().enumerate() {
            assert!(!runs[..at].contains(run), "{run:?} is measured twice");
        }
        let times = runs.iter().filter(|run| matches!(run, Run::Timed { .. })).count();
        assert_eq!((times, runs.len()), (6, 11));
    }

    #[test]
    fn small_runs_are_judged_to_the_end() {
        let targets: Vec<Target> = ["waste", "all freed", "any size after", "moved", "worst"]
            .iter()
            .flat_map(|only| crate::kmem::load(None, Some(only)).unwrap())
            .filter(|target| !target.name.starts_with("woodlot"))
            .collect();
        let setup = |_| Setup {
            bytes: vec![64, 4096],
            operations: 4,
            memory: crate::size::Size::mib(4),
            ..Setup::default()
        };
        let contenders = Contenders::default();
        let checked = Checked { contenders: &contenders, setup: &setup, ..checked(2) };
        let (judged, _) = check(&targets, &checked, &mut Screen::default()).unwrap();
        assert_eq!(judged.len(), targets.len());
        let of = |name: &str| judged.iter().find(|one| one.name.contains(name)).unwrap();
        for name in ["frames kept", "huge frames free", "any size after", "cache lines"] {
            assert!(of(name).verdict.met, "{name}: {}", of(name).verdict.text);
        }
        let worst = of("kmem worst 16 B, alloc");
        assert!(worst.verdict.text.contains("(missing: mimalloc, jemalloc, snmalloc)"));
    }
}
