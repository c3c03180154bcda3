//! What the papers find, judged by this run's figures.
//!
//! Each claim has a rule that is written on the page beside the verdict; medians are compared
//! unless it says otherwise. What cannot hold on the machine at hand, since the paper speaks of
//! more cores than it has, is not judged.

use woodlot_bench::engine::Engine;
use woodlot_bench::frag::State;
use woodlot_bench::patterns::{Metric, Pattern};

use super::data::{Data, Form};
use super::facts::{self, cost_after, extremes, gain, random_frees, recovered_percent};
use super::heaps;
use super::kernel::Kernel;
use super::papers;
use super::scope::LISTS;
use super::survived;
use super::words::{count, number, percent};

/// What came of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is so here, too.
    Holds,
    /// It is not so here.
    Differs,
    /// The figures that it needs were not measured, or mean nothing.
    Unknown,
}

/// A finding of a paper.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The finding.
    pub claim: &'static str,
    /// Where the paper says so.
    pub source: &'static str,
    /// When it counts as the same here.
    pub rule: &'static str,
    /// This run's figures.
    pub found: String,
    /// The judgement.
    pub verdict: Verdict,
}

/// This run's figures and whether they keep the rule.
pub type Found = Option<(String, bool)>;

/// Judges by a rule.
pub fn claim(claim: &'static str, source: &'static str, rule: &'static str, found: Found) -> Claim {
    let verdict = match found {
        Some((_, true)) => Verdict::Holds,
        Some((_, false)) => Verdict::Differs,
        None => Verdict::Unknown,
    };
    let found = found.map_or("not measured".into(), |(found, _)| found);
    Claim { claim, source, rule, found, verdict }
}

/// Judges every claim.
pub fn claims(data: &Data) -> Vec<Claim> {
    let mut claims = in_user_space(data);
    claims.extend(heaps::claims(data.heaps.as_ref(), data.machine.cpus()));
    if data.form == Form::Smoke {
        // A handful of operations shows that a figure can be drawn, and nothing else.
        claims.iter_mut().for_each(|claim| claim.verdict = Verdict::Unknown);
    }
    if !data.kernel.is_empty() {
        claims.extend(in_the_kernel(&data.kernel));
    }
    claims
}

