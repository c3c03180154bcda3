//! Children of a process whose threads are anywhere in the heap.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crate::blocks;
use crate::churn::churn;
use crate::storm::Storm;

/// Children of a storm.
const CHILDREN: u64 = 8;

/// What a child's threads sign with, beside their number.
const OWNERS: usize = 1000;
const STEPS: usize = 300;
const PAUSE: Duration = Duration::from_micros(200);

/// Forks at equal parts of a storm, and says how far it is; returns how many children there were.
pub fn fork_all(name: &str, storm: &Storm) -> u64 {
    fork(storm);
    let mut children = 1;
    while children < CHILDREN && !storm.is_over() {
        if storm.part() > children as f64 / CHILDREN as f64 {
            println!("{name}: {} sequences aborted so far", storm.aborts());
            fork(storm);
            children += 1;
        } else {
            thread::sleep(PAUSE);
        }
    }
    children
}

/// A child with threads of its own frees what its parent's threads have put into the table.
fn fork(storm: &Storm) {
    // SAFETY: the child allocates, begins threads, and ends; the C library and the heap are made for that.
    match unsafe { libc::fork() } {
        0 => {
            let ended = catch_unwind(AssertUnwindSafe(|| live(storm)));
            // SAFETY: ends the child, in which nothing of the parent's is to be done.
            unsafe { libc::_exit(ended.is_err().into()) };
        }
        child => {
            let mut status = -1;
            // SAFETY: the call writes the status.
            let waited = unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!((waited, status), (child, 0), "a child failed");
        }
    }
}

fn live(storm: &Storm) {
    let thread = |owner| {
        let _signals = storm.signals();
        churn(owner, |step| step < STEPS);
    };
    thread::scope(|scope| (0..2).for_each(|at| drop(scope.spawn(move || thread(OWNERS + at)))));
    blocks::free_all();
    woodlot_malloc::trim(0);
}
