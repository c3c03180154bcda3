//! The search index: where compaction pays.
//!
//! ```text
//!   chunks   │ holes, score, next │ holes, score, next │ (a hole in the memory) │ holes, …       2^n huge frames each
//!   parts    ├──────────────┤  ├───────────┤                                   ├─────────        what is there
//! ```
//!
//! Listing 1 of the paper, but for how it is kept: there each allocation and free writes to it, here nothing but
//! [`refresh`](Index::refresh) does, which reads the counters that the engine has of its huge frames anyway. A chunk is as old
//! as its last refresh.
//!
//! 1. Chunks are aligned to their size, and the first one begins at or before the first part.
//! 2. `next` is the next chunk that has a part, or the number of chunks.
//! 3. `part` is the first part that reaches into the chunk or lies behind it.

use core::fmt;
use core::ops::Range;

use woodlot_frame::{FrameAllocator, Geometry, HugeId};

/// A chunk of memory. *Size*: 24 bytes, for each 2^n huge frames from the first to the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// Free frames of huge frames that are in use in part.
    holes: u32,
    /// How much it would pay: see [`Index::refresh`].
    score: u32,
    /// Its holes when it was last compacted in vain; 0 if it was not.
    vain: u32,
    /// The next chunk with memory.
    next: u32,
    /// The first of its parts.
    part: u32,
    /// It was chosen in this search.
    chosen: bool,
    /// What was in vain was so for want of huge frames that cost little enough.
    dear: bool,
}

/// For whom huge frames are to be won.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payer {
    /// For nobody: what costs too much is not.
    Nobody,
    /// Whoever asks pays any price.
    Asker,
}

/// What is wrong with an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexError {
    /// So many chunks are needed, or more than can be counted.
    Chunks(usize),
    /// There are no parts, or some part is empty, overlaps the one before it, or comes before it.
    Parts,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunks(count) => write!(f, "there must be room for {count} chunks"),
            Self::Parts => f.write_str("the parts of the memory are not in order"),
        }
    }
}

impl core::error::Error for IndexError {}

/// The search index of a zone, or of a domain.
#[derive(Debug)]
pub struct Index<'m> {
    chunks: &'m mut [Chunk],
    parts: &'m [Range<HugeId>],
    /// log2 of the huge frames of a chunk.
    shift: u32,
    /// The number of the first chunk, counted from frame zero.
    first: usize,
}

