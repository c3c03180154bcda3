//! The life of a zone: format, close, open, die, recover, attach.

mod common;

use std::thread;

use common::{Blocks, Buffer, G, churn, close, config, die, frames, judge, open};
use fastrand::Rng;
use woodlot_frame::{
    Base4K, Base16K, Batch, Class, ClassPolicy, FrameAllocator, FrameId, Geometry, HugeId, Init,
    InitError, Order, Request, Slot, ZoneConfig,
};
use woodlot_zone::{
    Adr, Cause, Check, Closed, Eadr, Field, File, Hidden, HugeUse, Info, Intents, Layout, Memory,
    Opened, Opening, Persistence, Phase, Repairs, Shared, Zone, ZoneError, in_use, verify, view,
};

fn format<'b>(buffer: &'b Buffer, config: &ZoneConfig) -> Zone<'b, G, Shared> {
    // SAFETY: every test has a buffer to itself.
    unsafe { Zone::format(buffer.memory(), config, Init::Free, Shared) }.expect("a zone")
}

fn attach(buffer: &Buffer) -> Result<Zone<'_, G, Shared>, ZoneError> {
    // SAFETY: the buffer is the memory of a zone from its beginning.
    unsafe { Zone::attach(buffer.memory(), Some(&config()), Shared) }
}

#[test]
fn a_closed_zone_goes_on_as_it_was() {
    let buffer = Buffer::of::<G>(&config());
    let (mut owned, mut rng) = (Blocks::new(), Rng::with_seed(1));
    let mut zone = format(&buffer, &config());
    for generation in 1..20 {
        assert_eq!(zone.generation(), generation);
        churn(&*zone, &mut owned, 300, &mut rng);
        (0..3).for_each(|slot| zone.drain(Slot(slot)).expect("a slot"));
        let (free, before) = (zone.free_frames(), zone.stats());
        close(zone);
        // SAFETY: nobody uses the zone.
        let verdict = unsafe { verify::<G>(buffer.memory(), None) }.expect("a zone");
        assert!(verdict.is_clean(), "{verdict:?}");
        assert_eq!(verdict.info.phase, Some(Phase::Clean));
        let check = if generation % 2 == 0 { Check::Full } else { Check::Quick };
        let opened;
        (zone, opened) = open(&buffer, check, Shared).expect("it opens");
        assert_eq!((opened, zone.stats(), zone.free_frames()), (Opened::Clean, before, free));
    }
    judge(&*zone, &owned, true);
}

#[test]
fn a_zone_that_was_not_closed_is_recovered_and_once_is_enough() {
    let mut rng = Rng::with_seed(2);
    for round in 0..30 {
        let buffer = Buffer::of::<G>(&config());
        let mut owned = Blocks::new();
        let zone = format(&buffer, &config());
        churn(&*zone, &mut owned, 200 + round * 10, &mut rng);
        // It is dropped, as by a process that dies.
        die(zone);
        // SAFETY: nobody uses the zone.
        let verdict = unsafe { verify::<G>(buffer.memory(), Some(&config())) }.expect("a zone");
        assert_eq!((verdict.cause, verdict.durable), (Some(Cause::InUse), None));
        let (zone, opened) = open(&buffer, Check::Quick, Shared).expect("it opens");
        let Opened::Recovered { cause: Cause::InUse, repairs } = opened else {
            panic!("{opened:?}");
        };
        assert_eq!(repairs, verdict.repairs, "a look finds what a recovery repairs");
        assert_eq!(repairs.free_frames, zone.stats().free_frames);
        assert_eq!(repairs.free_frames, config().frames - frames(&owned).count());
        assert_eq!((repairs.trees, repairs.free_huge), (3, zone.stats().free_huge));
        assert_eq!(
            [repairs.rows_reset, repairs.outside, repairs.states_cleared, repairs.cut_open],
            [0; 4]
        );
        let durable = zone.layout().durable.clone();
        die(zone);
        let before = buffer.image();
        let (zone, again) = open(&buffer, Check::Quick, Shared).expect("it opens");
        let Opened::Recovered { repairs: second, .. } = again else { panic!("{again:?}") };
        assert!(second.is_nothing() && second.joins_cleared == 0, "{second:?}");
        assert_eq!(before[durable.clone()], buffer.image()[durable], "nothing is left to repair");
        judge(&*zone, &owned, true);
    }
}

