//! Tells the program which commit it was built from, where there is a repository.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../.git/logs/HEAD");
    let git = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    if let Some(output) = git.ok().filter(|output| output.status.success()) {
        let commit = String::from_utf8_lossy(&output.stdout);
        println!("cargo::rustc-env=WOODLOT_COMMIT={}", commit.trim());
    }
}
