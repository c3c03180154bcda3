//! `woodlot crash`: processes that are killed, and the mistakes that it must find.

use std::fs;

use super::common::{Folder, interrupted};

/// The sums below the table.
fn sums(said: &str) -> &str {
    said.split_once(" kills, ").map_or("", |(_, sums)| sums)
}

#[test]
fn whoever_is_killed_takes_nothing_but_what_its_call_concerned() {
    let folder = Folder::new();
    let said = folder.run(&["crash", "kept.zone", "--kills", "160", "--seed", "7"]).succeeded();
    let rows: Vec<Vec<usize>> = said.lines().skip(1).take(8).map(first_numbers).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(rows.iter().all(|row| row[1] >= 20 && row[3] > 0), "{said}");
    assert!(sums(&said).contains("\n0 overlaps; "), "{said}");
    // Everything was freed at the end, and the zone is closed.
    let verdict = folder.run(&["zone", "verify", "kept.zone"]).succeeded();
    assert!(verdict.contains("  48819 frames free, 94 huge frames free, 0 offline"), "{verdict}");
    folder.run(&["crash", "kept.zone"]).failed(1, "kept.zone: File exists");
}

fn first_numbers(line: &str) -> Vec<usize> {
    line.split_whitespace().map_while(|number| number.parse().ok()).collect()
}

#[test]
fn memory_without_a_name_will_do() {
    let folder = Folder::new();
    let run = ["crash", "--on", "memfd", "--kills", "20", "--processes", "3"];
    assert!(folder.run(&run).succeeded().contains("0 overlaps"));
    let said = folder.run(&[&run[..], &["--owners"]].concat()).succeeded();
    assert!(said.contains("0 overlaps") && said.contains("gave all of them back"), "{said}");
    assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"], "nothing was left behind");
}

#[test]
fn processes_that_share_a_zone_of_one_write_are_killed() {
    let folder = Folder::new();
    let run = ["crash", "--engine", "onewrite", "--kills", "60"];
    let said = folder.run(&run).succeeded();
    assert!(sums(&said).contains("\n0 overlaps; "), "{said}");
    let [kills, in_a_call] = [said.lines().nth_back(1), sums(&said).lines().next()]
        .map(|line| line.and_then(|line| line.split(' ').next()?.parse::<usize>().ok()));
    assert!(kills >= Some(60) && in_a_call > kills.map(|kills| kills / 2), "{said}");
}

#[test]
fn with_intents_no_frame_is_lost() {
    let folder = Folder::new();
    let run = ["crash", "kept.zone", "--intents", "--kills", "60", "--processes", "1-3"];
    let said = folder.run(&run).succeeded();
    assert!(said.contains("\n0 overlaps; 0 recoveries found frames lost, 0 frames"), "{said}");
    assert!(said.contains(" frames in doubt were named, and freed\n"), "{said}");
    let info = folder.run(&["zone", "info", "kept.zone"]).succeeded();
    assert!(info.contains(", with intents"), "{info}");
    let verdict = folder.run(&["zone", "verify", "kept.zone"]).succeeded();
    assert!(verdict.contains("  48819 frames free, 94 huge frames free, 0 offline"), "{verdict}");
}

/// Both at once: before the sweep no frame is lost, and after it those who are kept own what the log says.
#[test]
fn intents_and_owners_agree() {
    let folder = Folder::new();
    let run =
        ["crash", "kept.zone", "--intents", "--owners", "--kills", "60", "--processes", "1-3"];
    let said = folder.run(&run).succeeded();
    assert!(said.contains("\n0 overlaps; 0 recoveries found frames lost, 0 frames"), "{said}");
    assert!(said.contains("the table of the owners gave all of them back\n"), "{said}");
    assert!(said.contains(" frames in doubt were named, and freed\n"), "{said}");
    let verdict = folder.run(&["zone", "verify", "kept.zone"]).succeeded();
    assert!(verdict.contains("  48819 frames free, 94 huge frames free, 0 offline"), "{verdict}");
}

