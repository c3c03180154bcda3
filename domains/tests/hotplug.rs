//! Memory that is added and removed, also while it is in use.

mod machine;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fastrand::Rng;
use machine::{Machine, machine, memory, ranges};
use woodlot_domains::{
    AddError, Distances, DomainId, DomainSet, Map, MapError, Metadata, Policy, Present,
    RemoveError, Room, Setup, SetupError,
};
use woodlot_frame::{
    Base4K, FrameAllocator, FrameId, FreeError, HugeId, InitError, Order, RawMetadata, Region,
    Request, Slot,
};
use woodlot_llfree::LLFree;

/// Frames of a chunk, and of a huge frame.
const CHUNK: usize = 1024;
const HUGE: usize = CHUNK / 2;
/// Frames that the machine begins with, in two domains.
const BEGIN: usize = 8 * CHUNK;

fn base(slot: usize) -> Request {
    Request::movable(Order::BASE, Slot(slot))
}

fn frames(start: usize, end: usize) -> std::ops::Range<FrameId> {
    FrameId(start * CHUNK)..FrameId(end * CHUNK)
}

fn range(start: usize, end: usize, domain: u8) -> Present {
    Present::new(frames(start, end), DomainId(domain))
}

/// Four chunks of domain 0, four of domain 1, and room for three ranges up to chunk 256. Domain 2 has slot 2, and no
/// memory.
fn growing() -> Machine<'static> {
    let mut ranges = ranges(&[(0, BEGIN / 2, 0), (BEGIN / 2, BEGIN, 1)]);
    let homes = [DomainId(0), DomainId(1), DomainId(2)];
    let room = Room::new(frames(0, 256), 3);
    let map = Map::new(&mut ranges).expect("the map is right");
    machine(&Setup::new(map, 3).at_home(&homes).growing(room))
}

/// Metadata from the heap.
fn given(machine: &Machine<'_>, range: Present) -> Metadata {
    let size = machine.metadata_of(range.range()).expect("it is small");
    Metadata::Given(RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) })
}

fn add(machine: &Machine<'_>, range: Present) -> Result<(), AddError> {
    // SAFETY: the memory is new, and stays.
    unsafe { machine.add_range(range, given(machine, range)) }
}

/// Adds a range with its metadata carved from it, mapped anew: behind its frames is nothing.
fn carve(machine: &Machine<'_>, range: Present) -> Result<(), AddError> {
    let (start, _) = memory((range.frames() + 1) * 4096);
    let start = start.wrapping_add(start.align_offset(4096));
    // SAFETY: the memory is new, and stays.
    unsafe { machine.add_range(range, Metadata::Carved(start)) }
}

/// All frames that a domain has left.
fn drain(machine: &Machine<'_>, domain: u8) -> BTreeSet<FrameId> {
    let bound = Policy::Bind(DomainSet::of(&[DomainId(domain)]));
    std::iter::from_fn(|| machine.alloc_by(base(0), bound).ok()).collect()
}

#[test]
fn what_is_added_is_allocated_and_found() {
    let machine = growing();
    assert_eq!(add(&machine, range(100, 104, 0)), Ok(()));
    assert_eq!(add(&machine, range(8, 9, 2)), Ok(()));
    assert_eq!(machine.stats().free_frames, BEGIN + 5 * CHUNK);
    assert_eq!(machine.domains().map(|domain| domain.0).collect::<Vec<_>>(), [0, 1, 2]);
    let of = |domain| machine.stats_of(DomainId(domain)).expect("it has memory").free_frames;
    assert_eq!([of(0), of(1), of(2)], [8 * CHUNK, 4 * CHUNK, CHUNK]);
    assert_eq!(machine.domain_of(FrameId(100 * CHUNK)), Some(DomainId(0)));
    assert_eq!(machine.domain_of(FrameId(99 * CHUNK)), None);
    // Slot 2 has memory of its own now.
    let own = machine.alloc(base(2)).expect("there is some");
    assert_eq!(machine.domain_of(own), Some(DomainId(2)));
    assert_eq!(machine.numa_stats(DomainId(2)).local_node, 1);
    assert_eq!(machine.free(own, Order::BASE, Slot(0)), Ok(()));
    // All of domain 0, and nothing from another one.
    for _ in 0..8 * CHUNK {
        let frame = machine.alloc(base(0)).expect("there is some");
        assert_eq!(machine.domain_of(frame), Some(DomainId(0)), "{frame}");
    }
    assert_eq!(machine.numa_stats(DomainId(0)).hit, 8 * CHUNK as u64);
    let all = drain(&machine, 2);
    assert_eq!(all, (8 * CHUNK..9 * CHUNK).map(FrameId).collect());
}

