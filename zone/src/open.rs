//! Opening a zone: going on with what a close has left, or recovering it.

use core::fmt;

use woodlot_frame::{Geometry, ZoneConfig};
use woodlot_llfree::{LLFree, Recovery, Repairs, Tuning, VOLATILE_VERSION};

use crate::ZoneError;
use crate::checksum;
use crate::layout::{Layout, Memory, PAGE};
use crate::medium::Medium;
use crate::page::{Info, Kind};
use crate::phase::Phase;
use crate::state::{self, Seal, State};
use crate::zone::Zone;

/// How much is believed of a zone that was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// The durable part is believed, so that it need not be read. The checksum of the volatile part is compared.
    #[default]
    Quick,
    /// The checksum of the durable part is compared as well. This is for media that change bytes.
    Full,
    /// Nothing is believed: the zone is recovered, as if it had not been closed.
    Recover,
}

/// How a zone was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// It was closed before, and goes on as it was.
    Clean,
    /// It was recovered from its durable part.
    Recovered {
        /// Why.
        cause: Cause,
        /// What was found and repaired.
        repairs: Repairs,
    },
}

/// Why a zone was recovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// It was not closed.
    InUse,
    /// An earlier recovery did not come to its end.
    Opening,
    /// The word of the state is torn or damaged.
    State,
    /// It was closed, but what the close said of it is torn or damaged.
    Seal,
    /// It was closed by a program whose volatile part looks different.
    Version,
    /// The volatile part is not what it was when the zone was closed.
    Volatile,
    /// [`Check::Recover`].
    Asked,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "the zone was not closed",
            Self::Opening => "an earlier recovery did not come to its end",
            Self::State => "the word of the state is damaged",
            Self::Seal => "what the close said of the zone is damaged",
            Self::Version => "the zone was closed by a program whose volatile part looks different",
            Self::Volatile => "the volatile part has changed since the zone was closed",
            Self::Asked => "it was asked for",
        })
    }
}

/// A zone that is being opened. If it must be recovered, any number of threads may [`help`](Self::help).
pub struct Opening<'a, G: Geometry, M: Medium> {
    zone: ZoneConfig,
    memory: Memory<'a>,
    medium: M,
    state: State,
    /// `None`: it was closed, and goes on as it is.
    recovery: Option<(Recovery<'a, G, M::WriteBack>, Cause)>,
}

impl<'a, G: Geometry, M: Medium> Opening<'a, G, M> {
    /// Begins to open a zone. See [`Zone::open`].
    ///
    /// # Errors
    /// As [`Zone::open`].
    ///
    /// # Safety
    /// As [`Zone::open`].
    pub unsafe fn begin(
        memory: Memory<'a>,
        expected: Option<&ZoneConfig>,
        check: Check,
        medium: M,
    ) -> Result<Self, ZoneError> {
        let Info { config: zone, layout, .. } =
            Info::check::<G>(memory, expected, Some(Kind::of::<M>()))?;
        let before = State::load(memory.page());
        let cause = must_recover(memory, &layout, before, check)?;
        let before = before.unwrap_or(State { phase: Phase::Opening, generation: 0 });
        let Some(cause) = cause else {
            let state = before.next(Phase::InUse);
            return Ok(Self { zone, memory, medium, state, recovery: None });
        };
        let state = before.next(Phase::Opening);
        state.store(memory.page());
        memory.persist(&medium, 0..PAGE)?;
        // SAFETY: `check` found that the memory holds both parts, and the caller vouches that nobody else has it.
        let recovery = unsafe {
            let metadata = memory.metadata(&layout);
            LLFree::recovery(&zone, Tuning::DEFAULT, medium.write_back(), metadata)
        }?;
        Ok(Self { zone, memory, medium, state, recovery: Some((recovery, cause)) })
    }

    /// Recovers a part of the zone, and returns when nothing is left that nobody has taken. Returns at once if the
    /// zone was closed.
    pub fn help(&self) {
        if let Some((recovery, _)) = &self.recovery {
            recovery.help();
        }
    }

    /// Comes to the end of it.
    ///
    /// # Errors
    /// [`ZoneError::NotDurable`]
    ///
    /// # Crash
    /// The zone is in use when all that was recovered is durable: what was resolved of calls that were cut off, and then
    /// that it was. Before, it is recovered by the next opening, with the same result.
    pub fn finish(self) -> Result<(Zone<'a, G, M>, Opened), ZoneError> {
        let Self { zone, memory, medium, state, recovery } = self;
        let (allocator, opened) = match recovery {
            None => {
                let layout = Layout::on::<G, M::WriteBack>(&zone)?;
                // SAFETY: the bytes are those that the allocator of this configuration and version had when it
                // was closed, by their checksum, and nobody else has them.
                let allocator = unsafe {
                    let metadata = memory.metadata(&layout);
                    LLFree::attach(&zone, Tuning::DEFAULT, medium.write_back(), metadata)
                }?;
                (allocator, Opened::Clean)
            }
            Some((recovery, cause)) => {
                let durable = Layout::pages(&Layout::on::<G, M::WriteBack>(&zone)?.durable);
                let (allocator, repairs) =
                    recovery.finish_synced(|| memory.persist(&medium, durable.clone()))?;
                (allocator, Opened::Recovered { cause, repairs })
            }
        };
        let zone = Zone::over(allocator, memory, medium, state.to(Phase::InUse))?;
        // All that was recovered is durable.
        state::set_volatile_version(memory.page(), VOLATILE_VERSION as u64);
        zone.enter()?;
        Ok((zone, opened))
    }
}

/// Why a zone that is in this state must be recovered, if it must.
fn must_recover(
    memory: Memory<'_>,
    layout: &Layout,
    state: Option<State>,
    check: Check,
) -> Result<Option<Cause>, ZoneError> {
    let closed = match state {
        _ if check == Check::Recover => return Ok(Some(Cause::Asked)),
        None => return Ok(Some(Cause::State)),
        Some(State { phase: Phase::Opening, .. }) => return Ok(Some(Cause::Opening)),
        Some(State { phase: Phase::InUse, .. }) => return Ok(Some(Cause::InUse)),
        Some(closed) => closed,
    };
    let Some(seal) = Seal::load(memory.page(), closed) else {
        return Ok(Some(Cause::Seal));
    };
    if check == Check::Full {
        let (expected, found) = (seal.durable, checksum::of_atomics(memory.part(&layout.durable)));
        if expected != found {
            return Err(ZoneError::Damaged { expected, found });
        }
    }
    if seal.version != VOLATILE_VERSION as u64 {
        return Ok(Some(Cause::Version));
    }
    let found = checksum::of_atomics(memory.part(&layout.volatile));
    Ok((found != seal.volatile).then_some(Cause::Volatile))
}
