//! What the papers give in words and tables, beside what this run gave: LLFree (Wrenger et al.,
//! USENIX ATC 2023) and NBBS (Marotta et al., poster, 2018). What is only to be read off a plot is
//! left out.

use woodlot_bench::engine::Engine;
use woodlot_bench::frag::State;
use woodlot_bench::patterns::{Metric, Pattern};

use super::data::Data;
use super::facts::{
    BULK_AND_REPEAT, Times, cost_after, extremes, gain, random_frees, recovered_percent, start_us,
    steady,
};
use super::papers;
use super::scope::thread_counts;
use super::words::{count, mib, number, percent};

/// A value that a paper gives, and the same of this run.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Of what.
    pub what: &'static str,
    /// The paper's.
    pub paper: &'static str,
    /// This run's.
    pub here: String,
    /// Where the paper says so.
    pub source: &'static str,
}

/// A value of a paper, beside this run's if there is one.
pub fn beside(
    what: &'static str,
    paper: &'static str,
    here: Option<String>,
    source: &'static str,
) -> Beside {
    Beside { what, paper, here: here.unwrap_or("not measured".into()), source }
}

const RANDOM: [(Pattern, Metric); 1] = [(Pattern::Random, Metric::Free)];

/// Which of LLFree's times is the longest.
fn longest(times: &Times, metrics: &[(Pattern, Metric)], orders: &[u8]) -> Option<String> {
    let mut longest = (0.0, String::new());
    for &order in orders {
        for &(pattern, metric) in metrics {
            let ns = times(Engine::Llfree, pattern, metric, order)?;
            if ns > longest.0 {
                longest = (ns, format!("{pattern} {metric}, order {order}"));
            }
        }
    }
    Some(format!("at most {} ns ({})", number(longest.0), longest.1))
}

/// Figure 5.
pub fn by_order(times: &Times) -> Vec<Beside> {
    let orders: Vec<u8> = (0..=10).collect();
    let most_expensive = || {
        let pair = |&order: &u8| times(Engine::Llfree, Pattern::Repeat, Metric::Pair, order);
        let pairs: Vec<f64> = orders.iter().map(pair).collect::<Option<_>>()?;
        let order = pairs.iter().position(|&ns| ns == extremes(&pairs).1)?;
        Some(format!("{order} (repeat)"))
    };
    let source = "LLFree, section 5.2, figure 5";
    vec![
        beside(
            "bulk and repeat, one operation (here, of repeat: two), every order",
            "less than 100 ns",
            longest(times, &BULK_AND_REPEAT, &orders),
            source,
        ),
        beside(
            "random, one free, every order",
            "up to 120 ns",
            longest(times, &RANDOM, &orders),
            source,
        ),
        beside("the most expensive order", "8 (1 MiB)", most_expensive(), source),
    ]
}

/// How many times as long as LLFree the buddy takes.
fn buddy_takes(times: &Times, pattern: Pattern, metric: Metric, order: u8) -> Option<f64> {
    let of = |engine| times(engine, pattern, metric, order);
    Some(of(Engine::Linux)? / of(Engine::Llfree)?)
}

/// The same of bulk allocations and of random frees.
fn buddy_takes_at(times: &Times, order: u8) -> Option<String> {
    let bulk = buddy_takes(times, Pattern::Bulk, Metric::Alloc, order)?;
    let random = buddy_takes(times, Pattern::Random, Metric::Free, order)?;
    Some(format!("{} × and {} ×", number(bulk), number(random)))
}

/// Figure 6.
pub fn by_order_beside_linux(times: &Times) -> Vec<Beside> {
    let pairs = || {
        let of = |engine| times(engine, Pattern::Repeat, Metric::Pair, 0);
        let (linux, llfree) = (of(Engine::Linux)?, of(Engine::Llfree)?);
        Some(format!("{} ns and {} ns", number(linux), number(llfree)))
    };
    let without_lists = || {
        // Of the orders without lists, the one that every file of a kernel has.
        let times = buddy_takes(times, Pattern::Repeat, Metric::Pair, 8)?;
        Some(format!("{} × (order 8)", number(times)))
    };
    let source = "LLFree, section 5.2, figure 6";
    vec![
        beside(
            "repeat, order 0, 8 cores: Linux's buddy and LLFree",
            "112 ns and 183 ns",
            pairs(),
            source,
        ),
        beside(
            "bulk allocations and random frees, order 0: the buddy takes, times LLFree's",
            "about 10 ×",
            buddy_takes_at(times, 0),
            source,
        ),
        beside(
            "repeat, orders without lists for each CPU: the buddy takes",
            "about 100 ×",
            without_lists(),
            source,
        ),
    ]
}

