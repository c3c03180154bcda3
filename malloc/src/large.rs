//! Large blocks: mappings of their own, which the system makes and ends.
//!
//! ```text
//!   table   │ address, bytes │ address, bytes │ …        sorted by address
//! ```
//!
//! 1. The table has an entry for each large block in use.
//!
//! The table begins with room for 65536 blocks, and is memory as far as it is used. It doubles when it is full: Linux gives a process
//! about as many mappings (`vm.max_map_count`, 65530), but counts neighbours as one. A large block that nobody has is the system's at
//! once.
//!
//! *Progress*: takes a lock. A step is linear in the large blocks, but each is a copy of 16 bytes beside a call of the
//! system.

use core::mem::offset_of;
use core::ptr::NonNull;

use woodlot_kmem::{Lock, PAGE};

use crate::system;

/// Blocks above this are large: the largest block of a zone.
pub(crate) const LARGEST: usize = 4 << 20;
/// Large blocks that the table has room for at first.
const FIRST: usize = 1 << 16;

#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    address: usize,
    bytes: usize,
}

/// The large blocks in use.
struct Table {
    entries: Option<NonNull<[Entry]>>,
    count: usize,
}

// SAFETY: the table belongs to the holder of the lock.
unsafe impl Send for Table {}

/// All large blocks of the process.
pub(crate) struct Large(Lock<Table>);

/// Where the table lies, in bytes from the begin: for whoever reads it from outside.
impl Large {
    /// The address of the entries, of which each is an address and the bytes there.
    pub(crate) const ENTRIES: usize = Lock::<Table>::INSIDE + offset_of!(Table, entries);
    /// How many there are.
    pub(crate) const COUNT: usize = Lock::<Table>::INSIDE + offset_of!(Table, count);
}

impl Large {
    pub(crate) const fn new() -> Large {
        Large(Lock::new(Table { entries: None, count: 0 }))
    }

    /// Allocates so many bytes, which are zero, at a multiple of `align`, a power of two.
    pub(crate) fn alloc(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if bytes > isize::MAX as usize - LARGEST || align > isize::MAX as usize / 4 {
            return None;
        }
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let block = map_aligned(bytes, align)?;
        if !self.0.take(system::wait).insert(block, bytes) {
            // SAFETY: the mapping is new.
            unsafe { system::unmap(block, bytes) };
            return None;
        }
        Some(block)
    }

    /// Bytes of a large block, if one begins there.
    pub(crate) fn usable(&self, block: NonNull<u8>) -> Option<usize> {
        let mut table = self.0.take(system::wait);
        let at = table.find(block).ok()?;
        table.entries().get(at).map(|entry| entry.bytes)
    }

    /// Does the address lie inside a large block, behind the begin?
    pub(crate) fn is_inside(&self, at: NonNull<u8>) -> bool {
        let mut table = self.0.take(system::wait);
        let Err(behind) = table.find(at) else { return false };
        let before = behind.checked_sub(1).and_then(|before| table.entries().get(before));
        before.is_some_and(|entry| at.addr().get() - entry.address < entry.bytes)
    }

    /// Frees a large block. False: there is none.
    ///
    /// # Safety
    /// If there is, the caller uses it no more.
    pub(crate) unsafe fn free(&self, block: NonNull<u8>) -> bool {
        let Some(bytes) = self.0.take(system::wait).remove(block) else { return false };
        // SAFETY: as the caller says; the table had it.
        unsafe { system::unmap(block, bytes) };
        true
    }

    /// Makes a large block longer or shorter, which may move it. `None`: nothing has changed.
    ///
    /// # Safety
    /// The block is the caller's, who uses it no more at its old place if this succeeds.
    pub(crate) unsafe fn resize(&self, block: NonNull<u8>, bytes: usize) -> Option<NonNull<u8>> {
        if bytes > isize::MAX as usize - LARGEST {
            return None;
        }
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        // The lock is held meanwhile: the old place may be another block's as soon as it is free.
        let mut table = self.0.take(system::wait);
        let old = table.remove(block)?;
        // SAFETY: as the caller says; the table had it.
        let moved = unsafe { system::remap(block, old, bytes) };
        let (now, len) = moved.map_or((block, old), |moved| (moved, bytes));
        // There is room: an entry was removed.
        table.insert(now, len);
        moved
    }