fn in_user_space(data: &Data) -> Vec<Claim> {
    vec![
        claim(
            "LLFree is flat over orders 0 to 6 (repeat)",
            "LLFree, figure 5",
            "the slowest of these orders takes at most 1.5 × the fastest",
            flat(data, Pattern::Repeat, Metric::Pair),
        ),
        claim(
            "LLFree is flat over orders 0 to 6 (bulk allocation)",
            "LLFree, figure 5",
            "the slowest of these orders takes at most 1.5 × the fastest",
            flat(data, Pattern::Bulk, Metric::Alloc),
        ),
        claim(
            "LLFree is cheap at order 9",
            "LLFree, figure 5",
            "repeat: order 9 takes no longer than order 0",
            pair(data, (Engine::Llfree, 9), (Engine::Llfree, 0), |nine, zero| nine <= zero),
        ),
        claim(
            "order 8 is the most expensive one",
            "LLFree, section 5.2",
            "repeat: no order takes longer than 8",
            order_8(data),
        ),
        claim(
            "LLFree's time does not depend on the number of cores (bulk and repeat)",
            "LLFree, figure 7",
            "with a thread on every CPU, at most 1.25 × that of one thread, at orders 0 and 9",
            steady(data),
        ),
        claim(
            "random frees take longer with more cores",
            "LLFree, figure 7",
            "order 0: with a thread on every CPU, all repetitions take longer than any with one",
            random_grows(data),
        ),
        claim(
            "lists are poor at random frees",
            "LLFree, section 5.4 (every free touches a new line)",
            "order 0, a thread on every CPU: from bulk to random frees each list slows down by more \
             than LLFree does",
            lists_at_random(data),
        ),
        claim(
            "LLFree frees at random faster than the shared lists",
            "LLFree, figure 9",
            "order 0, a thread on every CPU: all repetitions take less than any of the locked and of \
             the lock-free list",
            faster_at_random(data, &[Engine::ListCas, Engine::ListLocked]),
        ),
        claim(
            "from 16 cores on LLFree is faster than even the list that nobody shares",
            "LLFree, section 5.4",
            "random, order 0, with at least 16 CPUs: all repetitions take less than any of ListLocal",
            match data.machine.cpus() >= 16 {
                true => faster_at_random(data, &[Engine::ListLocal]),
                false => None,
            },
        ),
        claim(
            "the lock-free list is faster than the locked one",
            "LLFree, section 5.4",
            "random, order 0, a thread on every CPU",
            at_most_threads(data, Pattern::Random, Metric::Free, |data, threads| {
                let of = |engine| data.median(engine, Pattern::Random, Metric::Free, 0, threads);
                let (cas, locked) = (of(Engine::ListCas)?, of(Engine::ListLocked)?);
                Some((format!("{} and {} ns", number(cas), number(locked)), cas < locked))
            }),
        ),
        claim(
            "Linux's lists for each CPU win the repeat benchmark at order 0",
            "LLFree, section 5.2 (in the kernel)",
            "repeat, order 0: Linux's buddy takes less than LLFree",
            pair(data, (Engine::Linux, 0), (Engine::Llfree, 0), |linux, llfree| linux < llfree),
        ),
        claim(
            "without such lists Linux's buddy is far slower",
            "LLFree, section 5.2 (in the kernel)",
            "repeat, order 5: Linux's buddy takes at least 2 × LLFree's time",
            pair(data, (Engine::Linux, 5), (Engine::Llfree, 5), |linux, llfree| {
                linux >= 2.0 * llfree
            }),
        ),
        claim(
            "LLFree is far faster than Linux's buddy where lists for each CPU run out",
            "LLFree, section 5.2 (in the kernel: about 10 ×)",
            "bulk allocations and random frees, orders 0 and 9, a thread on every CPU: the buddy takes \
             at least 2 × LLFree's time in each",
            beyond_lists(data),
        ),
        claim(
            "NBBS beats Linux's buddy in thread-test",
            "NBBS, table I (71 %)",
            "128 KiB, a thread on every CPU: the four-level form takes less than the buddy",
            burst(data, Pattern::ThreadTest),
        ),
        claim(
            "NBBS beats Linux's buddy in Linux-scalability",
            "NBBS, table I (84 %)",
            "128 KiB, a thread on every CPU: the four-level form takes less than the buddy",
            burst(data, Pattern::LinuxScalability),
        ),
        claim(
            "LLFree recovers huge frames under passive load",
            "LLFree, section 5.6",
            "of those possible at first, it has more free at the end than the paper's 46.6 %",
            recovered(data, Engine::Llfree, |percent| percent > papers::RECOVERED_PERCENT),
        ),
        claim(
            "the buddy recovers next to none",
            "LLFree, section 5.6",
            "at most 1 % of those possible is free at the end",
            recovered(data, Engine::Linux, |percent| percent <= 1.0),
        ),
        claim(
            "LLFree's compaction cost falls as fast as the paper's",
            "LLFree, section 5.6",
            "at most 39.1 % of that at first after 10 iterations, at most 4.9 % after 50",
            cost(data),
        ),
        claim(
            "the buddy's compaction cost hardly falls",
            "LLFree, section 5.6 (3.3 %)",
            "it falls by less than 10 %",
            linux_cost(data),
        ),
        claim(
            "a zone is recovered within milliseconds",
            "LLFree, section 5.7 (2460 µs, from Optane)",
            "128 GiB, one thread: the median is no longer than the paper's",
            recovery(data),
        ),
        claim(
            "after a clean shutdown a zone is there at once",
            "LLFree, section 5.7 (477 µs, from Optane)",
            "128 GiB, half allocated: the median opening is no longer than the paper's",
            survived::clean(data),
        ),
        claim(
            "recovery can be parallelised",
            "LLFree, section 5.7 (not done there)",
            "two threads take less than one, by medians",
            survived::two_threads(data),
        ),
        claim(
            "whoever is killed loses what its call concerned at most, and the rest is recovered",
            "LLFree, section 5.7 (1000 crashes; at most one frame for each core)",
            "every recovery succeeds, no frame has two owners, and no more frames are lost than the calls of \
             the killed processes concerned",
            survived::killed(data),
        ),
        claim(
            "LLFree's state is a small part of Linux's",
            "LLFree, table 1 (495 × the lines)",
            "a full scan of Linux's buddy touches at least 100 × as many lines",
            dispersed(data),
        ),
    ]
}

