//! The traces that are part of this crate: three phases of one boot of a real Linux 6.12 in a
//! virtual machine with 2 CPUs and 2 GiB.
//!
//! They were made from the text form by `woodlot trace convert`.

use std::path::Path;

use crate::{Result, Trace, read_binary};

/// A trace that ships, still packed.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// `boot`, `build` or `pressure`.
    pub name: &'static str,
    /// What runs in it.
    pub about: &'static str,
    bytes: &'static [u8],
}

impl Shipped {
    /// Unpacks it.
    ///
    /// # Errors
    /// None, unless the file was damaged before it was built in.
    pub fn trace(&self) -> Result<Trace> {
        read_binary(self.bytes, Path::new(self.name))
    }
}

/// The shipped traces, in the order in which they were recorded.
pub fn shipped() -> [Shipped; 3] {
    [
        Shipped {
            name: "boot",
            about: "kernel start to a finished systemd boot",
            bytes: include_bytes!("../data/boot.wtrace"),
        },
        Shipped {
            name: "build",
            about: "make -j4 of Lua and memcached",
            bytes: include_bytes!("../data/build.wtrace"),
        },
        Shipped {
            name: "pressure",
            about: "file copies against a process that grows, shrinks and regrows in huge frames",
            bytes: include_bytes!("../data/pressure.wtrace"),
        },
    ]
}
