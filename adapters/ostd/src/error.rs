//! What was refused.

use core::alloc::Layout;
use core::fmt;

use woodlot_frame::{AllocError, FreeError, InitError};

/// A physical address.
pub type Paddr = usize;

/// A call that was refused, and why. Nothing has changed, but for [`Beyond`](Self::Beyond).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refused {
    /// The zone cannot be made.
    Start(InitError),
    /// The storage is that of another [`Frames`](crate::Frames).
    StorageTaken,
    /// The address and the size in bytes are not whole frames, or end beyond the address space.
    NotFrames {
        /// The first address.
        addr: Paddr,
        /// In bytes.
        size: usize,
    },
    /// Frames were freed before any had been added.
    Early {
        /// The first address.
        addr: Paddr,
        /// In bytes.
        size: usize,
    },
    /// Nothing was allocated.
    Alloc {
        /// What was asked for.
        layout: Layout,
        /// Why.
        cause: AllocError,
    },
    /// Nothing was freed or added.
    Free {
        /// The first address.
        addr: Paddr,
        /// In bytes.
        size: usize,
        /// Why.
        cause: FreeError,
    },
    /// This memory lies above [`Config::memory`](crate::Config::memory), and is not used. What was below has
    /// been added.
    Beyond {
        /// The first address of the part that is not used.
        addr: Paddr,
        /// Its size in bytes.
        size: usize,
    },
}

impl Refused {
    /// Is this the ordinary end of memory?
    pub fn is_out_of_memory(&self) -> bool {
        use AllocError::{NoPlace, OutOfMemory};
        matches!(self, Self::Alloc { cause: OutOfMemory | NoPlace(_), .. })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(cause) => write!(f, "the zone of frames cannot be made: {cause}"),
            Self::StorageTaken => f.write_str("the storage is that of other frames"),
            Self::NotFrames { addr, size } => {
                write!(f, "{size:#x} bytes from address {addr:#x} on are not whole frames")
            }
            Self::Early { addr, size } => {
                write!(f, "{size:#x} bytes from address {addr:#x} on: no memory was added yet")
            }
            Self::Alloc { layout, cause } => {
                let (size, align) = (layout.size(), layout.align());
                write!(f, "{size:#x} bytes, aligned to {align:#x}, were not allocated: {cause}")
            }
            Self::Free { addr, size, cause } => {
                write!(f, "{size:#x} bytes from address {addr:#x} on were not freed: {cause}")
            }
            Self::Beyond { addr, size } => write!(
                f,
                "{size:#x} bytes from address {addr:#x} on lie above the configured memory"
            ),
        }
    }
}

impl core::error::Error for Refused {}
