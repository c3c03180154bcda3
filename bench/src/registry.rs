//! Allocators from the Rust package registry, at their best: each behind the cheapest lock that it
//! can have, in the mode that its documentation recommends for frames.
//!
//! None of them is concurrent, so all take one lock for every call, and slots mean nothing.
//!
//! | | structure | orders here |
//! |---|---|---|
//! | `buddy_system_allocator` | a `BTreeSet` of free blocks for each order, on the heap | all |
//! | `bitmap-allocator` | a tree of 16-bit words | 0: its search for runs walks the zone |
//! | `free-list` | a sorted array of free ranges, of fixed capacity | all, while it has room |

use std::sync::{Mutex, MutexGuard, PoisonError};

use bitmap_allocator::{BitAlloc, BitAlloc16M};
use buddy_system_allocator::LockedFrameAllocator;
use free_list::{FreeList, PAGE_SIZE, PageLayout, PageRange};
use woodlot_frame::{FrameId, Order, Slot};

use crate::Failure;
use crate::contender::Contender;

/// `buddy_system_allocator` 0.13 with orders 0 to 10 and its own spin lock.
pub struct BuddySystem(LockedFrameAllocator<11>);

impl Contender for BuddySystem {
    fn new(frames: usize, _: usize) -> Result<Self, Failure> {
        let buddy = LockedFrameAllocator::new();
        buddy.lock().add_frame(0, frames);
        Ok(Self(buddy))
    }

    #[inline]
    fn alloc(&self, order: Order, _: Slot) -> Option<FrameId> {
        self.0.lock().alloc(order.frames()).map(FrameId)
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, _: Slot) -> bool {
        self.0.lock().dealloc(frame.0, order.frames());
        true
    }
}

/// The lock of those that bring none. It cannot be poisoned in a way that matters: a panic while
/// it is held ends the measurement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `bitmap-allocator` 0.4, order 0, at most 64 GiB.
pub struct Bitmap(Mutex<Box<BitAlloc16M>>);

impl Contender for Bitmap {
    fn new(frames: usize, _: usize) -> Result<Self, Failure> {
        if frames > BitAlloc16M::CAP {
            return Err(Failure::Failed("bitmap-allocator: at most 64 GiB".into()));
        }
        // The value is 2 MiB and made on the stack before it is boxed.
        let made = std::thread::Builder::new()
            .stack_size(64 << 20)
            .spawn(|| Box::new(BitAlloc16M::DEFAULT))
            .map(|thread| thread.join());
        match made {
            Ok(Ok(mut bits)) => {
                bits.insert(0..frames);
                Ok(Self(Mutex::new(bits)))
            }
            _ => Err(Failure::Failed("bitmap-allocator: no memory for its tree".into())),
        }
    }

    #[inline]
    fn alloc(&self, order: Order, _: Slot) -> Option<FrameId> {
        let mut bits = lock(&self.0);
        (order == Order::BASE).then(|| bits.alloc()).flatten().map(FrameId)
    }

    #[inline]
    fn free(&self, frame: FrameId, _: Order, _: Slot) -> bool {
        lock(&self.0).dealloc(frame.0)
    }
}

/// How many free ranges the list has room for. Searching it takes time in proportion to those it
/// holds.
const RANGES: usize = 4096;

/// `free-list` 0.3 with room for 4096 ranges. A free that needs one more is refused, which ends a
/// measurement: memory that is fragmented is not what it is made for.
pub struct Ranges(Mutex<Box<FreeList<RANGES>>>);

impl Ranges {
    #[inline]
    fn add(&self, frame: usize, frames: usize) -> bool {
        let Ok(range) = PageRange::from_start_len((frame + 1) * PAGE_SIZE, frames * PAGE_SIZE)
        else {
            return false;
        };
        // SAFETY: the list hands out numbers; nobody takes them for addresses.
        unsafe { lock(&self.0).deallocate(range) }.is_ok()
    }
}

impl Contender for Ranges {
    fn new(frames: usize, _: usize) -> Result<Self, Failure> {
        let list = Self(Mutex::new(Box::new(FreeList::new())));
        match list.add(0, frames) {
            true => Ok(list),
            false => Err(Failure::Failed("free-list: cannot manage this zone".into())),
        }
    }

    #[inline]
    fn alloc(&self, order: Order, _: Slot) -> Option<FrameId> {
        let bytes = order.frames() * PAGE_SIZE;
        let layout = PageLayout::from_size_align(bytes, bytes).ok()?;
        let range = lock(&self.0).allocate(layout).ok()?;
        Some(FrameId(range.start() / PAGE_SIZE))
    }

    #[inline]
    fn free(&self, frame: FrameId, order: Order, _: Slot) -> bool {
        frame.0.checked_sub(1).is_some_and(|frame| self.add(frame, order.frames()))
    }
}