/// Without what the intents are for, frames are lost: they are not gone by themselves.
#[test]
fn mistakes_with_intents_are_found() {
    let folder = Folder::new();
    for defect in ["share-slots", "reuse-slots", "unresolved", "forget"] {
        let run =
            ["crash", "--intents", "--kills", "400", "--processes", "2-3", "--defect", defect];
        let ended = folder.run(&run);
        ended.failed(1, "frames are lost, and no record of a slot names them");
        let again = "woodlot crash --seed 1 --processes 2-3 --kills 400 --intents --defect ";
        assert!(ended.stderr().contains(&format!("{again}{defect}")), "{}", ended.stderr());
    }
}

/// A judge that cannot fail is worth nothing.
#[test]
fn mistakes_are_found() {
    let folder = Folder::new();
    let two_owners = ["woodlot: process ", "frames were free that processes owned"].as_slice();
    let lost = ["frames are lost, and the calls of the killed processes concerned"].as_slice();
    for (defect, words) in [("free-twice", two_owners), ("claim", two_owners), ("forget", lost)] {
        for engine in ["", " --engine onewrite"] {
            let options = format!("--processes 2-3 --kills 400{engine} --defect {defect}");
            let run: Vec<&str> = ["crash"].into_iter().chain(options.split(' ')).collect();
            let ended = folder.run(&run);
            ended.failed(1, &format!("woodlot crash --seed 1 {options}"));
            let said = ended.stderr();
            assert!(words.iter().any(|words| said.contains(words)), "{said}");
        }
    }
}

#[test]
fn an_interrupt_kills_the_processes_closes_the_zone_and_says_what_was_counted() {
    let folder = Folder::new();
    let run = ["crash", "kept.zone", "--kills", "1000000", "--processes", "3"];
    let ended = interrupted(&folder, "-INT", &run, "kept.zone");
    assert!(
        ended.stderr().contains("every process was killed, and the zone was recovered and closed")
    );
    assert!(ended.stdout().contains(" kills, ") && ended.stdout().contains("0 overlaps"));
    folder.run(&["zone", "verify", "kept.zone"]).succeeded();
    let of_ours = |process: fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let place = fs::read_link(process.path().join("cwd"));
        String::from_utf8_lossy(&command).contains("kept.zone")
            && place.is_ok_and(|place| {
                fs::canonicalize(folder.path("")).is_ok_and(|here| here == place)
            })
    };
    let left = fs::read_dir("/proc").unwrap().flatten().any(of_ours);
    assert!(!left, "no process is left behind");
}

/// The hidden part.
const PROCESS: &str =
    "crash-process none --engine llfree --slots 1 --parent 1 --seat 0 --id 2 --seed 3";

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    let refused = |args: &[&str], words: &str| {
        folder.run(&[&["crash"], args].concat()).failed(2, words);
    };
    refused(&["--processes", "0"], "from 1 to 24");
    refused(&["--processes", "25"], "from 1 to 24");
    refused(&["--kills", "0"], "--kills");
    refused(&["--kills", "many"], "--kills");
    refused(&["--seconds", "0"], "--seconds");
    refused(&["a.zone", "--on", "memfd"], "--on");
    refused(&["--defect", "none"], "--defect");
    refused(&["--defect", "unresolved"], "without --intents");
    for zone in ["--owners", "--intents"] {
        refused(&["--engine", "onewrite", zone], "only zones of LLFree");
    }
    refused(&["--engine", "linux"], "--engine");
    folder.run(&["crash", "none/a.zone"]).failed(1, "none/a.zone: No such file");
    folder.run(&["crash", "."]).failed(1, ".: File exists");
    assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"]);
    // Whoever starts the hidden part alone is nobody's process.
    folder.run(&PROCESS.split(' ').collect::<Vec<_>>()).succeeded();
}
