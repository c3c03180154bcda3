//! The file that the processes share: a zone, behind it the table of its owners if there is one, and the log of its frames.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{MemfdFlags, memfd_create};
use tempfile::{NamedTempFile, TempPath};
use woodlot_bench::Failure;
use woodlot_bench::output::Making;
use woodlot_frame::{FrameId, Geometry, Init, Persistence, ZoneConfig};
use woodlot_zone::{Intents, Layout, Medium, Memory, Owners, Shared, Zone};

use super::actor::G;
use super::log::Log;
use crate::zone::file::{Access, Mapped};

/// How the zone is kept: without intents or with them.
pub trait Keeping: Medium + Copy + Default + Send + Sync {
    /// Does a record of each slot name its last operation?
    const INTENTS: bool = <Self::WriteBack as Persistence>::INTENTS;
}

impl Keeping for Shared {}
impl Keeping for Intents<Shared> {}

/// What the zone lies in.
pub enum Place {
    /// A file that stays.
    File(PathBuf),
    /// A file that goes.
    Temporary,
    /// Memory without a name.
    Memory,
}

/// Keeps the file there.
enum Keeper {
    Stays,
    Temporary(#[expect(dead_code, reason = "it removes the file when it is dropped")] TempPath),
    Memory(#[expect(dead_code, reason = "it is reached through this process")] File),
}

/// Where the processes find the zone, and what it is.
pub struct Arena<M> {
    path: PathBuf,
    pub config: ZoneConfig,
    zone: usize,
    owners: bool,
    _keeper: Keeper,
    medium: PhantomData<M>,
}

/// A zone that begins and ends in the middle of a huge frame, with a whole tree within: small, so that all of it is used
/// and looked at often.
fn config(slots: usize) -> ZoneConfig {
    let zone = ZoneConfig::new(3 * G::TREE_FRAMES - 333, slots).starting_at(FrameId(77));
    zone.with_record_room(RECORD_ROOM)
}

/// With intents: the writes of the longest batch, of more than a page of a record.
pub const RECORD_ROOM: usize = 511;

/// The members that the table of the owners has room for: those who died since the last recovery as well.
const MEMBERS: usize = 1024;

/// Where the log begins, behind a zone of `zone` bytes.
///
/// # Errors
/// When there can be no such table of owners, which is a defect.
pub fn log_at(config: &ZoneConfig, zone: usize, owners: bool) -> Result<usize, Failure> {
    let table = if owners { Owners::len(config, MEMBERS) } else { Ok(0) };
    table.map(|table| zone + table).map_err(|cause| Failure::Failed(cause.to_string()))
}

/// The table of the owners, behind a zone of `zone` bytes.
///
/// # Errors
/// When it is not there.
pub fn open_owners<'a>(
    memory: Memory<'a>,
    config: &ZoneConfig,
    zone: usize,
) -> Result<Owners<'a>, Failure> {
    // SAFETY: whoever has the file uses this part as the table of this zone's owners.
    let table = unsafe { Owners::open::<G>(behind(memory, zone)?, config) };
    table.map_err(|cause| Failure::Failed(cause.to_string()))
}

fn behind(memory: Memory<'_>, zone: usize) -> Result<Memory<'_>, Failure> {
    memory.behind(zone).map_err(|cause| Failure::Failed(cause.to_string()))
}

impl<M: Keeping> Arena<M> {
    /// Makes the file and the zone in it.
    ///
    /// # Errors
    /// What is in the way. Nothing is left behind then.
    pub fn make(place: &Place, slots: usize, owners: bool) -> Result<Arena<M>, Failure> {
        let config = config(slots);
        let failed = |cause: &dyn std::fmt::Display| Failure::Failed(cause.to_string());
        let layout = if M::INTENTS { Layout::with_intents::<G> } else { Layout::of::<G> };
        let zone = layout(&config).map_err(|cause| failed(&cause))?.len;
        let len = log_at(&config, zone, owners)? + Log::bytes(config.frames);
        let fill =
            |path: &Path, file| Mapped::fill(file, len).map_err(|cause| Failure::at(path, cause));
        let mut making = None;
        let (path, keeper, mapped) = match place {
            Place::File(path) => {
                let (mapped, begun) = Mapped::create(path, len)?;
                making = Some(begun);
                (path.clone(), Keeper::Stays, mapped)
            }
            Place::Temporary => {
                let made = NamedTempFile::new();
                let made =
                    made.map_err(|cause| Failure::Failed(format!("a temporary file: {cause}")))?;
                let (file, path) = made.into_parts();
                let mapped = fill(&path, file)?;
                (path.to_path_buf(), Keeper::Temporary(path), mapped)
            }
            Place::Memory => {
                let made = memfd_create("woodlot-crash", MemfdFlags::CLOEXEC);
                let at = |cause: io::Error| Failure::at(Path::new("memfd"), cause);
                let kept = File::from(made.map_err(|cause| at(cause.into()))?);
                let path: PathBuf =
                    format!("/proc/{}/fd/{}", process::id(), kept.as_raw_fd()).into();
                // Opened anew, as everybody else does: a lock belongs to an opening.
                let file = File::options().read(true).write(true).open(&path).map_err(at)?;
                let mapped = fill(&path, file)?;
                (path, Keeper::Memory(kept), mapped)
            }
        };
        let arena = Arena { path, config, zone, owners, _keeper: keeper, medium: PhantomData };
        mapped.whole(&arena.path, arena.format(&mapped))?;
        making.into_iter().for_each(Making::keep);
        Ok(arena)
    }

    fn format(&self, mapped: &Mapped) -> Result<(), Failure> {
        let memory = mapped.memory(&self.path)?;
        // SAFETY: the file is new and locked.
        let zone = unsafe { Zone::<G, _>::format(memory, &self.config, Init::Free, M::default()) };
        zone.map(drop).map_err(|cause| Failure::at(&self.path, cause))?;
        if self.owners {
            // SAFETY: as above, and the table is used as that of this zone.
            let table = behind(memory, self.zone)
                .map(|memory| unsafe { Owners::format::<G>(memory, &self.config, MEMBERS) });
            table?.map(drop).map_err(|cause| Failure::at(&self.path, cause))?;
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the file anew, at a place of its own.
    ///
    /// # Errors
    /// What is in the way: another program that has it open.
    pub fn map(&self, access: Access) -> Result<Mapped, Failure> {
        Mapped::open(&self.path, access)
    }

    /// The memory of the zone, and the log.
    ///
    /// # Errors
    /// When the mapping is too short.
    pub fn parts<'a>(&self, mapped: &'a Mapped) -> Result<(Memory<'a>, Log<'a>), Failure> {
        let frames = self.config.start.0..self.config.end().0;
        let log = log_at(&self.config, self.zone, self.owners)?;
        Ok((mapped.memory(&self.path)?, Log::of(mapped, log, frames)?))
    }

    /// The table of the owners, if there is one.
    ///
    /// # Errors
    /// When there is to be one and is not.
    pub fn owners<'a>(&self, memory: Memory<'a>) -> Result<Option<Owners<'a>>, Failure> {
        self.owners.then(|| open_owners(memory, &self.config, self.zone)).transpose()
    }

    /// Joins those who use the zone.
    ///
    /// # Errors
    /// When nobody has it in use.
    pub fn attach<'a>(&self, memory: Memory<'a>) -> Result<Zone<'a, G, M>, Failure> {
        // SAFETY: this program alone opens the zone, and only while nobody is attached.
        let zone = unsafe { Zone::attach(memory, Some(&self.config), M::default()) };
        zone.map_err(|cause| Failure::at(&self.path, cause))
    }
}
