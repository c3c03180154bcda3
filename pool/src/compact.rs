//! Compaction of a pool: its movable blocks are brought together until huge frames are free.
//!
//! ```text
//!   compact, compact_until ─► Compaction, Daemon (woodlot-compact)
//!                                 │ isolates a huge frame, asks for its blocks        engine
//!                                 └► Mover: which block is it, copy it                movables, place
//! ```
//!
//! 1. A block that receives is compaction's. Its unit may not be resident yet, for others may be about to make it so: the
//!    mover does so before it copies.
//! 2. A frame that is in use and belongs to no movable block may be one that a thread keeps. Magazines are emptied before a run is planned,
//!    and once more for each huge frame in which such a frame is met. What is in use after that is pinned.
//! 3. Huge frames with pinned frames are known by two counts, of frames in use and of those that move, and are not even
//!    isolated. Both change beside the run: a huge frame in which a block begins, ends or moves at that moment, or of which a thread has
//!    kept a frame since the magazines were emptied, may stay for one run that could have been emptied.

use std::sync::atomic::AtomicBool;

use woodlot_compact::{
    Asks, Block, Candidate, Chunk, Compaction, Counters, Daemon, Event, Index, Lookup, Patience,
    Refusal, Relocate, Report, Settings, Setup, Step, Target,
};
use woodlot_frame::{Base4K, FrameAllocator, FrameId, HugeId, Order};

use crate::engine::Zone;
use crate::error::PoolError;
use crate::frames::Frames;
use crate::place::{Lies, Stays};
use crate::pool::Pool;

/// log2 of the huge frames of a chunk of the daemon's index: 64 MiB.
const CHUNK: u32 = 5;

impl Pool {
    /// Moves [movable](Self::alloc_movable) blocks together until the target is won, and returns what was done. What is won is
    /// free, for anybody. Threads go on reading, writing, allocating and freeing.
    ///
    /// ```
    /// use woodlot_pool::{Options, Order, Stop, Target};
    ///
    /// let pool = Options::new(16 << 20).build()?;
    /// let mut blocks = Vec::new();
    /// while let Ok(block) = pool.alloc_movable(Order(0)) {
    ///     blocks.push(block);
    /// }
    /// // Every fourth one stays: three of four frames are free, and no huge frame is.
    /// blocks.retain(|block| block.frame().0 % 4 == 0);
    /// assert!(pool.alloc(Order(9)).is_err());
    /// let report = pool.compact(Target::Huge(2))?;
    /// assert_eq!((report.stop, report.won, report.moves), (Some(Stop::Won), 2, 2 * 128));
    /// let huge = pool.alloc_batch(Order(9), 2)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PoolError::NotCompacted`] where the target is none, or none that can be won; [`PoolError::Shared`].
    ///
    /// # Progress
    /// Linear in the pool's huge frames, and copies the blocks that move. Writers of a block wait while it is copied, readers do
    /// not. The free frames of a huge frame that is being emptied, of all of them where the target is a range or a block, are
    /// nobody's meanwhile: an allocation can fail for want of them.
    pub fn compact(&self, target: Target) -> Result<Report, PoolError> {
        self.frames().compact(target)
    }

    /// The daemon of the pool, on this thread, until `stop` is set; returns what it has done. The slot of the settings is not
    /// used: the pool has slots of its own. `observe` is told what it does. Whoever asks it for huge frames ([`Asks::ask`]) unparks
    /// this thread.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use woodlot_pool::{Asks, Options, Settings};
    ///
    /// let pool = Options::new(16 << 20).build()?;
    /// let (stop, asks) = (AtomicBool::new(false), Asks::new());
    /// let counters = std::thread::scope(|scope| {
    ///     let daemon = scope.spawn(|| pool.compact_until(&stop, &asks, Settings::default(), |_| {}));
    ///     // The program, which uses the pool.
    ///     stop.store(true, Ordering::Release);
    ///     daemon.thread().unpark();
    ///     daemon.join().expect("it does not panic")
    /// })?;
    /// assert_eq!(counters.all.won, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PoolError::Shared`].
    ///
    /// # Progress
    /// A step moves one block at the most; see [`Settings`]. Others wait as for [`compact`](Self::compact). As long as nothing is asked, what
    /// threads keep, 1.5 MiB each at the most, is in use to the daemon until it has decided to begin.
    pub fn compact_until(
        &self,
        stop: &AtomicBool,
        asks: &Asks,
        settings: Settings,
        observe: impl FnMut(&Event),
    ) -> Result<Counters, PoolError> {
        self.frames().compact_until(stop, asks, settings, observe)
    }

