//! How the zone lies in the file that the processes share: as a zone of LLFree, or as the metadata of the one-write engine.

use std::collections::HashSet;
use std::mem;
use std::ops::{Deref, Range};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use woodlot_bench::Failure;
use woodlot_bench::random::Random;
use woodlot_bench::recovery::opened;
use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_frame::{
    Construct, FrameAllocator, FrameId, Geometry, Init, InitError, Order, Persistence, RawMetadata,
    Slot, ZoneConfig,
};
use woodlot_llfree::{End, LLFree};
use woodlot_onewrite::OneWrite;
use woodlot_zone::{
    Check, Closed, Hidden, Layout, Medium, Member, Memory, Opened, PAGE, Repairs, Sweeper, Zone,
    verify,
};

use super::actor::G;
use super::log::{Log, Owner};
use crate::zone::file::Mapped;

/// Whose the zone is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Kept {
    /// A zone of LLFree
    #[default]
    Llfree,
    /// The metadata of the one-write engine
    Onewrite,
}

/// Where a zone lies.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub mapped: &'a Mapped,
    pub path: &'a Path,
    pub config: &'a ZoneConfig,
}

/// A zone that was recovered.
pub struct Recovered<Z> {
    pub zone: Z,
    pub time: Duration,
    /// What is wrong with how it was.
    pub wrong: Vec<String>,
}

/// What the zone is. Who calls what is unsafe has the file locked as it says, and attaches only while the zone is in use.
pub trait Keeping {
    /// The allocator.
    type Engine<'a>: FrameAllocator<Geometry = G>;
    /// The same, as a process has it.
    type Zone<'a>: Deref<Target = Self::Engine<'a>>;

    /// Does a record of each slot name its last operation?
    const INTENTS: bool;
    /// Frames that a call which is cut off may leave allocated beside those that it concerns.
    const BESIDE: usize;

    /// The bytes that it takes, a multiple of 4096.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    fn bytes(config: &ZoneConfig) -> Result<usize, Failure>;

