//! State dispersion: how many bytes, and how many cache lines, an allocator's state lies in (LLFree
//! section 5.5).
//!
//! Two figures for each engine:
//!
//! * *computed*: the metadata that a zone needs, by the engine's own account
//!   ([`Construct::metadata_size`]), and the lines that these bytes are;
//! * *measured*: the distinct lines of that metadata which a full scan loads. A small zone is
//!   fragmented at random; then the scan asks for the statistics, for each huge frame how much of
//!   it is free, and for each frame whether it is. Every access to the metadata on the way traps
//!   (`watch`), so nothing is left out, and nothing counted that was not touched.
//!
//! The registry's allocators keep their state on the heap and cannot be asked; they have no figures.

pub(crate) mod watch;

use serde::{Deserialize, Serialize};
use woodlot_frame::{
    Base4K, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, Order, Request, Slot,
    ZoneConfig,
};

use crate::Failure;
use crate::contender::Contender;
use crate::engine::{Engine, Visit};
use crate::random::Random;
use crate::size::Size;

/// What a cache line has.
pub const LINE: usize = 64;

/// The state of one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dispersion {
    /// Whose.
    pub engine: Engine,
    /// The zone whose metadata is computed.
    pub memory: Size,
    /// Its slots.
    pub slots: usize,
    /// Bytes of metadata that a recovery starts from.
    pub durable_bytes: usize,
    /// Bytes that are recomputed at every start.
    pub volatile_bytes: usize,
    /// The zone that was scanned.
    pub scanned_memory: Size,
    /// Lines of its metadata.
    pub scanned_lines: usize,
    /// How many of them the scan touched, or why that is not known.
    pub touched_lines: Result<usize, String>,
}

impl Dispersion {
    /// All bytes of the computed metadata.
    pub fn bytes(&self) -> usize {
        self.durable_bytes + self.volatile_bytes
    }

    /// The lines that these bytes are.
    pub fn lines(&self) -> usize {
        self.bytes().div_ceil(LINE)
    }

    /// Lines that a full scan touches in each GiB.
    pub fn touched_per_gib(&self) -> Option<f64> {
        let touched = *self.touched_lines.as_ref().ok()?;
        Some(touched as f64 * Size::gib(1).frames() as f64 / self.scanned_memory.frames() as f64)
    }
}

/// Computes for a zone of `memory` with `slots` slots, and scans one of `scanned`.
///
/// # Errors
/// Where the engine cannot be asked.
pub fn dispersion(
    engine: Engine,
    memory: Size,
    slots: usize,
    scanned: Size,
) -> Result<Dispersion, Failure> {
    let work = Disperse { engine, memory, slots, scanned };
    let found = engine.visit(Order::BASE, work);
    found.unwrap_or_else(|| Err(Failure::Failed(format!("{engine}: does not serve order 0"))))
}

struct Disperse {
    engine: Engine,
    memory: Size,
    slots: usize,
    scanned: Size,
}

impl Visit for Disperse {
    type Output = Result<Dispersion, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        let Self { engine, memory, slots, scanned } = self;
        let failed = |error| Failure::Failed(format!("{engine}: {error}"));
        let size = |config: &ZoneConfig| A::metadata_size(config).map_err(failed);
        let computed = size(&ZoneConfig::new(memory.frames(), slots))?;
        let config = ZoneConfig::new(scanned.frames(), 1);
        let small = size(&config)?;
        Ok(Dispersion {
            engine,
            memory,
            slots,
            durable_bytes: computed.durable,
            volatile_bytes: computed.volatile,
            scanned_memory: scanned,
            scanned_lines: small.durable.div_ceil(LINE) + small.volatile.div_ceil(LINE),
            touched_lines: touched::<A>(&config).map_err(|failure| failure.to_string()),
        })
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        let engine = self.engine;
        Err(Failure::Failed(format!("{engine}: keeps its state where it cannot be watched")))
    }
}

/// The lines that a full scan of a fragmented zone touches.
fn touched<A>(config: &ZoneConfig) -> Result<usize, Failure>
where
    A: Construct + FrameAllocator<Geometry = Base4K>,
{
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", A::NAME));
    let size = A::metadata_size(config).map_err(|error| failed(&error))?;
    let memory = watch::Memory::new(size)?;
    // SAFETY: the memory is initialised, as long as the engine asked for, and lives longer than the
    // zone, which is its only user.
    let zone = unsafe { A::construct(config, memory.raw(), Init::Free) };
    let zone = zone.map_err(|error| failed(&error))?;
    fragment(&zone).map_err(|error| failed(&error))?;
    memory.count(|| {
        scan(&zone);
    })
}

/// Allocates every frame and frees half of them, chosen at random.
fn fragment<A: FrameAllocator>(zone: &A) -> Result<(), woodlot_frame::FreeError> {
    let mut random = Random::new(1);
    let request = Request::movable(Order::BASE, Slot(0));
    let owned: Vec<FrameId> = std::iter::from_fn(|| zone.alloc(request).ok()).collect();
    for &frame in owned.iter() {
        if random.bits() & 1 == 0 {
            zone.free(frame, Order::BASE, Slot(0))?;
        }
    }
    // The only slot of the zone: nothing can be wrong with it.
    let _ = zone.drain(Slot(0));
    Ok(())
}

/// Asks for everything that the contract lets one ask; returns how many frames are free.
fn scan<A: FrameAllocator>(zone: &A) -> usize {
    let huge = zone.zone().huge_range::<A::Geometry>();
    let frames = huge.start.0 * A::Geometry::HUGE_FRAMES..huge.end.0 * A::Geometry::HUGE_FRAMES;
    let whole: usize = (huge.start.0..huge.end.0).map(|id| zone.free_in_huge(HugeId(id))).sum();
    let single = frames.filter(|&frame| zone.is_free(FrameId(frame), Order::BASE)).count();
    std::hint::black_box((zone.stats(), whole));
    single
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_field_is_scanned_line_by_line_and_a_page_array_page_by_page() {
        let (small, large) = ("16MiB".parse().unwrap(), Size::gib(128));
        let of = |engine| dispersion(engine, large, 52, small).unwrap();
        let (llfree, linux) = (of(Engine::Llfree), of(Engine::Linux));
        assert!(linux.bytes() > 100 * llfree.bytes(), "{llfree:?} {linux:?}");
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            let touched = |found: &Dispersion| found.touched_lines.clone().unwrap();
            // 8 huge frames of 8 rows each, one line; and what says which of them are split.
            assert!((8..=40).contains(&touched(&llfree)), "{llfree:?}");
            assert!(touched(&linux) >= 4096, "{linux:?}");
            assert!(touched(&linux) <= linux.scanned_lines);
        }
        assert!(dispersion(Engine::Bitmap, large, 1, small).is_err());
    }
}
