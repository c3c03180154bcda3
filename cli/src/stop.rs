//! Ctrl-C and termination, for commands that end by themselves when they are asked to: they have processes or a
//! terminal to put in order first.

use std::sync::atomic::{AtomicU8, Ordering};

const NOBODY: u8 = 0;
const LISTENING: u8 = 1;
const ASKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NOBODY);

/// From now on the command looks whether it is [`asked`] to stop, again and again.
pub fn listen() {
    STATE.store(LISTENING, Ordering::Release);
}

/// Is the command to stop?
pub fn asked() -> bool {
    STATE.load(Ordering::Acquire) == ASKED
}

/// Asks the command to stop. False if it does not listen, or was asked before: then nobody will do it by itself.
pub fn ask() -> bool {
    STATE.compare_exchange(LISTENING, ASKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
