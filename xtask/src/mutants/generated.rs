//! `cargo xtask mutants --generated`: cargo-mutants replaces what functions return and turns operators, one
//! at a time, in the core crates; their fast tests must notice.
//!
//! What survives, or makes its tests hang, is either explained in `survivors.toml`, by a line for each, or an
//! error. Defects that need interleavings or weak memory to show are not what these tests can see: they are
//! what the table of seeded defects is for.

use std::collections::BTreeSet;
use std::fs;
use std::str::FromStr;

use serde::Deserialize;

use crate::sanitize::THREADED;
use crate::shell::{root, this_cargo};
use crate::tools;

/// A part of what there is.
#[derive(Clone, Copy)]
pub struct Shard {
    number: u32,
    of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |(number, of): (&str, &str)| Some((number.parse().ok()?, of.parse().ok()?));
        match text.split_once('/').and_then(parse) {
            Some((number, of)) if number < of => Ok(Shard { number, of }),
            _ => Err(format!("{text} is not a part K of N, K/N with K from 0 and below N")),
        }
    }
}

/// The crates that are changed, and those whose tests are run for each.
const PACKAGES: [(&str, &[&str]); 3] = [
    ("woodlot-llfree", &["woodlot-llfree"]),
    ("woodlot-nbbs", &["woodlot-nbbs"]),
    ("woodlot-frame", &["woodlot-frame", "woodlot-llfree"]),
];

/// Of the contract suite all geometries but one are left out, and the checks with threads, which take the
/// longest and see least. Threads and a single row are in the short tests, too.
const ONE_GEOMETRY: &str = "--cfg woodlot_one_geometry";

/// Seconds for the tests of one mutant.
const LIMIT: &str = "300";

/// Where the explanations are.
const SURVIVORS: &str = "xtask/src/mutants/survivors.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Survivor {
    /// As cargo-mutants says it, without the place in the file.
    mutant: String,
    /// Why that is no defect, or is left to another checker.
    #[serde(rename = "why")]
    _why: String,
}

/// Runs cargo-mutants, and compares what survives with what is explained.
pub fn generated(shard: Option<Shard>, file: Option<&str>) -> Result<String, String> {
    let explained = explained()?;
    let path = tools::with("mutants")?;
    let (mut caught, mut survivors) = (0, BTreeSet::new());
    for (package, tested) in PACKAGES {
        let found = mutate(package, tested, shard, file, &path)?;
        caught += found.caught;
        survivors.extend(found.survived);
    }
    let unexplained: Vec<_> = survivors.difference(&explained).map(String::as_str).collect();
    if !unexplained.is_empty() {
        let count = unexplained.len();
        return Err(format!(
            "{}\n{count} survived, and {SURVIVORS} says not why",
            unexplained.join("\n")
        ));
    }
    let stale: Vec<_> = explained.difference(&survivors).map(String::as_str).collect();
    if shard.is_none() && file.is_none() && !stale.is_empty() {
        return Err(format!("{}\nexplained in {SURVIVORS}, but killed", stale.join("\n")));
    }
    Ok(format!(
        "{caught} of the generated ones killed, {} survived and are explained",
        survivors.len()
    ))
}

fn explained() -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Table {
        survivor: Vec<Survivor>,
    }
    let text =
        fs::read_to_string(root().join(SURVIVORS)).map_err(|e| format!("{SURVIVORS}: {e}"))?;
    let table: Table = toml::from_str(&text).map_err(|e| format!("{SURVIVORS}: {e}"))?;
    Ok(table.survivor.into_iter().map(|survivor| survivor.mutant).collect())
}

/// What a run of cargo-mutants came to.
struct Found {
    caught: usize,
    /// Missed, or stopped at their time limit.
    survived: Vec<String>,
}

fn mutate(
    package: &str,
    tested: &[&str],
    shard: Option<Shard>,
    file: Option<&str>,
    path: &str,
) -> Result<Found, String> {
    let out = root().join("target/mutants").join(package);
    // What an earlier run has found is not this one's.
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut command = this_cargo();
    command.args(["mutants", "--no-times", "--profile", "mutants", "--timeout", LIMIT]);
    command.args(["--package", package, "--exclude", "**/models/**"]).arg("--output").arg(&out);
    command.args(tested.iter().flat_map(|package| ["--test-package", package]));
    command.args(file.iter().flat_map(|file| ["--file", file]));
    if let Some(Shard { number, of }) = shard {
        command.args(["--shard", &format!("{number}/{of}")]);
    }
    command.args(["--", "--tests", "--"]);
    command.args(THREADED.iter().flat_map(|name| ["--skip", name]));
    command.env("PATH", path).env("RUSTFLAGS", ONE_GEOMETRY).current_dir(root());
    let status = command.status().map_err(|error| format!("cargo mutants: {error}"))?;
    let listed = |name: &str| {
        let path = out.join("mutants.out").join(format!("{name}.txt"));
        fs::read_to_string(path).map(|text| text.lines().map(without_place).collect::<Vec<_>>())
    };
    match status.code() {
        // None, some missed, some stopped at their time limit; anything else is no run.
        Some(0 | 2 | 3) => {}
        _ => return Err(format!("cargo mutants on {package}: {status}")),
    }
    // Where no file fits there are no lists.
    let [caught, missed, stopped] =
        ["caught", "missed", "timeout"].map(|name| listed(name).unwrap_or_default());
    Ok(Found { caught: caught.len(), survived: [missed, stopped].concat() })
}

/// `llfree/src/rows.rs:70:24: replace < with == in row_mask`, without the numbers.
fn without_place(line: &str) -> String {
    match line.splitn(4, ':').collect::<Vec<_>>()[..] {
        [file, _, _, what] => format!("{file}:{what}"),
        _ => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_survivor_is_explained_in_a_line() {
        assert!(explained().is_ok());
    }

    #[test]
    fn lines_lose_their_places() {
        let line = "llfree/src/rows.rs:70:24: replace < with == in row_mask";
        assert_eq!(without_place(line), "llfree/src/rows.rs: replace < with == in row_mask");
        let path = "a.rs:1:2: replace Some(a) -> b::C with c: d";
        assert_eq!(without_place(path), "a.rs: replace Some(a) -> b::C with c: d");
    }

    #[test]
    fn a_shard_is_a_part_of_the_whole() {
        assert!("0/4".parse::<Shard>().is_ok() && "3/4".parse::<Shard>().is_ok());
        assert!(["4/4", "1", "a/b", ""].iter().all(|text| text.parse::<Shard>().is_err()));
    }
}
