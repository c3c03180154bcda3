//! A zone that is in use: format, attach, synchronise, close.

use core::ops::Deref;

use woodlot_frame::{FrameAllocator, Geometry, Init, InitError, Slot, ZoneConfig};
use woodlot_llfree::{Hidden, LLFree, Repairs, Tuning, VOLATILE_VERSION};

use crate::layout::{Layout, Memory, PAGE};
use crate::medium::{Medium, NotDurable};
use crate::open::{Check, Opened, Opening};
use crate::page::{self, Constants, Info, Kind};
use crate::phase::Phase;
use crate::state::{Seal, State};
use crate::{MAGIC, ZoneError, checksum};

/// A zone in use. It is the allocator that lies in its memory: call
/// [`FrameAllocator`] on it.
///
/// A zone that is dropped is not closed, and is recovered when it is opened again. That is also what happens to
/// it when its process dies.
pub struct Zone<'a, G: Geometry, M: Medium> {
    allocator: LLFree<'a, G, M::WriteBack>,
    memory: Memory<'a>,
    layout: Layout,
    medium: M,
    state: State,
}

/// What became of a zone that was to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a zone that is not closed is recovered when it is opened again"]
pub enum Closed {
    /// It is closed: the next one who opens it need not recover it.
    Clean,
    /// It is not closed: a process has died in the middle of a call, and this is what that call has hidden. The next one
    /// who opens the zone recovers it, and finds it.
    ToRecover(Hidden),
}

impl<'a, G: Geometry, M: Medium> Zone<'a, G, M> {
    /// Makes a new zone. Its frames are free ([`Init::Free`]) or allocated ([`Init::Allocated`]).
    ///
    /// # Errors
    /// [`ZoneError::Exists`] where a zone is already, and [`ZoneError::Checksum`] or [`ZoneError::Mismatch`] where one is
    /// whose page is damaged; who does not want it any more [erases](crate::erase) its page first. Otherwise
    /// [`ZoneError::Short`], [`ZoneError::Config`], [`ZoneError::RecordOnFile`], or [`ZoneError::NotDurable`].
    ///
    /// # Crash
    /// The zone is there or not: the magic number is written last, when all else is durable. A format that did not
    /// come to its end leaves what was there before, or what [`Info::read`] calls [`ZoneError::Unfinished`].
    ///
    /// # Safety
    /// Nobody else may use the memory meanwhile; then by [`attach`](Self::attach) only, until this zone is closed or
    /// dropped.
    pub unsafe fn format(
        memory: Memory<'a>,
        config: &ZoneConfig,
        init: Init,
        medium: M,
    ) -> Result<Self, ZoneError> {
        if init == Init::Recover {
            return Err(InitError::Unsupported.into());
        }
        Kind::of::<M>().check(config)?;
        let layout = Layout::on::<G, M::WriteBack>(config)?;
        memory.check(layout.len)?;
        let page = memory.page();
        page::vacant(page, MAGIC)?;
        page::mark(page);
        memory.persist(&medium, 0..PAGE)?;
        let write_back = medium.write_back();
        // SAFETY: `check` found that the memory holds both parts, and the caller vouches that nobody else has it.
        let allocator = unsafe {
            let metadata = memory.metadata(&layout);
            LLFree::with_persistence(config, Tuning::DEFAULT, write_back, metadata, init)
        }?;
        let state = State { phase: Phase::InUse, generation: 1 };
        let zone = Self::over(allocator, memory, medium, state)?;
        zone.sync()?;
        page::fill(page, &Constants::of::<G>(config, Kind::of::<M>(), &layout), state);
        memory.persist(&zone.medium, 0..PAGE)?;
        page::finish(page, MAGIC);
        memory.persist(&zone.medium, 0..PAGE)?;
        Ok(zone)
    }

    /// Opens a zone that nobody uses. A zone that was closed goes on as it was; any other one is recovered.
    /// [`Opening`] does the same by several threads.
    ///
    /// # Errors
    /// What does not match: see [`ZoneError`]. With [`Check::Full`] also [`ZoneError::Damaged`].
    ///
    /// # Progress
    /// Linear in the volatile part if the zone was closed, otherwise in the durable part.
    ///
    /// # Crash
    /// A zone whose opening does not come to its end is recovered by the next one, with the same result.
    ///
    /// # Safety
    /// Nobody else may use the memory meanwhile; then by [`attach`](Self::attach) only, until this zone is closed or
    /// dropped. A closed zone whose durable part was changed since by something else may hand out a frame twice, or
    /// end no search, if that is not [checked](Check::Full).
    pub unsafe fn open(
        memory: Memory<'a>,
        expected: Option<&ZoneConfig>,
        check: Check,
        medium: M,
    ) -> Result<(Self, Opened), ZoneError> {
        // SAFETY: as the caller promises.
        unsafe { Opening::begin(memory, expected, check, medium) }?.finish()
    }

