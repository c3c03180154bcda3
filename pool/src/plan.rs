//! Where the parts of a shared pool lie in its file, and what the pool page says.
//!
//! ```text
//!   0      owners        page                                       frames, a multiple of 4 MiB
//!   │ zone │ owner table │ magic, sum, 6 words │ resident bits │ – │ frames
//! ```

use woodlot_frame::{Base4K, ZoneConfig};
use woodlot_zone::{Info, Layout, Memory, Owners, ZoneError, checksum};

use crate::error::SharedError;
use crate::mapping::{self, ALIGN, FRAME};
use crate::slots::Slots;

/// Members that can be alive at the same time.
pub(crate) const MEMBERS: usize = 64;
/// Entries of the owner table: some more, for those who die while they join.
pub(crate) const ENTRIES: usize = MEMBERS + 8;

/// The first word of a pool page: `Pool`, a byte that no text has, and zero.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"Pool\x1a\0\0\0");
/// The same while the pool is being made.
pub(crate) const MARK: u64 = u64::from_le_bytes(*b"pool?\0\0\0");
/// The version of the pool page.
const VERSION: u64 = 1;
/// Words of the pool page before the resident bits.
pub(crate) const HEAD: usize = 8;
/// The word of the pool page that says the cap.
pub(crate) const CAP: usize = 6;

/// The zone of a pool, where its parts lie in the file, and what its page says.
pub(crate) struct Plan {
    pub(crate) config: ZoneConfig,
    pub(crate) size: usize,
    pub(crate) cap: usize,
    pub(crate) owners: usize,
    pub(crate) page: usize,
    pub(crate) frames: usize,
}

/// What the words of the pool page say that follow its checksum.
const NAMES: [&str; 5] = [
    "version of the pool page",
    "entries of the owner table",
    "place of the frames",
    "size of the pool",
    "cap of the pool",
];

impl Plan {
    /// The plan of a pool that this machine makes.
    pub(crate) fn of(size: usize, cap: usize) -> Result<Plan, SharedError> {
        let slots = (4 * Slots::all_cpus()).max(16);
        Self::over(ZoneConfig::new(size / FRAME, slots), cap)
    }

    /// The plan of a pool with this zone.
    pub(crate) fn over(config: ZoneConfig, cap: usize) -> Result<Plan, SharedError> {
        let size = config.frames.saturating_mul(FRAME);
        let owners = Layout::of::<Base4K>(&config).map_err(ZoneError::from)?.len;
        let page = owners + Owners::len(&config, ENTRIES)?;
        let end = page + (HEAD + bits(size)) * size_of::<u64>();
        Ok(Plan { config, size, cap, owners, page, frames: end.next_multiple_of(ALIGN) })
    }

    /// Words of the pool page, the resident bits among them.
    pub(crate) fn words(&self) -> usize {
        HEAD + bits(self.size)
    }

    /// The bytes of the file.
    pub(crate) fn len(&self) -> usize {
        self.frames.saturating_add(self.size)
    }

    /// The words of the pool page before the bits.
    pub(crate) fn head(&self) -> [u64; HEAD] {
        let numbers = [ENTRIES, self.frames, self.size, self.cap].map(|number| number as u64);
        let [entries, frames, size, cap] = numbers;
        let sum = checksum(&[VERSION, entries, frames, size, cap, 0]);
        [MAGIC, sum, VERSION, entries, frames, size, cap, 0]
    }

    /// Is the page of a file that of this pool?
    pub(crate) fn check(&self, found: &[u64; HEAD]) -> Result<(), SharedError> {
        let [magic, sum, words @ ..] = found;
        if *magic != MAGIC {
            return Err(SharedError::NotAPool { magic: *magic });
        }
        if *sum != checksum(words) {
            return Err(SharedError::Damaged);
        }
        let [_, _, expected @ ..] = self.head();
        differ(NAMES.into_iter().zip(expected.into_iter().zip(*words)))
    }

    /// Is the zone of a file that of this pool? The first page of the file is there.
    pub(crate) fn check_zone(&self, memory: Memory<'_>) -> Result<(), SharedError> {
        let words = |config: &ZoneConfig| {
            [config.frames.saturating_mul(FRAME), config.slots].map(|n| n as u64)
        };
        let found = words(&Info::read(memory)?.config);
        let names = ["size of the pool", "number of slots"];
        differ(names.into_iter().zip(words(&self.config).into_iter().zip(found)))
    }
}

/// Words of the resident bits of a pool of so many bytes.
fn bits(size: usize) -> usize {
    (size / FRAME / mapping::HUGE).div_ceil(64)
}

/// # Errors
/// The first name whose values differ.
fn differ(mut all: impl Iterator<Item = (&'static str, (u64, u64))>) -> Result<(), SharedError> {
    match all.find(|(_, (expected, found))| expected != found) {
        Some((what, (expected, found))) => Err(SharedError::Differs { what, expected, found }),
        None => Ok(()),
    }
}
