//! Lines of a text file, with their numbers for messages.

use std::io::{BufRead, Read};
use std::path::Path;

use crate::limits::MAX_LINE;
use crate::{Error, Result};

/// Reads lines one by one into one buffer.
pub struct Lines<'a, R> {
    reader: R,
    path: &'a Path,
    number: usize,
    buffer: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub fn new(reader: R, path: &'a Path) -> Self {
        Self { reader, path, number: 0, buffer: Vec::new() }
    }

    /// The next line that is neither empty nor a comment, without its end; `None` after the last.
    pub fn next_line(&mut self) -> Result<Option<&str>> {
        loop {
            self.buffer.clear();
            self.number += 1;
            let mut limited = self.reader.by_ref().take(MAX_LINE as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.buffer);
            if read.map_err(|cause| Error::io(self.path, cause))? == 0 {
                return Ok(None);
            }
            if self.buffer.len() > MAX_LINE {
                return Err(self.error(format!("the line is longer than {MAX_LINE} bytes")));
            }
            if !matches!(self.buffer.trim_ascii(), [] | [b'#', ..]) {
                break;
            }
        }
        match std::str::from_utf8(self.buffer.trim_ascii()) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(self.error("the line is not text (UTF-8)")),
        }
    }

    /// The number of the line that was read last, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// An error in the line that was read last.
    pub fn error(&self, what: impl Into<String>) -> Error {
        Error::line(self.path, self.number, what)
    }
}
