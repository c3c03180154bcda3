//! `woodlot bench` and `woodlot frag`: sweeps, results that are kept, the count of instructions.

use std::collections::BTreeSet;
use std::fs;

use woodlot_bench::floor::Loop;

use crate::common::Folder;
#[cfg(unix)]
use crate::common::{interrupted, signalled};

/// As little work as there can be.
const LITTLE: [&str; 6] = ["--memory", "256MiB", "--operations", "100", "--repetitions", "1"];

/// The rows of a CSV file as maps from column to value, all of them whole.
fn rows(folder: &Folder, name: &str) -> Vec<csv::StringRecord> {
    let text = fs::read_to_string(folder.path(name)).unwrap();
    assert!(text.ends_with('\n'), "the last row is whole");
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    csv.records().map(|row| row.unwrap()).collect()
}

/// Where a column is.
fn column(folder: &Folder, name: &str, column: &str) -> usize {
    let text = fs::read_to_string(folder.path(name)).unwrap();
    text.lines().next().unwrap().split(',').position(|found| found == column).unwrap()
}

#[test]
fn a_sweep_has_every_combination_once() {
    let folder = Folder::new();
    let sweep = ["bench", "repeat", "--engine", "llfree,list-cas", "--threads", "1,2"];
    let more = ["--order", "0-1,9,1", "--fill", "50,90,50", "--csv", "a.csv", "--json", "a.json"];
    let said = folder.run(&[&sweep[..], &more, &LITTLE].concat()).succeeded();
    assert!(said.contains("order 9 90 % at random, 2 threads pair"), "{said}");
    let rows = rows(&folder, "a.csv");
    let columns = ["engine", "threads", "order", "fill_percent"];
    let columns = columns.map(|name| column(&folder, "a.csv", name));
    let of_engines = rows.iter().filter(|row| row[columns[0]] != *"floor");
    let found: BTreeSet<_> = of_engines.map(|row| columns.map(|at| row[at].to_string())).collect();
    let all = 2 * 2 * 3 * 2;
    assert_eq!((rows.len(), found.len()), (Loop::ALL.len() + all, all), "{found:?}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path("a.json")).unwrap()).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), rows.len());
}

#[test]
fn a_wrong_list_is_named_with_what_was_expected() {
    let folder = Folder::new();
    for (args, words) in [
        (["--order", "11"], "'11' for '--order <ORDERS>': expected a number from 0 to 10"),
        (["--order", "0,3-"], "'3-' for '--order <ORDERS>': expected a number from 0 to 10"),
        (["--order", "9-0"], "'9-0' for '--order <ORDERS>': expected the lower number first: 0-9"),
        (["--order", "0,,1"], "'' for '--order <ORDERS>': expected a number"),
        (["--threads", "1,0"], "'0' for '--threads <NUMBERS>': expected a number from 1 to 4096"),
        (["--threads", "1-5000"], "'1-5000' for '--threads <NUMBERS>': expected"),
        (["--fill", "50-90"], "'50-90' for '--fill <PERCENT>': expected a number of percent"),
        (["--fill", "50,101"], "'101' for '--fill <PERCENT>': expected 0 to 100 percent"),
        (["--engine", "llfree,slab"], "or all by itself, found `slab`"),
    ] {
        folder.run(&[&["bench", "repeat"], &args[..]].concat()).failed(2, words);
    }
    let one_is_wrong = ["bench", "remote", "--threads", "2,3", "--csv", "a.csv"];
    folder.run(&one_is_wrong).failed(2, "the other frees (with 3 threads, order 0)");
    assert!(!folder.path("a.csv").exists());
}

#[test]
fn help_lists_the_engines() {
    let folder = Folder::new();
    for args in [["bench", "--help"], ["bench", "-h"], ["frag", "--help"]] {
        let help = folder.run(&args).succeeded();
        for name in ["llfree ", "nbbs ", "nbbs-4level ", "linux-no-pcp ", "list-cas ", "bitmap "] {
            assert!(help.contains(&format!("\n  {name}")), "{name}: {help}");
        }
    }
}

/// So much that it does not end by itself.
#[cfg(unix)]
const ENDLESS: [&str; 9] = [
    "bench",
    "repeat",
    "--memory",
    "64MiB",
    "--operations",
    "1000",
    "--repetitions",
    "10000",
    "--csv",
];

#[cfg(unix)]
#[test]
fn an_interrupted_bench_keeps_the_measurements_that_are_finished() {
    let folder = Folder::new();
    let ended = interrupted(&folder, "-INT", &[&ENDLESS[..], &["a.csv"]].concat(), "a.csv");
    let said = ended.stderr();
    let done = said.split("interrupted after ").nth(1).and_then(|rest| rest.split(' ').next());
    let done: usize = done.unwrap().parse().unwrap();
    assert!(said.contains(" of 10000 measurements; what is finished is in a.csv"), "{said}");
    assert!(ended.stdout().contains("llfree       order 0 pair"), "{}", ended.stdout());
    let (rows, at) = (rows(&folder, "a.csv"), column(&folder, "a.csv", "repetitions"));
    assert_eq!(rows.len(), Loop::ALL.len() + 1);
    // One loop of the floor needs two CPUs.
    let columns = ["floor", "not_measured"].map(|name| column(&folder, "a.csv", name));
    let absent = [Loop::LineThereAndBack.name(), "not on this machine"];
    let mut there = rows.iter().filter(|row| columns.map(|at| &row[at]) != absent);
    assert!(there.all(|row| row[at] == done.to_string()), "{done}: {rows:?}");
    assert_eq!(folder.names("."), ["a.csv", "a.start-owned.txt", "a.trace.txt"]);
}

#[cfg(unix)]
#[test]
fn a_killed_sweep_leaves_a_whole_file() {
    let folder = Folder::new();
    for _ in 0..3 {
        let _ = fs::remove_file(folder.path("a.csv"));
        let sweep = ["a.csv", "--engine", "llfree,nbbs,linux", "--order", "0-10"];
        signalled(&folder, "-KILL", &[&ENDLESS[..], &sweep].concat(), "a.csv");
        // The floor, and as many of the combinations as were measured until the file was written.
        let combinations = rows(&folder, "a.csv").len() - Loop::ALL.len();
        assert!((1..=3 * 11).contains(&combinations));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_frag_keeps_the_engines_that_are_finished() {
    let folder = Folder::new();
    let args =
        "frag --memory 64MiB --iterations 40 --engine llfree,nbbs,linux,linux-no-pcp --csv a.csv";
    let ended = signalled(&folder, "-INT", &args.split(' ').collect::<Vec<_>>(), "a.csv");
    // On a machine that is fast enough all of it is done before.
    if ended.code() == Some(130) {
        assert!(ended.stderr().contains("interrupted after llfree"), "{}", ended.stderr());
    }
    assert_eq!(rows(&folder, "a.csv").len() % 41, 0);
}

/// Where there is no valgrind, that is said; where there is, the count comes from this very program.
#[cfg(target_os = "linux")]
#[test]
fn a_preloaded_heap_is_measured_in_a_process_of_its_own_or_it_is_said_why_not() {
    let folder = Folder::new();
    let preload = |library: &str| {
        let sizes = ["--bytes", "64", "--memory", "4MiB", "--operations", "1000"];
        let start = ["bench", "kmem", "preload", "--repetitions", "1", "--library", library];
        folder.run(&[&start[..], &sizes].concat())
    };
    let said = preload("glibc").succeeded();
    for line in ["glibc              64 B, standard, 1 thread pair", "worst", "producer-consumer"] {
        assert!(said.contains(line), "{said}");
    }
    std::fs::write(folder.path("no.so"), "no library").unwrap();
    preload("mine=no.so").failed(1, "not what malloc comes from");
    preload("mine=none.so").failed(2, "none.so");
    preload("hoard").failed(2, "expected one of glibc, woodlot");
}

#[cfg(target_os = "linux")]
#[test]
fn memory_over_time_has_every_step_in_its_file() {
    let folder = Folder::new();
    let args = ["bench", "kmem", "memory", "--memory", "4MiB", "--engine", "kmem,system"];
    let said = folder.run(&[&args[..], &["--library", "glibc", "--json", "m.json"]].concat());
    assert!(said.succeeded().contains("taken over in use"));
    let json = std::fs::read(folder.path("m.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let curves = json["results"].as_array().unwrap();
    assert_eq!(curves.len(), 2);
    assert!(curves.iter().all(|curve| curve["moments"].as_array().unwrap().len() == 66));
}

#[test]
fn instructions_are_counted_or_it_is_said_why_not() {
    let folder = Folder::new();
    let mut command = folder.woodlot(&["bench", "--check", "--only", "llfree order 0 pair"]);
    let said = String::from_utf8(command.env("PATH", "").output().unwrap().stdout).unwrap();
    assert!(said.contains("not counted: valgrind is not installed"), "{said}");
    folder.run(&["instructions", "llfree", "0", "100"]).succeeded();
    folder.run(&["instructions", "list-cas", "3", "100"]).failed(1, "order 3");
    folder.run(&["instructions", "llfree", "0"]).failed(2, "<PAIRS>");
    if std::process::Command::new("valgrind").arg("--version").output().is_ok() {
        let said = folder.run(&["bench", "--check", "--only", "llfree order 0 pair"]).stdout();
        assert!(said.contains("instructions") && !said.contains("not counted"), "{said}");
    }
}

#[test]
fn a_fragmented_zone_is_compacted_in_both_manners() {
    let folder = Folder::new();
    let said =
        folder.run(&["frag", "--memory", "64MiB", "--compact", "--iterations", "2"]).succeeded();
    let rows: Vec<Vec<&str>> = said
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.iter().any(|word| ["matching", "fingers"].contains(word)))
        .collect();
    let begins: Vec<&[&str]> = rows.iter().map(|row| &row[..2]).collect();
    assert_eq!(begins, [["0", "matching"], ["0", "fingers"], ["2", "matching"], ["2", "fingers"]]);
    for row in &rows {
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        let [before, after, possible, moves, fewest, ratio] = [2, 3, 4, 6, 7, 8].map(number);
        assert!(before < after && after == possible && moves >= fewest && fewest > 0.0, "{said}");
        assert!(ratio >= 1.0 && (row[1] == "fingers" || ratio <= 1.05), "{said}");
    }
    let other = folder.run(&["frag", "--memory", "64MiB", "--compact", "--engine", "linux"]);
    other.failed(1, "cannot isolate huge frames");
}
