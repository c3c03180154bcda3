//! What a path names: the module that defines the thing, or the module itself.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::graph::Imports;
use super::tree::{Module, Tree};

/// What was looked up for one path: the modules, and the paths in them. None of these leads anywhere a second
/// time, also where two globs name each other.
type Seen = RefCell<BTreeSet<(usize, Vec<String>)>>;

/// Every import between two files of a crate, and the names of what is imported.
pub fn imports(tree: &Tree) -> Imports {
    let mut imports = Imports::new();
    for (at, module) in tree.modules.iter().enumerate() {
        // One name alone is no path to a child: it is a local variable's.
        let local = |path: &[String]| path.len() == 1 && module.children.contains_key(&path[0]);
        for path in module.paths.iter().filter(|path| !local(path)) {
            let Some(defines) = resolve(tree, at, path, &Seen::default()) else { continue };
            let (from, to) = (&module.file, &tree.modules[defines].file);
            if from != to {
                imports.entry((from.clone(), to.clone())).or_default().insert(shown(path));
            }
        }
    }
    imports
}

/// What a path names, in short: a type, and not its method.
fn shown(path: &[String]) -> String {
    let typed = path.iter().find(|name| name.starts_with(char::is_uppercase));
    typed.or(path.last()).cloned().unwrap_or_default()
}

/// The module that defines what a path names, as seen from a module; `None` for what is of another crate, a local
/// variable or the prelude.
pub fn resolve(tree: &Tree, from: usize, path: &[String], seen: &Seen) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => inside(tree, 0, rest, seen),
        "self" => inside(tree, from, rest, seen),
        "super" => inside(tree, tree.modules[from].parent?, rest, seen),
        _ => lookup(tree, from, path, seen),
    }
}

/// The same for the rest of a path whose beginning names a module.
fn inside(tree: &Tree, at: usize, rest: &[String], seen: &Seen) -> Option<usize> {
    match rest.split_first() {
        None => Some(at),
        Some((next, rest)) if next == "super" => inside(tree, tree.modules[at].parent?, rest, seen),
        Some((next, _)) => {
            // What the module imports from another crate is not defined here. What is found nowhere, a macro defines
            // here: the code compiles.
            let foreign = tree.modules[at].imports.iter().any(|(alias, _)| alias == next);
            lookup(tree, at, rest, seen).or((!foreign).then_some(at))
        }
    }
}

/// What a module knows under the first name of a path, and what the rest names in it.
fn lookup(tree: &Tree, at: usize, path: &[String], seen: &Seen) -> Option<usize> {
    if !seen.borrow_mut().insert((at, path.to_vec())) {
        return None;
    }
    let module: &Module = &tree.modules[at];
    let (name, rest) = path.split_first()?;
    let child = || inside(tree, *module.children.get(name)?, rest, seen);
    let imported = || {
        let aliases = module.imports.iter().filter(|(alias, _)| alias == name);
        aliases.map(|(_, target)| [target, rest].concat()).find_map(|target| {
            // `use loom::…` in a module named loom names another crate.
            (target != path).then(|| resolve(tree, at, &target, seen)).flatten()
        })
    };
    let defined = || module.defines.contains(name).then_some(at);
    let by_glob = || {
        module.globs.iter().find_map(|glob| {
            let target = resolve(tree, at, glob, seen)?;
            (target != at).then(|| lookup(tree, target, path, seen)).flatten()
        })
    };
    // A module and a function may have one name: before `::` it is the module's.
    match rest.is_empty() {
        true => imported().or_else(defined).or_else(child).or_else(by_glob),
        false => child().or_else(imported).or_else(defined).or_else(by_glob),
    }
}
