//! Looking at a zone without changing it.

use woodlot_frame::{Geometry, ZoneConfig};
use woodlot_llfree::{LLFree, Repairs, VOLATILE_VERSION, View};

use crate::ZoneError;
use crate::checksum;
use crate::layout::Memory;
use crate::open::Cause;
use crate::page::Info;
use crate::phase::Phase;
use crate::state::{Seal, State};

/// What is known of a zone without opening it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// What the zone page says.
    pub info: Info,
    /// Why opening it would recover it; `None`: it would not.
    pub cause: Option<Cause>,
    /// What a recovery would find.
    pub repairs: Repairs,
    /// Has the durable part the checksum that it had when the zone was closed? `None`: the zone is not closed, or
    /// what the close said is damaged.
    pub durable: Option<bool>,
}

impl Verdict {
    /// Was the zone closed, and is every byte of it what it was then?
    pub fn is_clean(&self) -> bool {
        self.cause.is_none() && self.durable == Some(true) && self.repairs.is_nothing()
    }
}

/// Looks at all of a zone. Nothing is written, and reading is enough. While others use the zone, the counts are
/// those of no one moment.
///
/// Every access is a relaxed load of 8 bytes. Rust promises that such loads work in memory that is mapped for reading
/// only, on x86-64, AArch64, RISC-V and every other 64-bit machine that it lists with [`core::sync::atomic`]; so a file
/// that may not be written, or a guest's zone that its hypervisor maps so, can be verified.
///
/// # Errors
/// Where [`Zone::open`](crate::Zone::open) would refuse the zone, but for its persistence model.
///
/// # Safety
/// Nobody may open, format or close the zone meanwhile.
pub unsafe fn verify<G: Geometry>(
    memory: Memory<'_>,
    expected: Option<&ZoneConfig>,
) -> Result<Verdict, ZoneError> {
    let info = Info::check::<G>(memory, expected, None)?;
    let sum = |part| checksum::of_atomics(memory.part(part));
    let (cause, durable) = match State::load(memory.page()) {
        None => (Some(Cause::State), None),
        Some(State { phase: Phase::InUse, .. }) => (Some(Cause::InUse), None),
        Some(State { phase: Phase::Opening, .. }) => (Some(Cause::Opening), None),
        Some(closed) => match Seal::load(memory.page(), closed) {
            None => (Some(Cause::Seal), None),
            Some(seal) => {
                let cause = match () {
                    () if seal.version != VOLATILE_VERSION as u64 => Some(Cause::Version),
                    () if sum(&info.layout.volatile) != seal.volatile => Some(Cause::Volatile),
                    () => None,
                };
                (cause, Some(sum(&info.layout.durable) == seal.durable))
            }
        },
    };
    // SAFETY: `check` found that the memory holds both parts; the durable part is written by atomics only.
    let repairs = unsafe { LLFree::<G>::inspect(&info.config, memory.metadata(&info.layout)) }?;
    Ok(Verdict { info, cause, repairs, durable })
}

/// Looks at what a zone is used for, beside those who use it. Nothing is written, and reading is enough. Of a zone that
/// is not [in use](in_use) the durable part is to be trusted at most: its huge frames, and not its slots.
///
/// Every access is a load, of at most 8 bytes; some of them acquire. Such loads are plain instructions on x86-64, AArch64
/// and RISC-V, so memory that is mapped for reading only will do there. (Rust itself promises that of relaxed loads
/// alone, as [`verify`] makes them.)
///
/// # Errors
/// Where [`Zone::open`](crate::Zone::open) would refuse the zone, but for its persistence model.
///
/// # Safety
/// Nobody may format the zone for as long as `'a`, nor may the memory end.
pub unsafe fn view<'a, G: Geometry>(memory: Memory<'a>) -> Result<(Info, View<'a, G>), ZoneError> {
    let info = Info::check::<G>(memory, None, None)?;
    // SAFETY: `check` found that the memory holds both parts, which are written by atomics only.
    let view = unsafe { View::of(&info.config, memory.metadata(&info.layout)) }?;
    Ok((info, view))
}

/// Is the zone in use, by programs whose volatile part looks as it does here?
///
/// # Errors
/// [`ZoneError::NotInUse`], or [`ZoneError::Mismatch`] with the version of the volatile part.
pub fn in_use(memory: Memory<'_>) -> Result<(), ZoneError> {
    State::of_user(memory.page()).map(drop)
}
