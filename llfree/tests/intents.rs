//! Intents: the last operation of a slot is named, whatever it is; and the contract holds with them.
//!
//! What a crash leaves is simulated: `cargo xtask persist`.

mod memory;

use std::thread;

use memory::Memory;
use woodlot_frame::{
    AllocError, Base4K, Base64K, Batch, Class, Construct, FrameAllocator, FrameId, FreeBatchError,
    FreeError, Geometry, Init, InitError, Intents, Order, Owned, RangeRequest, RawMetadata,
    Request, Slot, Volatile, ZoneConfig,
};
use woodlot_llfree::{End, LLFree, NamedFrames, Operation, Repairs, Tuning};

type Zone<G> = LLFree<'static, G, Intents<Volatile>>;

#[cfg(not(woodlot_one_geometry))]
woodlot_suite::contract_tests! {
    base64k: LLFree<'static, Base64K, Intents<Volatile>>,
}
woodlot_suite::contract_tests! {
    base4k: LLFree<'static, Base4K, Intents<Volatile>>,
}

const ZONE: ZoneConfig =
    ZoneConfig::new(2 * Base4K::TREE_FRAMES + 100, 3).starting_at(FrameId(700));

/// What the record of a slot says: operation, end, frames, and how many of them are free.
fn said<G: Geometry>(zone: &Zone<G>, slot: usize) -> (Operation, End, Vec<(usize, usize, usize)>) {
    let last = zone.last_operation(Slot(slot)).expect("it has one");
    assert_eq!(last.slot, Slot(slot));
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for NamedFrames { start, count, free, .. } in zone.frames_of(last) {
        match runs.last_mut() {
            // The rows of one block.
            Some((first, frames, of)) if *first + *frames == start.0 => {
                *frames += count;
                *of += free;
            }
            _ => runs.push((start.0, count, free)),
        }
    }
    (last.operation, last.end, runs)
}

#[test]
fn every_order_is_named() {
    let zone = Owned::<Zone<Base4K>>::new(&ZONE, Init::Free).expect("a zone");
    assert_eq!(zone.last_operations().count(), 0);
    for order in 0..=10 {
        let frames = 1 << order;
        let block = zone.alloc(Request::movable(Order(order), Slot(1))).expect("most is free");
        let exact = Request::movable(Order(order), Slot(2)).at(FrameId(20 * 1024));
        let exact = zone.alloc(exact).expect("it is free");
        assert_eq!(said(&zone, 1), (Operation::Alloc, End::Whole, vec![(block.0, frames, 0)]));
        assert_eq!(said(&zone, 2), (Operation::Alloc, End::Whole, vec![(exact.0, frames, 0)]));
        zone.free(block, Order(order), Slot(2)).expect("it is allocated");
        assert_eq!(said(&zone, 1), (Operation::Alloc, End::Whole, vec![(block.0, frames, frames)]));
        assert_eq!(said(&zone, 2), (Operation::Free, End::Whole, vec![(block.0, frames, frames)]));
        // A huge frame is split, or joined.
        zone.free(exact, Order(order), Slot(1)).expect("it is allocated");
        assert_eq!(said(&zone, 1).2, [(exact.0, frames, frames)]);
    }
    let huge = zone.alloc(Request::movable(Order(9), Slot(0))).expect("most is free");
    for part in 0..2 {
        let half = FrameId(huge.0 + part * 256);
        zone.free(half, Order(8), Slot(0)).expect("it is allocated");
        assert_eq!(said(&zone, 0), (Operation::Free, End::Whole, vec![(half.0, 256, 256)]));
    }
    assert_eq!(zone.last_operations().count(), 3);
    assert_eq!(zone.last_operation(Slot(3)), None);
}

