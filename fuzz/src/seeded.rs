//! The other targets on an allocator that may be wrong: that they bite.

use std::env;
use std::sync::LazyLock;

use woodlot_frame::Base64K;
use woodlot_suite::reference::Wrong;
use woodlot_suite::{Engine, mutants};

use crate::bytes::Bytes;
use crate::history::judged;
use crate::recovery::recovered;

/// The target that the variable `WOODLOT_TARGET` names, on the suite's reference allocator, with one of its
/// defects if `WOODLOT_DEFECT` says its name in `woodlot_suite::mutants::Bug`.
pub fn seeded(data: &[u8]) {
    static JUDGE: LazyLock<fn(Engine, Bytes)> = LazyLock::new(|| {
        if let Ok(name) = env::var("WOODLOT_DEFECT") {
            let defect = mutants::ALL.iter().find(|defect| format!("{defect:?}") == name);
            mutants::switch_on(*defect.unwrap_or_else(|| panic!("WOODLOT_DEFECT is {name}")));
        }
        match env::var("WOODLOT_TARGET").as_deref() {
            Ok("history") => judged,
            Ok("recovery") => recovered,
            other => panic!("WOODLOT_TARGET is {other:?}"),
        }
    });
    JUDGE(Engine::of::<Wrong<Base64K>>(), Bytes::new(data));
}
