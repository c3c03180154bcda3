//! Reads a heap in some memory.
//!
//! ```text
//!   page ─┬► counters of each size
//!         ├► words of caches, 8 KiB of them at a time ─────► blocks of each size
//!         ├► bits of huge frames ─► their descriptors ──────► spans
//!         └► table of large blocks
//! ```

use core::fmt;
use core::mem::MaybeUninit;

use woodlot_kmem::{Descriptor, Kind, List, MAX_SIZES, PAGE};

use super::page::{Column, Header, MAGIC, Page, VERSION};
use super::snapshot::{Blocks, Caches, Layer, SizeSnapshot, Snapshot};
use crate::hot::{NONE, STARTING, UNKNOWN};
use crate::rseq::thief::CLOSED;
use crate::segment::HUGE;

/// Words that are read at a time.
const WORDS: usize = 1024;
/// Pages of a huge frame, and the words of their descriptors.
const HUGE_PAGES: usize = HUGE / PAGE;
const _: () = assert!(HUGE_PAGES * size_of::<Descriptor>() == WORDS * size_of::<u64>());

/// The memory of a process.
pub trait Memory {
    /// Why it could not be read.
    type Error;

    /// Reads as many bytes as `into` has.
    ///
    /// # Errors
    /// Not all of them could be read.
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), Self::Error>;
}

/// Why there is no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookError<E> {
    /// The memory could not be read.
    Read(E),
    /// There is no page.
    NotAHeap,
    /// The page is of another version, written by this library.
    Version(u32, [u8; 16]),
    /// The words contradict each other: the heap was changed meanwhile, or damaged.
    Torn,
}

impl<E> From<E> for LookError<E> {
    fn from(cause: E) -> LookError<E> {
        LookError::Read(cause)
    }
}

impl<E: fmt::Display> fmt::Display for LookError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(cause) => write!(f, "its memory could not be read: {cause}"),
            Self::NotAHeap => f.write_str("there is no heap of woodlot_malloc"),
            Self::Version(version, library) => {
                let text = library.split(|&byte| byte == 0).next().unwrap_or_default();
                let library = core::str::from_utf8(text).unwrap_or("?");
                write!(f, "has woodlot_malloc {library}, whose page is of version {version}; ")?;
                write!(f, "this program, {}, reads version {VERSION}", env!("CARGO_PKG_VERSION"))
            }
            Self::Torn => {
                f.write_str("its heap contradicts itself: it is being changed, or damaged")
            }
        }
    }
}

/// Looks at the heap whose page lies at an address of some memory, where a note leads. Nothing is written, and nobody who
/// uses the heap is waited for.
///
/// Takes a step for each CPU that can have a cache (1024), for each page of a resident huge frame and for each large block.
///
/// # Errors
/// [`LookError`].
pub fn look<M: Memory>(memory: &M, page: usize) -> Result<Snapshot, LookError<M::Error>> {
    let heap = Heap { memory, page: read_page(memory, page)? };
    let (caches, cached) = heap.cached()?;
    let mut sizes = [SizeSnapshot::default(); MAX_SIZES];
    let size_count = heap.page.size_count.min(MAX_SIZES);
    for (at, size) in sizes.iter_mut().enumerate().take(size_count) {
        *size = heap.size(at, cached.get(at).copied().unwrap_or_default())?;
    }
    let (resident, spans) = heap.spans()?;
    Ok(Snapshot {
        library: heap.page.header.library,
        caches,
        aborts: heap.word(heap.page.aborts.addr())?,
        sizes,
        size_count,
        spans,
        large: heap.large()?,
        resident,
        open: heap.word(heap.page.pages.addr())? as usize * PAGE,
    })
}

/// # Safety
/// Any bytes are a value of `T`.
unsafe fn read_as<M: Memory, T: Copy>(memory: &M, address: usize) -> Result<T, M::Error> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes are the value's, and are zero.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) };
    memory.read(address, bytes)?;
    // SAFETY: as the caller says.
    Ok(unsafe { value.assume_init() })
}

