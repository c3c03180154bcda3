//! `cargo xtask no-panic`: what the core crates and the library for C can reach at link level.
//!
//! ```text
//!   nopanic/ ─ static library, release, LTO ─► library: a graph of functions
//!                                              findings: what its symbols reach
//!                                              instructions: what its code does
//! ```
//!
//! First the same library with seeded defects is judged: each must be found, as what it is. At last the object of the
//! example kernel is.

mod findings;
mod instructions;
mod kernel;
mod library;

use std::fs;

use findings::{Findings, Walk};
use library::Library;

use crate::shell::{cargo, root};

/// Symbols that are judged begin so: the methods of the core crates, and the calls for C.
const ROOTS: [&str; 3] = ["hot_", "cold_", "woodlot_"];
const DEFECT: &str = "hot_defect_";

/// A library and what was found in it.
struct Judged {
    roots: Vec<String>,
    code: usize,
    findings: Findings,
}

/// Judges the seeded defects, and then the core crates.
pub fn no_panic() -> Result<String, String> {
    if !cfg!(target_os = "linux") {
        return Err("no-panic reads ELF, which this machine does not use".into());
    }
    let (found, seeded) = seeded_defects_are_found()?;
    let Judged { roots, code, findings } = judge(&[])?;
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
fn seeded_defects_are_found() -> Result<(usize, usize), String> {
    let Judged { roots, findings, .. } = judge(&["--features", "defects"])?;
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

fn judge(features: &[&str]) -> Result<Judged, String> {
    let target = root().join("target/no-panic");
    let mut build = vec!["build", "--release", "--quiet", "--manifest-path", "nopanic/Cargo.toml"];
    build.extend(features);
    cargo(build, &[("CARGO_TARGET_DIR", &target.to_string_lossy())])?;
    let path = target.join("release/libwoodlot_nopanic.a");
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let library = Library::read(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let roots = library.roots(&ROOTS);
    let walk = Walk::new(&library, &roots);
    let mut findings = Findings::new();
    roots.iter().for_each(|root| walk.judge(root, &mut findings));
    let roots = roots.into_iter().map(|(name, _)| name).collect();
    Ok(Judged { roots, code: walk.code, findings })
}
