//! How long a zone takes to open: after a crash, by one thread or several, and after a clean shutdown (LLFree,
//! section 5.7).
//!
//! ```text
//!   a zone, all allocated, then a random half of its frames freed
//!     dirty      opened, dropped, opened, …           each opening is a recovery
//!     clean      opened, closed, opened, closed, …    each opening goes on as the close has left it
//! ```

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::hint::{black_box, spin_loop};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{
    Base4K, FrameAllocator, FrameId, Geometry, Init, InitError, Order, Slot, ZoneConfig,
};
use woodlot_zone::{Check, Closed, Medium, Memory, Opened, Opening, PAGE, Shared, Zone, ZoneError};

use crate::random::Random;
use crate::size::Size;

/// Times of openings in microseconds, one for each repetition.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recovery {
    /// Not closed before: one thread recovers the zone.
    pub dirty: Vec<f64>,
    /// The same by two threads.
    pub dirty_two: Vec<f64>,
    /// Closed before.
    pub clean: Vec<f64>,
    /// The same; the durable part is compared with what it was at the close.
    pub clean_compared: Vec<f64>,
}

/// Measures the openings of a zone of which a random half is allocated, frame by frame, so that every row has to be
/// looked at. The four kinds take turns.
///
/// # Errors
/// When the zone cannot be made or opened, which is a defect.
pub fn measure(memory: Size, repetitions: usize, seed: u64) -> Result<Recovery, ZoneError> {
    let config = ZoneConfig::new(memory.frames(), 2);
    let buffer = Buffer::new(woodlot_zone::Layout::of::<Base4K>(&config)?.len)?;
    // SAFETY: the buffer outlives all zones in it, and nothing else uses it.
    let memory = || unsafe { Memory::new(buffer.start, buffer.layout.size()) };
    // SAFETY: nobody else has the memory.
    let zone = unsafe { Zone::<Base4K, _>::format(memory()?, &config, Init::Allocated, Shared) }?;
    let mut random = Random::new(seed);
    for frame in (0..config.frames).filter(|_| random.bits() & 1 == 0) {
        // Each is freed once.
        let _ = zone.free(FrameId(frame), Order::BASE, Slot(0));
    }
    let free = zone.stats().free_frames;
    let open = |threads, check| {
        // SAFETY: the zone before is not used any more.
        unsafe { opened::<Base4K, _>(memory()?, None, check, Shared, threads) }
    };
    let mut found = Recovery::default();
    for _ in 0..repetitions {
        for (threads, times) in [(1, &mut found.dirty), (2, &mut found.dirty_two)] {
            let (zone, _, time) = open(threads, Check::Quick)?;
            times.push(in_us(time));
            black_box(&zone);
        }
        for (check, times) in
            [(Check::Quick, &mut found.clean), (Check::Full, &mut found.clean_compared)]
        {
            let closed = open(1, Check::Quick)?.0.close()?;
            assert_eq!(closed, Closed::Clean, "nobody has died in the middle of a call");
            let (zone, _, time) = open(1, check)?;
            times.push(in_us(time));
            black_box(&zone);
        }
    }
    let (zone, ..) = open(1, Check::Quick)?;
    assert_eq!(zone.stats().free_frames, free, "every opening finds the same zone");
    Ok(found)
}

fn in_us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Opens a zone by several threads, and says how long that took. The threads are there before the time begins.
///
/// # Errors
/// As [`Zone::open`].
///
/// # Safety
/// As [`Zone::open`].
pub unsafe fn opened<'a, G: Geometry, M: Medium + Sync + Send>(
    memory: Memory<'a>,
    expected: Option<&ZoneConfig>,
    check: Check,
    medium: M,
    threads: usize,
) -> Result<(Zone<'a, G, M>, Opened, Duration), ZoneError>
where
    Opening<'a, G, M>: Send + Sync,
{
    let opening: OnceLock<Result<Opening<'a, G, M>, ZoneError>> = OnceLock::new();
    let ready = AtomicU64::new(1);
    let start = thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                ready.fetch_add(1, Ordering::AcqRel);
                loop {
                    match opening.get() {
                        Some(begun) => return begun.iter().for_each(Opening::help),
                        None => spin_loop(),
                    }
                }
            });
        }
        while ready.load(Ordering::Acquire) < threads as u64 {
            spin_loop();
        }
        let start = Instant::now();
        // SAFETY: as the caller promises.
        let begun = unsafe { Opening::begin(memory, expected, check, medium) };
        opening.get_or_init(|| begun).iter().for_each(Opening::help);
        start
    });
    // It was set above.
    let begun = opening.into_inner().ok_or(ZoneError::Unfinished)??;
    let (zone, how) = begun.finish()?;
    Ok((zone, how, start.elapsed()))
}

/// Memory at a multiple of a page.
struct Buffer {
    start: *mut u8,
    layout: Layout,
}

impl Buffer {
    /// At least a page of it.
    fn new(len: usize) -> Result<Buffer, ZoneError> {
        let layout = Layout::from_size_align(len.max(PAGE), PAGE);
        let layout = layout.map_err(|_| InitError::ZoneTooLarge)?;
        // SAFETY: the layout has a size.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Buffer { start, layout })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated so.
        unsafe { dealloc(self.start, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_opening_is_measured_each_time() {
        let found = measure(Size::mib(256), 3, 1).unwrap();
        let all = [found.dirty, found.dirty_two, found.clean, found.clean_compared];
        assert!(all.iter().all(|times| times.len() == 3 && times.iter().all(|&us| us > 0.0)));
    }

    #[test]
    fn what_cannot_be_opened_keeps_no_thread_waiting() {
        let buffer = Buffer::new(PAGE).unwrap();
        // SAFETY: the buffer outlives its use here.
        let memory = unsafe { Memory::new(buffer.start, PAGE) }.unwrap();
        // SAFETY: nobody else has the memory.
        let opened = unsafe { opened::<Base4K, _>(memory, None, Check::Quick, Shared, 3) };
        assert!(matches!(opened, Err(ZoneError::Empty)));
    }
}
