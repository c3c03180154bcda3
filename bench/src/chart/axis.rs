//! Axes: what they cover and where their numbers stand.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// One axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// What it covers.
    pub range: Range<f64>,
    /// Do equal ratios have equal lengths?
    pub log: bool,
    /// Where numbers stand.
    pub ticks: Vec<f64>,
}

/// About how many numbers an axis has.
const TICKS: f64 = 6.0;
/// The share of an axis that a number takes.
const CLOSE: f64 = 0.06;

impl Axis {
    /// Equal differences have equal lengths.
    pub fn linear(label: &str, range: Range<f64>) -> Axis {
        let step = step((range.end - range.start) / TICKS);
        let first = (range.start / step).ceil() as i64;
        let last = (range.end / step).floor() as i64;
        let ticks = (first..=last).map(|tick| tick as f64 * step).collect();
        Axis { label: label.into(), range, log: false, ticks }
    }

    /// Equal ratios have equal lengths. The range must be above zero.
    pub fn log(label: &str, range: Range<f64>) -> Axis {
        let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
        let multiples: &[f64] = match range.end / range.start {
            ratio if ratio < 5.0 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            ratio if ratio < 150.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let all = decades.flat_map(|decade| multiples.iter().map(move |m| m * 10f64.powi(decade)));
        let ticks = all.filter(|tick| (range.start..=range.end).contains(tick)).collect();
        Axis { label: label.into(), range, log: true, ticks }
    }

    /// Numbers at these places, which ascend, and nowhere else; a little room on both sides. Equal ratios have equal
    /// lengths where the numbers would otherwise lie one over the other.
    pub fn of(label: &str, places: &[f64]) -> Axis {
        let (lowest, highest) = match places {
            [] => (0.0, 1.0),
            [one] => (*one, *one),
            [first, .., last] => (*first, *last),
        };
        let close = |two: &[f64]| two[1] - two[0] < (highest - lowest) * CLOSE;
        let log = lowest > 0.0 && places.windows(2).any(close);
        let room = ((highest - lowest) * 0.04).max(0.1);
        let range = if log { lowest / 1.3..highest * 1.3 } else { lowest - room..highest + room };
        Axis { label: label.into(), range, log, ticks: places.to_vec() }
    }

    /// Covers these values: from zero, or in powers on a logarithmic axis.
    pub fn covering(label: &str, values: impl Iterator<Item = f64>, log: bool) -> Axis {
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (lowest, highest) = usable
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        let axis = match (log, lowest <= highest) {
            (true, true) => Axis::log(label, lowest / 1.3..highest * 1.3),
            (false, true) if highest > 0.0 => Axis::linear(label, 0.0..highest * 1.06),
            (true, false) => Axis::log(label, 1.0..10.0),
            _ => Axis::linear(label, 0.0..1.0),
        };
        axis.with_room_above()
    }

    /// No number is at the top, where the title is: the axis goes on above the highest number, for 6 % of what is below.
    fn with_room_above(mut self) -> Axis {
        let start = self.place(self.range.start);
        if let Some(highest) = self.ticks.last().map(|tick| self.place(*tick)) {
            let end = start + (highest - start) * 1.06;
            let end = if self.log { 10f64.powf(end) } else { end };
            self.range.end = self.range.end.max(end);
        }
        self
    }

    /// Where a value lies, in the units that are drawn.
    fn place(&self, value: f64) -> f64 {
        match self.log {
            true => value.max(f64::MIN_POSITIVE).log10(),
            false => value,
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let (start, end) = (self.place(self.range.start), self.place(self.range.end));
        let share = (self.place(*value) - start) / (end - start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        let steps = self.ticks.windows(2).map(|two| two[1] - two[0]);
        let smallest = if self.log { *value / 10.0 } else { steps.fold(1.0, f64::min) };
        let digits = (-smallest.log10()).ceil().clamp(0.0, 6.0) as usize;
        match *value {
            value if value.abs() >= 999_999.5 => format!("{} M", trimmed(value / 1e6, 2)),
            value if value.abs() >= 9999.5 => format!("{} k", trimmed(value / 1e3, 2)),
            value if self.log => trimmed(value, digits),
            value => format!("{value:.digits$}"),
        }
    }
}

/// At most so many digits, and no zeros at the end.
fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// The next of 1, 2, 5, 10, … times a power of ten.
fn step(least: f64) -> f64 {
    let least = if least > 0.0 && least.is_finite() { least } else { 1.0 };
    let power = 10f64.powf(least.log10().floor());
    let multiples = [1.0, 2.0, 5.0, 10.0].map(|multiple| multiple * power);
    multiples.into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|tick| axis.format_ext(tick)).collect()
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(texts(&Axis::linear("", 0.0..53.0)), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(
            texts(&Axis::linear("", 0.9..1.0)),
            ["0.90", "0.92", "0.94", "0.96", "0.98", "1.00"]
        );
        assert_eq!(texts(&Axis::linear("", 0.0..40_000.0))[1], "10 k");
        assert_eq!(texts(&Axis::log("", 1.0..1000.0)), ["1", "10", "100", "1000"]);
        assert_eq!(texts(&Axis::log("", 0.4..3.0)), ["0.5", "1", "2"]);
        assert_eq!(texts(&Axis::log("", 14.0..26.0)), ["15", "20", "25"]);
        assert_eq!(texts(&Axis::log("", 0.9..2.0)), ["1", "1.2", "1.5", "2"]);
        assert_eq!(texts(&Axis::of("", &[1.0, 2.0, 4.0])), ["1", "2", "4"]);
        let close = Axis::of("", &[0.2, 1.0, 10.0, 50.0]);
        assert_eq!(
            (close.log, texts(&close)),
            (true, ["0.2", "1", "10", "50"].map(String::from).into())
        );
    }

    /// Neither where the highest value is just below a number.
    #[test]
    fn no_number_is_at_the_top() {
        for log in [false, true] {
            for highest in (1..2000).map(f64::from) {
                let axis = Axis::covering("", [1.0, highest].into_iter(), log);
                let last = *axis.ticks.last().expect("a number");
                let place = axis.map(&last, (0, 1000));
                assert!(place < 945 && axis.range.end > highest, "{highest} {place} {axis:?}");
            }
        }
    }

    #[test]
    fn what_has_no_values_still_has_an_axis() {
        for log in [false, true] {
            let axis = Axis::covering("", [f64::NAN].into_iter(), log);
            assert!(axis.range.start < axis.range.end && !axis.ticks.is_empty());
        }
        let values = [5.0, 80.0].into_iter();
        let axis = Axis::covering("", values, true);
        assert!(axis.range.start < 5.0 && axis.range.end > 80.0);
        assert_eq!(Axis::of("", &[]).range, -0.1..1.1);
    }
}
