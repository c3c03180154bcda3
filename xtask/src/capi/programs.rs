//! Programs in C and C++ that use the installed library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::install::build;
use crate::shell::{capture, root, run, succeeds};

/// A compiler of each language, and the name that they are known by.
const COMPILERS: [(&str, &str); 2] = [("gcc", "g++"), ("clang", "clang++")];

const WARNINGS: [&str; 5] = ["-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"];

/// A program: its source from the root, and what its compiler is told besides.
struct Program {
    source: PathBuf,
    flags: &'static [&'static str],
}

/// How the library is linked: what the compiler is told, for each.
const LINKED: [(&str, &[&str]); 2] = [("static", &["-static"]), ("shared", &[])];

/// What ran.
pub struct Ran {
    pub programs: usize,
    pub compilers: Vec<&'static str>,
    /// A compiler that is not there.
    pub missing: Option<&'static str>,
}

/// Compiles every program in a folder with every compiler, against both libraries, and runs it.
pub fn run_all(prefix: &Path, folder: &Path) -> Result<Ran, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let readme = Readme::read()?;
    let sources = [
        Program { source: "capi/examples/first.c".into(), flags: &[] },
        Program { source: "capi/examples/freestanding.c".into(), flags: &["-ffreestanding"] },
        Program { source: "capi/examples/kmem.c".into(), flags: &["-ffreestanding"] },
        Program { source: "capi/tests/bad_input.c".into(), flags: &[] },
        Program { source: "capi/tests/kmem.c".into(), flags: &[] },
        Program { source: readme.program(folder)?, flags: &[] },
        Program { source: "capi/examples/frames.cpp".into(), flags: &[] },
    ];
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "woodlot"]);
    let said = capture(ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))?;
    let library: Vec<_> = said.split_whitespace().collect();
    let mut ran = Ran { programs: 0, compilers: Vec::new(), missing: None };
    for (c, cpp) in COMPILERS {
        if !succeeds(Command::new(c).arg("--version")) {
            ran.missing = Some(c);
            continue;
        }
        for program in &sources {
            let is_cpp = program.source.extension().is_some_and(|end| end == "cpp");
            let (compiler, standard) = if is_cpp { (cpp, "-std=c++11") } else { (c, "-std=c11") };
            for (name, flags) in LINKED {
                let made = folder.join(format!("{compiler}-{name}"));
                let mut compile = Command::new(compiler);
                compile.arg(standard).args(WARNINGS).args(program.flags).args(flags);
                run(compile.arg("-o").arg(&made).arg(&program.source).args(&library))?;
                run(Command::new(&made).env("LD_LIBRARY_PATH", prefix.join("lib")))?;
                ran.programs += 1;
            }
        }
        ran.compilers.push(c);
    }
    readme.commands(prefix, folder)?;
    match ran.compilers.is_empty() {
        true => Err("no C compiler is there".into()),
        false => Ok(ran),
    }
}

/// The kernel's example against the library for a machine without anything: what the library needs, it has.
pub fn link_kernel() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    let archive = build(Some("x86_64-unknown-none"))?;
    let mut command = Command::new(COMPILERS[0].0);
    command.args([
        "-std=c11",
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-mno-red-zone",
    ]);
    command.args(["-Icapi/include", "-Wl,--entry=main", "-o", "target/c/programs/kernel"]);
    run(command.args(["capi/examples/freestanding.c", &archive]))
}

/// capi/README.md: a program in a block of C, and commands in a block of sh.
struct Readme(String);

impl Readme {
    fn read() -> Result<Readme, String> {
        let path = root().join("capi/README.md");
        fs::read_to_string(&path)
            .map(Readme)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn block(&self, language: &str) -> Result<&str, String> {
        let begin = format!("\n```{language}\n");
        let block = self.0.split_once(&begin).and_then(|(_, rest)| rest.split_once("```"));
        block.map(|(block, _)| block).ok_or_else(|| format!("capi/README.md has no {language}"))
    }

    /// The program as a file, which the commands call first.c.
    fn program(&self, folder: &Path) -> Result<PathBuf, String> {
        let path = folder.join("first.c");
        fs::write(&path, self.block("c")?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Runs the commands.
    fn commands(&self, prefix: &Path, folder: &Path) -> Result<(), String> {
        let commands = format!("set -eu; cd {}\n{}", folder.display(), self.block("sh")?);
        run(Command::new("sh").args(["-c", &commands]).env("PREFIX", prefix))
    }
}
