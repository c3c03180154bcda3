//! Damage of every kind must be an error, or at the worst another trace: never a panic, and never
//! memory without bound.

use std::path::Path;

use super::encode::{pack, payload};
use super::{MAGIC, read_binary, write_binary};
use crate::{Sources, Trace, load};

/// A trace that uses everything: lists, curve, markers, failures, strays.
fn small() -> Trace {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder is writable");
    };
    file("t.start-owned.txt", "U 0 16\n100 3 0 A\n");
    file("hidden-owned.txt", "7f0 16\n");
    file(
        "curve.csv",
        "time,label,free2MiB_replay_incl_pcp,free_pages_replay_incl_pcp\n1.000002,x,2,2024\n",
    );
    file(
        "t.txt",
        "a-1 [000] 1.000000: mm_page_alloc: pfn=0x200 order=3 migratetype=1\n\
         a-1 [001] 1.000001: mm_page_free: pfn=0x200 order=3\n\
         a-1 [001] 1.000002: tracing_mark_write: HALF\n\
         a-1 [001] 1.000003: mm_page_alloc: pfn=0x200 order=3 migratetype=1\n\
         a-1 [000] 1.000004: mm_page_free: pfn=0x204 order=1\n\
         a-1 [000] 1.000005: mm_page_alloc: pfn=FAILED order=9 migratetype=1\n\
         a-1 [000] 1.000006: mm_page_free: pfn=0x700 order=0\n\
         a-1 [000] 1.000007: cmpct_alloc: pfn=0x300 order=0\n",
    );
    load(&folder.path().join("t.txt"), &Sources::default()).expect("the files are right").trace
}

fn read(bytes: &[u8]) -> Result<Trace, String> {
    read_binary(bytes, Path::new("t.wtrace")).map_err(|error| error.to_string())
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = write_binary(&small()).expect("it is small");
    assert_eq!(read(&bytes), Ok(small()));
    for len in 0..bytes.len() {
        let error = read(&bytes[..len]).expect_err("something is missing");
        assert!(error.starts_with("t.wtrace: the trace is damaged: "), "{len}: {error}");
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    let bytes = write_binary(&small()).expect("it is small");
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn more_behind_the_end_is_an_error() {
    let mut bytes = write_binary(&small()).expect("it is small");
    bytes.extend(b"more");
    assert!(read(&bytes).is_err());
}

/// With a checksum that is right, the reader itself must see what makes no sense.
#[test]
fn a_payload_that_makes_no_sense_is_no_panic() {
    let payload = payload(&small()).expect("it is small");
    let mut errors = 0;
    for at in 0..payload.len() {
        for value in [0, 1, 2, 0x7f, 0x80, 0xff, payload[at] ^ 1, payload[at].wrapping_add(1)] {
            let mut payload = payload.clone();
            payload[at] = value;
            errors += usize::from(read(&pack(&payload).expect("it packs")).is_err());
        }
    }
    assert!(errors > payload.len(), "most of them are errors: {errors}");
    for len in 0..payload.len() {
        assert!(read(&pack(&payload[..len]).expect("it packs")).is_err(), "{len}");
    }
}

#[test]
fn headers_say_what_is_wrong() {
    let good = write_binary(&small()).expect("it is small");
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = good.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        read(&damaged).expect_err("the header is damaged")
    };
    assert!(with(0, b"\0").contains("does not begin like one"));
    assert!(with(8, &[2]).contains("its version is 2, and this program reads 1"));
    assert!(with(12, &[0xff; 8]).contains("claims to hold 18446744073709551615 bytes"));
    assert!(with(20, &[0; 4]).contains("checksum"));
    assert!(read(&MAGIC).expect_err("no header").contains("no whole header"));
}