#[test]
fn a_batch_is_named_as_one() {
    let zone = Owned::<Zone<Base4K>>::new(&ZONE, Init::Free).expect("a zone");
    let request = Request::movable(Order(0), Slot(0));
    let mut out = [FrameId(0); 255];
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(255));
    let (operation, end, runs) = said(&zone, 0);
    assert_eq!((operation, end), (Operation::Alloc, End::Whole));
    let named = |runs: &[(usize, usize, usize)]| -> Vec<usize> {
        runs.iter().flat_map(|&(first, count, _)| first..first + count).collect()
    };
    assert_eq!(named(&runs), out.map(|frame| frame.0));
    assert!(runs.iter().all(|&(.., free)| free == 0));
    // One in each row, so that each is a write of its own.
    for frame in out {
        zone.free(frame, Order(0), Slot(1)).expect("it is allocated");
    }
    let apart: [FrameId; 255] = std::array::from_fn(|at| FrameId(ZONE.start.0 + 64 * at));
    for frame in apart {
        zone.alloc(request.at(frame)).expect("it is free");
    }
    zone.free_batch(&apart, Order(0), Slot(0)).expect("all are allocated");
    let (operation, end, runs) = said(&zone, 0);
    assert_eq!((operation, end, runs.len()), (Operation::Free, End::Whole, 255));
    assert_eq!(named(&runs), apart.map(|frame| frame.0));
    assert!(runs.iter().all(|&(.., free)| free == 1));
    assert_eq!(zone.free_frames(), ZONE.frames);
}

/// Blocks of any order, as many as a record has room for; at frames side by side; and in parts of what was whole.
#[test]
fn a_batch_of_blocks_is_named_as_one() {
    let zone = Owned::<Zone<Base4K>>::new(&ZONE, Init::Free).expect("a zone");
    let rooms = [0, 6, 7, 8, 9, 10, 11].map(|order| zone.batch_room(Order(order)));
    assert_eq!(rooms, [255, 255, 127, 63, 255, 255, 0]);
    let plain = Owned::<LLFree<'static, Base4K>>::new(&ZONE, Init::Free).expect("a zone");
    assert_eq!([0, 8, 11].map(|order| plain.batch_room(Order(order))), [usize::MAX, usize::MAX, 0]);
    for order in 1..=10 {
        let (order, frames) = (Order(order), 1 << order);
        let count = zone.batch_room(order).min(ZONE.frames / frames / 2);
        let mut out = vec![FrameId(0); count];
        let request = Request::movable(order, Slot(0));
        assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(count));
        let all = |of: &[FrameId]| of.iter().flat_map(|f| f.0..f.0 + frames).collect::<Vec<_>>();
        let named = || {
            let (operation, end, runs) = said(&zone, 0);
            let frames = runs.iter().flat_map(|&(first, count, _)| first..first + count);
            assert!(runs.iter().all(|&(_, count, free)| free == 0 || free == count));
            (operation, end, frames.collect::<Vec<_>>())
        };
        assert_eq!(named(), (Operation::Alloc, End::Whole, all(&out)));
        // The last of them is free: the others are freed, and named.
        zone.free(out[count - 1], order, Slot(1)).expect("it is allocated");
        let refused = zone.free_batch(&out, order, Slot(0)).expect_err("one is free");
        assert_eq!(refused.freed, count - 1);
        let last = if count > 1 { Some(Operation::Free) } else { None };
        assert_eq!(zone.last_operation(Slot(0)).map(|last| last.operation), last);
        if count > 1 {
            assert_eq!(named(), (Operation::Free, End::Whole, all(&out[..count - 1])));
        }
        assert_eq!(zone.stats().free_frames, ZONE.frames);
    }
    // A batch of which one block is taken leaves nothing, and the slot names nothing.
    zone.alloc(Request::movable(Order(0), Slot(1)).at(FrameId(2048 + 600))).expect("it is free");
    let request = Request::movable(Order(8), Slot(0)).at(FrameId(2048));
    let mut out = [FrameId(0); 4];
    assert!(zone.alloc_batch(request, Batch::All, &mut out).is_err());
    assert_eq!((zone.last_operation(Slot(0)), zone.stats().free_frames), (None, ZONE.frames - 1));
}

/// A run is named by its frames, however many; one that is refused names nothing.
#[test]
fn a_run_is_named_as_one() {
    let zone = Owned::<Zone<Base4K>>::new(&ZONE, Init::Free).expect("a zone");
    let request = |frames| RangeRequest::new(frames, Class::MOVABLE, Slot(0));
    for frames in [1, 63, 1000, 20_000] {
        let run = zone.alloc_range(request(frames)).expect("all is free");
        assert_eq!(said(&zone, 0), (Operation::Alloc, End::Whole, vec![(run.start.0, frames, 0)]));
        zone.free_range(run.clone(), Slot(0)).expect("it is allocated");
        let freed = vec![(run.start.0, frames, frames)];
        assert_eq!(said(&zone, 0), (Operation::Free, End::Whole, freed));
    }
    assert!(zone.alloc_range(request(ZONE.frames + 1)).is_err());
    assert_eq!(zone.last_operation(Slot(0)), None);
    assert!(zone.free_range(FrameId(800)..FrameId(900), Slot(0)).is_err());
    assert_eq!(zone.last_operation(Slot(0)), None);
    let within = Request::movable(Order(3), Slot(0)).within(FrameId(1600)..FrameId(1700));
    let block = zone.alloc(within).expect("it is free");
    assert_eq!(said(&zone, 0).2, [(block.0, 8, 0)]);
}

