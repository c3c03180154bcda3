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
