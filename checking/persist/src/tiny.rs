//! How large a history is.

use woodlot_frame::Geometry;

/// A geometry with huge frames of 2^`H` base frames and trees of `T` huge frames.
#[derive(Clone, Copy, Debug)]
pub struct Tiny<const H: u32, const T: usize>;

impl<const H: u32, const T: usize> Geometry for Tiny<H, T> {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = H;
    const NAME: &'static str = "tiny";
    const TREE_HUGE: usize = T;
}

/// The most threads of a history.
pub const THREADS: usize = 3;
