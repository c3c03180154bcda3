//! The map of a PC's firmware, E820: as a table, and as Linux prints it.
//!
//! ```text
//!   BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable        the last byte, not the one behind it
//!   ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0x7fffffff]                 in the same log, if there are several nodes
//!
//!   entry      start u64 │ bytes u64 │ kind u32                          1: usable
//! ```

use std::ops::Range;

use super::firmware::{Bad, Firmware, domain, span};

const ENTRY: usize = 20;
const USABLE: u32 = 1;
const LOG: &str = "BIOS-e820:";
const SRAT: &str = "SRAT: Node ";

/// Does a text have the lines that Linux prints?
pub fn is_log(text: &str) -> bool {
    text.contains(LOG)
}

/// Reads a kernel's log.
///
/// # Errors
/// A line that begins as one of the map, and does not go on so.
pub fn log(text: &str) -> Result<Firmware, Bad> {
    let mut firmware = Firmware::default();
    for (number, line) in text.lines().enumerate() {
        let bad = |what: String| Bad::Line(number + 1, what);
        if let Some((_, rest)) = line.split_once(LOG) {
            let (range, kind) = memory(rest).map_err(bad)?;
            let list = match kind.trim() {
                "" => return Err(bad("the range has no kind".into())),
                "usable" => &mut firmware.usable,
                _ => &mut firmware.reserved,
            };
            list.push(range);
        } else if let Some((_, rest)) = line.split_once(SRAT) {
            let node = rest.split(' ').next().unwrap_or_default();
            let node = node.parse::<u64>().map_err(|_| bad(format!("{node:?} is no node")));
            let node = domain(node?).map_err(bad)?;
            firmware.nodes.push((memory(rest).map_err(bad)?.0, node));
        }
    }
    Ok(firmware)
}

/// The range that is first named, and what stands behind it.
fn memory(text: &str) -> Result<(Range<u64>, &str), String> {
    let inside = text.split_once("[mem ").and_then(|(_, rest)| rest.split_once(']'));
    let (range, rest) = inside.ok_or("there is no [mem START-END]")?;
    let (start, last) = range.split_once('-').ok_or_else(|| format!("{range:?} is no range"))?;
    let number = |text: &str| {
        let digits = text.trim().strip_prefix("0x");
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.ok_or_else(|| format!("{text:?} is no address"))
    };
    let (start, last) = (number(start)?, number(last)?);
    let end = last.checked_add(1).filter(|&end| end > start);
    Ok((start..end.ok_or_else(|| format!("{range:?} ends before it begins"))?, rest))
}

/// Reads a table.
///
/// # Errors
/// It is not whole, or an entry wraps around.
pub fn table(bytes: &[u8]) -> Result<Firmware, Bad> {
    let mut firmware = Firmware::default();
    let (entries, rest) = bytes.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        let what = format!("{} bytes, and an entry has {ENTRY}", rest.len());
        return Err(Bad::Byte(entries.len() * ENTRY, what));
    }
    for (at, entry) in entries.iter().enumerate() {
        let (words, kind) = entry.as_chunks::<8>();
        let [start, length] = words else { continue };
        let (start, length) = (u64::from_le_bytes(*start), u64::from_le_bytes(*length));
        let range = span(start, length);
        let range = range.ok_or_else(|| Bad::Byte(at * ENTRY, "the range wraps around".into()))?;
        let usable = kind == USABLE.to_le_bytes();
        let list = if usable { &mut firmware.usable } else { &mut firmware.reserved };
        list.push(range);
    }
    Ok(firmware)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let text = "[0.0] BIOS-provided physical RAM map:\n\
            [    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable\n\
            BIOS-e820: [mem 0x00000000000f0000-0x00000000000fffff] reserved\n\
            BIOS-e820: [mem 0x0000000000100000-0x00000000ffffffff] ACPI data\n\
            [    0.1] ACPI: SRAT: Node 1 PXM 1 [mem 0x00000000-0x7fffffff] hotplug\n";
        let firmware = log(text).unwrap();
        assert_eq!(firmware.usable, std::slice::from_ref(&(0..0x9fc00)));
        assert_eq!(firmware.reserved, [0xf0000..0x10_0000, 0x10_0000..0x1_0000_0000]);
        assert_eq!(firmware.nodes, [(0..0x8000_0000, 1)]);
    }

    #[test]
    fn bad_lines_are_named() {
        let said = |line: &str| log(&format!("\n{LOG} {line}")).unwrap_err().to_string();
        assert_eq!(said("usable"), "line 2: there is no [mem START-END]");
        assert_eq!(said("[mem 0x1] usable"), "line 2: \"0x1\" is no range");
        assert_eq!(said("[mem 1-0x2] usable"), "line 2: \"1\" is no address");
        assert_eq!(said("[mem 0x2-0x1] usable"), "line 2: \"0x2-0x1\" ends before it begins");
        let last = "[mem 0x2-0xffffffffffffffff] usable";
        assert!(said(last).contains("ends before it begins"), "its end is no number");
        assert_eq!(said("[mem 0x1-0x2]"), "line 2: the range has no kind");
        let node = log("SRAT: Node 64 [mem 0x1-0x2]").unwrap_err().to_string();
        assert_eq!(node, "line 1: node 64 is not one of 64");
    }

    #[test]
    fn a_table_is_read() {
        let entry = |start: u64, length: u64, kind: u32| {
            [&start.to_le_bytes()[..], &length.to_le_bytes(), &kind.to_le_bytes()].concat()
        };
        let firmware = table(&[entry(0, 9, 1), entry(9, 1, 2)].concat()).unwrap();
        assert_eq!(firmware.usable, std::slice::from_ref(&(0..9)));
        assert_eq!(firmware.reserved, std::slice::from_ref(&(9..10)));
        let wraps = table(&[entry(0, 9, 1), entry(u64::MAX, 2, 1)].concat()).unwrap_err();
        assert_eq!(wraps.to_string(), "byte 0x14: the range wraps around");
        let short = table(&entry(0, 9, 1)[..19]).unwrap_err();
        assert_eq!(short.to_string(), "byte 0x0: 19 bytes, and an entry has 20");
    }
}
