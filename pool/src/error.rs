//! Why a pool was not made, and why a call of a pool failed. A call that fails changes nothing but what its
//! error says.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use woodlot_compact::PlanError;
use woodlot_frame::{AllocError, FreeError, InitError, Order};
use woodlot_zone::{OwnersError, ZoneError};

use crate::options::{Engine, HugePage, Quantity};

/// Why no pool was made, or seen.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The quantity is zero.
    Zero(Quantity),
    /// The quantity is not a multiple of the unit of the backing: 2 MiB, or 1 GiB with pages of 1 GiB.
    NotMultiple {
        /// Which.
        quantity: Quantity,
        /// Its bytes.
        bytes: usize,
        /// The bytes of the unit.
        unit: usize,
    },
    /// The cap is above the size.
    CapAboveSize {
        /// The bytes of the cap.
        cap: usize,
        /// The bytes of the pool.
        size: usize,
    },
    /// The cap is above the memory and swap of the machine.
    CapAboveMemory {
        /// The bytes of the cap.
        cap: usize,
        /// The bytes of memory and swap.
        memory: u64,
    },
    /// A shared pool was to have another engine than [`Engine::LLFree`], of which alone there are zones that processes
    /// share.
    SharedEngine(Engine),
    /// The engine refused the zone: too large, or too many slots.
    Zone(InitError),
    /// The system did not map the memory.
    Map {
        /// How many bytes.
        bytes: usize,
        /// What it said.
        cause: io::Error,
    },
    /// The system has too few huge pages reserved.
    HugePages {
        /// Of which size.
        page: HugePage,
        /// How many the pool needs.
        needed: usize,
        /// How many are free, and promised to nobody; `None` if this system has no such pages.
        free: Option<usize>,
    },
    /// A call on the pool's file or memory file failed.
    File {
        /// The file; `memfd` for a memory file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// The file of a shared pool is not one that this pool can join.
    Shared {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: SharedError,
    },
    /// Another pool has the file, one that is not shared; or this one is not to be shared, and the other one is.
    FileInUse(PathBuf),
    /// The file is not one that the system maps with `MAP_SYNC`: it is not on persistent memory.
    NotDax(PathBuf),
    /// The file is neither empty nor as long as the pool.
    FileLength {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// The bytes of the pool.
        size: usize,
    },
    /// The system has no such NUMA node, or the node has no memory.
    NoNode {
        /// The node asked for.
        node: usize,
        /// The nodes that have memory, as the system lists them.
        nodes: String,
    },
    /// The memory was not bound to the node.
    Bind {
        /// The node.
        node: usize,
        /// What the system said.
        cause: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero(quantity) => write!(f, "the {quantity} of the pool is zero"),
            Self::NotMultiple { quantity, bytes, unit } => {
                let above = bytes.checked_next_multiple_of(*unit).unwrap_or(bytes - bytes % unit);
                write!(
                    f,
                    "the {quantity} of the pool is {bytes} bytes, not a multiple of {unit}; "
                )?;
                write!(f, "{above} is one")
            }
            Self::CapAboveSize { cap, size } => {
                write!(f, "the cap of the pool is {cap} bytes, above its size of {size}")
            }
            Self::CapAboveMemory { cap, memory } => write!(
                f,
                "the cap of the pool is {cap} bytes, above the {memory} of memory and swap in this machine",
            ),
            Self::SharedEngine(engine) => {
                write!(f, "a shared pool has the engine {}, and not {engine}", Engine::LLFree)
            }
            Self::Zone(cause) => write!(f, "the zone of the pool was refused: {cause}"),
            Self::Map { bytes, cause } => write!(f, "{bytes} bytes could not be mapped: {cause}"),
            Self::HugePages { page, needed, free: Some(free) } => write!(
                f,
                "the pool needs {needed} huge pages of {page}, and {free} are free; {} reserves them",
                page.setting(),
            ),
            Self::HugePages { page, needed, free: None } => write!(
                f,
                "the pool needs {needed} huge pages of {page}, and this system has none of that size: \
                 {} is not there",
                page.setting(),
            ),
            Self::File { path, doing, cause } => {
                write!(f, "{}: could not {doing}: {cause}", path.display())
            }
            Self::Shared { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::FileInUse(path) => write!(f, "{}: another pool has this file", path.display()),
            Self::NotDax(path) => write!(
                f,
                "{}: not on persistent memory: the file system does not map it with MAP_SYNC",
                path.display(),
            ),
            Self::FileLength { path, bytes, size } => write!(
                f,
                "{}: the file has {bytes} bytes; it must be empty, or have the {size} of the pool",
                path.display(),
            ),
            Self::NoNode { node, nodes } => {
                write!(f, "no NUMA node {node} with memory; this system has {nodes}")
            }
            Self::Bind { node, cause } => {
                write!(f, "the memory could not be bound to NUMA node {node}: {cause}")
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Map { cause, .. } | Self::File { cause, .. } | Self::Bind { cause, .. } => {
                Some(cause)
            }
            Self::Zone(cause) => Some(cause),
            Self::Shared { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Why a process did not join a shared pool. The file is what it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SharedError {
    /// The zone at its begin is none, or is damaged.
    Zone(ZoneError),
    /// The owner table behind the zone is none, or is damaged.
    Owners(OwnersError),
    /// No pool page is where it should be.
    NotAPool {
        /// The word that is there; zero if the file ends before.
        magic: u64,
    },
    /// The pool page is damaged.
    Damaged,
    /// The pool in the file is another one.
    Differs {
        /// In what.
        what: &'static str,
        /// What this process asks for.
        expected: u64,
        /// What the file says.
        found: u64,
    },
    /// The file has another length than the pool in it: it was truncated, or grew.
    Length {
        /// The bytes of the file.
        bytes: u64,
        /// Those of a file with this pool.
        pool: usize,
    },
    /// There are as many processes as a pool has room for.
    Full {
        /// How many.
        members: usize,
    },
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone(cause) => write!(f, "not a shared pool: {cause}"),
            Self::Owners(cause) => write!(f, "not a shared pool: {cause}"),
            Self::NotAPool { magic } => {
                write!(f, "not a shared pool: its page begins with {magic:#018x}")
            }
            Self::Damaged => f.write_str("the page of the shared pool is damaged"),
            Self::Differs { what, expected, found } => {
                write!(f, "{what}: {expected} is asked for, and the shared pool has {found}")
            }
            Self::Length { bytes, pool } => {
                write!(f, "the file has {bytes} bytes, and one with this shared pool has {pool}")
            }
            Self::Full { members } => {
                write!(f, "the shared pool has room for {members} processes, and so many have it")
            }
        }
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Zone(cause) => Some(cause),
            Self::Owners(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<OwnersError> for SharedError {
    fn from(error: OwnersError) -> Self {
        SharedError::Owners(error)
    }
}

impl From<ZoneError> for SharedError {
    fn from(error: ZoneError) -> Self {
        SharedError::Zone(error)
    }
}

/// Why a call of a pool failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// No such block or run is free, and the cap leaves no room for more memory.
    OutOfMemory {
        /// How many neighbouring bytes were asked for.
        bytes: usize,
        /// How many bytes are free, in whatever pieces.
        free: usize,
        /// How many bytes are resident.
        resident: usize,
        /// How many bytes may be resident.
        cap: usize,
    },
    /// The order is above 10.
    OrderTooLarge(Order),
    /// A run of no bytes.
    NoBytes,
    /// The engine refused the place: see [`Pool::alloc_at`](crate::Pool::alloc_at).
    Place(AllocError),
    /// The block is not one that the pool has handed out: see [`Pool::adopt`](crate::Pool::adopt).
    NotAllocated(FreeError),
    /// The system did not provide memory that is to be resident: a full disk, or too little memory to populate.
    NotProvided {
        /// How many bytes.
        bytes: usize,
        /// What the system said.
        cause: io::Error,
    },
    /// The system did not take memory back. The memory of this error stays the pool's, and resident.
    NotTaken {
        /// How many bytes the system did take, before this.
        given: usize,
        /// What it said.
        cause: io::Error,
    },
    /// The claim has handed out all its blocks.
    ClaimUsedUp {
        /// How many blocks the claim had.
        blocks: usize,
    },
    /// The block that is to be put into the claim is not of its pool or order, or the claim is full.
    NotOfClaim,
    /// The target of a compaction is none, or none that can be won.
    NotCompacted(PlanError),
    /// A pool that processes share is not compacted: a process that died would leave the huge frame that it empties hidden.
    Shared,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { bytes, free, resident, cap } => write!(
                f,
                "no {bytes} neighbouring bytes are free; {free} bytes are free in all, \
                 {resident} are resident, and {cap} may be",
            ),
            Self::OrderTooLarge(order) => write!(f, "{order} is above the largest, 10"),
            Self::NoBytes => f.write_str("a run of no bytes"),
            Self::Place(cause) => write!(f, "not at this frame: {cause}"),
            Self::NotAllocated(cause) => write!(f, "not a block of this pool: {cause}"),
            Self::NotProvided { bytes, cause } => {
                write!(f, "the system did not provide {bytes} bytes: {cause}")
            }
            Self::NotTaken { given, cause } => {
                write!(f, "the system took {given} bytes back, and then no more: {cause}")
            }
            Self::ClaimUsedUp { blocks } => {
                write!(f, "all {blocks} blocks of the claim are handed out")
            }
            Self::NotOfClaim => {
                f.write_str("the block is of another pool or order, or the claim is full")
            }
            Self::NotCompacted(cause) => write!(f, "nothing to compact: {cause}"),
            Self::Shared => f.write_str("a pool that processes share is not compacted"),
        }
    }
}

impl Error for PoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotProvided { cause, .. } | Self::NotTaken { cause, .. } => Some(cause),
            Self::Place(cause) => Some(cause),
            Self::NotAllocated(cause) => Some(cause),
            Self::NotCompacted(cause) => Some(cause),
            _ => None,
        }
    }
}
