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
use woodlot_frame::{FrameId, Geometry, ZoneConfig};
use woodlot_zone::{Memory, Owners};

use super::actor::{G, RECORD_ROOM};
use super::kept::{Keeping, Site};
use super::log::Log;
use crate::zone::file::{Access, Mapped};

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
pub enum Keeper {
    Stays,
    Temporary(#[expect(dead_code, reason = "it removes the file when it is dropped")] TempPath),
    Memory(#[expect(dead_code, reason = "it is reached through this process")] File),
}

/// Where the processes find the zone, and what it is.
pub struct Arena<K> {
    path: PathBuf,
    pub config: ZoneConfig,
    /// The bytes of the zone.
    zone: usize,
    /// Those of the zone and the table of its owners: there the log begins.
    log: usize,
    owners: bool,
    keeping: PhantomData<K>,
}

/// A zone that begins and ends in the middle of a huge frame, with a whole tree within: small, so that all of it is used
/// and looked at often.
fn config(slots: usize) -> ZoneConfig {
    let zone = ZoneConfig::new(3 * G::TREE_FRAMES - 333, slots).starting_at(FrameId(77));
    zone.with_record_room(RECORD_ROOM)
}

/// The members that the table of the owners has room for: those who died since the last recovery as well.
const MEMBERS: usize = 1024;

fn behind(memory: Memory<'_>, zone: usize) -> Result<Memory<'_>, Failure> {
    memory.behind(zone).map_err(|cause| Failure::Failed(cause.to_string()))
}

impl<K: Keeping> Arena<K> {
    /// What lies in a file that somebody has made.
    ///
    /// # Errors
    /// When there can be no such zone, which is a defect.
    pub fn at(path: PathBuf, slots: usize, owners: bool) -> Result<Arena<K>, Failure> {
        let config = config(slots);
        let zone = K::bytes(&config)?;
        let table = if owners { Owners::len(&config, MEMBERS) } else { Ok(0) };
        let log = zone + table.map_err(|cause| Failure::Failed(cause.to_string()))?;
        Ok(Arena { path, config, zone, log, owners, keeping: PhantomData })
    }

    /// Makes the file and the zone in it. The file is there as long as the keeper.
    ///
    /// # Errors
    /// What is in the way. Nothing is left behind then.
    pub fn make(place: &Place, slots: usize, owners: bool) -> Result<(Arena<K>, Keeper), Failure> {
        let mut arena = Arena::<K>::at(PathBuf::new(), slots, owners)?;
        let len = arena.log + Log::bytes(arena.config.frames);
        let fill =
            |path: &Path, file| Mapped::fill(file, len).map_err(|cause| Failure::at(path, cause));
        let mut making = None;
        let keeper;
        let mapped;
        (arena.path, keeper, mapped) = match place {
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
        mapped.whole(&arena.path, arena.format(&mapped))?;
        making.into_iter().for_each(Making::keep);
        Ok((arena, keeper))
    }

    fn format(&self, mapped: &Mapped) -> Result<(), Failure> {
        // SAFETY: the file is new and locked.
        unsafe { K::format(self.site(mapped)) }?;
        if self.owners {
            // SAFETY: as above, and the table is used as that of this zone.
            let table = behind(mapped.memory(&self.path)?, self.zone)
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

    /// Where the zone lies.
    pub fn site<'a>(&'a self, mapped: &'a Mapped) -> Site<'a> {
        Site { mapped, path: &self.path, config: &self.config }
    }

    /// The log.
    ///
    /// # Errors
    /// When the mapping is too short.
    pub fn log<'a>(&self, mapped: &'a Mapped) -> Result<Log<'a>, Failure> {
        Log::of(mapped, self.log, self.config.start.0..self.config.end().0)
    }

    /// The table of the owners, if there is one.
    ///
    /// # Errors
    /// When there is to be one and is not.
    pub fn owners<'a>(&self, mapped: &'a Mapped) -> Result<Option<Owners<'a>>, Failure> {
        if !self.owners {
            return Ok(None);
        }
        let memory = behind(mapped.memory(&self.path)?, self.zone)?;
        // SAFETY: whoever has the file uses this part as the table of this zone's owners.
        let table = unsafe { Owners::open::<G>(memory, &self.config) };
        table.map(Some).map_err(|cause| Failure::at(&self.path, cause))
    }

    /// Joins those who use the zone.
    ///
    /// # Errors
    /// When nobody has it in use.
    pub fn attach<'a>(&'a self, mapped: &'a Mapped) -> Result<K::Zone<'a>, Failure> {
        // SAFETY: this program alone opens the zone, and only while nobody is attached.
        unsafe { K::attach(self.site(mapped)) }
    }
}