#[test]
fn metadata_is_carved_from_what_is_added() {
    let machine = growing();
    assert_eq!(carve(&machine, range(16, 24, 2)), Ok(()));
    let all = drain(&machine, 2);
    let free = all.len();
    assert!((7 * CHUNK..8 * CHUNK).contains(&free), "{free} of {}", 8 * CHUNK);
    assert_eq!(all, (16 * CHUNK..16 * CHUNK + free).map(FrameId).collect());
    let metadata = FrameId(16 * CHUNK + free);
    let freed = machine.free(metadata, Order::BASE, Slot(0));
    assert_eq!(freed, Err(FreeError::OutOfRange(metadata)));
    for &frame in &all {
        assert_eq!(machine.free(frame, Order::BASE, Slot(1)), Ok(()));
    }
    // The last huge frame has metadata: it goes when all others have gone.
    let last = frames(23, 24).start;
    assert_eq!(machine.remove_range(last..frames(23, 24).end), Err(RemoveError::InUse(metadata)));
    assert_eq!(machine.stats().free_frames, BEGIN + free, "nothing has changed");
    let part = machine.remove_range(frames(16, 20)).expect("it is free");
    assert_eq!(part.zones(), 0);
    assert_eq!(machine.stats().free_frames, BEGIN + free - 4 * CHUNK);
    let used = machine.alloc(base(0).at(FrameId(metadata.0 - 1)));
    assert_eq!(used, Ok(FrameId(metadata.0 - 1)));
    let refused = machine.remove_range(frames(20, 24));
    assert_eq!(refused, Err(RemoveError::InUse(FrameId(metadata.0 - 1))));
    assert_eq!(machine.stats().free_frames, BEGIN + free - 4 * CHUNK - 1, "nothing has changed");
    assert_eq!(machine.free(FrameId(metadata.0 - 1), Order::BASE, Slot(0)), Ok(()));
    let rest = machine.remove_range(frames(20, 24)).expect("it is free");
    assert_eq!((rest.zones(), machine.stats().free_frames), (1, BEGIN));
    assert_eq!(machine.domain_of(FrameId(16 * CHUNK)), None);
    assert_eq!(machine.stats_of(DomainId(2)), None);
    let away = machine.alloc(base(2)).expect("others have memory");
    assert_ne!(machine.domain_of(away), Some(DomainId(2)));
}

#[test]
fn places_are_used_again_after_their_reclaim() {
    let machine = growing();
    for (start, domain) in [(8, 0), (16, 1), (24, 2)] {
        assert_eq!(carve(&machine, range(start, start + 8, domain)), Ok(()));
    }
    assert_eq!(carve(&machine, range(32, 40, 1)), Err(AddError::TooManyRanges));
    let removed = machine.remove_range(frames(8, 24)).expect("it is free");
    assert_eq!((removed.zones(), removed.frames()), (2, frames(8, 24)));
    assert_eq!(carve(&machine, range(32, 40, 1)), Err(AddError::TooManyRanges));
    // SAFETY: no other thread has the machine.
    assert_eq!(unsafe { machine.reclaim(removed) }, Ok(()));
    let total = machine.stats().free_frames;
    assert_eq!(carve(&machine, range(32, 40, 1)), Ok(()));
    assert_eq!(carve(&machine, range(8, 24, 0)), Ok(()));
    assert_eq!(carve(&machine, range(48, 56, 1)), Err(AddError::TooManyRanges));
    assert!(machine.stats().free_frames > total + 22 * CHUNK);
    assert_eq!(machine.domain_of(frames(20, 21).start), Some(DomainId(0)), "it was domain 1's");
}

