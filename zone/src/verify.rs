//! Looking at a zone without changing it.

use woodlot_frame::{Geometry, Intents, Volatile, ZoneConfig};
use woodlot_llfree::{LLFree, Repairs, VOLATILE_VERSION};

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
    let repairs = unsafe {
        let metadata = memory.metadata(&info.layout);
        match info.intents {
            false => LLFree::<G>::inspect(&info.config, metadata),
            true => LLFree::<G, Intents<Volatile>>::inspect(&info.config, metadata),
        }
    }?;
    Ok(Verdict { info, cause, repairs, durable })
}