fn read_page<M: Memory>(memory: &M, address: usize) -> Result<Page, LookError<M::Error>> {
    // SAFETY: numbers.
    let header: Header = unsafe { read_as(memory, address) }?;
    if header.magic != MAGIC {
        return Err(LookError::NotAHeap);
    }
    if header.version != VERSION || header.bytes as usize != size_of::<Page>() {
        return Err(LookError::Version(header.version, header.library));
    }
    // SAFETY: numbers and addresses.
    Ok(unsafe { read_as(memory, address) }?)
}

/// A heap whose page was read.
struct Heap<'a, M> {
    memory: &'a M,
    page: Page,
}

/// Free blocks of each size.
type Counts = [usize; MAX_SIZES];

impl<M: Memory> Heap<'_, M> {
    fn word(&self, address: usize) -> Result<u64, M::Error> {
        // SAFETY: a number.
        unsafe { read_as(self.memory, address) }
    }

    fn in_column(&self, column: Column, at: usize) -> Result<u64, M::Error> {
        self.word(column.first.addr().wrapping_add(column.stride.wrapping_mul(at)))
    }

    fn words(&self, address: usize) -> Result<[u64; WORDS], M::Error> {
        // SAFETY: numbers.
        unsafe { read_as(self.memory, address) }
    }

    fn size(&self, at: usize, cached: usize) -> Result<SizeSnapshot, LookError<M::Error>> {
        let page = &self.page;
        let row = page.sizes.get(at).ok_or(LookError::Torn)?;
        let [bytes, target, pages, blocks] =
            [row.bytes, row.target, row.pages, row.blocks].map(|number| number as usize);
        let read = |column| self.in_column(column, at);
        let calls = |column: Column| (!column.first.is_null()).then(|| read(column)).transpose();
        let (allocs, frees) = (calls(page.allocs)?, calls(page.frees)?);
        let (takes, puts) = (read(page.takes)?, read(page.puts)?);
        let (made, freed) = (read(page.splits)?, read(page.coalesces)?);
        let slabs = made.saturating_sub(freed) as usize;
        let bucket = List::from_word(read(page.bucket)?).len();
        let global_blocks = read(page.lists)? as usize * target + bucket;
        let slab_free = read(page.free)? as usize;
        let free = slab_free + global_blocks + cached;
        let cut_off = (pages * PAGE).checked_sub(blocks * bytes).ok_or(LookError::Torn)? * slabs;
        Ok(SizeSnapshot {
            bytes,
            target,
            in_use: (slabs * blocks).saturating_sub(free),
            cached,
            global_blocks,
            slab_free,
            pages: slabs * pages,
            cut_off,
            cpu: Layer { allocs, alloc_misses: takes, frees, free_misses: puts },
            global: Layer {
                allocs: Some(takes),
                alloc_misses: read(page.take_misses)?,
                frees: Some(puts),
                free_misses: read(page.put_misses)?,
            },
            slabs_made: made,
            slabs_freed: freed,
        })
    }

    /// Free blocks in caches.
    fn cached(&self) -> Result<(Caches, Counts), M::Error> {
        match self.word(self.page.state.addr())? {
            UNKNOWN | STARTING => Ok((Caches::None, [0; MAX_SIZES])),
            NONE => Ok((Caches::Threads, self.in_threads()?)),
            _ => Ok((Caches::Cpus, self.in_cpus()?)),
        }
    }

    fn in_cpus(&self) -> Result<Counts, M::Error> {
        let (page, mut counts) = (&self.page, [0; MAX_SIZES]);
        let words = page.stride_in_words();
        for cpu in (0..page.cpu_count).step_by(WORDS / words) {
            let caches = self.words(page.cpus.first.addr() + cpu * page.cpus.stride)?;
            for cache in caches.chunks_exact(words) {
                let (main, aux) = cache.split_at(page.aux / size_of::<u64>());
                for (count, (main, aux)) in counts.iter_mut().zip(main.iter().zip(aux)) {
                    *count += blocks(*main) + blocks(*aux);
                }
            }
        }
        Ok(counts)
    }

    fn in_threads(&self) -> Result<Counts, M::Error> {
        let (page, mut counts) = (&self.page, [0; MAX_SIZES]);
        let mut batch = self.word(page.batches.addr())? as usize;
        while batch != 0 {
            for thread in 0..page.threads_in_batch {
                let lists = batch + thread * page.thread_stride + page.thread_lists;
                // SAFETY: numbers.
                let lists: [[u64; 2]; MAX_SIZES] = unsafe { read_as(self.memory, lists) }?;
                for (count, [main, aux]) in counts.iter_mut().zip(lists) {
                    *count += blocks(main) + blocks(aux);
                }
            }
            batch = self.word(batch + page.older)? as usize;
        }
        Ok(counts)
    }

    /// Bytes of huge frames that may have memory; and blocks of whole pages there.
    fn spans(&self) -> Result<(usize, Blocks), M::Error> {
        let page = &self.page;
        let (mut resident, mut spans) = (0, Blocks::default());
        let descriptors = self.word(page.descriptors.addr())? as usize;
        let pages = self.word(page.pages.addr())? as usize;
        for segment in 0..pages.div_ceil(page.segment_pages) {
            let first = segment * page.segment_pages;
            let bits = self.in_column(page.resident, segment)? as usize;
            for huge in (first..pages.min(first + page.segment_pages)).step_by(HUGE_PAGES) {
                let at = (huge - first) / HUGE_PAGES;
                let word = self.word(bits + at / 64 * size_of::<u64>())?;
                if word >> (at % 64) & 1 == 0 {
                    continue;
                }
                resident += HUGE;
                let words = self.words(descriptors + huge * size_of::<Descriptor>())?;
                for words in words.as_chunks().0 {
                    if let Kind::Span(pages) = Descriptor::of_words(*words).kind() {
                        spans.count += 1;
                        spans.bytes += pages * PAGE;
                    }
                }
            }
        }
        Ok((resident, spans))
    }

    fn large(&self) -> Result<Blocks, M::Error> {
        let count = self.word(self.page.large_count.addr())? as usize;
        let entries = self.word(self.page.large_entries.addr())? as usize;
        let mut bytes = 0;
        for at in 0..count {
            // SAFETY: numbers.
            let [_, one]: [usize; 2] = unsafe { read_as(self.memory, entries + at * 16) }?;
            bytes += one;
        }
        Ok(Blocks { count, bytes })
    }
}

