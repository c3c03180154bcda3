//! What an engine or a caller could do wrong, and histories must notice.

/// What is wrong with what domains stand on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// Nothing
    Nothing,
    /// The metadata of a removed range is let go while calls may look at it
    ReclaimsTooEarly,
    /// Memory of which a frame is allocated is taken out
    TakesOutWhatIsInUse,
    /// Memory that is taken out is allocated all the same
    AllocatesWhatIsOut,
    /// Memory that is put back stays out
    StaysOut,
}

/// Those that must be found.
pub const ALL: [Defect; 4] = [
    Defect::ReclaimsTooEarly,
    Defect::TakesOutWhatIsInUse,
    Defect::AllocatesWhatIsOut,
    Defect::StaysOut,
];