    /// Keeps others away: before a process forks.
    pub(crate) fn lock(&self) {
        core::mem::forget(self.0.take(system::wait));
    }

    /// Lets them again, in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or its copy in the parent, has called [`lock`](Self::lock).
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: as the caller says.
        unsafe { self.0.let_go() };
    }
}

/// A mapping at a multiple of `align`.
fn map_aligned(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    if align <= PAGE {
        return system::memory(bytes);
    }
    let all = bytes.checked_add(align)?;
    let start = system::memory(all)?;
    let before = start.align_offset(align);
    // SAFETY: the mapping is new, and what lies before and behind the block is nobody's.
    unsafe {
        let block = start.add(before);
        if before > 0 {
            system::unmap(start, before);
        }
        if before < align {
            system::unmap(block.add(bytes), align - before);
        }
        Some(block)
    }
}

impl Table {
    /// All entries in use.
    fn entries(&mut self) -> &mut [Entry] {
        match self.entries {
            // SAFETY: the table is memory of its own, of which the first `count` entries are set.
            Some(mut entries) => unsafe { &mut entries.as_mut()[..self.count] },
            None => &mut [],
        }
    }

    /// Where a block's entry is, or would be.
    fn find(&mut self, block: NonNull<u8>) -> Result<usize, usize> {
        self.entries().binary_search_by_key(&block.addr().get(), |entry| entry.address)
    }

    /// False: there is no memory for it.
    fn insert(&mut self, block: NonNull<u8>, bytes: usize) -> bool {
        if self.entries.is_none_or(|entries| entries.len() == self.count) && !self.make_room() {
            return false;
        }
        let (Ok(at) | Err(at)) = self.find(block);
        self.count += 1;
        let entries = self.entries();
        entries.copy_within(at..entries.len() - 1, at + 1);
        entries[at] = Entry { address: block.addr().get(), bytes };
        true
    }

    /// Makes the table, or doubles it. False: there is no memory for that.
    #[cold]
    fn make_room(&mut self) -> bool {
        let bytes = |room: usize| room * size_of::<Entry>();
        let (room, memory) = match self.entries {
            None => (FIRST, system::memory(bytes(FIRST))),
            Some(old) => {
                let room = 2 * old.len();
                // SAFETY: the table is a mapping of its own, which nobody looks at meanwhile but from outside.
                (room, unsafe { system::remap(old.cast(), bytes(old.len()), bytes(room)) })
            }
        };
        let Some(memory) = memory else { return false };
        self.entries = Some(NonNull::slice_from_raw_parts(memory.cast(), room));
        true
    }

    fn remove(&mut self, block: NonNull<u8>) -> Option<usize> {
        let at = self.find(block).ok()?;
        let entries = self.entries();
        let bytes = entries[at].bytes;
        entries.copy_within(at + 1.., at);
        self.count -= 1;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More blocks than the table has room for at first: each is found, with its own bytes, and removed once.
    #[test]
    #[cfg_attr(miri, ignore = "the interpreter has no mappings that grow")]
    fn the_table_grows() {
        let mut table = Table { entries: None, count: 0 };
        let block = |number: usize| {
            NonNull::without_provenance(((number + 1) << 23).try_into().expect("not 0"))
        };
        let all = 0..2 * FIRST + 3;
        for number in all.clone() {
            assert!(table.insert(block(number), number), "the table has room for {number} blocks");
        }
        for number in all.rev() {
            assert_eq!(table.remove(block(number)), Some(number));
            assert_eq!(table.remove(block(number)), None);
        }
    }
}
