//! `cargo xtask no-panic`: what the core crates and the library for C can reach at link level.
//!
//! ```text
//!   nopanic/ ─ static library, release, LTO ─► library: a graph of functions
//!                                              findings: what its symbols reach
//!                                              instructions: what its code does
//! ```
//!
//! Beside the crates' own functions the library has seeded defects: each must be found, as what it is. At last the object
//! of the example kernel is judged.

mod findings;
mod instructions;
mod kernel;
mod library;

use std::fs;
use std::path::PathBuf;

use findings::{Findings, Walk};
use library::{Library, Node};

use crate::shell::{cargo, root};

/// Symbols that are judged begin so: the methods of the core crates, and the calls for C.
const ROOTS: [&str; 3] = ["hot_", "cold_", "woodlot_"];
const DEFECT: &str = "hot_defect_";

/// Functions of the library and what was found in them.
struct Judged {
    roots: Vec<String>,
    code: usize,
    findings: Findings,
}

/// Judges the seeded defects, then the core crates and the example kernel.
pub fn no_panic() -> Result<String, String> {
    if !cfg!(target_os = "linux") {
        return Err("no-panic reads ELF, which this machine does not use".into());
    }
    let path = build()?;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(&path).map_err(|error| failed(&error))?;
    let library = Library::read(&bytes).map_err(|error| failed(&error))?;
    let roots = library.roots(&ROOTS).into_iter();
    let (defects, ours): (Vec<_>, Vec<_>) = roots.partition(|root| root.0.starts_with(DEFECT));
    let (found, seeded) = seeded_defects_are_found(judge(&library, defects))?;
    let Judged { roots, code, findings } = judge(&library, ours);
    let missing = |begin: &&&str| !roots.iter().any(|root| root.starts_with(**begin));
    if let Some(begin) = ROOTS.iter().find(missing) {
        return Err(format!("the library has no functions {begin}… to look into"));
    }
    for ((kind, what), roots) in &findings {
        println!("{}: {what}\n    reached from {}", kind.label(), roots.join(", "));
    }
    let looked = if instructions::KNOWN { "" } else { " (instructions not looked at)" };
    let line = format!(
        "{} findings in {} functions, {code} bytes of code{looked}; {found} of {seeded} \
         seeded defects found",
        findings.len(),
        roots.len(),
    );
    if !findings.is_empty() {
        return Err(line);
    }
    let linked = kernel::object()?;
    Ok(format!("{line}; none in {linked} functions that the example kernel links"))
}

/// How many were found of how many there are: all, but for those that take a look at instructions where
/// they are not known.
fn seeded_defects_are_found(judged: Judged) -> Result<(usize, usize), String> {
    let Judged { roots, findings, .. } = judged;
    let defects: Vec<_> = roots.iter().filter_map(|root| root.strip_prefix(DEFECT)).collect();
    let found = |defect: &&str| {
        let root = format!("{DEFECT}{defect}");
        let of_root = findings.iter().filter(|(_, roots)| roots.contains(&root));
        of_root.into_iter().any(|((kind, _), _)| defect.starts_with(kind.label()))
    };
    let needs_instructions = |defect: &&str| {
        ["float", "division"].iter().any(|kind| defect.starts_with(kind)) && !instructions::KNOWN
    };
    let missed: Vec<_> = defects.iter().filter(|defect| !found(defect)).copied().collect();
    let all = defects.len();
    match missed.iter().all(needs_instructions) {
        true if all > 0 => Ok((all - missed.len(), all)),
        _ => Err(format!("of {all} seeded defects, not found: {missed:?}")),
    }
}

fn build() -> Result<PathBuf, String> {
    let target = root().join("target/no-panic");
    let build = ["build", "--release", "--quiet", "--manifest-path", "nopanic/Cargo.toml"];
    cargo(build, &[("CARGO_TARGET_DIR", &target.to_string_lossy())])?;
    Ok(target.join("release/libwoodlot_nopanic.a"))
}

fn judge(library: &Library<'_>, roots: Vec<(String, Node)>) -> Judged {
    let walk = Walk::new(library, &roots);
    let mut findings = Findings::new();
    roots.iter().for_each(|root| walk.judge(root, &mut findings));
    let roots = roots.into_iter().map(|(name, _)| name).collect();
    Judged { roots, code: walk.code, findings }
}
