//! Crashes at every synchronisation and between: each page of the memory is as it was at the last
//! synchronisation, or as it is, or torn between the two.

mod common;

use std::cell::RefCell;

use common::{Blocks, Buffer, G, Recorder, churn, close, config, die, judge};
use fastrand::Rng;
use woodlot_frame::{Batch, FrameAllocator, FrameId, Init, Order, Request, Slot};
use woodlot_zone::{
    Cause, Check, Closed, End, Info, Intents, Layout, Medium, NotDurable, Opened, Opening, PAGE,
    Phase, Zone, ZoneError,
};

/// What a crash could have left between `before` and `after`: each line, or each word of the zone page, is that of
/// the one or the other. The first and the last are the two themselves.
fn torn(before: &[u8], after: &[u8], rng: &mut Rng) -> Vec<Vec<u8>> {
    let mixed = (0..16).map(|_| {
        let mut image = before.to_vec();
        let whole = rng.bool();
        let mut at = 0;
        while at < image.len() {
            let step = if at < PAGE { 8 } else { [64, PAGE][whole as usize] };
            let end = (at + step).min(image.len());
            if rng.bool() {
                image[at..end].copy_from_slice(&after[at..end]);
            }
            at = end;
        }
        image
    });
    [before.to_vec()].into_iter().chain(mixed).chain([after.to_vec()]).collect()
}

fn begin<M: Medium>(buffer: &Buffer, medium: M) -> Result<Opening<'_, G, M>, ZoneError> {
    // SAFETY: the buffer is the caller's.
    unsafe { Opening::begin(buffer.memory(), Some(&config()), Check::Quick, medium) }
}

/// Opens an image, with a crash in the middle of it as well, and judges it.
fn opens(image: &[u8], owned: &Blocks) -> Result<Opened, ZoneError> {
    let buffer = Buffer::of_image(image);
    let medium = Recorder::new(&buffer, usize::MAX);
    let (zone, opened) = begin(&buffer, &medium)?.finish()?;
    judge(&*zone, owned, true);
    die(zone);
    let images = medium.images.borrow().clone();
    for image in images {
        let buffer = Buffer::of_image(&image);
        let medium = Recorder::new(&buffer, usize::MAX);
        let (zone, again) = begin(&buffer, &medium)?.finish()?;
        assert!(again != Opened::Clean || opened == Opened::Clean);
        judge(&*zone, owned, true);
    }
    Ok(opened)
}

