//! One list per slot and nothing shared: the ideal that no real allocator reaches (LLFree section
//! 5.4, *ListLocal*).
//!
//! ```text
//!   slot   │ length 32 │ first block 32 │
//! ```
//!
//! Blocks are dealt to the slots in equal runs at the start; a free goes to the slot it names, and
//! nothing ever moves from slot to slot: a slot may be out of memory while others have some, and
//! [`drain`](woodlot_frame::FrameAllocator::drain) changes nothing about that.
//!
//! **No two threads may use one slot at once.** There is no synchronisation whatever, not even an
//! atomic instruction: every access is a relaxed load or store. Threads that share a slot all the
//! same may be given the same block (the promise of ownership does not hold for them), but no
//! memory outside the allocator's is touched. The same holds for two racing frees of one block.
//!
//! # Progress
//! Wait-free.

use woodlot_frame::atomics::Ordering::Relaxed;

use super::{ALLOCATED, Blocks, Discipline, FREE, Lanes, List, NIL};

/// A list allocator without any sharing.
pub type ListLocal<G, const ORDER: u32 = 0> = List<G, Local, ORDER>;

/// One list per slot.
pub struct Local {
    lanes: Lanes,
}

const ONE: u64 = 1 << 32;
const LENGTH: u64 = !(ONE - 1);

impl Discipline for Local {
    const NAME: &'static str = "ListLocal";
    const FINDS_ALL: bool = false;

    fn new(lanes: Lanes) -> Self {
        lanes.iter().for_each(|lane| lane.store(NIL.into(), Relaxed));
        Self { lanes }
    }

    fn fill(&self, blocks: &Blocks, count: u32) {
        let slots = self.lanes.iter().count() as u64;
        let bound = |slot: u64| (u64::from(count) * slot / slots) as u32;
        for (slot, lane) in self.lanes.iter().enumerate() {
            let run = bound(slot as u64)..bound(slot as u64 + 1);
            if !run.is_empty() {
                let length = u64::from(run.end - run.start) * ONE;
                lane.store(length | u64::from(run.start), Relaxed);
                blocks.chain(run);
            }
        }
    }

    #[inline(always)]
    fn pop(&self, blocks: &Blocks, slot: usize) -> Option<u32> {
        let lane = self.lanes.at(slot);
        let word = lane.load(Relaxed);
        let block = word as u32;
        if block == NIL {
            return None;
        }
        let page = blocks.at(block);
        lane.store(word.wrapping_sub(ONE) & LENGTH | u64::from(page.next()), Relaxed);
        page.set_state(ALLOCATED);
        Some(block)
    }

    #[inline(always)]
    fn push(&self, blocks: &Blocks, slot: usize, block: u32) -> bool {
        let page = blocks.at(block);
        if page.state() != ALLOCATED {
            return false;
        }
        let lane = self.lanes.at(slot);
        let word = lane.load(Relaxed);
        page.set_next(word as u32);
        page.set_state(FREE);
        lane.store(word.wrapping_add(ONE) & LENGTH | u64::from(block), Relaxed);
        true
    }

    fn len(&self) -> usize {
        self.lanes.iter().map(|lane| (lane.load(Relaxed) >> 32) as usize).sum()
    }
}
