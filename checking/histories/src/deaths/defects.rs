//! Seeded defects, each of which must be found.

use woodlot_frame::atomics::Ordering::Relaxed;

use crate::engine::LLFreeWords;
use crate::seeding::defects;

defects! {
    /// Two threads make their calls by one slot.
    SharedSlot: "not named",
    /// A run is allocated block by block, each by a call of its own.
    RunInPieces: "not named",
    /// A batch is freed block by block, each by a call of its own.
    BatchInPieces: "is left of a free",
    /// The recovery does not look at the records.
    RecoveryIgnoresIntents: "not named" | "is left of a free",
    /// The recovery releases the write in doubt of an allocation as well, which may be another's.
    RecoveryReleasesTooMuch: "'s, and is free",
    /// The recovery leaves the last of the writes that it is to release.
    RecoveryReleasesTooLittle: "not named" | "is left of a free",
    /// The recovery takes a free back as if it were an allocation.
    RecoveryTakesFreesBack: "is left of a free" | "'s, and is free",
}

/// Of a header: the operation, how far it came, and whether it is that of a batch (see LAYOUT.md).
const ALLOC: u64 = 1;
const UNDER_WAY: u64 = 1;
const BATCH: u64 = 15;

impl Defect {
    /// Changes the records of so many slots so that a recovery does what one with this defect would do.
    pub fn mislead(self, words: &LLFreeWords, slots: usize) {
        let all: Vec<_> = words.records().collect();
        for record in all.chunks_exact(all.len() / slots) {
            let header = record[0].load(Relaxed);
            let (operation, end, kind) = (header & 3, header >> 2 & 3, header >> 4 & 15);
            if end != UNDER_WAY {
                continue;
            }
            // The short batches here have steps of eight bits, and runs none.
            let step = header >> 8 & 0xff;
            let stepped = |step: u64| header & !0xff00 | step << 8;
            let misled = match self {
                Defect::RecoveryIgnoresIntents => 0,
                Defect::RecoveryReleasesTooMuch if operation == ALLOC && kind == BATCH => {
                    stepped(step + 1)
                }
                Defect::RecoveryReleasesTooLittle if operation != ALLOC && kind == BATCH => {
                    stepped(step + 1)
                }
                Defect::RecoveryReleasesTooLittle if kind == BATCH && step > 0 => stepped(step - 1),
                Defect::RecoveryTakesFreesBack if operation != ALLOC => header ^ 3,
                _ => header,
            };
            record[0].store(misled, Relaxed);
        }
    }
}
