//! Crashes at every synchronisation and between: each page of the memory is as it was at the last
//! synchronisation, or as it is, or torn between the two.

mod common;

use std::cell::RefCell;

use common::{Blocks, Buffer, G, Recorder, churn, close, config, die, judge};
use fastrand::Rng;
use woodlot_frame::Init;
use woodlot_zone::{
    Cause, Check, Closed, Info, NotDurable, Opened, Opening, PAGE, Phase, Zone, ZoneError,
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

fn begin<'b, 'r>(
    buffer: &'b Buffer,
    medium: &'r Recorder<'b>,
) -> Result<Opening<'b, G, &'r Recorder<'b>>, ZoneError> {
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
