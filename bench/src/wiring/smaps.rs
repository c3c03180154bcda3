//! What memory really is, as the system says: which of it is mapped by huge pages, from `/proc/self/smaps`.

use std::fs;
use std::ops::Range;

/// What a mapping says of huge pages: of nobody else's memory, of a memory file, of another file, and of hugetlbfs.
const HUGE: [&str; 5] =
    ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Private_Hugetlb:", "Shared_Hugetlb:"];

/// How many bytes of these addresses are mapped by huge pages; `None` where the system does not say.
pub fn huge_bytes(addresses: &Range<usize>) -> Option<usize> {
    Some(huge_in(&fs::read_to_string("/proc/self/smaps").ok()?, addresses))
}

/// The same, from the text. A mapping that has other addresses, too, counts with what it shares at the most.
fn huge_in(smaps: &str, addresses: &Range<usize>) -> usize {
    let (mut shared, mut sum) = (0, 0);
    for line in smaps.lines() {
        if let Some(mapping) = mapping(line) {
            let end = mapping.end.min(addresses.end);
            shared = end.saturating_sub(mapping.start.max(addresses.start));
        } else if let Some(kib) = HUGE.iter().find_map(|name| line.strip_prefix(name)) {
            let kib: usize = kib.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            let huge = shared.min(kib << 10);
            shared -= huge;
            sum += huge;
        }
    }
    sum
}

/// The addresses, if the line is the head of a mapping.
fn mapping(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00401000 r-xp 00000000 08:01 99 /bin/a-b
Rss: 4 kB
AnonHugePages:         0 kB
200000000-200800000 rw-p 00000000 00:00 0
Rss:                8192 kB
AnonHugePages:      6144 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr mr mw me ac hg
200800000-200a00000 rw-s 00000000 00:01 1 /memfd:pool (deleted)
AnonHugePages:         0 kB
ShmemPmdMapped:     2048 kB
";

    #[test]
    fn huge_pages_of_some_addresses_are_counted() {
        let of = |start, end| huge_in(SMAPS, &(start..end));
        assert_eq!(of(0x2_0000_0000, 0x2_0080_0000), 6 << 20);
        assert_eq!(of(0x2_0000_0000, 0x2_00a0_0000), 8 << 20);
        assert_eq!(of(0x2_0080_0000, 0x2_00a0_0000), 2 << 20);
        // No more than the part has.
        assert_eq!(of(0x2_0000_0000, 0x2_0010_0000), 1 << 20);
        assert_eq!(of(0, 0x1000_0000), 0);
        assert_eq!(of(0x2_00a0_0000, usize::MAX), 0);
    }
}
