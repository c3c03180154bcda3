//! Every byte of the zone page and bytes of the parts changed: refused with the right error, or repaired and
//! reported, or harmless.

mod common;

use common::{Blocks, Buffer, G, churn, close, config, die, frames, judge, open};
use fastrand::Rng;
use woodlot_frame::{FrameAllocator, Init};
use woodlot_zone::{
    Cause, Check, Field, Info, MAGIC, Opened, PAGE, Phase, Repairs, Shared, Zone, ZoneError, erase,
    verify,
};

/// A zone with some frames in use, closed or not.
fn image(closed: bool) -> (Vec<u8>, Blocks) {
    let buffer = Buffer::of::<G>(&config());
    let mut owned = Blocks::new();
    // SAFETY: the buffer is this function's.
    let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, Shared) };
    let zone = zone.expect("a zone");
    churn(&*zone, &mut owned, 300, &mut Rng::with_seed(7));
    if closed {
        close(zone);
    }
    (buffer.image(), owned)
}

/// What is right where a byte of the zone page has changed.
fn is_right(at: usize, clean: bool, opened: &Result<Opened, ZoneError>) -> bool {
    let cause = match opened {
        Ok(Opened::Clean) => None,
        Ok(Opened::Recovered { cause, repairs }) => {
            let mut harmless = *repairs;
            harmless.closed = 0;
            assert!(harmless.is_nothing(), "the durable part was not damaged: {repairs:?}");
            Some(*cause)
        }
        Err(error) => {
            return match error {
                ZoneError::Mismatch { field: Field::Magic, expected: MAGIC, found } => {
                    at < 8 && *found != MAGIC
                }
                ZoneError::Checksum { expected, found } => {
                    (8..512).contains(&at) && expected != found
                }
                _ => false,
            };
        }
    };
    match at {
        ..512 => false,
        512..520 => cause == Some(Cause::State),
        // The seal.
        576..616 if clean => cause == Some(Cause::Seal),
        _ if clean => cause.is_none(),
        _ => cause == Some(Cause::InUse),
    }
}

#[test]
fn every_byte_of_the_zone_page() {
    let mut rng = Rng::with_seed(8);
    for clean in [true, false] {
        let (image, owned) = image(clean);
        let mut buffer = Buffer::of_image(&image);
        for at in 0..PAGE {
            for by in [1 << rng.u32(..8), rng.u8(1..)] {
                buffer.set_image(&image);
                buffer.flip(at, by);
                let damaged = buffer.image();
                // SAFETY: the buffer is this test's.
                let verdict = unsafe { verify::<G>(buffer.memory(), None) };
                assert_eq!(damaged, buffer.image(), "a look changes nothing");
                let opened = open(&buffer, Check::Quick, Shared);
                let said = opened.as_ref().map(|(_, opened)| *opened).map_err(|&error| error);
                assert!(is_right(at, clean, &said), "byte {at} by {by:#x}, {clean}: {said:?}");
                match (&said, &verdict) {
                    (Ok(Opened::Clean), Ok(verdict)) => assert!(verdict.is_clean(), "{verdict:?}"),
                    (Ok(Opened::Recovered { cause, repairs }), Ok(verdict)) => {
                        assert_eq!((verdict.cause, verdict.repairs), (Some(*cause), *repairs));
                    }
                    (Err(error), verdict) => {
                        assert_eq!(verdict.as_ref().err(), Some(error));
                        assert_eq!(damaged, buffer.image(), "what is refused changes nothing");
                    }
                    other => panic!("{other:?}"),
                }
                if let Ok((zone, _)) = opened {
                    judge(&*zone, &owned, true);
                }
            }
        }
    }
}

#[test]
fn bytes_of_the_durable_part_of_a_zone_in_use() {
    let mut rng = Rng::with_seed(9);
    let (image, _) = image(false);
    let mut buffer = Buffer::of_image(&image);
    let part = Info::read(buffer.memory()).expect("a zone").layout.durable;
    for round in 0..1500 {
        buffer.set_image(&image);
        for _ in 0..1 + round % 40 {
            buffer.flip(rng.usize(part.clone()), rng.u8(1..));
        }
        let (zone, opened) = open(&buffer, Check::Quick, Shared).expect("any bytes are accepted");
        assert!(matches!(opened, Opened::Recovered { cause: Cause::InUse, .. }));
        // Nobody knows who owned what; but nothing is handed out twice from here on.
        judge(&*zone, &Blocks::new(), false);
        die(zone);
        let (zone, again) = open(&buffer, Check::Quick, Shared).expect("it opens");
        let Opened::Recovered { repairs, .. } = again else { panic!("{again:?}") };
        let damage =
            [repairs.rows_reset, repairs.outside, repairs.states_cleared, repairs.cut_open];
        assert_eq!(damage, [0; 4], "round {round}");
        judge(&*zone, &Blocks::new(), false);
    }
}