#[test]
fn a_range_removed_in_parts_is_reclaimed_with_its_last_one() {
    let machine = growing();
    for start in [8, 16, 24] {
        assert_eq!(add(&machine, range(start, start + 8, 0)), Ok(()));
    }
    let part = machine.remove_range(frames(8, 12)).expect("it is free");
    let last = machine.remove_range(frames(12, 16)).expect("it is free");
    assert_eq!((part.zones(), last.zones()), (0, 1));
    // SAFETY: no other thread has the machine.
    assert_eq!(unsafe { machine.reclaim(part) }, Ok(()));
    assert_eq!(add(&machine, range(32, 40, 1)), Err(AddError::TooManyRanges), "it was too early");
    // SAFETY: as above.
    assert_eq!(unsafe { machine.reclaim(last) }, Ok(()));
    assert_eq!(add(&machine, range(32, 40, 1)), Ok(()));
}

#[test]
fn an_earlier_removal_does_not_reclaim_a_later_one() {
    let machine = growing();
    for start in [8, 16, 24] {
        assert_eq!(add(&machine, range(start, start + 8, 0)), Ok(()));
    }
    let part = machine.remove_range(frames(8, 12)).expect("it is free");
    assert_eq!(add(&machine, range(8, 12, 0)), Ok(()));
    let all = machine.remove_range(frames(8, 16)).expect("it is free");
    // SAFETY: no other thread has the machine.
    assert_eq!(unsafe { machine.reclaim(part) }, Ok(()));
    assert_eq!(add(&machine, range(32, 40, 1)), Err(AddError::TooManyRanges), "it was too early");
    // SAFETY: as above.
    assert_eq!(unsafe { machine.reclaim(all) }, Ok(()));
    assert_eq!(add(&machine, range(32, 40, 1)), Ok(()));
}

#[test]
fn removed_parts_are_added_again() {
    let machine = growing();
    // Of the memory that it began with, in two domains.
    let removed = machine.remove_range(frames(2, 6)).expect("it is free");
    assert_eq!((removed.zones(), machine.stats().free_frames), (0, BEGIN - 4 * CHUNK));
    assert_eq!(machine.alloc(base(0).at(frames(3, 4).start)).ok(), None);
    let there = FrameId(2 * CHUNK);
    assert_eq!(add(&machine, range(2, 6, 0)), Err(AddError::Overlap(there, DomainId(0))));
    assert_eq!(add(&machine, range(1, 4, 0)), Err(AddError::Overlap(FrameId(CHUNK), DomainId(0))));
    assert_eq!(machine.stats().free_frames, BEGIN - 4 * CHUNK, "nothing has changed");
    assert_eq!(add(&machine, range(2, 4, 0)), Ok(()));
    assert_eq!(add(&machine, range(4, 6, 1)), Ok(()));
    assert_eq!(machine.stats().free_frames, BEGIN);
    assert_eq!(carve(&machine, range(8, 16, 1)), Ok(()));
    let all = machine.stats().free_frames;
    let removed = machine.remove_range(frames(8, 12)).expect("it is free");
    assert_eq!((removed.zones(), machine.stats().free_frames), (0, all - 4 * CHUNK));
    assert_eq!(add(&machine, range(8, 12, 1)), Ok(()));
    assert_eq!(machine.stats().free_frames, all);
}

/// All of a range with carved metadata, but for the huge frame with the first of it.
fn all_but_metadata(machine: &Machine<'_>, range: Present) -> std::ops::Range<FrameId> {
    assert_eq!(carve(machine, range), Ok(()));
    range.start..FrameId(range.end.0 - HUGE)
}

#[test]
fn what_shares_a_huge_frame_with_metadata_is_put_back() {
    let machine = growing();
    let most = all_but_metadata(&machine, range(8, 16, 0));
    assert_eq!(add(&machine, range(16, 24, 0)), Ok(()));
    let rest = most.end;
    let _ = machine.remove_range(most).expect("it is free");
    let used = frames(20, 21).start;
    assert_eq!(machine.alloc(base(0).at(used)), Ok(used));
    let before = machine.stats();
    let refused = machine.remove_range(rest..frames(16, 24).end);
    assert_eq!(refused, Err(RemoveError::InUse(used)));
    assert_eq!(machine.stats(), before, "nothing has changed");
    assert_eq!(machine.alloc(base(0).at(rest)), Ok(rest));
}

