//! Memory that is there, in the largest pieces that the pool has.
//!
//! FreeBSD anti-fragmentation, section III-D: what is wired is allocated in large blocks first, and brought in runs, in place
//! of one fault for each page. Memory that is fresh the system fills with zeros, one thread no faster than it can write them;
//! so several may do it, each a unit after another.

use std::fmt;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::slice;

use woodlot_frame::FrameId;

use crate::divide::divide;
use crate::error::PoolError;
use crate::frames::Frames;
use crate::mapping::FRAME;
use crate::runs::Runs;

/// Runs of frames behind which there is memory. It is a guest's memory, say. No touch waits for the system once
/// [`lock`](Self::lock) has locked it; before, the system may swap it out.
///
/// The runs rise in addresses, and no two of them touch. Any thread may drop it, which frees them.
pub struct Wired<'p> {
    frames: &'p Frames,
    runs: Runs,
    is_locked: bool,
}

impl<'p> Wired<'p> {
    pub(crate) fn new(
        frames: &'p Frames,
        bytes: usize,
        threads: NonZero<usize>,
    ) -> Result<Wired<'p>, PoolError> {
        if bytes == 0 {
            return Err(PoolError::NoBytes);
        }
        // Whatever is missing, it gives back what it has.
        let mut wired = Wired { frames, runs: Runs::default(), is_locked: false };
        frames.alloc_largest(bytes.div_ceil(FRAME), &mut wired.runs)?;
        wired.runs.sort();
        match threads.get() {
            1 => wired.runs().iter().try_for_each(|run| frames.wire(run))?,
            _ => wired.bring(threads)?,
        }
        Ok(wired)
    }

    /// Brings the memory by several threads: a piece is what lies in one unit. For 2 MiB of zeros the system takes some 100 µs,
    /// beside which a call of it is little.
    fn bring(&self, threads: NonZero<usize>) -> Result<(), PoolError> {
        let units_of =
            |run: &Range<FrameId>| self.frames.units_of(run.start, run.end.0 - run.start.0);
        let mut units: Vec<usize> = self.runs().iter().flat_map(units_of).collect();
        units.dedup();
        divide(units.len(), threads, |piece| {
            let unit = self.frames.frames_of(units[piece]);
            let first = self.runs().partition_point(|run| run.end <= unit.start);
            let inside = self.runs()[first..].iter().take_while(|run| run.start < unit.end);
            let mut inside = inside.map(|run| run.start.max(unit.start)..run.end.min(unit.end));
            inside.try_for_each(|part| self.frames.wire(&part))
        })
    }

    /// The runs: ranges of frames of the pool.
    pub fn runs(&self) -> &[Range<FrameId>] {
        self.runs.as_slice()
    }

    /// The bytes of all runs.
    pub fn bytes(&self) -> usize {
        self.runs.frames() * FRAME
    }

    /// The memory of each run.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the frames lie in the mapping, and are this handle's alone. All bytes are values.
        self.places().map(|(start, len)| unsafe { slice::from_raw_parts(start, len) })
    }

    /// The memory of each run, to be written.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        // SAFETY: as above, and `&mut self` shows that nobody else reads. No two runs have a byte in common.
        self.places().map(|(start, len)| unsafe { slice::from_raw_parts_mut(start, len) })
    }

    /// Tells the system to leave the memory where it is, and never to swap it out (`mlock`).
    ///
    /// # Errors
    /// What the system says: it allows a process that is not privileged a few MiB (`RLIMIT_MEMLOCK`). Nothing is locked
    /// then.
    pub fn lock(&mut self) -> io::Result<()> {
        self.is_locked = true;
        let mut places = self.places();
        // SAFETY: the memory is this handle's.
        let locked =
            places.try_for_each(|(start, len)| unsafe { rustix::mm::mlock(start.cast(), len) });
        drop(places);
        locked.inspect_err(|_| self.unlock()).map_err(io::Error::from)
    }

    fn unlock(&mut self) {
        if self.is_locked {
            // SAFETY: as above. What is not locked may be unlocked.
            self.places().for_each(|(start, len)| unsafe {
                let unlocked = rustix::mm::munlock(start.cast(), len);
                debug_assert!(unlocked.is_ok(), "it is mapped");
            });
            self.is_locked = false;
        }
    }

    /// Where each run begins, and its bytes.
    fn places(&self) -> impl Iterator<Item = (*mut u8, usize)> + use<'_, 'p> {
        let place = |run: &Range<FrameId>| {
            (self.frames.address(run.start), (run.end.0 - run.start.0) * FRAME)
        };
        self.runs().iter().map(place)
    }
}

impl Drop for Wired<'_> {
    fn drop(&mut self) {
        self.unlock();
        self.runs().iter().for_each(|run| self.frames.free_run(run.clone()));
    }
}

impl fmt::Debug for Wired<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wired({} bytes in {} runs)", self.bytes(), self.runs().len())
    }
}

#[cfg(test)]
mod tests {
    use woodlot_frame::Order;

    use super::*;
    use crate::options::Options;

    #[test]
    fn the_largest_come_first() {
        let frames = Frames::new(&Options::new(3 << 30)).expect("addresses are free");
        let take = |count| {
            let mut runs = Runs::default();
            frames.alloc_largest(count, &mut runs).map(|()| runs)
        };
        // The first 1 GiB is not whole.
        frames.alloc_at(FrameId(77), Order(0)).expect("it is free");
        let giant = take(1 << 18).expect("1 GiB");
        assert_eq!(giant.as_slice(), [FrameId(1 << 18)..FrameId(2 << 18)], "1 GiB, aligned");
        let small = take(3 * 512 + 5).expect("memory");
        let whole = |run: &Range<FrameId>| {
            run.start.0.is_multiple_of(512) && run.end.0 - run.start.0 >= 512
        };
        assert!(small.as_slice().iter().any(whole), "{:?}", small.as_slice());
        let beside = FrameId(0)..FrameId(512);
        assert!(
            small.as_slice().iter().any(|run| beside.contains(&run.start)),
            "not a new huge frame"
        );
        assert_eq!(small.frames(), 3 * 512 + 5);
    }

    #[test]
    fn runs_that_touch_are_joined() {
        let mut runs = Runs::default();
        for first in [8, 9, 7, 0, 4, 5] {
            runs.push_block(FrameId(first), Order(0));
        }
        assert_eq!(runs.as_slice().len(), 3);
        runs.push_block(FrameId(2), Order(1));
        runs.sort();
        let expected = [0..1, 2..6, 7..10].map(|run| FrameId(run.start)..FrameId(run.end));
        assert_eq!((runs.as_slice(), runs.frames()), (&expected[..], 8));
    }
}
