//! Heaps that are measured in a process of their own: what the program is started with decides which they are.
//!
//! ```text
//!   this process ── LD_PRELOAD, an Ask as JSON ──► kmem-sample: runs the case twice
//!                ◄─ an Answer as JSON ────────────
//! ```
//!
//! The child says which file its `malloc` comes from: the dynamic linker starts a program without a library that it
//! cannot load.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::case::{Case, Interface, Metric, Reading, Setup, What};
use super::contender::{Contender, named};
use super::memory::Moment;
use crate::Failure;
use crate::instructions::program;

/// The first argument of such a process; what is asked follows.
pub const SAMPLE_VERB: &str = "kmem-sample";

/// What a child is to do.
#[derive(Serialize, Deserialize)]
struct Ask {
    engine: String,
    what: What,
    case: Case,
    setup: Setup,
}

/// What it found.
#[derive(Serialize, Deserialize)]
struct Answer {
    readings: Vec<Reading>,
    moments: Vec<Moment>,
    /// The file that its `malloc` comes from.
    malloc: Option<PathBuf>,
}

/// A heap in a process of its own.
#[derive(Clone)]
pub struct Child {
    /// What it is called.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The contender of that process; `system` calls what the dynamic linker has found.
    pub engine: &'static str,
    /// What is loaded before the C library.
    pub library: Option<PathBuf>,
}

impl Contender for Child {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    /// A size that was known when the program was compiled is nothing that a preloaded library hears of.
    fn sample(&self, what: What, case: Case, setup: &Setup) -> Result<Vec<Reading>, Failure> {
        match case.interface {
            Some(Interface::Cookie) => Ok(Vec::new()),
            _ => Ok(self.ask(what, case, setup)?.readings),
        }
    }

    fn moments(&self, setup: &Setup) -> Result<Vec<Moment>, Failure> {
        let case = Case { threads: 1, bytes: None, interface: None };
        Ok(self.ask(What::Memory, case, setup)?.moments)
    }
}

impl Child {
    fn ask(&self, what: What, case: Case, setup: &Setup) -> Result<Answer, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Failed(format!("{}: {why}", self.name));
        let ask = Ask { engine: self.engine.into(), what, case, setup: setup.clone() };
        let ask = serde_json::to_string(&ask).map_err(|error| failed(&error))?;
        let mut command = Command::new(program()?);
        command.args([SAMPLE_VERB, &ask]);
        match &self.library {
            Some(library) => command.env("LD_PRELOAD", library),
            None => command.env_remove("LD_PRELOAD"),
        };
        let output = command.output().map_err(|error| failed(&error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let why = said.lines().next_back().unwrap_or("it says nothing");
            return Err(failed(&format!("its process ended with {}: {why}", output.status)));
        }
        let answer: Answer =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))?;
        match &self.library {
            Some(library) if !is_from(answer.malloc.as_deref(), library) => {
                let why = said.lines().next().map_or("it has no malloc".into(), String::from);
                Err(failed(&format!("{}: not what malloc comes from: {why}", library.display())))
            }
            _ => Ok(answer),
        }
    }
}

/// Is that the library, by whatever path?
fn is_from(malloc: Option<&Path>, library: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    malloc.and_then(real).is_some_and(|file| Some(file) == real(library))
}

/// Does what a parent asks, which is one argument, and answers as one line. A case is run twice: the first time fills
/// caches, and its times do not count.
///
/// # Errors
/// The argument is not a parent's, or the heap had no memory.
pub fn answer(ask: &str) -> Result<String, Failure> {
    die_with_parent();
    let wrong = |error: serde_json::Error| Failure::Usage(format!("{SAMPLE_VERB}: {error}"));
    let ask: Ask = serde_json::from_str(ask).map_err(wrong)?;
    let nobody = || Failure::Usage(format!("{SAMPLE_VERB}: there is no {}", ask.engine));
    let contender = named(&ask.engine).ok_or_else(nobody)?;
    let (mut readings, mut moments) = (Vec::new(), Vec::new());
    if ask.what == What::Memory {
        moments = contender.moments(&ask.setup)?;
    } else if ask.what == What::Returned {
        // What a heap gives back of new memory.
        readings = contender.sample(ask.what, ask.case, &ask.setup)?;
    } else {
        // What is resident tells most at first, when nothing has been kept.
        let is_first = |reading: &Reading| reading.metric == Metric::Peak;
        readings = contender.sample(ask.what, ask.case, &ask.setup)?;
        readings.retain(is_first);
        let again = contender.sample(ask.what, ask.case, &ask.setup)?;
        readings.extend(again.into_iter().filter(|reading| !is_first(reading)));
    }
    let answer = Answer { readings, moments, malloc: file_of_malloc() };
    serde_json::to_string(&answer).map_err(|error| Failure::Failed(format!("as JSON: {error}")))
}

/// The file that the dynamic linker took `malloc` from.
#[cfg(unix)]
fn file_of_malloc() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let malloc = libc::malloc as *const libc::c_void;
    // SAFETY: the address is a function's, and the result is written to if the call succeeds.
    let name = unsafe {
        let found = libc::dladdr(malloc, info.as_mut_ptr()) != 0;
        found.then(|| info.assume_init().dli_fname).filter(|name| !name.is_null())
    }?;
    // SAFETY: the linker's names are C strings that stay.
    Some(PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().ok()?))
}

#[cfg(not(unix))]
fn file_of_malloc() -> Option<PathBuf> {
    None
}

/// Whoever interrupts the parent ends this process too.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call changes nothing but which signal comes when the parent has ended.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_and_what_is_none_is_refused() {
        let case = Case { threads: 1, bytes: Some(64), interface: Some(Interface::Standard) };
        let setup = Setup { operations: 1000, ..Setup::default() };
        let ask = Ask { engine: "system".into(), what: What::Pair, case, setup };
        let ask = serde_json::to_string(&ask).unwrap();
        let said: Answer = serde_json::from_str(&answer(&ask).unwrap()).unwrap();
        assert_eq!(said.readings.len(), 1);
        assert!(said.malloc.is_some_and(|file| file.is_absolute()));
        for wrong in ["", "{}", &ask.replace("system", "nobody")] {
            assert!(matches!(answer(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn a_library_is_the_same_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.so"), folder.path().join("b.so"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(is_from(Some(&file), &link));
        assert!(!is_from(None, &link) && !is_from(Some(folder.path()), &link));
    }
}