#[test]
fn metadata_that_was_not_removed_is_not_added_again() {
    let machine = growing();
    let most = all_but_metadata(&machine, range(8, 16, 0));
    let rest = most.end;
    let _ = machine.remove_range(most.clone()).expect("it is free");
    assert_eq!(machine.alloc(base(0).at(rest)), Ok(rest));
    let before = machine.stats();
    let there = AddError::Overlap(most.start, DomainId(0));
    assert_eq!(add(&machine, range(8, 16, 0)), Err(there));
    assert_eq!(machine.stats(), before, "nothing has changed");
    assert_eq!(add(&machine, Present::new(most, DomainId(0))), Ok(()));
    assert_eq!(machine.free(rest, Order::BASE, Slot(0)), Ok(()), "it stayed its owner's");
}

#[test]
fn the_last_huge_frame_of_the_number_space_goes_and_comes_back() {
    let (start, end) = (usize::MAX & !(CHUNK - 1), usize::MAX & !(HUGE - 1));
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut ranges = ranges(&[(start, usize::MAX, 0)]);
        let map = Map::new(&mut ranges).expect("the map is right");
        let machine = machine(&Setup::new(map, 1));
        let last = Present::new(FrameId(start)..FrameId(end), DomainId(0));
        let removed = machine.remove_range(last.range()).map(|removed| removed.zones());
        let free = machine.free_frames();
        // SAFETY: no frame is looked at.
        let again = unsafe { machine.add_range(last, given(&machine, last)) };
        let _ = done.send((removed, free, again, machine.free_frames()));
    });
    let all =
        finished.recv_timeout(std::time::Duration::from_secs(20)).expect("it comes to an end");
    assert_eq!(all, (Ok(0), HUGE - 1, Ok(()), CHUNK - 1));
}

#[test]
fn bad_ranges_are_refused_and_change_nothing() {
    let machine = growing();
    let try_to = |range| add_at(&machine, range);
    fn add_at(machine: &Machine<'_>, range: Present) -> AddError {
        let metadata = Metadata::Carved(std::ptr::without_provenance_mut(4096));
        // SAFETY: nothing is written: the range is refused.
        unsafe { machine.add_range(range, metadata) }.expect_err("it is bad")
    }
    let empty = range(9, 9, 0);
    assert_eq!(try_to(empty), AddError::Range(MapError::Empty(empty)));
    let reversed = range(10, 9, 0);
    assert_eq!(try_to(reversed), AddError::Range(MapError::Reversed(reversed)));
    assert_eq!(try_to(range(9, 10, 3)), AddError::NoSuchDomain(DomainId(3)));
    assert_eq!(try_to(range(7, 9, 1)), AddError::Overlap(FrameId(7 * CHUNK), DomainId(1)));
    let frame = FrameId(BEGIN - 64);
    let overlap = Present::new(frame..FrameId(9 * CHUNK), DomainId(0));
    assert_eq!(try_to(overlap), AddError::Overlap(frame, DomainId(1)));
    for (start, end) in [(8 * CHUNK + 1, 9 * CHUNK), (8 * CHUNK, 9 * CHUNK - HUGE)] {
        let ragged = Present::new(FrameId(start)..FrameId(end), DomainId(0));
        assert_eq!(try_to(ragged), AddError::OutsideRoom(ragged));
    }
    let outside = range(255, 257, 0);
    assert_eq!(try_to(outside), AddError::OutsideRoom(outside));
    let far = Present::new(FrameId(usize::MAX - 1)..FrameId(usize::MAX), DomainId(0));
    assert_eq!(try_to(far), AddError::OutsideRoom(far));
    // This one has more frames than could be looked at one by one.
    let vast = Present::new(FrameId(8 * CHUNK)..FrameId(1 << 50), DomainId(0));
    assert_eq!(try_to(vast), AddError::OutsideRoom(vast));
    let none = RawMetadata { durable: memory(0), volatile: memory(0) };
    // SAFETY: nothing is written: the metadata is too short.
    let short = unsafe { machine.add_range(range(8, 9, 0), Metadata::Given(none)) };
    assert!(matches!(
        short,
        Err(AddError::Zone(InitError::Short { region: Region::Durable, given: 0, .. }))
    ));
    assert_eq!(machine.remove_range(frames(3, 3)), Err(RemoveError::Empty));
    assert_eq!(machine.remove_range(frames(3, 2)), Err(RemoveError::Empty));
    let ragged = FrameId(CHUNK + 7);
    let removed = machine.remove_range(ragged..FrameId(2 * CHUNK));
    assert_eq!(removed, Err(RemoveError::Misaligned(ragged)));
    assert_eq!(machine.remove_range(frames(7, 9)), Err(RemoveError::OutOfRange));
    assert_eq!((machine.stats().free_frames, machine.domains().count()), (BEGIN, 2));
    assert_eq!(add(&machine, range(8, 9, 0)), Ok(()), "the lock is free");
}

