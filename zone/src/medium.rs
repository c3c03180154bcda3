//! How what was written becomes durable.

use core::fmt;
use core::ops::Range;

use woodlot_frame::Volatile;
use woodlot_frame::atomics::{AtomicU64, Ordering, fence};

/// A persistence model, as the zone page names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Persistence {
    /// Nothing outlives a loss of power. The memory can outlive processes: anonymous shared memory, memfd.
    None = 0,
    /// What was written is durable at once, in the order of the writes: caches that are flushed when power fails.
    Eadr = 1,
    /// What was written is durable once its cache line was written back and a fence followed.
    Adr = 2,
    /// What was written is durable once it was synchronised: a mapping of a file.
    File = 3,
}

impl Persistence {
    /// The model that a number of the zone page names.
    pub(crate) fn of(number: u64) -> Option<Persistence> {
        let all = [Self::None, Self::Eadr, Self::Adr, Self::File];
        all.into_iter().find(|&model| model as u64 == number)
    }
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Eadr => "eADR",
            Self::Adr => "ADR",
            Self::File => "file",
        })
    }
}

/// The memory did not become durable. The number is the system's (`errno`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotDurable(pub i32);

impl fmt::Display for NotDurable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the memory could not be synchronised (error {})", self.0)
    }
}

impl core::error::Error for NotDurable {}

/// What makes parts of a zone's memory durable.
///
/// A zone calls [`persist`](Self::persist) for the zone page, and for all of a part when the zone is formatted, recovered,
/// closed or [synchronised](crate::Zone::sync); never in an allocation or free. Those write back by
/// [`WriteBack`](Self::WriteBack).
pub trait Medium {
    /// The model that a zone on this medium has.
    const MODEL: Persistence;

    /// How allocations and frees make durable what they write.
    type WriteBack: woodlot_frame::Persistence;

    /// The same.
    fn write_back(&self) -> Self::WriteBack;

    /// Makes durable what was written before to these bytes, counted from the zone page, which are these words. Both
    /// ends are multiples of 4096.
    ///
    /// # Errors
    /// [`NotDurable`]: nothing is known then of what was written to these bytes since they were last made durable.
    fn persist(&self, bytes: Range<usize>, words: &[AtomicU64]) -> Result<(), NotDurable>;
}

/// Memory that outlives processes at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared;

impl Medium for Shared {
    const MODEL: Persistence = Persistence::None;

    type WriteBack = Volatile;

    fn write_back(&self) -> Volatile {
        Volatile
    }

    fn persist(&self, _: Range<usize>, _: &[AtomicU64]) -> Result<(), NotDurable> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

/// Persistent memory whose caches are flushed when power fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eadr;

impl Medium for Eadr {
    const MODEL: Persistence = Persistence::Eadr;

    type WriteBack = Volatile;

    fn write_back(&self) -> Volatile {
        Volatile
    }

    fn persist(&self, _: Range<usize>, _: &[AtomicU64]) -> Result<(), NotDurable> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

/// Persistent memory whose caches are lost when power fails, with what writes a line back:
/// [`woodlot_frame::Adr`], which a machine [detects](woodlot_frame::Persistence::detect).
#[derive(Clone, Copy, Debug, Default)]
pub struct Adr<W>(pub W);

impl<W: woodlot_frame::Persistence> Medium for Adr<W> {
    const MODEL: Persistence = Persistence::Adr;

    type WriteBack = W;

    fn write_back(&self) -> W {
        self.0
    }

    fn persist(&self, _: Range<usize>, words: &[AtomicU64]) -> Result<(), NotDurable> {
        fence(Ordering::SeqCst);
        self.0.write_back_all(words);
        self.0.fence();
        Ok(())
    }
}

/// `M`, and the zone keeps [intents](woodlot_frame::Intents): each slot has a record behind the states, which names what
/// the slot is about to write: of 4 KiB, if the configuration gives it no other
/// [room](woodlot_frame::ZoneConfig::record_room). A slot has one call at a time then, and a batch that the record has no
/// room for is refused.
///
/// A zone either keeps them or not, from its format on; who opens it otherwise is refused. On a [`File`] the records are
/// as durable as all else: after the death of a process at once, after a loss of power up to the last synchronisation.
/// They have one page each there, as each page of a file is written back at a time of its own:
/// [`ZoneError::RecordOnFile`](crate::ZoneError::RecordOnFile).
#[derive(Clone, Copy, Debug, Default)]
pub struct Intents<M>(pub M);

impl<M: Medium> Medium for Intents<M> {
    const MODEL: Persistence = M::MODEL;

    type WriteBack = woodlot_frame::Intents<M::WriteBack>;

    fn write_back(&self) -> Self::WriteBack {
        woodlot_frame::Intents(self.0.write_back())
    }

    fn persist(&self, bytes: Range<usize>, words: &[AtomicU64]) -> Result<(), NotDurable> {
        self.0.persist(bytes, words)
    }
}

/// A mapping of a file, with what synchronises a range of its bytes: `msync` with `MS_SYNC`, or `fdatasync`.
///
/// A process that dies loses nothing: its pages stay with the system. When power fails, or the system stops, each
/// page of the file is as it was at the last synchronisation or at any time after it.
/// So what was allocated before [`Zone::sync`](crate::Zone::sync) returned, and not freed since, is allocated after
/// the recovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct File<S>(pub S);

impl<S: Fn(Range<usize>) -> Result<(), NotDurable>> Medium for File<S> {
    const MODEL: Persistence = Persistence::File;

    type WriteBack = Volatile;

    fn write_back(&self) -> Volatile {
        Volatile
    }

    fn persist(&self, bytes: Range<usize>, _: &[AtomicU64]) -> Result<(), NotDurable> {
        // Where nothing is to be synchronised, the writes that follow still come after those before.
        fence(Ordering::SeqCst);
        (self.0)(bytes)
    }
}
