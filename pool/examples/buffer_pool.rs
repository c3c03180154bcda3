//! A small buffer pool of a database: pages of 16 KiB of a file, as many in memory as the pool of frames allows.
//!
//! ```text
//!   table     page ─▶ frame              which pages are in memory
//!   clock     frame, frame, frame, …     the next one that was not used since is evicted
//!   frames    Block of order 2           16 KiB each, from a pool with a cap
//! ```
//!
//! A claim keeps one page aside, so that an eviction can read its next page before it has written the last one.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use woodlot_pool::{Block, Claim, Options, Order, Pool, PoolError};

/// A page has four frames.
const ORDER: Order = Order(2);
const PAGE: usize = 16 << 10;

/// A page in memory.
struct Frame<'p> {
    bytes: Block<'p>,
    dirty: bool,
    used: bool,
}

/// The pages of a file, some of them in memory.
struct BufferPool<'p> {
    file: File,
    pool: &'p Pool,
    spare: Claim<'p>,
    table: HashMap<u64, Frame<'p>>,
    clock: VecDeque<u64>,
    evictions: usize,
}

impl<'p> BufferPool<'p> {
    fn new(file: File, pool: &'p Pool) -> Result<Self, PoolError> {
        let spare = pool.claim(ORDER, 1)?;
        let (table, clock) = (HashMap::new(), VecDeque::new());
        Ok(BufferPool { file, pool, spare, table, clock, evictions: 0 })
    }

    /// A page, for reading.
    fn read(&mut self, page: u64) -> Result<&[u8], Box<dyn Error>> {
        Ok(&self.fetch(page)?.bytes)
    }

    /// A page, for writing.
    fn write(&mut self, page: u64) -> Result<&mut [u8], Box<dyn Error>> {
        let frame = self.fetch(page)?;
        frame.dirty = true;
        Ok(&mut frame.bytes)
    }

    fn fetch(&mut self, page: u64) -> Result<&mut Frame<'p>, Box<dyn Error>> {
        if !self.table.contains_key(&page) {
            let bytes = self.load(page)?;
            self.table.insert(page, Frame { bytes, dirty: false, used: false });
            self.clock.push_back(page);
        }
        let frame = self.table.get_mut(&page).ok_or("the page was just loaded")?;
        frame.used = true;
        Ok(frame)
    }

    /// Reads a page into memory: free memory, or that of another page.
    fn load(&mut self, page: u64) -> Result<Block<'p>, Box<dyn Error>> {
        let (mut bytes, full) = match self.pool.alloc(ORDER) {
            Ok(bytes) => (bytes, false),
            Err(PoolError::OutOfMemory { .. }) => (self.spare.alloc()?, true),
            Err(error) => return Err(error.into()),
        };
        let read = self.file.read_exact_at(&mut bytes, page * PAGE as u64);
        if full {
            // Whatever the file said, the claim has its block again.
            let evicted = if read.is_ok() { self.evict() } else { Err("not read".into()) };
            match evicted {
                Ok(evicted) => self.spare.put(evicted).map_err(|(_, error)| error)?,
                Err(_) => {
                    self.spare.put(bytes).map_err(|(_, error)| error)?;
                    read?;
                    return evicted;
                }
            }
        }
        read?;
        Ok(bytes)
    }

    /// The memory of the first page on the clock that was not used since the hand last passed.
    fn evict(&mut self) -> Result<Block<'p>, Box<dyn Error>> {
        loop {
            let page = *self.clock.front().ok_or("no page is in memory")?;
            let frame = self.table.get_mut(&page).ok_or("a page on the clock is in memory")?;
            if frame.used {
                frame.used = false;
                self.clock.rotate_left(1);
                continue;
            }
            if frame.dirty {
                self.file.write_all_at(&frame.bytes, page * PAGE as u64)?;
            }
            self.clock.pop_front();
            self.evictions += 1;
            let evicted = self.table.remove(&page).ok_or("a page on the clock is in memory")?;
            return Ok(evicted.bytes);
        }
    }

    /// Writes what has changed.
    fn flush(&mut self) -> io::Result<()> {
        for (page, frame) in self.table.iter_mut().filter(|(_, frame)| frame.dirty) {
            self.file.write_all_at(&frame.bytes, page * PAGE as u64)?;
            frame.dirty = false;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    run()
}

/// Counts in the pages of a file, most of which are not in memory.
pub fn run() -> Result<(), Box<dyn Error>> {
    const PAGES: u64 = 1000;
    let file = tempfile::tempfile()?;
    file.set_len(PAGES * PAGE as u64)?;

    // 16 MiB of pages, of which 4 MiB are in memory: 256.
    let pool = Options::new(16 << 20).cap(4 << 20).build()?;
    let mut pages = BufferPool::new(file, &pool)?;

    // Counters, one in each page, and more work for some of them.
    let mut expected = [0u64; PAGES as usize];
    let mut next = 1u64;
    for _ in 0..20_000 {
        next = next.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let page = if next >> 62 == 0 { (next >> 32) % PAGES } else { (next >> 32) % 100 };
        expected[page as usize] += 1;
        let counter = &mut pages.write(page)?[..8];
        let count = u64::from_le_bytes(counter.try_into()?) + 1;
        counter.copy_from_slice(&count.to_le_bytes());
    }
    pages.flush()?;
    for (page, count) in (0..).zip(expected) {
        assert_eq!(u64::from_le_bytes(pages.read(page)?[..8].try_into()?), count, "page {page}");
    }
    assert!(pages.evictions > 1000 && pool.resident() <= pool.cap());
    println!(
        "{PAGES} pages in {} frames of 16 KiB, {} evictions",
        pages.table.len(),
        pages.evictions
    );

    // The database is idle: its memory is the system's.
    drop(pages);
    println!("{} bytes given back, {} resident", pool.give_back(usize::MAX)?, pool.resident());
    Ok(())
}
