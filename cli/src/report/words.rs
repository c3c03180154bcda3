//! Numbers and sizes as people read them.

use woodlot_bench::size::Size;
use woodlot_bench::statistics::Summary;

/// Two significant digits at least: `0.052`, `4.7`, `183`.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 || value == 0.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        value if value.is_finite() => (1.0 - value.log10().floor()).clamp(0.0, 9.0) as usize,
        _ => return "–".into(),
    };
    format!("{value:.digits$}")
}

/// A size as people write it: `8 GiB`.
pub fn size(size: Size) -> String {
    let text = size.to_string();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..unit], &text[unit..])
}

/// A number of things, its digits in threes: `33 555 169`.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let threes = digits.as_bytes().rchunks(3).rev();
    threes.map(String::from_utf8_lossy).collect::<Vec<_>>().join("\u{202f}")
}

/// Percent with a digit, and no minus before nothing: `46.6 %`.
pub fn percent(value: f64) -> String {
    // Adding zero turns a negative zero into the other one.
    format!("{:.1} %", (10.0 * value).round() / 10.0 + 0.0)
}

/// Bytes in MiB: `4.13 MiB`.
pub fn mib(bytes: usize) -> String {
    format!("{} MiB", number(bytes as f64 / f64::from(1 << 20)))
}

/// Median and spread: `4.7 (4.6 – 5.1)`.
pub fn spread(summary: Option<Summary>) -> String {
    match summary {
        Some(Summary { median, min, max }) => {
            // A narrow column breaks the line before the range, not in it.
            format!("{} ({}\u{a0}–\u{a0}{})", number(median), number(min), number(max))
        }
        None => "not measured".into(),
    }
}

/// How many threads, in words.
pub fn threads_of(count: usize) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_that_say_something() {
        let said = [0.0521, 0.52, 4.713, 47.13, 183.2, 33_555_169.0, 0.0].map(number);
        assert_eq!(said, ["0.052", "0.52", "4.71", "47.1", "183", "33555169", "0"]);
        assert_eq!(number(f64::NAN), "–");
        assert_eq!(spread(None), "not measured");
        assert_eq!(spread(Summary::of(&[1.0, 2.0, 4.0])), "2.00 (1.00\u{a0}–\u{a0}4.00)");
        assert_eq!([0, 999, 33_555_169].map(count), ["0", "999", "33\u{202f}555\u{202f}169"]);
        assert_eq!([-0.04, 46.61].map(percent), ["0.0 %", "46.6 %"]);
        assert_eq!([Size::gib(8), Size::mib(128)].map(size), ["8 GiB", "128 MiB"]);
    }
}
