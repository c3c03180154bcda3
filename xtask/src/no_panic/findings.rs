//! What must not be there, and from which functions it is reached.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::instructions;
use super::library::{Edge, Library, Node, Target};

/// Functions in which divisions count, too, begin so.
const HOT: [&str; 4] = ["hot_", "woodlot_alloc", "woodlot_free", "woodlot_is_"];

/// What the library's panic handler calls and nothing defines.
const PANICKED: &str = "woodlot_panicked";

/// What the compiler calls by itself, and every kernel supplies.
const ALLOWED: [&str; 5] = ["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// A Location is loaded just before the call that it is for.
const LOCATION_REACH: u64 = 64;

/// Kinds of findings; a seeded defect's name begins with its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Panic,
    Heap,
    Lock,
    Float,
    Division,
    Foreign,
}

impl Kind {
    pub fn label(self) -> &'static str {
        match self {
            Kind::Panic => "panic",
            Kind::Heap => "heap",
            Kind::Lock => "lock",
            Kind::Float => "float",
            Kind::Division => "division",
            Kind::Foreign => "foreign",
        }
    }

    /// What a symbol is that nothing in the library defines; `None` where it may be used.
    fn of_symbol(name: &str) -> Option<Kind> {
        let any = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        if name == PANICKED || ALLOWED.contains(&name) {
            // Panics are found where they begin.
            return None;
        }
        Some(if any(&["alloc", "__rust_", "__rdl_", "memalign"]) || name == "free" {
            Kind::Heap
        } else if any(&["pthread_", "futex", "mutex", "sem_", "lock"]) {
            Kind::Lock
        } else if name.starts_with("__") && any(&["hf", "sf", "df", "tf"]) {
            Kind::Float
        } else {
            Kind::Foreign
        })
    }
}

/// What was found, and the functions that reach it.
pub type Findings = BTreeMap<(Kind, String), Vec<String>>;

/// The library seen from its roots.
pub struct Walk<'l, 'a> {
    library: &'l Library<'a>,
    edges: HashMap<Node, Vec<Edge>>,
    /// The sections from which a panic is reached.
    panicking: HashSet<Node>,
    /// The bytes of code that are reached from any root.
    pub code: usize,
}

impl<'l, 'a> Walk<'l, 'a> {
    /// Follows everything that the roots reach.
    pub fn new(library: &'l Library<'a>, roots: &[(String, Node)]) -> Self {
        let (mut edges, mut todo) = (HashMap::new(), Vec::new());
        todo.extend(roots.iter().map(|root| root.1));
        while let Some(node) = todo.pop() {
            edges.entry(node).or_insert_with(|| {
                let from: Vec<Edge> = library.edges(node);
                todo.extend(from.iter().filter_map(inside));
                from
            });
        }
        let code = edges.keys().filter(|&&node| library.is_code(node));
        let code = code.map(|&node| library.bytes(node).len()).sum();
        let panicking = panicking(library, &edges);
        Walk { library, edges, panicking, code }
    }

    /// Everything that is wrong with what one root reaches. Divisions only count on hot paths.
    pub fn judge(&self, root: &(String, Node), findings: &mut Findings) {
        let hot = HOT.iter().any(|begin| root.0.starts_with(begin));
        let (mut seen, mut todo) = (HashSet::from([root.1]), vec![root.1]);
        let mut found = Vec::new();
        while let Some(node) = todo.pop() {
            found.extend(self.sites(node));
            let next = self.edges[&node].iter().filter_map(inside);
            todo.extend(next.filter(|&next| seen.insert(next)));
        }
        let said_why = found.iter().any(|(kind, _)| *kind == Kind::Panic);
        if self.panicking.contains(&root.1) && !said_why {
            found.push((Kind::Panic, "somewhere behind it".into()));
        }
        for (kind, what) in found {
            if hot || kind != Kind::Division {
                let roots = findings.entry((kind, what)).or_default();
                if roots.last() != Some(&root.0) {
                    roots.push(root.0.clone());
                }
            }
        }
    }

