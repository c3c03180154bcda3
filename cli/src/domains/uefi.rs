//! UEFI's memory map: descriptors, whose size the firmware says (48 bytes, as a rule).
//!
//! ```text
//!   descriptor      kind u32 │ – │ start u64 │ virtual u64 │ pages u64 │ attributes u64 │ …
//! ```
//!
//! Usable is what the system may have when the boot services are gone: UEFI 2.10, section 7.2.

use super::firmware::{Bad, Firmware, span};

/// What has to be in a descriptor.
const LEAST: usize = 40;
/// Loader code and data, boot services code and data, conventional memory.
const USABLE: [u32; 5] = [1, 2, 3, 4, 7];
const PAGE_SHIFT: u32 = 12;

/// Reads a map.
///
/// # Errors
/// It is not whole, or a range wraps around.
pub fn map(bytes: &[u8], descriptor: usize) -> Result<Firmware, Bad> {
    if descriptor < LEAST {
        return Err(Bad::all(format!("a descriptor has {LEAST} bytes or more, not {descriptor}")));
    }
    let mut firmware = Firmware::default();
    for (at, entry) in bytes.chunks(descriptor).enumerate() {
        let bad = |what: String| Bad::Byte(at * descriptor, what);
        if entry.len() < descriptor {
            let found = entry.len();
            return Err(bad(format!("{found} bytes, and a descriptor has {descriptor}")));
        }
        let (words, _) = entry.as_chunks::<8>();
        let [kind, start, _, pages, ..] = words else { continue };
        let [kind, start, pages] = [kind, start, pages].map(|word| u64::from_le_bytes(*word));
        let length = pages.checked_mul(1 << PAGE_SHIFT);
        let range = length.and_then(|length| span(start, length));
        let range = range.ok_or_else(|| bad("the range wraps around".into()))?;
        let usable = USABLE.contains(&(kind as u32));
        let list = if usable { &mut firmware.usable } else { &mut firmware.reserved };
        list.push(range);
    }
    Ok(firmware)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(kind: u32, start: u64, pages: u64) -> Vec<u8> {
        let words = [u64::from(kind), start, 0, pages, 0xf, 0];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_map_is_read() {
        let bytes = [descriptor(7, 0x1000, 3), descriptor(0, 0x4000, 1), descriptor(3, 0, 1)];
        let firmware = map(&bytes.concat(), 48).unwrap();
        assert_eq!(firmware.usable, [0x1000..0x4000, 0..0x1000]);
        assert_eq!(firmware.reserved, std::slice::from_ref(&(0x4000..0x5000)));
    }

    #[test]
    fn bad_maps_are_named() {
        let said = |bytes: &[u8], size| map(bytes, size).unwrap_err().to_string();
        let good = descriptor(7, 0, 1);
        assert_eq!(said(&good, 39), "a descriptor has 40 bytes or more, not 39");
        assert_eq!(said(&good, 40), "byte 0x28: 8 bytes, and a descriptor has 40");
        let wraps = [good, descriptor(7, 0x1000, 1 << 52)].concat();
        assert_eq!(said(&wraps, 48), "byte 0x30: the range wraps around");
    }
}
