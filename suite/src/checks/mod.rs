//! The sequential checks, by theme. Each is a function over any engine; what an engine declares
//! away is left out here and judged in [`unsupported`].

use woodlot_frame::{Construct, FrameAllocator, Geometry, Init, InitError, Owned, ZoneConfig};

pub(crate) use crate::checked::Checked;
pub(crate) use crate::settings::rng;

pub mod batches;
pub mod classes;
pub mod errors;
pub mod exact;
pub mod exhaustion;
pub mod init;
pub mod offline;
pub mod orders;
pub mod partial;
pub mod ragged;
pub mod random;
pub mod recovery;
pub mod statistics;
pub mod unsupported;

/// An engine's geometry.
pub(crate) type Geo<A> = <A as FrameAllocator>::Geometry;

/// Frames in a huge frame.
pub(crate) const fn huge<A: FrameAllocator>() -> usize {
    <Geo<A> as Geometry>::HUGE_FRAMES
}

/// Frames in a tree.
pub(crate) const fn tree<A: FrameAllocator>() -> usize {
    <Geo<A> as Geometry>::TREE_FRAMES
}

/// A zone whose frames all begin allocated; `None` for an engine that cannot start so, which only
/// one without partial frees may say: nobody has allocated those blocks.
pub(crate) fn all_allocated<A: Construct>(config: &ZoneConfig) -> Option<Checked<A>> {
    if A::UNSUPPORTED.partial_free
        && Owned::<A>::new(config, Init::Allocated).err() == Some(InitError::Unsupported)
    {
        return None;
    }
    Some(Checked::new(config, Init::Allocated))
}
