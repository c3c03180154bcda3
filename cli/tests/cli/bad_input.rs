//! Whatever is wrong, the message names it, and nothing half-done stays.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use super::common::{Ended, Folder, TRACE, interrupted, shell};

#[test]
fn wrong_command_lines() {
    let folder = Folder::new();
    for (args, words) in [
        (&["--rounds", "x"][..], "invalid value 'x' for '--rounds <N>'"),
        (&["--rounds", "-1"], "-1"),
        (&["--rounds", "1001"], "1001 is not in 0..=1000"),
        (&["--rounds", "99999999999999999999"], "--rounds"),
        (&["--every", "0"], "0 is not in 1.."),
        (&["--starts", "0"], "0 is not in 1..=1000"),
        (&["--starts", "1001"], "1001 is not in 1..=1000"),
        (&["--threads", "--starts", "2"], "--starts"),
        (&["--compact", "--starts", "2"], "--starts"),
        (&["--every", "4294967296"], "--every"),
        (&["--engine", "buddy"], "invalid value 'buddy' for '--engine"),
        (&["--zones", "two"], "invalid value 'two' for '--zones"),
        (&["--out", ""], "--out"),
        (&["--out"], "--out"),
        (&["--threads", "--rounds", "1"], "--rounds"),
        (&["--threads", "--every", "9"], "--every"),
        (&["--gain", "5"], "--compact"),
        (&["--price", "5"], "--compact"),
        (&["--compact", "--gain", "1001"], "1001 is not in 0..=1000"),
        (&["--compact", "--price", "513"], "513 is not in 0..=512"),
        (&["--no-such"], "--no-such"),
        (&["no-such"], "no-such"),
        (&["replay"], "<FILE>..."),
        (&["replay", ""], "FILE"),
        (&["replay", "--curve", "", "a.trace.txt"], "--curve"),
        (&["replay", "a.trace.txt", "--rounds"], "--rounds"),
        (&["trace"], "Usage"),
        (&["trace", "convert", "a.trace.txt"], "<OUT>"),
        (&["trace", "convert", "a.trace.txt", "./a.trace.txt"], "./a.trace.txt: is what is read"),
        (&["trace", "info"], "<FILE>"),
    ] {
        folder.run(args).failed(2, words);
    }
    assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"]);
}

#[test]
fn bad_files() {
    let folder = Folder::new();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path(name), bytes).unwrap();
    write("damaged.txt", format!("{TRACE}a-1 [000] 1.5: mm_page_free: pfn=1 order=0\n").as_bytes());
    write("empty.txt", b"");
    folder.run(&["trace", "convert", "a.trace.txt", "whole.wtrace"]).succeeded();
    let whole = fs::read(folder.path("whole.wtrace")).unwrap();
    write("half.wtrace", &whole[..whole.len() / 2]);
    write("half.xz", b"\xfd7zXZ\0\0\x04");
    fs::create_dir(folder.path("folder")).unwrap();
    for (file, words) in [
        ("missing.txt", "missing.txt: No such file"),
        ("folder", "folder: Is a directory"),
        ("damaged.txt", "damaged.txt:6: time `1.5` is not"),
        ("empty.txt", "empty.txt: it holds no event"),
        ("half.wtrace", "half.wtrace: the trace is damaged"),
        ("half.xz", "half.xz: "),
        ("/dev/zero", "/dev/zero:1: the line is longer"),
    ] {
        folder.run(&["replay", file]).failed(1, words);
        folder.run(&["trace", "info", file]).failed(1, words);
        folder.run(&["trace", "convert", file, "out.wtrace"]).failed(1, words);
        assert!(!folder.path("out.wtrace").exists() && !folder.path("woodlot-out").exists());
    }
    for option in ["--start-owned", "--hidden-owned", "--curve"] {
        folder.run(&["replay", "a.trace.txt", option, "none"]).failed(1, "none: No such file");
        folder.run(&["replay", "a.trace.txt", option, "damaged.txt"]).failed(1, "damaged.txt");
        let own = "whole.wtrace: the binary form has its own lists, not damaged.txt";
        folder.run(&["replay", "whole.wtrace", option, "damaged.txt"]).failed(1, own);
    }
}

