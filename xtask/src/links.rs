//! The links between the pages of this repository: each must lead to a file that the repository holds, and to
//! a heading that the page there has.
//!
//! ```text
//!   git ls-files ── Tree: the names of all files and folders
//!        *.md ── Page: links and headings, by pulldown-cmark
//!             └─ each link ─► a name in the tree ─► a heading of that page
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};
use std::process::Command;

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Parser, Tag, TagEnd};

use crate::shell::{capture, root};

/// Checks every page, and says how many links lead somewhere.
///
/// # Errors
/// Some link leads nowhere: each is named with its page and its reason.
pub fn links() -> Result<String, String> {
    let listing = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed = capture(Command::new("git").args(listing).current_dir(root()))?;
    let tree = Tree::of(listed.lines().filter(|file| root().join(file).exists()));
    let mut pages = BTreeMap::new();
    for name in tree.0.iter().filter(|name| name.ends_with(".md")) {
        let text = fs::read_to_string(root().join(name)).map_err(|e| format!("{name}: {e}"))?;
        pages.insert(name.clone(), Page::read(&text));
    }
    let broken = broken(&tree, &pages);
    match broken.is_empty() {
        true => {
            let count: usize = pages.values().map(|page| page.links.len()).sum();
            Ok(format!("{count} links of {} pages lead somewhere", pages.len()))
        }
        false => Err(broken.join("\n")),
    }
}

/// The names of all files and folders, from the root of the repository.
struct Tree(BTreeSet<String>);

impl Tree {
    fn of<'a>(files: impl Iterator<Item = &'a str>) -> Tree {
        let with_folders = files.flat_map(|file| Path::new(file).ancestors());
        Tree(with_folders.map(|path| path.to_string_lossy().into_owned()).collect())
    }
}

/// What of a page matters here.
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
    /// Links by a name that the page does not define.
    undefined: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Page {
        let mut undefined = Vec::new();
        let note = |link: BrokenLink<'_>| -> Option<(CowStr<'_>, CowStr<'_>)> {
            // A lone word in brackets is text.
            if link.link_type != LinkType::Shortcut {
                undefined.push(link.reference.into_string());
            }
            None
        };
        let (mut links, mut anchors, mut heading) = (Vec::new(), BTreeSet::new(), None);
        let options = pulldown_cmark::Options::ENABLE_TABLES;
        for event in Parser::new_with_broken_link_callback(text, options, Some(note)) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    let others = (1..).map(|n| format!("{name}-{n}"));
                    let mut names = std::iter::once(name.clone()).chain(others);
                    anchors.extend(names.find(|name| !anchors.contains(name)));
                }
                _ => {}
            }
        }
        Page { links, anchors, undefined }
    }
}

/// The anchor of a heading, as the usual renderers make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Every link that leads nowhere, and why.
fn broken(tree: &Tree, pages: &BTreeMap<String, Page>) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, page) in pages {
        for link in &page.undefined {
            broken.push(format!("{name}: [{link}] is not defined on this page"));
        }
        for link in &page.links {
            if let Err(why) = follow(tree, pages, name, link) {
                broken.push(format!("{name}: {link}: {why}"));
            }
        }
    }
    broken
}

fn follow(
    tree: &Tree,
    pages: &BTreeMap<String, Page>,
    from: &str,
    link: &str,
) -> Result<(), String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return Ok(());
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(p, h)| (p, Some(h)));
    let target = match path {
        "" => from.to_owned(),
        path => beside(from, path).ok_or("it leads out of the repository")?,
    };
    if !tree.0.contains(&target) {
        return Err(format!("the repository has no {target}"));
    }
    let Some(heading) = heading else { return Ok(()) };
    match pages.get(&target) {
        None => Err(format!("{target} is no page with headings")),
        Some(page) if page.anchors.contains(heading) => Ok(()),
        Some(_) => Err(format!("{target} has no heading {heading}")),
    }
}

/// The name, from the root of the repository, of what a page calls `path`.
fn beside(page: &str, path: &str) -> Option<String> {
    let mut names: Vec<_> = page.split('/').collect();
    names.pop();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::ParentDir => {
                names.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_this_repository_leads_somewhere() {
        let said = links().unwrap_or_else(|broken| panic!("{broken}"));
        assert!(!said.starts_with("0 "), "{said}");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named() {
        let page = "# One page\n\n## Words: `frame`, again\n\n[a](other.md) [b](other.md#gone) [c](no.rs)\n\
                    [d](../../x) [e](/etc) [f](#words-frame-again) [g](f.rs#L1) ![h](../docs) [i][none]\n\
                    `[j](no.md)` [0.5 0.7] [k](https://example.org/no)\n\n## One page\n\n[l](#one-page-1)\n";
        let tree = Tree::of(["docs/page.md", "docs/other.md", "docs/f.rs"].into_iter());
        let read = |text| Page::read(text);
        let pages = [("docs/page.md", page), ("docs/other.md", "# Other\n")];
        let pages = pages.map(|(name, text)| (name.to_owned(), read(text))).into();
        assert_eq!(
            broken(&tree, &pages),
            [
                "docs/page.md: [none] is not defined on this page",
                "docs/page.md: other.md#gone: docs/other.md has no heading gone",
                "docs/page.md: no.rs: the repository has no docs/no.rs",
                "docs/page.md: ../../x: it leads out of the repository",
                "docs/page.md: /etc: it leads out of the repository",
                "docs/page.md: f.rs#L1: docs/f.rs is no page with headings",
            ]
        );
    }
}
