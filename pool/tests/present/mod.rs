//! Which memory of a pool is there, as the system says.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use woodlot_pool::{FrameId, Pool};

/// How many pages of the pool this process has in its page tables.
pub fn pages(pool: &Pool) -> usize {
    pages_of(pool, FrameId(0)..FrameId(pool.size() / 4096))
}

/// How many pages of some frames.
pub fn pages_of(pool: &Pool, frames: Range<FrameId>) -> usize {
    let first = pool.pointer(frames.start).expect("a frame").addr() / 4096;
    let mut entries = vec![0; (frames.end.0 - frames.start.0) * 8];
    let map = File::open("/proc/self/pagemap").expect("a map of pages");
    map.read_exact_at(&mut entries, first as u64 * 8).expect("an entry for each page");
    // Bit 63 of a page's entry says that it is there.
    entries.as_chunks::<8>().0.iter().filter(|entry| entry[7] & 0x80 != 0).count()
}
