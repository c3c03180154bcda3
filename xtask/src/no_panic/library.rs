//! A static library as a graph: which function refers to what.
//!
//! ```text
//!   archive ─ object file ─ section ─ relocation ──► section of any object file
//!                                                └─► symbol that nothing defines
//! ```
//!
//! The library is built with a section for each function and each constant, so a section is a
//! node, and its relocations are all it refers to. Only ELF is read.

use std::collections::HashMap;

use object::read::archive::ArchiveFile;
use object::{
    File, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind,
    SymbolSection,
};

/// A section: object file and section of it.
pub type Node = (usize, SectionIndex);

/// Where a relocation leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// To an offset in a section.
    Inside(Node, u64),
    /// Out of the library.
    Outside(String),
}

/// A reference from an offset in a section.
#[derive(Clone, Debug)]
pub struct Edge {
    pub at: u64,
    pub to: Target,
}

/// The object files of an archive and the symbols that they define for each other.
pub struct Library<'a> {
    objects: Vec<File<'a>>,
    defined: HashMap<String, (Node, u64)>,
    names: HashMap<Node, String>,
}

impl<'a> Library<'a> {
    /// Reads an archive.
    pub fn read(bytes: &'a [u8]) -> object::Result<Library<'a>> {
        let mut objects = Vec::new();
        for member in ArchiveFile::parse(bytes)?.members() {
            let data = member?.data(bytes)?;
            // rustc's own metadata is no object file.
            objects.extend(File::parse(data).ok());
        }
        Ok(Library::of(objects))
    }

    /// Reads one object file.
    pub fn read_object(bytes: &'a [u8]) -> object::Result<Library<'a>> {
        Ok(Library::of(vec![File::parse(bytes)?]))
    }

    fn of(objects: Vec<File<'a>>) -> Library<'a> {
        let (mut defined, mut names) = (HashMap::new(), HashMap::new());
        for (file, object) in objects.iter().enumerate() {
            for symbol in object.symbols() {
                let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) else {
                    continue;
                };
                if symbol.is_global() {
                    defined.insert(name.to_owned(), ((file, section), symbol.address()));
                }
                if symbol.kind() == object::SymbolKind::Text {
                    names.entry((file, section)).or_insert_with(|| demangled(name));
                }
            }
        }
        Library { objects, defined, names }
    }

    /// All functions, by their demangled names.
    pub fn functions(&self) -> Vec<(String, Node)> {
        let mut all: Vec<_> = self.names.iter().map(|(&node, name)| (name.clone(), node)).collect();
        all.sort_by(|a, b| (&a.0, a.1.1.0).cmp(&(&b.0, b.1.1.0)));
        all
    }

    /// Symbols that one of the prefixes begins, with their sections.
    pub fn roots(&self, prefixes: &[&str]) -> Vec<(String, Node)> {
        let begins = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let mut roots: Vec<_> = self
            .defined
            .iter()
            .filter(|(name, _)| begins(name))
            .map(|(name, &(node, _))| (name.clone(), node))
            .collect();
        roots.sort_by(|a, b| a.0.cmp(&b.0));
        roots
    }

    /// The function in a section; the section's own name where it is a constant.
    pub fn name(&self, node: Node) -> String {
        let section = || self.objects[node.0].section_by_index(node.1).ok();
        let own = || section().and_then(|s| Some(s.name().ok()?.to_owned())).unwrap_or_default();
        self.names.get(&node).cloned().unwrap_or_else(own)
    }

    /// The bytes of a section.
    pub fn bytes(&self, node: Node) -> &'a [u8] {
        let section = self.objects[node.0].section_by_index(node.1);
        section.and_then(|section| section.data()).unwrap_or_default()
    }

    /// Does the section hold instructions?
    pub fn is_code(&self, node: Node) -> bool {
        let section = self.objects[node.0].section_by_index(node.1);
        section.is_ok_and(|section| section.kind() == SectionKind::Text)
    }

    /// Everything that a section refers to, by rising offset.
    pub fn edges(&self, node: Node) -> Vec<Edge> {
        let Ok(section) = self.objects[node.0].section_by_index(node.1) else { return Vec::new() };
        let mut edges: Vec<_> = section
            .relocations()
            .filter_map(|(at, relocation)| {
                // A reference relative to the instruction counts from its end, 4 bytes on.
                let relative = relocation.kind() != object::RelocationKind::Absolute;
                let addend = relocation.addend() + if relative { 4 } else { 0 };
                Some(Edge { at, to: self.target(node.0, relocation.target(), addend)? })
            })
            .collect();
        edges.sort_by_key(|edge| edge.at);
        edges
    }

    fn target(&self, file: usize, target: RelocationTarget, addend: i64) -> Option<Target> {
        let index = match target {
            RelocationTarget::Symbol(index) => index,
            RelocationTarget::Section(section) => {
                return Some(Target::Inside((file, section), addend as u64));
            }
            _ => return None,
        };
        let symbol = self.objects[file].symbol_by_index(index).ok()?;
        let at = |address: u64| address.wrapping_add_signed(addend);
        if let SymbolSection::Section(section) = symbol.section() {
            return Some(Target::Inside((file, section), at(symbol.address())));
        }
        let name = symbol.name().ok()?;
        Some(match self.defined.get(name) {
            Some(&(node, address)) => Target::Inside(node, at(address)),
            None => Target::Outside(demangled(name)),
        })
    }

    /// Reads a `core::panic::Location` where a reference leads: its file, line and column.
    pub fn location(&self, target: &Target) -> Option<String> {
        let &Target::Inside(node, start) = target else { return None };
        if self.is_code(node) {
            return None;
        }
        let name = self.edges(node).into_iter().find(|edge| edge.at == start)?;
        let Target::Inside(text, from) = name.to else { return None };
        let bytes = self.bytes(node).get(start as usize..)?.get(..24)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n])) as usize;
        // Absolute references have no distance to the end of an instruction.
        let file = self.bytes(text).get(from as usize..)?.get(..word(8))?;
        let file = std::str::from_utf8(file).ok()?.trim_end_matches('\0');
        file.ends_with(".rs").then(|| format!("{file}:{}:{}", word(16), word(20)))
    }
}

fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