    /// Makes a zone.
    ///
    /// # Safety
    /// Nobody else uses the file.
    unsafe fn format(site: Site<'_>) -> Result<(), Failure>;

    /// Joins those who use the zone.
    ///
    /// # Safety
    /// Who uses the file does so by such zones.
    unsafe fn attach(site: Site<'_>) -> Result<Self::Zone<'_>, Failure>;

    /// Recovers the zone, whether that is needed or not.
    ///
    /// # Safety
    /// Nobody else uses the file.
    unsafe fn recover(site: Site<'_>) -> Result<(), Failure>;

    /// Recovers the zone by so many threads, if it can be divided among them, and looks what it says of itself.
    ///
    /// # Safety
    /// Nobody else uses the file.
    unsafe fn open<'a>(
        site: Site<'a>,
        threads: usize,
        random: &mut Random,
    ) -> Result<Recovered<Self::Zone<'a>>, Failure>;

    /// Closes the zone, if it can be. What is wrong, if something is.
    fn close(zone: Self::Zone<'_>) -> Option<String>;

    /// Frees what the dead have left, by the table of the owners, if there can be one.
    fn sweep(
        _zone: &Self::Zone<'_>,
        _sweeper: &Sweeper<'_>,
        _keep: impl Fn(Member) -> bool,
    ) -> Result<(), String> {
        Err("no such zone has owners".into())
    }

    /// The frames that the records of the slots name, if there are such.
    fn named(_zone: &Self::Engine<'_>) -> HashSet<usize> {
        HashSet::new()
    }

    /// May another process have the slot of one that is dead, while others live?
    fn is_settled(_zone: &Self::Engine<'_>, _log: &Log<'_>, _slot: usize) -> bool {
        true
    }
}

/// A zone of LLFree, with its page.
impl<M: Medium + Copy + Default + Send + Sync> Keeping for M {
    type Engine<'a> = LLFree<'a, G, M::WriteBack>;
    type Zone<'a> = Zone<'a, G, M>;

    const INTENTS: bool = <M::WriteBack as Persistence>::INTENTS;
    const BESIDE: usize = 0;

    fn bytes(config: &ZoneConfig) -> Result<usize, Failure> {
        let layout = if Self::INTENTS { Layout::with_intents::<G> } else { Layout::of::<G> };
        layout(config).map(|layout| layout.len).map_err(|cause| Failure::Failed(cause.to_string()))
    }

    unsafe fn format(site: Site<'_>) -> Result<(), Failure> {
        let (memory, medium) = (site.memory()?, M::default());
        // SAFETY: as the caller promises.
        let zone = unsafe { Zone::<G, M>::format(memory, site.config, Init::Free, medium) };
        zone.map(drop).map_err(|cause| site.failed(cause))
    }

    unsafe fn attach(site: Site<'_>) -> Result<Zone<'_, G, M>, Failure> {
        // SAFETY: as the caller promises.
        let zone = unsafe { Zone::attach(site.memory()?, Some(site.config), M::default()) };
        zone.map_err(|cause| site.failed(cause))
    }

    unsafe fn recover(site: Site<'_>) -> Result<(), Failure> {
        let (memory, expected) = (site.memory()?, Some(site.config));
        // SAFETY: as the caller promises.
        let zone = unsafe { Zone::<G, M>::open(memory, expected, Check::Recover, M::default()) };
        zone.map(drop).map_err(|cause| site.failed(cause))
    }

    unsafe fn open<'a>(
        site: Site<'a>,
        threads: usize,
        _random: &mut Random,
    ) -> Result<Recovered<Zone<'a, G, M>>, Failure> {
        let (memory, expected) = (site.memory()?, Some(site.config));
        // SAFETY: as the caller promises.
        let before = unsafe { verify::<G>(memory, expected) };
        let before = before.map_err(|cause| site.failed(cause))?.repairs;
        // SAFETY: as above.
        let opened = unsafe { opened(memory, expected, Check::Quick, M::default(), threads) };
        let (zone, how, time) = opened.map_err(|cause| site.failed(cause))?;
        let wrong = doubts(&how, before, &zone);
        Ok(Recovered { zone, time, wrong })
    }

    fn close(zone: Zone<'_, G, M>) -> Option<String> {
        match zone.close() {
            Ok(Closed::Clean) => None,
            Ok(closed) => Some(format!("the zone cannot be closed after a recovery: {closed:?}")),
            Err(cause) => Some(format!("the zone cannot be closed after a recovery: {cause}")),
        }
    }

    fn sweep(
        zone: &Zone<'_, G, M>,
        sweeper: &Sweeper<'_>,
        keep: impl Fn(Member) -> bool,
    ) -> Result<(), String> {
        sweeper.sweep(zone, keep).map(drop).map_err(|cause| cause.to_string())
    }

    fn named(zone: &Self::Engine<'_>) -> HashSet<usize> {
        let runs = zone.last_operations().flat_map(|last| zone.frames_of(last));
        runs.flat_map(|run| run.start.0..run.start.0 + run.count).collect()
    }

    /// Not before the next recovery, if a call of several writes was cut off, or if a frame that the record names may have been
    /// allocated by it and not been logged: a frame that is free now was not, nor was one that somebody owns.
    fn is_settled(zone: &Self::Engine<'_>, log: &Log<'_>, slot: usize) -> bool {
        let settled = |frame: usize| {
            zone.is_free(FrameId(frame), Order(0))
                || matches!(Owner::of(log.word(frame).load(Ordering::Acquire)), Owner::Owned(_))
        };
        zone.last_operation(Slot(slot)).is_none_or(|last| {
            let mut runs = zone.frames_of(last);
            last.end != End::UnderWay
                && runs.all(|run| (run.start.0..run.start.0 + run.count).all(settled))
        })
    }
}

/// What is wrong with how a zone was opened, and its counts.
fn doubts<M: Medium>(how: &Opened, before: Repairs, zone: &Zone<'_, G, M>) -> Vec<String> {
    let mut wrong = Vec::new();
    let Opened::Recovered { repairs, .. } = how else {
        return vec!["the zone was opened as one that was closed".into()];
    };
    // What several writes that were cut off make free together, `verify` does not count as a huge frame.
    let mut foreseen = before;
    if repairs.released > 0 && before.free_huge < repairs.free_huge {
        foreseen.free_huge = repairs.free_huge;
    }
    if *repairs != foreseen {
        wrong.push(format!("verify said {before:?}, and the recovery {repairs:?}"));
    }
    let damage = [repairs.rows_reset, repairs.outside, repairs.cut_open, repairs.states_cleared];
    if damage != [0; 4] {
        wrong.push(format!("the recovery repaired damage: {repairs:?}"));
    }
    let hidden = zone.hidden();
    if hidden != Hidden::default() {
        wrong.push(format!("the recovery has left something hidden: {hidden:?}"));
    }
    let stats = zone.stats();
    if (stats.free_frames, stats.free_huge) != (repairs.free_frames, repairs.free_huge) {
        wrong.push(format!("the zone counts {stats:?} after the recovery {repairs:?}"));
    }
    wrong
}

/// The metadata of the one-write engine and nothing else.
pub struct Bare;

impl Keeping for Bare {
    type Engine<'a> = OneWrite<'a, G>;
    type Zone<'a> = Box<OneWrite<'a, G>>;

    const INTENTS: bool = false;
    /// Rows that an allocation opens, or a search closes, are those of one huge frame. Of each, it may leave all allocated.
    const BESIDE: usize = 2 * G::HUGE_FRAMES;

    fn bytes(config: &ZoneConfig) -> Result<usize, Failure> {
        let parts = parts(config).map_err(|cause| Failure::Failed(cause.to_string()))?;
        Ok(parts[1].end.next_multiple_of(PAGE))
    }

    unsafe fn format(site: Site<'_>) -> Result<(), Failure> {
        // SAFETY: as the caller promises; it stays mapped as long as it is borrowed.
        let zone = unsafe { OneWrite::<G>::construct(site.config, site.metadata()?, Init::Free) };
        zone.map(drop).map_err(|cause| site.failed(cause))
    }

    unsafe fn attach(site: Site<'_>) -> Result<Box<OneWrite<'_, G>>, Failure> {
        // SAFETY: as above.
        let zone = unsafe { OneWrite::attach(site.config, site.metadata()?) };
        zone.map(Box::new).map_err(|cause| site.failed(cause))
    }

    unsafe fn recover(site: Site<'_>) -> Result<(), Failure> {
        // SAFETY: as above.
        let zone =
            unsafe { OneWrite::<G>::construct(site.config, site.metadata()?, Init::Recover) };
        zone.map(drop).map_err(|cause| site.failed(cause))
    }

    unsafe fn open<'a>(
        site: Site<'a>,
        _threads: usize,
        random: &mut Random,
    ) -> Result<Recovered<Box<OneWrite<'a, G>>>, Failure> {
        let metadata = site.metadata()?;
        let (volatile, len) = metadata.volatile;
        // Nothing of it may be relied on.
        let noise: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
        // SAFETY: as many bytes are mapped there, and nobody else uses them.
        unsafe { volatile.copy_from_nonoverlapping(noise.as_ptr(), len) };
        let began = Instant::now();
        // SAFETY: as above.
        let zone = unsafe { OneWrite::construct(site.config, metadata, Init::Recover) };
        let (zone, time) = (zone.map_err(|cause| site.failed(cause))?, began.elapsed());
        Ok(Recovered { zone: Box::new(zone), time, wrong: Vec::new() })
    }

    fn close(_zone: Box<OneWrite<'_, G>>) -> Option<String> {
        None
    }
}

/// Where the durable and the volatile part lie.
fn parts(config: &ZoneConfig) -> Result<[Range<usize>; 2], InitError> {
    let size = OneWrite::<G>::metadata_size(config)?;
    Ok([0..size.durable, size.durable..size.durable + size.volatile])
}

impl<'a> Site<'a> {
    fn failed(&self, cause: impl std::fmt::Display) -> Failure {
        Failure::at(self.path, cause)
    }

    pub fn memory(&self) -> Result<Memory<'a>, Failure> {
        self.mapped.memory(self.path)
    }

    /// The words of the durable part, which is 0, or of the volatile one.
    fn words(&self, part: usize) -> Result<&'a [AtomicU32], Failure> {
        let parts = parts(self.config).map_err(|cause| self.failed(cause))?;
        Ok(self.mapped.words(parts[part].clone()))
    }

    fn metadata(&self) -> Result<RawMetadata, Failure> {
        let raw = |words: &[AtomicU32]| (words.as_ptr().cast_mut().cast(), mem::size_of_val(words));
        Ok(RawMetadata { durable: raw(self.words(0)?), volatile: raw(self.words(1)?) })
    }
}
