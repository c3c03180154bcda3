//! What a pool is to be.

use std::error::Error;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::source::Source;

/// The size of a reserved huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePage {
    /// 2 MiB.
    Mib2,
    /// 1 GiB.
    Gib1,
}

impl HugePage {
    /// Its bytes.
    pub const fn bytes(self) -> usize {
        match self {
            HugePage::Mib2 => 2 << 20,
            HugePage::Gib1 => 1 << 30,
        }
    }

    /// The folder of the system's counts of such pages.
    pub(crate) fn counts(self) -> PathBuf {
        format!("/sys/kernel/mm/hugepages/hugepages-{}kB", self.bytes() >> 10).into()
    }

    /// The file that reserves such pages.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            HugePage::Mib2 => "/proc/sys/vm/nr_hugepages",
            HugePage::Gib1 => "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
        }
    }
}

impl fmt::Display for HugePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HugePage::Mib2 => "2 MiB",
            HugePage::Gib1 => "1 GiB",
        })
    }
}

/// What the memory of a pool is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Backing {
    Anonymous,
    Reserved(HugePage),
    MemoryFile,
    File(PathBuf),
    Dax(PathBuf),
    Shared(Source),
}

impl Backing {
    /// Is it a file that others can reach, and a disk can be too full for?
    pub(crate) fn has_path(&self) -> bool {
        matches!(self, Backing::File(_) | Backing::Dax(_) | Backing::Shared(_))
    }
}

/// A number that a pool is made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// [`Options::new`].
    Size,
    /// [`Options::cap`].
    Cap,
    /// [`Options::slots`].
    Slots,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quantity::Size => "size",
            Quantity::Cap => "cap",
            Quantity::Slots => "number of slots",
        })
    }
}

/// What keeps threads apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlotBy {
    /// The CPU that a call begins on, as the C library knows it (rseq; without rseq, the vDSO).
    Cpu,
    /// A number of the thread, given at its first call.
    #[default]
    Thread,
}

/// Who hands out the frames of a pool. Either does all that a pool does; the README says which is faster where.
///
/// ```
/// use woodlot_pool::{Engine, Options};
///
/// let engine: Engine = "onewrite".parse()?;
/// let pool = Options::new(16 << 20).engine(engine).build()?;
/// assert_eq!(pool.engine(), Engine::OneWrite);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Engine {
    /// LLFree (`woodlot-llfree`): `llfree`.
    #[default]
    LLFree,
    /// The one-write engine (`woodlot-onewrite`): `onewrite`.
    OneWrite,
}

impl Engine {
    /// All of them.
    pub const ALL: &[Engine] = &[Engine::LLFree, Engine::OneWrite];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::LLFree => "llfree",
            Engine::OneWrite => "onewrite",
        })
    }
}

/// A name that is no [`Engine`]'s.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownEngine(pub String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = Engine::ALL.iter().map(Engine::to_string).collect();
        write!(f, "there is no engine \"{}\", but {}", self.0, all.join(" and "))
    }
}

impl Error for UnknownEngine {}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Engine, UnknownEngine> {
        let named = |engine: &&Engine| engine.to_string() == name;
        Engine::ALL.iter().find(named).copied().ok_or_else(|| UnknownEngine(name.into()))
    }
}

/// What a pool is to be. [`build`](Self::build) makes it.
///
/// ```
/// use woodlot_pool::Options;
///
/// // 1 GiB of addresses, of which at most 64 MiB are memory at any time.
/// let pool = Options::new(1 << 30).huge_pages().cap(64 << 20).build()?;
/// assert_eq!((pool.size(), pool.cap(), pool.resident()), (1 << 30, 64 << 20, 0));
/// # Ok::<(), woodlot_pool::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub(crate) size: usize,
    pub(crate) cap: Option<usize>,
    pub(crate) mark: Option<usize>,
    pub(crate) backing: Backing,
    pub(crate) engine: Engine,
    pub(crate) huge: bool,
    pub(crate) node: Option<usize>,
    pub(crate) slots: Option<usize>,
    pub(crate) slot_by: SlotBy,
    pub(crate) populate: bool,
    pub(crate) magazines: bool,
}

impl Options {
    /// A pool of `size` bytes of anonymous memory in pages of 4 KiB. The size is a multiple of 2 MiB, or of
    /// 1 GiB with pages of 1 GiB. The size costs addresses and 1/4000 of metadata; memory is taken as it is
    /// needed.
    pub fn new(size: usize) -> Options {
        Options {
            size,
            cap: None,
            mark: None,
            backing: Backing::Anonymous,
            engine: Engine::default(),
            huge: false,
            node: None,
            slots: None,
            slot_by: SlotBy::default(),
            populate: false,
            magazines: true,
        }
    }

    /// Memory that the system may back with huge pages. Of anonymous memory it is told so (`madvise(MADV_HUGEPAGE)`), and
    /// does it if `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise` or `always`. Of a memory file, and of a shared
    /// pool's file in memory, it is asked for a huge page whenever 2 MiB become resident (`MADV_COLLAPSE`, Linux 6.1), whatever
    /// `shmem_enabled` says, unless that is `deny`. All processes of a shared pool ask for it alike. Where the system has none,
    /// pages are small. Reserved pages are huge anyway, and those of a file on a disk never.
    pub fn huge_pages(self) -> Options {
        Options { huge: true, ..self }
    }

    /// Huge pages that the administrator has reserved (`MAP_HUGETLB`). The whole size must be reserved.
    pub fn reserved_huge_pages(self, page: HugePage) -> Options {
        Options { backing: Backing::Reserved(page), ..self }
    }

