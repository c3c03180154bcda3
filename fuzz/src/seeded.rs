//! The other targets on an allocator that may be wrong: that they bite.

use std::env;
use std::sync::LazyLock;

use woodlot_frame::Base64K;
use woodlot_suite::reference::Wrong;
use woodlot_suite::{Engine, mutants};

use crate::bytes::Bytes;
use crate::history::judged;
use crate::kmem;
use crate::recovery::recovered;

/// Judges an input, and seeds the defect of a name.
type Judge = (fn(&[u8]), fn(&str));

/// The target that the variable `WOODLOT_TARGET` names: `kmem` on layers with a defect, and the others on the suite's reference
/// allocator with one. `WOODLOT_DEFECT` has its name in `kmem::wrong::Defect` or `woodlot_suite::mutants::Bug`; without it
/// nothing is wrong.
pub fn seeded(data: &[u8]) {
    static JUDGE: LazyLock<fn(&[u8])> = LazyLock::new(|| {
        let (judge, switch_on): Judge = match env::var("WOODLOT_TARGET").as_deref() {
            Ok("history") => (|data| judged(reference(), Bytes::new(data)), reference_has),
            Ok("recovery") => (|data| recovered(reference(), Bytes::new(data)), reference_has),
            Ok("kmem") => (kmem::wrong, kmem::switch_on),
            other => panic!("WOODLOT_TARGET is {other:?}"),
        };
        if let Ok(name) = env::var("WOODLOT_DEFECT") {
            switch_on(&name);
        }
        judge
    });
    JUDGE(data);
}

fn reference() -> Engine {
    Engine::of::<Wrong<Base64K>>()
}

fn reference_has(name: &str) {
    let defect = mutants::ALL.iter().find(|defect| format!("{defect:?}") == name);
    mutants::switch_on(*defect.unwrap_or_else(|| panic!("WOODLOT_DEFECT is {name}")));
}
