//! `woodlot kmem stat` for programs that run with the library preloaded.

#[path = "../../../malloc/preload/tests/built/mod.rs"]
mod built;

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::common::{Ended, Folder};

/// What `kmem.c` holds, by the bytes of a block: and what it must not have lost.
const HELD: usize = 700;
const FREED: usize = 300;

/// A program that holds blocks until its input ends, and says when it has them.
struct Holder(Child);

impl Holder {
    fn new(folder: &Folder, with: impl FnOnce(&mut Command)) -> Holder {
        let program = folder.path("holder");
        if !program.exists() {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/kmem.c");
            built::compile(&source, &program, &[]);
        }
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        with(&mut command);
        let mut child = command.spawn().unwrap();
        let mut said = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"ready");
        Holder(child)
    }

    fn preloaded(folder: &Folder) -> Holder {
        Holder::new(folder, |command| _ = command.env("LD_PRELOAD", built::library()))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn ends(self) -> Output {
        let output = self.0.wait_with_output().unwrap();
        built::succeeded("the holder", &output);
        output
    }
}

fn heap(json: &str, pid: &str) -> Value {
    let said: Value = serde_json::from_str(json).unwrap();
    assert_eq!(said["pid"].to_string(), pid);
    let heaps = said["heaps"].as_array().unwrap();
    assert_eq!(heaps.len(), 1, "{json}");
    heaps[0].clone()
}

/// The row of blocks of 112 bytes.
fn row(heap: &Value) -> &Value {
    heap["sizes"].as_array().unwrap().iter().find(|size| size["bytes"] == 112).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number")) as usize
}