/// What lists for each CPU do not help with.
const BEYOND_LISTS: [(Pattern, Metric); 2] =
    [(Pattern::Bulk, Metric::Alloc), (Pattern::Random, Metric::Free)];

/// Those that a kernel's figures decide. Emulated times decide nothing; counts of huge frames do.
fn in_the_kernel(kernel: &Kernel) -> Vec<Claim> {
    vec![
        claim(
            "in the kernel, lists for each CPU win the repeat benchmark at order 0",
            "LLFree, section 5.2 (112 and 183 ns)",
            "in every file that is not emulated, the buddy's median is less than LLFree's",
            beside_buddy(
                kernel,
                &[(Pattern::Repeat, Metric::Pair)],
                |_| true,
                |buddy, ours| buddy < ours,
            ),
        ),
        claim(
            "in the kernel, both are almost equal at 4 KiB on one core",
            "LLFree, section 5.3 (bulk allocations and random frees)",
            "in every file of one thread that is not emulated, neither takes more than 1.5 × the other's \
             median",
            beside_buddy(
                kernel,
                &BEYOND_LISTS,
                |threads| threads == 1,
                |buddy, ours| buddy < 1.5 * ours && ours < 1.5 * buddy,
            ),
        ),
        claim(
            "in the kernel, LLFree is faster than the buddy at 4 KiB on several cores",
            "LLFree, section 5.3 (7.3 × and 13.5 × on 26)",
            "in every file of several threads that is not emulated, LLFree's medians are less",
            beside_buddy(kernel, &BEYOND_LISTS, |threads| threads > 1, |buddy, ours| ours < buddy),
        ),
        claim(
            "in the kernel, LLFree recovers huge frames under passive load",
            "LLFree, section 5.6",
            "in every boot, more of the polluted than the paper's 46.6 %",
            recovered_in(kernel, Engine::Llfree, |percent| percent > papers::RECOVERED_PERCENT),
        ),
        claim(
            "in the kernel, the buddy recovers next to none",
            "LLFree, section 5.6",
            "in every boot, at most 1 % of the polluted",
            recovered_in(kernel, Engine::Linux, |percent| percent <= 1.0),
        ),
    ]
}

fn beside_buddy(
    kernel: &Kernel,
    metrics: &[(Pattern, Metric)],
    counts: fn(usize) -> bool,
    rule: fn(f64, f64) -> bool,
) -> Found {
    let (mut found, mut holds) = (Vec::new(), true);
    for &(pattern, metric) in metrics {
        let files = kernel.beside_buddy(pattern, metric, 0).into_iter();
        for (file, threads, [buddy, ours]) in files.filter(|(_, threads, _)| counts(*threads)) {
            found.push(format!(
                "{pattern} {metric}: buddy {} ns, LLFree {} ns ({file}, threads: {threads})",
                number(buddy),
                number(ours)
            ));
            holds &= rule(buddy, ours);
        }
    }
    (!found.is_empty()).then(|| (found.join("; "), holds))
}

