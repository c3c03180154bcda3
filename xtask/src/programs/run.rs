//! A run of a program: what it took, and what came of it.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

/// What a program and all that it started took.
#[derive(Clone, Copy, Default)]
pub struct Took {
    pub wall: Duration,
    pub user: Duration,
    pub system: Duration,
    /// The most bytes that one process of them had resident.
    pub peak: u64,
}

/// What a program took, and what must be the same with every heap.
pub struct Ran {
    pub took: Took,
    pub result: String,
}

/// A program at work.
pub struct Running {
    child: Child,
    started: Instant,
}

impl Running {
    /// Starts a program that writes into a file.
    pub fn start(command: &mut Command, output: &Path) -> Result<Running, String> {
        let failed = |error: std::io::Error| {
            format!("{command:?}: {error}", command = command.get_program())
        };
        let file = File::create(output).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        let started = Instant::now();
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Running { child, started })
    }

    /// Waits for its end.
    pub fn end(mut self) -> Result<Took, String> {
        let ended = self.child.wait4().map_err(|error| error.to_string())?;
        let (wall, used) = (self.started.elapsed(), ended.rusage);
        match ended.status.success() {
            true => Ok(Took { wall, user: used.utime, system: used.stime, peak: used.maxrss }),
            false => Err(format!("it failed: {}", ended.status)),
        }
    }

    /// Ends it now.
    pub fn kill(&mut self) {
        // It has ended already, or does now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end; what it took, and what it wrote.
pub fn run(command: &mut Command, output: &Path) -> Result<(Took, String), String> {
    let ended = Running::start(command, output)?.end();
    let said = String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned();
    match ended {
        Ok(took) => Ok((took, said)),
        Err(why) => Err(format!("{command:?}: {why}\n{said}")),
    }
}

/// A number for what is in a file.
pub fn hash(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(format!("{} bytes, {:016x}", bytes.len(), hasher.finish()))
}
