//! Page tables in the frames of a zone, read as a processor reads them.
#![cfg(target_arch = "x86_64")]

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use woodlot_frame::{Base4K, Class, FrameAllocator, FrameId, Init, Owned, Slot, ZoneConfig};
use woodlot_kmem::{AddressSpace, Cpus, NotMapped, StillMapped};
use woodlot_llfree::LLFree;
use woodlot_x86_64::{Frames, KernelSpace, Shootdown};
use x86_64::VirtAddr;
use x86_64::structures::paging::page::PageRangeInclusive;
use x86_64::structures::paging::{OffsetPageTable, PageTable, PageTableFlags};

type Zone = Owned<LLFree<'static, Base4K>>;
type Space<'a> = KernelSpace<'a, LLFree<'static, Base4K>, OffsetPageTable<'a>, &'a Remembered>;

const PAGE: usize = 4096;
/// Frames of page tables; those that are mapped need not exist.
const FRAMES: usize = 512;
/// Bits of an entry that are its frame's address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The memory of page tables, from physical address zero on.
struct Memory(NonNull<u8>);

// SAFETY: it is memory, whose owner is the zone's user.
unsafe impl Sync for Memory {}

impl Memory {
    const LAYOUT: Layout = match Layout::from_size_align(FRAMES * PAGE, PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("it is small"),
    };

    fn new() -> Memory {
        // SAFETY: it is not empty, and has so many bytes. Frame 0 is a table without entries, others have what looks like some.
        unsafe {
            let memory = NonNull::new(alloc(Self::LAYOUT)).expect("memory");
            memory.write_bytes(0xff, FRAMES * PAGE);
            memory.write_bytes(0, PAGE);
            Memory(memory)
        }
    }

    /// Where the entry of a level lies by which an address is found, if there is such a table.
    fn place(&self, address: usize, level: usize) -> Option<NonNull<u64>> {
        let mut table = 0;
        for above in (level..4).rev() {
            let index = address >> (12 + 9 * above) & 511;
            // SAFETY: tables lie in the memory.
            let place = unsafe { self.0.add(table + 8 * index).cast::<u64>() };
            if above == level {
                return Some(place);
            }
            // SAFETY: as above.
            let entry = unsafe { place.read_volatile() };
            if entry & 1 == 0 {
                return None;
            }
            table = (entry & ADDRESS) as usize;
        }
        None
    }

    /// The frame, and the flags, that a processor finds at an address; the highest table is in frame 0.
    fn walk(&self, address: usize) -> Option<(FrameId, PageTableFlags)> {
        // SAFETY: it is the place of an entry.
        let entry = unsafe { self.place(address, 0)?.read_volatile() };
        if entry & 1 == 0 {
            return None;
        }
        let flags = PageTableFlags::from_bits_truncate(entry);
        Some((FrameId::containing::<Base4K>(entry & ADDRESS), flags))
    }

    fn frame(&self, address: usize) -> Option<FrameId> {
        self.walk(address).map(|(frame, _)| frame)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody has it any more.
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}

/// A shootdown that keeps in mind which pages it was asked for, and may refuse.
#[derive(Default)]
struct Remembered {
    asked: Mutex<Vec<(u64, usize)>>,
    refuses: Mutex<bool>,
    /// Callers that are kept to their CPUs.
    inside: AtomicUsize,
    tries: AtomicUsize,
}

// SAFETY: nothing interrupts the tests, and nobody calls an allocator.
unsafe impl Cpus for Remembered {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        self.inside.fetch_add(1, Ordering::Relaxed);
        (0, ())
    }

    fn leave(&self, (): ()) {
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }

    fn wait(&self, tries: usize) {
        assert!(self.inside.load(Ordering::Relaxed) > 0, "who has a lock may be on this CPU");
        self.tries.store(tries, Ordering::Relaxed);
        std::thread::yield_now();
    }
}

// SAFETY: the tests look at memory, and remember nothing.
unsafe impl Shootdown for Remembered {
    fn forget(&self, pages: PageRangeInclusive) -> bool {
        assert!(self.inside.load(Ordering::Relaxed) > 0, "it may be another CPU's in between");
        let (first, last) = (pages.start.start_address(), pages.end.start_address());
        let count = (last - first) as usize / PAGE + 1;
        self.asked.lock().expect("no test has failed").push((first.as_u64(), count));
        !*self.refuses.lock().expect("no test has failed")
    }
}

