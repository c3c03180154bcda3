//! Blocks that signal handlers have freed in the middle of a slow path, until one ends.
//!
//! ```text
//!   table 0   │ group │ group │ …    64 groups of 8 slots each, there from the start
//!   table 1   │ group │ group │ …   128 of them                            an address has one group of each table;
//!   table 2   │ group │ group │ …   256, and so on                         a slot is 0 or an address
//!   any       1: an address was written since somebody has looked at all
//! ```
//!
//! 1. A slot that is not 0 is an address that was given away here. Whoever makes it 0 has it.
//! 2. Nothing is written to what lies there: it may be no block, or one that is free already. The slow path that ends finds
//!    out, by the way of every free.
//! 3. `any` becomes 1 after a slot is written, and 0 before all are looked at.
//! 4. Tables stay. The next one is mapped when a group of each is full.
//! 5. `used` of a table is at least the number of its slots that are not 0: it grows before a slot is written, and shrinks
//!    after one was made 0.
//!
//! *Progress*: lock-free. Whoever parks an address looks at 8 slots of each table: of 20 tables at most, so at 160 slots,
//! however many addresses there are. Whoever takes all looks at each slot of the tables that have any. A table has one only
//! where a group of the one before was full: what a storm has left behind is not looked at. At worst 8 n + 1 addresses have
//! the same group of each table, and table n, of 512 · 2ⁿ slots, is looked at for one of them.

use core::ptr::{self, NonNull};

use woodlot_frame::atomics::{AtomicU64, Ordering};

use crate::system;

/// Slots of a group.
const GROUP: usize = 8;
/// log2 of the groups of the first table, which is a page.
const FIRST_BITS: u32 = 6;
/// The most tables. The last one alone would be 2 GiB long.
const TABLES: usize = 20;

/// Slots that lie side by side, on a cache line.
#[repr(align(64))]
struct Group([AtomicU64; GROUP]);

/// Where addresses are parked.
struct Parked {
    any: AtomicU64,
    used: [AtomicU64; TABLES],
    first: [Group; 1 << FIRST_BITS],
    /// The addresses of the other tables, or 0.
    more: [AtomicU64; TABLES - 1],
}

static PARKED: Parked = Parked::new();

/// A table.
#[derive(Clone, Copy)]
struct Table<'a> {
    groups: &'a [Group],
    used: &'a AtomicU64,
}

impl Table<'_> {
    /// The group of an address: by the upper bits of a product (Knuth, *The Art of Computer Programming* 3, section 6.4), one more
    /// of them in each table.
    fn group(&self, address: u64) -> &[AtomicU64; GROUP] {
        let at = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.groups.len().ilog2());
        &self.groups[at as usize].0
    }

    /// Writes the address to a slot that is free. False: there is none.
    fn put(&self, address: u64) -> bool {
        let (set, seen) = (Ordering::Release, Ordering::Relaxed);
        self.group(address).iter().filter(|slot| slot.load(seen) == 0).any(|slot| {
            self.used.fetch_add(1, seen);
            let put = slot.compare_exchange(0, address, set, seen).is_ok();
            if !put {
                self.used.fetch_sub(1, seen);
            }
            put
        })
    }

    /// Calls with each address that is there.
    fn take_all(&self, free: &mut impl FnMut(NonNull<u8>)) {
        if self.used.load(Ordering::Relaxed) == 0 {
            return;
        }
        for slot in self.groups.iter().flat_map(|group| &group.0) {
            if slot.load(Ordering::Relaxed) != 0 {
                let address = slot.swap(0, Ordering::Acquire) as usize;
                if let Some(block) = NonNull::new(ptr::with_exposed_provenance_mut(address)) {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                    free(block);
                }
            }
        }
    }
}

