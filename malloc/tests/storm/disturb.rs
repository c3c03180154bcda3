//! What disturbs the threads of a storm from outside, until it is over.

use std::thread;

use crate::signals::send;
use crate::storm::Storm;

/// Moves the threads from CPU to CPU, each as often as it does a step.
pub fn move_all(storm: &Storm) {
    let mut round = 0;
    while !storm.is_over() {
        for (at, task) in storm.stepped().enumerate() {
            send(Some(task), round + at);
        }
        round += 1;
        thread::yield_now();
    }
}

/// Steals what CPUs have.
pub fn steal_all(storm: &Storm) {
    while !storm.is_over() {
        woodlot_malloc::trim(0);
    }
}
