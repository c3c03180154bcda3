//! The memory of a zone: lines of words, the last of which is the caller's zone page.

use std::ops::Range;

use crate::recorder::LINE_WORDS;
use woodlot_frame::atomics::{AtomicU64, Ordering::Relaxed};
use woodlot_frame::{Construct, Geometry, Init, Intents, Persistence, RawMetadata, ZoneConfig};
use woodlot_llfree::{LLFree, Tuning};

use crate::defects::{Defect, Simulated};
use crate::lines::{LINE, Lines};

/// A zone on simulated memory.
pub type Zone<'a, G, P> = LLFree<'a, G, P>;

/// The kinds of zones: with intents and without.
pub trait Kind: Persistence {
    fn of(simulated: Simulated) -> Self;
}

impl Kind for Simulated {
    fn of(simulated: Simulated) -> Self {
        simulated
    }
}

impl Kind for Intents<Simulated> {
    fn of(simulated: Simulated) -> Self {
        Intents(simulated)
    }
}

pub struct Memory {
    pub config: ZoneConfig,
    durable: Lines,
    volatile: Lines,
    /// The lines of the states, that in which the records begin, and the line of the zone page.
    states: Range<usize>,
    records: usize,
    page: usize,
    /// How many words of such a line hold states.
    used: usize,
    /// How many bytes of counters stand at the end of the volatile memory.
    children: usize,
}

impl Memory {
    pub fn new<G: Geometry, P: Kind>(config: &ZoneConfig) -> Self {
        let size = <Zone<'_, G, P>>::metadata_size(config).expect("plans have legal zones");
        let lengths = woodlot_llfree::Parts::lengths::<G>(config).expect("as above");
        let [rows, states, .., children] = lengths;
        let first_state = (rows * 8).div_ceil(64);
        let states = first_state..first_state + states;
        let page = size.durable / LINE;
        // From a page on, if there are any.
        let records = states.end.next_multiple_of(4096 / 64).min(page);
        Self {
            config: *config,
            durable: Lines::new(page + 1),
            volatile: Lines::new(size.volatile / LINE),
            states,
            records,
            page,
            used: G::TREE_HUGE.div_ceil(16),
            children: children * 4,
        }
    }

    /// What is in the durable memory, and in the zone page.
    pub fn words(&self) -> Vec<u64> {
        self.durable.words()
    }

    pub fn set(&self, words: &[u64]) {
        self.durable.set(words);
    }

    pub fn addresses(&self) -> Range<usize> {
        self.durable.addresses()
    }

    /// The words that hold states: one or two of each line.
    pub fn state_words(&self) -> impl Iterator<Item = usize> + use<> {
        let used = self.used;
        self.states.clone().flat_map(move |line| (0..used).map(move |n| line * LINE_WORDS + n))
    }

    /// The words of one record: see LAYOUT.md.
    pub fn record_len(&self) -> usize {
        2 * (self.config.record_entries() + 1)
    }

    /// The words of the records.
    pub fn record_words(&self) -> Range<usize> {
        self.records * LINE_WORDS..self.page * LINE_WORDS
    }

    /// The words that hold flags, beside those.
    pub fn flags_words(&self) -> impl Iterator<Item = usize> + use<> {
        self.state_words().map(|word| word + 2)
    }

    /// The word that says that the zone is whole.
    pub fn page(&self) -> &AtomicU64 {
        self.durable.word(self.page_word())
    }

    pub fn page_word(&self) -> usize {
        self.page * LINE_WORDS
    }

    /// The counters of credits, two in each word.
    pub fn counters(&self) -> impl Iterator<Item = &AtomicU64> {
        let first = self.volatile.count() - self.children.div_ceil(LINE);
        self.volatile.all().skip(first * LINE_WORDS).take(self.children / 8)
    }

    /// Makes the zone on the durable memory; the volatile memory is forgotten before.
    pub fn zone<G: Geometry, P: Kind>(&self, init: Init, defect: Defect) -> Zone<'_, G, P> {
        self.volatile.forget();
        let (durable, record_len) = (self.addresses().start, self.record_len());
        let [states, records] = [self.states.start, self.records].map(|line| durable + line * LINE);
        let simulated = Simulated { defect, durable, states, records, record_len };
        let metadata = RawMetadata {
            durable: self.durable.raw(self.page),
            volatile: self.volatile.raw(self.volatile.count()),
        };
        let tuning = Tuning::DEFAULT;
        // SAFETY: the lines are words in cells, aligned, of the sizes asked for, and live as long as the zone;
        // nobody uses another zone on them at the same time.
        let zone = unsafe {
            Zone::with_persistence(&self.config, tuning, P::of(simulated), metadata, init)
        };
        zone.expect("the memory suffices")
    }

    /// The zone page says that the zone is whole.
    pub fn finish(&self, defect: Defect) {
        let durable = self.addresses().start;
        let (states, records) = (usize::MAX, usize::MAX);
        let simulated = Simulated { defect, durable, states, records, record_len: 1 };
        self.page().store(1, Relaxed);
        simulated.write_back(self.page());
        simulated.fence();
    }
}
