//! One list behind one lock, as in Windows and Darwin (LLFree section 5.4, *ListLocked*).
//!
//! The state is looked at under the lock, so that of two racing frees one succeeds.
//!
//! # Progress
//! Blocking: a holder of the lock delays everybody.

use woodlot_frame::atomics::{AtomicU32, Ordering::Relaxed};

use super::{ALLOCATED, Blocks, Discipline, FREE, Lanes, List, NIL};
use crate::lock::SpinLock;

/// A list allocator behind a lock.
pub type ListLocked<G, const ORDER: u32 = 0> = List<G, Locked, ORDER>;

/// One lock, one list.
#[repr(align(64))]
pub struct Locked {
    lock: SpinLock,
    head: AtomicU32,
    len: AtomicU32,
}

impl Discipline for Locked {
    const NAME: &'static str = "ListLocked";
    const FINDS_ALL: bool = true;

    fn new(_: Lanes) -> Self {
        Self { lock: SpinLock::new(), head: NIL.into(), len: 0.into() }
    }

    fn fill(&self, blocks: &Blocks, count: u32) {
        blocks.chain(0..count);
        self.head.store(if count == 0 { NIL } else { 0 }, Relaxed);
        self.len.store(count, Relaxed);
    }

    #[inline(always)]
    fn pop(&self, blocks: &Blocks, _: usize) -> Option<u32> {
        let _held = self.lock.lock();
        let block = self.head.load(Relaxed);
        if block == NIL {
            return None;
        }
        let page = blocks.at(block);
        self.head.store(page.next(), Relaxed);
        page.set_state(ALLOCATED);
        self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        Some(block)
    }

    #[inline(always)]
    fn push(&self, blocks: &Blocks, _: usize, block: u32) -> bool {
        let page = blocks.at(block);
        let _held = self.lock.lock();
        if page.state() != ALLOCATED {
            return false;
        }
        page.set_state(FREE);
        page.set_next(self.head.load(Relaxed));
        self.head.store(block, Relaxed);
        self.len.store(self.len.load(Relaxed) + 1, Relaxed);
        true
    }

    fn len(&self) -> usize {
        self.len.load(Relaxed) as usize
    }
}