    /// What is wrong with a section itself.
    fn sites(&self, node: Node) -> Vec<(Kind, String)> {
        let mut found = Vec::new();
        if self.library.is_code(node) {
            let name = self.library.name(node);
            let seen = instructions::look(self.library.bytes(node));
            let say = |what| format!("{what} in {name}");
            found.extend(seen.float.map(say).map(|what| (Kind::Float, what)));
            found.extend(seen.division.map(say).map(|what| (Kind::Division, what)));
        }
        for edge in &self.edges[&node] {
            match &edge.to {
                Target::Outside(name) => {
                    found.extend(Kind::of_symbol(name).map(|kind| (kind, name.clone())));
                }
                &Target::Inside(to, _) if self.begins_panic(node, to) => {
                    found.push((Kind::Panic, self.describe(node, edge, to)));
                }
                Target::Inside(..) => {}
            }
        }
        found
    }

    /// Does a function that is not about panics itself call one that is?
    fn begins_panic(&self, from: Node, to: Node) -> bool {
        let is_machinery = |node: Node| self.panicking.contains(&node) && self.is_machinery(node);
        is_machinery(to) && !is_machinery(from)
    }

    fn is_machinery(&self, node: Node) -> bool {
        let name = self.library.name(node);
        ["panic", "_fail", "rust_begin_unwind"].iter().any(|part| name.contains(part))
            && (name.starts_with("core::") || name.starts_with("__rustc::"))
    }

    fn describe(&self, from: Node, edge: &Edge, to: Node) -> String {
        let (callee, caller) = (self.library.name(to), self.library.name(from));
        let before = self.edges[&from].iter().rev();
        let near = before.filter(|e| e.at < edge.at && edge.at - e.at <= LOCATION_REACH);
        let location = near.filter_map(|e| self.library.location(&e.to)).next();
        // With a single caller the optimiser moves it into the callee.
        let place = location.or_else(|| self.first_location(to)).unwrap_or(caller);
        format!("{callee} at {place}")
    }

    /// The first Location outside the core library among panicking functions from here on.
    fn first_location(&self, from: Node) -> Option<String> {
        let (mut seen, mut todo) = (HashSet::from([from]), vec![from]);
        while let Some(node) = todo.pop() {
            let locations =
                self.edges[&node].iter().filter_map(|edge| self.library.location(&edge.to));
            let ours = |place: &String| !place.starts_with("/rustc/");
            if let Some(place) = locations.into_iter().find(ours) {
                return Some(place);
            }
            let next = self.edges[&node].iter().filter_map(inside);
            todo.extend(next.filter(|n| self.panicking.contains(n) && seen.insert(*n)));
        }
        None
    }
}

fn inside(edge: &Edge) -> Option<Node> {
    match edge.to {
        Target::Inside(node, _) => Some(node),
        Target::Outside(_) => None,
    }
}

/// The sections from which the handler of panics is reached.
fn panicking(library: &Library<'_>, edges: &HashMap<Node, Vec<Edge>>) -> HashSet<Node> {
    let mut callers: HashMap<Node, Vec<Node>> = HashMap::new();
    let is_handler = |node: &&Node| library.name(**node).ends_with("rust_begin_unwind");
    let mut todo: Vec<Node> = edges.keys().filter(is_handler).copied().collect();
    for (&from, out) in edges {
        for edge in out {
            match &edge.to {
                Target::Inside(to, _) => callers.entry(*to).or_default().push(from),
                Target::Outside(name) if name == PANICKED => todo.push(from),
                Target::Outside(_) => {}
            }
        }
    }
    let mut reached = HashSet::new();
    while let Some(node) = todo.pop() {
        if reached.insert(node) {
            todo.extend(callers.get(&node).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_told_apart() {
        for (name, kind) in [
            ("malloc", Some(Kind::Heap)),
            ("__rust_alloc", Some(Kind::Heap)),
            ("pthread_mutex_lock", Some(Kind::Lock)),
            ("__adddf3", Some(Kind::Float)),
            ("write", Some(Kind::Foreign)),
            ("memcpy", None),
            (PANICKED, None),
        ] {
            assert_eq!(Kind::of_symbol(name), kind, "{name}");
        }
    }
}
