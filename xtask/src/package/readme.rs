//! The first example of a README: what a user pastes.

use std::fs;
use std::path::Path;

/// What is to be done with it.
#[derive(PartialEq, Eq, Debug)]
pub enum Example {
    /// A program, and what it has in its manifest.
    Program { dependencies: String, code: String },
    /// A program in C, which links the crate as a static library.
    C(String),
    /// Lines for the shell.
    Commands(String),
}

impl Example {
    /// Reads the first example of a README.
    ///
    /// # Errors
    /// There is no file, no example, or none that says what it depends on.
    pub fn of(readme: &Path) -> Result<Self, String> {
        let failed = |why: &str| format!("{}: {why}", readme.display());
        let text = fs::read_to_string(readme).map_err(|error| failed(&error.to_string()))?;
        Self::first(&text).map_err(failed)
    }

    fn first(text: &str) -> Result<Self, &'static str> {
        let Some(code) = block(text, "rust") else {
            let c = block(text, "c").map(Example::C);
            let commands = || block(text, "sh").map(Example::Commands);
            return c.or_else(commands).ok_or("there is no example");
        };
        let dependencies =
            block(text, "toml").filter(|block| block.starts_with("[dependencies]\n"));
        let dependencies = dependencies.ok_or("the example does not say its [dependencies]")?;
        Ok(Example::Program { dependencies, code })
    }
}

/// What the first block of a language contains.
fn block(text: &str, language: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| *line != format!("```{language}"));
    lines.next()?;
    Some(lines.take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::published::PUBLISHED;
    use crate::shell::root;

    #[test]
    fn a_program_needs_its_dependencies() {
        let code = "```rust\nfn main() {}\n```\n";
        let lines = "```toml\n[dependencies]\nwoodlot = \"0.1\"\n```\n";
        let program = Example::Program {
            dependencies: "[dependencies]\nwoodlot = \"0.1\"\n".into(),
            code: "fn main() {}\n".into(),
        };
        assert_eq!(Example::first(&format!("# a\n\n{lines}\n{code}")), Ok(program));
        assert!(Example::first(code).is_err());
        assert!(Example::first("no example").is_err());
        let commands = Example::Commands("woodlot\n".into());
        assert_eq!(Example::first("```sh\nwoodlot\n```\n"), Ok(commands));
        let c = Example::C("int a;\n".into());
        assert_eq!(Example::first("```sh\nwoodlot\n```\n```c\nint a;\n```\n"), Ok(c));
    }

    #[test]
    fn every_published_crate_has_one() {
        for krate in &PUBLISHED {
            Example::of(&root().join(krate.folder).join("README.md")).expect("an example");
        }
    }

    #[test]
    fn the_repository_begins_with_that_of_the_crate_woodlot() {
        let of = |path: &str| Example::of(&root().join(path)).expect("an example");
        assert_eq!(of("README.md"), of("woodlot/README.md"));
    }
}