#[test]
fn several_threads_recover_what_one_does() {
    let config = ZoneConfig::new(1000 * G::TREE_FRAMES - 9, 2).starting_at(FrameId(77));
    let (mut owned, mut rng) = (Blocks::new(), Rng::with_seed(3));
    let buffer = Buffer::of::<G>(&config);
    let zone = format(&buffer, &config);
    churn(&*zone, &mut owned, 20_000, &mut rng);
    die(zone);
    let mut ends = Vec::new();
    for threads in 1..5 {
        let copy = Buffer::of_image(&buffer.image());
        let begin = || {
            // SAFETY: the copy is this round's.
            unsafe { Opening::<G, _>::begin(copy.memory(), Some(&config), Check::Quick, Shared) }
        };
        let opening = begin().expect("it opens");
        // SAFETY: nobody uses it; it is only looked at.
        let while_opening = unsafe { Zone::<G, _>::attach(copy.memory(), None, Shared) };
        assert_eq!(while_opening.err(), Some(ZoneError::NotInUse(Some(Phase::Opening))));
        thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(|| opening.help())));
        });
        let (zone, opened) = opening.finish().expect("it opens");
        ends.push((opened, zone.stats(), zone.free_frames()));
        die(zone);
        // One that stops before its end is done again.
        let begun = begin().expect("it opens");
        begun.help();
        die(begun);
        let (_, again) = begin().and_then(Opening::finish).expect("it opens");
        assert!(matches!(again, Opened::Recovered { cause: Cause::Opening, .. }), "{again:?}");
    }
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{ends:?}");
}

#[test]
fn who_attaches_sees_what_the_others_do() {
    let buffer = Buffer::of::<G>(&config());
    let one = format(&buffer, &config());
    let two = attach(&buffer).expect("it is in use");
    let (mut of_one, mut of_two, mut rng) = (Blocks::new(), Blocks::new(), Rng::with_seed(4));
    for _ in 0..20 {
        churn(&*one, &mut of_one, 40, &mut rng);
        churn(&*two, &mut of_two, 40, &mut rng);
        assert_eq!((one.stats(), one.free_frames()), (two.stats(), two.free_frames()));
    }
    // One frees what the other one allocated.
    for (first, order) in std::mem::take(&mut of_two) {
        one.free(FrameId(first), Order(order), Slot(2)).expect("it is allocated");
    }
    // Who formatted it dies; the other one goes on, and closes it.
    die(one);
    churn(&*two, &mut of_one, 100, &mut rng);
    let at_once = |zone: &Zone<'_, G, Shared>, slot: usize, mut rng: Rng| {
        let mut blocks = Blocks::new();
        churn(&**zone, &mut blocks, 3000, &mut rng);
        for (first, order) in blocks {
            zone.free(FrameId(first), Order(order), Slot(slot)).expect("it is allocated");
        }
    };
    let three = attach(&buffer).expect("it is in use");
    thread::scope(|scope| {
        scope.spawn(|| at_once(&two, 0, Rng::with_seed(5)));
        scope.spawn(|| at_once(&three, 1, Rng::with_seed(6)));
    });
    die(three);
    close(two);
    assert_eq!(attach(&buffer).err(), Some(ZoneError::NotInUse(Some(Phase::Clean))));
    let (zone, opened) = open(&buffer, Check::Full, Shared).expect("it opens");
    assert_eq!(opened, Opened::Clean);
    judge(&*zone, &of_one, true);
}

