//! What the documentation of the crates that are embedded names, but its reader does not have: source files, pages
//! and commands of this repository.

use std::fs;
use std::path::Path;

use crate::package::PUBLISHED;
use crate::shell::root;

/// Looks through every page in `target/doc` of the crates that are embedded.
pub fn name_no_files() -> Result<(), String> {
    let mut found = Vec::new();
    for krate in PUBLISHED.iter().filter(|krate| krate.alone) {
        let folder = root().join("target/doc").join(krate.name.replace('-', "_"));
        let error = |error| format!("{}: {error}", folder.display());
        look_through(&folder, &mut found).map_err(error)?;
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("documentation names what its reader has not:\n{}", found.join("\n"))),
    }
}

/// Adds a line for each name that is found.
fn look_through(folder: &Path, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            look_through(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let names = names(&fs::read_to_string(&path)?);
            found.extend(names.into_iter().map(|name| format!("{}: {name}", path.display())));
        }
    }
    Ok(())
}

/// What is named in the text of a page; links lead somewhere.
fn names(page: &str) -> Vec<String> {
    let text: String =
        page.split('<').map(|part| part.split_once('>').map_or(part, |p| p.1)).collect();
    let is_name = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words = text.split(|c| !is_name(c)).map(|word| word.trim_matches('.'));
    let of_ours =
        |word: &&str| *word == "xtask" || [".rs", ".md"].iter().any(|end| word.ends_with(end));
    words.filter(of_ours).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_text_are_found_and_links_are_not() {
        let page = "<p>See <code>src/climb.rs</code>, PORTING.md.</p> <a href=\"../src/a.rs.html\">Source</a>";
        assert_eq!(names(page), ["src/climb.rs", "PORTING.md"]);
        assert_eq!(names("run <code>cargo xtask lint</code>"), ["xtask"]);
        assert!(names("<p>Made by <a>construct</a>.</p>").is_empty());
    }
}
