//! What a compaction did.

/// Why a compaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It won what it was to win.
    Won,
    /// No huge frame is left that could be emptied.
    NoSource,
    /// The other huge frames have no room for what the next one holds.
    NoRoom,
    /// A frame of the range, or of the giant frame, does not move: it is pinned, or its owner failed again and again.
    Blocked,
    /// Some huge frame of the range is isolated by somebody else, or does not exist.
    Taken,
    /// It was cancelled.
    Cancelled,
}

/// What a compaction did, and the least that it could have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Why it ended; `None` while it goes on.
    pub stop: Option<Stop>,
    /// Huge frames won: emptied by this compaction, each counted once. One of a range that is in use again when it is given back is not.
    pub won: usize,
    /// Base frames moved.
    pub moves: usize,
    /// Blocks moved.
    pub blocks: usize,
    /// Huge frames that could be won at the beginning, were all frames that are not pinned single ones.
    pub possible: usize,
    /// The fewest base frames that had to be moved to win as many huge frames (LLFree section 5.6); 0 as long as none is won. For
    /// a number of huge frames: what the emptiest `won` held, of all that nothing was known to be pinned in, whether they were
    /// won or not. For a range or a block: what those of it held that are won. A huge frame held what was in use when its turn to be
    /// emptied came, each time that it did, or when the plan was made, if it did not come; those that their owners had emptied before count nowhere.
    ///
    /// What is freed or pinned after that makes it no smaller or larger: so `moves` can be below it by as many frames as owners
    /// freed meanwhile, and beyond reach where frames turn out not to move.
    pub fewest: usize,
    /// Huge frames not looked at, as some frame of theirs is known not to move.
    pub pinned: usize,
    /// Huge frames given up because of a frame that was found not to move; not those for which room was short.
    pub blocked: usize,
    /// Huge frames passed over, as to empty them would have cost more than it may ([`Setup::price`](crate::Setup::price)).
    pub dear: usize,
    /// Huge frames that somebody else had isolated.
    pub taken: usize,
    /// Frames in use whose owner said before a move that they are being freed, and blocks that it freed during their move.
    pub gone: usize,
    /// Moves that failed.
    pub failed: usize,
}

impl Report {
    /// Adds another compaction's; why it ended is the other's.
    pub fn add(&mut self, other: &Report) {
        self.stop = other.stop;
        self.won += other.won;
        self.moves += other.moves;
        self.blocks += other.blocks;
        self.possible += other.possible;
        self.fewest += other.fewest;
        self.pinned += other.pinned;
        self.blocked += other.blocked;
        self.dear += other.dear;
        self.taken += other.taken;
        self.gone += other.gone;
        self.failed += other.failed;
    }
}
