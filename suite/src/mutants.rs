//! The defects that the suite must catch, each of which some allocator really had or nearly had.
//!
//! A checker that cannot fail is worthless: `tests/mutants.rs` runs the checks on a reference
//! allocator with each of these in turn, and prints which check caught it. Which one is on is a
//! global, so that the allocator is compiled once and not once for each defect: a program that uses
//! [`Wrong`](crate::reference::Wrong) runs one check at a time.

use woodlot_frame::atomics::{AtomicU32, Ordering};

static ON: AtomicU32 = AtomicU32::new(Bug::Nothing as u32);

/// Switches on one defect, and off the one before.
pub fn switch_on(bug: Bug) {
    ON.store(bug as u32, Ordering::SeqCst);
}

/// Is this defect switched on?
pub(crate) fn is_on(bug: Bug) -> bool {
    ON.load(Ordering::Relaxed) == bug as u32
}

macro_rules! bugs {
    ($($(#[$doc:meta])+ $name:ident = $number:literal,)*) => {
        /// One deliberate defect of the [`Reference`](crate::reference::Reference).
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum Bug {
            /// None.
            Nothing = 0,
            $($(#[$doc])+ $name = $number,)*
        }

        /// Every defect.
        pub const ALL: &[Bug] = &[$(Bug::$name),*];
    };
}

bugs! {
    /// An allocation that lost a race for its block succeeds all the same: two owners.
    LostRaceSucceeds = 1,
    /// `>` for `>=`: a unit with exactly enough free frames is passed over.
    MoreThanEnough = 2,
    /// A free of a block that is free succeeds.
    DoubleFreeAccepted = 3,
    /// A free looks at the first frame of the block only, and releases all of it.
    OnlyFirstFrameChecked = 4,
    /// A free looks at both ends of the block, and releases all of it.
    OnlyEndsChecked = 5,
    /// A free of the largest order that fails at its second half leaves the first half free.
    HalfOfLargestExposed = 6,
    /// A slot that does not exist is an index out of bounds.
    BadSlotPanics = 7,
    /// A zone hands out the frame after its last.
    BeyondTheEnd = 8,
    /// What is offline can be freed, and so come back.
    OfflineFreeAccepted = 9,
    /// A free that is refused is counted.
    RefusedFreeCounts = 10,
    /// Classes are ignored.
    ClassesMixed = 11,
    /// A class never turns to the trees of others: out of memory too early.
    OtherClassesNeverAsked = 12,
    /// What another slot freed last cannot be allocated.
    CachedByOtherSlotIsLost = 13,
    /// An exact claim that fails in the middle of its block keeps what it had so far.
    FailedClaimKeepsPart = 14,
    /// While one thread splits a huge block, frees of its other parts are refused.
    SplitRefusesOthers = 15,
    /// Recovery of a zone that does not end with a huge frame panics.
    RecoveryPanicsOnRaggedZones = 16,
    /// Recovery forgets what was offline.
    RecoveryForgetsOffline = 17,
    /// Recovery takes durable bytes as they are, whatever they say.
    RecoveryBelievesAnything = 18,
    /// A frame number near the limit overflows.
    FrameNearLimitPanics = 19,
    /// A zone without frames panics.
    EmptyZonePanics = 20,
    /// A batch that cannot be had in full keeps its blocks.
    FailedBatchKeepsBlocks = 21,
    /// Huge frames before the first used one of a refused range go offline.
    OfflineTakesSome = 22,
    /// Metadata that is too short is accepted.
    ShortMetadataAccepted = 23,
    /// A misaligned exact frame is accepted.
    MisalignedClaimAccepted = 24,
    /// Two racing frees of one block both succeed.
    RacingDoubleFree = 25,
    /// Draining a slot loses a frame.
    DrainLosesAFrame = 26,
    /// "Is a block available?" says no while a huge frame is free.
    AvailableTooCautious = 27,
    /// Metadata is written before it is found to be wrong.
    RefusedInitWrites = 28,
    /// Offline huge frames are in the map of free ones.
    OfflineCountsAsFree = 29,
    /// Blocks that were allocated smaller cannot be freed together.
    MergedFreeRefused = 30,
    /// The free counter is read, changed and written back in steps.
    RacyCounter = 31,
    /// Frees of order 1 count one frame.
    PartialFreeMiscounts = 32,
    /// A fresh zone believes what the memory held before.
    FreshZoneNotCleared = 33,
    /// A class that does not exist is an index out of bounds.
    BadClassPanics = 34,
    /// What was declared away works all the same, or seems to.
    DeclaredAwayWorks = 35,
    /// Of a batch that may be smaller, one block too few is had.
    BatchStopsEarly = 36,
    /// A huge frame that was put back online is forgotten: nobody can allocate it.
    OnlineLosesMemory = 37,
    /// Free frames of a huge frame that the zone's end cuts off are not counted.
    PartialHugeNotCounted = 38,
    /// A run that cannot be claimed in full keeps its first blocks.
    FailedRunKeepsPart = 39,
    /// A run may end a frame behind the place that was asked for.
    RunLeavesItsPlace = 40,
    /// A run begins anywhere, whatever alignment was asked for.
    RunMisaligned = 41,
    /// `>` for `>=`: a run of exactly the length asked for is passed over.
    ExactRunPassedOver = 42,
    /// A free of a run is refused half-way, and what was freed before stays free.
    RunFreedInPart = 43,
    /// What is in use is not the frame that an error names.
    WrongFrameInUse = 44,
    /// "Can this be freed?" is always yes.
    AnythingCanBeFreed = 45,
    /// What is freed in an isolated huge frame can be allocated.
    FreedIsForAll = 46,
    /// A huge frame that is isolated is isolated once more.
    IsolatedTwice = 47,
    /// Huge frames before the first that cannot be isolated stay isolated.
    IsolatesSome = 48,
    /// What is free when an isolation ends is forgotten: nobody can allocate it.
    IsolationLosesMemory = 49,
    /// An isolated huge frame is claimed while frames of it are allocated.
    ClaimedInUse = 50,
}