/// An operation that is over names nothing, though the next one on its slot is its like: batches of as many blocks, runs
/// with one last block.
#[test]
fn an_operation_never_names_the_frames_of_the_next() {
    let zone = Owned::<Zone<Base4K>>::new(&ZONE, Init::Free).expect("a zone");
    let look = || zone.last_operation(Slot(0)).expect("there was one");
    let named = |last| zone.frames_of(last).map(|run| run.count).sum::<usize>();
    for order in [0, 1, 8, 9] {
        let (order, frames) = (Order(order), 3 << order);
        let request = Request::movable(order, Slot(0));
        let mut blocks = [[FrameId(0); 3]; 2];
        let mut before = None;
        for out in &mut blocks {
            assert_eq!(zone.alloc_batch(request, Batch::All, out), Ok(3));
            assert_eq!((before.map(named), named(look())), (before.map(|_| 0), frames), "{order}");
            before = Some(look());
        }
        for blocks in &blocks {
            zone.free_batch(blocks, order, Slot(0)).expect("they are allocated");
            assert_eq!((before.map(named), named(look())), (Some(0), frames), "{order}");
            before = Some(look());
        }
    }
    for first in [1000, 1020] {
        let run = FrameId(first)..FrameId(1024 + 64);
        let request = RangeRequest::new(run.end.0 - first, Class::MOVABLE, Slot(0));
        let before = look();
        zone.alloc_range(request.at(run.start)).expect("it is free");
        let allocated = look();
        assert_eq!((named(before), named(allocated)), (0, run.end.0 - first));
        zone.free_range(run.clone(), Slot(0)).expect("it is allocated");
        assert_eq!((named(allocated), named(look())), (0, run.end.0 - first));
    }
    // One of which a part has been read.
    let request = Request::movable(Order(9), Slot(0));
    let mut out = [FrameId(0); 3];
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(3));
    let mut runs = zone.frames_of(look());
    assert_eq!(runs.next().map(|run| run.start), Some(out[0]));
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut [FrameId(0); 3]), Ok(3));
    assert_eq!(runs.next(), None);
}

/// A batch that fails, or that meets a frame which is not allocated, says nothing that is not so.
#[test]
fn a_batch_that_fails_leaves_nothing() {
    let config = ZoneConfig::new(1000, 1);
    let zone = Owned::<Zone<Base4K>>::new(&config, Init::Free).expect("a zone");
    let request = Request::movable(Order(0), Slot(0));
    let mut out = [FrameId(0); 1001];
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Err(AllocError::OutOfMemory));
    assert_eq!((zone.free_frames(), zone.stats().free_frames), (1000, 1000));
    assert_eq!(zone.alloc_batch(request, Batch::UpTo, &mut out), Ok(1000));
    assert_eq!(said(&zone, 0).2.iter().map(|run| run.1).sum::<usize>(), 1000);
    zone.free(FrameId(5), Order(0), Slot(0)).expect("it is allocated");
    let frames: Vec<FrameId> = (0..10).map(FrameId).collect();
    let refused = zone.free_batch(&frames, Order(0), Slot(0)).expect_err("one is free");
    assert_eq!(refused.freed, 5);
    zone.free_batch(&frames[6..], Order(0), Slot(0)).expect("they are allocated");
    assert_eq!(said(&zone, 0).2, [(6, 4, 4)]);
    assert_eq!(zone.stats().free_frames, 10);
}

