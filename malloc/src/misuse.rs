//! What happens at a wrong call: one line on standard error, and the end of the process; or what the program has chosen.

use core::fmt::{self, Write};
use core::mem::transmute;
use core::ptr;

use woodlot_frame::atomics::{AtomicU64, Ordering};

use woodlot_kmem::{Hooks, Marks, Misuse, PageId};

use crate::marks::{self, CHECKED};
use crate::system::keeping_errno;

/// The most bytes of a line.
const LINE: usize = 160;

/// The address of the `fn(Misuse)` that hears of wrong calls. 0: [`abort_at`].
static HEAR: AtomicU64 = AtomicU64::new(0);

/// Has a function hear of wrong calls from now on, in place of [`abort_at`]: [`report`], or one of the program's own. When it
/// returns, the wrong call is as if it had not been: nothing was freed, and what was to be made longer or shorter stays as it is.
///
/// It may be called in the middle of a call of the heap, with locks taken, on any thread and in signal handlers. So it must not
/// allocate or free, nor wait for somebody who does.
pub fn on_misuse(hear: fn(Misuse)) {
    HEAR.store((hear as *const ()).expose_provenance() as u64, Ordering::Release);
}

/// Tells whoever is to hear of wrong calls.
#[cold]
pub(crate) fn tell(misuse: Misuse) {
    match HEAR.load(Ordering::Acquire) as usize {
        0 => abort_at(misuse),
        hear => {
            let hear = ptr::with_exposed_provenance::<()>(hear);
            // SAFETY: it is the address of such a function.
            let hear = unsafe { transmute::<*const (), fn(Misuse)>(hear) };
            hear(misuse);
        }
    }
}

/// Hears of what `kmem` finds.
pub(crate) struct Told;

impl Hooks for Told {
    const CHECKED: bool = CHECKED;

    fn misuse(&self, misuse: Misuse) {
        tell(misuse);
    }

    fn marks(&self, page: PageId) -> Option<&Marks> {
        marks::of_found(page)
    }
}

/// Says what was wrong in one line on standard error, and ends the process.
pub fn abort_at(misuse: Misuse) {
    report(misuse);
    // SAFETY: it ends the process.
    unsafe { libc::abort() }
}

/// Says what was wrong in one line on standard error.
pub fn report(misuse: Misuse) {
    let mut line = Line { bytes: [0; LINE], len: 0 };
    // What does not fit is left out.
    let _ = write!(line, "woodlot_malloc: {misuse}");
    let len = line.len.min(LINE - 1);
    line.bytes[len] = b'\n';
    // `write` of the C library would end a thread that is to be cancelled, here, with locks taken.
    // SAFETY: the line has so many bytes.
    keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_write, libc::STDERR_FILENO, line.bytes.as_ptr(), len + 1)
    });
}

/// A line that is being written.
struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (place, &byte) in self.bytes.iter_mut().skip(self.len).zip(text.as_bytes()) {
            *place = byte;
            self.len += 1;
        }
        Ok(())
    }
}
