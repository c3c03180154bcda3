//! Charts: one style for everything that is drawn (`frag`, the replay, the report).
//!
//! ```text
//!   Figure ─► title            Panel ─► title
//!             legend                     y ┤ ─●─ series, with the spread of each point
//!             Panel Panel                  └────── x
//! ```
//!
//! A figure is a file of its own; a panel is a piece of a page, which has its own legend and maps
//! the [`INKS`] to other colours where the reader wants a dark page ([`dark_theme`]).

mod axis;
mod draw;
mod figure;
mod look;

pub use axis::Axis;
pub use draw::FONT;
pub use figure::{Figure, Panel, Point, Series, Shape};
pub use look::{INKS, Ink, Look, Mark, dark_theme};

use crate::Failure;

impl Panel {
    /// The panel by itself, as SVG for a page.
    ///
    /// # Errors
    /// When it cannot be drawn, which is a defect.
    pub fn svg(&self) -> Result<String, Failure> {
        draw::panel(self).map_err(failed)
    }
}

impl Figure {
    /// The whole figure as an SVG file.
    ///
    /// # Errors
    /// When it cannot be drawn, which is a defect.
    pub fn svg(&self) -> Result<String, Failure> {
        draw::figure(self).map_err(failed)
    }
}

/// A line and a mark, as a legend shows them, as SVG for a page.
///
/// # Errors
/// When it cannot be drawn, which is a defect.
pub fn key(look: Look, shape: Shape) -> Result<String, Failure> {
    draw::key(look, shape).map_err(failed)
}

fn failed(error: String) -> Failure {
    Failure::Failed(format!("the figure: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(log: bool) -> Panel {
        let points: Vec<Point> = (0..4)
            .map(|x| Point {
                spread: Some((2f64.powi(x), 2f64.powi(x + 2))),
                ..Point::new(x.into(), 2f64.powi(x + 1))
            })
            .collect();
        let look = Look::of(0);
        let axis = |label| Axis::linear(label, 0.0..3.0);
        let y = if log { Axis::log("ns", 1.0..32.0) } else { Axis::linear("ns", 0.0..32.0) };
        let series = vec![
            Series { look, shape: Shape::Marked, points: points.clone() },
            Series { look: Look::GUIDE, shape: Shape::Guide, points },
        ];
        Panel { title: "a panel".into(), x: axis("order"), y, series }
    }

    #[test]
    fn points_have_a_line_a_mark_and_a_spread() {
        for log in [false, true] {
            let svg = panel(log).svg().unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert_eq!(svg.matches("<circle").count(), 4, "{svg}");
            assert!(svg.contains("a panel") && svg.contains("order") && svg.contains("ns"));
        }
    }

    #[test]
    fn on_a_logarithmic_axis_doubling_is_a_step_of_one_length() {
        let svg = panel(true).svg().unwrap();
        let heights: Vec<i32> = svg
            .split("<circle")
            .skip(1)
            .filter_map(|circle| circle.split("cy=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        let steps: Vec<i32> = heights.windows(2).map(|pair| pair[0] - pair[1]).collect();
        assert_eq!(steps.len(), 3);
        assert!(steps.iter().all(|step| (step - steps[0]).abs() <= 1 && *step > 0), "{steps:?}");
    }

    #[test]
    fn a_figure_has_its_panels_and_its_legend() {
        let figure = Figure {
            title: "a <figure>".into(),
            legend: vec![("somebody".into(), Look::of(0), Shape::Marked)],
            columns: 2,
            panels: vec![panel(false), panel(true), panel(false)],
            notes: vec!["a note".into()],
        };
        let svg = figure.svg().unwrap();
        assert!(svg.contains("a note"));
        assert_eq!(svg.matches("a panel").count(), 3);
        assert!(svg.contains("somebody") && svg.contains("a &lt;figure&gt;"));
        assert!(key(Look::of(1), Shape::Marked).unwrap().starts_with("<svg"));
    }
}