/// A batch that the record has no room for is refused, and changes nothing; where as many are asked for as there are, it
/// yields what there is room for. The room is the caller's choice, and more of it takes the longest batch.
#[test]
fn a_batch_is_one_operation_or_refused() {
    for (asked, room) in [(1, 3), (3, 3), (4, 7), (255, 255), (1000, 1003)] {
        let config = ZONE.with_record_room(asked);
        let zone = Owned::<Zone<Base4K>>::new(&config, Init::Free).expect("a zone");
        assert_eq!(zone.batch_room(Order(0)), room);
        // None lies in the row of the one before, so each is a write of its own.
        let frame = |at| FrameId(1024 + at / 128 * 128 + at % 2 * 64 + at % 128 / 2);
        let apart: Vec<FrameId> = (0..room + 1).map(frame).collect();
        let slot = Slot(1);
        for &frame in &apart {
            zone.alloc(Request::movable(Order(0), slot).at(frame)).expect("it is free");
        }
        let before = zone.last_operation(slot);
        let too_long = FreeBatchError { freed: 0, cause: FreeError::BatchTooLong };
        assert_eq!(zone.free_batch(&apart, Order(0), slot), Err(too_long));
        assert_eq!(zone.stats().free_frames, ZONE.frames - apart.len());
        assert!([None, before].contains(&zone.last_operation(slot)));
        zone.free_batch(&apart[1..], Order(0), slot).expect("there is room");
        assert_eq!(said(&zone, 1).2.iter().map(|run| run.1).sum::<usize>(), room);
        zone.free(apart[0], Order(0), slot).expect("it is allocated");
        for order in [1, 7, 8, 9] {
            let order = Order(order);
            // One block is one operation in any room.
            let room = zone.batch_room(order).max(1);
            let mut out = vec![FrameId(0); (room + 1).min(ZONE.frames / order.frames())];
            let request = Request::movable(order, slot);
            if out.len() > room {
                let refused = zone.alloc_batch(request, Batch::All, &mut out);
                assert_eq!(refused, Err(AllocError::BatchTooLong));
                assert_eq!(zone.stats().free_frames, ZONE.frames, "nothing is changed");
                assert_eq!(zone.free_batch(&out, order, slot), Err(too_long));
                assert_eq!(zone.alloc_batch(request, Batch::UpTo, &mut out), Ok(room));
                assert_eq!(zone.last_operation(slot).map(|last| last.end), Some(End::Whole));
                zone.free_batch(&out[..room], order, slot).expect("they are allocated");
                assert_eq!(zone.stats().free_frames, ZONE.frames);
            }
        }
    }
    for wrong in [0, 1 << 24] {
        let size = Zone::<Base4K>::metadata_size(&ZONE.with_record_room(wrong));
        assert_eq!(size, Err(InitError::RecordRoom(wrong)));
    }
}

/// Base frames that lie in rows take an entry for each row. Where they do not, a batch ends with the record's room, or has
/// nothing.
#[test]
fn base_frames_use_the_room_by_rows() {
    let config = ZONE.with_record_room(15);
    let zone = Owned::<Zone<Base4K>>::new(&config, Init::Free).expect("a zone");
    let request = Request::movable(Order(0), Slot(0));
    let mut out = [FrameId(0); 9 * 64];
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(9 * 64));
    assert_eq!(zone.free_batch(&out, Order(0), Slot(0)), Ok(()));
    assert_eq!(said(&zone, 0).2.iter().map(|run| run.1).sum::<usize>(), 9 * 64);
    // One frame of each row is free.
    let config = ZoneConfig::new(2048, 1).with_record_room(15);
    let zone = Owned::<Zone<Base4K>>::new(&config, Init::Allocated).expect("a zone");
    (0..32).for_each(|row| zone.free(FrameId(64 * row), Order(0), Slot(0)).expect("it is"));
    let mut out = [FrameId(0); 16];
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Err(AllocError::BatchTooLong));
    assert_eq!((zone.stats().free_frames, zone.last_operation(Slot(0))), (32, None));
    assert_eq!(zone.alloc_batch(request, Batch::UpTo, &mut out), Ok(15));
    assert_eq!(said(&zone, 0).2, out[..15].iter().map(|f| (f.0, 1, 0)).collect::<Vec<_>>());
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out[..15]), Ok(15));
    assert_eq!(zone.stats().free_frames, 2);
}