impl Page {
    fn stride_in_words(&self) -> usize {
        self.cpus.stride / size_of::<u64>()
    }
}

/// Blocks of a list of a cache.
fn blocks(word: u64) -> usize {
    if word == CLOSED { 0 } else { List::from_word(word).len() }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    /// A page that begins with other bytes, in a process that has nothing else.
    struct Other([u8; 32]);

    impl Memory for Other {
        type Error = fmt::Error;

        fn read(&self, _: usize, into: &mut [u8]) -> Result<(), fmt::Error> {
            let bytes = self.0.get(..into.len()).ok_or(fmt::Error)?;
            into.copy_from_slice(bytes);
            Ok(())
        }
    }

    fn header(version: u32, bytes: usize) -> Other {
        let mut header = [0; 32];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&version.to_ne_bytes());
        header[12..16].copy_from_slice(&(bytes as u32).to_ne_bytes());
        header[16..21].copy_from_slice(b"7.8.9");
        Other(header)
    }

    #[test]
    fn pages_of_other_versions_are_not_read() {
        let said = |memory: Other| look(&memory, 0).expect_err("no page").to_string();
        assert_eq!(look(&Other([0; 32]), 0).expect_err("zeros"), LookError::NotAHeap);
        let version = said(header(1, size_of::<Page>()));
        assert!(version.starts_with("has woodlot_malloc 7.8.9, whose page is of version 1; "));
        assert!(version.ends_with("reads version 2"), "{version}");
        let longer = header(VERSION, size_of::<Page>() + 8);
        assert!(matches!(look(&longer, 0), Err(LookError::Version(VERSION, _))));
        // This one is ours, and its memory ends behind the header.
        let short = header(VERSION, size_of::<Page>());
        assert_eq!(look(&short, 0).expect_err("short"), LookError::Read(fmt::Error));
    }
}
