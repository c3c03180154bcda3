//! A thread around the daemon.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use woodlot_frame::{FrameAllocator, HugeId};

use crate::{
    Asks, Candidate, Chunk, Counters, Daemon, Event, Fmfi, Index, IndexError, Relocate, Settings,
};

impl Daemon<'_> {
    /// Works and rests on this thread until `stop` is set; `unpark` ends a rest. Then the run under way is cancelled, and all that
    /// was asked is answered. Times are in nanoseconds. `observe` is told each event but rests.
    ///
    /// # Progress
    /// It returns after the step under way, as soon as the owner's call in it does: [`Relocate`] says what waits for such a call.
    pub fn run<A: FrameAllocator, R: Relocate>(
        &mut self,
        allocator: &A,
        relocate: &mut R,
        asks: &Asks,
        stop: &AtomicBool,
        mut observe: impl FnMut(&Event),
    ) {
        let cancels = Cancels { daemon: self, allocator, asks };
        let began = Instant::now();
        while !stop.load(Ordering::Acquire) {
            let now = began.elapsed().as_nanos() as u64;
            let fmfi = || Fmfi::of::<A::Geometry>(&allocator.stats());
            let until = match cancels.daemon.step(now, allocator, relocate, asks, fmfi) {
                Event::Resting(until) | Event::Limited(until) => until,
                event => {
                    observe(&event);
                    let rests = matches!(event, Event::Below(_));
                    if rests { now.saturating_add(cancels.daemon.settings().rest) } else { now }
                }
            };
            if until > now {
                park_timeout(Duration::from_nanos(until - now));
            }
        }
    }
}

/// Ends the run under way however the loop around it ends: the observer may panic while a huge frame is isolated.
struct Cancels<'r, 'm, A: FrameAllocator> {
    daemon: &'r mut Daemon<'m>,
    allocator: &'r A,
    asks: &'r Asks,
}

impl<A: FrameAllocator> Drop for Cancels<'_, '_, A> {
    fn drop(&mut self) {
        // Shuttle's scheduler is gone while a thread of it panics.
        if !(cfg!(woodlot_shuttle) && std::thread::panicking()) {
            self.daemon.cancel(self.allocator, self.asks);
        }
    }
}

/// A daemon on a thread of its own, until it is stopped or dropped. Its clock counts nanoseconds.
///
/// Dropping it stops it, and waits for its thread for [a second](Self::PATIENCE) at most: where a call of the owner has not returned by
/// then, the thread ends by itself when it does, as after [`stop_within`](Self::stop_within).
#[derive(Debug)]
pub struct Background {
    stop: Arc<AtomicBool>,
    asks: Arc<Asks>,
    /// Ends with the thread.
    ends: Mutex<Receiver<Infallible>>,
    thread: Option<JoinHandle<Counters>>,
}

impl Background {
    /// How long a drop waits.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// Starts a daemon over the huge frames of a zone, in chunks of 2^`shift` huge frames.
    ///
    /// # Errors
    /// Where the zone has no huge frame, or no thread is to be had.
    pub fn start<A, R>(
        settings: Settings,
        shift: u32,
        allocator: Arc<A>,
        relocate: R,
    ) -> std::io::Result<Background>
    where
        A: FrameAllocator + Send + 'static,
        R: Relocate + Send + 'static,
    {
        let parts = vec![allocator.zone().huge_range::<A::Geometry>()];
        Background::start_in(settings, shift, parts, allocator, relocate)
    }

