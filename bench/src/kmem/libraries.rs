//! Libraries that have the C library's `malloc` in them: who they are, and where they lie.

use std::env;
use std::path::{Path, PathBuf};

use super::child::Child;
use super::targets::OWN;

/// A heap that can be preloaded.
struct Known {
    name: &'static str,
    about: &'static str,
    /// What its file may be called, the newest first; none for what is loaded anyway.
    files: &'static [&'static str],
    /// How it comes to be there.
    hint: &'static str,
}

const KNOWN: [Known; 6] = [
    Known { name: "glibc", about: "the C library's own", files: &[], hint: "" },
    Known {
        name: "woodlot",
        about: "libwoodlot_malloc.so of this repository",
        files: &["libwoodlot_malloc.so"],
        hint: "cargo build --release -p woodlot-malloc-preload",
    },
    Known {
        name: "jemalloc",
        about: "the system's package of jemalloc",
        files: &["libjemalloc.so.2"],
        hint: "apt-get install libjemalloc2",
    },
    Known {
        name: "tcmalloc",
        about: "the system's package of tcmalloc (gperftools)",
        files: &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"],
        hint: "apt-get install libtcmalloc-minimal4",
    },
    Known {
        name: "mimalloc",
        about: "the system's package of mimalloc",
        files: &["libmimalloc.so.3", "libmimalloc.so.2"],
        hint: "apt-get install libmimalloc2.0",
    },
    Known {
        name: "snmalloc",
        about: "snmalloc of the registry, made a library by bench/mallocs",
        files: &["libsnmalloc_preload.so"],
        hint: "cargo build --release --manifest-path bench/mallocs/Cargo.toml \
            -p woodlot-mallocs-snmalloc",
    },
];

/// What was named: what there is, and what there is not.
#[derive(Clone, Default)]
pub struct Libraries {
    /// Each in a process of its own.
    pub found: Vec<Child>,
    /// Who is not there, and what to do about it.
    pub missing: Vec<String>,
}

impl Libraries {
    /// Everybody who is known but this repository's.
    pub(super) fn rivals() -> Vec<&'static str> {
        KNOWN.iter().map(|known| known.name).filter(|name| !OWN.contains(name)).collect()
    }
}

impl std::fmt::Debug for Libraries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.found.iter().map(|child| child.name)).finish()
    }
}

/// `all`: what is not there is said. Names, or `NAME=FILE`: each has to be there.
impl std::str::FromStr for Libraries {
    type Err = String;

    fn from_str(text: &str) -> Result<Libraries, String> {
        if !cfg!(target_os = "linux") {
            return Err("libraries are preloaded on Linux only".into());
        }
        let mut all = Libraries::default();
        if text == "all" {
            for known in &KNOWN {
                match known.find(&folders()) {
                    Ok(library) => all.found.push(known.child(library)),
                    Err(why) => all.missing.push(why),
                }
            }
            return Ok(all);
        }
        for one in text.split(',') {
            all.found.push(named(one)?);
        }
        Ok(all)
    }
}

/// One of the names, or any name with a file.
fn named(text: &str) -> Result<Child, String> {
    if let Some((name, file)) = text.split_once('=') {
        let library = Path::new(file).canonicalize().map_err(|error| format!("{file}: {error}"))?;
        if name.is_empty() || !library.is_file() {
            return Err(format!("expected NAME=FILE, found `{text}`"));
        }
        // A name of the command line lives as long as the program.
        let name: &'static str = name.to_string().leak();
        let about = "a library that the command line names";
        return Ok(Child { name, about, engine: "system", library: Some(library) });
    }
    let known = KNOWN.iter().find(|known| known.name == text).ok_or_else(|| {
        let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
        format!("expected one of {}, NAME=FILE, or all by itself, found `{text}`", names.join(", "))
    })?;
    Ok(known.child(known.find(&folders())?))
}

impl Known {
    fn child(&self, library: Option<PathBuf>) -> Child {
        Child { name: self.name, about: self.about, engine: "system", library }
    }

    /// Its file; nothing for what is loaded anyway.
    fn find(&self, folders: &[PathBuf]) -> Result<Option<PathBuf>, String> {
        let mut paths =
            self.files.iter().flat_map(|file| folders.iter().map(move |folder| folder.join(file)));
        match paths.find_map(|path| path.canonicalize().ok()) {
            None if !self.files.is_empty() => {
                let files = self.files.join(", ");
                Err(format!("{}: there is no {files}: {}", self.name, self.hint))
            }
            found => Ok(found),
        }
    }
}

/// Where libraries lie: beside this program, where this repository builds them, and where systems have them.
fn folders() -> Vec<PathBuf> {
    let here = env::current_exe().ok();
    let here = here.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let built = ["target/release", "bench/mallocs/target/release"].map(PathBuf::from);
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let system = [
        format!("/usr/local/lib/{}-linux-gnu", env::consts::ARCH),
        "/usr/local/lib".into(),
        format!("/usr/lib/{}-linux-gnu", env::consts::ARCH),
        "/usr/lib64".into(),
        "/usr/lib".into(),
    ];
    let named: Vec<PathBuf> = env::split_paths(&named).collect();
    here.into_iter().chain(built).chain(named).chain(system.map(PathBuf::from)).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_found_or_refused() {
        let names = |text: &str| -> Result<Vec<&str>, String> {
            text.parse::<Libraries>().map(|all| all.found.iter().map(|child| child.name).collect())
        };
        assert_eq!(names("glibc"), Ok(vec!["glibc"]));
        assert!(names("hoard").unwrap_err().contains("expected one of glibc, woodlot"));
        assert!(names("mine=/no/such.so").unwrap_err().contains("/no/such.so"));
        assert!(names("mine=/").unwrap_err().contains("NAME=FILE"));
        let all: Libraries = "all".parse().unwrap();
        assert_eq!(all.found.len() + all.missing.len(), KNOWN.len());
    }

    #[test]
    fn a_library_is_found_by_its_file_and_else_there_is_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let jemalloc = KNOWN.iter().find(|known| known.name == "jemalloc").unwrap();
        let folders = [folder.path().to_path_buf()];
        let why = jemalloc.find(&folders).unwrap_err();
        assert!(why.contains("libjemalloc.so.2") && why.contains("apt-get"), "{why}");
        let file = folder.path().join("libjemalloc.so.2");
        std::fs::write(&file, "").unwrap();
        assert_eq!(jemalloc.find(&folders), Ok(Some(file.canonicalize().unwrap())));
    }
}
