//! Standard output, notes and progress.
//!
//! A reader that closes the pipe has seen enough: the rest is not printed, and the work goes on,
//! for there may be files to write.

use std::io::{self, ErrorKind, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Failure;

/// Where results go.
#[derive(Default)]
pub struct Screen {
    closed: bool,
}

impl Screen {
    /// Prints a text.
    ///
    /// # Errors
    /// When standard output cannot be written to, for any reason but a closed pipe.
    pub fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.print_with(|| {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        })
    }

    /// Lets `print` print to standard output.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub fn print_with(&mut self, print: impl FnOnce() -> io::Result<()>) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        match print() {
            Err(cause) if cause.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(cause) => return Err(Failure::Failed(format!("standard output: {cause}"))),
            Ok(()) => {}
        }
        Ok(())
    }
}

/// Prints a line to standard error. Nobody can be told if that fails.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "woodlot: {text}");
}

/// A bar that shows how far `what` is, on a terminal. It is drawn when it is told something, at
/// most twice a second, and never by a thread of its own: that would disturb what is measured.
pub fn progress(what: &str, steps: usize) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(2);
    let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
    // The template is a constant that is known to be right.
    if let Ok(style) = ProgressStyle::with_template("{msg:<24} [{bar:40}] {percent:>3} % {eta}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what.to_string());
    bar.tick();
    bar
}
