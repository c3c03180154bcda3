//! Wrong calls, as far as page descriptors show them.

use core::fmt;

/// A free that is wrong. Nothing is freed by it.
///
/// [`Checked`](crate::Checked) tells of each, whatever else happens at the same time. [`Kmem`](crate::Kmem) looks at the
/// descriptor of the page without a lock, where the free has no size or the block is a page or more, and else when the block comes to its
/// page: over [`Vmblks`](crate::Vmblks) a wrong free can fault, where the vmblk of the address
/// is just going back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misuse {
    /// The address lies in no page of this allocator that is in use, or behind the first page of a larger block.
    Foreign(*mut u8),
    /// The address lies inside a block, or behind the last one of its page.
    Interior(*mut u8),
    /// The block is of another size than the free says, or than the cookie.
    WrongSize(*mut u8),
    /// The block is free already.
    DoubleFree(*mut u8),
}

impl Misuse {
    /// The number that C headers have for it, and the address.
    pub const fn numbered(self) -> (u32, *mut u8) {
        match self {
            Self::Foreign(at) => (1, at),
            Self::Interior(at) => (2, at),
            Self::WrongSize(at) => (3, at),
            Self::DoubleFree(at) => (4, at),
        }
    }
}

// SAFETY: the address names a block; nobody accesses memory through it.
unsafe impl Send for Misuse {}
// SAFETY: as above.
unsafe impl Sync for Misuse {}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Foreign(at) => write!(f, "free of {at:p}, which is in no page of a block in use"),
            Self::Interior(at) => write!(f, "free of {at:p}, which is not the begin of a block"),
            Self::WrongSize(at) => write!(f, "free of {at:p} with another size than the block has"),
            Self::DoubleFree(at) => write!(f, "free of {at:p}, which is free already"),
        }
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn each_says_where_and_what() {
        let at = core::ptr::without_provenance_mut(0x1230);
        let said =
            |is: Misuse, what: &str| assert_eq!(is.to_string(), format!("free of 0x1230{what}"));
        said(Misuse::Foreign(at), ", which is in no page of a block in use");
        said(Misuse::Interior(at), ", which is not the begin of a block");
        said(Misuse::WrongSize(at), " with another size than the block has");
        said(Misuse::DoubleFree(at), ", which is free already");
    }
}