#[test]
fn a_domain_between_others_that_nobody_names_is_not_known() {
    let mut ranges = ranges(&[(0, BEGIN, 0)]);
    let homes = [DomainId(0), DomainId(3)];
    let room = Room::new(frames(0, 256), 1);
    let map = Map::new(&mut ranges).expect("the map is right");
    let machine = machine(&Setup::new(map, 2).at_home(&homes).growing(room));
    let unknown = AddError::NoSuchDomain(DomainId(2));
    assert_eq!(add(&machine, range(8, 9, 2)), Err(unknown));
    assert_eq!(add(&machine, range(8, 9, 3)), Ok(()));
}

#[test]
fn a_range_in_use_is_not_removed() {
    let machine = growing();
    assert_eq!(add(&machine, range(8, 10, 0)), Ok(()));
    let used = FrameId(9 * CHUNK + 77);
    assert_eq!(machine.alloc(base(0).at(used)), Ok(used));
    // Domain 1's last chunk is free, and stays.
    assert_eq!(machine.remove_range(frames(7, 10)), Err(RemoveError::InUse(used)));
    assert_eq!(machine.stats().free_frames, BEGIN + 2 * CHUNK - 1);
    assert_eq!(machine.stats().offline_huge, 0);
    assert_eq!(machine.free(used, Order::BASE, Slot(0)), Ok(()));
    let removed = machine.remove_range(frames(7, 10)).expect("it is free");
    assert_eq!((removed.zones(), machine.stats().free_frames), (1, BEGIN - CHUNK));
    assert_eq!(machine.free(used, Order::BASE, Slot(0)), Err(FreeError::OutOfRange(used)));
    let again = machine.remove_range(frames(7, 8)).expect_err("it is not there");
    assert_eq!(again, RemoveError::InUse(FrameId(7 * CHUNK)));
}

#[test]
fn a_machine_without_room_does_not_grow() {
    let mut ranges = ranges(&[(0, BEGIN, 0)]);
    let map = Map::new(&mut ranges).expect("the map is right");
    let distances = Distances::new(&[10, 20, 20, 10]).expect("they are right");
    let setup = Setup::new(map, 1).apart(distances);
    let still = machine(&setup);
    let more = range(8, 16, 1);
    assert_eq!(add(&still, more), Err(AddError::OutsideRoom(more)), "the distances name domain 1");
    let sections = Room::new(frames(0, 256), 2).in_sections(Order(15));
    let machine = machine(&setup.clone().growing(sections));
    assert_eq!(add(&machine, range(32, 64, 1)), Ok(()));
    assert_eq!(add(&machine, range(64, 80, 1)), Err(AddError::OutsideRoom(range(64, 80, 1))));
    let refused = |room: Room| {
        // SAFETY: nothing is written.
        let made = unsafe {
            setup.clone().growing(room).carve::<LLFree<'_, Base4K>>(|_| std::ptr::null_mut())
        };
        made.err()
    };
    let too_large = SetupError::RoomTooLarge(Order(64));
    assert_eq!(refused(Room::new(frames(0, 1), 1).in_sections(Order(64))), Some(too_large));
    let too_large = Some(SetupError::RoomTooLarge(Order(0)));
    assert_eq!(refused(Room::new(frames(0, 1), usize::MAX)), too_large);
    assert_eq!(refused(Room::new(FrameId(0)..FrameId(usize::MAX), 1)), too_large);
}