impl Remembered {
    fn refuse(&self, refuses: bool) {
        *self.refuses.lock().expect("no test has failed") = refuses;
    }

    /// What was asked since this was last called.
    fn asked(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.asked.lock().expect("no test has failed"))
    }
}

/// Room for so many more page tables.
fn world(tables: usize, test: impl FnOnce(&Space<'_>, &Memory, &Remembered, &Zone)) {
    let (memory, remembered) = (Memory::new(), Remembered::default());
    let zone = Zone::new(&ZoneConfig::new(FRAMES, 1), Init::Allocated).expect("a zone");
    zone.free_range(FrameId(1)..FrameId(1 + tables), Slot(0)).expect("they were allocated");
    // SAFETY: frame 0 is a table that is empty, and nobody else's; no processor uses the tables.
    let space = unsafe {
        let table = memory.0.cast::<PageTable>().as_mut();
        let offset = VirtAddr::new(memory.0.as_ptr().addr() as u64);
        let frames = Frames::new(&*zone, Slot(0), Class::IMMOVABLE).expect("a good zone");
        let mapper = OffsetPageTable::new(table, offset);
        // A page of 4 KiB is not a huge one, whoever asks.
        let flags = PageTableFlags::NO_EXECUTE | PageTableFlags::HUGE_PAGE;
        KernelSpace::new(mapper, frames, memory.0.as_ptr(), flags, &remembered)
    };
    test(&space, &memory, &remembered, &zone);
    assert_eq!(remembered.inside.load(Ordering::Relaxed), 0, "each CPU is let go");
}

fn at(address: usize) -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(address)).expect("no test is at zero")
}

fn frames(count: usize) -> Vec<FrameId> {
    // Nothing is written there.
    (0..count).map(|nth| FrameId(0x12345 + 3 * nth)).collect()
}

#[test]
fn a_processor_finds_what_is_mapped_until_it_is_not() {
    world(10, |space, memory, remembered, zone| {
        // In both halves, across the end of a table, and at the last page of all.
        for first in [0x7fff_fffe_0000, 0xffff_9000_001f_0000, 0xffff_ffff_fffe_0000_usize] {
            let mapped = frames(32);
            assert_eq!(space.map(at(first), &mapped), Ok(()));
            let flags =
                PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
            for (nth, &frame) in mapped.iter().enumerate() {
                assert_eq!(memory.walk(first + nth * PAGE), Some((frame, flags)));
            }
            assert_eq!(memory.frame(first - PAGE), None);
            assert_eq!(remembered.asked(), [], "nobody remembers what was not there");

            // A part of it, then the rest.
            for part in [8..12, 12..32, 0..8] {
                let mut frames = vec![FrameId(0); part.len()];
                // SAFETY: they are mapped, and nobody uses them.
                let unmapped = unsafe { space.unmap(at(first + part.start * PAGE), &mut frames) };
                assert_eq!((unmapped, &frames[..]), (Ok(()), &mapped[part.clone()]));
                let pages = ((first + part.start * PAGE) as u64, part.len());
                assert_eq!(remembered.asked(), [pages]);
                assert!(part.clone().all(|nth| memory.frame(first + nth * PAGE).is_none()));
            }
        }
        assert_eq!(zone.stats().free_frames, 0, "three tables for each, and one for the end");
    });
}

#[test]
fn what_a_processor_may_remember_stays_mapped() {
    world(3, |space, memory, remembered, _| {
        let (first, mapped) = (0xffff_9000_0000_0000, frames(5));
        assert_eq!(space.map(at(first), &mapped), Ok(()));
        remembered.refuse(true);
        // SAFETY: they are mapped, and nobody uses them.
        let unmapped = unsafe { space.unmap(at(first), &mut [FrameId(0); 5]) };
        assert_eq!(unmapped, Err(StillMapped));
        let found = |nth: usize| memory.frame(first + nth * PAGE);
        assert!((0..5).all(|nth| found(nth) == Some(mapped[nth])));
        remembered.refuse(false);
        let mut frames = [FrameId(0); 5];
        // SAFETY: as above.
        assert_eq!(unsafe { space.unmap(at(first), &mut frames) }, Ok(()));
        assert_eq!(frames, mapped[..]);
    });
}

