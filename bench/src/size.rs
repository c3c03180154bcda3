//! Sizes of memory on the command line and in reports.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An amount of memory: whole base frames of 4 KiB, from 4 MiB to 16 TiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u64);

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
const LEAST: u64 = 4 << 20;
const MOST: u64 = 16 << 40;

impl Size {
    /// How many base frames.
    pub fn frames(self) -> usize {
        (self.0 >> 12) as usize
    }

    /// How many bytes.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }

    /// A number of gibibytes, within the limits.
    pub const fn gib(gib: u64) -> Size {
        Size::mib(gib << 10)
    }

    /// A number of mebibytes, within the limits.
    pub const fn mib(mib: u64) -> Size {
        let bytes = mib << 20;
        Size(if bytes < LEAST {
            LEAST
        } else if bytes > MOST {
            MOST
        } else {
            bytes
        })
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let number = |(unit, shift): &(&str, u32)| Some((text.strip_suffix(unit)?, *shift));
        let (number, shift) = UNITS.iter().find_map(number).ok_or("a size such as 8GiB")?;
        let number: u64 = number.trim().parse().map_err(|_| "a size such as 8GiB")?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| (LEAST..=MOST).contains(bytes));
        let bytes = bytes.ok_or("a size from 4MiB to 16TiB")?;
        match bytes % 4096 {
            0 => Ok(Size(bytes)),
            _ => Err("a whole number of 4KiB frames".into()),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, shift): &&(&str, u32)| self.0.is_multiple_of(1 << shift);
        let (unit, shift) = UNITS.iter().find(whole).unwrap_or(&UNITS[3]);
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for text in ["8GiB", "16TiB", "4MiB", "4100KiB", "1536MiB"] {
            assert_eq!(text.parse::<Size>().map(|size| size.to_string()), Ok(text.into()));
        }
        assert_eq!("1024GiB".parse::<Size>().unwrap().to_string(), "1TiB");
        assert_eq!(Size::gib(8).frames(), 1 << 21);
        let bad = ["", "8", "8GB", "-1GiB", "17TiB", "1MiB", "4097KiB", "99999999999999999999TiB"];
        assert!(bad.iter().all(|text| text.parse::<Size>().is_err()));
    }
}