    /// A block as of [`alloc`](Self::alloc). Where there is none of 2 or 4 MiB, it asks the [daemon](Self::compact_until) that serves
    /// `asks`, and waits or not, as `patience` says. `wait` is called again and again until the daemon has answered: it unparks that
    /// thread and sleeps, or does something else; false gives up.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::thread;
    /// use woodlot_pool::{Asks, Options, Order, Patience, Settings};
    ///
    /// let pool = Options::new(16 << 20).build()?;
    /// let mut blocks = Vec::new();
    /// while let Ok(block) = pool.alloc_movable(Order(0)) {
    ///     blocks.push(block);
    /// }
    /// blocks.retain(|block| block.frame().0 % 4 == 0);
    /// let (stop, asks) = (AtomicBool::new(false), Asks::new());
    /// let huge = thread::scope(|scope| {
    ///     let daemon = scope.spawn(|| pool.compact_until(&stop, &asks, Settings::default(), |_| {}));
    ///     let huge = pool.alloc_or_ask(Order(9), &asks, Patience::Wait, || {
    ///         daemon.thread().unpark();
    ///         thread::yield_now();
    ///         !daemon.is_finished()
    ///     });
    ///     stop.store(true, Ordering::Release);
    ///     daemon.thread().unpark();
    ///     huge
    /// });
    /// assert!(huge.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc). After a wait, too: what the daemon has won may be another's already.
    ///
    /// # Progress
    /// As [`alloc`](Self::alloc), once or twice, and as long as `wait` says. Nobody answers where no daemon serves `asks`, unless they
    /// are [closed](Asks::close).
    pub fn alloc_or_ask(
        &self,
        order: Order,
        asks: &Asks,
        patience: Patience,
        wait: impl FnMut() -> bool,
    ) -> Result<crate::Block<'_>, PoolError> {
        let attempt = || match self.alloc(order) {
            Err(PoolError::OutOfMemory { .. }) => None,
            other => Some(other),
        };
        let none = || Err(self.frames().out_of_memory(order.frames()));
        asks.try_or_ask::<Base4K, _>(order, patience, wait, attempt).unwrap_or_else(none)
    }
}

impl Frames {
    fn compact(&self, target: Target) -> Result<Report, PoolError> {
        let zone = self.own_zone()?;
        let all = zone.zone().huge_range::<Base4K>();
        let mut memory = vec![Candidate::EMPTY; all.end.0 - all.start.0];
        let setup = Setup { target, ..Setup::huge(0, self.slot()) };
        let mut mover = Mover::new(self);
        let regions = std::iter::once(all);
        let work = Compaction::plan(setup, &mut memory, zone, &mut mover, regions);
        let mut work = work.map_err(PoolError::NotCompacted)?;
        loop {
            match work.step(zone, &mut mover) {
                Step::Won(_) => self.won(),
                Step::Done(_) => return Ok(work.report::<Base4K>()),
                _ => {}
            }
        }
    }

    fn compact_until(
        &self,
        stop: &AtomicBool,
        asks: &Asks,
        settings: Settings,
        mut observe: impl FnMut(&Event),
    ) -> Result<Counters, PoolError> {
        let zone = self.own_zone()?;
        let parts = [zone.zone().huge_range::<Base4K>()];
        let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, CHUNK)];
        let mut memory = vec![Candidate::EMPTY; parts[0].end.0 - parts[0].start.0];
        let index = Index::new(&mut chunks, &parts, CHUNK).expect("a pool has a huge frame");
        let settings = Settings { slot: self.slot(), ..settings };
        let mut daemon = Daemon::new(settings, index, &mut memory);
        daemon.run(zone, &mut Mover::new(self), asks, stop, |event| {
            if let Event::Worked(Step::Won(_)) = event {
                self.won();
            }
            observe(event);
        });
        Ok(*daemon.counters())
    }

    /// The engine, if no other process has frames of it.
    fn own_zone(&self) -> Result<&Zone, PoolError> {
        if self.is_shared() { Err(PoolError::Shared) } else { Ok(self.zone()) }
    }
}

/// Moves the blocks of a pool.
struct Mover<'p> {
    frames: &'p Frames,
    /// The last huge frame for which threads gave back what they keep.
    asked: Option<HugeId>,
}

impl Mover<'_> {
    fn new(frames: &Frames) -> Mover<'_> {
        Mover { frames, asked: None }
    }

    /// The movable block that a frame belongs to.
    fn block(&self, frame: FrameId) -> Option<Block> {
        let Lies { first, order } = self.frames.movables_if_any()?.block_of(frame)?;
        Some(Block { first, order, class: Frames::class(order) })
    }
}

impl Relocate for Mover<'_> {
    fn prepare(&mut self) {
        self.frames.take_back();
        // Threads may have kept more since that was emptied.
        self.asked = None;
    }

    fn block_at(&mut self, frame: FrameId) -> Lookup {
        if let Some(block) = self.block(frame) {
            return Lookup::Movable(block);
        }
        let huge = Some(frame.huge::<Base4K>());
        if self.asked != huge {
            self.asked = huge;
            self.frames.take_back();
        }
        if self.frames.zone().used_map(frame) >> (frame.0 & 63) & 1 == 0 {
            return Lookup::Gone;
        }
        // A thread may have made it a movable block meanwhile.
        self.block(frame).map_or(Lookup::Pinned, Lookup::Movable)
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let Block { first, order, .. } = block;
        self.frames.make_resident(to, order).map_err(|_| Refusal::Failed)?;
        self.frames.relocate(Lies { first, order }, to).map_err(|stays| match stays {
            Stays::NotMovable => Refusal::Gone,
            Stays::InUse => Refusal::Failed,
        })
    }

    fn has_pinned(&mut self, huge: HugeId) -> bool {
        let moves = self.frames.movables_if_any().map_or(0, |movables| movables.frames_in(huge));
        self.frames.zone().frames_in_use(huge) > moves
    }
}

#[cfg(all(test, target_os = "linux"))]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn threads_are_asked_for_what_they_keep_once_for_each_huge_frame_and_run() {
        let pool = Options::new(4 << 20).build().expect("a pool");
        let frame = FrameId(7);
        let mut mover = Mover::new(pool.frames());
        // It is in use, and no movable block.
        let keep = || drop(pool.alloc_at(frame, Order(0)).expect("it is free"));
        keep();
        assert_eq!(mover.block_at(frame), Lookup::Gone);
        keep();
        assert_eq!(mover.block_at(frame), Lookup::Pinned);
        mover.prepare();
        keep();
        assert_eq!(mover.block_at(frame), Lookup::Gone);
    }
}
