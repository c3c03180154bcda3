//! What is managed, and for whom.

use woodlot_frame::{Base4K, Geometry, ZoneConfig};

use crate::error::Refused;

/// What a [`Frames`](crate::Frames) manages, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Up to which physical address there may be memory, now or later, in bytes. The metadata is for all
    /// below, whether there is memory or not: 36.2 KiB for each GiB.
    pub memory: usize,
    /// How many CPUs, at least one: 128 bytes of metadata for each.
    pub cpus: usize,
    /// The CPU that a call runs on: a hint, by which calls on different CPUs keep apart.
    pub cpu: fn() -> usize,
    /// Is told what was refused: the trait's methods cannot say it. Memory that is used up is not told, for
    /// `alloc` says so.
    pub refused: fn(Refused),
}

impl Config {
    pub(crate) const fn zone(&self) -> ZoneConfig {
        ZoneConfig::new(self.memory >> Base4K::BASE_SHIFT, self.cpus)
    }
}
