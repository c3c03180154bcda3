//! Where the parts of a zone lie in its memory, and that memory.
//!
//! ```text
//!   0           4096                       a multiple of 4096         a multiple of 4096
//!   │ zone page │ durable part             │ volatile part            │ anything: frames, say
//! ```

use core::ops::Range;

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{
    Construct, Geometry, InitError, Intents, Persistence, RawMetadata, Volatile, ZoneConfig,
};
use woodlot_llfree::LLFree;

use crate::ZoneError;
use crate::medium::{Medium, NotDurable};

/// The bytes of the zone page, and what the parts are aligned to.
pub const PAGE: usize = 4096;

/// Words of the zone page.
pub(crate) const PAGE_WORDS: usize = PAGE / size_of::<u64>();

/// Where the parts of a zone lie, in bytes from the zone page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The durable part of the allocator's metadata.
    pub durable: Range<usize>,
    /// The volatile part.
    pub volatile: Range<usize>,
    /// The bytes of all, a multiple of [`PAGE`].
    pub len: usize,
}

impl Layout {
    /// The layout of a zone without [intents](crate::Intents).
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn of<G: Geometry>(config: &ZoneConfig) -> Result<Layout, InitError> {
        Self::on::<G, Volatile>(config)
    }

    /// The layout of a zone with [intents](crate::Intents).
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn with_intents<G: Geometry>(config: &ZoneConfig) -> Result<Layout, InitError> {
        Self::on::<G, Intents<Volatile>>(config)
    }

    /// The layout of a zone whose allocator makes its writes persistent so.
    pub(crate) fn on<G: Geometry, P: Persistence>(
        config: &ZoneConfig,
    ) -> Result<Layout, InitError> {
        let size = LLFree::<G, P>::metadata_size(config)?;
        let after = |at: usize, bytes| {
            let end = at.checked_add(bytes)?;
            Some((at..end, end.checked_next_multiple_of(PAGE)?))
        };
        let parts = || {
            let (durable, next) = after(PAGE, size.durable)?;
            let (volatile, len) = after(next, size.volatile)?;
            Some(Layout { durable, volatile, len })
        };
        parts().ok_or(InitError::ZoneTooLarge)
    }

    /// The pages that a part lies in.
    pub(crate) fn pages(part: &Range<usize>) -> Range<usize> {
        part.start..part.end.next_multiple_of(PAGE)
    }
}

/// The memory that a zone lies in, from its zone page on.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    words: &'a [AtomicU64],
    page: &'a [AtomicU64; PAGE_WORDS],
}

impl<'a> Memory<'a> {
    /// Memory of `len` bytes from `start` on. It may be longer than the zone.
    ///
    /// # Errors
    /// [`ZoneError::Misaligned`] where `start` is not a multiple of [`PAGE`], and [`ZoneError::Short`] where there is
    /// no room for a zone page.
    ///
    /// # Safety
    /// For `'a`, the memory must be initialised, of any value, and valid for reads and writes; reads are enough for
    /// [`Info::read`](crate::Info::read) and [`verify`](crate::verify). Nobody else may access it but by other `Memory`,
    /// in any process.
    pub unsafe fn new(start: *mut u8, len: usize) -> Result<Self, ZoneError> {
        if start.is_null() || start.addr() & (PAGE - 1) != 0 {
            return Err(ZoneError::Misaligned { address: start.addr() });
        }
        // SAFETY: as the caller promises; words are aligned where pages are, and atomics may have any value.
        let words =
            unsafe { core::slice::from_raw_parts(start.cast(), len / size_of::<AtomicU64>()) };
        match words.first_chunk() {
            Some(page) => Ok(Memory { words, page }),
            None => Err(ZoneError::Short { needed: PAGE, given: len }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        size_of_val(self.words)
    }

    pub(crate) fn page(&self) -> &'a [AtomicU64; PAGE_WORDS] {
        self.page
    }

    /// The words of a part.
    pub(crate) fn part(&self, bytes: &Range<usize>) -> &'a [AtomicU64] {
        let word = size_of::<AtomicU64>();
        self.words.get(bytes.start / word..bytes.end / word).unwrap_or_default()
    }

    /// Makes bytes durable.
    pub(crate) fn persist<M: Medium>(
        &self,
        medium: &M,
        bytes: Range<usize>,
    ) -> Result<(), NotDurable> {
        let words = self.part(&bytes);
        medium.persist(bytes, words)
    }

    /// The parts as an allocator takes them.
    pub(crate) fn metadata(&self, layout: &Layout) -> RawMetadata {
        let raw = |bytes: &Range<usize>| {
            let words = self.part(bytes);
            (words.as_ptr().cast_mut().cast(), size_of_val(words))
        };
        RawMetadata { durable: raw(&layout.durable), volatile: raw(&layout.volatile) }
    }

    /// The memory behind the first `bytes` of it, a multiple of [`PAGE`]: behind a zone, whose length its
    /// [`Layout`] says.
    ///
    /// # Errors
    /// [`ZoneError::Misaligned`] where `bytes` is not a multiple of [`PAGE`], and [`ZoneError::Short`] where no page is
    /// behind them.
    pub fn behind(&self, bytes: usize) -> Result<Self, ZoneError> {
        if bytes & (PAGE - 1) != 0 {
            return Err(ZoneError::Misaligned {
                address: self.words.as_ptr().addr().wrapping_add(bytes),
            });
        }
        let words = self.words.get(bytes / size_of::<u64>()..).unwrap_or_default();
        match words.first_chunk() {
            Some(page) => Ok(Memory { words, page }),
            None => Err(ZoneError::Short { needed: bytes.saturating_add(PAGE), given: self.len() }),
        }
    }

    /// # Errors
    /// [`ZoneError::Short`]
    pub(crate) fn check(&self, needed: usize) -> Result<(), ZoneError> {
        let given = self.len();
        if given < needed { Err(ZoneError::Short { needed, given }) } else { Ok(()) }
    }
}
