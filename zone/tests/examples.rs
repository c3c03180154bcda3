//! The example does what it says.
#![cfg(target_os = "linux")]

#[path = "../examples/two_processes.rs"]
mod two_processes;

use std::env;
use std::path::Path;
use std::process::Command;

/// Where the second process finds the file.
const CHILD: &str = "WOODLOT_ZONE_EXAMPLE";

#[test]
fn a_process_frees_what_a_killed_one_owned() {
    if let Ok(path) = env::var(CHILD) {
        two_processes::child(Path::new(&path)).expect("it is killed before that");
    }
    let again = |path: &Path| {
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.args(["--exact", "--nocapture", "a_process_frees_what_a_killed_one_owned"]);
        child.env(CHILD, path);
        child
    };
    two_processes::run(again).expect("it checks itself");
}