/// Figure 8.
pub fn by_cores_beside_linux(times: &Times) -> Vec<Beside> {
    let slower = || {
        let times = buddy_takes(times, Pattern::Repeat, Metric::Pair, 0)?;
        Some(format!("{:+.0} %", 100.0 / times - 100.0))
    };
    let source = "LLFree, section 5.3, figure 8";
    vec![
        beside(
            "26 cores (here: as many as there are), 4 KiB, bulk allocations and random frees: the \
             buddy takes",
            "7.3 × and 13.5 ×",
            buddy_takes_at(times, 0),
            source,
        ),
        beside("the same, 2 MiB", "52.5 × and 9.6 ×", buddy_takes_at(times, 9), source),
        beside(
            "the same, 4 KiB, repeat: LLFree takes, beside the buddy",
            "up to +65.18 %",
            slower(),
            source,
        ),
    ]
}

/// Figure 7, from times with one thread and with one on every CPU.
pub fn by_cores(one: &Times, all: &Times) -> Vec<Beside> {
    let source = "LLFree, section 5.3, figure 7";
    vec![
        beside(
            "bulk and repeat, 1 to 26 cores",
            "almost constant",
            steady(one, all).map(|(ratio, which)| {
                format!("at most {} × the time of one thread ({which})", number(ratio))
            }),
            source,
        ),
        beside(
            "26 cores (here: as many as there are), an allocation or free of either order, DRAM",
            "less than 170 ns",
            longest(all, &[&BULK_AND_REPEAT[..], &RANDOM].concat(), &[0, 9]),
            source,
        ),
    ]
}

/// Figure 9.
pub fn lists(data: &Data) -> Vec<Beside> {
    let cpus = data.machine.cpus();
    let random = |engine| Some(random_frees(data, engine, cpus)?.median);
    let bulk = |engine| data.median(engine, Pattern::Bulk, Metric::Alloc, 0, cpus);
    let lock_free = || {
        let (cas, locked) = (random(Engine::ListCas)?, random(Engine::ListLocked)?);
        Some(format!("{:.0} %", gain(cas, locked)))
    };
    let list_local = || {
        let ratio = bulk(Engine::ListLocal)? / bulk(Engine::Llfree)?;
        Some(format!("{:+.0} %", 100.0 * (ratio - 1.0)))
    };
    let source = "LLFree, section 5.4, figure 9";
    vec![
        beside(
            "random, 26 cores (here: as many as there are): ListCAS is faster than ListLocked by",
            "81 %",
            lock_free(),
            source,
        ),
        beside(
            "bulk allocation, the same cores: ListLocal takes, beside LLFree",
            "+36 %",
            list_local(),
            source,
        ),
        beside(
            "LLFree is faster than ListLocal",
            "from 16 cores on",
            faster_than_list_local(data),
            source,
        ),
    ]
}

/// From how many threads on LLFree's random frees take less than those of the list that nobody
/// shares.
fn faster_than_list_local(data: &Data) -> Option<String> {
    let mut from = None;
    let mut most = None;
    for threads in thread_counts(data.machine.cpus()) {
        let of = |engine| Some(random_frees(data, engine, threads)?.median);
        let faster = of(Engine::Llfree)? < of(Engine::ListLocal)?;
        from = faster.then(|| from.unwrap_or(threads));
        most = Some(threads);
    }
    Some(match from {
        Some(threads) => format!("random: from {threads} threads on"),
        None => format!("random: not with up to {} threads", most?),
    })
}

