//! What can be wrong with a trace. Every error names the file, and the line where there is one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Shorthand.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a trace could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened, read or written.
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A line of a text file is not what the format says.
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The file as a whole is damaged.
    Damaged {
        /// Which file.
        path: PathBuf,
        /// How.
        what: String,
    },
}

impl Error {
    /// An [`Error::Io`]. A file that ends too early is a damaged one.
    pub(crate) fn io(path: &Path, cause: io::Error) -> Error {
        let what = match cause.kind() {
            io::ErrorKind::UnexpectedEof => "it ends too early: the file is truncated".to_string(),
            io::ErrorKind::InvalidData | io::ErrorKind::Other if cause.raw_os_error().is_none() => {
                format!("its archive is damaged ({cause})")
            }
            _ => return Error::Io { path: path.into(), cause },
        };
        Error::Damaged { path: path.into(), what }
    }

    pub(crate) fn line(path: &Path, line: usize, what: impl Into<String>) -> Error {
        Error::Line { path: path.into(), line, what: what.into() }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
        Error::Damaged { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, cause } => write!(f, "{}: {cause}", path.display()),
            Error::Line { path, line, what } => write!(f, "{}:{line}: {what}", path.display()),
            Error::Damaged { path, what } => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { cause, .. } => Some(cause),
            Error::Line { .. } | Error::Damaged { .. } => None,
        }
    }
}
