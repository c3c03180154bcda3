//! Which file a shared pool lies in.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::locks::reopen;

/// A path, or a descriptor that another process has passed on.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Path(PathBuf),
    Descriptor(Arc<OwnedFd>),
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Path(one), Source::Path(other)) => one == other,
            (Source::Descriptor(one), Source::Descriptor(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Source {}

impl Source {
    /// What errors call it.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Source::Path(path) => path.clone(),
            Source::Descriptor(_) => "the shared descriptor".into(),
        }
    }

    /// The file, by a description that nobody else has.
    pub(crate) fn open(&self) -> io::Result<File> {
        let file = self.open_any()?;
        // The length of a device is not what it holds: it would be taken for an empty file.
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
    }

    fn open_any(&self) -> io::Result<File> {
        match self {
            Source::Path(path) => {
                let mut how = OpenOptions::new();
                how.read(true).write(true).create(true).truncate(false).open(path)
            }
            Source::Descriptor(descriptor) => {
                // The system would open a file again that its owner has passed on for reading only.
                let flags = rustix::fs::fcntl_getfl(descriptor)?;
                if flags & OFlags::ACCMODE != OFlags::RDWR {
                    return Err(Errno::ACCESS.into());
                }
                reopen(descriptor)
            }
        }
    }
}
