//! The modules of a crate: the file of each, its children, and what it defines, imports and names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, Item, ItemExternCrate, ItemMod, ItemUse, Lit, Meta, UseTree, Visibility,
};

/// A path, segment by segment.
type Names = Vec<String>;

/// A module, in a file of its own or in that of its parent.
pub struct Module {
    /// The file that holds its text.
    pub file: PathBuf,
    /// The module that declares it.
    pub parent: Option<usize>,
    /// The modules that it declares.
    pub children: BTreeMap<String, usize>,
    /// The names of what it defines beside them.
    pub defines: BTreeSet<String>,
    /// What it imports and re-exports: the name here, and the path.
    pub imports: Vec<(String, Names)>,
    /// The modules of which it imports or re-exports everything.
    pub globs: Vec<Names>,
    /// Every path that makes the file import something.
    pub paths: BTreeSet<Names>,
}

/// The modules of a crate; the first is its root.
pub struct Tree {
    /// All of them.
    pub modules: Vec<Module>,
}

/// How a file is read; `None` where there is none.
type Read<'a> = &'a mut dyn FnMut(&Path) -> Option<String>;

impl Tree {
    /// The crate with this root file.
    pub fn read(root: &Path) -> Result<Tree, String> {
        Tree::read_with(root, &mut |path| fs::read_to_string(path).ok())
    }

    /// The same, of files that need not be on a disk.
    pub fn read_with(root: &Path, read: Read) -> Result<Tree, String> {
        let mut tree = Tree { modules: Vec::new() };
        let folder = root.parent().unwrap_or(Path::new(""));
        tree.file(root, folder, None, read)?;
        Ok(tree)
    }

    /// Every file of the crate.
    pub fn files(&self) -> BTreeSet<&PathBuf> {
        self.modules.iter().map(|module| &module.file).collect()
    }

    /// Adds the module in a file; its children's files lie in `folder`.
    fn file(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        read: Read,
    ) -> Result<usize, String> {
        let text = read(file).ok_or_else(|| format!("{}: cannot be read", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|why| format!("{}: {why}", file.display()))?;
        self.module(&parsed.items, file, folder, parent, read)
    }

    /// Adds a module with these items.
    fn module(
        &mut self,
        items: &[Item],
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        read: Read,
    ) -> Result<usize, String> {
        let at = self.modules.len();
        let mut found = Found::default();
        items.iter().for_each(|item| found.visit_item(item));
        let Found { defines, imports, globs, paths, modules, re_exports } = found;
        let file = file.to_owned();
        let children = BTreeMap::new();
        self.modules.push(Module { file, parent, children, defines, imports, globs, paths });
        for module in modules {
            let child = self.child(module, at, folder, read)?;
            self.modules[at].children.insert(module.ident.to_string(), child);
        }
        // A parent may re-export what is in its children; to re-export anything else is to import it.
        let module = &mut self.modules[at];
        let own = |path: &Names| {
            let first = path.iter().find(|name| *name != "self");
            first.is_some_and(|name| module.children.contains_key(name))
        };
        let others: Vec<_> = re_exports.into_iter().filter(|path| !own(path)).collect();
        module.paths.extend(others);
        Ok(at)
    }

    /// Adds a module that another declares.
    fn child(
        &mut self,
        module: &ItemMod,
        at: usize,
        folder: &Path,
        read: Read,
    ) -> Result<usize, String> {
        let name = module.ident.to_string();
        let inside = folder.join(&name);
        if let Some((_, items)) = &module.content {
            let file = self.modules[at].file.clone();
            return self.module(items, &file, &inside, Some(at), read);
        }
        let elsewhere = module.attrs.iter().find_map(path_attribute);
        if let Some(path) = elsewhere {
            // Relative to the folder of the file that declares it, as long as that is not an inline module.
            let beside = self.modules[at].file.parent().unwrap_or(Path::new("")).join(path);
            let folder = beside.parent().unwrap_or(Path::new("")).to_owned();
            return self.file(&beside, &folder, Some(at), read);
        }
        let flat = folder.join(format!("{name}.rs"));
        let file = if read(&flat).is_some() { flat } else { inside.join("mod.rs") };
        self.file(&file, &inside, Some(at), read)
    }
}

/// What `#[path = "…"]` says.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// What is found in the items of one module.
#[derive(Default)]
struct Found<'ast> {
    defines: BTreeSet<String>,
    imports: Vec<(String, Names)>,
    globs: Vec<Names>,
    paths: BTreeSet<Names>,
    re_exports: Vec<Names>,
    modules: Vec<&'ast ItemMod>,
}

impl Found<'_> {
    /// The leaves of a `use`.
    fn leaves(&mut self, tree: &UseTree, before: &Names, re_export: bool) {
        let with = |name: &syn::Ident| match name == "self" && !before.is_empty() {
            true => before.clone(),
            false => [before.as_slice(), &[name.to_string()]].concat(),
        };
        match tree {
            UseTree::Path(path) => self.leaves(&path.tree, &with(&path.ident), re_export),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.leaves(tree, before, re_export));
            }
            UseTree::Name(name) => {
                let path = with(&name.ident);
                let alias = path.last().cloned().unwrap_or_default();
                self.leaf(alias, path, re_export);
            }
            UseTree::Rename(name) => {
                self.leaf(name.rename.to_string(), with(&name.ident), re_export)
            }
            // What is imported so shows in the paths that name it.
            UseTree::Glob(_) => self.globs.push(before.clone()),
        }
    }

    fn leaf(&mut self, alias: String, path: Names, re_export: bool) {
        if re_export {
            self.re_exports.push(path.clone());
        } else {
            self.paths.insert(path.clone());
        }
        self.imports.push((alias, path));
    }

    /// The paths among the tokens of a macro's call.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        let (mut colons, mut after_dot) = (0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons < 2 {
                        self.token_path(&mut path);
                    }
                    if !after_dot {
                        path.push(name.to_string());
                    }
                    (colons, after_dot) = (0, false);
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Punct(mark) => {
                    self.token_path(&mut path);
                    (colons, after_dot) = (0, mark.as_char() == '.');
                }
                TokenTree::Group(group) => {
                    self.token_path(&mut path);
                    colons = 0;
                    self.tokens(group.stream());
                }
                TokenTree::Literal(_) => self.token_path(&mut path),
            }
        }
        self.token_path(&mut path);
    }

    /// A `crate` by itself, as in `pub(crate)`, names nothing.
    fn token_path(&mut self, path: &mut Names) {
        let path = std::mem::take(path);
        if !path.is_empty() && path != ["crate"] {
            self.paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Found<'ast> {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.defines.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.modules.push(module);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        let name = item.ident.to_string();
        let alias = item.rename.as_ref().map_or(name.clone(), |(_, alias)| alias.to_string());
        self.imports.push((alias, vec![name]));
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let re_export = !matches!(item.vis, Visibility::Inherited);
        if item.leading_colon.is_none() {
            self.leaves(&item.tree, &Names::new(), re_export);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.paths
                .insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    // `pub(crate)`, `#[cfg(…)]` and the like name nothing of the crate.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
