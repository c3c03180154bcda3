//! The example does what it says.

#[expect(dead_code, reason = "`main` is called by another name")]
#[path = "../examples/balloon.rs"]
mod balloon;

use balloon::{Plan, run};

#[test]
fn a_balloon_loses_nothing() {
    let report = run(Plan { huge_frames: 256, rounds: 20 }).expect("there is memory");
    assert_eq!((report.lost, report.overlaps), (0, 0), "{report}");
}
