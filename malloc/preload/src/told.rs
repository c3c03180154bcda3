//! Who hears of wrong calls.
//!
//! ```text
//!   loaded   WOODLOT_MALLOC_MISUSE=abort or report ─► what becomes of the process
//!   later    woodlot_malloc_on_misuse ─► a function of the program
//! ```
//!
//! Until the library's start has looked at the environment, a wrong call ends the process.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use woodlot_malloc as heap;
use woodlot_malloc::Misuse;

use crate::out::complain;

/// What the header says of the function.
type Hear = unsafe extern "C" fn(kind: u32, block: *mut c_void);

/// The program's function. It is set before anybody looks for it.
static HEAR: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn hear(misuse: Misuse) {
    let (kind, at) = misuse.numbered();
    // SAFETY: it is the address of such a function.
    let hear = unsafe { transmute::<*mut c_void, Hear>(HEAR.load(Ordering::Acquire)) };
    // SAFETY: as the caller of `woodlot_malloc_on_misuse` has promised.
    unsafe { hear(kind, at.cast()) };
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_malloc_on_misuse(function: Option<Hear>) {
    match function {
        Some(function) => {
            HEAR.store(function as *mut c_void, Ordering::Release);
            heap::on_misuse(hear);
        }
        None => heap::on_misuse(heap::abort_at),
    }
}

extern "C" fn loaded() {
    // SAFETY: the name is a text, and nobody changes the environment before the program begins.
    let asked = unsafe { libc::getenv(c"WOODLOT_MALLOC_MISUSE".as_ptr()) };
    if asked.is_null() {
        return;
    }
    // SAFETY: what is found is a text.
    match unsafe { CStr::from_ptr(asked) }.to_bytes() {
        b"abort" => heap::on_misuse(heap::abort_at),
        b"report" => heap::on_misuse(heap::report),
        _ => complain("WOODLOT_MALLOC_MISUSE is abort or report"),
    }
}

/// Called before `main`, or when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
