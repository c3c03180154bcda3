//! A recovery by several threads, what it counts, and allocators that join.

mod memory;

use std::cell::RefCell;
use std::convert::Infallible;
use std::thread;

use memory::Memory;
use woodlot_frame::{
    Base64K, Construct, FrameAllocator, FrameId, Geometry, Init, InitError, Order, RawMetadata,
    Region, Request, Slot, Stats, Volatile, ZoneConfig,
};
use woodlot_llfree::{LLFree, Repairs, Tuning};

type G = Base64K;
type Zone = LLFree<'static, G>;

/// Seventy trees, more than a helper takes at once. It begins with the sixth frame, and ends with the ninth of a
/// huge frame; the states of the last tree end in the second of their words.
const ZONE: ZoneConfig =
    ZoneConfig::new(69 * G::TREE_FRAMES + 20 * G::HUGE_FRAMES + 9 - 5, 2).starting_at(FrameId(5));
/// Huge frames of the metadata: an even number.
const HUGE: usize = 69 * G::TREE_HUGE + 22;
/// Where the states begin: behind a row for each huge frame.
const STATES: usize = (HUGE * 8).next_multiple_of(64);

/// What is repaired besides the trees and the free frames.
fn repaired(repairs: Repairs) -> [usize; 6] {
    let Repairs { closed, rows_reset, cut_open, outside, .. } = repairs;
    [closed, rows_reset, cut_open, outside, repairs.states_cleared, repairs.joins_cleared]
}

fn construct(raw: RawMetadata, init: Init) -> Zone {
    // SAFETY: the callers have the memory to themselves, and use one allocator at a time.
    unsafe { Zone::construct(&ZONE, raw, init) }.expect("a zone")
}

fn inspect(raw: RawMetadata) -> Repairs {
    // SAFETY: as above.
    unsafe { Zone::inspect(&ZONE, raw) }.expect("a zone")
}

/// Recovers with some threads.
fn recover(raw: RawMetadata, threads: usize) -> (Stats, Repairs) {
    // SAFETY: as above.
    let recovery =
        unsafe { Zone::recovery(&ZONE, Tuning::DEFAULT, Volatile, raw) }.expect("a zone");
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| recovery.help());
        }
    });
    let (zone, repairs) = recovery.finish();
    assert_eq!(zone.free_frames(), zone.stats().free_frames);
    (zone.stats(), repairs)
}

/// Changes the word that begins at a byte of the durable part.
fn change(raw: RawMetadata, at: usize, by: u64) {
    assert!(at.is_multiple_of(8) && at + 8 <= raw.durable.1);
    // SAFETY: it lies in the durable part, and no call is under way.
    unsafe { *raw.durable.0.add(at).cast::<u64>() ^= by };
}

/// A zone in which blocks of every order are in use, some were freed in parts, and some huge frames are offline.
fn used(raw: RawMetadata) -> Zone {
    let zone = construct(raw, Init::Free);
    for number in 0..2000usize {
        let order = Order((number % 7) as u8);
        let Ok(block) = zone.alloc(Request::movable(order, Slot(number % 2))) else { continue };
        match number % 3 {
            0 => zone.free(block, order, Slot(0)),
            1 => zone.free(block, Order::BASE, Slot(1)),
            _ => Ok(()),
        }
        .expect("it is allocated");
    }
    let free = zone.free_huge_frames().next_back().expect("most are free");
    zone.offline(free, 1).expect("it is free");
    zone
}

#[test]
fn however_many_recover_the_end_is_the_same() {
    let mut memory = Memory::of::<Zone>(&ZONE);
    let raw = memory.metadata();
    let before = used(raw).stats();
    let looked = inspect(raw);
    let (first, repairs) = recover(raw, 0);
    assert_eq!(repairs, looked);
    let found = (repairs.free_frames, repairs.free_huge, repairs.offline_huge, repairs.trees);
    assert_eq!(found, (first.free_frames, first.free_huge, first.offline_huge, 70));
    assert_eq!((first.free_frames, first.offline_huge), (before.free_frames, 1));
    for threads in 1..4 {
        let (stats, repairs) = recover(raw, threads);
        assert_eq!((&stats, repaired(repairs)), (&first, [0; 6]), "{threads} threads");
    }
    assert_eq!(construct(raw, Init::Recover).stats(), first);
}

/// What damage has closed at an end of the zone is opened when its rows are durable, and what rests on it later.
#[test]
fn rows_of_an_end_are_durable_before_its_state() {
    let mut memory = Memory::of::<Zone>(&ZONE);
    let raw = memory.metadata();
    construct(raw, Init::Free);
    let whole = 1 << 16;
    change(raw, STATES, whole);
    // SAFETY: it lies in the durable part.
    let word = |at| unsafe { *raw.durable.0.add(at).cast::<u64>() };
    let synced = RefCell::new(Vec::new());
    let sync = || {
        synced.borrow_mut().push((word(0), word(STATES) & whole));
        Ok::<_, Infallible>(())
    };
    // SAFETY: the memory is the test's.
    let recovery = unsafe { Zone::recovery(&ZONE, Tuning::DEFAULT, Volatile, raw) };
    let Ok((zone, repairs)) = recovery.expect("a zone").finish_synced(sync);
    assert_eq!(repaired(repairs), [0, 0, 1, 0, 0, 0]);
    // All frames of it are allocated.
    assert_eq!(synced.take(), [(!0, whole), (!0, 0)]);
    let stats = zone.stats();
    assert_eq!((stats.free_frames, stats.free_huge), (repairs.free_frames, repairs.free_huge));
    assert!(!zone.is_free(ZONE.start, Order::BASE));
    zone.free(ZONE.start, Order::BASE, Slot(0)).expect("it is allocated");
}