/// The images at the synchronisations of `what`, each together with the memory as it was right before the next.
fn images(buffer: &Buffer, what: impl FnOnce(&Recorder<'_>)) -> Vec<Vec<u8>> {
    let recorder = Recorder::new(buffer, usize::MAX);
    what(&recorder);
    recorder.images.into_inner()
}

#[test]
fn a_format_is_there_or_not() {
    let mut rng = Rng::with_seed(20);
    let len = Buffer::of::<G>(&config()).image().len();
    let garbage: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
    let mut seen = [0; 4];
    for (old, init) in
        [(vec![0; len], Init::Free), (garbage, Init::Allocated), (vec![0xff; len], Init::Free)]
    {
        let foreign = Info::read(Buffer::of_image(&old).memory()).expect_err("no zone");
        let buffer = Buffer::of_image(&old);
        let steps = images(&buffer, |medium| {
            // SAFETY: the buffer is this test's.
            let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), init, medium) };
            assert!(zone.is_ok());
        });
        assert_eq!(steps.len(), 1 + 4, "mark, durable part, page, magic");
        for pair in steps.windows(2) {
            for image in torn(&pair[0], &pair[1], &mut rng) {
                let all = if init == Init::Free { Blocks::new() } else { all_blocks() };
                match opens(&image, &all) {
                    Err(ZoneError::Unfinished) => seen[0] += 1,
                    Err(error) if error == foreign => seen[1] += 1,
                    Ok(Opened::Recovered { cause: Cause::InUse, repairs }) => {
                        assert!(repairs.is_nothing(), "{repairs:?}");
                        seen[2] += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        // Over the remains of a format another one can begin.
        let remains = Buffer::of_image(&steps[2]);
        let medium = Recorder::new(&remains, usize::MAX);
        // SAFETY: the buffer is this test's.
        let zone =
            unsafe { Zone::<G, _>::format(remains.memory(), &config(), Init::Free, &medium) };
        judge(&*zone.expect("a zone"), &Blocks::new(), true);
        seen[3] += 1;
    }
    assert!(seen.iter().all(|&count| count > 2), "{seen:?}");
}

/// Every frame of the zone, one by one.
fn all_blocks() -> Blocks {
    (config().start.0..config().end().0).map(|frame| (frame, 0)).collect()
}

#[test]
fn a_close_and_an_opening_that_crash_lose_nothing() {
    let mut rng = Rng::with_seed(21);
    let mut seen = [0; 3];
    for round in 0..12 {
        let buffer = Buffer::of::<G>(&config());
        let mut owned = Blocks::new();
        let medium = Recorder::new(&buffer, usize::MAX);
        // SAFETY: the buffer is this test's.
        let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, &medium) };
        let zone = zone.expect("a zone");
        churn(&*zone, &mut owned, 50 * round, &mut rng);
        zone.sync().expect("nothing fails");
        let from = medium.images.borrow().len() - 1;
        close(zone);
        let (zone, opened) = begin(&buffer, &medium).and_then(Opening::finish).expect("it opens");
        assert_eq!(opened, Opened::Clean);
        die(zone);
        let (zone, _) = begin(&buffer, &medium).and_then(Opening::finish).expect("it opens");
        die(zone);
        let steps = medium.images.borrow()[from..].to_vec();
        for pair in steps.windows(2) {
            for image in torn(&pair[0], &pair[1], &mut rng) {
                match opens(&image, &owned).expect("a zone is there all the time") {
                    Opened::Clean => seen[0] += 1,
                    Opened::Recovered { cause: Cause::InUse, .. } => seen[1] += 1,
                    Opened::Recovered { cause: Cause::Opening, .. } => seen[2] += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 10), "{seen:?}");
}

/// Pages of a file are written at any time. What was allocated at a synchronisation, and is not freed since, is
/// allocated whichever pages are newer.
#[test]
fn what_was_synchronised_stays_allocated() {
    let mut rng = Rng::with_seed(22);
    for _ in 0..60 {
        let buffer = Buffer::of::<G>(&config());
        let medium = Recorder::new(&buffer, usize::MAX);
        let mut owned = Blocks::new();
        // SAFETY: the buffer is this test's.
        let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, &medium) };
        let zone = zone.expect("a zone");
        churn(&*zone, &mut owned, 150, &mut rng);
        zone.sync().expect("nothing fails");
        let (before, kept) = (buffer.image(), owned.clone());
        churn(&*zone, &mut owned, 60, &mut rng);
        let after = buffer.image();
        let kept: Blocks =
            kept.into_iter().filter(|(first, order)| owned.get(first) == Some(order)).collect();
        for image in torn(&before, &after, &mut rng) {
            let buffer = Buffer::of_image(&image);
            let medium = Recorder::new(&buffer, usize::MAX);
            let (zone, _) = begin(&buffer, &medium).and_then(Opening::finish).expect("it opens");
            judge(&*zone, &kept, false);
        }
    }
}

