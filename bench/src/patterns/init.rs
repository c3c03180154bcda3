//! Starting a zone: from nothing, and from what a crash left.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;

use woodlot_frame::{
    Base4K, Construct, FrameAllocator, FrameId, Init, METADATA_ALIGN, Order, RawMetadata, Request,
    Slot, ZoneConfig,
};

use super::kinds::Metric;
use super::runner::{Runner, Sample};
use super::setup::Setup;
use super::threads::on_threads;
use crate::Failure;
use crate::clock::Tally;
use crate::contender::fits;
use crate::random::Random;

/// The most base frames that are allocated one by one: a zone of 256 GiB.
const MOST_BASE_FRAMES: usize = 1 << 26;

/// A zone that is made again and again on the same metadata, which is therefore warm: touched, and
/// in the caches as far as it fits.
pub struct Starting<A> {
    config: ZoneConfig,
    durable: Memory,
    volatile: Memory,
    random: Random,
    operations: usize,
    engine: PhantomData<fn() -> A>,
}

impl<A: Construct + FrameAllocator<Geometry = Base4K> + Send> Starting<A> {
    /// Metadata for the zone.
    ///
    /// # Errors
    /// Where there is not enough memory, or the engine cannot manage the zone.
    pub fn new(setup: &Setup) -> Result<Self, Failure> {
        let config = ZoneConfig::new(setup.memory.frames(), setup.slots);
        fits::<A>(&config)?;
        let failed = |error| Failure::Failed(format!("{}: {error}", A::NAME));
        let size = A::metadata_size(&config).map_err(failed)?;
        let no_memory = || Failure::Failed(format!("{}: no memory for metadata", A::NAME));
        Ok(Self {
            config,
            durable: Memory::new(size.durable).ok_or_else(no_memory)?,
            volatile: Memory::new(size.volatile).ok_or_else(no_memory)?,
            random: Random::new(setup.seed),
            // Up to 32 calls where zones are small: a call is microseconds then.
            operations: (setup.operations >> 12).clamp(1, 1 + (32 << 18) / config.frames),
            engine: PhantomData,
        })
    }

    fn start(&self, init: Init) -> Result<A, Failure> {
        let metadata = RawMetadata { durable: self.durable.raw(), volatile: self.volatile.raw() };
        // SAFETY: the memory is initialised and as long as the engine asked for, and the last
        // allocator on it is gone: nothing that this returns outlives the call that made it.
        let made = unsafe { A::construct(&self.config, metadata, init) };
        made.map_err(|error| Failure::Failed(format!("{}: {error}", A::NAME)))
    }

    /// Allocates everything and frees half of it at random: base frames, or whole huge frames where
    /// base frames would take too long. Every aligned block can be freed, since all are allocated.
    fn use_half(&mut self, zone: &A) {
        let frames = self.config.frames;
        let order = if frames <= MOST_BASE_FRAMES { Order::BASE } else { Order(9) };
        let request = Request::movable(order, Slot(0));
        let blocks = std::iter::from_fn(|| zone.alloc(request).ok()).count();
        for block in 0..blocks {
            if self.random.bits() & 1 == 0 {
                // It was allocated above, so this succeeds; if not, it stays in use.
                let _ = zone.free(FrameId(block << order.0), order, Slot(0));
            }
        }
    }

    fn both(&mut self) -> Result<Sample, Failure> {
        let mut sample = Sample::new();
        let mut init = Tally::default();
        for _ in 0..self.operations {
            let mut made = None;
            init.time(|| {
                made = Some(self.start(Init::Free));
                1
            });
            made.transpose()?;
        }
        sample.push((Metric::Init, init));
        if A::UNSUPPORTED.recovery {
            return Ok(sample);
        }
        let zone = self.start(Init::Free)?;
        self.use_half(&zone);
        drop(zone);
        let mut recover = Tally::default();
        for _ in 0..self.operations {
            let mut made = None;
            recover.time(|| {
                made = Some(self.start(Init::Recover));
                1
            });
            made.transpose()?;
        }
        sample.push((Metric::Recover, recover));
        Ok(sample)
    }
}

impl<A: Construct + FrameAllocator<Geometry = Base4K> + Send> Runner for Starting<A> {
    fn sample(&mut self) -> Result<Sample, Failure> {
        on_threads([self], |_, this| this.both()).pop().unwrap_or(Ok(Sample::new()))
    }
}

/// Memory that has been touched.
struct Memory {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: it is owned like a `Box<[u8]>`.
unsafe impl Send for Memory {}

impl Memory {
    fn new(bytes: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(bytes.max(1), METADATA_ALIGN).ok()?;
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the memory is ours and has this length; ones, so that every page is written.
        unsafe { start.write_bytes(0xff, layout.size()) };
        Some(Memory { start, layout })
    }

    fn raw(&self) -> (*mut u8, usize) {
        (self.start, self.layout.size())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout, and is released once.
        unsafe { dealloc(self.start, self.layout) };
    }
}
