//! The frame sizes of a machine, chosen at compile time.

/// The sizes that an allocator is compiled for.
///
/// | | base frame | huge frame | huge order | largest order |
/// |---|---|---|---|---|
/// | [`Base4K`] (default) | 4 KiB | 2 MiB | 9 | 10 |
/// | [`Base16K`] | 16 KiB | 32 MiB | 11 | 12 |
/// | [`Base64K`] | 64 KiB | 2 MiB | 5 | 6 |
///
/// Everything else follows from the two numbers. A geometry of your own is an `impl` of this trait
/// with `BASE_SHIFT` and `HUGE_ORDER`; engines check at compile time that their words can hold it.
pub trait Geometry: Copy + Send + Sync + 'static {
    /// log₂ of the base frame's size in bytes.
    const BASE_SHIFT: u32;
    /// log₂ of the number of base frames in a huge frame; 1 to 12.
    const HUGE_ORDER: u32;
    /// The sizes in words, for reports.
    const NAME: &'static str;

    /// Bytes in a base frame.
    const BASE_BYTES: usize = 1 << Self::BASE_SHIFT;
    /// Base frames in a huge frame.
    const HUGE_FRAMES: usize = 1 << Self::HUGE_ORDER;
    /// The largest order that can be asked for: two huge frames.
    const MAX_ORDER: u32 = Self::HUGE_ORDER + 1;
    /// Base frames in a block of the largest order.
    const MAX_FRAMES: usize = 1 << Self::MAX_ORDER;
    /// Huge frames in a tree, the unit that a CPU reserves for itself. LLFree section 3.2.2 chose
    /// 32; with trees of 4, order 9 would reserve a new tree at every fourth allocation.
    const TREE_HUGE: usize = 32;
    /// Base frames in a tree.
    const TREE_FRAMES: usize = Self::TREE_HUGE * Self::HUGE_FRAMES;
}

/// 4 KiB base frames, 2 MiB huge frames: x86-64, RISC-V, Arm with the small granule.
#[derive(Clone, Copy, Debug)]
pub struct Base4K;

impl Geometry for Base4K {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = 9;
    const NAME: &'static str = "4 KiB base, 2 MiB huge (order 9)";
}

/// 16 KiB base frames, 32 MiB huge frames: Arm with the 16 KiB granule.
#[derive(Clone, Copy, Debug)]
pub struct Base16K;

impl Geometry for Base16K {
    const BASE_SHIFT: u32 = 14;
    const HUGE_ORDER: u32 = 11;
    const NAME: &'static str = "16 KiB base, 32 MiB huge (order 11)";
}

/// 64 KiB base frames, 2 MiB huge frames: Arm with the 64 KiB granule and the contiguous hint.
#[derive(Clone, Copy, Debug)]
pub struct Base64K;

impl Geometry for Base64K {
    const BASE_SHIFT: u32 = 16;
    const HUGE_ORDER: u32 = 5;
    const NAME: &'static str = "64 KiB base, 2 MiB huge (order 5)";
}
