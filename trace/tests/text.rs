//! The text forms: what is accepted, and what is said about the rest.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use tempfile::TempDir;
use woodlot_trace::{EventKind, Loaded, Migrate, Result, Sources, StartUse, load};

/// A folder with files.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, bytes) in files {
            fs::write(folder.path(name), bytes).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self, name: &str) -> Result<Loaded> {
        load(&self.path(name), &Sources::default())
    }

    /// The message, without the folder's name.
    fn error(&self, name: &str) -> String {
        let error = self.load(name).expect_err("the file is damaged").to_string();
        error.replace(&format!("{}/", self.0.path().display()), "")
    }
}

const GOOD: &str = "\
a-1 [000] 1.000000: mm_page_alloc: pfn=0x2000 order=1 migratetype=2 gfp_flags=GFP_KERNEL
a-1 [001] 1.000001: mm_page_free: pfn=0x2000 order=0
a-1 [001] 1.000001: mm_page_free_batched: pfn=0x2000
a-1 [001] 1.000002: mm_page_free: pfn=0x7 order=0
a-1 [001] 1.000003: made_up_event: pfn=nonsense
a-1 [001] 1.000004: tracing_mark_write: THE END
";

fn xz(text: &str) -> Vec<u8> {
    let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 1);
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn zst(text: &str) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn every_packing_holds_the_same() {
    let (xz, zst) = (xz(GOOD), zst(GOOD));
    // Names say nothing: these are all swapped.
    let folder =
        Folder::new(&[("a.trace.txt.zst", GOOD.as_bytes()), ("a.txt.xz", &zst), ("a", &xz)]);
    let traces = ["a.trace.txt.zst", "a.txt.xz", "a"].map(|name| folder.load(name).unwrap().trace);
    assert_eq!(traces[0], traces[1]);
    assert_eq!(traces[0], traces[2]);
    assert_eq!((traces[0].events.len(), traces[0].markers.len()), (4, 1));
    let kind = traces[0].events[0].kind;
    assert!(matches!(kind, EventKind::Alloc { order: 1, migrate: Migrate::Reclaimable, .. }));
}

#[test]
fn archives_may_have_several_parts() {
    let parts =
        |pack: fn(&str) -> Vec<u8>| GOOD.lines().flat_map(|l| pack(&format!("{l}\n"))).collect();
    let (xz, zst): (Vec<u8>, Vec<u8>) = (parts(xz), parts(zst));
    let folder = Folder::new(&[("a.txt", GOOD.as_bytes()), ("a.xz", &xz), ("a.zst", &zst)]);
    let plain = folder.load("a.txt").unwrap().trace;
    assert_eq!(folder.load("a.xz").unwrap().trace, plain);
    assert_eq!(folder.load("a.zst").unwrap().trace, plain);
}

#[test]
fn what_is_missing_or_unknown_is_said() {
    let notes = Folder::new(&[("a.txt", GOOD.as_bytes())]).load("a.txt").unwrap().notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("made_up_event (1)"), "{notes:?}");
    assert!(notes[1].contains("a.start-owned.txt") && notes[1].contains("only the 1 frames"));
    assert!(notes[2].contains("curve.csv"));
}

#[test]
fn lists_are_found_beside_the_trace() {
    let files: &[(&str, &[u8])] = &[
        ("a.trace.txt", GOOD.as_bytes()),
        ("a.start-owned.txt.xz", &xz("# comment\nU 0 256\n100 6 0 A\n140 0 0 As\n200 0 1 P\n")),
        ("hidden-owned.txt", b"7cc60 160\n"),
    ];
    let trace = Folder::new(files).load("a.trace.txt").unwrap().trace;
    let start: Vec<_> = trace.start.iter().map(|s| (s.span.range(), s.usage)).collect();
    let of = StartUse::Allocated;
    let expected = [
        (0..0x100, StartUse::Boot),
        (0x100..0x141, of(Migrate::Unmovable)),
        (0x200..0x201, of(Migrate::Movable)),
    ];
    assert_eq!(start, expected);
    assert_eq!((trace.hidden.len(), trace.frames()), (1, 0x7d000));
    assert_eq!(trace.zones.len(), 2);
}

