//! The memory of a zone in a file: the zone page, the durable part, the volatile part.

use std::ops::Range;

use crate::recorder::{LINE_WORDS, fence, write_back};
use woodlot_frame::atomics::{AtomicU64, Ordering::Relaxed};
use woodlot_frame::{Geometry, Init, Persistence, ZoneConfig};
use woodlot_llfree::{Parts, RecordLine};
use woodlot_zone::{
    Check, File, Layout, Medium, Memory, NotDurable, Opened, PAGE, Zone, ZoneError,
};

use crate::defects::Defect;
use crate::lines::FORGOTTEN;

const PAGE_WORDS: usize = PAGE / 8;

#[repr(align(4096))]
struct Page([AtomicU64; PAGE_WORDS]);

impl Default for Page {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; PAGE_WORDS])
    }
}

pub struct Mapping {
    pub config: ZoneConfig,
    /// Words of what is written at once.
    pub grain: usize,
    pages: Box<[Page]>,
    /// The word of the first huge frame's state.
    pub first_state: usize,
    /// Where the durable part and its records begin and end, in bytes.
    durable: Range<usize>,
    records: Range<usize>,
}

impl Mapping {
    /// The memory for a zone whose allocator writes back so.
    pub fn new<G: Geometry, P: Persistence>(config: &ZoneConfig, grain: usize) -> Self {
        let layout = match P::INTENTS {
            true => Layout::with_intents::<G>(config),
            false => Layout::of::<G>(config),
        };
        let layout = layout.expect("plans have legal zones");
        let lines = Parts::records::<P>(config).expect("as above");
        let records = layout.durable.end - lines * size_of::<RecordLine>()..layout.durable.end;
        let pages = (0..layout.len / PAGE).map(|_| Page::default()).collect();
        let durable = layout.durable.start..layout.durable.end.next_multiple_of(PAGE);
        let [rows, ..] = Parts::lengths::<G>(config).expect("as above");
        let first_state = layout.durable.start / 8 + rows.next_multiple_of(LINE_WORDS);
        Self { config: *config, grain, pages, first_state, durable, records }
    }

    /// A file, each piece of which is synchronised by itself, in their order.
    pub fn medium(
        &self,
        defect: Defect,
    ) -> File<impl Fn(Range<usize>) -> Result<(), NotDurable> + Clone + Send + Sync + use<>> {
        let (start, piece) = (self.addresses().start, self.grain * 8);
        let last = (self.records.start - 1) / piece * piece;
        let forgotten = match defect {
            Defect::FileRecordsNotSynced => self.records.clone(),
            Defect::FileStatesNotSynced => last..last + piece,
            Defect::FileRowsNotSynced => self.durable.start..self.durable.start + piece,
            _ => 0..0,
        };
        File(move |bytes: Range<usize>| {
            let pieces = bytes.step_by(piece).filter(|at| !forgotten.contains(at));
            pieces.for_each(|at| write_back(start + at, 0));
            fence();
            Ok(())
        })
    }

    fn memory(&self) -> Memory<'_> {
        let bytes = size_of_val(&*self.pages);
        let start = self.pages.as_ptr().cast_mut().cast();
        // SAFETY: the pages are words in cells, and live as long as what is returned.
        unsafe { Memory::new(start, bytes) }.expect("pages are aligned")
    }

    fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.pages.iter().flat_map(|page| &page.0)
    }

    /// What is in the zone page and the durable part.
    pub fn words(&self) -> Vec<u64> {
        self.all().take(self.durable.end / 8).map(|word| word.load(Relaxed)).collect()
    }

    /// Sets the same; the volatile part is forgotten.
    pub fn set(&self, words: &[u64]) {
        let (durable, volatile) = (words.iter().copied(), std::iter::repeat(FORGOTTEN));
        self.all()
            .zip(durable.chain(volatile))
            .for_each(|(word, value)| word.store(value, Relaxed));
    }

    pub fn addresses(&self) -> Range<usize> {
        let start = self.pages.as_ptr().addr();
        start..start + self.durable.end
    }

    /// The words of the records.
    pub fn record_words(&self) -> Range<usize> {
        self.records.start / 8..self.records.end / 8
    }

    /// The words of one record: see LAYOUT.md.
    pub fn record_len(&self) -> usize {
        2 * (self.config.record_entries() + 1)
    }

    pub fn format<G: Geometry, M: Medium>(&self, medium: M) -> Zone<'_, G, M> {
        // SAFETY: the memory is the history's, which uses one zone at a time.
        let zone = unsafe { Zone::format(self.memory(), &self.config, Init::Free, medium) };
        zone.expect("the memory suffices")
    }

    pub fn open<G: Geometry, M: Medium>(
        &self,
        medium: M,
    ) -> Result<(Zone<'_, G, M>, Opened), ZoneError> {
        // SAFETY: as above.
        unsafe { Zone::open(self.memory(), Some(&self.config), Check::Quick, medium) }
    }
}
