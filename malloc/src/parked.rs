//! Blocks that signal handlers have freed in the middle of a slow path, until one ends.
//!
//! ```text
//!   table   │ 0 │ address │ 0 │ address │ …  ┊ next ─►  table  ┊ next ─►  …        511 addresses each
//!   any     1: an address was written since somebody has looked at all
//! ```
//!
//! 1. A slot that is not 0 is an address that was given away here. Whoever makes it 0 has it.
//! 2. Nothing is written to what lies there: it may be no block, or one that is free already. The slow path that ends finds
//!    out, by the way of every free.
//! 3. `any` becomes 1 after a slot is written, and 0 before all are looked at.
//! 4. Tables stay. The first one is there from the start, others are mapped when they are needed.
//!
//! *Progress*: lock-free. Steps are linear in the addresses that were ever parked at a time.

use core::iter::successors;
use core::ptr::{self, NonNull};

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::system;

/// Addresses of a table, which is a page.
const SLOTS: usize = 511;

#[repr(C)]
struct Table {
    /// The address of the next one, or 0.
    next: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

const _: () = assert!(size_of::<Table>() == woodlot_kmem::PAGE);

static FIRST: Table =
    Table { next: AtomicU64::new(0), slots: [const { AtomicU64::new(0) }; SLOTS] };
static ANY: AtomicU64 = AtomicU64::new(0);

impl Table {
    fn next(&self) -> Option<&'static Table> {
        let next = self.next.load(Ordering::Acquire) as usize;
        let next = NonNull::new(ptr::with_exposed_provenance_mut::<Table>(next))?;
        // SAFETY: a table stays (invariant 4).
        Some(unsafe { next.as_ref() })
    }

    /// The next one, which may be made for this. `None`: there is no memory.
    fn next_or_new(&self) -> Option<&'static Table> {
        if self.next.load(Ordering::Relaxed) == 0 {
            let memory = system::memory(size_of::<Table>())?;
            let address = memory.as_ptr().expose_provenance() as u64;
            let (set, seen) = (Ordering::Release, Ordering::Relaxed);
            if self.next.compare_exchange(0, address, set, seen).is_err() {
                // SAFETY: another one was quicker, and nobody knows of this memory.
                unsafe { system::unmap(memory, size_of::<Table>()) };
            }
        }
        self.next()
    }

    /// Writes the address to a slot that is free. False: there is none.
    fn put(&self, address: u64) -> bool {
        let (set, seen) = (Ordering::Release, Ordering::Relaxed);
        self.slots.iter().any(|slot| {
            slot.load(seen) == 0 && slot.compare_exchange(0, address, set, seen).is_ok()
        })
    }
}

fn slots() -> impl Iterator<Item = &'static AtomicU64> {
    successors(Some(&FIRST), |table| table.next()).flat_map(|table| &table.slots)
}

/// Keeps what is to be freed until a slow path ends. False: it is kept already, so it was freed twice.
///
/// Where there is no memory for one more table, the block stays in use for ever.
#[cold]
pub(crate) fn park(block: NonNull<u8>) -> bool {
    let address = block.as_ptr().expose_provenance() as u64;
    if slots().any(|slot| slot.load(Ordering::Relaxed) == address) {
        return false;
    }
    let mut table = &FIRST;
    while !table.put(address) {
        match table.next_or_new() {
            Some(next) => table = next,
            None => return true,
        }
    }
    // An exchange, so that whoever takes the 1 of another one sees this slot too.
    ANY.swap(1, Ordering::Release);
    true
}

/// Is there something that was parked?
pub(crate) fn is_any() -> bool {
    ANY.load(Ordering::Relaxed) != 0
}

/// Calls with each address that is parked. It is the callee's.
pub(crate) fn take_all(mut free: impl FnMut(NonNull<u8>)) {
    ANY.swap(0, Ordering::Acquire);
    for slot in slots() {
        if slot.load(Ordering::Relaxed) != 0 {
            let address = slot.swap(0, Ordering::Acquire) as usize;
            NonNull::new(ptr::with_exposed_provenance_mut(address)).into_iter().for_each(&mut free);
        }
    }
}