/// A slot that two calls use at once has a record of no use. The calls do what they do without one: no batch is refused
/// for the room that another call on its slot seems to take.
#[test]
fn a_shared_slot_spoils_its_record_and_nothing_else() {
    const FRAMES: usize = 512;
    const FREE: usize = 200;
    const ROUNDS: usize = 2000;
    let zone = ZoneConfig::new(FRAMES, 1);
    let zone = Owned::<Zone<Base4K>>::new(&zone, Init::Allocated).expect("a zone");
    let free: Vec<FrameId> = (FRAMES - FREE..FRAMES).map(FrameId).collect();
    zone.free_batch(&free, Order(0), Slot(0)).expect("they are allocated");
    let request = Request::movable(Order(0), Slot(0));
    thread::scope(|scope| {
        // Names a frame whose number is larger than the room of the record.
        scope.spawn(|| {
            for _ in 0..50 * ROUNDS {
                if let Ok(frame) = zone.alloc(request.at(FrameId(FRAMES - 1))) {
                    zone.free(frame, Order(0), Slot(0)).expect("it is ours");
                }
            }
        });
        // Asks for more than there is, so gives back what it had; or for some.
        for wanted in [FREE + 1, 20, 20] {
            let zone = &zone;
            scope.spawn(move || {
                let mut out = vec![FrameId(0); wanted];
                for _ in 0..ROUNDS {
                    match zone.alloc_batch(request, Batch::All, &mut out) {
                        Ok(_) => zone.free_batch(&out, Order(0), Slot(0)).expect("they are ours"),
                        Err(refused) => assert_eq!(refused, AllocError::OutOfMemory),
                    }
                }
            });
        }
    });
    assert_eq!(zone.stats().free_frames, FREE);
}

fn construct(raw: RawMetadata, init: Init) -> Zone<Base4K> {
    // SAFETY: the callers have the memory to themselves, and use one allocator at a time.
    unsafe { Construct::construct(&ZONE, raw, init) }.expect("a zone")
}

fn inspect(raw: RawMetadata) -> Repairs {
    // SAFETY: as above.
    unsafe { Zone::<Base4K>::inspect(&ZONE, raw) }.expect("a zone")
}

fn recover(raw: RawMetadata) -> (Zone<Base4K>, Repairs) {
    // SAFETY: as above.
    let recovery = unsafe { LLFree::recovery(&ZONE, Tuning::DEFAULT, Intents(Volatile), raw) }
        .expect("a zone");
    recovery.finish()
}

/// Where the records begin: from a page on.
fn before_records() -> usize {
    let plain = <LLFree<'static, Base4K>>::metadata_size(&ZONE).expect("a zone").durable;
    plain.next_multiple_of(4096)
}

/// The record of a slot.
fn record(raw: RawMetadata, slot: usize) -> &'static mut [u64] {
    let records = before_records();
    // SAFETY: the records are the last of the durable part; the callers have no call under way, and drop what they
    // get before the memory.
    unsafe { std::slice::from_raw_parts_mut(raw.durable.0.add(records + slot * 4096).cast(), 512) }
}

/// A batch that was cut off is taken back, but for the write in doubt: huge frames, a pair of them, and one whose rows
/// are released one by one, so that it becomes free.
#[test]
fn huge_frames_of_a_record_are_released() {
    let mut memory = Memory::of::<Zone<Base4K>>(&ZONE);
    let raw = memory.metadata();
    let zone = construct(raw, Init::Free);
    let base = ZONE.start.0 & !1023;
    let taken = |frame, order| {
        let request = Request::movable(Order(order), Slot(0)).at(FrameId(base + frame));
        zone.alloc(request).expect("it is free");
    };
    // Two huge frames, one, eight rows of one, and a frame in doubt.
    taken(2048, 10);
    taken(4096, 9);
    (0..8).for_each(|row| taken(6144 + 64 * row, 6));
    taken(8192, 0);
    let huge = |frame: usize, count| [1 << 63 | frame as u64 >> 9, count];
    let rows = (0..8).map(|row| [6144 / 64 + row, !0]);
    let pair_and_one = [huge(2048, 2), huge(4096, 1)];
    let writes: Vec<[u64; 2]> =
        pair_and_one.into_iter().chain(rows).chain([[8192 / 64, 1]]).collect();
    let free = zone.stats();
    let record = record(raw, 0);
    let (count, step) = (writes.len() as u64, writes.len() as u64 - 1);
    record[0] = count << 16 | step << 8 | 15 << 4 | 1 << 2 | 1;
    record[2..].iter_mut().zip(writes.as_flattened()).for_each(|(word, value)| *word = *value);
    let (zone, repairs) = recover(raw);
    assert_eq!((repairs.cut_off, repairs.released), (1, 4 * 512));
    let stats = zone.stats();
    assert_eq!((repairs.free_frames, repairs.free_huge), (stats.free_frames, stats.free_huge));
    assert_eq!((stats.free_frames, stats.free_huge), (ZONE.frames - 1, free.free_huge + 4));
    assert_eq!(said(&zone, 0), (Operation::Alloc, End::CutOff, vec![(base + 8192, 1, 0)]));
    assert!(inspect(raw).is_nothing(), "a second recovery has nothing to do");
    assert!(zone.hidden().is_nothing(), "all that is free can be had");
}