impl Parked {
    const fn new() -> Parked {
        Parked {
            any: AtomicU64::new(0),
            used: [const { AtomicU64::new(0) }; TABLES],
            first: [const { Group([const { AtomicU64::new(0) }; GROUP]) }; 1 << FIRST_BITS],
            more: [const { AtomicU64::new(0) }; TABLES - 1],
        }
    }

    /// Groups of the `at`-th table.
    const fn groups(at: usize) -> usize {
        1 << (FIRST_BITS as usize + at)
    }

    /// The `at`-th table, if there is one.
    fn table(&self, at: usize) -> Option<Table<'_>> {
        let used = self.used.get(at)?;
        let Some(more) = at.checked_sub(1) else {
            return Some(Table { groups: &self.first, used });
        };
        let address = self.more.get(more)?.load(Ordering::Acquire) as usize;
        let groups = NonNull::new(ptr::with_exposed_provenance_mut::<Group>(address))?;
        // SAFETY: the mapping has so many groups, and stays (invariant 4).
        let groups = unsafe { NonNull::slice_from_raw_parts(groups, Parked::groups(at)).as_ref() };
        Some(Table { groups, used })
    }

    /// The same, which may be made for this. `None`: there is no memory.
    fn table_or_new(&self, at: usize) -> Option<Table<'_>> {
        if self.table(at).is_none() {
            let place = self.more.get(at.checked_sub(1)?)?;
            let bytes = Parked::groups(at) * size_of::<Group>();
            let memory = system::memory(bytes)?;
            let address = memory.as_ptr().expose_provenance() as u64;
            let (set, seen) = (Ordering::Release, Ordering::Relaxed);
            if place.compare_exchange(0, address, set, seen).is_err() {
                // SAFETY: another one was quicker, and nobody knows of this memory.
                unsafe { system::unmap(memory, bytes) };
            }
        }
        self.table(at)
    }

    fn tables(&self) -> impl Iterator<Item = Table<'_>> {
        (0..TABLES).map_while(|at| self.table(at))
    }

    fn park(&self, block: NonNull<u8>) -> bool {
        let address = block.as_ptr().expose_provenance() as u64;
        let is_it = |slot: &AtomicU64| slot.load(Ordering::Relaxed) == address;
        if self.tables().any(|table| table.group(address).iter().any(is_it)) {
            return false;
        }
        let mut tables = (0..TABLES).map_while(|at| self.table_or_new(at));
        if tables.any(|table| table.put(address)) {
            self.look_again();
        }
        true
    }

    /// An exchange, so that whoever takes the 1 of another one sees this caller's slot too.
    fn look_again(&self) {
        self.any.swap(1, Ordering::Release);
    }

    fn take_all(&self, mut free: impl FnMut(NonNull<u8>)) {
        self.any.swap(0, Ordering::Acquire);
        self.tables().for_each(|table| table.take_all(&mut free));
    }
}

/// Keeps what is to be freed until a slow path ends. False: it is kept already, so it was freed twice.
///
/// Where there is no memory for one more table, the block stays in use for ever.
#[cold]
pub(crate) fn park(block: NonNull<u8>) -> bool {
    PARKED.park(block)
}

/// Is there something that was parked?
pub(crate) fn is_any() -> bool {
    PARKED.any.load(Ordering::Relaxed) != 0
}

/// In the child of a fork: a thread that was taking what is parked is not there.
pub(crate) fn forked() {
    PARKED.look_again();
}

/// Calls with each address that is parked. It is the callee's.
pub(crate) fn take_all(free: impl FnMut(NonNull<u8>)) {
    PARKED.take_all(free);
}

/// Another thread has said that it looks at what is parked, and has not looked yet.
#[cfg(test)]
pub(crate) fn be_looked_at() {
    PARKED.any.store(0, Ordering::Relaxed);
}

