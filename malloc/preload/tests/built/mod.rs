//! The library, built once as the test is that asks for it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// `libwoodlot_malloc.so`.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("", &[]))
}

/// Builds it in a folder of the target's.
pub fn build(folder: &str, more: &[&str]) -> PathBuf {
    // target/debug/deps/programs-…: the library is built as this test is.
    let test = env::current_exe().expect("this test");
    let place = test.parent().and_then(Path::parent).expect("target/debug");
    let profile = place.file_name().and_then(OsStr::to_str).expect("a profile's folder");
    let target = place.parent().expect("target").join(folder);
    let build = Command::new(env!("CARGO"))
        .args(["build", "--package", "woodlot-malloc-preload", "--target-dir"])
        .arg(&target)
        .args(["--profile", if profile == "debug" { "dev" } else { profile }])
        .args(more)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    succeeded("cargo build", &build.expect("cargo"));
    target.join(profile).join("libwoodlot_malloc.so")
}

/// Compiles a program in C or C++.
pub fn compile(source: &Path, program: &Path, more: &[&OsStr]) {
    let compiler = if source.extension() == Some(OsStr::new("cpp")) { "c++" } else { "cc" };
    let compile = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror", "-pthread", "-o"])
        .args([program, source])
        .args(more)
        .output();
    succeeded(compiler, &compile.expect("a compiler"));
}

/// A program has ended well, with the library preloaded if it was to be.
pub fn succeeded(what: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{said}", output.status);
    // The loader says so if it cannot preload, and goes on.
    assert!(!said.contains("cannot be preloaded"), "{what}: {said}");
}