fn recovered_in(kernel: &Kernel, engine: Engine, rule: fn(f64) -> bool) -> Found {
    let runs = kernel.fragmented(engine);
    let percents = runs.iter().map(|states| recovered_percent(states));
    let percents: Vec<f64> = percents.collect::<Option<_>>()?;
    let said: Vec<String> = percents.iter().map(|&value| percent(value)).collect();
    let holds = percents.iter().all(|&percent| rule(percent));
    (!said.is_empty()).then(|| (said.join(", "), holds))
}

/// The times of LLFree by order, at the number of threads of the figures by order.
fn by_order(data: &Data, pattern: Pattern, metric: Metric, orders: &[u8]) -> Option<Vec<f64>> {
    let threads = data.threads_by_order();
    let at = |&order: &u8| data.median(Engine::Llfree, pattern, metric, order, threads);
    orders.iter().map(at).collect()
}

fn flat(data: &Data, pattern: Pattern, metric: Metric) -> Found {
    let (low, high) = extremes(&by_order(data, pattern, metric, &[0, 1, 2, 3, 4, 5, 6])?);
    let ratio = high / low;
    Some((format!("{} to {} ns: {} ×", number(low), number(high), number(ratio)), ratio <= 1.5))
}

fn order_8(data: &Data) -> Found {
    let orders: Vec<u8> = (0..=10).collect();
    let times = by_order(data, Pattern::Repeat, Metric::Pair, &orders)?;
    let (_, high) = extremes(&times);
    let highest = times.iter().position(|&time| time == high)?;
    let eight = times[8];
    let found =
        format!("order {highest} takes most: {} ns; order 8: {}", number(high), number(eight));
    Some((found, eight >= high))
}

/// Repeat pairs of two engines.
fn pair(
    data: &Data,
    (a, a_order): (Engine, u8),
    (b, b_order): (Engine, u8),
    rule: fn(f64, f64) -> bool,
) -> Found {
    let of = |engine, order| {
        data.median(engine, Pattern::Repeat, Metric::Pair, order, data.threads_by_order())
    };
    let (first, second) = (of(a, a_order)?, of(b, b_order)?);
    let found = format!(
        "{a} order {a_order}: {} ns; {b} order {b_order}: {} ns",
        number(first),
        number(second)
    );
    Some((found, rule(first, second)))
}

/// With a thread on every CPU, where there is more than one.
fn at_most_threads(
    data: &Data,
    pattern: Pattern,
    metric: Metric,
    judge: impl Fn(&Data, usize) -> Found,
) -> Found {
    let cpus = data.machine.cpus();
    data.median(Engine::Llfree, pattern, metric, 0, cpus)?;
    (cpus > 1).then(|| judge(data, cpus))?
}

fn steady(data: &Data) -> Found {
    at_most_threads(data, Pattern::Bulk, Metric::Alloc, |data, cpus| {
        let (worst, which) = facts::steady(&data.with_threads(1), &data.with_threads(cpus))?;
        Some((format!("at most {} × ({which})", number(worst)), worst <= 1.25))
    })
}

fn random_grows(data: &Data) -> Found {
    at_most_threads(data, Pattern::Random, Metric::Free, |data, cpus| {
        let at = |threads| random_frees(data, Engine::Llfree, threads);
        let (one, all) = (at(1)?, at(cpus)?);
        let found = format!(
            "{} ns with one thread, {} with {cpus}",
            number(one.median),
            number(all.median)
        );
        Some((found, all.min > one.max))
    })
}

fn lists_at_random(data: &Data) -> Found {
    at_most_threads(data, Pattern::Random, Metric::Free, |data, cpus| {
        let slower = |engine| {
            let bulk = data.median(engine, Pattern::Bulk, Metric::Free, 0, cpus)?;
            Some(random_frees(data, engine, cpus)?.median / bulk)
        };
        let llfree = slower(Engine::Llfree)?;
        let (mut found, mut poor) = (format!("LLFree by {} ×", number(llfree)), true);
        for list in LISTS {
            let factor = slower(list)?;
            found += &format!(", {list} by {} ×", number(factor));
            poor &= factor > llfree;
        }
        Some((found, poor))
    })
}