    /// A memory file (`memfd_create`), which [`Pool::descriptor`](crate::Pool::descriptor) passes on. Nobody can
    /// make it shorter or longer.
    pub fn memory_file(self) -> Options {
        Options { backing: Backing::MemoryFile, ..self }
    }

    /// A file. It is made if it is not there, and is empty or as long as the pool; what it holds stays. Disk space
    /// for the cap is reserved by [`build`](Self::build), so that a full disk is an error there and no signal
    /// later. The file is locked (`flock`) against other pools.
    ///
    /// Which frames are in use is not in the file: who opens it again takes them with
    /// [`Pool::alloc_at`](crate::Pool::alloc_at).
    ///
    /// # Safety
    /// While the pool lives, nobody else writes to the file, or makes it shorter. A touch of what is no longer there is
    /// `SIGBUS`. The pool looks at the length whenever memory comes or goes, and returns an error if it has changed,
    /// before it hands out what is not there.
    pub unsafe fn file(self, path: impl Into<PathBuf>) -> Options {
        Options { backing: Backing::File(path.into()), ..self }
    }

    /// A file of persistent memory, mapped so that its contents are persistent as soon as they have left the CPU's caches,
    /// without a call of the system (DAX, `MAP_SYNC`). Otherwise as [`file`](Self::file). A file system that cannot
    /// do this is an error: only a file on persistent memory, under a mount with `dax`, is mapped so.
    ///
    /// # Safety
    /// As [`file`](Self::file).
    pub unsafe fn dax(self, path: impl Into<PathBuf>) -> Options {
        Options { backing: Backing::Dax(path.into()), ..self }
    }

    /// A pool that several processes have, in a file: one of `/dev/shm`, say. Whoever opens it first makes it; the others
    /// join. All of them name the same size and cap. The options of [`slots`](Self::slots),
    /// [`give_back_above`](Self::give_back_above) and [`populate`](Self::populate) are each process's own. There are no
    /// [magazines](Self::magazines), and the engine is LLFree.
    ///
    /// A process that dies loses its frames to the pool: see [`Pool::reap`](crate::Pool::reap). When the last one has
    /// gone, the memory is the system's, and the file can be used again, or removed.
    ///
    /// Disk space, or memory in `/dev/shm`, is reserved before it is handed out, so that a touch of it does not fail.
    ///
    /// # Safety
    /// While the pool lives, nobody but such pools writes to the file, and nobody makes it shorter.
    pub unsafe fn shared(self, path: impl Into<PathBuf>) -> Options {
        Options { backing: Backing::Shared(Source::Path(path.into())), ..self }
    }

    /// The same, in a file that somebody has passed on, or a memory file (`memfd_create`), whose length is sealed if
    /// it allows that. The descriptor itself may be closed as soon as the pool is built; `/proc` must be mounted.
    ///
    /// # Safety
    /// As [`shared`](Self::shared).
    pub unsafe fn shared_descriptor(self, descriptor: impl Into<OwnedFd>) -> Options {
        let source = Source::Descriptor(Arc::new(descriptor.into()));
        Options { backing: Backing::Shared(source), ..self }
    }

    /// At most so many bytes are resident. The size, unless this is called. A multiple as the size is, and not
    /// more than the machine has memory and swap, unless the pool is in a file. (Limits of a container are not looked
    /// at. Without a cap, a pool may have more addresses than the machine has memory.)
    pub fn cap(self, bytes: usize) -> Options {
        Options { cap: Some(bytes), ..self }
    }

    /// More than so many bytes that are free and resident are given back without being asked for, until half as
    /// many are left. A thread looks after every 2 MiB that it has freed. The pool keeps memory that the system does
    /// not take; [`Pool::give_back`](crate::Pool::give_back) says why.
    pub fn give_back_above(self, bytes: usize) -> Options {
        Options { mark: Some(bytes), ..self }
    }

    /// Memory of this NUMA node only (`mbind(MPOL_BIND)`).
    pub fn numa_node(self, node: usize) -> Options {
        Options { node: Some(node), ..self }
    }

    /// Who hands out the frames. [`Engine::LLFree`], unless this is called; a [shared](Self::shared) pool can have no other.
    pub fn engine(self, engine: Engine) -> Options {
        Options { engine, ..self }
    }

    /// How many slots keep threads apart. As many as the system has CPUs, unless this is called. A shared pool has four
    /// times as many as the system has CPUs, at least 16, of which each process claims so many if others have left them.
    pub fn slots(self, slots: usize) -> Options {
        Options { slots: Some(slots), ..self }
    }

    /// What chooses the slot of a call. The thread, unless this is called.
    pub fn slot_by(self, slot_by: SlotBy) -> Options {
        Options { slot_by, ..self }
    }

    /// Memory is there before it is handed out (`MADV_POPULATE_WRITE`, or `_READ` of a file in memory), so that a touch never waits for the system,
    /// and too little memory is an error of the call and no signal.
    pub fn populate(self) -> Options {
        Options { populate: true, ..self }
    }

    /// Threads keep blocks of 4 to 64 KiB that they have freed, and use them again (with `true`, as unless this is
    /// called). A thread keeps at most 256 KiB of blocks of each order, 512 KiB of those of 64 KiB, 1.5 MiB in all,
    /// and what a thread leaves at its end is the next new thread's. What is kept counts as free. It is taken back before an allocation
    /// fails, and before memory goes to the system; while less is free than all threads may keep, none keeps any.
    /// Without, each call goes to the engine, and huge frames stay free for longer.
    ///
    /// A system without `membarrier`, as before Linux 4.14, has no magazines either.
    pub fn magazines(self, magazines: bool) -> Options {
        Options { magazines, ..self }
    }
}