impl<'m> Index<'m> {
    /// How many chunks of 2^`shift` huge frames the parts lie in; 0 if there are none.
    pub fn chunks_for(parts: &[Range<HugeId>], shift: u32) -> usize {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return 0 };
        let of = |huge: usize| huge.checked_shr(shift).unwrap_or(0);
        (of(last.end.0.saturating_sub(1)) + 1).saturating_sub(of(first.start.0))
    }

    /// The index of memory that is there in parts: the huge frames of a zone, or those of a domain, in order. What
    /// lies between the parts is never looked at.
    ///
    /// # Errors
    /// What is wrong with the parts, or that there are too few chunks.
    pub fn new(
        chunks: &'m mut [Chunk],
        parts: &'m [Range<HugeId>],
        shift: u32,
    ) -> Result<Index<'m>, IndexError> {
        let in_order = |pair: &[Range<HugeId>]| match pair {
            [one, other] => one.end <= other.start,
            _ => true,
        };
        if parts.is_empty() || parts.iter().any(Range::is_empty) || !parts.windows(2).all(in_order)
        {
            return Err(IndexError::Parts);
        }
        let count = Self::chunks_for(parts, shift);
        if count > chunks.len() || count > u32::MAX as usize || parts.len() > u32::MAX as usize {
            return Err(IndexError::Chunks(count));
        }
        let first = parts.first().map_or(0, |part| part.start.0.checked_shr(shift).unwrap_or(0));
        let chunks = chunks.get_mut(..count).unwrap_or_default();
        let index = Index { chunks, parts, shift, first };
        let mut part = 0;
        for number in 0..count {
            let span = index.span(number);
            while parts.get(part).is_some_and(|part| part.end <= span.start) {
                part += 1;
            }
            let chunk = Chunk { part: part as u32, ..Chunk::default() };
            index.chunks.get_mut(number).into_iter().for_each(|place| *place = chunk);
        }
        let mut next = count as u32;
        for number in (0..count).rev() {
            let has_memory = index.regions(number).next().is_some();
            index.chunks.get_mut(number).into_iter().for_each(|chunk| chunk.next = next);
            next = if has_memory { number as u32 } else { next };
        }
        Ok(index)
    }

    /// The huge frames of a chunk, whether they are there or not.
    fn span(&self, number: usize) -> Range<HugeId> {
        let at = |chunk: usize| {
            let huge = chunk.checked_shl(self.shift).unwrap_or(0);
            HugeId(if huge >> self.shift.min(usize::BITS - 1) == chunk { huge } else { usize::MAX })
        };
        let chunk = self.first.saturating_add(number);
        let end = at(chunk.saturating_add(1));
        at(chunk)..if end.0 == 0 { HugeId(usize::MAX) } else { end }
    }

    /// The parts of a chunk that are there.
    pub fn regions(&self, number: usize) -> impl Iterator<Item = Range<HugeId>> + Clone + '_ {
        let span = self.span(number);
        let first = self.chunks.get(number).map_or(usize::MAX, |chunk| chunk.part as usize);
        let parts = self.parts.get(first..).unwrap_or_default().iter();
        let end = span.end;
        let own = parts.take_while(move |part| part.start < end);
        own.map(move |part| part.start.max(span.start)..part.end.min(span.end))
    }

    /// The parts of all chunks that were chosen.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = Range<HugeId>> + Clone + '_ {
        let numbers = self.numbers();
        let chosen =
            numbers.filter(|&number| self.chunks.get(number).is_some_and(|one| one.chosen));
        chosen.flat_map(|number| self.regions(number))
    }

    /// All that is there, in one piece as far as it is.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Range<HugeId>> + Clone + '_ {
        self.parts.iter().cloned()
    }

    /// The chunks that have memory.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        // The first part lies in the first chunk.
        let next = |&number: &usize| self.chunks.get(number).map(|chunk| chunk.next as usize);
        let numbers = core::iter::successors(Some(0), next);
        numbers.take_while(|&number| number < self.chunks.len())
    }

    /// Reads the counters of a chunk's huge frames: its holes, and its score, which is the sum of free² / all over
    /// the huge frames that are in use in part. So holes count for more where few frames must be moved to join them.
    pub fn refresh<A: FrameAllocator>(&mut self, number: usize, allocator: &A) {
        let (mut holes, mut squares) = (0u64, 0u64);
        for huge in self.regions(number).flat_map(|region| region.start.0..region.end.0) {
            let free = allocator.free_in_huge(HugeId(huge));
            if free < A::Geometry::HUGE_FRAMES {
                holes += free as u64;
                squares += (free * free) as u64;
            }
        }
        let bounded = |count: u64| count.min(u32::MAX.into()) as u32;
        if let Some(chunk) = self.chunks.get_mut(number) {
            (chunk.holes, chunk.score) =
                (bounded(holes), bounded(squares >> A::Geometry::HUGE_ORDER));
        }
    }

    /// The free frames of a chunk that lie in huge frames in use in part, at its last refresh.
    pub fn holes(&self, number: usize) -> usize {
        self.chunks.get(number).map_or(0, |chunk| chunk.holes as usize)
    }

    /// The score of a chunk at its last refresh; 0 if it was compacted in vain and has changed little since.
    pub fn score(&self, number: usize) -> usize {
        self.score_for(number, Payer::Nobody)
    }

    fn score_for(&self, number: usize, payer: Payer) -> usize {
        let worth = |chunk: &Chunk| {
            let is_new = chunk.vain == 0 || chunk.holes.abs_diff(chunk.vain) > chunk.vain >> 4;
            is_new || chunk.dear && payer == Payer::Asker
        };
        self.chunks.get(number).filter(|chunk| worth(chunk)).map_or(0, |chunk| chunk.score as usize)
    }

    /// Refreshes all chunks and chooses up to `most` of them, those with the best scores; how many. O(huge frames).
    pub(crate) fn choose<A: FrameAllocator>(
        &mut self,
        most: usize,
        payer: Payer,
        allocator: &A,
    ) -> usize {
        let score = |index: &Self, number| index.score_for(number, payer);
        self.chunks.iter_mut().for_each(|chunk| chunk.chosen = false);
        let mut number = 0;
        while let Some(next) = self.chunks.get(number).map(|chunk| chunk.next as usize) {
            self.refresh(number, allocator);
            number = next;
        }
        for found in 0..most {
            let open = self
                .numbers()
                .filter(|&number| !self.chunks.get(number).is_some_and(|one| one.chosen));
            let best = open.max_by_key(|&number| score(self, number));
            let best = best.filter(|&best| score(self, best) > 0);
            let Some(chunk) = best.and_then(|best| self.chunks.get_mut(best)) else { return found };
            chunk.chosen = true;
        }
        most
    }

    /// The chosen chunks were compacted, in vain or not; were some huge frames passed over for their price?
    pub(crate) fn tried(&mut self, in_vain: bool, dear: bool) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.chosen) {
            chunk.vain = if in_vain { chunk.holes } else { 0 };
            chunk.dear = dear;
        }
    }
}
