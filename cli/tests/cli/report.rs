//! `woodlot report`, from a small file of data wherever nothing need be measured.

use std::fs;
use std::path::Path;

use crate::common::{Folder, interrupted};

/// A smoke run, thinned out.
fn data() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report.json").display().to_string()
}

#[test]
fn a_page_is_drawn_again_from_its_data() {
    let folder = Folder::new();
    let draw = ["report", "--from", &data(), "--out", "new/page"];
    let said = folder.run(&draw).succeeded();
    assert!(said.contains("wrote new/page/index.html"), "{said}");
    let page = fs::read(folder.path("new/page/index.html")).unwrap();
    let header = |name: &str| {
        let text = fs::read_to_string(folder.path("new/page").join(name)).unwrap();
        text.lines().next().unwrap().to_string()
    };
    assert!(header("times.csv").starts_with("engine,pattern,metric,order,threads"));
    assert!(header("frag.csv").starts_with("engine,memory,slots,iteration,free_huge"));
    assert!(header("traces.csv").starts_with("trace,operations,llfree_free_huge"));
    assert!(header("figure-10.svg").starts_with("<svg"));
    // Its own data draws the same page, over the first one.
    let again = ["report", "--from", "new/page/report.json", "--out", "new/page"];
    folder.run(&again).succeeded();
    assert_eq!(fs::read(folder.path("new/page/index.html")).unwrap(), page);
}

#[test]
fn two_runs_are_compared() {
    let folder = Folder::new();
    let said = folder.run(&["report", "--compare", &data(), &data()]).succeeded();
    assert!(said.contains("B is faster in 0, slower in 0"), "{said}");
    folder.run(&["report", "--compare", &data()]).failed(2, "--compare");
    folder.run(&["report", "--compare", &data(), "none.json"]).failed(1, "none.json");
    folder.run(&["report", "--compare", &data(), "a.trace.txt"]).failed(1, "is no report.json");
}

#[test]
fn what_is_in_the_way_is_said_before_anything_is_measured() {
    let folder = Folder::new();
    fs::create_dir(folder.path("mine")).unwrap();
    fs::write(folder.path("mine/index.html"), "my page").unwrap();
    folder.run(&["report", "--out", "mine"]).failed(1, "not from a report");
    assert_eq!(fs::read_to_string(folder.path("mine/index.html")).unwrap(), "my page");
    assert_eq!(folder.names("mine"), ["index.html"]);
    folder.run(&["report", "--out", "a.trace.txt"]).failed(1, "a.trace.txt");
    folder.run(&["report", "--out", "/proc/none"]).failed(1, "/proc/none");
    folder.run(&["report", "--quick", "--smoke"]).failed(2, "--smoke");
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_no_half_written_report() {
    let folder = Folder::new();
    interrupted(&folder, "-INT", &["report", "--out", "out"], "out");
    assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"]);
}
