//! The text forms: events, the lists of owned frames, and the curve.

mod curve;
mod events;
mod lines;
mod lists;

pub use curve::{place_curve, read_curve};
pub use events::{Skipped, read_events};
pub use lists::{read_hidden_owned, read_start_owned};

use crate::Span;

/// A frame number in hexadecimal, with or without `0x`.
fn hex(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16).map_err(|_| format!("`{word}` is not a frame number (hex)"))
}

/// A decimal number with a name for the message.
fn number<T: std::str::FromStr>(name: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{name} `{word}` is not a number in range"))
}

/// The block of `order` at `pfn`.
fn block(pfn: u64, order: u8) -> Result<Span, String> {
    Span::block(pfn, order)
        .ok_or_else(|| format!("no block of order {order} can begin at frame {pfn:#x}"))
}

/// `seconds.microseconds` in microseconds.
fn microseconds(word: &str) -> Result<u64, String> {
    let bad = || format!("time `{word}` is not seconds.microseconds");
    let (seconds, micros) = word.split_once('.').ok_or_else(bad)?;
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if micros.len() != 6 || !digits(seconds) || !digits(micros) {
        return Err(bad());
    }
    let seconds: u64 = seconds.parse().map_err(|_| bad())?;
    let micros: u64 = micros.parse().map_err(|_| bad())?;
    seconds.checked_mul(1_000_000).and_then(|us| us.checked_add(micros)).ok_or_else(bad)
}
