//! Batches of base frames: as many frames of a row as there are by one write, and as many freed by one.
//!
//! Blocks of larger orders, and those at a place, are taken and freed one by one.
//!
//! *Progress*: as for single frames.

use woodlot_frame::{
    AllocError, Batch, FrameAllocator, FrameId, FreeBatchError, Geometry, Order, Place, Request,
    Slot, alloc_each, free_each, row_of,
};

use crate::OneWrite;
use crate::row::Rows;
use crate::slots::{Line, Site};

impl<G: Geometry> OneWrite<'_, G> {
    pub(crate) fn take_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let is_usual = request.order == Order::BASE && request.place == Place::Anywhere;
        let site = self.slots.site(request.slot.0, request.class).filter(|_| is_usual);
        let Some(site) = site else { return alloc_each(self, request, batch, out) };
        let taken = self.take_many(site, out);
        if taken == out.len() || batch == Batch::UpTo && taken > 0 {
            return Ok(taken);
        }
        // They are the call's own, so the frees succeed.
        let _ = self.free_batch(out.get(..taken).unwrap_or_default(), Order::BASE, request.slot);
        Err(AllocError::OutOfMemory)
    }

    /// Allocates as many base frames as there are, up to a full `out`; returns how many.
    fn take_many(&self, site: Site<'_>, out: &mut [FrameId]) -> usize {
        let mut taken = 0;
        while let Some(rest @ [_, ..]) = out.get_mut(taken..) {
            taken += match self.take_of_row(site, rest) {
                // The row is used up: the next one is found where single frames find theirs.
                0 => match (self.alloc_elsewhere::<0>(site), rest.first_mut()) {
                    (Some(frame), Some(entry)) => {
                        *entry = frame;
                        1
                    }
                    _ => break,
                },
                some => some,
            };
        }
        taken
    }

    /// The first free frames of the slot's row, up to a full `out`: one write. Returns how many.
    fn take_of_row(&self, site: Site<'_>, out: &mut [FrameId]) -> usize {
        let row = site.row(0);
        let Some(mut left) = self.take_some(row, out.len()) else { return 0 };
        let count = left.count_ones() as usize;
        for entry in out.iter_mut().take(count) {
            *entry = self.frame((row << G::ROW_ORDER) + left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
        }
        site.line.count(-(count as isize));
        count
    }

    pub(crate) fn give_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let line = self.slots.line(slot.0).filter(|_| order == Order::BASE);
        let Some(line) = line else { return free_each(self, frames, order, slot) };
        let mut freed = 0;
        while let Some(rest @ [first, ..]) = frames.get(freed..) {
            let named = row_of(rest, G::ROW_ORDER, |frame| self.offset(frame, 0));
            let some = named.filter(|(_, bits)| !bits.is_power_of_two());
            freed += match some.and_then(|(row, bits)| self.give_some(row, bits, line)) {
                Some(count) => count,
                // A row that is not open, and what is wrong, are a single free's.
                None => {
                    self.free(*first, order, slot)
                        .map_err(|cause| FreeBatchError { freed, cause })?;
                    1
                }
            };
        }
        Ok(())
    }

    /// Frees these frames of a row by one write, if the row is open and all of them are allocated. Returns how many.
    fn give_some(&self, row: usize, bits: u64, line: Line<'_>) -> Option<usize> {
        let now = self.give_bits_at_once(row, bits)?;
        let count = bits.count_ones() as usize;
        line.count(count as isize);
        self.freed_bits(row, now, line);
        Some(count)
    }
}