/// Says that it ends, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn what_its_caller_has_isolated_and_emptied_is_removed_as_it_is() {
    // What others allocate in between, they keep.
    const SLOTS: usize = 2;
    let machine = growing();
    assert_eq!(add(&machine, range(8, 12, 0)), Ok(()));
    // Half of it is in use, as single frames and as a block.
    let range = frames(6, 12);
    let mut used: Vec<_> = (range.start.0..range.end.0).step_by(2).map(FrameId).collect();
    used.retain(|frame| frame.0 / CHUNK != 7);
    for &frame in &used {
        assert_eq!(machine.alloc(base(0).at(frame)), Ok(frame));
    }
    let block = frames(7, 8).start;
    let whole = Order(10);
    let all = Request::movable(whole, Slot(0));
    assert_eq!(machine.alloc(all.at(block)), Ok(block));
    let ends = AtomicBool::new(false);
    let steps = AtomicUsize::new(0);
    let isolated = AtomicUsize::new(usize::MAX);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut rng = Rng::with_seed(3);
            let mut late = 0;
            while !ends.load(Ordering::Acquire) {
                let step = steps.load(Ordering::Acquire);
                let order = Order(rng.u8(..11));
                let slot = Slot(SLOTS - 1);
                if let Ok(frame) = machine.alloc(Request::movable(order, slot)) {
                    // It began when the range was isolated.
                    let is_late = step >= isolated.load(Ordering::Acquire);
                    late += usize::from(is_late && range.contains(&frame));
                    assert_eq!(machine.free(frame, order, slot), Ok(()));
                }
                steps.fetch_add(1, Ordering::AcqRel);
            }
            late
        });
        let end_of_test = Ends(&ends);
        let wait = |more| {
            let end = steps.load(Ordering::Acquire) + more;
            while steps.load(Ordering::Acquire) < end {
                std::thread::yield_now();
            }
        };
        wait(20);
        let (first, count) = (range.start.0 / HUGE, (range.end.0 - range.start.0) / HUGE);
        assert_eq!(machine.isolate(HugeId(first), count), Ok(()));
        // The call that was under way has returned.
        wait(2);
        isolated.store(steps.load(Ordering::Acquire), Ordering::Release);
        let last = used.pop().expect("there are many");
        for &frame in &used {
            assert_eq!(machine.free(frame, Order::BASE, Slot(0)), Ok(()));
        }
        assert_eq!(machine.free(block, whole, Slot(0)), Ok(()));
        wait(200);
        // One frame of its last huge frame is in use: nothing of it is given away.
        assert_eq!(machine.remove_range(range.clone()), Err(RemoveError::InUse(last)));
        assert!((first..first + count).all(|huge| machine.is_isolated(HugeId(huge))));
        assert_eq!(machine.stats().offline_huge, 0);
        wait(200);
        assert_eq!(machine.free(last, Order::BASE, Slot(0)), Ok(()));
        let removed = machine.remove_range(range.clone()).expect("it is empty");
        assert_eq!(removed.zones(), 1);
        wait(200);
        drop(end_of_test);
        assert_eq!(other.join().expect("it ends"), 0, "a frame was to be had in between");
        // SAFETY: no other thread has the machine.
        assert_eq!(unsafe { machine.reclaim(removed) }, Ok(()));
    });
    assert_eq!(machine.stats().free_frames, BEGIN - 2 * CHUNK);
    assert_eq!(machine.stats().isolated_huge, 0);
    // What was isolated is free when it is added again.
    assert_eq!(add(&machine, self::range(6, 8, 1)), Ok(()));
    assert_eq!((machine.stats().free_frames, machine.stats().isolated_huge), (BEGIN, 0));
}

#[test]
fn what_is_isolated_in_part_is_not_removed() {
    let machine = growing();
    for (isolated, named) in [(2, 3), (3, 2)] {
        let huge = HugeId(isolated * CHUNK / HUGE);
        assert_eq!(machine.isolate(huge, 2), Ok(()));
        let before = machine.stats();
        let refused = machine.remove_range(frames(2, 4));
        assert_eq!(refused, Err(RemoveError::InUse(frames(named, 4).start)));
        assert_eq!(machine.stats(), before, "nothing has changed");
        assert_eq!(machine.unisolate(huge, 2), Ok(()), "it is isolated still");
    }
}