/// A bad line in the middle of good ones, and what must be said about it.
const BAD_LINES: &[(&str, &str)] = &[
    ("nonsense", "expected `comm-pid [cpu]"),
    ("a-1 000 1.000000: mm_page_free: pfn=0x1 order=0", "expected `comm-pid [cpu]"),
    ("a-1 [x] 1.000000: mm_page_free: pfn=0x1 order=0", "CPU `x` is not a number"),
    ("a-1 [4096] 1.000000: mm_page_free: pfn=0x1 order=0", "CPU 4096 is above"),
    ("a-1 [000] 1.0: mm_page_free: pfn=0x1 order=0", "time `1.0`"),
    ("a-1 [000] +1.000000: mm_page_free: pfn=0x1 order=0", "time `+1.000000`"),
    ("a-1 [000] 99999999999999999999.000000: mm_page_free: pfn=0x1 order=0", "time `9999"),
    ("a-1 [000] 18446744073709.000000: mm_page_free: pfn=0x1 order=0", ""),
    ("a-1 [000] 18446744073710.000000: mm_page_free: pfn=0x1 order=0", "time `1844"),
    ("a-1 [000] 1.000000: : pfn=0x1", "expected `comm-pid [cpu]"),
    ("a-1 [000] 1.000000: mm_page_free: order=0", "`pfn=` is missing"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0x1", "`order=` is missing"),
    ("a-1 [000] 1.000000: mm_page_free", "expected `comm-pid [cpu]"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0xzz order=0", "`0xzz` is not a frame number"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=FAILED order=0", "`FAILED` is not a frame number"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0x1 order=1", "no block of order 1"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0x1 order=-1", "order `-1` is not"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0x0 order=14", "order 14 is above"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0x10000000 order=0", "no block of order 0"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0xffffffffffffffff order=0", "no block of order 0"),
    ("a-1 [000] 1.000000: mm_page_free: pfn=0x1ffffffffffffffff order=0", "is not a frame number"),
    ("a-1 [000] 1.000000: mm_page_alloc: pfn=0x1 order=0", "`migratetype=` is missing"),
    ("a-1 [000] 1.000000: mm_page_alloc: pfn=0x1 order=0 migratetype=3", "migratetype 3 is not"),
];

#[test]
fn a_bad_line_is_named() {
    for (bad, what) in BAD_LINES {
        let text = format!("# one\n{GOOD}{bad}\n{GOOD}");
        let folder = Folder::new(&[("a.txt", text.as_bytes())]);
        if what.is_empty() {
            folder.load("a.txt").expect(bad);
        } else {
            let error = folder.error("a.txt");
            assert!(error.starts_with("a.txt:8: ") && error.contains(what), "{bad}: {error}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_named() {
    let long = vec![b'x'; 1 << 20];
    let files: &[(&str, &[u8])] =
        &[("empty", b""), ("binary", b"\xc3\x28 [000]\n"), ("long", &long), ("comment", b"# x\n")];
    let folder = Folder::new(files);
    assert_eq!(folder.error("binary"), "binary:1: the line is not text (UTF-8)");
    assert_eq!(folder.error("long"), "long:1: the line is longer than 65536 bytes");
    assert!(folder.error("empty").starts_with("empty: it holds no event"));
    assert!(folder.error("comment").starts_with("comment: it holds no event"));
    assert!(folder.error("missing").contains("missing: No such file"));
    assert!(
        load(folder.0.path(), &Sources::default()).unwrap_err().to_string().contains("directory")
    );
}

#[test]
fn damaged_archives_are_named() {
    let long = GOOD.repeat(500);
    for (name, packed) in [("a.xz", xz(&long)), ("a.zst", zst(&long))] {
        for len in [7, packed.len() / 2, packed.len() - 1] {
            let folder = Folder::new(&[(name, &packed[..len])]);
            let error = folder.error(name);
            assert!(error.contains("truncated") || error.contains("damaged"), "{len}: {error}");
        }
        let mut flipped = packed.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x10;
        let error = Folder::new(&[(name, &flipped)]).error(name);
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn damaged_lists_are_named() {
    for (bad, what) in [
        ("U 0", "expected `U pfn frames`"),
        ("U 0 0", "0 frames from 0"),
        ("U 0 99999999999", "are not a range"),
        ("U zz 1", "`zz` is not a frame number"),
        ("3 1 0 A", "no block of order 1"),
        ("0 0 9 A", "migratetype 9"),
        ("10 0 0 A", "owned twice"),
    ] {
        let list = format!("U 10 4\n{bad}\n");
        let files = [("a.txt", GOOD.as_bytes()), ("a.start-owned.txt", list.as_bytes())];
        let error = Folder::new(&files).error("a.txt");
        assert!(
            error.contains(what) && error.starts_with("a.start-owned.txt:2: "),
            "{bad}: {error}"
        );
    }
    let files = [("a.txt", GOOD.as_bytes()), ("hidden-owned.txt", b"zz 1\n".as_slice())];
    assert!(Folder::new(&files).error("a.txt").starts_with("hidden-owned.txt:1: "));
}

#[test]
fn a_curve_must_fit() {
    const HEAD: &str = "time,label,free2MiB_replay_incl_pcp,free_pages_replay_incl_pcp,other\n";
    for (rows, what) in [
        ("1.000001,every1,16,9214,\n", ""),
        ("0.5,every1,1,1,\n", "curve.csv:2: time `0.5`"),
        ("0.500000,early,1,1,\n900.000000,late,1,1,\n", ""),
        ("1.000001,every1,15,77,\n", "curve.csv:2: no event of a"),
        ("1.000002,every1,15\n", "curve.csv:2: the row has more or fewer"),
        ("1.000002,every1,many,1,\n", "curve.csv:2: "),
    ] {
        let curve = format!("{HEAD}{rows}");
        let folder = Folder::new(&[("a.txt", GOOD.as_bytes()), ("curve.csv", curve.as_bytes())]);
        if what.is_empty() {
            folder.load("a.txt").expect(rows);
        } else {
            let error = folder.error("a.txt");
            assert!(error.starts_with(what), "{rows}: {error}");
        }
    }
    let folder = Folder::new(&[("a.txt", GOOD.as_bytes()), ("curve.csv", b"time,label\n1.0,x\n")]);
    assert!(folder.error("a.txt").contains("missing field"), "{}", folder.error("a.txt"));
}