/// NBBS, table I.
pub fn bursts(data: &Data) -> Vec<Beside> {
    let here = |pattern| {
        let (nbbs, linux) = data.burst(pattern)?;
        let gain = gain(nbbs, linux);
        Some(format!("{} and {} ns (a gain of {gain:.0} %)", number(linux), number(nbbs)))
    };
    vec![
        beside(
            "thread-test, 128 KiB, 32 threads: Linux's buddy and NBBS, cycles (here: the four-level \
             form, a pair, as many threads as there are CPUs)",
            "225 × 10⁷ and 64 × 10⁷ (a gain of 71 %)",
            here(Pattern::ThreadTest),
            "NBBS, table I",
        ),
        beside(
            "Linux-scalability, the same",
            "2173 × 10⁷ and 343 × 10⁷ (a gain of 84 %)",
            here(Pattern::LinuxScalability),
            "NBBS, table I",
        ),
    ]
}

/// Figure 10: LLFree's and the buddy's states, of each run; what zone that was.
pub fn fragmented(llfree: &[&[State]], linux: &[&[State]], zone: String) -> Vec<Beside> {
    let each = |runs: &[&[State]], say: &dyn Fn(&[State]) -> Option<String>| {
        let said: Vec<String> = runs.iter().map(|states| say(states)).collect::<Option<_>>()?;
        (!said.is_empty()).then(|| said.join("; "))
    };
    let costs = |states: &[State]| {
        let cost = |iteration| Some(percent(cost_after(states, iteration)?));
        let [(ten, _), (fifty, _)] = papers::COST_PERCENT;
        Some(format!("{} and {}", cost(ten)?, cost(fifty)?))
    };
    let recovered = |states: &[State]| Some(percent(recovered_percent(states)?));
    let gained = |states: &[State]| {
        Some(states.last()?.free_huge.saturating_sub(states.first()?.free_huge).to_string())
    };
    let fell =
        |states: &[State]| Some(percent(100.0 - cost_after(states, states.last()?.iteration)?));
    let source = "LLFree, section 5.6, figure 10";
    vec![
        beside(
            "huge frames that LLFree recovers in 100 iterations (here: to the end), of those polluted",
            "46.6 %",
            each(llfree, &recovered),
            source,
        ),
        beside("huge frames that Linux recovers", "1", each(linux, &gained), source),
        beside(
            "LLFree's compaction cost after 10 and 50 iterations, of that at first",
            "39.1 % and 4.9 %",
            each(llfree, &costs),
            source,
        ),
        beside("Linux's compaction cost falls by", "3.3 %", each(linux, &fell), source),
        beside("the zone", "125 GiB, 90 % allocated, half of it freed", Some(zone), source),
    ]
}

/// Table 1.
pub fn dispersed(data: &Data) -> Vec<Beside> {
    let of = |engine| data.dispersion.iter().find(|found| found.engine == engine);
    let said = |engine| {
        let found = of(engine)?;
        Some(format!("{}, {} lines", mib(found.bytes()), count(found.lines())))
    };
    let ratio = || {
        let (llfree, linux) = (of(Engine::Llfree)?, of(Engine::Linux)?);
        let bytes = linux.bytes() as f64 / llfree.bytes() as f64;
        let touched = linux.touched_per_gib()? / llfree.touched_per_gib()?;
        Some(format!("{bytes:.0} × computed, {touched:.0} × the lines touched"))
    };
    vec![
        beside(
            "LLFree, 128 GiB and 52 CPUs: bytes, lines of a full scan",
            "4.1 MiB, 67 754",
            said(Engine::Llfree),
            "LLFree, table 1",
        ),
        beside(
            "Linux: bytes, lines of a full scan",
            "516 MiB, 33 555 169",
            said(Engine::Linux),
            "LLFree, table 1",
        ),
        beside(
            "Linux's state beside LLFree's",
            "125 × the bytes, 495 × the lines",
            ratio(),
            "LLFree, section 5.5",
        ),
    ]
}

/// Recovery.
pub fn started(data: &Data) -> Vec<Beside> {
    let time = |metric| Some(format!("{} µs", number(start_us(data, metric)?)));
    let source = "LLFree, section 5.7";
    vec![
        beside(
            "recovery of 128 GiB after a crash, one thread",
            "2460 µs",
            time(Metric::Recover),
            source,
        ),
        beside("initialisation of 128 GiB again", "477 µs", time(Metric::Init), source),
    ]
}
