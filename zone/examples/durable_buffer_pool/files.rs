//! The files of the database: all that a death leaves.
//!
//! ```text
//!   frames   │ zone, with intents │ frames │    a zone file: the pages that are in memory
//!   table    │ places │ counts │             where each page is, and how often it was changed
//!   disk     │ page 0 │ page 1 │ …           a count of changes in the first byte, the page's number in all others
//! ```

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::null_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use woodlot_frame::atomics::{AtomicU64, Ordering::Acquire, Ordering::Release};
use woodlot_frame::{Base4K, FrameId, Order, ZoneConfig};
use woodlot_zone::{Layout, Memory, PAGE};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// 8 MiB of 4 KiB frames, and two slots.
pub const ZONE: ZoneConfig = ZoneConfig::new(2048, 2);
/// Pages: more than there is memory for.
pub const PAGES: usize = 100;
/// What the table says of a page beside its first frame: it is in memory; or on the disk, and its frames are about to be
/// free. 0 is on the disk.
pub const IN: u64 = 1 << 32;
pub const LEAVING: u64 = 2 << 32;

/// The size of a page: 4 KiB, 16 KiB, 128 KiB or 512 KiB.
pub fn order(page: usize) -> Order {
    Order([0, 2, 5, 7][page % 4])
}

fn len(page: usize) -> usize {
    order(page).frames() * PAGE
}

/// The files, opened and mapped.
pub struct Files {
    pub zone: Memory<'static>,
    frames: *mut u8,
    table: &'static [AtomicU64],
    disk: File,
}

impl Files {
    /// Files that are not there are made, all zero.
    pub fn open(folder: &Path) -> Result<Files> {
        let open = |name| {
            let mut how = OpenOptions::new();
            how.read(true).write(true).create(true).truncate(false).open(folder.join(name))
        };
        let map = |name, len: usize| -> Result<*mut u8> {
            let file = open(name)?;
            file.set_len(len as u64)?;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the system chooses the place.
            Ok(unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, file, 0) }?.cast())
        };
        let zone = Layout::with_intents::<Base4K>(&ZONE)?.len;
        let start = map("frames", zone + ZONE.frames * PAGE)?;
        let table = map("table", 2 * PAGES * size_of::<AtomicU64>())?;
        // SAFETY: the files are as long as that, are never unmapped, and are used in this way only.
        unsafe {
            let (frames, table) = (start.add(zone), from_raw_parts(table.cast(), 2 * PAGES));
            Ok(Files { zone: Memory::new(start, zone)?, frames, table, disk: open("disk")? })
        }
    }

    /// What the table says of a page, and its first frame.
    pub fn place(&self, page: usize) -> (u64, FrameId) {
        let word = self.table[page].load(Acquire);
        (word & (IN | LEAVING), FrameId(word as u32 as usize))
    }

    pub fn set_place(&self, page: usize, place: u64, first: FrameId) {
        self.table[page].store(place | first.0 as u64, Release);
    }

    /// How often a page was changed.
    pub fn count(&self, page: usize) -> &AtomicU64 {
        &self.table[PAGES + page]
    }

    /// The bytes of a page in memory. Its frames are no other page's, and the database has one thread.
    #[expect(clippy::mut_from_ref, reason = "the bytes do not lie in the structure")]
    pub fn bytes(&self, page: usize, first: FrameId) -> &mut [u8] {
        // SAFETY: the frames lie in the mapping, and whoever had their bytes before needs them no more.
        unsafe { from_raw_parts_mut(self.frames.add(first.0 * PAGE), len(page)) }
    }

    /// Where a page lies on the disk.
    fn at(page: usize) -> u64 {
        (page * PAGE * Order(7).frames()) as u64
    }

    /// Writes a page to the disk.
    pub fn write(&self, page: usize, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_all_at(bytes, Self::at(page))
    }

    /// Reads a page from the disk.
    pub fn read(&self, page: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.disk.read_exact_at(bytes, Self::at(page))
    }

    /// Writes all pages, none of which was ever changed.
    pub fn fill_disk(&self) -> io::Result<()> {
        for page in 0..PAGES {
            let mut bytes = vec![page as u8; len(page)];
            bytes[0] = 0;
            self.write(page, &bytes)?;
        }
        Ok(())
    }

    /// Has a page all of its changes, and nothing of another one? Who was killed in between has changed it, and not
    /// counted that: then it is counted.
    pub fn is_whole(&self, page: usize) -> io::Result<bool> {
        let mut read = vec![0; len(page)];
        match self.place(page) {
            (IN, first) => read.copy_from_slice(self.bytes(page, first)),
            _ => self.read(page, &mut read)?,
        }
        let more = read[0].wrapping_sub(self.count(page).load(Acquire) as u8);
        self.count(page).fetch_add((more == 1).into(), Release);
        Ok(more <= 1 && read.chunks(PAGE).all(|frame| frame[1..] == [page as u8; PAGE - 1]))
    }
}
