//! Where the figures come from: a zone file that others use, or the file of a shared pool, looked at again and again.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use woodlot_bench::Failure;
use woodlot_frame::{Base4K, Base16K, Base64K, Geometry, Stats};
use woodlot_pool::{BuildError, Seen, SharedError, View};
use woodlot_zone::{HugeView, Info, Memory, Phase, SlotView, ZoneError, in_use, view};

use crate::zone::file::{Access, Mapped};
use crate::zone::shrunk::Watched;

/// A zone at about one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    pub info: Info,
    pub stats: Stats,
    pub huge: Vec<HugeView>,
    pub slots: Vec<SlotView>,
    /// Of a shared pool: what the zone does not know.
    pub pool: Option<Shared>,
}

/// What is known of a shared pool beside its zone.
#[derive(Clone, PartialEq, Debug)]
pub struct Shared {
    /// Bytes that may be resident.
    pub cap: usize,
    pub seen: Seen,
}

/// A zone file, mapped so that it can be read alone. It is not locked: who uses it need not know.
pub struct ZoneFile {
    path: PathBuf,
    mapped: Mapped,
    pool: OnceCell<Option<(Watched, View)>>,
}

impl ZoneFile {
    /// # Errors
    /// When the file cannot be read.
    pub fn open(path: &Path) -> Result<ZoneFile, Failure> {
        let mapped = Mapped::open(path, Access::Watch)?;
        Ok(ZoneFile { path: path.into(), mapped, pool: OnceCell::new() })
    }

    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Looks at the zone. `None`: it is just being opened, which takes no time that anybody would notice.
    ///
    /// # Errors
    /// When the file was truncated, when there is no zone, or nobody uses it.
    pub fn look(&self) -> Result<Option<Look>, Failure> {
        self.mapped.whole(&self.path, self.look_at_both())
    }

    fn look_at_both(&self) -> Result<Option<Look>, Failure> {
        let memory = self.mapped.memory(&self.path)?;
        let look = || {
            let info = Info::read(memory)?;
            match in_use(memory) {
                Err(ZoneError::NotInUse(Some(Phase::Opening))) => return Ok(None),
                used => used?,
            }
            let look = match info.base_shift as u32 {
                Base16K::BASE_SHIFT => look_as::<Base16K>(memory),
                Base64K::BASE_SHIFT => look_as::<Base64K>(memory),
                _ => look_as::<Base4K>(memory),
            };
            look.map(Some)
        };
        let look = look().map_err(|cause| Failure::at(&self.path, cause))?;
        let Some(look) = look else { return Ok(None) };
        Ok(Some(Look { pool: self.pool()?, ..look }))
    }

    /// The pool, if the zone is that of one.
    fn pool(&self) -> Result<Option<Shared>, Failure> {
        let failed = |cause: BuildError| Failure::Failed(cause.to_string());
        let view = match self.pool.get() {
            Some(view) => view,
            None => {
                let view = match View::open(&self.path) {
                    Ok(view) => {
                        let watched = Watched::new(view.addresses());
                        Some((watched.map_err(|cause| Failure::at(&self.path, cause))?, view))
                    }
                    Err(BuildError::Shared { cause: SharedError::NotAPool { .. }, .. }) => None,
                    Err(wrong) => return Err(failed(wrong)),
                };
                self.pool.get_or_init(|| view)
            }
        };
        let look = |(_, view): &(Watched, View)| Ok(Shared { cap: view.cap(), seen: view.look()? });
        view.as_ref().map(look).transpose().map_err(failed)
    }
}

impl ZoneFile {
    /// The first look: a zone that is being opened is waited for.
    ///
    /// # Errors
    /// As [`look`](Self::look), or when it is being opened for longer than a second.
    pub fn first(&self) -> Result<Look, Failure> {
        for _ in 0..20 {
            if let Some(look) = self.look()? {
                return Ok(look);
            }
            sleep(Duration::from_millis(50));
        }
        Err(Failure::at(&self.path, ZoneError::NotInUse(Some(Phase::Opening))))
    }
}

fn look_as<G: Geometry>(memory: Memory<'_>) -> Result<Look, ZoneError> {
    // SAFETY: a zone that is there is formatted by nobody, and the memory stays for as long as it is borrowed.
    let (info, view) = unsafe { view::<G>(memory) }?;
    let (huge, slots) = (view.huge_frames().collect(), view.slots().collect());
    Ok(Look { info, stats: view.stats(), huge, slots, pool: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// Reading behind the end of a file is a signal, and no error.
    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zone");
        Mapped::create(&path, 1 << 20).unwrap().1.keep();
        let file = ZoneFile::open(&path).unwrap();
        let said = |file: &ZoneFile| file.look().unwrap_err().to_string();
        assert!(said(&file).contains("there is no zone"), "it is all zero");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 12).unwrap();
        let shrunk = "a.zone: was truncated: it has 4096 bytes, and had 1048576";
        assert!(said(&file).ends_with(shrunk), "{}", said(&file));
    }
}