#[test]
fn bytes_of_the_parts_of_a_closed_zone() {
    let mut rng = Rng::with_seed(10);
    let (image, owned) = image(true);
    let mut buffer = Buffer::of_image(&image);
    let layout = Info::read(buffer.memory()).expect("a zone").layout;
    for _ in 0..400 {
        buffer.set_image(&image);
        buffer.flip(rng.usize(layout.durable.clone()), rng.u8(1..));
        // SAFETY: the buffer is this test's.
        let verdict = unsafe { verify::<G>(buffer.memory(), None) }.expect("a zone");
        assert_eq!(
            (verdict.durable, verdict.cause, verdict.is_clean()),
            (Some(false), None, false)
        );
        let refused = open(&buffer, Check::Full, Shared).err();
        assert!(matches!(refused, Some(ZoneError::Damaged { .. })), "{refused:?}");
        let (zone, opened) = open(&buffer, Check::Recover, Shared).expect("it is repaired");
        assert!(matches!(opened, Opened::Recovered { cause: Cause::Asked, .. }));
        judge(&*zone, &Blocks::new(), false);
    }
    for _ in 0..400 {
        buffer.set_image(&image);
        buffer.flip(rng.usize(layout.volatile.clone()), rng.u8(1..));
        let (zone, opened) = open(&buffer, Check::Quick, Shared).expect("it is repaired");
        assert!(matches!(opened, Opened::Recovered { cause: Cause::Volatile, .. }));
        judge(&*zone, &owned, true);
    }
}

#[test]
fn each_repair_is_counted() {
    let (image, owned) = image(false);
    let mut buffer = Buffer::of_image(&image);
    let layout = Info::read(buffer.memory()).expect("a zone").layout;
    let opened = |buffer: &Buffer| {
        let (zone, opened) = open(buffer, Check::Quick, Shared).expect("it opens");
        let Opened::Recovered { repairs, .. } = opened else { panic!("{opened:?}") };
        assert_eq!(zone.stats().free_frames, repairs.free_frames);
        repairs
    };
    let undamaged = opened(&Buffer::of_image(&image));
    assert_eq!(undamaged.free_frames, config().frames - frames(&owned).count());
    let with = |change: fn(&mut Repairs)| {
        let mut repairs = undamaged;
        change(&mut repairs);
        repairs
    };
    // Frame 0 lies outside of the zone, in a huge frame that is split: its bit is turned.
    buffer.flip(layout.durable.start, 1);
    assert_eq!(opened(&buffer), with(|repairs| repairs.outside = 1));
    // The states of the last tree: huge frame 15 of its first word does not exist.
    buffer.set_image(&image);
    let states = layout.durable.end - 64;
    buffer.flip(states + 1, 0x80);
    assert_eq!(opened(&buffer), with(|repairs| repairs.states_cleared = 1));
    // The number of joins.
    buffer.set_image(&image);
    buffer.flip(states + 6, 1);
    let joins = 1 - undamaged.joins_cleared.min(1);
    let found = opened(&buffer);
    assert!(
        found.joins_cleared == undamaged.joins_cleared + joins || found == undamaged,
        "{found:?}"
    );
}

#[test]
fn a_row_of_a_huge_frame_that_is_not_split() {
    let mut buffer = Buffer::of::<G>(&config());
    // SAFETY: the buffer is this test's.
    let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, Shared) };
    let durable = zone.expect("a zone").layout().durable.clone();
    // A row for each huge frame; huge frame 7 is free.
    buffer.flip(durable.start + 7 * 8 + 2, 0x10);
    let (zone, opened) = open(&buffer, Check::Quick, Shared).expect("it opens");
    let Opened::Recovered { repairs, .. } = opened else { panic!("{opened:?}") };
    assert_eq!((repairs.rows_reset, repairs.free_frames), (1, config().frames));
    judge(&*zone, &Blocks::new(), true);
}

#[test]
fn foreign_bytes_are_no_zone() {
    let mut rng = Rng::with_seed(11);
    let len = Buffer::of::<G>(&config()).image().len();
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        let buffer = Buffer::of_image(&bytes);
        let magic = u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
        let refused = open(&buffer, Check::Quick, Shared).err();
        assert_eq!(refused, Some(ZoneError::Foreign { magic }));
        // SAFETY: the buffer is this test's.
        let zone = unsafe { Zone::<G, _>::attach(buffer.memory(), None, Shared) };
        assert_eq!(zone.err(), refused);
        // A zone can be made where anything was, persistent memory for one.
        // SAFETY: as above.
        let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, Shared) };
        judge(&*zone.expect("a zone"), &Blocks::new(), true);
    }
    let zeroes = Buffer::new(len);
    assert_eq!(Info::read(zeroes.memory()), Err(ZoneError::Empty));
    // Nothing but the first bytes.
    let mut text = Buffer::new(len);
    text.flip(0, b'#');
    assert_eq!(Info::read(text.memory()), Err(ZoneError::Foreign { magic: b'#' as u64 }));
    text.flip(0, b'#');
    text.flip(4095, 1);
    assert_eq!(Info::read(text.memory()), Err(ZoneError::Foreign { magic: 0 }));
}

