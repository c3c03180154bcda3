//! Medians.

use serde::Serialize;

/// What several repetitions gave.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Half of them are below, half above.
    pub median: f64,
    /// The smallest: what the machine can do when nothing disturbs it.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of no samples.
    pub const NOTHING: Summary = Summary::only(f64::NAN);

    /// Of one sample.
    pub const fn only(sample: f64) -> Summary {
        Summary { median: sample, min: sample, max: sample }
    }

    /// The same in another unit: `change` keeps what is less less.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Summary {
        let Summary { median, min, max } = self;
        Summary { median: change(median), min: change(min), max: change(max) }
    }

    /// Of at least one sample; `None` of nothing.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Summary { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[3.0]), Some(Summary::only(3.0)));
        let odd = Summary::of(&[9.0, 1.0, 2.0]);
        assert_eq!(odd, Some(Summary { median: 2.0, min: 1.0, max: 9.0 }));
        let even = Summary::of(&[4.0, 1.0, 2.0, 100.0]);
        assert_eq!(even, Some(Summary { median: 3.0, min: 1.0, max: 100.0 }));
    }
}
