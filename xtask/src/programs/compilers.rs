//! Compilers: g++ with a program that instantiates much, and rustc with crates of this repository.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::heap::Heap;
use super::program::{Folder, Program};
use super::run::{Ran, hash, run};
use crate::shell::{capture, root, this_cargo};

/// g++ and its source.
pub struct Cxx {
    folder: PathBuf,
}

/// Instantiations of everything, each by a type of its own.
const CLASSES: usize = 6;
const CLASSES_SHORT: usize = 1;

impl Cxx {
    pub fn new(folder: &Folder) -> Result<Cxx, String> {
        capture(Command::new("g++").arg("--version"))?;
        let path = folder.path.join("g++");
        let classes = if folder.short { CLASSES_SHORT } else { CLASSES };
        let write = || {
            fs::create_dir_all(&path)
                .and_then(|()| fs::write(path.join("many.cpp"), source(classes)))
        };
        write().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Cxx { folder: path })
    }
}

fn source(classes: usize) -> String {
    let headers = ["algorithm", "map", "memory", "regex", "string", "unordered_map", "vector"];
    let mut source: String =
        headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    for class in 0..classes {
        let _ = write!(
            source,
            "struct C{class} {{ int key; std::string name; bool operator<(const C{class} &o) const {{ return key < o.key; }} }};\n\
             int f{class}(std::vector<C{class}> items) {{\n\
             \x20   std::sort(items.begin(), items.end());\n\
             \x20   std::map<C{class}, std::shared_ptr<C{class}>> tree;\n\
             \x20   std::unordered_map<std::string, std::vector<C{class}>> table;\n\
             \x20   std::regex name(\"a+{class}|b*\");\n\
             \x20   for (auto &item : items) {{\n\
             \x20       tree[item] = std::make_shared<C{class}>(item);\n\
             \x20       if (std::regex_match(item.name, name)) table[item.name].push_back(item);\n\
             \x20   }}\n\
             \x20   return int(tree.size() + table.size());\n\
             }}\n"
        );
    }
    source
}

impl Program for Cxx {
    fn name(&self) -> &'static str {
        "g++"
    }

    fn run(&self, heap: &Heap, bindings: Option<&Path>) -> Result<Ran, String> {
        let mut command = Command::new("g++");
        command
            .args(["-std=c++17", "-O2", "-c", "many.cpp", "-o", "many.o"])
            .current_dir(&self.folder);
        heap.preload(&mut command);
        bindings.map(|folder| Heap::write_bindings(&mut command, folder));
        let (took, _) = run(&mut command, &self.folder.join("said"))?;
        Ok(Ran { took, result: hash(&self.folder.join("many.o"))? })
    }
}

/// rustc. The program of that name brings a heap of its own, and all else is in a library; so a program of two lines calls
/// that.
pub struct Rustc {
    folder: PathBuf,
    short: bool,
}

const MAIN: &str = "extern void DRIVER(void);\nint main(void) { DRIVER(); return 0; }\n";

impl Rustc {
    pub fn new(folder: &Folder) -> Result<Rustc, String> {
        let path = folder.path.join("rustc");
        fs::create_dir_all(&path)
            .and_then(|()| fs::write(path.join("main.c"), MAIN))
            .map_err(|error| error.to_string())?;
        let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
        let sysroot = Path::new(sysroot.trim());
        let symbols = capture(Command::new("nm").arg("-D").arg(sysroot.join("bin/rustc")))?;
        let mut words = symbols.split_whitespace();
        let driver = words.find(|word| word.contains("rustc_driver") && word.ends_with("main"));
        let driver = driver.ok_or("rustc calls no driver")?;
        let lib = sysroot.join("lib");
        let mut files = fs::read_dir(&lib).map_err(|error| error.to_string())?.flatten();
        let library =
            files.find(|file| file.file_name().to_string_lossy().starts_with("librustc_driver-"));
        let library = library.ok_or("there is no library of rustc")?.path();
        let mut cc = Command::new("cc");
        cc.args(["-o", "rustc", "main.c", "-Wl,--allow-shlib-undefined"])
            .arg(format!("-DDRIVER={driver}"));
        cc.arg(library).arg(format!("-Wl,-rpath,{}", lib.display())).current_dir(&path);
        capture(&mut cc)?;
        Ok(Rustc { folder: path, short: folder.short })
    }
}

impl Program for Rustc {
    fn name(&self) -> &'static str {
        "rustc"
    }

    fn run(&self, heap: &Heap, bindings: Option<&Path>) -> Result<Ran, String> {
        let target = self.folder.join("target");
        if target.exists() {
            fs::remove_dir_all(&target).map_err(|error| error.to_string())?;
        }
        let (krate, profile) = if self.short { ("frame", "dev") } else { ("kmem", "release") };
        let mut command = this_cargo();
        command.args([
            "build",
            "--quiet",
            "--offline",
            "--jobs",
            "1",
            "--profile",
            profile,
            "--target-dir",
        ]);
        command.arg(&target).args(["--package", &format!("woodlot-{krate}")]).current_dir(root());
        command.env("RUSTC", self.folder.join("rustc")).env("CARGO_INCREMENTAL", "0");
        heap.preload(&mut command);
        bindings.map(|folder| Heap::write_bindings(&mut command, folder));
        let (took, _) = run(&mut command, &self.folder.join("said"))?;
        let built = target.join(if self.short { "debug" } else { "release" });
        Ok(Ran { took, result: hash(&built.join(format!("libwoodlot_{krate}.rlib")))? })
    }
}