#[test]
fn unwritable_output() {
    let folder = Folder::new();
    fs::write(folder.path("file"), "").unwrap();
    for out in ["file", "file/below", "/proc/woodlot"] {
        folder.run(&["replay", "a.trace.txt", "--out", out]).failed(1, &format!("{out}: cannot"));
        folder.run(&["--out", out]).failed(1, &format!("{out}: cannot"));
    }
    for (out, words) in [
        (".", ".: cannot be written: it is there and not a file"),
        ("/dev/full", "/dev/full: cannot be written: it is there and not a file"),
        ("none/a.wtrace", "none/a.wtrace: cannot be written: "),
        ("file/a.wtrace", "file/a.wtrace: cannot be written: "),
    ] {
        folder.run(&["trace", "convert", "a.trace.txt", out]).failed(1, words);
    }
    assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt", "file"]);
}

/// A limit on the size of files stands in for a disk that is full: the write fails half-way. The message
/// names the file that was asked for, and not the one that takes its place until it is whole.
#[cfg(unix)]
#[test]
fn a_write_that_fails_half_way_leaves_nothing() {
    let folder = Folder::new();
    let bench =
        "bench repeat --engine all --order 0-10 --memory 64MiB --operations 10 --repetitions 1";
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report.json");
    // In blocks of 512 bytes: the SVG fails, or it fits and the PNG fails.
    for (limit, program, failure) in [
        (4, "replay a.trace.txt --rounds 0", "woodlot-out/free-huge.svg: cannot be written: "),
        (60, "replay a.trace.txt --rounds 0", "woodlot-out/free-huge.png: cannot be written: "),
        (4, &format!("{bench} --csv a.csv"), "a.csv: cannot be written: "),
        (4, &format!("{bench} --json ./a.json"), "./a.json: cannot be written: "),
        (1, "frag --memory 64MiB --iterations 50 --csv a.csv", "a.csv: cannot be written: "),
        (1, "frag --memory 64MiB --iterations 50 --svg a.svg", "a.svg: cannot be written: "),
        (0, "trace convert a.trace.txt a.wtrace", "a.wtrace: cannot be written: "),
        (
            9,
            &format!("report --from {} --out new", report.display()),
            "new: has no room for a report: ",
        ),
    ] {
        let ended =
            shell(&folder, &format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" {program}"));
        ended.failed(1, failure);
        assert!(!ended.stderr().contains(".woodlot-"), "{}", ended.stderr());
        assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"], "{program}");
    }
}

/// What a sweep could not write does not keep it from the screen.
#[cfg(unix)]
#[test]
fn results_that_cannot_be_written_are_printed_all_the_same() {
    let folder = Folder::new();
    fs::write(folder.path("a.csv"), "older").unwrap();
    let program = "bench repeat --memory 64MiB --operations 10 --repetitions 2 --csv a.csv";
    let ended = shell(&folder, &format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" {program}"));
    ended.failed(1, "a.csv: cannot be written: ");
    assert!(ended.stdout().contains("llfree       order 0 pair"), "{}", ended.stdout());
    assert_eq!(fs::read_to_string(folder.path("a.csv")).unwrap(), "older");
}

#[cfg(target_os = "linux")]
#[test]
fn standard_output_may_be_full() {
    let folder = Folder::new();
    for args in [&["trace", "info", "a.trace.txt"][..], &["--help"], &["-V"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = folder.woodlot(args).stdout(full).output().unwrap();
        Ended(output).failed(1, "standard output: No space left on device");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = Folder::new();
    let mut command = folder.woodlot(&["replay", "a.trace.txt", "--rounds", "0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = Ended(child.wait_with_output().unwrap());
    assert_eq!((ended.code(), ended.stderr().contains("panicked")), (Some(0), false));
    assert_eq!(folder.names("woodlot-out").len(), 4, "the work was done all the same");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let folder = Folder::new();
    for signal in ["-INT", "-TERM"] {
        interrupted(&folder, signal, &["--rounds", "1000"], "woodlot-out");
        assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"]);
    }
}
