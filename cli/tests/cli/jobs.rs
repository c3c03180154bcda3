//! What the program does when all is well.

use std::fs;

use super::common::{Folder, png_size};
use serde_json::Value;

const FILES: [&str; 4] = ["free-huge.csv", "free-huge.png", "free-huge.svg", "summary.json"];

#[test]
fn without_arguments_the_shipped_traces_are_replayed() {
    let folder = Folder::new();
    let text = folder.run(&["--rounds", "1"]).succeeded();
    for words in ["boot: ", "build: ", "pressure: ", "zones: one over all frames", " ns each"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(text.matches("checks: no frame lost").count(), 3, "{text}");
    assert!(!text.contains('\x1b'), "no colours where nobody looks");
    assert_eq!(folder.names("woodlot-out"), FILES);
    for file in FILES {
        assert!(text.contains(&format!("wrote woodlot-out/{file}")), "{text}");
    }
    let summary = fs::read(folder.path("woodlot-out/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    for (phase, linux) in [(1, 0.977), (2, 0.592)] {
        let phase = &summary["phases"][phase];
        let mean = |side: &str| phase[side]["ratio"].as_f64().unwrap();
        assert!((mean("linux_means") - linux).abs() < 0.0005, "{phase}");
        assert!(mean("engine_means") > linux, "{phase}");
    }
    let curve = fs::read_to_string(folder.path("woodlot-out/free-huge.csv")).unwrap();
    assert_eq!(curve.lines().count(), 1 + 11 + 79 + 102);
    let (width, height) = png_size(&folder.path("woodlot-out/free-huge.png"));
    assert!(width >= 1200 && height >= 1200);
}

#[test]
fn a_text_and_its_compact_form_replay_alike() {
    let folder = Folder::new();
    let info = folder.run(&["trace", "info", "a.trace.txt"]).succeeded();
    assert!(info.contains("owned at the start      320"), "{info}");
    folder.run(&["trace", "convert", "a.trace.txt", "a.wtrace"]).succeeded();
    assert_eq!(folder.run(&["trace", "info", "a.wtrace"]).succeeded(), info);
    let replay = |file: &str, out: &str| {
        folder.run(&["replay", file, "--out", out, "--rounds", "0"]).succeeded();
        fs::read_to_string(folder.path(out).join("free-huge.csv")).unwrap()
    };
    assert_eq!(replay("a.trace.txt", "one"), replay("a.wtrace", "two"));
    assert_eq!(folder.names("one"), FILES);
}

#[test]
fn several_starts_are_told_by_the_least_the_median_and_the_most() {
    let folder = Folder::new();
    let replay = ["replay", "a.trace.txt", "--rounds", "0"];
    let told = |text: &str| {
        ["least", "median", "most"].map(|of| text.contains(&format!("of 3 starts the {of} ")))
    };
    assert_eq!(told(&folder.run(&replay).succeeded()), [false; 3]);
    assert_eq!(
        told(&folder.run(&[&replay[..], &["--starts", "3"]].concat()).succeeded()),
        [true; 3]
    );
    let summary = fs::read_to_string(folder.path("woodlot-out/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["phases"][0]["ratios_of_starts"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_grid_is_every_so_many_steps_where_no_curve_was_recorded() {
    let folder = Folder::new();
    folder.run(&["replay", "a.trace.txt", "--every", "2", "--rounds", "0"]).succeeded();
    let curve = fs::read_to_string(folder.path("woodlot-out/free-huge.csv")).unwrap();
    let steps: Vec<&str> =
        curve.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(steps, ["2", "4", "4"], "{curve}");
}

#[test]
fn threads_and_zones_are_as_asked_for() {
    let folder = Folder::new();
    let args = ["replay", "a.trace.txt", "--threads", "--zones", "linux", "--out", "made/for/it"];
    let text = folder.run(&args).succeeded();
    assert!(text.contains("zones: one for each of Linux's zones"), "{text}");
    assert!(text.contains("failed in Linux: 1 of order 9"), "{text}");
    assert!(text.contains("checks: no frame lost"), "{text}");
    assert_eq!(folder.names("made/for/it"), ["summary.json"]);
}

#[test]
fn results_replace_those_of_an_earlier_run() {
    let folder = Folder::new();
    for _ in 0..2 {
        folder.run(&["replay", "a.trace.txt", "--rounds", "0"]).succeeded();
        assert_eq!(folder.names("woodlot-out"), FILES);
    }
}

#[test]
fn help_teaches() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).succeeded();
    for words in ["Examples:", "woodlot trace convert", "--zones", "Exit code", "woodlot-out"] {
        assert!(help.contains(words), "{words} in {help}");
    }
    folder.run(&["--version"]).succeeded();
}

/// The engines that keep the contract, as they call themselves.
const ENGINES: [&str; 9] = [
    "llfree",
    "onewrite",
    "nbbs",
    "nbbs-4level",
    "LinuxBuddy",
    "LinuxBuddyNoPcp",
    "ListLocked",
    "ListCas",
    "ListLocal",
];

#[test]
fn every_engine_is_on_one_chart_and_what_it_cannot_do_is_said() {
    let folder = Folder::new();
    let args = ["replay", "a.trace.txt", "--rounds", "1", "--engine", "all"];
    let said = folder.run(&args).succeeded();
    assert_eq!(said.matches("checks: no frame lost").count(), ENGINES.len(), "{said}");
    // Half of the block of eight frames is freed.
    assert!(
        said.contains("frames that wait for the last part of their block: at most 4"),
        "{said}"
    );
    assert!(said.contains("failed in Linux: 1 of order 9, not tried"), "{said}");
    let text = fs::read_to_string(folder.path("woodlot-out/free-huge.csv")).unwrap();
    let free_at_end = |engine: &str| {
        let mut own = text.lines().filter(|line| line.split(',').nth(5) == Some(engine));
        own.next_back().unwrap().split(',').nth(7).unwrap().parse::<usize>().unwrap()
    };
    let svg = fs::read_to_string(folder.path("woodlot-out/free-huge.svg")).unwrap();
    for engine in ENGINES {
        let held = if engine.starts_with("nbbs") { 4 } else { 0 };
        assert_eq!(free_at_end(engine) + held, free_at_end("llfree"), "{engine}");
        assert!(svg.contains(engine), "{engine} is in the legend");
    }
    for note in [
        "nbbs, nbbs-4level: cannot free parts of a block: the whole block stays allocated",
        "ListLocked, ListCas, ListLocal: has base frames only",
        "ListLocked, ListCas, ListLocal: cannot allocate frames by number",
    ] {
        assert!(svg.contains(note), "{note}");
    }
    // Alone, LLFree does all that the trace asks.
    let alone = folder.run(&["replay", "a.trace.txt", "--rounds", "0"]).succeeded();
    assert!(!alone.contains("    it "), "{alone}");
}

#[test]
fn every_engine_replays_with_threads_and_zones_too() {
    let folder = Folder::new();
    let args = ["replay", "a.trace.txt", "--threads", "--zones", "linux", "--engine", "all"];
    let said = folder.run(&args).succeeded();
    assert_eq!(said.matches("checks: no frame lost").count(), ENGINES.len(), "{said}");
}

#[test]
fn an_engine_that_cannot_replay_is_refused_in_words() {
    let folder = Folder::new();
    for engine in ["bitmap", "llfree,bitmap"] {
        let words = "bitmap does not keep woodlot_frame's contract, which a replay needs: expected one of \
            llfree, onewrite, nbbs, nbbs-4level, linux, linux-no-pcp, list-locked, list-cas, list-local, or all";
        folder.run(&["replay", "a.trace.txt", "--engine", engine]).failed(2, words);
    }
    let slab = "'slab' for '--engine <NAMES>': expected one of llfree, onewrite, nbbs,";
    folder.run(&["--engine", "slab"]).failed(2, slab);
}

/// 2048 movable frames, of which every fourth one stays, and some time after that.
fn fragmented() -> String {
    let all = (0..2048).map(|frame| format!("alloc: pfn={frame:#x} order=0 migratetype=1"));
    let freed = (0..2048).filter(|frame| frame % 4 > 0);
    let freed = freed.map(|frame| format!("free: pfn={frame:#x} order=0"));
    let passes =
        ["alloc: pfn=0x1 order=0 migratetype=1", "free: pfn=0x1 order=0"].map(String::from);
    let events = all.chain(freed).chain(std::iter::repeat_n(passes, 200).flatten());
    let line = |(at, event)| format!("a-1 [000] 1.{at:06}: mm_page_{event}\n");
    let events: String = events.enumerate().map(line).collect();
    events + "a-1 [000] 2.000000: tracing_mark_write: THE END\n"
}

#[test]
fn a_daemon_moves_what_the_trace_says_to_be_movable() {
    let folder = Folder::new();
    fs::write(folder.path("b.trace.txt"), fragmented()).unwrap();
    let replay = |args: &[&str]| {
        let args = [&["replay", "b.trace.txt", "--rounds", "0"], args].concat();
        folder.run(&args).succeeded()
    };
    let huge = |said: &str| {
        let line = said.lines().find(|line| line.contains("free huge frames at the end"));
        line.and_then(|line| line.split_whitespace().nth(6).map(String::from))
    };
    let alone = replay(&[]);
    assert!(!alone.contains("daemon:"), "{alone}");
    assert_eq!(huge(&alone).as_deref(), Some("0"), "{alone}");
    let said = replay(&["--compact"]);
    assert_eq!(huge(&said).as_deref(), Some("2"), "{said}");
    assert!(said.contains("daemon: 2 huge frames won in "), "{said}");
    assert!(said.contains("moves, 1.00 times the fewest"), "{said}");
    assert!(said.contains("were all that can move moved"), "{said}");
    assert!(said.contains("checks: no frame lost"), "{said}");
    // Each of the four has 128 frames in use, and no more than half of the free memory can be won.
    for spared in [["--price", "127"], ["--gain", "1000"]] {
        let said = replay(&[&["--compact"], &spared[..]].concat());
        assert!(said.contains("daemon: 0 huge frames won"), "{spared:?}: {said}");
    }
    let said = replay(&["--compact", "--price", "128"]);
    assert!(said.contains("daemon: 2 huge frames won in "), "{said}");
    // What does not move is passed over: the same frames, pinned.
    let pinned = fragmented().replace("migratetype=1", "migratetype=0");
    fs::write(folder.path("b.trace.txt"), pinned).unwrap();
    let said = replay(&["--compact"]);
    assert_eq!(huge(&said).as_deref(), Some("0"), "{said}");
    assert!(said.contains("daemon: 0 huge frames won"), "{said}");
}