/// Makes the record of slot 0 that of a batch which was allocating huge frame by huge frame, and was cut off at the last.
fn cut_off(raw: RawMetadata, huge_frames: &[FrameId]) {
    let record = record(raw, 0);
    let base = ZONE.start.0 & !1023;
    let (count, step) = (huge_frames.len() as u64, huge_frames.len() as u64 - 1);
    record[0] = count << 16 | step << 8 | 15 << 4 | 1 << 2 | 1;
    let writes = huge_frames.iter().map(|frame| [1 << 63 | (frame.0 - base) as u64 >> 9, 1]);
    for (words, write) in record[2..].chunks_exact_mut(2).zip(writes) {
        words.copy_from_slice(&write);
    }
}

/// What is resolved in a zone that goes on may be isolated: the credits are those of an isolated huge frame then, and it
/// is whole when the isolation ends.
#[test]
fn what_is_resolved_may_be_isolated() {
    for by_base_frames in [false, true] {
        let mut memory = Memory::of::<Zone<Base4K>>(&ZONE);
        let raw = memory.metadata();
        let zone = construct(raw, Init::Free);
        let huge_frames = [2048, 4096].map(|frame| FrameId((ZONE.start.0 & !1023) + frame));
        for first in huge_frames {
            let order = if by_base_frames { 0 } else { 9 };
            for frame in (first.0..first.0 + 512).step_by(1 << order).map(FrameId) {
                let request = Request::movable(Order(order), Slot(0)).at(frame);
                zone.alloc(request).expect("it is free");
            }
        }
        zone.drain(Slot(0)).expect("a slot");
        let huge = huge_frames[0].huge::<Base4K>();
        zone.isolate(huge, 1).expect("it is not offline");
        cut_off(raw, &huge_frames);
        let repairs = zone.resolve(|| Ok::<(), ()>(())).expect("nothing fails");
        assert_eq!((repairs.cut_off, repairs.released), (1, 512), "{by_base_frames}");
        assert_eq!(zone.free_frames(), ZONE.frames - 1024, "nobody can have what is isolated");
        let stats = zone.stats();
        assert_eq!((stats.free_frames, stats.isolated_frames), (ZONE.frames - 1024, 512));
        assert!(zone.hidden().is_nothing(), "all that is free can be had");
        zone.unisolate(huge, 1).expect("it is isolated");
        assert_eq!(zone.free_frames(), ZONE.frames - 512);
        let again = Request::movable(Order(9), Slot(1)).at(huge_frames[0]);
        assert_eq!(zone.alloc(again), Ok(huge_frames[0]));
    }
}

/// Whichever sync fails: what was released until then counts as free, and resolving again comes to the same end.
#[test]
fn a_sync_that_fails_loses_no_count() {
    for fails in 1..=3 {
        let mut memory = Memory::of::<Zone<Base4K>>(&ZONE);
        let raw = memory.metadata();
        let zone = construct(raw, Init::Free);
        let huge_frames = [2048, 4096].map(|frame| FrameId((ZONE.start.0 & !1023) + frame));
        for first in huge_frames {
            zone.alloc(Request::movable(Order(9), Slot(0)).at(first)).expect("it is free");
        }
        cut_off(raw, &huge_frames);
        let syncs = std::cell::Cell::new(0);
        let sync = || {
            syncs.set(syncs.get() + 1);
            if syncs.get() == fails { Err(fails) } else { Ok(()) }
        };
        assert_eq!(zone.resolve(sync), Err(fails));
        let released = if fails == 1 { 0 } else { 512 };
        // The count by the slots comes first: that of the statistics makes it good.
        assert_eq!(zone.free_frames(), ZONE.frames - 1024 + released, "sync {fails}");
        zone.resolve(sync).expect("it fails once");
        assert_eq!(zone.free_frames(), ZONE.frames - 512, "sync {fails}");
        assert_eq!(zone.stats().free_frames, ZONE.frames - 512);
        assert_eq!(zone.last_operation(Slot(0)).map(|last| last.end), Some(End::CutOff));
    }
}