fn faster_at_random(data: &Data, lists: &[Engine]) -> Found {
    at_most_threads(data, Pattern::Random, Metric::Free, |data, cpus| {
        let llfree = random_frees(data, Engine::Llfree, cpus)?;
        let (mut found, mut faster) = (format!("LLFree {} ns", number(llfree.median)), true);
        for &list in lists {
            let time = random_frees(data, list, cpus)?;
            found += &format!(", {list} {}", number(time.median));
            faster &= llfree.max < time.min;
        }
        Some((found, faster))
    })
}

fn burst(data: &Data, pattern: Pattern) -> Found {
    let (nbbs, linux) = data.burst(pattern)?;
    let gain = gain(nbbs, linux);
    let found = format!("{} and {} ns: a gain of {gain:.0} %", number(nbbs), number(linux));
    Some((found, nbbs < linux))
}

fn recovered(data: &Data, engine: Engine, rule: fn(f64) -> bool) -> Found {
    let states = data.states(engine)?;
    let (first, last) = (states.first()?.free_huge, states.last()?);
    let State { free_huge, possible_huge, .. } = *last;
    let percent = recovered_percent(states)?;
    Some((
        format!(
            "{free_huge} of {possible_huge} free at the end, {first} at first: {percent:.1} % of the \
             polluted"
        ),
        rule(percent),
    ))
}

fn cost(data: &Data) -> Found {
    let states = data.states(Engine::Llfree)?;
    let (mut found, mut as_fast) = (Vec::new(), true);
    for (iteration, paper) in papers::COST_PERCENT {
        let percent = cost_after(states, iteration)?;
        found.push(format!("{percent:.1} % after {iteration}"));
        as_fast &= percent <= paper;
    }
    Some((found.join(", "), as_fast))
}

fn linux_cost(data: &Data) -> Found {
    let states = data.states(Engine::Linux)?;
    let fell = 100.0 - cost_after(states, states.last()?.iteration)?;
    Some((format!("{fell:.1} %; the paper: {} %", papers::LINUX_COST_FELL_PERCENT), fell < 10.0))
}

fn beyond_lists(data: &Data) -> Found {
    at_most_threads(data, Pattern::Bulk, Metric::Alloc, |data, cpus| {
        let (mut found, mut slower) = (Vec::new(), true);
        for order in [0, 9] {
            for (pattern, metric) in BEYOND_LISTS {
                let of = |engine| data.median(engine, pattern, metric, order, cpus);
                let ratio = of(Engine::Linux)? / of(Engine::Llfree)?;
                found.push(format!("{} × ({pattern} {metric}, order {order})", number(ratio)));
                slower &= ratio >= 2.0;
            }
        }
        Some((found.join(", "), slower))
    })
}

fn recovery(data: &Data) -> Found {
    let us = facts::start_us(data, Metric::Recover)?;
    Some((format!("{} µs", number(us)), us <= papers::RECOVERY_US))
}

fn dispersed(data: &Data) -> Found {
    let lines = |engine| {
        let found = data.dispersion.iter().find(|found| found.engine == engine)?;
        found.touched_per_gib()
    };
    let (llfree, linux) = (lines(Engine::Llfree)?, lines(Engine::Linux)?);
    let paper = papers::LINUX_LINES / papers::LLFREE_LINES;
    let found = format!(
        "{} and {} lines for each GiB: {} ×; the paper: {paper:.0} ×",
        count(linux.round() as usize),
        count(llfree.round() as usize),
        number(linux / llfree)
    );
    Some((found, linux >= 100.0 * llfree))
}
