//! What can be set for one allocator.

/// How the upper level decides. The defaults are the paper's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// A tree with fewer than this many eighths of its frames free is *allocated* in the terms of LLFree
    /// section 3.2.2. A tree with more than [`free_above`](Self::free_above) eighths free is *free*. A tree in
    /// between is *partial*. Frees reserve only partial trees.
    ///
    /// Default 1, the paper's 12.5 %.
    pub allocated_below: u8,
    /// See [`allocated_below`](Self::allocated_below). Default 7, the paper's 87.5 %.
    pub free_above: u8,
    /// Reserve-on-free (section 3.2.2): a slot that frees this many times in a row into one unreserved partial
    /// tree reserves that tree. A slot that frees as often into one child of its own tree holds that child. A
    /// block of a sixteenth of a huge frame or more holds the child at the first such free; a pair of huge
    /// frames reserves the tree at the second. 0: never. Default 4, the paper's F.
    pub reserve_after_frees: u8,
}

impl Tuning {
    /// The paper's values.
    pub const DEFAULT: Tuning =
        Tuning { allocated_below: 1, free_above: 7, reserve_after_frees: 4 };
}

impl Default for Tuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_papers() {
        let Tuning { allocated_below, free_above, reserve_after_frees } = Tuning::default();
        assert_eq!((allocated_below, free_above, reserve_after_frees), (1, 7, 4));
    }
}
