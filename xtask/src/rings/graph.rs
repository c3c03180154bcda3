//! Rings in a graph.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Who imports whom, and what for.
pub type Imports = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// The sets of two files or more, each of which reaches each other; the largest first.
pub fn rings_of(imports: &Imports) -> Vec<BTreeSet<PathBuf>> {
    let files: BTreeSet<&PathBuf> = imports.keys().map(|(from, _)| from).collect();
    let mut rings = Vec::<BTreeSet<PathBuf>>::new();
    for file in files {
        if rings.iter().any(|ring| ring.contains(file)) {
            continue;
        }
        let there = reached(imports, file);
        let back = there.iter().filter(|other| reached(imports, other).contains(file));
        let ring: BTreeSet<_> = back.cloned().collect();
        if ring.len() > 1 {
            rings.push(ring);
        }
    }
    rings.sort_by_key(|ring| std::cmp::Reverse(ring.len()));
    rings
}

/// What a file imports, what that imports, and so on.
fn reached(imports: &Imports, file: &PathBuf) -> BTreeSet<PathBuf> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![file]);
    while let Some(next) = left.pop() {
        for (from, to) in imports.keys() {
            if from == next && reached.insert(to.clone()) {
                left.push(to);
            }
        }
    }
    reached
}
