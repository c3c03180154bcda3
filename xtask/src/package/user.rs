//! Users: an empty project for each README, outside of the repository, in which its first example is pasted.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use serde::Deserialize;

use super::published::{PUBLISHED, Published};
use super::readme::Example;
use super::registry::Registry;
use crate::shell::{capture_both, root, run, this_cargo};

/// A folder above the projects, that says where crates come from. It is removed with this.
pub struct Users<'a> {
    folder: PathBuf,
    /// Where they are built.
    target: &'a Path,
    registry: &'a Registry,
}

/// A crate of others that the workspace has locked, and that no crate that is embedded may bring.
const SEEDED: &str = "siphasher";

impl<'a> Users<'a> {
    pub fn make(target: &'a Path, registry: &'a Registry) -> Result<Self, String> {
        let folder = env::temp_dir().join(format!("woodlot-users-{}", process::id()));
        write(&folder.join(".cargo/config.toml"), &registry.config())?;
        Ok(Users { folder, target, registry })
    }

    /// Does what each README says.
    pub fn all(&self) -> Result<(), String> {
        PUBLISHED.iter().try_for_each(|krate| {
            let readme = root().join(krate.folder).join("README.md");
            self.does(krate, Example::of(&readme)?).map_err(|why| format!("{}: {why}", krate.name))
        })
    }

    /// Puts a crate of others into the manifest of the contract, which every engine takes: its user must be told.
    pub fn seeded_crate_is_found(&self) -> Result<&'static str, String> {
        let readme = Example::of(&root().join("woodlot/README.md"))?;
        let project = self.project("seeded", &readme)?;
        self.alone(&project)?;
        let judged = || {
            // Another lock file, as a new project would have.
            let _ = fs::remove_file(project.join("Cargo.lock"));
            Ok(self.alone(&project))
        };
        match self.registry.with_dependency("woodlot-frame", SEEDED, judged)? {
            Err(why) if why.contains(SEEDED) => Ok(SEEDED),
            Err(why) => Err(format!("not {SEEDED} is what was found, but: {why}")),
            Ok(()) => Err(format!("{SEEDED} in the manifest of woodlot-frame was not found")),
        }
    }

    fn does(&self, krate: &Published, example: Example) -> Result<(), String> {
        let project = self.project(krate.name, &example)?;
        match example {
            Example::Program { .. } => {
                let (said, complained) =
                    capture_both(&mut self.cargo(&project, &["run", "--quiet"]))?;
                print!("{said}");
                if !complained.is_empty() {
                    return Err(format!("the example is not without a warning: {complained}"));
                }
            }
            Example::C(_) => self.c(krate, &project)?,
            Example::Commands(lines) => run(&mut self.shell(&project, &lines))?,
        }
        if krate.alone { self.alone(&project) } else { Ok(()) }
    }

    /// An empty project with the example in it.
    fn project(&self, name: &str, example: &Example) -> Result<PathBuf, String> {
        let project = self.folder.join(name);
        if let Example::Program { dependencies, code } = example {
            let package = format!("[package]\nname = '{USER}-{name}'\nedition = '2024'\n");
            write(&project.join("Cargo.toml"), &format!("{package}\n{dependencies}"))?;
            write(&project.join("src/main.rs"), code)?;
        }
        if let Example::C(code) = example {
            write(&project.join("Cargo.toml"), &static_library(name))?;
            write(&project.join("src/lib.rs"), "#![no_std]\nuse woodlot_capi as _;\n")?;
            write(&project.join("first.c"), code)?;
        }
        fs::create_dir_all(&project).map_err(|error| format!("{}: {error}", project.display()))?;
        Ok(project)
    }

    /// Builds the project's static library, links the program with it, and runs that.
    fn c(&self, krate: &Published, project: &Path) -> Result<(), String> {
        capture_both(&mut self.cargo(project, &["build", "--quiet", "--release"]))?;
        let library = format!("release/lib{USER}_{}.a", krate.name.replace('-', "_"));
        let mut compile = Command::new("cc");
        compile.args(["-std=c11", "first.c", "-o", "first", "-I"]);
        compile.arg(self.registry.of(krate.name).join("include")).arg(self.target.join(library));
        capture_both(&mut self.built(project, compile))?;
        let (said, _) = capture_both(&mut self.built(project, Command::new("./first")))?;
        print!("{said}");
        Ok(())
    }

    /// The lock file and what `cargo vendor` copies hold our published crates and nothing else.
    fn alone(&self, project: &Path) -> Result<(), String> {
        let _ = fs::remove_dir_all(project.join("vendor"));
        // A source that takes the place of another one is only asked if it is told so.
        capture_both(&mut self.cargo(project, &["vendor", "--respect-source-config"]))?;
        let lock = project.join("Cargo.lock");
        let text =
            fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
        ours(&lock, &locked(&text)?)?;
        let vendor = project.join("vendor");
        let listed = fs::read_dir(&vendor).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let listed = listed.map_err(|error| format!("{}: {error}", vendor.display()))?;
        let names = listed.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
        ours(&vendor, &names.collect())
    }

    fn cargo(&self, project: &Path, args: &[&str]) -> Command {
        let mut command = this_cargo();
        command.args(args);
        self.built(project, command)
    }

    /// What is installed is built as the projects are, which have built most of it; and where it is from must be
    /// said, for a folder's configuration does not count there.
    fn shell(&self, project: &Path, lines: &str) -> Command {
        let install = "cargo install --debug --config ../.cargo/config.toml ";
        let lines = lines.replace("cargo install ", install);
        let mut command = Command::new("sh");
        let installed = self.folder.join("installed");
        let path = env::var("PATH").unwrap_or_default();
        command.args(["-e", "-c", &lines]).env("CARGO_INSTALL_ROOT", &installed);
        command.env("PATH", format!("{}/bin:{path}", installed.display()));
        self.built(project, command)
    }

    fn built(&self, project: &Path, mut command: Command) -> Command {
        command.current_dir(project).env("CARGO_TARGET_DIR", self.target);
        // All is built once, and run once.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
        command
    }
}

