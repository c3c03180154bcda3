//! Resolving: what a recovery, or who comes after a death, makes of the calls that were cut off.
//!
//! ```text
//!   durable ── release ── durable ── seal ── durable        then new calls
//!              the frames of calls   the records say
//!              cut off are freed     that this was done
//! ```
//!
//! 1. What is released rests on states and rows that agree. Where each page of a file has a time of its own, a recovery
//!    has made them agree, and that is not durable yet.
//! 2. A record that is sealed is never looked at again. So what it stands for is durable before.
//! 3. A frame that was released has a new owner soon. A record that still is under way would take it from that owner. So
//!    the seal is durable before the first call.
//!
//! *Crash*: in each step, resolving again comes to the same end. For what is to be released has no owner until the end,
//! and is released if all of it is allocated.

use woodlot_frame::atomics::Ordering;
use woodlot_frame::{Geometry, Persistence};

use crate::init::TOTAL_FREE;
use crate::record::{End, Record};
use crate::state::Phase;
use crate::{LLFree, Repairs};

impl<G: Geometry, P: Persistence> LLFree<'_, G, P> {
    /// Resolves what deaths have cut off, as a recovery does, but in an allocator that goes on as it is: frees the frames
    /// of allocations that were under way, and those that frees were still to free, but for the one write that is in
    /// doubt. Such an operation is [cut off](End::CutOff) from then on, and no recovery looks at it. Nothing is written
    /// where none is under way.
    ///
    /// `sync` makes all durable that was written to the durable part. With a [`Persistence`] that writes back, or where
    /// nothing is to outlive a loss of power, it has nothing to do.
    ///
    /// No call may be under way, but for those of the dead, and nobody may begin one before this has succeeded.
    ///
    /// # Errors
    /// That of `sync`. Some or all of the frames may be free by then, and count as free. What the records say may not be
    /// durable; resolve again.
    ///
    /// # Progress
    /// Linear in the slots and in the frames that are freed; in the durable part, if an operation was under way.
    ///
    /// # Crash
    /// Resolving again, or a recovery, comes to the same end.
    pub fn resolve<E>(&self, sync: impl Fn() -> Result<(), E>) -> Result<Repairs, E> {
        let mut found = Repairs::default();
        if self.is_cut_off() {
            let resolved = self.resolve_records(&mut found, sync);
            // What was released is free, also where that is not durable.
            self.total(TOTAL_FREE).fetch_add(found.released as u64, Ordering::Relaxed);
            resolved?;
        }
        Ok(found)
    }

    /// The same after a start, which nothing that was written is durable of.
    pub(crate) fn resolve_records<E>(
        &self,
        found: &mut Repairs,
        sync: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let cut_off = self.is_cut_off();
        if cut_off {
            self.make_durable(&sync)?;
            self.release_cut_off(found);
        }
        self.make_durable(&sync)?;
        if cut_off {
            self.seal_records();
            sync()?;
        }
        Ok(())
    }

    /// Is a call under way by its record?
    fn is_cut_off(&self) -> bool {
        self.all_records().any(|record| record.header().end() == End::UnderWay)
    }

    /// Makes all durable that the calls to come rest on, also what was right already: an earlier life may have ended
    /// between a write and its write-back.
    fn make_durable<E>(&self, sync: impl Fn() -> Result<(), E>) -> Result<(), E> {
        self.lower.persist_all();
        self.all_records().for_each(|record| record.persist_all(self.lower.persistence()));
        sync()
    }

    /// Takes back, or brings to its end, what was cut off. Nobody else uses the zone.
    fn release_cut_off(&self, found: &mut Repairs) {
        for record in self.all_records() {
            let header = record.header();
            if header.end() != End::UnderWay || header.operation().is_none() {
                continue;
            }
            found.cut_off += 1;
            for write in self.writes_owned(record, header) {
                let released = self.release_write(write);
                found.released += released;
                found.free_frames += released;
                let free = |&huge: &usize| released > 0 && self.lower.phase(huge) == Phase::Free;
                for huge in self.huge_of(write).filter(free) {
                    self.lower.tidy(huge);
                    found.free_huge += 1;
                }
            }
        }
    }

    /// Says in the records that they are resolved; persistently.
    fn seal_records(&self) {
        let under_way = |record: &Record<'_>| record.header().end() == End::UnderWay;
        for record in self.all_records().filter(under_way) {
            record.put(record.header().ended(End::CutOff), self.lower.persistence());
        }
    }
}
