//! Running the program, and a small trace to run it on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A small trace with its list of frames owned at the start.
pub const TRACE: &str = "\
a-1 [000] 1.000000: mm_page_alloc: pfn=0x200 order=3 migratetype=1
a-1 [001] 1.000001: mm_page_free: pfn=0x200 order=2
a-1 [001] 1.000002: mm_page_alloc: pfn=FAILED order=9 migratetype=1
a-1 [001] 1.000003: mm_page_free: pfn=0x100 order=4
a-1 [000] 1.000004: tracing_mark_write: THE END
";
const START_OWNED: &str = "U 0 256\n100 6 0 A\n";

/// A folder with the small trace in it.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.path("a.trace.txt"), TRACE).unwrap();
        fs::write(folder.path("a.start-owned.txt"), START_OWNED).unwrap();
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program, in this folder.
    pub fn woodlot(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_woodlot"));
        command.current_dir(self.0.path()).args(args);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        Ended(self.woodlot(args).output().unwrap())
    }

    /// The names of all files in a folder of this folder.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// How a run ended.
pub struct Ended(pub Output);

impl Ended {
    pub fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// It failed with this code and these words, and did not panic.
    #[track_caller]
    pub fn failed(&self, code: i32, words: &str) {
        let stderr = self.stderr();
        assert_eq!(self.code(), Some(code), "{stderr}");
        assert!(stderr.contains(words) && !stderr.contains("panicked"), "{words}: {stderr}");
    }

    /// It succeeded.
    #[track_caller]
    pub fn succeeded(&self) -> String {
        assert_eq!(self.code(), Some(0), "{}", self.stderr());
        self.stdout()
    }
}

/// A PNG's width and height.
pub fn png_size(path: &Path) -> (u32, u32) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// Runs the program until its output is there, sends a signal, and sees that it ends as it should.
#[cfg(unix)]
#[track_caller]
pub fn interrupted(folder: &Folder, signal: &str, args: &[&str], out: &str) -> Ended {
    let ended = signalled(folder, signal, args, out);
    ended.failed(130, "interrupted");
    ended
}

/// Runs the program until its output is there, and sends a signal.
#[cfg(unix)]
#[track_caller]
pub fn signalled(folder: &Folder, signal: &str, args: &[&str], out: &str) -> Ended {
    let mut command = folder.woodlot(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !folder.path(out).exists() {
        if started.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            panic!("it never begins");
        }
        assert_eq!(child.try_wait().unwrap(), None);
        sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    Ended(child.wait_with_output().unwrap())
}

/// Runs the program, and sends a signal after a while, if it has not ended by then. If it has not begun to handle signals,
/// it just dies.
#[cfg(unix)]
pub fn signalled_after(folder: &Folder, signal: &str, args: &[&str], wait: Duration) -> Ended {
    let mut command = folder.woodlot(args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(wait);
    // It is not waited for yet, so its number is nobody else's.
    assert!(
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success()
    );
    Ended(child.wait_with_output().unwrap())
}

/// Runs a shell command with the program as `$0`.
#[cfg(unix)]
pub fn shell(folder: &Folder, script: &str) -> Ended {
    let program = env!("CARGO_BIN_EXE_woodlot");
    let mut shell = Command::new("sh");
    Ended(shell.args(["-c", script, program]).current_dir(folder.path(".")).output().unwrap())
}