impl Drop for Users<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The manifest of a library for C: the calls, and the panic handler that such a library has to have.
fn static_library(name: &str) -> String {
    format!(
        "[package]\nname = '{USER}-{name}'\nedition = '2024'\n\n[lib]\ncrate-type = ['staticlib']\n\n\
         [dependencies]\n{name} = {{ version = '*', features = ['capi'] }}\n\n\
         [profile.release]\npanic = 'abort'\nlto = 'fat'\ncodegen-units = 1\n"
    )
}

/// What the projects' own names begin with.
const USER: &str = "user";

/// The names in a lock file, but for the project's own.
fn locked(text: &str) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
    }
    let lock: Lock = toml::from_str(text).map_err(|error| format!("Cargo.lock: {error}"))?;
    let names = lock.package.into_iter().map(|package| package.name);
    Ok(names.filter(|name| !name.starts_with(USER)).collect())
}

/// All of these are crates that we publish, and there are some.
fn ours(place: &Path, names: &BTreeSet<String>) -> Result<(), String> {
    let is_ours = |name: &&String| PUBLISHED.iter().any(|krate| krate.name == name.as_str());
    let others: Vec<&str> = names.iter().filter(|n| !is_ours(n)).map(String::as_str).collect();
    match others.is_empty() {
        true if names.is_empty() => Err(format!("{} holds no crate", place.display())),
        true => Ok(()),
        false => Err(format!("{} holds crates of others: {}", place.display(), others.join(", "))),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_named() {
        let lock = |name: &str| {
            format!("version = 4\n[[package]]\nname = 'user-x'\n[[package]]\nname = '{name}'\n")
        };
        let judged =
            |name| ours(Path::new("Cargo.lock"), &locked(&lock(name)).expect("a lock file"));
        assert_eq!(judged("woodlot-frame"), Ok(()));
        assert!(judged("loom").is_err_and(|why| why.ends_with("holds crates of others: loom")));
        // Of a name like ours, but none that we publish.
        assert!(judged("woodlot-suite").is_err());
        assert!(judged("user-y").is_err(), "it holds none");
    }
}
