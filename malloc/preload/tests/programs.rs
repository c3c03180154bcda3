//! Programs that have their heap from the preloaded library: a C program for what each call promises, one of C++ with
//! threads, and real ones.

mod built;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use built::{library, succeeded};
use tempfile::TempDir;

/// A folder with the programs, which are compiled once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let shared = ["-shared", "-fPIC"].map(OsStr::new);
        let include = include();
        for (source, program, more) in [
            ("contract.c", "contract", &[include.as_os_str()][..]),
            ("threads.cpp", "threads", &[]),
            ("plugin.cpp", "plugin.so", &shared),
            ("early.c", "early.so", &shared),
        ] {
            built::compile(&tests.join(source), &folder.path().join(program), more);
        }
        folder
    });
    made.path()
}

/// Where the library's header is.
fn include() -> OsString {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    OsString::from(format!("-I{}", package.join("include").display()))
}

/// A program that has its heap from the library.
fn preloaded(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", library()).current_dir(folder());
    command
}

/// The library with the checking profile.
fn checked_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built::build("checked", &["--features", "checked"]))
}

/// The library that counts what its caches are asked for.
fn counted_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built::build("counted", &["--features", "counted"]))
}

fn contract(part: &str) -> Command {
    let mut command = preloaded(folder().join("contract"));
    command.arg(part);
    command
}

fn run(mut command: Command) -> String {
    let what = format!("{command:?}");
    let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    succeeded(&what, &output);
    String::from_utf8(output.stdout).expect("text")
}

const PARTS: [&str; 24] = [
    "sizes",
    "zeroed",
    "resized",
    "aligned",
    "given_back",
    "returned",
    "cyclical",
    "storm",
    "storm_moved",
    "tides",
    "forks",
    "short_lives",
    "bare_forks",
    "vforks",
    "vfork_begins",
    "vfork_first",
    "no_barriers",
    "barriers_forbidden",
    "locked",
    "signals",
    "signal_storm",
    "freed_in_handler",
    "plugins",
    "limited",
];

#[test]
fn each_call_does_what_it_promises() {
    PARTS.iter().for_each(|part| drop(run(contract(part))));
}

/// The C library has no areas, as below an emulator or with an old system: threads have caches.
#[test]
fn the_same_without_restartable_sequences() {
    for part in PARTS {
        let mut command = contract(part);
        command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        run(command);
    }
}

/// A library that was loaded first has handlers of forks that run while this one's have locked, and allocate.
#[test]
fn handlers_of_forks_allocate() {
    for tunables in ["", "glibc.pthread.rseq=0"] {
        let mut forks = contract("early_forks");
        let mut both = library().as_os_str().to_owned();
        both.push(":");
        both.push(folder().join("early.so"));
        forks.env("LD_PRELOAD", both).env("GLIBC_TUNABLES", tunables);
        run(forks);
    }
}

/// What runs below an emulator in a second or two.
const BELOW_VALGRIND: [&str; 5] = ["sizes", "zeroed", "resized", "short_lives", "signals"];

/// Valgrind knows no restartable sequences. A tool that replaces malloc would leave the library without work.
#[test]
fn the_same_below_valgrind() {
    if !has("valgrind") {
        return;
    }
    let callgrind: &[&str] = &["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let parts = BELOW_VALGRIND.map(|part| (part, &["--tool=none"][..]));
    for (part, tool) in parts.into_iter().chain([("sizes", callgrind)]) {
        let mut valgrind = preloaded("valgrind");
        valgrind.arg("-q").args(tool).arg(folder().join("contract")).arg(part);
        let output = valgrind.env("WOODLOT_MALLOC_STATS", "text").output().expect("valgrind");
        succeeded(part, &output);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("caches of threads"), "{tool:?} {part}: {said}");
    }
}

/// Threads of C++ that hand each other objects and end with some, a library that allocates when it is loaded, and forks in
/// the middle.
#[test]
fn threads_of_cxx() {
    for tunables in ["", "glibc.pthread.rseq=0"] {
        let mut threads = preloaded(folder().join("threads"));
        threads.arg(folder().join("plugin.so")).env("GLIBC_TUNABLES", tunables);
        assert_eq!(run(threads), "done\n");
    }
}

#[test]
fn wrong_calls_end_the_process_with_one_line() {
    let nowhere = "which is in no page of a block in use";
    let inside = "which is not the begin of a block";
    for (part, said) in [
        ("foreign", nowhere),
        ("usable_of_foreign", nowhere),
        ("inside_of_span", nowhere),
        ("inside_of_large", inside),
        ("twice_large", nowhere),
        ("twice_span", nowhere),
        ("twice_page", "which is free already"),
        ("twice_pages", "which is free already"),
        ("twice_in_handler", "which is free already"),
        ("twice_large_in_handler", "which is free already"),
        ("again_in_handler", nowhere),
        ("foreign_in_handler", nowhere),
        ("inside_of_block", inside),
        ("usable_of_inside", inside),
        ("resized_inside", inside),
    ] {
        let output = contract(part).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{part}");
        assert_eq!(stderr.lines().count(), 1, "{part}: {stderr}");
        assert!(
            stderr.starts_with("woodlot_malloc: free of 0x") && stderr.contains(said),
            "{stderr}"
        );
    }
}

