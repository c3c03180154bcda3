//! What an owner or an allocator could do wrong, and histories must notice.

/// What is wrong with what compaction stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// Nothing
    Nothing,
    /// A block is moved although its owner has begun to free it
    MovesWhatIsFreed,
    /// A move succeeds and the owner goes on with the old frames
    KeepsTheOld,
    /// Frames are copied after the block was mapped to them
    MapsBeforeItCopies,
    /// A block that was pinned since it was looked up moves
    MovesWhatIsPinned,
    /// Two compactions isolate one huge frame
    IsolatesTwice,
    /// Frames of an isolated huge frame are handed out
    IsolatedIsHandedOut,
}

/// Those that must be found.
pub const ALL: [Defect; 6] = [
    Defect::MovesWhatIsFreed,
    Defect::KeepsTheOld,
    Defect::MapsBeforeItCopies,
    Defect::MovesWhatIsPinned,
    Defect::IsolatesTwice,
    Defect::IsolatedIsHandedOut,
];
