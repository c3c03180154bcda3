//! Forks: a child finds every lock free, and every list whole.
//!
//! ```text
//!   parent   prepare: all locks ── fork ── parent: let go
//!                                   └───── child: let go
//! ```
//!
//! Other threads of the parent are not in the child. None of them has a lock when the process forks; a sequence that one
//! of them was in has not committed, and so has not happened in the child.
//!
//! Handlers that were registered before these run between the locks and the fork, or between the fork and the letting go. The
//! heap lets go for each of their calls that needs a lock, and locks again: `heap::slowly`.

use crate::{heap, outside};

extern "C" fn prepare() {
    heap::lock();
}

extern "C" fn parent() {
    // SAFETY: `prepare` has locked.
    unsafe { heap::unlock() };
}

extern "C" fn child() {
    // SAFETY: `prepare` has locked, in the parent.
    unsafe { heap::unlock() };
    heap::forked();
}

extern "C" fn register() {
    outside::announce();
    // SAFETY: the three belong together.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Called before `main`, or when the library is loaded. Miri has no `fork`, and no notes of a program.
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static REGISTER: extern "C" fn() = register;
