//! Programs that have their heap from the preloaded library: a C program for what each call promises, one of C++ with
//! threads, and real ones.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs};

use tempfile::TempDir;

/// The library and the programs, built once.
struct Built {
    folder: TempDir,
    library: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        // target/debug/deps/programs-…: the library is built as this test is.
        let test = env::current_exe().expect("this test");
        let target = test.parent().and_then(Path::parent).expect("target/debug");
        let profile = target.file_name().and_then(OsStr::to_str).expect("a profile's folder");
        let build = Command::new(env!("CARGO"))
            .args(["build", "--package", "woodlot-malloc-preload", "--target-dir"])
            .arg(target.parent().expect("target"))
            .args(["--profile", if profile == "debug" { "dev" } else { profile }])
            .current_dir(package)
            .output();
        succeeded("cargo build", &build.expect("cargo"));
        let compile = |compiler: &str, options: &[&str], output: &str, source: &str| {
            let mut command = Command::new(compiler);
            command.args(["-O1", "-Wall", "-Werror", "-pthread"]).args(options).arg("-o");
            command.arg(folder.path().join(output)).arg(package.join("tests").join(source));
            succeeded(compiler, &command.output().expect("a compiler"));
        };
        compile("cc", &[], "contract", "contract.c");
        compile("c++", &[], "threads", "threads.cpp");
        compile("c++", &["-shared", "-fPIC"], "plugin.so", "plugin.cpp");
        Built { folder, library: target.join("libwoodlot_malloc.so") }
    })
}

fn succeeded(what: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{said}", output.status);
    // The loader says so if it cannot preload, and goes on.
    assert!(!said.contains("cannot be preloaded"), "{what}: {said}");
}

/// A program that has its heap from the library.
fn preloaded(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", &built().library).current_dir(built().folder.path());
    command
}

fn contract(part: &str) -> Command {
    let mut command = preloaded(built().folder.path().join("contract"));
    command.arg(part);
    command
}

fn run(mut command: Command) -> String {
    let what = format!("{command:?}");
    let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    succeeded(&what, &output);
    String::from_utf8(output.stdout).expect("text")
}

const PARTS: [&str; 12] = [
    "sizes",
    "zeroed",
    "resized",
    "aligned",
    "given_back",
    "storm",
    "storm_moved",
    "forks",
    "short_lives",
    "signals",
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

/// Threads of C++ that hand each other objects and end with some, a library that allocates when it is loaded, and forks in
/// the middle.
#[test]
fn threads_of_cxx() {
    for tunables in ["", "glibc.pthread.rseq=0"] {
        let mut threads = preloaded(built().folder.path().join("threads"));
        threads.arg(built().folder.path().join("plugin.so")).env("GLIBC_TUNABLES", tunables);
        assert_eq!(run(threads), "done\n");
    }
}

#[test]
fn wrong_calls_end_the_process_with_one_line() {
    let nowhere = "which is in no page of a block in use";
    for (part, said) in [
        ("foreign", nowhere),
        ("usable_of_foreign", nowhere),
        ("inside_of_span", nowhere),
        ("inside_of_large", nowhere),
        ("twice_large", nowhere),
        ("twice_span", nowhere),
        ("inside_of_block", "which is not the begin of a block"),
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
    fs::write(built().folder.path().join("a file"), "x").expect("a file");
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
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract.c"));
        run(gcc);
        let mut again = preloaded(built().folder.path().join("again"));
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
