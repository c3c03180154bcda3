//! The examples do what they say.

use std::env;
use std::path::Path;
use std::process::Command;

#[expect(dead_code, reason = "`main` is called by another name")]
#[path = "../examples/buffer_pool.rs"]
mod buffer_pool;
#[path = "../examples/two_processes.rs"]
mod two_processes;

#[test]
fn a_buffer_pool_evicts_and_loses_nothing() {
    buffer_pool::run().expect("it checks its own pages");
}

#[test]
fn of_two_processes_one_is_killed() {
    const CHILD: &str = "WOODLOT_EXAMPLE_CHILD";
    if let Ok(path) = env::var(CHILD) {
        return two_processes::child(Path::new(&path)).expect("it is killed before its end");
    }
    let again = |path: &Path| {
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.args(["--exact", "of_two_processes_one_is_killed", "--nocapture"]).env(CHILD, path);
        child
    };
    two_processes::run(again).expect("it checks what it says");
}