/// What the program holds, and nothing is lost between the layers.
fn judge(heap: &Value) {
    let size = row(heap);
    let [used, cached, global, slabs] =
        ["in_use", "cached", "global", "in_slabs"].map(|what| number(&size[what]));
    // The loader and the C library have few of this size.
    assert!((HELD..HELD + 20).contains(&used), "{size}");
    assert!(cached + global + slabs >= FREED, "{size}");
    let blocks = number(&size["pages"]) * 4096 - number(&size["cut_off_bytes"]);
    assert_eq!((used + cached + global + slabs) * 112, blocks, "{size}");
    let target = number(&size["target"]);
    let misses = |layer: &str, way: &str| number(&size[layer][way]);
    // A full list for each so many blocks, a list back for each so many, and two that the cache keeps.
    assert!(misses("cpu_misses", "alloc") >= (HELD + FREED) / target, "{size}");
    assert!(misses("cpu_misses", "free") >= FREED / target - 2, "{size}");
    for (layer, above) in [("global_misses", "cpu_misses")] {
        for way in ["alloc", "free"] {
            assert!(misses(layer, way) <= misses(above, way), "{size}");
        }
    }
    assert!(misses("global_misses", "alloc") >= 1, "the first blocks came from a page: {size}");
    let spans = &heap["spans"];
    assert!(number(&spans["count"]) >= 2 && number(&spans["bytes"]) >= 80 << 10, "{spans}");
    assert_eq!(number(&heap["large"]["count"]), 1);
    assert_eq!(number(&heap["large"]["bytes"]), 5 << 20);
    let resident = number(&heap["resident_bytes"]);
    assert!(resident >= blocks && resident < 64 << 20, "{resident}");
    let sizes = heap["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 41);
    let slabs: usize = sizes.iter().map(|size| number(&size["pages"]) * 4096).sum();
    let free = number(&heap["free_page_bytes"]);
    assert_eq!(slabs + number(&spans["bytes"]) + free, resident, "pages are counted");
}

#[test]
fn a_preloaded_program_is_looked_at_while_it_runs() {
    let folder = Folder::new();
    for (tunables, caches) in [("", "cpus"), ("glibc.pthread.rseq=0", "threads")] {
        let mut holder = Holder::new(&folder, |command| {
            command.env("LD_PRELOAD", built::library());
            command.env("GLIBC_TUNABLES", tunables).env("WOODLOT_MALLOC_STATS", "json");
        });
        let pid = holder.pid();
        let look = || folder.run(&["kmem", "stat", &pid, "--json"]).succeeded();
        let seen = heap(&look(), &pid);
        assert_eq!(seen["caches"], caches);
        judge(&seen);
        assert_eq!(heap(&look(), &pid)["sizes"], seen["sizes"], "a look changes nothing");
        let table = folder.run(&["kmem", "stat", &pid]).succeeded();
        assert!(table.starts_with(&format!("process {pid} (holder): woodlot_malloc ")), "{table}");
        let line = table.lines().find(|line| line.starts_with("    112 ")).expect("a row");
        let used = row(&seen)["in_use"].to_string();
        assert_eq!(line.split_ascii_whitespace().nth(1), Some(used.as_str()), "{line}");
        // What it says of itself when it ends is the same.
        drop(holder.0.stdin.take());
        let said = String::from_utf8(holder.ends().stderr).unwrap();
        assert_eq!(heap(&said, &pid)["sizes"], seen["sizes"]);
    }
}

/// The hits and misses of a layer.
fn calls(size: &Value, layer: &str, way: &str) -> [Option<u64>; 2] {
    ["hits", "misses"].map(|what| size[format!("{layer}_{what}")][way].as_u64())
}

#[test]
fn hits_of_caches_are_there_if_the_library_counts_them() {
    let folder = Folder::new();
    for is_counted in [false, true] {
        let counted = || built::build("counted", &["--features", "counted"]);
        let library = if is_counted { counted() } else { built::library().into() };
        let holder = Holder::new(&folder, |command| _ = command.env("LD_PRELOAD", library));
        let pid = holder.pid();
        let seen = heap(&folder.run(&["kmem", "stat", &pid, "--json"]).succeeded(), &pid);
        judge(&seen);
        let size = row(&seen);
        for (way, least) in [("alloc", HELD + FREED), ("free", FREED)] {
            let [hits, misses] = calls(size, "cpu", way);
            assert_eq!(hits.is_some(), is_counted, "{size}");
            let [next, last] = calls(size, "global", way);
            assert_eq!(next.zip(last).map(|(hits, misses)| hits + misses), misses, "{size}");
            if let Some((hits, misses)) = hits.zip(misses) {
                // The loader and the C library have few of this size.
                let all = (hits + misses) as usize;
                assert!((least..least + 40).contains(&all), "{all} {way}: {size}");
            }
        }
        let table = folder.run(&["kmem", "stat", &pid]).succeeded();
        assert_eq!(table.contains("–: not counted"), !is_counted, "{table}");
        holder.ends();
    }
}

#[test]
fn a_program_says_at_its_end_what_it_was_asked_for() {
    let folder = Folder::new();
    let said = |asked: &str| {
        let holder = Holder::new(&folder, |command| {
            command.env("LD_PRELOAD", built::library()).env("WOODLOT_MALLOC_STATS", asked);
        });
        let pid = holder.pid();
        (String::from_utf8(holder.ends().stderr).unwrap(), pid)
    };
    let (table, pid) = said("text");
    let begin = format!("process {pid}: woodlot_malloc ");
    assert!(table.starts_with(&begin) && table.contains("\n    112 "), "{table}");
    let (wrong, _) = said("yes");
    assert_eq!(wrong, "woodlot_malloc: WOODLOT_MALLOC_STATS is text or json\n");
}

/// `ls` closes standard error before the library's end comes.
#[test]
fn standard_error_may_be_closed_at_the_end() {
    let mut ls = Command::new("ls");
    ls.env("LD_PRELOAD", built::library()).env("WOODLOT_MALLOC_STATS", "text");
    let said = String::from_utf8(ls.output().unwrap().stderr).unwrap();
    assert!(said.contains("huge frames that may have memory"), "{said}");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let folder = Folder::new();
    let refused = |pid: &str, words: &str| folder.run(&["kmem", "stat", pid]).failed(1, words);
    let plain = Holder::new(&folder, |_| {});
    refused(&plain.pid(), "(holder): has no heap of woodlot-malloc: it was not started with");
    refused("4194305", "process 4194305: there is no such process");
    for (args, words) in
        [(&["stat"][..], "<PID>"), (&["stat", "0"], "0"), (&["stat", "cat"], "cat")]
    {
        folder.run(&[&["kmem"], args].concat()).failed(2, words);
    }
    // One that has ended, and whose end nobody has heard of.
    let mut ended = Holder::preloaded(&folder);
    drop(ended.0.stdin.take());
    let mut rest = Vec::new();
    ended.0.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
    let pid = ended.pid();
    while !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    refused(&pid, "has no memory: it has ended");
    ended.ends();
}

/// As root one may read all memory, so nobody looks; as another user, at a process of root.
#[test]
fn another_users_process_is_not_looked_at() {
    let words = "its memory may not be read: that takes what a debugger needs";
    let folder = Folder::new();
    if !rustix::process::getuid().is_root() {
        return folder.run(&["kmem", "stat", "1"]).failed(1, words);
    }
    let holder = Holder::preloaded(&folder);
    // Nobody may not look into the folder of a build. The copy is written by another process: what this one has open to write, the
    // programs that other tests start beside have open as well for a moment, and then it cannot be run.
    let copy = folder.path("woodlot");
    let mut copying = Command::new("cp");
    copying.arg(env!("CARGO_BIN_EXE_woodlot")).arg(&copy);
    assert!(copying.status().unwrap().success());
    let all = || Permissions::from_mode(0o755);
    fs::set_permissions(folder.path("."), all()).unwrap();
    fs::set_permissions(&copy, all()).unwrap();
    let mut woodlot = Command::new(copy);
    woodlot.args(["kmem", "stat", &holder.pid()]).uid(65534).gid(65534);
    Ended(woodlot.output().unwrap()).failed(1, words);
    holder.ends();
}
