//! What an embedder could do wrong, and histories must notice.

/// What is wrong with what the allocator stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// Nothing
    Nothing,
    /// Two callers are on one CPU between `enter` and `leave`
    CpusAreNotKept,
    /// What is called on another CPU does not wait until that may be interrupted
    CallsDoNotWait,
    /// A page is nobody's for which two callers asked at once
    PagesAreLost,
}

/// Those that must be found.
pub const ALL: [Defect; 3] = [Defect::CpusAreNotKept, Defect::CallsDoNotWait, Defect::PagesAreLost];
