//! The suite on allocators that are wrong: each defect must be caught, and the table says by what.

use std::panic::catch_unwind;

use woodlot_frame::Base64K;
use woodlot_suite::mutants::{self, Bug};
use woodlot_suite::reference::Wrong;
use woodlot_suite::{Engine, all};

/// The first check that fails, and why.
fn caught_by(engine: Engine) -> Option<(&'static str, String)> {
    all().into_iter().find_map(|(name, check)| {
        let panic = catch_unwind(|| check(engine)).err()?;
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no words)");
        Some((name, text.lines().next().unwrap_or_default().to_owned()))
    })
}

#[test]
fn every_defect_is_caught() {
    let mut missed = Vec::new();
    let mut table = String::new();
    let full = Engine::of::<Wrong<Base64K>>();
    let limited = Engine::of::<Wrong<Base64K, true>>();
    for &bug in mutants::ALL {
        mutants::switch_on(bug);
        // This one is a defect only where something is declared away.
        let engine = if bug == Bug::DeclaredAwayWorks { limited } else { full };
        match caught_by(engine) {
            Some((check, why)) => {
                let why: String = why.chars().take(90).collect();
                table += &format!("{:28} {check:56} {why}\n", format!("{bug:?}"));
            }
            None => missed.push(bug),
        }
    }
    println!("{:28} {:56} why\n{table}", "defect", "caught by");
    assert!(missed.is_empty(), "the suite passes in spite of {missed:?}");
}