/// Power fails in an opening that takes a batch back which a crash has cut off: the next opening takes it back if this one
/// has not, and never again.
#[test]
fn an_opening_that_loses_power_resolves_a_call_once() {
    const COUNT: usize = 40;
    const DONE: usize = 30;
    let (layout, slot) = (Layout::with_intents::<G>(&config()).expect("a zone"), Slot(1));
    let buffer = Buffer::new(layout.len);
    let shared = Recorder::new(&buffer, usize::MAX);
    // SAFETY: the buffer is this test's.
    let zone =
        unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, Intents(&shared)) };
    let zone = zone.expect("a zone");
    let mut blocks = [FrameId(0); COUNT];
    let request = Request::movable(Order(1), slot);
    assert_eq!(zone.alloc_batch(request, Batch::All, &mut blocks), Ok(COUNT));
    die(zone);
    // As if it had come to block number `DONE`: see LAYOUT.md.
    let mut cut_off = buffer.image();
    let record = layout.durable.end - (config().slots - slot.0) * 4096;
    let header = (COUNT as u64) << 16 | (DONE as u64) << 8 | 15 << 4 | 1 << 2 | 1;
    cut_off[record..record + 8].copy_from_slice(&header.to_le_bytes());

    let buffer = Buffer::of_image(&cut_off);
    let medium = Recorder::new(&buffer, usize::MAX);
    let opened = begin(&buffer, Intents(&medium)).and_then(Opening::finish);
    let (zone, Opened::Recovered { repairs, .. }) = opened.expect("it opens") else {
        panic!("it is recovered")
    };
    assert_eq!((repairs.cut_off, repairs.released), (1, 2 * DONE));
    assert_eq!(zone.last_operation(slot).map(|last| last.end), Some(End::CutOff));
    die(zone);
    let durable = |image: &[u8]| image[layout.durable.clone()].to_vec();
    let state = |image: &[u8]| image[64 * 8..65 * 8].to_vec();
    let (steps, due) = (medium.images.into_inner(), buffer.image());
    assert_eq!(steps.len(), 1 + 5, "page, what was found, what was released, the record, page");
    assert!(durable(&steps[5]) == durable(&due), "all is durable");
    let mut rng = Rng::with_seed(24);
    let (mut seen, mut in_use) = ([0; 2], 0);
    for pair in steps.windows(2) {
        for image in torn(&pair[0], &pair[1], &mut rng) {
            if state(&image) == state(&due) {
                assert!(durable(&image) == durable(&due), "what is in use is recovered");
                in_use += 1;
            }
            let buffer = Buffer::of_image(&image);
            let medium = Recorder::new(&buffer, usize::MAX);
            let opened = begin(&buffer, Intents(&medium)).and_then(Opening::finish);
            let (zone, Opened::Recovered { repairs, .. }) = opened.expect("it opens") else {
                panic!("it is recovered")
            };
            assert!(durable(&buffer.image()) == durable(&due), "it leads to something else");
            seen[repairs.cut_off] += 1;
            // Who owns the frames now keeps them.
            for &block in &blocks[..DONE] {
                assert!(zone.alloc(Request::movable(Order(1), Slot(2)).at(block)).is_ok());
            }
            die(zone);
            let opened = begin(&buffer, Intents(&medium)).and_then(Opening::finish);
            let (zone, _) = opened.expect("it opens");
            assert!(blocks.iter().all(|&block| !zone.is_free(block, Order(0))));
        }
    }
    assert!(seen.iter().all(|&count| count > 10) && in_use > 0, "{seen:?}, {in_use}");
}

#[test]
fn a_medium_that_fails_is_reported_and_loses_nothing() {
    let failed = ZoneError::NotDurable(NotDurable(5));
    for fails_at in 1..12 {
        let buffer = Buffer::of::<G>(&config());
        let medium = Recorder::new(&buffer, fails_at);
        let owned = RefCell::new(Blocks::new());
        let live = || {
            // SAFETY: the buffer is this test's.
            let zone =
                unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, &medium) }?;
            churn(&*zone, &mut owned.borrow_mut(), 100, &mut Rng::with_seed(23));
            assert_eq!(zone.close()?, Closed::Clean);
            let (zone, _) = begin(&buffer, &medium)?.finish()?;
            die(zone);
            let (zone, _) = begin(&buffer, &medium)?.finish()?;
            die(zone);
            Ok(())
        };
        let lived: Result<(), ZoneError> = live();
        assert_eq!(lived, Err(failed), "{fails_at}");
        let image = buffer.image();
        match opens(&image, &owned.borrow()) {
            Err(ZoneError::Unfinished) => assert!(fails_at < 3),
            opened => assert!(opened.is_ok() && fails_at >= 3, "{opened:?}"),
        }
    }
    let buffer = Buffer::new(PAGE);
    assert_eq!(Info::read(buffer.memory()), Err(ZoneError::Empty));
    assert_eq!(Phase::Opening.to_string(), "being opened");
}