#[test]
fn an_isolated_range_goes_with_its_metadata() {
    let machine = growing();
    let most = all_but_metadata(&machine, range(8, 16, 0));
    let (first, count) = (HugeId(most.start.0 / HUGE), (most.end.0 - most.start.0) / HUGE);
    assert_eq!(machine.isolate(first, count), Ok(()));
    let before = machine.stats();
    // What shares a huge frame with the metadata is in use.
    assert_eq!(machine.alloc(base(0).at(most.end)), Ok(most.end));
    assert_eq!(machine.remove_range(frames(8, 16)), Err(RemoveError::InUse(most.end)));
    assert_eq!(machine.free(most.end, Order::BASE, Slot(0)), Ok(()));
    assert_eq!(machine.stats(), before, "what was isolated is so again");
    let removed = machine.remove_range(frames(8, 16)).expect("it is empty");
    assert_eq!((removed.zones(), machine.stats().free_frames), (1, BEGIN));
}

/// Random additions, removals, allocations and frees: sets of frames are the judge.
#[test]
fn random_growth_agrees_with_a_set_of_frames() {
    let machine = growing();
    let mut rng = Rng::with_seed(12);
    let mut there: BTreeSet<usize> = (0..BEGIN / HUGE).collect();
    let mut used = BTreeSet::<usize>::new();
    let (mut added, mut grown, mut shrunk) = (Vec::<Present>::new(), 0, 0);
    for step in 0..700 {
        match rng.u8(..10) {
            0 => {
                let start = rng.usize(8..40);
                let range = range(start, start + rng.usize(1..6), rng.u8(..3));
                let overlaps =
                    added.iter().any(|other| range.start < other.end && other.start < range.end);
                let result = add(&machine, range);
                let ours = !overlaps && added.len() < 3;
                assert_eq!(
                    result.is_ok(),
                    ours,
                    "{step}: {result:?} of {range:?} beside {added:?}"
                );
                if ours {
                    added.push(range);
                    there.extend(range.start.0 / HUGE..range.end.0 / HUGE);
                    grown += 1;
                }
            }
            1 if !added.is_empty() => {
                let at = rng.usize(..added.len());
                let range = added[at];
                let in_use = used.range(range.start.0..range.end.0).next().copied();
                match (machine.remove_range(range.range()), in_use) {
                    (Ok(removed), None) => {
                        assert_eq!(removed.zones(), 1);
                        // SAFETY: no other thread has the machine.
                        assert_eq!(unsafe { machine.reclaim(removed) }, Ok(()));
                        there.retain(|huge| {
                            !(range.start.0 / HUGE..range.end.0 / HUGE).contains(huge)
                        });
                        added.swap_remove(at);
                        shrunk += 1;
                    }
                    (Err(RemoveError::InUse(frame)), Some(_)) => assert!(used.contains(&frame.0)),
                    (result, in_use) => panic!("{step}: {result:?}, and {in_use:?} is in use"),
                }
            }
            2..6 => {
                let policy = Policy::Prefer(DomainId(rng.u8(..3)));
                if let Ok(frame) = machine.alloc_by(base(rng.usize(..3)), policy) {
                    assert!(
                        there.contains(&(frame.0 / HUGE)) && used.insert(frame.0),
                        "{step}: {frame}"
                    );
                }
            }
            _ => {
                let from = rng.usize(..40 * CHUNK);
                let Some(&frame) = used.range(from..).next().or(used.first()) else { continue };
                used.remove(&frame);
                assert_eq!(machine.free(FrameId(frame), Order::BASE, Slot(0)), Ok(()));
            }
        }
        assert_eq!(machine.stats().free_frames, there.len() * HUGE - used.len(), "{step}");
    }
    assert!(grown > 3 && shrunk > 3, "{grown} added, {shrunk} removed");
}

/// What a thread does, and when.
#[derive(Default)]
struct Worker {
    /// How often it was seen outside of the allocator.
    steps: AtomicUsize,
    served: AtomicUsize,
}

