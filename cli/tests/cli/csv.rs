//! Every CSV file has the columns that `docs/csv.md` gives it, and the page gives no others.

use std::fs;
use std::path::Path;

use crate::common::Folder;

/// The columns of each file, by the heading of its section.
fn documented() -> Vec<(String, Vec<String>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/csv.md");
    let page = fs::read_to_string(page).unwrap();
    let columns = |section: &str| {
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.map(|row| row.split('`').next().unwrap().to_string()).collect()
    };
    let sections = page.split("\n## ").skip(1);
    sections.map(|text| (text.lines().next().unwrap().to_string(), columns(text))).collect()
}

#[test]
fn every_column_is_documented() {
    let folder = Folder::new();
    let little = ["--memory", "64MiB", "--operations", "100", "--repetitions", "1"];
    folder.run(&[&["bench", "repeat", "--csv", "bench.csv"], &little[..]].concat()).succeeded();
    let frag = ["frag", "--memory", "64MiB", "--iterations", "2", "--csv", "frag.csv"];
    folder.run(&frag).succeeded();
    folder.run(&["replay", "a.trace.txt", "--rounds", "0", "--out", "replay"]).succeeded();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report.json");
    let data = data.display().to_string();
    folder.run(&["report", "--from", &data, "--out", "report"]).succeeded();
    let written = [
        ("`woodlot bench --csv FILE`", "bench.csv"),
        ("`woodlot frag --csv FILE`", "frag.csv"),
        ("`woodlot` and `woodlot replay`: `free-huge.csv`", "replay/free-huge.csv"),
        ("`woodlot report`: `times.csv`", "report/times.csv"),
        ("`woodlot report`: `frag.csv`", "report/frag.csv"),
        ("`woodlot report`: `traces.csv`", "report/traces.csv"),
    ];
    let documented = documented();
    assert_eq!(documented.len(), written.len(), "a section for each file");
    for (heading, file) in written {
        let text = fs::read_to_string(folder.path(file)).unwrap();
        let columns: Vec<_> = text.lines().next().unwrap().split(',').map(String::from).collect();
        let section = documented.iter().find(|(known, _)| known == heading);
        assert_eq!(section.map(|(_, columns)| columns), Some(&columns), "{heading}");
    }
    // Nothing else that the program writes is CSV.
    for folder_name in ["replay", "report"] {
        let csv = folder.names(folder_name).into_iter().filter(|name| name.ends_with(".csv"));
        let known = |name: &String| {
            written.iter().any(|(_, file)| *file == format!("{folder_name}/{name}"))
        };
        assert!(csv.into_iter().all(|name| known(&name)), "{folder_name}");
    }
}
