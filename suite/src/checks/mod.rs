//! The sequential checks, by theme. Each is a function of any engine; what an engine declares
//! away is left out here and judged in [`unsupported`].

use woodlot_frame::{Init, InitError, ZoneConfig};

pub(crate) use crate::checked::Checked;
pub(crate) use crate::engine::Engine;
pub(crate) use crate::settings::rng;

pub mod batches;
pub mod classes;
pub mod errors;
pub mod exact;
pub mod exhaustion;
pub mod init;
pub mod isolation;
pub mod offline;
pub mod orders;
pub mod partial;
pub mod ragged;
pub mod random;
pub mod ranges;
pub mod recovery;
pub mod statistics;
pub mod unsupported;

/// A zone whose frames all begin allocated; `None` for an engine that cannot start so, which only
/// one without partial frees may say: nobody has allocated those blocks.
pub(crate) fn all_allocated(engine: Engine, config: &ZoneConfig) -> Option<Checked> {
    if engine.unsupported.partial_free
        && engine.zone(config, Init::Allocated).err() == Some(InitError::Unsupported)
    {
        return None;
    }
    Some(Checked::new(engine, config, Init::Allocated))
}