/// A batch of more than 256 writes that was cut off is taken back up to its step, and no further.
#[test]
fn a_long_batch_is_taken_back() {
    const COUNT: usize = 400;
    let config = ZONE.with_record_room(511);
    let mut memory = Memory::of::<Zone<Base4K>>(&config);
    let raw = memory.metadata();
    // SAFETY: the memory is the test's, which uses one zone at a time.
    let zone: Zone<Base4K> =
        unsafe { Construct::construct(&config, raw, Init::Free) }.expect("a zone");
    let mut out = [FrameId(0); COUNT];
    let request = Request::movable(Order(1), Slot(0));
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(COUNT));
    for step in [300u64, 255, 256, 399] {
        let header = &mut record(raw, 0)[0];
        assert_eq!(*header & 0xffff_ffff_00ff, (COUNT as u64) << 16 | 15 << 4 | 1);
        *header =
            step >> 8 << 48 | (COUNT as u64) << 16 | (step & 0xff) << 8 | 15 << 4 | 1 << 2 | 1;
        // SAFETY: as above.
        let recovery =
            unsafe { LLFree::recovery(&config, Tuning::DEFAULT, Intents(Volatile), raw) };
        let (zone, repairs): (Zone<Base4K>, Repairs) = recovery.expect("a zone").finish();
        assert_eq!((repairs.cut_off, repairs.released), (1, 2 * step as usize));
        let doubt = out[step as usize].0;
        assert_eq!(said(&zone, 0), (Operation::Alloc, End::CutOff, vec![(doubt, 2, 0)]));
        zone.free_batch(&out[step as usize..], Order(1), Slot(1)).expect("they are allocated");
        assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(COUNT));
    }
}

/// Whatever the records hold, a recovery accepts it, says what it released, and does it once.
#[test]
fn any_record_is_accepted() {
    let mut memory = Memory::of::<Zone<Base4K>>(&ZONE);
    let raw = memory.metadata();
    assert_eq!(raw.durable.1, before_records() + 3 * 4096, "a record for each slot");
    let mut rng = fastrand::Rng::with_seed(3);
    let mut released = 0;
    for _ in 0..if cfg!(miri) { 4 } else { 400 } {
        let zone = construct(raw, Init::Free);
        for _ in 0..20 {
            let request = Request::movable(Order(rng.u8(..=10)), Slot(rng.usize(..3)));
            zone.alloc(request).expect("most is free");
        }
        for slot in 0..3 {
            let record = record(raw, slot);
            record.fill_with(|| rng.u64(..) >> rng.u8(..64));
            // Half of them are under way, of an order that is.
            if rng.bool() {
                let index = rng.u64(..ZONE.frames as u64 + 2048);
                record[0] = index << 16 | rng.u64(..0x1000) << 4 | 4 | rng.u64(1..3);
            }
        }
        let before = zone.stats().free_frames;
        let named = zone.last_operations().flat_map(|last| zone.frames_of(last));
        assert!(
            named.into_iter().all(|named| named.start >= ZONE.start && named.free <= named.count)
        );
        let looked = inspect(raw);
        let (zone, repairs) = recover(raw);
        assert_eq!(repairs.cut_off, looked.cut_off);
        assert!(repairs.released <= looked.released, "two records may name the same frames");
        assert_eq!(repairs.free_frames, before + repairs.released);
        let stats = zone.stats();
        assert_eq!((repairs.free_frames, repairs.free_huge), (stats.free_frames, stats.free_huge));
        let again = inspect(raw);
        assert_eq!((again.cut_off, again.released, again.is_nothing()), (0, 0, true));
        assert!(zone.last_operations().all(|last| last.end != End::UnderWay));
        released += repairs.released;
    }
    assert!(released > 1000 || cfg!(miri), "{released}");
}