/// The environment, or the program, has a wrong call told of, and the heap goes on.
#[test]
fn a_wrong_call_changes_nothing() {
    let parts = [("goes_on", 8), ("cancelled", 1)];
    for (tunables, (part, lines)) in ["", "glibc.pthread.rseq=0"]
        .into_iter()
        .flat_map(|tunables| parts.map(|part| (tunables, part)))
    {
        let mut told = contract(part);
        told.env("WOODLOT_MALLOC_MISUSE", "report").env("GLIBC_TUNABLES", tunables);
        let output = told.output().expect("it runs");
        succeeded(part, &output);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_line = |line: &str| line.starts_with("woodlot_malloc: free of 0x");
        assert!(stderr.lines().count() == lines && stderr.lines().all(is_line), "{stderr}");
    }
    let mut unknown = contract("sizes");
    let output = unknown.env("WOODLOT_MALLOC_MISUSE", "ignore").output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "woodlot_malloc: WOODLOT_MALLOC_MISUSE is abort or report\n");
}

/// A library that checks finds each wrong call, and nothing else.
#[test]
fn a_library_that_checks_finds_all() {
    for tunables in ["", "glibc.pthread.rseq=0"] {
        let right = ["sizes", "zeroed", "resized", "aligned", "storm", "forks", "freed_in_handler"];
        for part in right.into_iter().chain(["checked"]) {
            let mut checked = contract(part);
            checked.env("LD_PRELOAD", checked_library()).env("GLIBC_TUNABLES", tunables);
            run(checked);
        }
        let mut threads = preloaded(folder().join("threads"));
        threads.env("LD_PRELOAD", checked_library()).env("GLIBC_TUNABLES", tunables);
        threads.arg(folder().join("plugin.so"));
        assert_eq!(run(threads), "done\n");
    }
    if has("python3") {
        let mut python = preloaded("python3");
        python.env("LD_PRELOAD", checked_library()).env("PYTHONMALLOC", "malloc");
        python.args(["-c", PYTHON]);
        assert_eq!(run(python), "(199990000, 45)\n", "python");
    }
}

/// `woodlot_malloc.h`, by a program that is linked with the library.
#[test]
fn its_own_functions() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = include();
    for (library, is_counted) in [(library(), false), (counted_library(), true)] {
        let program = folder().join(if is_counted { "own-counted" } else { "own" });
        let at = library.parent().expect("its folder").as_os_str();
        let linked = [OsStr::new("-fno-builtin"), &include, library.as_os_str()];
        built::compile(&package.join("tests/own.c"), &program, &linked);
        for (tunables, more) in [("", None), ("glibc.pthread.rseq=0", Some("threads"))] {
            let mut own = Command::new(&program);
            own.args(more).env("LD_LIBRARY_PATH", at).env("GLIBC_TUNABLES", tunables);
            own.envs(is_counted.then_some(("IS_COUNTED", "1")));
            let said = run(own);
            assert!(said.starts_with("process ") && said.contains("\n{\"pid\":"), "{said}");
            assert_eq!(said.contains("–: not counted"), !is_counted, "{said}");
        }
    }
}

/// A library that counts does all else as others do.
#[test]
fn a_library_that_counts_does_the_same() {
    for tunables in ["", "glibc.pthread.rseq=0"] {
        for part in ["sizes", "zeroed", "resized", "storm", "forks", "freed_in_handler"] {
            let mut counted = contract(part);
            counted.env("LD_PRELOAD", counted_library()).env("GLIBC_TUNABLES", tunables);
            run(counted);
        }
    }
}

fn has(program: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let has = env::split_paths(&paths).any(|folder| folder.join(program).is_file());
    if !has {
        println!("there is no {program}: left out");
    }
    has
}

#[test]
fn ls_lists() {
    fs::write(folder().join("a file"), "x").expect("a file");
    let mut ls = preloaded("ls");
    ls.arg("-la");
    assert!(run(ls).contains("a file"));
}

/// Threads, objects of all sizes, child processes, and modules that are loaded while it runs.
const PYTHON: &str = "
import hashlib, json, sqlite3, subprocess, threading, zlib
def work(seed):
    held = {}
    for step in range(20000):
        held[(seed * step) % 997] = [str(step)] * (step % 50)
    text = json.dumps({str(k): v for k, v in held.items()})
    assert zlib.decompress(zlib.compress(text.encode())).decode() == text
    results.append(hashlib.sha256(text.encode()).hexdigest())
results = []
threads = [threading.Thread(target=work, args=(seed,)) for seed in [3, 3, 7, 7, 11, 11]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(results) == 6 and len(set(results)) == 3
assert subprocess.run(['echo', 'child'], capture_output=True).stdout == b'child\\n'
base = sqlite3.connect(':memory:')
base.execute('create table t (n integer, s text)')
base.executemany('insert into t values (?, ?)', ((n, str(n) * 9) for n in range(20000)))
print(base.execute('select sum(n), max(length(s)) from t').fetchone())
";

#[test]
fn python_computes() {
    if has("python3") {
        let mut python = preloaded("python3");
        python.env("PYTHONMALLOC", "malloc").args(["-c", PYTHON]);
        assert_eq!(run(python), "(199990000, 45)\n");
    }
}

#[test]
fn gcc_compiles() {
    if has("gcc") {
        let mut gcc = preloaded("gcc");
        gcc.args(["-O2", "-pthread", "-o", "again"])
            .arg(include())
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract.c"));
        run(gcc);
        let mut again = preloaded(folder().join("again"));
        again.arg("sizes");
        run(again);
    }
}

const SQL: &str = "
create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
    select i, hex(i) as h from n;
create index h on t(h);
select count(distinct h), sum(i) from t where h > '35';
";

#[test]
fn sqlite_counts() {
    if has("sqlite3") {
        let answer = |mut sqlite: Command| {
            sqlite.args([":memory:", SQL]);
            run(sqlite)
        };
        assert_eq!(answer(preloaded("sqlite3")), answer(Command::new("sqlite3")));
    }
}
