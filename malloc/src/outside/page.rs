//! The page that says where everything is, and the note that leads to it.
//!
//! ```text
//!   .note.woodlot   8 │ 8 │ 1 │ "Woodlot\0" │ page - here        in a PT_NOTE segment of the program or the library
//!   page            magic │ version │ bytes │ library │ addresses …
//! ```
//!
//! 1. Magic, version, bytes and library stay where they are in every version.
//! 2. The page is never written; the loader relocates its addresses.
//!
//! The note's number is counted from where it lies, so that the loader has nothing to do there.

use core::arch::asm;

use woodlot_kmem::{MAX_SIZES, Place, Sizes, Wide};

use crate::counted::{CALLS, INSIDE};
use crate::heap::{KMEM, LARGE, Small};
use crate::hot::HOT;
use crate::large::Large;
use crate::rseq::{ABORTS, Rseq};
use crate::segments::Segments;
use crate::threads::Threads;

/// The version of the page, and of what its addresses lead to.
pub const VERSION: u32 = 2;
/// Who has written the note, with the zero behind it.
pub const NOTE_NAME: &[u8; 8] = b"Woodlot\0";
/// The type of a note that leads to a page.
pub const NOTE_TYPE: u32 = 1;
/// What a page begins with.
pub(super) const MAGIC: [u8; 8] = *b"wlmalloc";

/// What every version begins with.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    pub(super) bytes: u32,
    /// The library's version as text, with zeros behind it.
    pub(super) library: [u8; 16],
}

/// Words of which each lies so many bytes behind the one before.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Column {
    pub(super) first: *const u8,
    pub(super) stride: usize,
}

/// A size of blocks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct SizeRow {
    pub(super) bytes: u32,
    pub(super) target: u32,
    pub(super) pages: u32,
    pub(super) blocks: u32,
}

/// Where everything is. All numbers are as in the types that they are of.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Page {
    pub(super) header: Header,
    pub(super) size_count: usize,
    pub(super) sizes: [SizeRow; MAX_SIZES],
    // The counters of kmem, of each size. Calls of caches are counted if these are not null.
    pub(super) allocs: Column,
    pub(super) frees: Column,
    pub(super) takes: Column,
    pub(super) take_misses: Column,
    pub(super) puts: Column,
    pub(super) put_misses: Column,
    pub(super) lists: Column,
    pub(super) bucket: Column,
    pub(super) splits: Column,
    pub(super) coalesces: Column,
    pub(super) free: Column,
    // Caches of CPUs, or of threads.
    pub(super) state: *const u8,
    pub(super) aborts: *const u8,
    pub(super) cpus: Column,
    pub(super) cpu_count: usize,
    pub(super) aux: usize,
    pub(super) batches: *const u8,
    pub(super) older: usize,
    pub(super) threads_in_batch: usize,
    pub(super) thread_stride: usize,
    pub(super) thread_lists: usize,
    // Pages.
    pub(super) descriptors: *const u8,
    pub(super) pages: *const u8,
    pub(super) segment_pages: usize,
    pub(super) resident: Column,
    // Large blocks.
    pub(super) large_count: *const u8,
    pub(super) large_entries: *const u8,
}

// SAFETY: addresses, which are read by whoever looks from outside.
unsafe impl Sync for Page {}

static PAGE: Page = {
    type Caches = Rseq<Threads>;
    const fn kmem(offset: usize) -> *const u8 {
        (&raw const KMEM).cast::<u8>().wrapping_add(offset)
    }
    const fn column(place: Place) -> Column {
        Column { first: kmem(place.offset), stride: place.stride }
    }
    const fn large(offset: usize) -> *const u8 {
        (&raw const LARGE).cast::<u8>().wrapping_add(offset)
    }
    let places = Small::PLACES;
    let (caches, pages) = (places.caches, places.pages);
    const fn calls(which: usize) -> Column {
        match CALLS {
            Some(calls) => {
                let Place { offset, stride } = calls[which];
                column(Place { offset: Small::PLACES.caches + offset, stride })
            }
            None => Column { first: core::ptr::null(), stride: 0 },
        }
    }
    Page {
        header: Header {
            magic: MAGIC,
            version: VERSION,
            bytes: size_of::<Page>() as u32,
            library: library(),
        },
        size_count: Wide::COUNT,
        sizes: sizes(),
        allocs: calls(0),
        frees: calls(1),
        takes: column(places.takes),
        take_misses: column(places.take_misses),
        puts: column(places.puts),
        put_misses: column(places.put_misses),
        lists: column(places.lists),
        bucket: column(places.bucket),
        splits: column(places.splits),
        coalesces: column(places.coalesces),
        free: column(places.free),
        state: (&raw const HOT.words.state).cast(),
        aborts: (&raw const ABORTS).cast(),
        cpus: Column { first: (&raw const HOT.caches).cast(), stride: Caches::STRIDE },
        cpu_count: Caches::CPUS,
        aux: Caches::AUX,
        batches: kmem(caches + INSIDE + Caches::OTHER + Threads::BATCHES),
        older: Threads::OLDER,
        threads_in_batch: Threads::IN_BATCH,
        thread_stride: Threads::STRIDE,
        thread_lists: Threads::LISTS,
        descriptors: (&raw const HOT.words.descriptors).cast(),
        pages: (&raw const HOT.words.pages).cast(),
        segment_pages: Segments::SEGMENT,
        resident: Column { first: kmem(pages + Segments::RESIDENT), stride: Segments::STRIDE },
        large_count: large(Large::COUNT),
        large_entries: large(Large::ENTRIES),
    }
};

const fn library() -> [u8; 16] {
    let (text, mut library) = (env!("CARGO_PKG_VERSION").as_bytes(), [0; 16]);
    let mut at = 0;
    while at < text.len() && at < library.len() {
        library[at] = text[at];
        at += 1;
    }
    library
}

const fn sizes() -> [SizeRow; MAX_SIZES] {
    let mut rows = [SizeRow { bytes: 0, target: 0, pages: 0, blocks: 0 }; MAX_SIZES];
    let mut at = 0;
    while at < Wide::COUNT {
        let size = Wide::TABLE.size(at);
        rows[at] = SizeRow {
            bytes: size.bytes as u32,
            target: size.target as u32,
            pages: size.pages() as u32,
            blocks: size.blocks as u32,
        };
        at += 1;
    }
    rows
}

/// Has the note in whatever this is linked into. Nothing is done when it is called.
#[inline(always)]
pub(crate) fn announce() {
    // SAFETY: no instruction.
    unsafe {
        asm!(
            ".pushsection .note.woodlot, \"a\", @note",
            ".balign 4",
            ".long 8, 8, {NOTE_TYPE}",
            ".asciz \"Woodlot\"",
            ".quad {page} - .",
            ".popsection",
            NOTE_TYPE = const NOTE_TYPE,
            page = sym PAGE,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// The address of the page of this very process.
pub(super) fn here() -> usize {
    (&raw const PAGE).addr()
}
