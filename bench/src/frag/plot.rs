//! The figure: free huge frames (left) and compaction cost (right) over the iterations, as LLFree's
//! figure 10.

use super::{FragSetup, State};
use crate::Failure;
use crate::chart::{Axis, Figure, Look, Panel, Point, Series, Shape};
use crate::engine::Engine;

/// An engine and what it made of the zone.
pub type Curve = (Engine, Vec<State>);

/// The figure as SVG.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn svg(setup: &FragSetup, curves: &[Curve]) -> Result<String, Failure> {
    let FragSetup { memory, slots, fill, freed, churn, .. } = setup;
    let title = format!(
        "{memory}, {slots} slots: {fill} % allocated, {freed} % of it freed at random, then \
         {churn} % of the rest freed and allocated again and again"
    );
    let engines =
        curves.iter().map(|(engine, _)| (engine.name().into(), engine.look(), Shape::Line));
    let legend = engines.chain([("possible".into(), Look::GUIDE, Shape::Guide)]).collect();
    Figure { title, legend, columns: 2, panels: panels(curves), notes: Vec::new() }.svg()
}

/// Both panels.
pub fn panels(curves: &[Curve]) -> Vec<Panel> {
    let huge = |state: &State| state.free_huge as f64;
    let mut free = panel(curves, "free huge frames", "huge frames", huge);
    let (_, states) = curves.first().cloned().unwrap_or((Engine::Llfree, Vec::new()));
    free.series.insert(
        0,
        Series {
            look: Look::GUIDE,
            shape: Shape::Guide,
            points: points(&states, |state| state.possible_huge as f64),
        },
    );
    let all = free.series.iter().flat_map(|series| &series.points).map(|point| point.y);
    free.y = Axis::covering("huge frames", all, false);
    let moves = |state: &State| state.moves as f64;
    vec![free, panel(curves, "compaction cost", "frames to move", moves)]
}

fn points(states: &[State], value: fn(&State) -> f64) -> Vec<Point> {
    states.iter().map(|state| Point::new(state.iteration as f64, value(state))).collect()
}

fn panel(curves: &[Curve], title: &str, unit: &str, value: fn(&State) -> f64) -> Panel {
    let series = curves.iter().map(|(engine, states)| Series {
        look: engine.look(),
        shape: Shape::Line,
        points: points(states, value),
    });
    let states = || curves.iter().flat_map(|(_, states)| states);
    let last = states().map(|state| state.iteration).max().unwrap_or(0).max(1) as f64;
    Panel {
        title: title.into(),
        x: Axis::linear("iterations", 0.0..last),
        y: Axis::covering(unit, states().map(value), false),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_line_in_both_panels() {
        let state = |iteration| State {
            iteration,
            free_frames: 1024,
            free_huge: iteration % 2,
            possible_huge: 2,
            moves: 500,
        };
        let states: Vec<State> = (0..5).map(state).collect();
        let curves = [(Engine::Llfree, states.clone()), (Engine::Linux, states)];
        let svg = svg(&FragSetup::default(), &curves).unwrap();
        assert!(svg.matches("<polyline").count() >= 5);
        assert!(svg.contains("llfree") && svg.contains("linux") && svg.contains("possible"));
        assert!(super::svg(&FragSetup::default(), &[]).is_ok());
    }
}
