//! The metadata of the zone in a static, and the zone that is made in there once.

use core::cell::UnsafeCell;
use core::hint::spin_loop;

use woodlot_frame::atomics::{AtomicU8, Ordering};
use woodlot_frame::{Base4K, Construct, Geometry, Init, METADATA_ALIGN, RawMetadata, ZoneConfig};
use woodlot_llfree::LLFree;

use crate::config::Config;
use crate::error::Refused;

/// A cache line of metadata.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(
    #[expect(dead_code, reason = "the zone reaches the bytes by their address")] [u8; LINE],
);

const LINE: usize = METADATA_ALIGN;

const _: () = assert!(align_of::<Line>() == METADATA_ALIGN);

/// Memory for the metadata of one [`Frames`](crate::Frames): a static, all zero, which takes no place in the
/// kernel's file.
pub struct Storage<const LINES: usize> {
    /// 1 when a zone uses the lines.
    taken: AtomicU8,
    lines: UnsafeCell<[Line; LINES]>,
}

// SAFETY: the lines are used by the one zone that has set `taken`.
unsafe impl<const LINES: usize> Sync for Storage<LINES> {}

impl<const LINES: usize> Storage<LINES> {
    /// Nothing is in it.
    pub const fn new() -> Self {
        let lines = UnsafeCell::new([Line([0; LINE]); LINES]);
        Storage { taken: AtomicU8::new(0), lines }
    }
}

impl<const LINES: usize> Default for Storage<LINES> {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// How many lines of 64 bytes the metadata takes at most: what [`Storage`] must have.
    pub const fn lines(&self) -> usize {
        // LAYOUT.md: rows, states, entry and children of a tree; masks and leaves of 64 trees with four classes;
        // a slot; the totals, and what three parts lose by beginning at a line.
        let trees = self.memory.div_ceil(Base4K::TREE_FRAMES << Base4K::BASE_SHIFT);
        let bytes = trees * (2048 + 64 + 64 + 128) + trees.div_ceil(64) * 792;
        (bytes.div_ceil(LINE) + 4).saturating_add(self.cpus.saturating_mul(2))
    }
}

/// A zone that is made when it is first wanted.
pub struct Zone {
    /// Of the storage.
    taken: &'static AtomicU8,
    lines: (*mut Line, usize),
    state: AtomicU8,
    /// Written by the call that made the state `MAKING`; read only when the state is `MADE`.
    zone: UnsafeCell<Option<LLFree<'static, Base4K>>>,
}

/// The states of a zone.
const NONE: u8 = 0;
const MAKING: u8 = 1;
const MADE: u8 = 2;

// SAFETY: `zone` is written by one call, while nobody reads it; the lines belong to whoever set `taken`, and
// are used through the zone only, which may be shared.
unsafe impl Sync for Zone {}
// SAFETY: as above.
unsafe impl Send for Zone {}

impl Zone {
    pub const fn new<const LINES: usize>(storage: &'static Storage<LINES>) -> Zone {
        let lines = (storage.lines.get().cast(), LINES);
        let zone = UnsafeCell::new(None);
        Zone { taken: &storage.taken, lines, state: AtomicU8::new(NONE), zone }
    }

    /// The zone, if it has been made.
    pub fn get(&self) -> Option<&LLFree<'static, Base4K>> {
        if self.state.load(Ordering::Acquire) != MADE {
            return None;
        }
        // SAFETY: the zone was written before the state became `MADE`, and is not written again.
        unsafe { &*self.zone.get() }.as_ref()
    }

    /// The zone, which this call makes, with nothing free in it, if nobody has.
    pub fn get_or_make(&self, config: &ZoneConfig) -> Result<&LLFree<'static, Base4K>, Refused> {
        loop {
            if let Some(zone) = self.get() {
                return Ok(zone);
            }
            let ordering = Ordering::Acquire;
            match self.state.compare_exchange(NONE, MAKING, ordering, ordering) {
                Ok(_) => {
                    let made = self.make(config);
                    let state = if made.is_ok() { MADE } else { NONE };
                    self.state.store(state, Ordering::Release);
                    made?;
                }
                Err(_) => spin_loop(),
            }
        }
    }

    /// Makes the zone, as the only call that does.
    fn make(&self, config: &ZoneConfig) -> Result<(), Refused> {
        let size = LLFree::<Base4K>::metadata_size(config).map_err(Refused::Start)?;
        if self.taken.swap(1, Ordering::Relaxed) != 0 {
            return Err(Refused::StorageTaken);
        }
        let (start, bytes) = (self.lines.0.cast::<u8>(), self.lines.1 * LINE);
        let durable = size.durable.min(bytes);
        let metadata = RawMetadata {
            durable: (start, durable),
            volatile: (start.wrapping_add(durable), bytes - durable),
        };
        // SAFETY: the lines are a static, zero at first, and whoever has set `taken` is their only user.
        let made = unsafe { LLFree::construct(config, metadata, Init::Allocated) };
        let made = made.inspect_err(|_| self.taken.store(0, Ordering::Relaxed));
        let zone = made.map_err(Refused::Start)?;
        // SAFETY: nobody reads the zone before the state says so.
        unsafe { *self.zone.get() = Some(zone) };
        Ok(())
    }
}
