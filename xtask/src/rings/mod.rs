//! `cargo xtask rings`: files of a crate that import each other.
//!
//! ```text
//!   tree (files, modules, what each imports and names) ──► names (what a path names) ──► imports ──► graph (rings)
//! ```
//!
//! A file imports another where a path in its code, in a `use` or anywhere else, names something that the
//! other defines. A re-export is looked through: whoever uses it imports the file that defines the thing.
//! So a parent that declares its children and re-exports what is in them imports none of them, until its own code
//! names what they define. A ring is a set of files, each of which reaches each other by imports.
//!
//! The check reads the text: code that macros generate and methods that are called on values are not seen.

mod graph;
mod names;
mod tree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{capture, root, this_cargo};
use graph::{Imports, rings_of};
use tree::Tree;

/// The most files that may import each other.
const MOST: usize = 2;

/// Prints the rings of every crate, the larger ones with their imports; fails where one is too large.
pub fn rings() -> Result<String, String> {
    let (mut files, mut largest, mut too_large) = (0, 1, 0);
    let crates = crate_roots()?;
    for root in &crates {
        let tree = Tree::read(root)?;
        files += tree.files().len();
        let imports = names::imports(&tree);
        for ring in rings_of(&imports) {
            print(&ring, &imports);
            largest = largest.max(ring.len());
            too_large += usize::from(ring.len() > MOST);
        }
    }
    let said = format!(
        "{files} files of {} crates; at most {largest} import each other (target: {MOST})",
        crates.len()
    );
    if too_large > 0 { Err(format!("{too_large} rings are too large: {said}")) } else { Ok(said) }
}

fn print(ring: &BTreeSet<PathBuf>, imports: &Imports) {
    let root = root().canonicalize().unwrap_or_default();
    let shown = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
    println!("{} files import each other:", ring.len());
    for ((from, to), what) in imports {
        if ring.contains(from) && ring.contains(to) {
            let what = what.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            println!("    {} -> {}: {what}", shown(from), shown(to));
        }
    }
}

/// The root file of every crate: libraries, programs, tests, examples, build scripts, of the workspace and outside of it.
fn crate_roots() -> Result<BTreeSet<PathBuf>, String> {
    let listed = capture(Command::new("git").args(["ls-files", "*Cargo.toml"]))?;
    let (mut roots, mut seen) = (BTreeSet::new(), BTreeSet::new());
    // The shortest first: a workspace before its members, which it names.
    let mut manifests: Vec<&str> = listed.lines().collect();
    manifests.sort_by_key(|manifest| manifest.len());
    for manifest in manifests {
        if seen.contains(&root().join(manifest).canonicalize().unwrap_or_default()) {
            continue;
        }
        let mut command = this_cargo();
        command.args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--manifest-path",
            manifest,
        ]);
        let said = capture(&mut command)?;
        let wrong = || format!("{manifest}: cargo metadata cannot be read");
        let found: serde_json::Value = serde_json::from_str(&said).map_err(|_| wrong())?;
        for package in found["packages"].as_array().ok_or_else(wrong)? {
            seen.insert(PathBuf::from(package["manifest_path"].as_str().ok_or_else(wrong)?));
            for target in package["targets"].as_array().ok_or_else(wrong)? {
                let path = Path::new(target["src_path"].as_str().ok_or_else(wrong)?);
                // The manifests of `checking/` lead to the sources of others, which are looked at once.
                roots.insert(path.canonicalize().map_err(|_| wrong())?);
            }
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rings of a crate of these files, by their names.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let tree = Tree::read_with(Path::new("src/lib.rs"), &mut |path| {
            let file = files.iter().find(|(name, _)| path == Path::new("src").join(name));
            file.map(|(_, text)| (*text).to_owned())
        });
        let rings = rings_of(&names::imports(&tree.expect("the files can be read")));
        let name =
            |path: PathBuf| path.strip_prefix("src").expect("it is there").display().to_string();
        rings.into_iter().map(|ring| ring.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn a_seeded_ring_is_found() {
        let rings = found(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; impl B { fn c() { super::c::c() } }"),
            ("c.rs", "use crate::a; pub fn c() { println!(\"{}\", a::A::new()) }"),
            ("d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(rings, [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn a_parent_that_declares_and_re_exports_is_in_no_ring() {
        let child = (
            "a/child.rs",
            "use super::other::Other; use crate::a::Most; pub struct Thing(Other, Most);",
        );
        let other = ("a/other.rs", "pub struct Other;");
        let lib = ("lib.rs", "mod a; fn f(_: a::Thing) {}");
        let most = ("a/most.rs", "pub struct Most;");
        let parent = "mod child; mod most; mod other; pub use child::Thing; pub use most::*;";
        assert!(found(&[lib, ("a/mod.rs", parent), child, other, most]).is_empty());
        // Nor is one that imports a child which imports nothing of the parent.
        let uses = format!("{parent} use self::child::Thing as Named; pub fn f(_: Named) {{}}");
        assert!(found(&[lib, ("a/mod.rs", &uses), child, other, most]).is_empty());
        // But if the child wants what the parent defines, they import each other.
        let back = ("a/child.rs", "pub struct Thing; fn g() { super::f(Thing) }");
        assert_eq!(
            found(&[lib, ("a/mod.rs", &uses), back, other, most]),
            [["a/child.rs", "a/mod.rs"]]
        );
        // A re-export that the parent's own code uses is an import too.
        let uses = format!("{parent} pub fn f(_: Thing) {{}}");
        assert_eq!(
            found(&[lib, ("a/mod.rs", &uses), back, other, most]),
            [["a/child.rs", "a/mod.rs"]]
        );
    }

    #[test]
    fn a_ring_through_re_exports_is_found() {
        let rings = found(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod one; mod two; pub use one::One; use two::Two;"),
            ("a/one.rs", "use super::Two; pub struct One(Two);"),
            (
                "a/two.rs",
                "mod tests { use super::*; } use super::*; pub struct Two(Option<Box<One>>);",
            ),
        ]);
        assert_eq!(rings, [["a/one.rs", "a/two.rs"]]);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let read = Tree::read_with(Path::new("src/lib.rs"), &mut |path| {
            (path == Path::new("src/lib.rs")).then(|| "mod gone;".to_owned())
        });
        assert!(read.err().is_some_and(|why| why.contains("gone")));
    }
}
