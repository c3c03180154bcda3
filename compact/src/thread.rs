//! A thread around the daemon.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use woodlot_frame::FrameAllocator;

use crate::{
    Asks, Candidate, Chunk, Counters, Daemon, Event, Fmfi, Index, IndexError, Relocate, Settings,
};

impl Daemon<'_> {
    /// Works and rests on this thread until `stop` is set; `unpark` ends a rest. Then the run under way is cancelled, and all that
    /// was asked is answered. Times are in nanoseconds. `observe` is told each event but rests.
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
#[derive(Debug)]
pub struct Background {
    stop: Arc<AtomicBool>,
    asks: Arc<Asks>,
    thread: Option<JoinHandle<Counters>>,
}

impl Background {
    /// Starts a daemon over the huge frames of a zone, in chunks of 2^`shift` huge frames.
    ///
    /// # Errors
    /// Where the zone has no huge frame, or no thread is to be had.
    pub fn start<A, R>(
        settings: Settings,
        shift: u32,
        allocator: Arc<A>,
        mut relocate: R,
    ) -> std::io::Result<Background>
    where
        A: FrameAllocator + Send + 'static,
        R: Relocate + Send + 'static,
    {
        let parts = vec![allocator.zone().huge_range::<A::Geometry>()];
        let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, shift)];
        // What is wrong with it is said before there is a thread.
        let _ = Index::new(&mut chunks, &parts, shift).map_err(|error: IndexError| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, error)
        })?;
        let (stop, asks) = (Arc::new(AtomicBool::new(false)), Arc::new(Asks::default()));
        let (stopped, asked) = (stop.clone(), asks.clone());
        let body = move || {
            let closing = Closing(asked);
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
        Ok(Background { stop, asks, thread: Some(thread) })
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
    pub fn stop(mut self) -> Counters {
        let ended = self.end().map(JoinHandle::join);
        ended.map_or_else(Counters::default, |end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Tells the thread to end.
    fn end(&mut self) -> Option<JoinHandle<Counters>> {
        self.stop.store(true, Ordering::Release);
        self.wake();
        self.thread.take()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let thread = self.end();
        // A panic of the owner's calls was printed when it happened; who drops while panicking may hold what the thread waits for.
        if !std::thread::panicking() {
            thread.into_iter().for_each(|thread| _ = thread.join());
        }
    }
}

/// The asks of a thread, which nobody serves once it ends, however it does.
struct Closing(Arc<Asks>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}