#[test]
fn a_zone_lies_anywhere_and_in_more_memory_than_it_needs() {
    let config = ZoneConfig::new(3 * Base4K::TREE_FRAMES, 2);
    let layout = Layout::of::<Base4K>(&config).expect("a zone");
    assert!(layout.durable.end <= layout.volatile.start && layout.volatile.end <= layout.len);
    let buffer = Buffer::new(layout.len + 3 * 4096);
    // SAFETY: the buffer is the test's.
    let make =
        |memory| unsafe { Zone::<Base4K, _>::format(memory, &config, Init::Allocated, Eadr) };
    let short = ZoneError::Short { needed: layout.len, given: layout.len - 4096 };
    let none = buffer.first(layout.len - 4096).and_then(make);
    assert_eq!(none.err(), Some(short));
    assert_eq!(Info::read(buffer.memory()), Err(ZoneError::Empty), "nothing was changed");
    let zone = buffer.first(layout.len).and_then(make).expect("it fits");
    let huge = Order::huge::<Base4K>();
    assert_eq!(zone.stats().free_frames, 0);
    zone.free(FrameId(512), huge, Slot(1)).expect("all are allocated");
    close(zone);
    assert_eq!(make(buffer.memory()).err(), Some(ZoneError::Exists));
    // Grown: harmless. Truncated: refused.
    let opened = |len| {
        let memory = buffer.first(len)?;
        // SAFETY: the buffer is the test's.
        let (zone, opened) = unsafe { Zone::<Base4K, _>::open(memory, None, Check::Quick, Eadr) }?;
        assert_eq!((zone.stats().free_frames, opened), (512, Opened::Clean));
        assert_eq!(zone.zone(), &config);
        close(zone);
        Ok(())
    };
    assert_eq!(opened(layout.len + 3 * 4096), Ok(()));
    assert_eq!(opened(layout.len - 4096), Err(short));
    assert_eq!(opened(4096), Err(ZoneError::Short { needed: layout.len, given: 4096 }));
    assert_eq!(opened(4095), Err(ZoneError::Short { needed: 4096, given: 4095 }));
    assert_eq!(opened(layout.len), Ok(()));
    // At another address, as another process would have it.
    let moved = Buffer::of_image(&buffer.image());
    // SAFETY: the buffer is the test's.
    let (zone, _) = unsafe { Zone::<Base4K, _>::open(moved.memory(), None, Check::Full, Eadr) }
        .expect("it opens");
    assert_eq!(zone.alloc(Request::movable(huge, Slot(0))), Ok(FrameId(512)));
    // SAFETY: nothing is read or written.
    let misaligned = unsafe { Memory::new(buffer.start().wrapping_add(64), 8192) };
    let address = buffer.start().addr() + 64;
    assert_eq!(misaligned.err(), Some(ZoneError::Misaligned { address }));
    // SAFETY: as above.
    let null = unsafe { Memory::new(std::ptr::null_mut(), 8192) };
    assert_eq!(null.err(), Some(ZoneError::Misaligned { address: 0 }));
}

/// Opens the zone of [`config`] expecting something else.
fn expecting<G: Geometry>(buffer: &Buffer, config: Option<ZoneConfig>) -> Option<ZoneError> {
    // SAFETY: the buffer is the test's.
    let opened =
        unsafe { Zone::<G, _>::open(buffer.memory(), config.as_ref(), Check::Quick, Shared) };
    opened.err()
}