/// Allocates and frees until it is to end, and only frees while it is to be quiet. Each frame has one owner.
fn work(
    machine: &Machine<'_>,
    slot: usize,
    owners: &[AtomicUsize],
    says: &[AtomicBool; 2],
    worker: &Worker,
) {
    let [quiet, ends] = says;
    let mut rng = Rng::with_seed(slot as u64);
    let mut held = Vec::<(FrameId, Order)>::new();
    loop {
        worker.steps.fetch_add(1, Ordering::AcqRel);
        let stops = ends.load(Ordering::Acquire);
        let full = held.len() > 60 || stops || quiet.load(Ordering::Acquire);
        let order = Order(if rng.u8(..8) == 0 { 9 } else { rng.u8(..4) });
        if !full && let Ok(frame) = machine.alloc(Request::movable(order, Slot(slot))) {
            for owner in &owners[frame.0..frame.0 + order.frames()] {
                let before = owner.swap(slot + 1, Ordering::AcqRel);
                assert_eq!(before, 0, "{frame} is somebody's, or not there");
            }
            held.push((frame, order));
            worker.served.fetch_add(1, Ordering::Relaxed);
        } else if !held.is_empty() {
            let (frame, order) = held.swap_remove(rng.usize(..held.len()));
            for owner in &owners[frame.0..frame.0 + order.frames()] {
                assert_eq!(owner.swap(0, Ordering::AcqRel), slot + 1);
            }
            assert_eq!(machine.free(frame, order, Slot(slot)), Ok(()));
        } else if stops {
            break;
        } else {
            std::thread::yield_now();
        }
    }
}

/// Threads allocate and free while memory comes and goes. Each frame has one owner, and only while it is there.
#[test]
fn others_go_on_while_memory_comes_and_goes() {
    const ROUNDS: usize = 12;
    let machine = growing();
    let owners: Vec<AtomicUsize> = (0..24 * CHUNK).map(|_| AtomicUsize::new(0)).collect();
    let (says, workers) = (Default::default(), [Worker::default(), Worker::default()]);
    let [quiet, ends]: &[AtomicBool; 2] = &says;
    let change = |range: &Present, from: usize, to: usize| {
        for owner in &owners[range.start.0..range.end.0] {
            let changed = owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
            assert_eq!(changed, Ok(from), "a frame is in use that is not there");
        }
    };
    // Each worker was outside of the allocator, `more` times since.
    let wait = |count: fn(&Worker) -> &AtomicUsize, more: usize| {
        let before: Vec<_> = workers.iter().map(|of| count(of).load(Ordering::Acquire)).collect();
        let behind =
            |(of, before): (&Worker, usize)| count(of).load(Ordering::Acquire) < before + more;
        while workers.iter().zip(before.iter().copied()).any(behind) {
            std::thread::yield_now();
        }
    };
    const ABSENT: usize = usize::MAX;
    change(&range(8, 24, 0), 0, ABSENT);
    std::thread::scope(|scope| {
        for (slot, worker) in workers.iter().enumerate() {
            let (machine, owners, says) = (&machine, &owners, &says);
            scope.spawn(move || work(machine, slot, owners, says, worker));
        }
        let mut rng = Rng::with_seed(99);
        for _ in 0..ROUNDS {
            let start = rng.usize(8..20);
            let range = range(start, start + rng.usize(1..4), rng.u8(..2));
            change(&range, ABSENT, 0);
            assert_eq!(add(&machine, range), Ok(()));
            wait(|of| &of.served, 30);
            let mut attempts = 0;
            let removed = loop {
                match machine.remove_range(range.range()) {
                    Ok(removed) => break removed,
                    Err(RemoveError::InUse(frame)) => assert!(range.range().contains(&frame)),
                    Err(error) => panic!("{error}"),
                }
                attempts += 1;
                // What others use all the time goes when they let it.
                quiet.store(attempts > 20, Ordering::Release);
                std::thread::yield_now();
            };
            quiet.store(false, Ordering::Release);
            assert_eq!(removed.zones(), 1);
            change(&range, 0, ABSENT);
            wait(|of| &of.steps, 2);
            // SAFETY: both threads were outside of the allocator since.
            assert_eq!(unsafe { machine.reclaim(removed) }, Ok(()));
        }
        ends.store(true, Ordering::Release);
    });
    assert_eq!(machine.stats().free_frames, BEGIN);
}
