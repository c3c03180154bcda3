//! One lock-free list: Treiber's stack (LLFree section 5.4, *ListCAS*).
//!
//! ```text
//!   head   │ tag 32 │ first block 32 │
//! ```
//!
//! The tag counts the pops, so that a pop that read the successor of a block does not succeed after
//! the block was taken and put back (ABA); it would take 2³² pops in between to deceive it.
//!
//! A double free is told by the state, but of two that *race* both may succeed, and the list is
//! then corrupt: to claim the block first would be a third atomic instruction in a pair that has
//! two.
//!
//! The count of free blocks is kept by slot, plainly, to cost nothing: it drifts where threads
//! share a slot, and [`stats`](woodlot_frame::FrameAllocator::stats) puts it right.
//!
//! # Progress
//! Lock-free: a compare-exchange fails only because another call succeeded.

use woodlot_frame::atomics::{AtomicU64, Ordering::*};

use super::{ALLOCATED, Blocks, Discipline, FREE, Lanes, List, NIL};

/// A lock-free list allocator.
pub type ListCas<G, const ORDER: u32 = 0> = List<G, Cas, ORDER>;

/// One head; by slot, frees minus allocations.
pub struct Cas {
    head: Head,
    lanes: Lanes,
}

#[repr(align(64))]
struct Head(AtomicU64);

const TAG: u64 = 1 << 32;

impl Cas {
    #[inline(always)]
    fn count(&self, slot: usize, more: u64) {
        let lane = self.lanes.at(slot);
        lane.store(lane.load(Relaxed).wrapping_add(more), Relaxed);
    }
}

impl Discipline for Cas {
    const NAME: &'static str = "ListCas";
    const FINDS_ALL: bool = true;

    fn new(lanes: Lanes) -> Self {
        Self { head: Head(AtomicU64::new(NIL.into())), lanes }
    }

    fn fill(&self, blocks: &Blocks, count: u32) {
        blocks.chain(0..count);
        self.head.0.store(if count == 0 { NIL.into() } else { 0 }, Relaxed);
        self.lanes.at(0).store(count.into(), Relaxed);
    }

    #[inline(always)]
    fn pop(&self, blocks: &Blocks, slot: usize) -> Option<u32> {
        let mut head = self.head.0.load(Acquire);
        loop {
            let block = head as u32;
            if block == NIL {
                return None;
            }
            let page = blocks.at(block);
            // Another call may have the block by now; its link is then not used.
            let next = (head & !u64::from(u32::MAX)).wrapping_add(TAG) | u64::from(page.next());
            match self.head.0.compare_exchange_weak(head, next, Acquire, Acquire) {
                Ok(_) => {
                    page.set_state(ALLOCATED);
                    self.count(slot, 1u64.wrapping_neg());
                    return Some(block);
                }
                Err(now) => head = now,
            }
        }
    }

    #[inline(always)]
    fn push(&self, blocks: &Blocks, slot: usize, block: u32) -> bool {
        let page = blocks.at(block);
        if page.state() != ALLOCATED {
            return false;
        }
        page.set_state(FREE);
        let mut head = self.head.0.load(Relaxed);
        loop {
            page.set_next(head as u32);
            let next = head & !u64::from(u32::MAX) | u64::from(block);
            match self.head.0.compare_exchange_weak(head, next, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.count(slot, 1);
        true
    }

    fn recount(&self, free: usize) {
        self.lanes.iter().for_each(|lane| lane.store(0, Relaxed));
        self.lanes.at(0).store(free as u64, Relaxed);
    }

    fn len(&self) -> usize {
        let sum = self.lanes.iter().fold(0u64, |sum, lane| sum.wrapping_add(lane.load(Relaxed)));
        // Negative where calls are in flight or counts were lost.
        (sum as i64).max(0) as usize
    }

    fn is_empty(&self) -> bool {
        self.head.0.load(Relaxed) as u32 == NIL
    }
}

#[cfg(test)]
mod tests {
    use woodlot_frame::{Base4K, FrameAllocator, Init, Order, Owned, Request, Slot, ZoneConfig};

    use super::*;

    /// What two threads on one slot can lose: a free or an allocation that is not counted.
    #[test]
    fn lost_counts_stay_in_the_zone_until_stats_makes_them_good() {
        let zone = ZoneConfig::new(50, 2);
        let list = Owned::<ListCas<Base4K>>::new(&zone, Init::Free).unwrap();
        let kept = list.alloc(Request::movable(Order(0), Slot(1))).unwrap();
        for (more, about) in [(2, 50), (-60, 0)] {
            list.discipline.count(1, more as u64);
            assert_eq!(list.free_frames(), about);
            assert_eq!(list.stats().free_frames, 49);
            assert_eq!(list.free_frames(), 49, "a count was not made good");
        }
        list.free(kept, Order(0), Slot(1)).unwrap();
        assert_eq!(list.free_frames(), 50);
    }
}
