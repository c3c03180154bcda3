//! Values of options: percentages, and lists of numbers and ranges.

use std::ops::RangeInclusive;

/// A percentage.
pub fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number of percent")?;
    match (0.0..=100.0).contains(&number) {
        true => Ok(number),
        false => Err("expected 0 to 100 percent".into()),
    }
}

/// The same in steps of 0.1.
pub fn tenths(text: &str) -> Result<f64, String> {
    let number = percent(text)?;
    match (number * 10.0).round() / 10.0 == number {
        true => Ok(number),
        false => Err("expected percent in steps of 0.1".into()),
    }
}

/// A number, or a range `FROM-TO`, of numbers from `LEAST` to `MOST`.
pub fn range<const LEAST: u16, const MOST: u16>(text: &str) -> Result<RangeInclusive<u16>, String> {
    let number = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|number| (LEAST..=MOST).contains(number));
        number.ok_or_else(|| {
            format!("expected a number from {LEAST} to {MOST}, or a range such as {LEAST}-{MOST}")
        })
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (number(from)?, number(to)?) {
        (from, to) if from <= to => Ok(from..=to),
        (from, to) => Err(format!("expected the lower number first: {to}-{from}")),
    }
}

/// Each number of some ranges once, in the order in which they were named.
pub fn numbers(ranges: &[RangeInclusive<u16>]) -> Vec<u16> {
    once(ranges.iter().cloned().flatten())
}

/// Each value once, in the order in which they were named.
pub fn once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_become_a_list() {
        let ranges = ["9", "0-2", "1"].map(|text| range::<0, 10>(text).unwrap());
        assert_eq!(numbers(&ranges), [9, 0, 1, 2]);
        for bad in ["", "-", "1-", "-1", "1-2-3", "11", "0-11", "1.5", "65536", "+1-x"] {
            assert!(range::<0, 10>(bad).unwrap_err().contains("from 0 to 10"), "{bad}");
        }
        assert_eq!(range::<1, 9>("5-3"), Err("expected the lower number first: 3-5".into()));
    }
}