    /// The same over the huge frames of these parts, in order. For one domain of several the allocator is that domain (`OneDomain` of
    /// `woodlot-domains`), so that the index is the domain's, and nothing leaves it; the parts are its `huge_ranges`. Memory that is
    /// added later has no daemon until this one is stopped and another one started.
    ///
    /// # Errors
    /// Where the parts are no parts of an [`Index`], or no thread is to be had.
    pub fn start_in<A, R>(
        settings: Settings,
        shift: u32,
        parts: Vec<Range<HugeId>>,
        allocator: Arc<A>,
        relocate: R,
    ) -> std::io::Result<Background>
    where
        A: FrameAllocator + Send + 'static,
        R: Relocate + Send + 'static,
    {
        let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, shift)];
        // What is wrong with it is said before there is a thread.
        let _ = Index::new(&mut chunks, &parts, shift).map_err(|error: IndexError| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, error)
        })?;
        let (stop, asks) = (Arc::new(AtomicBool::new(false)), Arc::new(Asks::default()));
        let (stopped, asked) = (stop.clone(), asks.clone());
        let (alive, ends) = channel();
        let body = move || {
            let closing = Closing(asked, alive);
            // Dropped before that: what they do then belongs to the thread.
            let (allocator, mut relocate) = (allocator, relocate);
            let asked = &*closing.0;
            let huge = parts.iter().map(|part| part.end.0 - part.start.0).sum();
            let mut memory = vec![Candidate::EMPTY; huge];
            let Ok(index) = Index::new(&mut chunks, &parts, shift) else {
                return Counters::default();
            };
            let mut daemon = Daemon::new(settings, index, &mut memory);
            daemon.run(&*allocator, &mut relocate, asked, &stopped, |_| {});
            *daemon.counters()
        };
        let thread = Builder::new().name("woodlot-compact".into()).spawn(body)?;
        Ok(Background { stop, asks, ends: Mutex::new(ends), thread: Some(thread) })
    }

    /// What it is asked. [`wake`](Self::wake) makes it look at once. Whoever keeps a clone is answered when it has stopped, too.
    pub fn asks(&self) -> &Arc<Asks> {
        &self.asks
    }

    /// Wakes it up.
    pub fn wake(&self) {
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Stops it after the step under way. What it had isolated is given back; what it did is returned. Whoever waits for it is
    /// told that nothing comes.
    ///
    /// # Panics
    /// Where a call of the owner did, on the thread.
    ///
    /// # Progress
    /// It waits for the owner's call in that step, for ever if that never returns: [`stop_within`](Self::stop_within) does not.
    pub fn stop(mut self) -> Counters {
        self.end();
        self.join()
    }

    /// The same, but waits no longer than `limit`. Where the owner's call has not returned by then, that call still may be moving a
    /// block. When it returns, the thread ends by itself: the move counts or not as the call says, once, and what was isolated
    /// is given back. Until then one huge frame, or a range, stays isolated, and the block that was to receive allocated.
    /// Whoever waits for the daemon is told at once that nothing comes.
    ///
    /// # Errors
    /// [`Unfinished`]: it can be waited for again, or dropped, which does not wait.
    ///
    /// # Panics
    /// Where a call of the owner did, on the thread.
    pub fn stop_within(mut self, limit: Duration) -> Result<Counters, Unfinished> {
        self.end();
        if self.ends_within(limit) {
            return Ok(self.join());
        }
        self.asks.close();
        Err(Unfinished { background: self, limit })
    }

    /// Tells the thread to end.
    fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Has it ended, or does it so soon?
    fn ends_within(&mut self, limit: Duration) -> bool {
        let ends = self.ends.get_mut().unwrap_or_else(PoisonError::into_inner);
        ends.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected)
    }

    fn join(&mut self) -> Counters {
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or_else(Counters::default, |end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Whoever has told it to end has waited already, and who drops while panicking may hold what the thread waits for.
        let waits = !self.stop.load(Ordering::Acquire) && !std::thread::panicking();
        self.end();
        if waits && self.ends_within(Self::PATIENCE) {
            // A panic of the owner's calls was printed when it happened.
            self.thread.take().into_iter().for_each(|thread| _ = thread.join());
        }
        self.asks.close();
    }
}

/// A daemon was told to stop, and a call of the frames' owner has not returned in time.
#[derive(Debug)]
pub struct Unfinished {
    background: Background,
    limit: Duration,
}

impl Unfinished {
    /// The daemon, which ends when that call returns: to wait for it [again](Background::stop_within).
    pub fn into_background(self) -> Background {
        self.background
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a call of the frames' owner did not return within {:?}: ", self.limit)?;
        f.write_str("a block may still be moving; the daemon ends when it has")
    }
}

impl Error for Unfinished {}

/// The asks of a thread, which nobody serves once it ends, however it does; and the sign that it has not ended.
struct Closing(
    Arc<Asks>,
    #[expect(dead_code, reason = "it ends when it is dropped")] Sender<Infallible>,
);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}
