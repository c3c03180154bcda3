//! The sections on what real load does: churn, and threads that are not in step.

use woodlot_bench::chart::{Axis, Panel, Point, Series, Shape};
use woodlot_bench::patterns::Pattern;
use woodlot_bench::statistics::Summary;

use super::load::{Churned, Load, Stepped};
use super::scope::ENGINES;
use super::section::{Section, Table, extent, legend};
use super::words::{number, spread};

/// The two sections.
pub fn sections(load: &Load) -> [Section; 2] {
    [churn(load), out_of_step(load)]
}

fn churn(load: &Load) -> Section {
    let row = |one: &Churned| {
        let cpu = Summary::of(&one.cpu_ns);
        vec![
            one.engine.to_string(),
            one.placement.to_string(),
            one.fill.to_string(),
            spread(cpu),
            cpu.map_or("–".into(), |cpu| number(cpu.median / one.hot_cas_ns)),
            one.kept.free_huge.to_string(),
            one.kept.best_huge.to_string(),
            one.kept.possible_huge.to_string(),
        ]
    };
    let mut panels = Vec::new();
    for &placement in Pattern::Churn.placements() {
        let own = || load.churned.iter().filter(move |one| one.placement == placement);
        let time = |one: &Churned| {
            let cpu = Summary::of(&one.cpu_ns)?;
            Some(Point {
                spread: Some((cpu.min, cpu.max)),
                ..Point::new(100.0 - one.fill, cpu.median)
            })
        };
        let kept = |one: &Churned| Some(Point::new(100.0 - one.fill, one.kept.percent()));
        let title = |what: &str| format!("in use before {placement}: {what}");
        panels.push(panel(title("a free and an allocation"), "ns", own(), time));
        panels.push(panel(title("free huge frames"), "percent of the best", own(), kept));
    }
    Section {
        id: "churn".into(),
        title: "Churn: any of all blocks is freed, and one is allocated".into(),
        about: "One thread, order 0. A zone is filled in a row, or wholly and then emptied at random; then a \
            block chosen at random is freed and one is allocated, again and again. Beside the time stand the \
            huge frames that are free in the end, of those that the best placement would have: it knows where \
            everything lies, and fills up the fullest huge frame that has room. Not in the papers."
            .into(),
        legend: legend(&ENGINES),
        panels,
        table_first: false,
        table: Table {
            columns: vec![
                "engine",
                "in use before",
                "percent",
                "median (min – max), ns",
                "in C",
                "free huge",
                "the best placement's",
                "possible",
            ],
            rows: load.churned.iter().map(row).collect(),
        },
        paper: Vec::new(),
        paper_machine: "",
    }
}

fn out_of_step(load: &Load) -> Section {
    let row = |one: &Stepped| {
        vec![
            one.engine.to_string(),
            one.pattern.to_string(),
            one.metric.to_string(),
            spread(Summary::of(&one.cpu_ns)),
            one.times_in_step.map_or("–".into(), |times| format!("{} ×", number(times))),
        ]
    };
    Section {
        id: "out-of-step".into(),
        title: "Threads that are not in step".into(),
        about: "Two threads, order 0. Out of step each allocates and frees when it pleases; in a ring each frees \
            what its neighbour allocated; remote: one allocates, the other one frees; in an exit storm both free \
            what either allocated. Beside them the same threads in step: with lists as long, or for the storm \
            half of the memory (bulk). Not in the papers."
            .into(),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table {
            columns: vec!["engine", "pattern", "metric", "median (min – max), ns", "times in step"],
            rows: load.stepped.iter().map(row).collect(),
        },
        paper: Vec::new(),
        paper_machine: "",
    }
}

fn panel<'a>(
    title: String,
    unit: &str,
    churned: impl Iterator<Item = &'a Churned> + Clone,
    point: impl Fn(&Churned) -> Option<Point>,
) -> Panel {
    let series = ENGINES.map(|engine| {
        let own = churned.clone().filter(|one| one.engine == engine);
        Series {
            look: engine.look(),
            shape: Shape::Marked,
            points: own.filter_map(&point).collect(),
        }
    });
    let (places, reach) = extent(&series);
    let (x, y) = (Axis::of("percent free before", &places), Axis::covering(unit, reach, false));
    Panel { title, x, y, series: series.into() }
}

#[cfg(test)]
mod tests {
    use woodlot_bench::measure::Options;
    use woodlot_bench::size::Size;

    use super::super::load::measure_load;
    use super::*;

    #[test]
    fn both_are_measured_and_have_a_section() {
        let options = Options { repetitions: 2, seed: 1, floor_rounds: 1 };
        let mut missing = Vec::new();
        let load = measure_load((Size::mib(64), 100), options, &mut missing);
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(load.churned.len(), 2 * 4 * ENGINES.len());
        // In step, out of step, ring, remote and bulk have two metrics, the storm one.
        assert_eq!(load.stepped.len(), (5 * 2 + 1) * ENGINES.len());
        let with_ratio = load.stepped.iter().filter(|one| one.times_in_step.is_some());
        assert_eq!(with_ratio.count(), (3 * 2 + 1) * ENGINES.len());
        let [churn, steps] = sections(&load);
        assert_eq!((churn.panels.len(), churn.table.rows.len()), (4, load.churned.len()));
        assert!(
            churn.panels.iter().all(|panel| panel.series.iter().all(|one| one.points.len() == 4))
        );
        assert_eq!(steps.table.rows.len(), load.stepped.len());
        assert!(churn.table.rows.iter().all(|row| row.len() == churn.table.columns.len()));
        assert!(steps.table.rows.iter().all(|row| row.len() == steps.table.columns.len()));
    }
}
