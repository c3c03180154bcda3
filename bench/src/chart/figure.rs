//! What a figure holds; [`draw`](super::draw) draws it.

use super::axis::Axis;
use super::look::Look;

/// A point with its spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Where it is.
    pub x: f64,
    /// How high.
    pub y: f64,
    /// The lowest and the highest of what it stands for.
    pub spread: Option<(f64, f64)>,
    /// Drawn hollow: something about it is not as with the others.
    pub hollow: bool,
}

impl Point {
    /// A point that stands for itself.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, spread: None, hollow: false }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A line with a mark at each point.
    Marked,
    /// A line.
    Line,
    /// A thin line: what others are compared with.
    Guide,
    /// Everything below.
    Area,
}

/// Points that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Colour and mark.
    pub look: Look,
    /// How it is drawn.
    pub shape: Shape,
    /// By rising x.
    pub points: Vec<Point>,
}

/// One pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Drawn one over the other.
    pub series: Vec<Series>,
}

/// Panels under a title and a legend.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// Who is who.
    pub legend: Vec<(String, Look, Shape)>,
    /// How many panels lie side by side.
    pub columns: usize,
    /// Row by row.
    pub panels: Vec<Panel>,
    /// What a reader must know, below the panels: a line each.
    pub notes: Vec<String>,
}