#[test]
fn what_does_not_match_is_said() {
    let buffer = Buffer::of::<G>(&config());
    close(format(&buffer, &config()));
    let before = buffer.image();
    let mismatch = |field, expected, found| Some(ZoneError::Mismatch { field, expected, found });
    assert_eq!(expecting::<Base4K>(&buffer, None), mismatch(Field::BaseShift, 12, 16));
    assert_eq!(expecting::<Base16K>(&buffer, None), mismatch(Field::BaseShift, 14, 16));
    let with = |change: fn(&mut ZoneConfig)| {
        let mut config = config();
        change(&mut config);
        expecting::<G>(&buffer, Some(config))
    };
    let frames = config().frames as u64;
    assert_eq!(with(|zone| zone.frames += 1), mismatch(Field::Frames, frames + 1, frames));
    assert_eq!(with(|zone| zone.start.0 = 6), mismatch(Field::Start, 6, 5));
    assert_eq!(with(|zone| zone.slots = 4), mismatch(Field::Slots, 4, 3));
    assert_eq!(with(|zone| zone.classes = ClassPolicy::SINGLE), mismatch(Field::Classes, 1, 4));
    let fills = with(|zone| {
        let rows: [(u8, &[u8]); 4] =
            [(4, &[0, 2, 1, 3]), (3, &[1, 3, 2, 0]), (2, &[2, 0, 1, 3]), (2, &[3, 1, 2, 0])];
        zone.classes = ClassPolicy::new(&rows).expect("rows");
    });
    assert_eq!(fills, mismatch(Field::Fills, 0x0202_0304, 0x0202_0204));
    let turns = with(|zone| {
        let rows: [(u8, &[u8]); 4] =
            [(4, &[0, 2, 1, 3]), (2, &[1, 3, 2, 0]), (2, &[2, 1, 0, 3]), (2, &[3, 1, 2, 0])];
        zone.classes = ClassPolicy::new(&rows).expect("rows");
    });
    assert_eq!(turns, mismatch(Field::Turns2, 0x0300_0102, 0x0301_0002));
    assert_eq!(with(|zone| zone.frames = 0), Some(ZoneError::Config(InitError::EmptyZone)));
    // SAFETY: the buffer is the test's.
    let other = unsafe { Zone::<G, _>::open(buffer.memory(), None, Check::Quick, Eadr) };
    assert_eq!(other.err(), mismatch(Field::Persistence, 1, 0));
    let file = File(|_| Ok(()));
    // SAFETY: the buffer is the test's.
    let other = unsafe { Zone::<G, _>::open(buffer.memory(), None, Check::Quick, file) };
    assert_eq!(other.err(), mismatch(Field::Persistence, 3, 0));
    // SAFETY: the buffer is the test's.
    let other = unsafe { Zone::<G, _>::open(buffer.memory(), None, Check::Quick, Intents(Shared)) };
    assert_eq!(other.err(), Some(ZoneError::Intents { kept: false }));
    // SAFETY: the buffer is the test's.
    let recover = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Recover, Eadr) };
    assert_eq!(recover.err(), Some(ZoneError::Config(InitError::Unsupported)));
    assert_eq!(before, buffer.image(), "what is refused changes nothing");
    let info = Info::read(buffer.memory()).expect("a zone");
    let said = (info.config, info.base_shift, info.huge_order, info.tree_huge, info.persistence);
    assert_eq!(said, (config(), 16, 5, 32, Some(Persistence::None)));
    assert_eq!((info.phase, info.generation), (Some(Phase::Clean), 1));
    assert_eq!(info.layout, Layout::of::<G>(&config()).expect("a zone"));
}

/// Where the processor can write lines back.
#[test]
fn a_zone_whose_writes_are_written_back() {
    let Some(adr) = <woodlot_frame::Adr as woodlot_frame::Persistence>::detect().map(Adr) else {
        return;
    };
    let buffer = Buffer::of::<G>(&config());
    let (mut owned, mut rng) = (Blocks::new(), Rng::with_seed(30));
    // SAFETY: the buffer is the test's.
    let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, adr) };
    let zone = zone.expect("a zone");
    churn(&*zone, &mut owned, 300, &mut rng);
    // SAFETY: the buffer is the memory of a zone from its beginning.
    let other = unsafe { Zone::<G, _>::attach(buffer.memory(), None, adr) }.expect("it is in use");
    churn(&*other, &mut owned, 300, &mut rng);
    let (opened, causes) = (|| open(&buffer, Check::Full, adr), [Some(Cause::InUse), None]);
    for cause in causes {
        let (zone, opened) = opened().expect("it opens");
        let found = match opened {
            Opened::Recovered { cause, .. } => Some(cause),
            Opened::Clean => None,
        };
        assert_eq!(found, cause);
        churn(&*zone, &mut owned, 300, &mut rng);
        close(zone);
    }
    let mismatch = ZoneError::Mismatch { field: Field::Persistence, expected: 0, found: 2 };
    assert_eq!(open(&buffer, Check::Full, Shared).err(), Some(mismatch));
    judge(&*opened().expect("it opens").0, &owned, true);
}

