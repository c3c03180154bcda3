//! Why nothing was measured.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A failure: a message that names the thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The command line asks for what makes no sense; exit code 2.
    Usage(String),
    /// It was not possible; exit code 1.
    Failed(String),
}

impl Failure {
    /// A failure to do with a file.
    pub fn at(path: &Path, what: impl fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {what}", path.display()))
    }

    /// The same with a remark.
    pub(crate) fn with(self, remark: &str) -> Failure {
        match self {
            Failure::Usage(message) => Failure::Usage(format!("{message} {remark}")),
            Failure::Failed(message) => Failure::Failed(format!("{message} {remark}")),
        }
    }

    /// What a program that stops because of it returns.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(message) | Failure::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Failure {}
