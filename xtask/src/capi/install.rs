//! The library, built and put where a C compiler looks for it.
//!
//! ```text
//!   PREFIX/include/woodlot.h, woodlot_kmem.h
//!   PREFIX/lib/libwoodlot.a, libwoodlot.so ─► .so.0.1 ─► .so.0.1.0
//!   PREFIX/lib/pkgconfig/woodlot.pc
//! ```
//!
//! The shared library is linked from the static one, so that both are the same code.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

use crate::shell::{cargo, root, run};

/// Where cargo builds it.
pub const TARGET: &str = "target/c";

/// What is installed of `capi/include`.
const HEADERS: [&str; 2] = ["woodlot.h", "woodlot_kmem.h"];

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the compiler calls by itself, and every libc and kernel supplies.
const MEMORY: [&str; 5] = ["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// Builds the static library for a target of rustc, or for this machine; its path from the root.
pub fn build(target: Option<&str>) -> Result<String, String> {
    let mut args = vec!["rustc", "--package", "woodlot-capi", "--profile", "capi"];
    args.extend(["--features", "capi", "--crate-type", "staticlib"]);
    args.extend(target.iter().flat_map(|target| ["--target", target]));
    cargo(args, &[("CARGO_TARGET_DIR", TARGET)])?;
    let folder = target.map_or(String::new(), |target| format!("{target}/"));
    Ok(format!("{TARGET}/{folder}capi/libwoodlot_capi.a"))
}

/// Builds and installs; the size of the shared library.
pub fn install(prefix: &Path) -> Result<u64, String> {
    let archive = build(None)?;
    let lib = prefix.join("lib");
    let path = |path: &Path| path.to_string_lossy().into_owned();
    for folder in [prefix.join("include"), lib.join("pkgconfig")] {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    copy(&root().join(&archive), &lib.join("libwoodlot.a"))?;
    for header in HEADERS {
        copy(&root().join("capi/include").join(header), &prefix.join("include").join(header))?;
    }
    let shared = lib.join(format!("libwoodlot.so.{VERSION}"));
    let soname = format!("libwoodlot.so.{}", series());
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    run(Command::new(compiler)
        .args(["-shared", "-o", &path(&shared), "-Wl,--undefined=woodlot_version", &archive])
        .arg(format!("-Wl,-soname,{soname}"))
        .args([
            "-Wl,--version-script=capi/woodlot.map",
            "-Wl,--gc-sections,--strip-debug,-z,defs",
        ]))?;
    link(&format!("libwoodlot.so.{VERSION}"), &lib.join(&soname))?;
    link(&soname, &lib.join("libwoodlot.so"))?;
    let described = lib.join("pkgconfig/woodlot.pc");
    fs::write(&described, description(prefix))
        .map_err(|error| format!("{}: {error}", described.display()))?;
    let size = fs::metadata(&shared).map_err(|error| format!("{}: {error}", shared.display()))?;
    println!("installed under {}", prefix.display());
    Ok(size.len())
}

/// Versions that take each other's place: of 0.1.2 it is 0.1, of 1.2.3 it is 1.
fn series() -> &'static str {
    let parts = if VERSION.starts_with("0.") { 2 } else { 1 };
    VERSION.match_indices('.').nth(parts - 1).map_or(VERSION, |(at, _)| &VERSION[..at])
}

fn description(prefix: &Path) -> String {
    format!(
        "prefix={}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\n\
         Name: woodlot\nDescription: Lock-free page-frame allocators, and kernel memory over them\nVersion: {VERSION}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lwoodlot\n",
        prefix.display()
    )
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = fs::copy(from, to).map(|_| ());
    copied.map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// A link, also where there is one already.
fn link(to: &str, at: &Path) -> Result<(), String> {
    let _ = fs::remove_file(at);
    symlink(to, at).map_err(|error| format!("{}: {error}", at.display()))
}

/// Compares what the shared library exports with the header, and what it needs with nothing but memory
/// functions: no heap, no std. How many functions there are.
pub fn symbols(prefix: &Path) -> Result<usize, String> {
    let path = prefix.join("lib/libwoodlot.so");
    let failed = |error: String| format!("{}: {error}", path.display());
    let bytes = fs::read(&path).map_err(|error| failed(error.to_string()))?;
    let library = object::File::parse(&*bytes).map_err(|error| failed(error.to_string()))?;
    let (mut exported, mut needed) = (BTreeSet::new(), BTreeSet::new());
    for symbol in library.dynamic_symbols() {
        let name = symbol.name().map_err(|error| failed(error.to_string()))?;
        match symbol.is_undefined() {
            true if !symbol.is_weak() && !name.is_empty() => _ = needed.insert(name),
            false if name != "WOODLOT_0.1" => _ = exported.insert(name.to_owned()),
            _ => {}
        }
    }
    if let Some(foreign) = needed.iter().find(|name| !MEMORY.contains(name)) {
        return Err(failed(format!("needs {foreign}")));
    }
    let read = |header: &str| {
        let text = fs::read_to_string(prefix.join("include").join(header));
        text.map(|text| declared(&text)).map_err(|error| format!("{header}: {error}"))
    };
    let declared: Result<Vec<_>, _> = HEADERS.into_iter().map(read).collect();
    let declared: BTreeSet<_> = declared?.into_iter().flatten().collect();
    match exported == declared {
        true => Ok(exported.len()),
        false => {
            let differ: Vec<_> = exported.symmetric_difference(&declared).collect();
            Err(failed(format!("exports and header differ in {differ:?}")))
        }
    }
}

/// The functions that a header declares at the beginning of a line, and does not define.
fn declared(header: &str) -> BTreeSet<String> {
    let plain = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let lines = header.lines().filter(plain).filter(|line| !line.starts_with("static"));
    let names = lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_header() {
        let header = "/* int woodlot_c(int); */\nint woodlot_a(int a,\n    int b);\n\
                      const char *woodlot_b(void);\nstatic inline int woodlot_d(void)\n";
        let expected = ["woodlot_a", "woodlot_b"].map(str::to_owned);
        assert_eq!(declared(header), BTreeSet::from(expected));
    }
}
