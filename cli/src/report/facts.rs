//! Figures that follow from the data: what the claims are judged by and what stands beside the papers' values.

use woodlot_bench::engine::Engine;
use woodlot_bench::frag::State;
use woodlot_bench::patterns::{Metric, Pattern};
use woodlot_bench::size::Size;
use woodlot_bench::statistics::Summary;

use super::data::Data;

/// The median of an engine at a pattern, a metric and an order, with some number of threads.
pub type Times<'a> = dyn Fn(Engine, Pattern, Metric, u8) -> Option<f64> + 'a;

/// LLFree's patterns without the random frees.
pub const BULK_AND_REPEAT: [(Pattern, Metric); 3] = [
    (Pattern::Bulk, Metric::Alloc),
    (Pattern::Bulk, Metric::Free),
    (Pattern::Repeat, Metric::Pair),
];

/// By how much LLFree slows down at most with a thread on every CPU, and at what.
pub fn steady(one: &Times, all: &Times) -> Option<(f64, String)> {
    let mut worst = (0.0, String::new());
    for order in [0, 9] {
        for (pattern, metric) in BULK_AND_REPEAT {
            let of = |times: &Times| times(Engine::Llfree, pattern, metric, order);
            let ratio = of(all)? / of(one)?;
            if ratio > worst.0 {
                worst = (ratio, format!("{pattern} {metric}, order {order}"));
            }
        }
    }
    Some(worst)
}

/// How long a start of a zone of 128 GiB takes, in microseconds.
pub fn start_us(data: &Data, metric: Metric) -> Option<f64> {
    let mut times = data.times.iter().filter(|timed| timed.memory == Size::gib(128));
    Some(times.find(|timed| timed.metric == metric)?.cpu()?.median / 1e3)
}

/// The least and the most.
pub fn extremes(times: &[f64]) -> (f64, f64) {
    times.iter().fold((f64::INFINITY, 0.0), |(low, high), &time| (low.min(time), high.max(time)))
}

/// Random frees of order 0.
pub fn random_frees(data: &Data, engine: Engine, threads: usize) -> Option<Summary> {
    let mut times = data.of(engine, Pattern::Random, Metric::Free);
    times.find(|timed| (timed.order, timed.threads) == (0, threads))?.cpu()
}

/// By how much less the first time is than the second, in percent.
pub fn gain(less: f64, more: f64) -> f64 {
    100.0 * (1.0 - less / more)
}

/// What share of the huge frames that were not free at first is free at the end, in percent.
pub fn recovered_percent(states: &[State]) -> Option<f64> {
    let (first, last) = (states.first()?.free_huge, states.last()?);
    let polluted = last.possible_huge.saturating_sub(first).max(1);
    Some(100.0 * last.free_huge.saturating_sub(first) as f64 / polluted as f64)
}

/// The compaction cost after an iteration, in percent of that at first.
pub fn cost_after(states: &[State], iteration: usize) -> Option<f64> {
    let first = states.first()?.moves;
    let then = states.iter().find(|state| state.iteration == iteration)?.moves;
    (first > 0).then(|| 100.0 * then as f64 / first as f64)
}