#[test]
fn nothing_is_unmapped_where_a_page_is_not_mapped() {
    world(3, |space, memory, remembered, _| {
        let (first, mapped) = (0xffff_9000_0000_0000, frames(3));
        assert_eq!(space.map(at(first), &mapped), Ok(()));
        // SAFETY: nobody uses them; the last one is not mapped.
        let unmapped = unsafe { space.unmap(at(first), &mut [FrameId(0); 4]) };
        assert_eq!((unmapped, remembered.asked()), (Err(StillMapped), vec![]));
        assert!((0..3).all(|nth| memory.frame(first + nth * PAGE) == Some(mapped[nth])));
    });
}

#[test]
fn a_map_without_memory_for_a_table_is_undone() {
    // Of two tables of the lowest level one is there.
    let first = 0xffff_9000_001f_8000_usize;
    world(3, |space, memory, remembered, zone| {
        assert_eq!(space.map(at(first), &frames(16)), Err(NotMapped::Undone));
        assert!((0..16).all(|nth| memory.frame(first + nth * PAGE).is_none()));
        // A processor may have looked there by itself.
        assert_eq!(remembered.asked(), [(first as u64, 8)]);
        assert_eq!(space.map(at(first), &frames(8)), Ok(()));
        // The first page of all finds no table: nobody is asked.
        assert_eq!(space.map(at(0x1000), &frames(1)), Err(NotMapped::Undone));
        assert_eq!((remembered.asked(), zone.stats().free_frames), (vec![], 0));
    });
    world(3, |space, _, remembered, _| {
        remembered.refuse(true);
        assert_eq!(space.map(at(first), &frames(16)), Err(NotMapped::Stuck));
    });
    // A huge page is in the way: 2 MiB further, where the table of the last level would be.
    world(3, |space, memory, _, _| {
        assert_eq!(space.map(at(first), &frames(1)), Ok(()));
        let place = memory.place(first + (1 << 21), 1).expect("both have this table");
        // SAFETY: it is the place of an entry.
        unsafe { place.write_volatile(0x83) };
        assert_eq!(space.map(at(first + PAGE), &frames(8)), Err(NotMapped::Undone));
        assert_eq!(space.map(at(first + PAGE), &frames(7)), Ok(()));
    });
}

#[test]
fn a_page_is_not_mapped_twice() {
    world(3, |space, memory, _, _| {
        let (first, mapped) = (0xffff_9000_0000_0000, frames(4));
        assert_eq!(space.map(at(first + 2 * PAGE), &mapped[2..3]), Ok(()));
        assert_eq!(space.map(at(first), &frames(4)[..3]), Err(NotMapped::Undone));
        let found = [0, 1, 2, 3].map(|nth| memory.frame(first + nth * PAGE));
        assert_eq!(found, [None, None, Some(mapped[2]), None]);
    });
}

#[test]
fn threads_share_the_tables() {
    world(3, |space, memory, remembered, _| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let first = 0xffff_9000_0000_0000 + thread * 32 * PAGE;
                    let mapped: Vec<_> = (0..32).map(|nth| FrameId(1000 * thread + nth)).collect();
                    for _ in 0..200 {
                        assert_eq!(space.map(at(first), &mapped), Ok(()));
                        let found = |nth: usize| memory.frame(first + nth * PAGE);
                        assert!((0..32).all(|nth| found(nth) == Some(mapped[nth])));
                        let mut frames = [FrameId(0); 32];
                        // SAFETY: they are mapped, and nobody uses them.
                        assert_eq!(unsafe { space.unmap(at(first), &mut frames) }, Ok(()));
                        assert_eq!(frames[..], mapped);
                    }
                });
            }
        });
        assert_eq!(remembered.asked().len(), 4 * 200);
    });
}

#[test]
fn who_waits_for_it_is_told_how_long() {
    world(0, |space, _, remembered, _| {
        remembered.inside.store(1, Ordering::Relaxed);
        AddressSpace::wait(&space, 77);
        assert_eq!(remembered.tries.load(Ordering::Relaxed), 77);
        remembered.inside.store(0, Ordering::Relaxed);
    });
}

#[test]
fn tables_come_from_the_zone_and_stay() {
    world(8, |space, _, _, zone| {
        assert_eq!(zone.stats().free_frames, 8);
        for _ in 0..3 {
            let mut frames = frames(2);
            assert_eq!(space.map(at(0xffff_9000_001f_f000), &frames), Ok(()));
            // SAFETY: they are mapped, and nobody uses them.
            assert_eq!(unsafe { space.unmap(at(0xffff_9000_001f_f000), &mut frames) }, Ok(()));
            assert_eq!(zone.stats().free_frames, 8 - 4, "of four levels the lowest has two");
        }
    });
}
