//! The address space: which frame lies at which address.

use core::fmt;
use core::ptr::NonNull;

use woodlot_frame::FrameId;

/// The frames could not be mapped: there is no memory for a page table, say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotMapped {
    /// None of them is mapped. They are the caller's as before.
    Undone,
    /// Some of them may be mapped, and that could not be ended. The caller must not give the frames to anybody else, nor use
    /// the addresses again.
    Stuck,
}

impl fmt::Display for NotMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotMapped::Undone => "the frames could not be mapped",
            NotMapped::Stuck => "the frames could not be mapped, and some of them stay mapped",
        })
    }
}

impl core::error::Error for NotMapped {}

/// The mapping of pages could not be ended: the system has no memory to say so, say. They are mapped as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StillMapped;

impl fmt::Display for StillMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the mapping of pages could not be ended")
    }
}

impl core::error::Error for StillMapped {}

/// What maps frames at addresses: a kernel's page tables, or the mappings of a process.
///
/// Both calls are for up to 32 pages of 4 KiB that follow one another in addresses, so that one flush of the TLBs does for
/// all. `woodlot-kmem` makes them while the caller is alone on its CPU ([`PerCpu::guard`](crate::PerCpu::guard)), and while it has
/// locks of the allocator; others need not. So they must not call the allocator. If `unmap` waits for other CPUs, these must answer in
/// [`wait`](Self::wait) and in [`PerCpu::wait`](crate::PerCpu::wait) too.
///
/// # Safety
/// * What `map` has mapped is memory, readable and writable at those addresses, until it is unmapped.
/// * After `unmap`, if it has not refused, no CPU reaches the frames through those addresses.
pub unsafe trait AddressSpace: Sync {
    /// Maps frames, which have any contents, at `first`, a multiple of 4096, and behind. Nothing is mapped there.
    ///
    /// # Errors
    /// They could not be mapped: [`NotMapped`] says what became of them.
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped>;

    /// Ends the mapping of as many pages as `frames` has places, and writes there which frames they were.
    ///
    /// # Errors
    /// Their mapping could not be ended, of none of them. What is written to `frames` means nothing then. The caller must
    /// not give the frames to anybody else.
    ///
    /// # Safety
    /// They are mapped, and nobody uses them any more.
    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped>;

    /// The caller waits for the lock of the layer, for the `tries`-th time in a row.
    fn wait(&self, tries: usize) {
        let _ = tries;
        core::hint::spin_loop();
    }
}

// SAFETY: as that of what is referred to.
unsafe impl<M: AddressSpace> AddressSpace for &M {
    fn map(&self, first: NonNull<u8>, frames: &[FrameId]) -> Result<(), NotMapped> {
        M::map(self, first, frames)
    }

    unsafe fn unmap(&self, first: NonNull<u8>, frames: &mut [FrameId]) -> Result<(), StillMapped> {
        // SAFETY: as the caller says.
        unsafe { M::unmap(self, first, frames) }
    }

    fn wait(&self, tries: usize) {
        M::wait(self, tries);
    }
}