#[test]
fn classes_of_trees_outlive_a_close() {
    let buffer = Buffer::of::<G>(&config());
    let zone = format(&buffer, &config());
    for class in zone.classes().all() {
        zone.alloc(Request::new(Order(0), class, Slot(0))).expect("there is much");
    }
    (0..3).for_each(|slot| zone.drain(Slot(slot)).expect("a slot"));
    let before = zone.stats();
    assert!(before.classes[Class::IMMOVABLE.0 as usize].trees > 0);
    close(zone);
    let (zone, _) = open(&buffer, Check::Quick, Shared).expect("it opens");
    assert_eq!(zone.stats().classes, before.classes);
    die(zone);
    let (zone, _) = open(&buffer, Check::Quick, Shared).expect("it opens");
    assert_eq!(zone.stats().classes[Class::MOVABLE.0 as usize].trees, 3, "they are not durable");
}

/// A zone that is closed has no isolators any more: what was free there can be had after the next opening.
#[test]
fn a_close_ends_isolation() {
    let buffer = Buffer::of::<G>(&config());
    let zone = format(&buffer, &config());
    let free = zone.stats().free_frames;
    let huge: Vec<_> = zone.free_huge_frames().take(2).collect();
    let [used, empty] = huge[..] else { panic!("two are free") };
    let frame = used.first::<G>();
    zone.alloc(Request::movable(Order(3), Slot(0)).at(frame)).expect("it is free");
    [used, empty].into_iter().for_each(|huge| zone.isolate(huge, 1).expect("it is in the zone"));
    close(zone);
    let (zone, opened) = open(&buffer, Check::Quick, Shared).expect("it opens");
    assert_eq!(opened, Opened::Clean);
    assert!(![used, empty].iter().any(|&huge| zone.is_isolated(huge)));
    let stats = zone.stats();
    assert_eq!((stats.free_frames, stats.isolated_huge), (free - 8, 0));
    zone.free(frame, Order(3), Slot(0)).expect("it is allocated");
    zone.alloc(Request::movable(Order::huge::<G>(), Slot(0)).at(frame)).expect("it is free");
    close(zone);
}

/// A look at a zone says of every huge frame, slot and class what the allocator says, and writes nothing.
#[test]
fn who_looks_sees_what_is_there_and_writes_nothing() {
    let buffer = Buffer::of::<G>(&config());
    let (mut owned, mut rng) = (Blocks::new(), Rng::with_seed(8));
    let zone = format(&buffer, &config());
    let whole = zone.alloc(Request::movable(Order::huge::<G>(), Slot(0))).expect("one is free");
    let offline = zone.free_huge_frames().next_back().expect("one is free");
    zone.offline(offline, 1).expect("it is free");
    churn(&*zone, &mut owned, 900, &mut rng);
    let before = buffer.image();
    in_use(buffer.memory()).expect("it is in use");
    // SAFETY: the buffer stays, and is written by the zone.
    let (info, look) = unsafe { view::<G>(buffer.memory()) }.expect("a zone");
    let (stats, slots): (_, Vec<_>) = (look.stats(), look.slots().collect());
    let huge: Vec<_> = look.huge_frames().collect();
    assert!(buffer.image() == before, "nothing was written");
    assert_eq!((info.config, stats), (config(), zone.stats()));

    let containing = |frame: FrameId| HugeId(frame.0 >> G::HUGE_ORDER);
    let mut next = config().start;
    for huge in &huge {
        assert_eq!(huge.id, containing(next), "one after the other");
        let used_as = match huge.used_as {
            HugeUse::Free => G::HUGE_FRAMES,
            HugeUse::Split { free } => free,
            HugeUse::Whole | HugeUse::Offline => 0,
        };
        assert_eq!(used_as, zone.free_in_huge(huge.id), "{huge:?}");
        assert_eq!(huge.used_as == HugeUse::Offline, huge.id == offline, "{huge:?}");
        next.0 += huge.frames;
    }
    assert_eq!(next, config().end(), "every frame once");
    let of = |frame: FrameId| huge.iter().find(|huge| huge.id == containing(frame));
    assert_eq!(of(whole).map(|huge| huge.used_as), Some(HugeUse::Whole));

    let balance: i64 = slots.iter().map(|slot| slot.balance).sum();
    // What is offline is free no more, and no slot has allocated it.
    let used = config().frames - stats.free_frames - G::HUGE_FRAMES;
    assert_eq!((slots.len(), balance), (3, used as i64));
    let held: usize = slots.iter().flat_map(|slot| slot.held).sum();
    assert!(held > 0 && held <= stats.free_frames, "{slots:?}");
    for slot in 0..3 {
        zone.drain(Slot(slot)).expect("a slot");
    }
    assert!(look.slots().all(|slot| slot.held.iter().all(|&held| held == 0)));

    close(zone);
    let closed = Err(ZoneError::NotInUse(Some(Phase::Clean)));
    assert_eq!(in_use(buffer.memory()), closed);
}

