//! `cargo xtask coverage`: which lines and branches of the core crates their tests reach, by
//! cargo-llvm-cov. Branches need the nightly toolchain.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::nightly::{components, nightly};
use crate::outcome::{Length, Outcome};
use crate::shell::{cargo, root, run, succeeds};

/// What is not the core crates themselves.
const LEFT_OUT: &str = "/(suite|tests|explore)/";

/// Runs unit tests, the short tests and the contract suite (in a short run on two geometries).
pub fn coverage(length: Length) -> Result<Outcome, String> {
    let tools = match components(&["llvm-tools"]).and_then(|()| llvm_cov()) {
        Ok(tools) => tools,
        Err(why) => return Outcome::missing(length, why),
    };
    let report = root().join("target/coverage/report.json");
    let _ = fs::remove_file(&report);
    fs::create_dir_all(root().join("target/coverage")).map_err(|error| error.to_string())?;
    let mut command = nightly("cargo");
    command.args(["llvm-cov", "--branch", "--json", "--summary-only", "--profile", "checked"]);
    command.arg("--output-path").arg(&report).args(["--ignore-filename-regex", LEFT_OUT]);
    command.args(["-p", "woodlot-frame", "-p", "woodlot-llfree"]);
    command.args(["--features", "woodlot-frame/std", "--lib"]);
    command.args(["--test", "short", "--test", "contract", "--", "--quiet"]);
    if length.short {
        // What has several rows is reached with the other two, too.
        command.args(["--skip", "base16k::"]);
    }
    command.env("CARGO_TARGET_DIR", "target/coverage").env("PATH", tools);
    run(&mut command)?;
    let text = fs::read_to_string(&report).map_err(|error| error.to_string())?;
    summary(&text).map(Outcome::Ran).ok_or_else(|| format!("no summary in {}", report.display()))
}

/// Makes sure of cargo-llvm-cov, and returns the search path that finds it.
fn llvm_cov() -> Result<String, String> {
    let folder = root().join("target/tools");
    let mut path: Vec<PathBuf> = vec![folder.join("bin")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path).map_err(|error| error.to_string())?;
    let path = path.into_string().map_err(|_| "PATH is no text")?;
    let version = ["llvm-cov", "--version"];
    if !succeeds(Command::new("cargo").args(version).env("PATH", &path)) {
        let root = folder.to_string_lossy();
        cargo(["install", "--locked", "--root", &root, "cargo-llvm-cov"], &[])?;
    }
    Ok(path)
}

/// Prints each file, and returns the line for all of them.
fn summary(report: &str) -> Option<String> {
    let report: Value = serde_json::from_str(report).ok()?;
    let data = report.get("data")?.get(0)?;
    for file in data.get("files")?.as_array()? {
        let name = file.get("filename")?.as_str()?;
        let name = name.rsplit_once("/src/").map_or(name, |(_, name)| name);
        println!("{name:20} {}", figures(file.get("summary")?)?);
    }
    figures(data.get("totals")?)
}

fn figures(summary: &Value) -> Option<String> {
    let of = |kind: &str| {
        let figure = |name: &str| summary.get(kind)?.get(name)?.as_u64();
        Some((figure("covered")?, figure("count")?))
    };
    let shown = |(covered, count): (u64, u64)| match count {
        0 => "none".into(),
        _ => format!("{:.1} % ({covered} of {count})", covered as f64 * 100.0 / count as f64),
    };
    Some(format!("lines {}, branches {}", shown(of("lines")?), shown(of("branches")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_a_line() {
        let counts = r#"{"lines":{"count":8,"covered":6},"branches":{"count":0,"covered":0}}"#;
        let report = format!(
            r#"{{"data":[{{"files":[{{"filename":"a/src/b.rs","summary":{counts}}}],"totals":{counts}}}]}}"#
        );
        let line = summary(&report);
        assert_eq!(line.as_deref(), Some("lines 75.0 % (6 of 8), branches none"));
        assert_eq!(summary("{}"), None);
    }
}