/// Whoever formats a zone does not destroy one that can still be told to be one.
#[test]
fn a_damaged_zone_is_not_formatted_over() {
    let (image, owned) = image(true);
    let mut buffer = Buffer::of_image(&image);
    let format = |buffer: &Buffer| {
        // SAFETY: the buffer is this test's.
        let zone = unsafe { Zone::<G, _>::format(buffer.memory(), &config(), Init::Free, Shared) };
        zone.map(die)
    };
    let mut rng = Rng::with_seed(14);
    for at in 0..512 {
        buffer.set_image(&image);
        buffer.flip(at, rng.u8(1..));
        let before = buffer.image();
        let refused = Info::read(buffer.memory()).err();
        assert!(refused.is_some(), "byte {at}");
        assert_eq!(format(&buffer).err(), refused, "byte {at}");
        assert_eq!(before, buffer.image(), "nothing is changed");
    }
    buffer.set_image(&image);
    let (zone, _) = open(&buffer, Check::Full, Shared).expect("it opens");
    judge(&*zone, &owned, true);
    assert_eq!(format(&buffer), Err(ZoneError::Exists));
    // SAFETY: nobody uses the zone.
    unsafe { erase(buffer.memory(), &Shared) }.expect("nothing fails");
    assert_eq!(Info::read(buffer.memory()), Err(ZoneError::Empty));
    assert_eq!(format(&buffer), Ok(()));
}

/// The page of a zone that a program of another version wrote, with the right checksum.
fn from_another(field: Field, value: u64) -> Result<Info, ZoneError> {
    let (mut image, _) = image(true);
    image[field as usize * 8..][..8].copy_from_slice(&value.to_le_bytes());
    let mut buffer = Buffer::of_image(&image);
    let Err(ZoneError::Checksum { expected, .. }) = Info::read(buffer.memory()) else {
        panic!("the checksum is still that of before");
    };
    image[8..16].copy_from_slice(&expected.to_le_bytes());
    buffer.set_image(&image);
    Info::read(buffer.memory()).and_then(|info| {
        let refused = open(&buffer, Check::Quick, Shared).err();
        refused.map_or(Ok(info), Err)
    })
}

#[test]
fn the_future_is_refused_by_its_name() {
    let mismatch = |field, expected, found| Err(ZoneError::Mismatch { field, expected, found });
    assert_eq!(from_another(Field::Version, 2), mismatch(Field::Version, 1, 2));
    let features = ZoneError::Features { unknown: 1 << 40 };
    assert_eq!(from_another(Field::Incompatible, 1 << 40), Err(features));
    assert_eq!(from_another(Field::Engine, 9), mismatch(Field::Engine, 1, 9));
    assert_eq!(from_another(Field::EngineVersion, 2), mismatch(Field::EngineVersion, 1, 2));
    assert_eq!(from_another(Field::TreeHuge, 16), mismatch(Field::TreeHuge, 32, 16));
    assert_eq!(from_another(Field::Persistence, 77), mismatch(Field::Persistence, 0, 77));
    assert_eq!(from_another(Field::Classes, 9), Err(ZoneError::Classes));
    assert_eq!(from_another(Field::Turns1, 0), Err(ZoneError::Classes));
    let offset = mismatch(Field::VolatileOffset, 8192, 12288);
    assert_eq!(from_another(Field::VolatileOffset, 12288), offset);
    let info = from_another(Field::Compatible, !0).expect("they need not be known");
    assert_eq!(info.phase, Some(Phase::Clean));
}

#[test]
fn another_volatile_part_is_not_shared_but_recovered() {
    let (mut image, owned) = image(false);
    image[65 * 8] ^= 1;
    let buffer = Buffer::of_image(&image);
    // SAFETY: the buffer is this test's.
    let zone = unsafe { Zone::<G, _>::attach(buffer.memory(), None, Shared) };
    let field = Field::VolatileVersion;
    assert_eq!(zone.err(), Some(ZoneError::Mismatch { field, expected: 3, found: 2 }));
    let (zone, _) = open(&buffer, Check::Quick, Shared).expect("it opens");
    // SAFETY: nobody closes it.
    unsafe { Zone::<G, _>::attach(buffer.memory(), None, Shared) }.expect("it is in use");
    judge(&*zone, &owned, true);
}