#[test]
fn each_repair_has_its_count() {
    let mut memory = Memory::of::<Zone>(&ZONE);
    let raw = memory.metadata();
    construct(raw, Init::Free);
    assert_eq!(repaired(inspect(raw)), [0; 6]);
    let (tree, last) = (STATES, STATES + 69 * 64);
    for (at, by, counts, free) in [
        // Huge frame 40 is free, and has a bit of the other value. Huge frames have 32 frames here.
        (40 * 8, 1 << 31, [0, 1, 0, 0, 0, 0], 0),
        // A bit that stands for no frame.
        (40 * 8, 1 << 32, [0; 6], 0),
        // Frame 4 lies outside, and huge frame 0 is split.
        (0, 1 << 4, [0, 0, 0, 1, 0, 0], 0),
        // Frame 5 lies inside.
        (0, 1 << 5, [0; 6], -1),
        // Huge frame 0 is free as a whole, though it is cut off: its frames inside stay free.
        (tree, 1, [0, 0, 1, 0, 0, 0], 0),
        // Or allocated as a whole.
        (tree, 1 << 16, [0, 0, 1, 0, 0, 0], 5 - 32),
        // Huge frame 1 of the first tree, which the start cuts off, is split though all of it is free.
        (tree, 1 << 1, [1, 0, 0, 0, 0, 0], 0),
        // The same of a tree that lies wholly inside.
        (tree + 64, 1 << 1, [1, 0, 0, 0, 0, 0], 0),
        // Joins, of such a tree and of the last one.
        (tree + 64, 1 << 50, [0, 0, 0, 0, 0, 1], 0),
        (last + 8, 1 << 48, [0, 0, 0, 0, 0, 1], 0),
        // The last tree has 22 huge frames.
        (last + 8, 1 << 6, [0, 0, 0, 0, 1, 0], 0),
        (last + 8, 1 << (32 + 6) | 1 << 63, [0, 0, 0, 0, 1, 1], 0),
        // The other words of a line mean nothing.
        (tree + 64 + 32, !0, [0; 6], 0),
        // A huge frame that is offline instead of free.
        (tree + 64, 1 << (16 + 9), [0; 6], -32),
    ] {
        construct(raw, Init::Free);
        change(raw, at, by);
        let looked = inspect(raw);
        assert_eq!(repaired(looked), counts, "byte {at}, {by:#x}");
        assert_eq!(looked.free_frames as isize, ZONE.frames as isize + free, "byte {at}, {by:#x}");
        assert_eq!(inspect(raw), looked, "nothing was written");
        let (stats, repairs) = recover(raw, 1);
        assert_eq!((repairs, stats.free_frames), (looked, looked.free_frames));
        assert_eq!((stats.free_huge, stats.offline_huge), (looked.free_huge, looked.offline_huge));
        assert_eq!(repairs.is_nothing(), counts[..5] == [0; 5]);
        assert_eq!(repaired(inspect(raw)), [0; 6], "byte {at}, {by:#x}: repaired once");
    }
}

#[test]
fn who_attaches_writes_nothing_and_shares_everything() {
    let mut memory = Memory::of::<Zone>(&ZONE);
    let raw = memory.metadata();
    let one = used(raw);
    let before = one.stats();
    // SAFETY: the metadata is that of a zone in use.
    let two: Zone =
        unsafe { LLFree::attach(&ZONE, Tuning::DEFAULT, Volatile, raw) }.expect("a zone");
    assert_eq!((one.stats(), two.stats()), (before, before));
    let block = one.alloc(Request::movable(Order(3), Slot(0))).expect("most is free");
    assert!(!two.is_free(block, Order::BASE));
    two.free(block, Order(3), Slot(1)).expect("it is allocated");
    assert!(one.is_free(block, Order(3)));
    let short = RawMetadata { durable: (raw.durable.0, 64), ..raw };
    let needed = Zone::metadata_size(&ZONE).expect("a zone").durable;
    let refused = InitError::Short { region: Region::Durable, needed, given: 64 };
    // SAFETY: the metadata is refused.
    let none = unsafe {
        let attached = Zone::attach(&ZONE, Tuning::DEFAULT, Volatile, short).map(|_| ());
        let recovery = Zone::recovery(&ZONE, Tuning::DEFAULT, Volatile, short).map(|_| ());
        [attached, recovery, Zone::inspect(&ZONE, short).map(|_| ())]
    };
    assert_eq!(none, [Err(refused); 3]);
}
