//! What disturbs the threads of a storm from outside, until it is over.

use crate::signals::send;
use crate::storm::Storm;

/// Moves the threads from CPU to CPU.
pub fn move_all(storm: &Storm) {
    for step in 0.. {
        for (at, task) in storm.tasks().enumerate() {
            if storm.is_over() {
                return;
            }
            send(Some(task), step + at);
        }
    }
}

/// Steals what CPUs have.
pub fn steal_all(storm: &Storm) {
    while !storm.is_over() {
        woodlot_malloc::trim(0);
    }
}
