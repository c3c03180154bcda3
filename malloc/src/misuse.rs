//! What happens at a wrong call: one line on standard error, and the end of the process.

use core::fmt::{self, Write};

use woodlot_kmem::{Hooks, Misuse};

/// The most bytes of a line.
const LINE: usize = 160;

/// Says what was wrong, and ends the process.
pub(crate) struct Abort;

impl Hooks for Abort {
    #[cold]
    fn misuse(&self, misuse: Misuse) {
        abort(misuse);
    }
}

/// The same of what other parts of the heap have found.
#[cold]
pub(crate) fn abort(misuse: Misuse) -> ! {
    let mut line = Line { bytes: [0; LINE], len: 0 };
    // What does not fit is left out.
    let _ = write!(line, "woodlot_malloc: {misuse}");
    let len = line.len.min(LINE - 1);
    line.bytes[len] = b'\n';
    // SAFETY: the line has so many bytes.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), len + 1);
        libc::abort()
    }
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
