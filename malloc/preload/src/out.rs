//! Statistics, written to a file descriptor without a heap.

use std::fmt::{self, Write};

use woodlot_malloc::outside::look_here;

/// How statistics look.
#[derive(Clone, Copy)]
pub enum Form {
    Text,
    Json,
}

/// Text on its way to a file descriptor.
pub struct Out {
    fd: libc::c_int,
    bytes: [u8; 1024],
    len: usize,
}

impl Out {
    pub fn new(fd: libc::c_int) -> Out {
        Out { fd, bytes: [0; 1024], len: 0 }
    }

    /// Writes what there is.
    fn flush(&mut self) -> fmt::Result {
        let mut left = self.bytes.get(..self.len).unwrap_or_default();
        self.len = 0;
        while !left.is_empty() {
            // SAFETY: so many bytes may be read.
            let written = unsafe { libc::write(self.fd, left.as_ptr().cast(), left.len()) };
            // SAFETY: the thread's own errno.
            let interrupted = written < 0 && unsafe { *libc::__errno_location() } == libc::EINTR;
            match usize::try_from(written) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(_) if interrupted => {}
                Err(_) => return Err(fmt::Error),
            }
        }
        Ok(())
    }
}

impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == self.bytes.len() {
                self.flush()?;
            }
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
        Ok(())
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // Whoever wants to know has flushed it.
        let _ = self.flush();
    }
}

/// Says on standard error what is wrong with the environment.
pub fn complain(what: &str) {
    // Without standard error there is nobody to tell.
    let _ = writeln!(Out::new(libc::STDERR_FILENO), "woodlot_malloc: {what}");
}

/// Writes the statistics of this process.
///
/// # Errors
/// They cannot be written. That there are none is written in their place.
pub fn print(fd: libc::c_int, form: Form) -> fmt::Result {
    let mut out = Out::new(fd);
    // SAFETY: the call has no arguments.
    let process = unsafe { libc::getpid() };
    match (look_here(), form) {
        (Ok(heap), Form::Text) => write!(out, "process {process}: {heap}")?,
        (Ok(heap), Form::Json) => {
            writeln!(out, "{{\"pid\":{process},\"heaps\":[{}]}}", heap.json())?;
        }
        (Err(cause), _) => writeln!(out, "woodlot_malloc: process {process}: {cause}")?,
    }
    out.flush()
}