/// A zone whose volatile part a call has changed that died in the middle: `change` has the counters of the children, or
/// the words of the trees. It is closed by who lives on.
fn closed_after_a_death(change: impl FnOnce(&Layout, &mut [u8])) -> (Hidden, Repairs) {
    let mut buffer = Buffer::of::<G>(&config());
    let (mut owned, mut rng) = (Blocks::new(), Rng::with_seed(31));
    let zone = format(&buffer, &config());
    churn(&*zone, &mut owned, 300, &mut rng);
    (0..3).for_each(|slot| zone.drain(Slot(slot)).expect("a slot"));
    assert_eq!(zone.hidden(), Hidden::default());
    let layout = zone.layout().clone();
    die(zone);
    let mut image = buffer.image();
    change(&layout, &mut image);
    buffer.set_image(&image);
    let survivor = attach(&buffer).expect("it is in use");
    let hidden = survivor.hidden();
    assert!(!hidden.is_nothing());
    assert_eq!(survivor.close(), Ok(Closed::ToRecover(hidden)));
    assert_eq!(Info::read(buffer.memory()).expect("a zone").phase, Some(Phase::InUse));
    let (zone, opened) = open(&buffer, Check::Quick, Shared).expect("it opens");
    let Opened::Recovered { cause: Cause::InUse, repairs } = opened else { panic!("{opened:?}") };
    assert_eq!(zone.hidden(), Hidden::default());
    close(zone);
    let (zone, opened) = open(&buffer, Check::Full, Shared).expect("it opens");
    assert_eq!(opened, Opened::Clean);
    judge(&*zone, &owned, true);
    (hidden, repairs)
}

#[test]
fn a_close_does_not_seal_what_a_death_has_hidden() {
    // At the end of the volatile part: three trees, a line each, and a word for each of the 68 huge frames.
    let (trees, counters) = (|layout: &Layout| layout.volatile.end - 320 - 192, 320);
    // The credits of a child are in the hands of a call.
    let mut taken = 0;
    let (hidden, _) = closed_after_a_death(|layout, image| {
        let words =
            image[layout.volatile.end - counters..layout.volatile.end].as_chunks_mut::<4>().0;
        let word = words.iter_mut().find(|word| **word != [0; 4]).expect("a split huge frame");
        taken = u32::from_le_bytes(std::mem::take(word)) as usize;
    });
    assert!(hidden.frames == taken && taken > 0, "{hidden:?}, {taken}");
    // A tree is reserved for nobody.
    let (hidden, _) = closed_after_a_death(|layout, image| image[trees(layout) + 4] ^= 8);
    assert_eq!((hidden.frames, hidden.trees), (0, 1));
    // No child of a tree is known to have credits.
    let (hidden, _) = closed_after_a_death(|layout, image| {
        image[trees(layout)..][..4].fill(0);
    });
    assert_eq!((hidden.frames, hidden.trees), (0, 1));
}

