//! Heaps: what the paper on kernel memory allocation measures (McKenney, Slingwine and Krueger, 2002), and what is measured
//! of heaps today.
//!
//! ```text
//!   suite ──► Heaps ──┬─► figures, tables ──► sections
//!   (measures)        └─► findings (what is so here) ──► claims, beside the paper
//! ```

mod claims;
mod figures;
mod findings;
mod plot;
mod suite;
mod tables;

use serde::{Deserialize, Serialize};
use woodlot_bench::kmem::{Count, Curve, Kept, LockRow, Looped, PurityRow, TransferRow, WasteRow};
use woodlot_bench::size::Size;

pub use claims::claims;
pub use suite::{Effort, STEPS, measure};

/// What a run has measured of heaps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Heaps {
    /// Bytes of blocks, where all of memory is allocated.
    pub memory: Size,
    /// Pairs, by number of threads.
    pub pairs: Kept,
    /// The worst case, by size.
    pub worst: Kept,
    /// Producer and consumer, churn, larson and cache-scratch.
    pub today: Vec<Looped>,
    /// Pairs, the worst case, producer and consumer, with libraries preloaded.
    pub preloaded: Vec<Looped>,
    /// Memory over time.
    pub curves: Vec<Curve>,
    /// The lock manager: without flushes, and with.
    pub locks: [Vec<LockRow>; 2],
    /// Waste by size: powers of two, and four sizes an octave.
    pub waste: [Vec<WasteRow>; 2],
    /// Instructions of a pair.
    pub counts: Vec<Count>,
    /// How near memory is.
    pub purity: Vec<PurityRow>,
    /// Lines that move for a pair.
    pub transfers: Vec<TransferRow>,
}