    /// Joins those who have the zone in use. Nothing is written. It does not matter whether who opened the zone still
    /// lives: all that the allocator knows lies in the memory. Any number of processes may do so, or a hypervisor beside
    /// its guest; each may use any slot.
    ///
    /// # Errors
    /// [`ZoneError::NotInUse`], and what does not match: see [`ZoneError`].
    ///
    /// # Safety
    /// Since the zone was opened last, its memory was always there (no loss of power, no other mapping of
    /// private pages), and nobody but such zones has written to it. Nobody may close, open or format the zone until all
    /// who have attached to it are dropped, or dead.
    ///
    /// # Crash
    /// A process that dies delays nobody. The frames that it owned stay allocated, until [owners](crate::Owners) are
    /// asked for them; what its slots had reserved, others take. A call of it that was under way has happened or not, but
    /// for orders 7 to H-1, batches and runs; with [intents](crate::Intents) also those, but for one write. It may have hidden its block, and free frames of one more huge frame: see
    /// [`close`](Self::close).
    pub unsafe fn attach(
        memory: Memory<'a>,
        expected: Option<&ZoneConfig>,
        medium: M,
    ) -> Result<Self, ZoneError> {
        let Info { config, layout, .. } =
            Info::check::<G>(memory, expected, Some(Kind::of::<M>()))?;
        let state = State::of_user(memory.page())?;
        // SAFETY: `check` found that the memory holds both parts of this configuration, and they are in use, so they
        // are set up, as the caller vouches too.
        let allocator = unsafe {
            let metadata = memory.metadata(&layout);
            LLFree::attach(&config, Tuning::DEFAULT, medium.write_back(), metadata)
        }?;
        Self::over(allocator, memory, medium, state)
    }

    pub(crate) fn over(
        allocator: LLFree<'a, G, M::WriteBack>,
        memory: Memory<'a>,
        medium: M,
        state: State,
    ) -> Result<Self, ZoneError> {
        let layout = Layout::on::<G, M::WriteBack>(allocator.zone())?;
        Ok(Self { allocator, memory, layout, medium, state })
    }

    /// Says that the zone is in use.
    pub(crate) fn enter(&self) -> Result<(), ZoneError> {
        self.state.store(self.memory.page());
        Ok(self.memory.persist(&self.medium, 0..PAGE)?)
    }

    /// Makes all durable that calls have done which returned before.
    ///
    /// # Errors
    /// [`ZoneError::NotDurable`]
    pub fn sync(&self) -> Result<(), ZoneError> {
        Ok(self.sync_durable()?)
    }

    fn sync_durable(&self) -> Result<(), NotDurable> {
        self.memory.persist(&self.medium, Layout::pages(&self.layout.durable))
    }

    /// Resolves what deaths have cut off, as a recovery does, in a zone that goes on: what their calls had allocated becomes
    /// free, and what they were still to free, but for one write of each, and the [intents](crate::Intents) say so
    /// ([`LLFree::resolve`]). What that is, is durable, and then that it was done, before this returns. Nothing is written
    /// where no call was cut off.
    ///
    /// Nobody else may use the zone meanwhile. Who attached to it is told apart from the dead by nothing here: it is the
    /// caller who vouches that all others are dead, or wait.
    ///
    /// # Errors
    /// [`ZoneError::NotDurable`]. Resolve again then, or open the zone.
    ///
    /// # Crash
    /// Resolving again, or an opening, comes to the same end.
    pub fn resolve(&self) -> Result<Repairs, ZoneError> {
        Ok(self.allocator.resolve(|| self.sync_durable())?)
    }

    /// Gives back what the slots hold, and closes the zone: the next one who opens it need not recover it. Huge frames
    /// that are [isolated](FrameAllocator::isolate) are so no more, as after a recovery: their isolators are gone.
    ///
    /// Where a process has died in the middle of a call, that call may have hidden something. A zone that was closed
    /// so would hide it for ever, since a clean opening repairs nothing. So the two parts are compared; if they differ,
    /// or if a death has cut off a call that [intents](crate::Intents) would take back, the zone is made durable and not
    /// closed, and the next one who opens it recovers it. (A block that such a call had taken, and that nobody got, is no
    /// difference: it is allocated. A [sweep](crate::Sweeper::sweep) finds it.)
    ///
    /// # Errors
    /// [`ZoneError::NotDurable`]. The zone may not be closed then, and is recovered when it is opened again.
    ///
    /// # Progress
    /// Linear in the zone's metadata. No other call may be under way, as the caller of
    /// [`open`](Self::open) or [`attach`](Self::attach) has promised.
    pub fn close(self) -> Result<Closed, ZoneError> {
        for slot in 0..self.allocator.zone().slots {
            // The zone has the slot.
            let _ = self.allocator.drain(Slot(slot));
        }
        self.allocator.end_isolation();
        let hidden = self.allocator.hidden();
        if !hidden.is_nothing() {
            self.sync()?;
            return Ok(Closed::ToRecover(hidden));
        }
        let part = |bytes| checksum::of_atomics(self.memory.part(bytes));
        let seal = Seal {
            version: VOLATILE_VERSION as u64,
            volatile: part(&self.layout.volatile),
            durable: part(&self.layout.durable),
        };
        self.sync()?;
        self.memory.persist(&self.medium, Layout::pages(&self.layout.volatile))?;
        let (page, closed) = (self.memory.page(), self.state.to(Phase::Clean));
        seal.store(page, closed);
        self.memory.persist(&self.medium, 0..PAGE)?;
        closed.store(page);
        self.memory.persist(&self.medium, 0..PAGE)?;
        Ok(Closed::Clean)
    }

    /// How often the zone was opened, formatting included; modulo 2^30.
    pub fn generation(&self) -> u32 {
        self.state.generation
    }

    /// Where the parts lie in the memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl<'a, G: Geometry, M: Medium> Deref for Zone<'a, G, M> {
    type Target = LLFree<'a, G, M::WriteBack>;

    fn deref(&self) -> &LLFree<'a, G, M::WriteBack> {
        &self.allocator
    }
}
