//! Memory of cache lines, whose words are atomics.

use std::ops::Range;

use woodlot_frame::atomics::{AtomicU64, Ordering::Relaxed};

use crate::recorder::LINE_WORDS;

/// What is in the volatile memory after a crash.
pub const FORGOTTEN: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Bytes of a line.
pub const LINE: usize = LINE_WORDS * size_of::<u64>();

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

/// Lines side by side.
pub struct Lines(Box<[Line]>);

impl Lines {
    /// So many, all zero.
    pub fn new(count: usize) -> Self {
        Lines((0..count).map(|_| Line::default()).collect())
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter().flat_map(|line| &line.0)
    }

    /// The word of this number.
    pub fn word(&self, word: usize) -> &AtomicU64 {
        &self.0[word / LINE_WORDS].0[word % LINE_WORDS]
    }

    pub fn words(&self) -> Vec<u64> {
        self.all().map(|word| word.load(Relaxed)).collect()
    }

    pub fn set(&self, words: &[u64]) {
        self.all().zip(words).for_each(|(word, &value)| word.store(value, Relaxed));
    }

    /// Makes them what volatile memory is after a crash.
    pub fn forget(&self) {
        self.all().for_each(|word| word.store(FORGOTTEN, Relaxed));
    }

    pub fn addresses(&self) -> Range<usize> {
        let start = self.0.as_ptr().addr();
        start..start + size_of_val(&*self.0)
    }

    /// The first so many lines as raw memory: where, and how many bytes.
    pub fn raw(&self, count: usize) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut().cast(), count * LINE)
    }
}
