//! Statistics on standard error when the process ends, if `WOODLOT_MALLOC_STATS` asks for them.
//!
//! ```text
//!   loaded   WOODLOT_MALLOC_STATS=text or json ─► a copy of standard error, which programs close before they end
//!   exit     destructors of the program ─► the library's: look, and write
//! ```
//!
//! A process that ends by `_exit`, by a signal or by `exec` says nothing.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::out::{Form, complain, print};

/// The lowest number of the copy: programs count on the numbers above that of standard error.
const FIRST: libc::c_int = 100;

/// The copy of standard error; -1: none.
static COPY: AtomicI32 = AtomicI32::new(-1);
/// The index of the form in [`FORMS`].
static FORM: AtomicI32 = AtomicI32::new(0);

const FORMS: [(&CStr, Form); 2] = [(c"text", Form::Text), (c"json", Form::Json)];

extern "C" fn loaded() {
    // SAFETY: the name is a text, and nobody changes the environment before the program begins.
    let asked = unsafe { libc::getenv(c"WOODLOT_MALLOC_STATS".as_ptr()) };
    if asked.is_null() {
        return;
    }
    // SAFETY: what is found is a text.
    let asked = unsafe { CStr::from_ptr(asked) };
    match FORMS.iter().position(|(name, _)| *name == asked) {
        Some(form) => {
            FORM.store(form as i32, Ordering::Relaxed);
            // SAFETY: the call has numbers only.
            let copy = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, FIRST) };
            COPY.store(copy, Ordering::Relaxed);
        }
        None => complain("WOODLOT_MALLOC_STATS is text or json"),
    }
}

extern "C" fn ends() {
    let (copy, form) = (COPY.load(Ordering::Relaxed), FORM.load(Ordering::Relaxed));
    if let (0.., Some((_, form))) = (copy, FORMS.get(form as usize)) {
        // Without standard error there is nobody to tell.
        let _ = print(copy, *form);
    }
}

/// Called before `main`, or when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

/// Called behind all that the program has registered for its end.
#[used]
#[unsafe(link_section = ".fini_array")]
static ENDS: extern "C" fn() = ends;