/// The room of the records is the caller's choice, and stands in the zone page. On a file a record has one page.
#[test]
fn the_room_of_records() {
    let roomy = config().with_record_room(1000);
    let layout = Layout::with_intents::<G>(&roomy).expect("a zone");
    let buffer = Buffer::new(layout.len);
    // SAFETY: the buffer is the test's.
    let format = |config| unsafe {
        Zone::<G, _>::format(buffer.memory(), config, Init::Free, Intents(Shared))
    };
    let zone = format(&roomy).expect("a zone");
    assert_eq!(zone.batch_room(Order(0)), 1003);
    let mut out = vec![FrameId(0); 600];
    let request = Request::movable(Order(1), Slot(0));
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut out), Ok(600));
    close(zone);
    let info = Info::read(buffer.memory()).expect("a zone");
    assert_eq!((info.intents, info.config.record_room), (true, 1003));
    // SAFETY: nobody uses the zone.
    let verdict = unsafe { verify::<G>(buffer.memory(), None) }.expect("a zone");
    assert!(verdict.is_clean());
    // SAFETY: as above.
    let open = |expected| unsafe {
        Zone::<G, _>::open(buffer.memory(), Some(expected), Check::Quick, Intents(Shared))
    };
    let (before, other) = (buffer.image(), config());
    let mismatch = ZoneError::Mismatch { field: Field::RecordRoom, expected: 255, found: 1003 };
    assert_eq!(open(&other).err(), Some(mismatch));
    assert_eq!(before, buffer.image(), "what is refused changes nothing");
    let (zone, opened) = open(&roomy).expect("it opens");
    assert_eq!((opened, zone.batch_room(Order(1))), (Opened::Clean, 1003));
    zone.free_batch(&out, Order(1), Slot(1)).expect("they are allocated");
    let file = || Intents(File(|_| Ok(())));
    // SAFETY: as above.
    let format =
        |config| unsafe { Zone::<G, _>::format(buffer.memory(), config, Init::Free, file()) };
    let [more, less, apart] = [256, 252, 100].map(|room| other.with_record_room(room));
    assert_eq!(format(&more).err(), Some(ZoneError::RecordOnFile { room: 259 }));
    assert_eq!(format(&apart).err(), Some(ZoneError::RecordOnFile { room: 103 }));
    assert_eq!(format(&less).err(), Some(ZoneError::Exists));
}

/// A zone keeps intents from its format on, and names what its slots did also after it was closed.
#[test]
fn a_zone_with_intents() {
    let layout = Layout::with_intents::<G>(&config()).expect("a zone");
    let plain = Layout::of::<G>(&config()).expect("a zone").durable.len();
    assert_eq!(layout.durable.len(), plain.next_multiple_of(4096) + config().slots * 4096);
    let buffer = Buffer::new(layout.len);
    // SAFETY: the buffer is the test's.
    let zone =
        unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, Intents(Shared)) };
    let zone = zone.expect("a zone");
    let block = zone.alloc(Request::movable(Order(3), Slot(2))).expect("most is free");
    close(zone);
    assert!(Info::read(buffer.memory()).expect("a zone").intents);
    // SAFETY: nobody uses the zone.
    let verdict = unsafe { verify::<G>(buffer.memory(), None) };
    assert!(verdict.expect("a zone").is_clean());
    let before = buffer.image();
    assert_eq!(open(&buffer, Check::Quick, Shared).err(), Some(ZoneError::Intents { kept: true }));
    assert_eq!(before, buffer.image(), "what is refused changes nothing");
    let (zone, opened) = open(&buffer, Check::Quick, Intents(Shared)).expect("it opens");
    assert_eq!(opened, Opened::Clean);
    let last = zone.last_operation(Slot(2)).expect("there was one");
    let named = zone.frames_of(last).next().expect("it names a block");
    assert_eq!((named.start, named.count, named.free), (block, 8, 0));
    assert_eq!(zone.last_operations().count(), 1);
}
