//! What was simulated, for people.

use std::fmt::Write;

use super::Scaled;
use crate::Failure;
use crate::chart::{Axis, Figure, Panel, Point, Series, Shape};
use crate::engine::Engine;
use crate::patterns::Placement;

impl Scaled {
    /// The load; of churn also how full memory is, and whether it is packed.
    fn case(&self) -> String {
        let fill = self.fill_percent.map_or(String::new(), |fill| format!(" {fill}"));
        let placement = match self.placement {
            Some(Placement::Row) => " packed",
            Some(Placement::Random) => " spread",
            None => "",
        };
        format!("{}{fill}{placement}", self.load.name())
    }
}

/// A row for each engine, load and number of CPUs.
pub fn describe(all: &[Scaled]) -> String {
    let mut text = format!(
        "{:<14}{:<18}{:>6}{:>6}{:>10}{:>11}{:>10}{:>10}{:>10}  transfers by line\n",
        "engine", "load", "order", "CPUs", "accesses", "transfers", "ns", "queued", "idle"
    );
    for one in all {
        let Scaled { engine, order, cpus, accesses, transfers, ns, queued_ns, idle_ns, .. } = one;
        let _ = write!(
            text,
            "{engine:<14}{:<18}{order:>6}{cpus:>6}{accesses:>10.2}{transfers:>11.3}{ns:>10.1}{queued_ns:>10.1}{idle_ns:>10.1}  ",
            one.case()
        );
        let named = one.lines.iter().filter(|(_, count)| *count >= 0.0005).take(5);
        let named: Vec<String> = named.map(|(name, count)| format!("{name} {count:.3}")).collect();
        let _ = writeln!(text, "{}", named.join(", "));
    }
    text
}

/// Transfers and time against CPUs, two panels for each load and order.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn svg(all: &[Scaled]) -> Result<String, Failure> {
    let mut cases: Vec<(u8, String)> = Vec::new();
    let mut engines: Vec<Engine> = Vec::new();
    for one in all {
        if !cases.contains(&(one.order, one.case())) {
            cases.push((one.order, one.case()));
        }
        if !engines.contains(&one.engine) {
            engines.push(one.engine);
        }
    }
    let mut panels = Vec::new();
    for (order, case) in &cases {
        let what = [("lines from other CPUs", false), ("modelled ns", true)];
        panels.extend(what.map(|(label, is_time)| {
            let series: Vec<Series> = engines
                .iter()
                .map(|&engine| {
                    let own = all.iter().filter(|one| {
                        (one.engine, one.order, &one.case()) == (engine, *order, case)
                    });
                    let value = |one: &Scaled| if is_time { one.ns } else { one.transfers };
                    let points = own.map(|one| Point::new(one.cpus as f64, value(one))).collect();
                    Series { look: engine.look(), shape: Shape::Marked, points }
                })
                .collect();
            let points = || series.iter().flat_map(|series| &series.points);
            let x = Axis::covering("CPUs", points().map(|point| point.x), true);
            let y = Axis::covering(label, points().map(|point| point.y), is_time);
            Panel { title: format!("{case}, order {order}, a call"), x, y, series }
        }));
    }
    let legend = engines.iter().map(|one| (one.name().into(), one.look(), Shape::Marked)).collect();
    let title = "Simulated CPUs: lines that move, and the time of accesses, for each call".into();
    let notes = vec!["Calls do not overlap, and time is of accesses alone.".into()];
    Figure { title, legend, columns: 2, panels, notes }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Load;

    #[test]
    fn every_engine_has_a_row_and_a_line_and_the_lines_have_their_names() {
        let one = |engine, cpus| Scaled {
            engine,
            load: Load::Ring,
            order: 0,
            fill_percent: None,
            placement: None,
            cpus,
            calls: 10,
            fewest_calls: 5,
            accesses: 7.0,
            transfers: 1.5,
            ns: 90.0,
            queued_ns: 5.0,
            idle_ns: 2.0,
            lines: vec![("row".into(), 1.25), ("child".into(), 0.25), ("tree".into(), 0.0001)],
        };
        let all =
            [Engine::Llfree, Engine::Linux].map(|engine| [1, 256].map(|cpus| one(engine, cpus)));
        let text = describe(&all.concat());
        assert_eq!(text.lines().count(), 5);
        assert!(text.ends_with("row 1.250, child 0.250\n"), "{text}");
        let svg = svg(&all.concat()).unwrap();
        assert!(svg.matches("<polyline").count() >= 4 && svg.contains("ring, order 0, a call"));
        let churn = Scaled {
            load: Load::Churn,
            fill_percent: Some(99.8),
            placement: Some(Placement::Random),
            ..one(Engine::Llfree, 1)
        };
        assert_eq!(churn.case(), "churn 99.8 spread");
    }
}