#[cfg(test)]
#[cfg(not(any(woodlot_loom, woodlot_explore)))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use woodlot_frame::{Base4K, FreeError, Init, Owned, ZoneConfig};

    type Zone = Owned<OneWrite<'static, Base4K>>;

    const REQUEST: Request = Request::movable(Order::BASE, Slot(0));

    fn zone(init: Init) -> Zone {
        Zone::new(&ZoneConfig::new(1000, 2).starting_at(FrameId(1000)), init).expect("a zone")
    }

    /// Of a row what there is, from the first frame on; then of the next one.
    #[test]
    fn frames_of_a_row_are_taken_together() {
        let zone = zone(Init::Allocated);
        let free = [1024, 1030, 1031, 1087, 1088, 1500].map(FrameId);
        assert_eq!(zone.free_batch(&free, Order::BASE, Slot(0)), Ok(()));
        let mut out = [FrameId(0); 7];
        assert_eq!(zone.alloc_batch(REQUEST, Batch::All, &mut out), Err(AllocError::OutOfMemory));
        assert_eq!((zone.free_frames(), zone.stats().free_frames), (6, 6));
        assert_eq!(zone.alloc_batch(REQUEST, Batch::UpTo, &mut out), Ok(6));
        out[..6].sort_unstable();
        assert_eq!((&out[..6], zone.free_frames()), (&free[..], 0));
        assert_eq!(zone.alloc_batch(REQUEST, Batch::UpTo, &mut out), Err(AllocError::OutOfMemory));
        assert_eq!(zone.alloc_batch(REQUEST, Batch::All, &mut []), Ok(0));
    }

    /// In memory of which nothing is in use they lie side by side.
    #[test]
    fn a_long_batch_is_a_run() {
        let zone = zone(Init::Free);
        let mut out = [FrameId(0); 500];
        assert_eq!(zone.alloc_batch(REQUEST, Batch::All, &mut out), Ok(500));
        let rows = out.chunk_by(|one, next| next.0 == one.0 + 1).count();
        assert!(rows < 4, "{rows} runs");
        assert_eq!(zone.free_frames(), 500);
        assert_eq!(zone.free_batch(&out, Order::BASE, Slot(1)), Ok(()));
        assert_eq!((zone.free_frames(), zone.stats().free_frames), (1000, 1000));
    }

    /// What is wrong is named, and what comes before it is free.
    #[test]
    fn a_batch_is_freed_up_to_what_is_wrong() {
        let wrong = [
            (FrameId(1003), FreeError::NotAllocated(FrameId(1003))),
            (FrameId(1001), FreeError::NotAllocated(FrameId(1001))),
            (FrameId(999), FreeError::OutOfRange(FrameId(999))),
            (FrameId(2000), FreeError::OutOfRange(FrameId(2000))),
            (FrameId(usize::MAX), FreeError::OutOfRange(FrameId(usize::MAX))),
        ];
        for (frame, cause) in wrong {
            let zone = zone(Init::Allocated);
            assert_eq!(zone.free(FrameId(1003), Order::BASE, Slot(0)), Ok(()));
            let mut frames: Vec<FrameId> = (1000..1003).map(FrameId).collect();
            frames.extend([frame, FrameId(1004)]);
            let refused = zone.free_batch(&frames, Order::BASE, Slot(0));
            assert_eq!(refused, Err(FreeBatchError { freed: 3, cause }));
            assert_eq!(zone.stats().free_frames, 4, "{frame}");
            assert!(!zone.is_free(FrameId(1004), Order::BASE));
        }
        let zone = zone(Init::Allocated);
        let slot = zone.free_batch(&[FrameId(1000); 2], Order::BASE, Slot(2));
        assert_eq!(slot, Err(FreeBatchError { freed: 0, cause: FreeError::BadSlot(Slot(2)) }));
    }

    /// The slot has freed into the row last, so that its next frame comes from there; and a row that is full of free frames is no secret.
    #[test]
    fn a_row_that_is_freed_together_is_told_of() {
        let zone = zone(Init::Allocated);
        let row: Vec<FrameId> = (1088..1152).map(FrameId).collect();
        assert_eq!(zone.alloc(REQUEST), Err(AllocError::OutOfMemory));
        assert_eq!(zone.free_batch(&row, Order::BASE, Slot(1)), Ok(()));
        assert_eq!(zone.alloc(Request::movable(Order(6), Slot(0))), Ok(FrameId(1088)));
    }
}
