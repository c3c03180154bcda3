//! The object of the example kernel: what a kernel really links of ours, after the linker has thrown away the rest.
//!
//! ```text
//!   examples/kernel ─ release, LTO ─► one object file ─► its interrupt handlers, and all functions of ours: no panic
//!                                                    └─► the kernel itself, which does panic: it must be found
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::findings::{Findings, Walk};
use super::library::{Library, Node};
use crate::shell::{cargo, root};

const MANIFEST: &str = "examples/kernel/Cargo.toml";
const TARGET: &str = "x86_64-unknown-none";

/// Functions of the object that are judged: those of our crates, and what the kernel's interrupts call.
const OURS: &str = "woodlot_";
const HANDLERS: [&str; 2] = ["kernel::CLOCK::handler", "kernel::CALL::handler"];
/// The kernel's own, which asserts.
const PANICS: &str = "enter";

/// Judges the object: how many functions were looked at.
pub fn object() -> Result<usize, String> {
    let path = build()?;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(&path).map_err(|error| failed(&error))?;
    let library = Library::read_object(&bytes).map_err(|error| failed(&error))?;
    let functions = library.functions();
    let is_ours = |name: &str| name.trim_start_matches('<').starts_with(OURS) && !is_debug(name);
    let chosen =
        functions.iter().filter(|(name, _)| is_ours(name) || HANDLERS.contains(&name.as_str()));
    let roots: Vec<(String, Node)> = chosen.cloned().collect();
    for handler in HANDLERS {
        if !roots.iter().any(|(name, _)| name == handler) {
            return Err(failed(&format!("there is no {handler}")));
        }
    }
    let panics: Vec<_> = functions.into_iter().filter(|(name, _)| name == PANICS).collect();
    let walk = Walk::new(&library, &[&roots[..], &panics].concat());
    let judge = |roots: &[(String, Node)]| {
        let mut findings = Findings::new();
        roots.iter().for_each(|root| walk.judge(root, &mut findings));
        findings
    };
    if judge(&panics).is_empty() {
        return Err(failed(&"a kernel that asserts was found not to panic"));
    }
    let findings = judge(&roots);
    for ((kind, what), roots) in &findings {
        println!("{}: {what}\n    reached from {}", kind.label(), roots.join(", "));
    }
    match findings.len() {
        0 => Ok(roots.len()),
        count => Err(failed(&format!("{count} findings in the example kernel"))),
    }
}

/// What a derived `Debug` prints is the core library's.
fn is_debug(name: &str) -> bool {
    name.ends_with("Debug>::fmt")
}

/// Builds the kernel, and finds its object file.
fn build() -> Result<PathBuf, String> {
    let target = root().join("target/boot");
    let config = root().join("examples/kernel/.cargo/config.toml");
    let args = ["--config", &config.to_string_lossy(), "rustc", "--release", "--quiet", "--locked"];
    let args = args.iter().copied().chain(["--manifest-path", MANIFEST, "--target", TARGET]);
    let args = args.chain(["--bin", "kernel"]);
    let target_dir = target.to_string_lossy().into_owned();
    cargo(args.chain(["--", "--emit=obj"]), &[("CARGO_TARGET_DIR", &target_dir)])?;
    newest(&target.join(TARGET).join("release/deps"))
}

/// The object file that was written last.
fn newest(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?.filter_map(Result::ok);
    let is_object = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("kernel-") && name.ends_with(".o") && !name.contains(".rcgu.")
    };
    let objects = entries.map(|entry| entry.path()).filter(is_object);
    let written = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    objects.max_by_key(written).ok_or(format!("{}: no object of the kernel", folder.display()))
}