/// Is an address parked?
#[cfg(test)]
pub(crate) fn is_parked() -> bool {
    let mut slots = PARKED.tables().flat_map(|table| table.groups).flat_map(|group| &group.0);
    slots.any(|slot| slot.load(Ordering::Relaxed) != 0)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::vec::Vec;

    use super::*;

    fn block(number: usize) -> NonNull<u8> {
        NonNull::new(ptr::with_exposed_provenance_mut(number * 16)).expect("numbers begin with 1")
    }

    fn taken(parked: &Parked) -> Vec<usize> {
        let mut taken = Vec::new();
        parked.take_all(|block| taken.push(block.addr().get() / 16));
        taken.sort_unstable();
        taken
    }

    fn tables(parked: &Parked) -> usize {
        parked.tables().count()
    }

    #[test]
    fn what_is_parked_is_taken_once_and_is_not_parked_twice() {
        let parked = Parked::new();
        for number in 1..20_000 {
            assert!(parked.park(block(number)) && !parked.park(block(number)), "{number}");
        }
        assert!((1..20_000).all(|number| !parked.park(block(number))), "one was not found again");
        assert_eq!(taken(&parked), (1..20_000).collect::<Vec<_>>());
        assert_eq!(taken(&parked), []);
        assert!(parked.park(block(7)), "it was taken");
        assert_eq!(taken(&parked), [7]);
    }

    /// Neither the number of addresses nor the distance between them makes tables that are looked at without need.
    #[test]
    fn a_step_looks_at_few_tables() {
        // Blocks of 16 bytes, of a page, of 5 MiB.
        for distance in [1, 256, 5 << 16] {
            let parked = Parked::new();
            for count in [100, 2000, 50_000] {
                (1..=count).for_each(|number| assert!(parked.park(block(number * distance))));
                let slots: usize = (0..tables(&parked)).map(|at| GROUP * Parked::groups(at)).sum();
                assert!(slots <= 8 * count.max(512), "{slots} slots for {count} addresses");
                assert_eq!(taken(&parked).len(), count);
            }
            // What a storm has left is not looked at afterwards.
            assert!(parked.park(block(1)));
            let looked = parked.tables().filter(|table| table.used.load(Ordering::Relaxed) != 0);
            assert_eq!(looked.count(), 1, "tables of a storm are looked at");
        }
    }

    /// Addresses that have the same group of each table: 8 of them stay in each.
    #[test]
    fn addresses_of_one_group_go_from_table_to_table() {
        let parked = Parked::new();
        let group = |number: usize| {
            (number as u64 * 16).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - FIRST_BITS - 3)
        };
        let alike = (1..).filter(|&number| group(number) == group(1)).take(3 * GROUP);
        let alike: Vec<usize> = alike.collect();
        assert!(alike.iter().all(|&number| parked.park(block(number))));
        assert_eq!(tables(&parked), 3);
        assert_eq!(taken(&parked), alike);
    }

    /// Threads that park beside threads that take: each address is taken as often as it was parked.
    #[test]
    fn threads_park_and_take() {
        const EACH: usize = 20_000;
        let (parked, over) = (Parked::new(), AtomicBool::new(false));
        let take = || {
            let mut all = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                if parked.any.load(Ordering::Relaxed) != 0 {
                    all.extend(taken(&parked));
                }
                thread::yield_now();
            }
            all
        };
        let all = thread::scope(|scope| {
            let takers = [0; 2].map(|_| scope.spawn(take));
            let park = |first| {
                (first..first + EACH).for_each(|number| assert!(parked.park(block(number))))
            };
            let parkers = [1, 1 + EACH].map(|first| scope.spawn(move || park(first)));
            parkers.into_iter().for_each(|parker| parker.join().expect("it parks"));
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            takers.map(|taker| taker.join().expect("it takes"))
        });
        let mut all = all.concat();
        if parked.any.load(Ordering::Relaxed) != 0 {
            all.extend(taken(&parked));
        }
        assert_eq!(all.len(), 2 * EACH, "one is still parked, or was taken twice");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 2 * EACH);
        assert!(parked.tables().all(|table| table.used.load(Ordering::Relaxed) == 0));
    }
}
