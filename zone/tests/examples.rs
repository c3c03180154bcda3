//! The examples do what they say.
#![cfg(target_os = "linux")]

#[path = "../examples/durable_buffer_pool/main.rs"]
mod durable_buffer_pool;
#[path = "../examples/two_processes.rs"]
mod two_processes;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the second process finds the files.
const CHILD: &str = "WOODLOT_ZONE_EXAMPLE";

/// The command for the second process, which runs the same test.
fn again(test: &str) -> impl Fn(&Path) -> Command {
    move |path| {
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.args(["--exact", "--nocapture", test]).env(CHILD, path);
        child
    }
}

/// The files, if this is the second process.
fn is_child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

#[test]
fn a_process_frees_what_a_killed_one_owned() {
    if let Some(path) = is_child() {
        return two_processes::child(&path).expect("it is killed before that");
    }
    let again = again("a_process_frees_what_a_killed_one_owned");
    two_processes::run(again).expect("it checks itself");
}

#[test]
fn a_buffer_pool_that_is_killed_loses_nothing() {
    if let Some(folder) = is_child() {
        return durable_buffer_pool::child(&folder).expect("it is killed before that");
    }
    let again = again("a_buffer_pool_that_is_killed_loses_nothing");
    durable_buffer_pool::run(again, 50, false).expect("it checks itself");
}

/// About half of the deaths leave frames in doubt.
#[test]
fn a_buffer_pool_that_forgets_the_records_loses_frames() {
    if let Some(folder) = is_child() {
        return durable_buffer_pool::child(&folder).expect("it is killed before that");
    }
    let again = again("a_buffer_pool_that_forgets_the_records_loses_frames");
    let lost = durable_buffer_pool::run(again, 200, true).expect_err("a frame is lost");
    assert!(lost.to_string().contains("frames are lost"), "{lost}");
}
