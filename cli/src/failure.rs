//! Why the program stops: a message that names the thing.

use std::fmt::Display;
use std::path::Path;

/// A failure; the exit code is 1.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    /// A failure to do with a file.
    pub fn at(path: &Path, what: impl Display) -> Failure {
        Failure(format!("{}: {what}", path.display()))
    }
}

impl From<woodlot_trace::Error> for Failure {
    fn from(error: woodlot_trace::Error) -> Self {
        Failure(error.to_string())
    }
}
