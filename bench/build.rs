//! Tells the benchmark which compiler and which commit it was built with.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../.git/logs/HEAD");
    let rustc = var("RUSTC").unwrap_or_else(|_| "rustc".into());
    tell("WOODLOT_RUSTC", &rustc, &["--version"]);
    tell("WOODLOT_COMMIT", "git", &["describe", "--always", "--dirty"]);
}

/// Sets a variable for `option_env!` to what a program prints, if it succeeds.
fn tell(variable: &str, program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output();
    if let Some(output) = output.ok().filter(|output| output.status.success()) {
        let line = String::from_utf8_lossy(&output.stdout);
        println!("cargo::rustc-env={variable}={}", line.trim());
    }
}
