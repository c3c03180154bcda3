//! The frames of a pool: an engine, the memory behind it, and the traffic of memory with the system.
//!
//! ```text
//!   engine    free, allocated ◀──▶ offline       as many units are online as the cap allows
//!   memory    the system's ──▶ resident          by the first allocation in a unit
//!             the system's ◀── resident          by giving back, under the lock
//! ```
//!
//! A *unit* is what the system takes and gives: a huge frame, or 1 GiB with pages of that size.
//!
//! 1. A unit whose bit in [`Given`] is set is offline in the engine, and the system has its memory. The bits are as
//!    many as the pool has units above its cap.
//! 2. A unit whose bit in `resident` is clear is not in use, or in use only by calls that are about to set the bit. A
//!    call sets the bit before it returns memory of the unit.
//! 3. Only the holder of the lock takes units offline, puts them online, and clears bits. It clears the bit of a unit
//!    that it has taken offline: all of the unit is free then, and nobody can allocate it.
//! 4. The holder of the lock has emptied the magazines of all threads, and they stay empty while it has the lock.
//! 5. Of a pool that processes share, the bits lie in its file, and the lock is one of threads and one of processes. The
//!    engine says what is offline. More units are so than there are above the cap only while somebody has the lock, or if
//!    that one has died: the next holder gives their memory to the system, and puts those online.
//!
//! An allocation takes the lock only if the engine has nothing. Then no unit is on its way to the system, and no block
//! is kept by a thread or on its way from or to what a thread keeps. So an allocation fails only if the engine has not the
//! memory: it is not there, or, rarely, other calls have it for the moment that they look at it.

use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use woodlot_frame::atomics::{AtomicU64, Ordering, compiler_fence};
use woodlot_frame::{
    AllocError, Base4K, Batch, Class, FrameAllocator, FrameId, Geometry, HugeId, Order,
    RangeRequest, Request, Slot, ZoneConfig,
};

use crate::engine::Zone;
use crate::error::{BuildError, PoolError};
use crate::given::Given;
use crate::locks::Held;
use crate::magazines::{self, BATCH, Instead, Magazines, Moving};
use crate::mapping::{self, FRAME, HUGE, Mapping};
use crate::movables::Movables;
use crate::options::{Backing, Engine, Options, Quantity};
use crate::resident::Resident;
use crate::runs::Runs;
use crate::seats;
use crate::shared::{self, Opened, is_offline};
use crate::slots::Slots;

/// The order of 1 GiB.
const GIANT: Order = Order(18);

/// The frames of one pool, and their memory.
pub(crate) struct Frames {
    /// Before the mapping, in which it may lie.
    engine: Zone,
    mapping: Mapping,
    slots: Slots,
    magazines: Magazines,
    /// A unit has 2^this frames.
    unit_order: u32,
    cap_units: usize,
    resident: Resident,
    /// Units whose pages have all been brought, and have not been given back since. None of a pool that processes share, of
    /// which one does not learn what another gives back, nor of one on a disk, which takes memory by itself.
    brought: Resident,
    given: Mutex<Given>,
    mark: Option<Mark>,
    /// From the first block on that moves.
    movables: OnceLock<Movables>,
}

/// When to give back without being asked.
struct Mark {
    /// Above so many free frames.
    frames: usize,
    /// For each slot: the frames freed since a thread last looked. A line of its own each.
    freed: Box<[Freed]>,
}

#[repr(align(128))]
struct Freed(AtomicU64);

/// The lock is held, and the magazines are empty. Whoever lets go of it opens them again, if there is enough memory.
struct Locked<'f> {
    frames: &'f Frames,
    /// Other processes do not move memory. Gone before the guard: threads of one process share it.
    _traffic: Held<'f>,
    given: MutexGuard<'f, Given>,
    /// Gone after the guard.
    _locking: Locking,
}

thread_local! {
    /// Does this thread have the lock of a pool, or wait for it?
    static LOCKING: Cell<bool> = const { Cell::new(false) };
}

/// From before a thread takes the lock until after it has let go of it: a signal handler must not take it then.
struct Locking;

/// Is this a signal handler that has interrupted its thread at a magazine, or with a lock, of whichever pool? Whoever has
/// the lock waits for that thread, or is that thread.
fn is_interrupted() -> bool {
    LOCKING.get() || seats::is_interrupted()
}

impl Locking {
    fn new() -> Locking {
        LOCKING.set(true);
        compiler_fence();
        Locking
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        compiler_fence();
        LOCKING.set(false);
    }
}

impl Deref for Locked<'_> {
    type Target = Given;

    fn deref(&self) -> &Given {
        &self.given
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.frames.magazines.open(self.frames.engine.free_frames());
    }
}

/// Huge frames in a row that an allocation needs, all free.
#[derive(Clone, Copy)]
struct Window {
    huge: usize,
    align: usize,
}

impl Frames {
    pub(crate) fn new(options: &Options) -> Result<Frames, BuildError> {
        let unit_bytes = match options.backing {
            Backing::Reserved(page) => page.bytes(),
            _ => HUGE * FRAME,
        };
        let check = |quantity, bytes: usize| match bytes {
            0 => Err(BuildError::Zero(quantity)),
            _ if !bytes.is_multiple_of(unit_bytes) => {
                Err(BuildError::NotMultiple { quantity, bytes, unit: unit_bytes })
            }
            _ => Ok(bytes),
        };
        let size = check(Quantity::Size, options.size)?;
        let cap = check(Quantity::Cap, options.cap.unwrap_or(size))?;
        if cap > size {
            return Err(BuildError::CapAboveSize { cap, size });
        }
        if options.cap.is_some() && !options.backing.has_path() {
            mapping::check_memory(cap)?;
        }
        let slots = match options.slots.unwrap_or_else(Slots::all_cpus) {
            0 => return Err(BuildError::Zero(Quantity::Slots)),
            slots => slots,
        };
        let (units, cap_units) = (size / unit_bytes, cap / unit_bytes);
        let (engine, mapping, resident, slots) = match &options.backing {
            Backing::Shared(_) if options.engine != Engine::LLFree => {
                return Err(BuildError::SharedEngine(options.engine));
            }
            Backing::Shared(source) => {
                let opened = shared::open(options, source, cap, slots)?;
                let Opened { common, mapping, resident, slots } = opened;
                (Zone::Common(common), mapping, resident, slots)
            }
            _ => {
                let mapping = Mapping::new(options, cap)?;
                let zone = Zone::new(options.engine, &ZoneConfig::new(size / FRAME, slots));
                let zone = zone.map_err(BuildError::Zone).inspect_err(|_| mapping.undo())?;
                let slots = (0..slots).map(Slot).collect();
                (zone, mapping, Resident::none(units), slots)
            }
        };
        // What a thread keeps would not be found by other processes.
        let magazines = Magazines::new(options.magazines && !engine.is_shared())
            .map_err(|cause| BuildError::Map { bytes: Magazines::BYTES, cause })
            .inspect_err(|_| mapping.undo())?;
        let all_slots = engine.zone().slots;
        let frames = Frames {
            engine,
            mapping,
            slots: Slots::new(slots, options.slot_by),
            magazines,
            unit_order: (unit_bytes / FRAME).trailing_zeros(),
            cap_units,
            resident,
            brought: Resident::none(units),
            given: Mutex::new(Given::new(units, cap_units..units)),
            mark: options.mark.map(|bytes| Mark {
                frames: bytes / FRAME,
                freed: (0..all_slots).map(|_| Freed(AtomicU64::new(0))).collect(),
            }),
            movables: OnceLock::new(),
        };
        if !frames.engine.is_shared() {
            let (first, count) = frames.huge(&(cap_units..units));
            let offline = count == 0 || frames.engine.offline(first, count).is_ok();
            debug_assert!(offline, "all is free at first");
        }
        Ok(frames)
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine.engine()
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The address of a frame of the pool.
    #[inline]
    pub(crate) fn address(&self, frame: FrameId) -> *mut u8 {
        // SAFETY: the callers have the frame from this pool, so it lies in the mapping.
        unsafe { self.mapping.base().add(frame.0 * FRAME) }
    }

    /// The blocks that move.
    pub(crate) fn movables(&self) -> Result<&Movables, PoolError> {
        if self.movables.get().is_none() {
            let frames = self.mapping.len() / FRAME;
            let bytes = Movables::bytes(frames);
            let failed = |cause| PoolError::NotProvided { bytes, cause };
            // Another thread may be quicker.
            let _ = self.movables.set(Movables::new(frames).map_err(failed)?);
        }
        Ok(self.movables.get().expect("it is there"))
    }

    /// The same, if there have been any.
    pub(crate) fn movables_if_any(&self) -> Option<&Movables> {
        self.movables.get()
    }

    pub(crate) fn cap(&self) -> usize {
        self.cap_units * self.unit_bytes()
    }

    pub(crate) fn resident(&self) -> usize {
        self.resident.count() * self.unit_bytes()
    }

    /// By the engine's trees: threads that share a slot lose counts of each other in its quick sum.
    pub(crate) fn free_bytes(&self) -> usize {
        self.resident_of(self.engine.stats().free_frames + self.magazines.frames()) * FRAME
    }

    /// About how many frames are free and resident.
    fn free_resident(&self) -> usize {
        self.resident_of(self.engine.free_frames() + self.magazines.frames())
    }

    /// How many of so many free frames are resident. Units that are not resident are free.
    fn resident_of(&self, free_frames: usize) -> usize {
        let not_resident = self.cap_units.saturating_sub(self.resident.count()) << self.unit_order;
        free_frames.saturating_sub(not_resident)
    }

    fn unit_bytes(&self) -> usize {
        FRAME << self.unit_order
    }

    fn units(&self) -> usize {
        self.mapping.len() / self.unit_bytes()
    }

    /// The units that some frames lie in.
    #[inline]
    pub(crate) fn units_of(&self, first: FrameId, frames: usize) -> Range<usize> {
        first.0 >> self.unit_order..((first.0 + frames - 1) >> self.unit_order) + 1
    }

    /// The frames of a unit.
    pub(crate) fn frames_of(&self, unit: usize) -> Range<FrameId> {
        FrameId(unit << self.unit_order)..FrameId((unit + 1) << self.unit_order)
    }

    /// The first huge frame of some units, and how many huge frames they have.
    fn huge(&self, units: &Range<usize>) -> (HugeId, usize) {
        let more = self.unit_order - Base4K::HUGE_ORDER;
        (HugeId(units.start << more), units.len() << more)
    }

    fn lock(&self) -> Locked<'_> {
        let locking = Locking::new();
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let locked = self.locked(given, self.engine.traffic(), locking);
        locked.expect("a process that was registered may fence its threads")
    }

    /// The lock, or nothing if somebody has it, or the magazines cannot be emptied.
    fn try_lock(&self) -> Option<Locked<'_>> {
        if is_interrupted() {
            return None;
        }
        let locking = Locking::new();
        let given = match self.given.try_lock() {
            Ok(given) => given,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.locked(given, self.engine.try_traffic()?, locking).ok()
    }

    fn locked<'f>(
        &'f self,
        given: MutexGuard<'f, Given>,
        traffic: Held<'f>,
        locking: Locking,
    ) -> io::Result<Locked<'f>> {
        self.magazines.shut(|blocks, order| self.free_batch(blocks, order))?;
        let mut locked = Locked { frames: self, _traffic: traffic, given, _locking: locking };
        if self.engine.is_shared() {
            self.settle(&mut locked);
        }
        Ok(locked)
    }

    /// Learns which units other processes have left offline, and puts those online again that one has left so which
    /// died while it had the lock. Linear in the units.
    fn settle(&self, given: &mut Given) {
        *given = Given::new(self.units(), 0..0);
        let offline = |&unit: &usize| is_offline(&self.engine, self.huge(&(unit..unit + 1)).0);
        (0..self.units()).filter(offline).for_each(|unit| given.insert(unit..unit + 1));
        let left = given.count(0..self.units()).saturating_sub(self.units() - self.cap_units);
        if left == 0 {
            return;
        }
        let runs = given.runs(0..self.units());
        // Memory that the system does not take stays the pool's.
        let _ = self.discard(&runs);
        for unit in runs.into_iter().flatten().take(left) {
            given.remove(unit..unit + 1);
            self.online(&(unit..unit + 1));
        }
    }

    /// Frees what processes had that are dead; returns how many frames. `None`: no other process has the pool.
    pub(crate) fn reap(&self) -> Option<usize> {
        let _locking = Locking::new();
        self.engine.reap(self.slots.current())
    }
}

/// Allocating and freeing.
impl Frames {
    #[inline]
    pub(crate) fn alloc(&self, order: Order) -> Result<FrameId, PoolError> {
        self.magazines.pop(order).map_or_else(|| self.alloc_not_kept(order), Ok)
    }

    /// Allocates a block where this thread keeps none.
    #[cold]
    fn alloc_not_kept(&self, order: Order) -> Result<FrameId, PoolError> {
        match self.magazines.instead(order) {
            Instead::Batch(moving) => return self.refill(order, moving),
            Instead::Ask => self.ask(),
            Instead::Engine => {}
        }
        // The slow way makes its own request: one that is kept for it would be copied here each time.
        match self.engine.alloc(self.request(order)) {
            Ok(frame) if self.is_backed(frame, order) => Ok(frame),
            Ok(frame) => self.back(frame, order),
            Err(_) => self.alloc_more(order),
        }
    }

    /// Allocates a block, and more for this thread to keep.
    fn refill(&self, order: Order, moving: Moving) -> Result<FrameId, PoolError> {
        let (mut blocks, wanted) = ([FrameId(0); BATCH], magazines::batch(order));
        let found =
            self.engine.alloc_batch(self.request(order), Batch::UpTo, &mut blocks[..wanted]);
        let Ok(count) = found else {
            drop(moving);
            return self.alloc_more(order);
        };
        let (first, more) = (blocks[0], &blocks[1..count]);
        // Nothing becomes resident only to be kept.
        let resident = more.iter().take_while(|&&block| self.is_backed(block, order)).count();
        let kept = self.magazines.fill(&moving, &more[..resident], order);
        self.free_batch(&more[..resident - kept], order);
        self.free_batch(&more[resident..], order);
        drop(moving);
        self.back(first, order)
    }

    /// Opens the magazines, if memory is no longer short.
    fn ask(&self) {
        drop(self.try_lock());
    }

    #[cold]
    fn alloc_more(&self, order: Order) -> Result<FrameId, PoolError> {
        let request = self.request(order);
        if u32::from(order.0) > Base4K::MAX_ORDER {
            return Err(PoolError::OrderTooLarge(order));
        }
        if is_interrupted() {
            return Err(self.out_of_memory(order.frames()));
        }
        let huge = order.frames().div_ceil(HUGE);
        let window = Window { huge, align: huge };
        let frame = self.with_more(order.frames(), window, || self.engine.alloc(request))?;
        self.back(frame, order)
    }

    pub(crate) fn alloc_run(&self, frames: usize) -> Result<Range<FrameId>, PoolError> {
        if frames == 0 {
            return Err(PoolError::NoBytes);
        }
        let class = if frames >= HUGE { Class::HUGE } else { Class::MOVABLE };
        let request = RangeRequest::new(frames, class, self.slots.current());
        let window = Window { huge: frames.div_ceil(HUGE), align: 1 };
        let run = match self.engine.alloc_range(request) {
            Ok(run) => run,
            Err(_) => self.with_more(frames, window, || self.engine.alloc_range(request))?,
        };
        let backed = self.back_units(self.units_of(run.start, frames));
        backed.inspect_err(|_| self.free_run(run.clone()))?;
        Ok(run)
    }

    /// Allocates so many frames: runs of 1 GiB first, huge frames next, single frames at last, many at a time. They are the
    /// caller's in `runs`, also those of a call that fails.
    pub(crate) fn alloc_largest(&self, frames: usize, runs: &mut Runs) -> Result<(), PoolError> {
        // What can never be had takes nothing from others meanwhile.
        if frames > self.cap() / FRAME {
            return Err(self.out_of_memory(frames));
        }
        let giant = RangeRequest::new(GIANT.frames(), Class::HUGE, self.slots.current());
        let giant = giant.aligned(GIANT);
        while frames - runs.frames() >= GIANT.frames()
            && let Ok(run) = self.engine.alloc_range(giant)
        {
            runs.push(run);
        }
        for order in [Order(Base4K::HUGE_ORDER as u8), Order::BASE] {
            let mut blocks = [FrameId(0); BATCH];
            while let wanted @ 1.. = (frames - runs.frames()) >> order.0 {
                let room = &mut blocks[..wanted.min(BATCH)];
                let found = self.engine.alloc_batch(self.request(order), Batch::UpTo, room);
                match found {
                    Ok(count) => {
                        room[..count].iter().for_each(|&block| runs.push_block(block, order))
                    }
                    Err(_) if order > Order::BASE => break,
                    // What threads keep, and what the dead have left.
                    Err(_) => runs.push_block(self.alloc_more(order)?, order),
                }
            }
        }
        Ok(())
    }

    /// Sees to it that there is memory behind each page of a run, which is the caller's. Several threads may do so with parts of
    /// one run.
    pub(crate) fn wire(&self, run: &Range<FrameId>) -> Result<(), PoolError> {
        let units = self.units_of(run.start, run.end.0 - run.start.0);
        self.back_units(units.clone())?;
        let populate = |frames: Range<usize>| match frames.is_empty() {
            true => Ok(()),
            false => self.mapping.populate(frames.start * FRAME..frames.end * FRAME),
        };
        let mut start = run.start.0;
        let populated = units.filter(|&unit| self.brought.has(unit)).try_for_each(|unit| {
            let before = start..unit << self.unit_order;
            start = (unit + 1) << self.unit_order;
            populate(before)
        });
        populated.and_then(|()| populate(start..run.end.0)).map_err(|cause| {
            PoolError::NotProvided { bytes: (run.end.0 - run.start.0) * FRAME, cause }
        })?;
        // Nobody gives the memory of a unit back of which the caller has all frames.
        let whole = run.start.0.next_multiple_of(1 << self.unit_order) >> self.unit_order
            ..run.end.0 >> self.unit_order;
        self.note_brought(whole);
        Ok(())
    }

    /// All pages of units have been brought in which the caller has frames.
    fn note_brought(&self, units: Range<usize>) {
        if !self.is_shared() && self.mapping.keeps() {
            units.for_each(|unit| self.brought.insert(unit));
        }
    }

    pub(crate) fn alloc_at(&self, frame: FrameId, order: Order) -> Result<FrameId, PoolError> {
        let request = self.request(order).at(frame);
        match self.engine.alloc(request) {
            Ok(frame) => return self.back(frame, order),
            Err(AllocError::InUse(_)) => self.reap(),
            Err(refusal) => return Err(PoolError::Place(refusal)),
        };
        let mut given = self.lock();
        let units = self.units_of(frame, order.frames());
        if !self.exchange(&mut given, units)? {
            return Err(self.out_of_memory(order.frames()));
        }
        let frame = self.engine.alloc(request).map_err(PoolError::Place)?;
        self.back(frame, order)
    }

    #[inline]
    fn is_backed(&self, first: FrameId, order: Order) -> bool {
        let units = self.units_of(first, order.frames());
        self.resident.has(units.start)
            && (units.len() == 1 || units.skip(1).all(|unit| self.resident.has(unit)))
    }

    /// Sees to it that a block that was just allocated has memory; frees it otherwise.
    #[cold]
    fn back(&self, first: FrameId, order: Order) -> Result<FrameId, PoolError> {
        let backed = self.back_units(self.units_of(first, order.frames()));
        backed.inspect_err(|_| self.free_one(first, order))?;
        Ok(first)
    }

    #[inline]
    pub(crate) fn free(&self, frame: FrameId, order: Order) {
        if !self.magazines.push(frame, order) {
            self.free_not_kept(frame, order);
        }
    }

    /// Frees a block that this thread does not keep yet.
    #[cold]
    fn free_not_kept(&self, frame: FrameId, order: Order) {
        match self.magazines.instead(order) {
            Instead::Batch(moving) => return self.flush(frame, order, moving),
            Instead::Ask => self.ask(),
            Instead::Engine => {}
        }
        self.free_one(frame, order);
    }

    /// Frees a block whose magazine is full: the block is kept, and older ones are not.
    fn flush(&self, frame: FrameId, order: Order, moving: Moving) {
        let mut blocks = [FrameId(0); BATCH];
        let count = self.magazines.take_older(&moving, order, &mut blocks);
        let kept = self.magazines.push(frame, order);
        self.free_batch(&blocks[..count], order);
        drop(moving);
        if !kept {
            self.free_one(frame, order);
        }
        if let Some(mark) = &self.mark {
            self.look(mark, self.slots.current().0, count << order.0);
        }
    }

    /// Frees blocks in the engine.
    fn free_batch(&self, blocks: &[FrameId], order: Order) {
        if blocks.is_empty() {
            return;
        }
        let freed = self.engine.free_batch(blocks, order, self.slots.current());
        debug_assert!(freed.is_ok(), "{freed:?}: a block is freed once");
    }

    /// Frees a block in the engine.
    #[inline]
    fn free_one(&self, frame: FrameId, order: Order) {
        let slot = self.slots.current();
        let freed = self.engine.free(frame, order, slot);
        debug_assert!(freed.is_ok(), "{freed:?}: a block is freed once");
        if let Some(mark) = &self.mark {
            self.look(mark, slot.0, order.frames());
        }
    }

    pub(crate) fn free_run(&self, frames: Range<FrameId>) {
        let (slot, count) = (self.slots.current(), frames.end.0 - frames.start.0);
        let freed = self.engine.free_range(frames, slot);
        debug_assert!(freed.is_ok(), "{freed:?}: a run is freed once");
        if let Some(mark) = &self.mark {
            self.look(mark, slot.0, count);
        }
    }

    /// Has the pool handed out all of a block?
    pub(crate) fn check_allocated(&self, frame: FrameId, order: Order) -> Result<(), PoolError> {
        // What threads keep or move is free, and allocated in the engine.
        let _locked = (!self.magazines.is_empty()).then(|| self.lock());
        let slot = self.slots.current();
        self.engine.adopt(frame, order, slot).map_err(PoolError::NotAllocated)
    }

    #[inline]
    fn request(&self, order: Order) -> Request {
        Request::new(order, Self::class(order), self.slots.current())
    }

    /// What blocks of an order are allocated for.
    #[inline]
    pub(crate) fn class(order: Order) -> Class {
        let huge = u32::from(order.0) >= Base4K::HUGE_ORDER;
        if huge { Class::HUGE } else { Class::MOVABLE }
    }
}

/// What compaction needs.
impl Frames {
    /// The engine, of all processes that have the pool.
    pub(crate) fn zone(&self) -> &Zone {
        &self.engine
    }

    /// May other processes have frames of it?
    pub(crate) fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// The slot of this thread.
    pub(crate) fn slot(&self) -> Slot {
        self.slots.current()
    }

    /// Takes back what threads keep.
    pub(crate) fn take_back(&self) {
        if !self.magazines.is_empty() {
            drop(self.lock());
        }
    }

    /// Sees to it that a block has memory, which is the caller's.
    pub(crate) fn make_resident(&self, first: FrameId, order: Order) -> Result<(), PoolError> {
        self.back_units(self.units_of(first, order.frames()))
    }

    /// A huge frame has become free as a whole: it may be time to give memory back.
    pub(crate) fn won(&self) {
        if let Some(mark) = &self.mark {
            self.look(mark, self.slots.current().0, HUGE);
        }
    }
}

/// Memory from the system, and back.
impl Frames {
    /// Makes a call again that found no memory, with that of processes which have died.
    fn with_more<T>(
        &self,
        frames: usize,
        wanted: Window,
        call: impl Fn() -> Result<T, AllocError>,
    ) -> Result<T, PoolError> {
        match self.with_own(frames, wanted, &call) {
            // Whoever comes to reap later than another process finds nothing, and what the other one found.
            Err(PoolError::OutOfMemory { .. }) if self.reap().is_some() => {
                self.with_own(frames, wanted, &call)
            }
            result => result,
        }
    }

    /// Makes a call again that found no memory, each time with more.
    fn with_own<T>(
        &self,
        frames: usize,
        wanted: Window,
        call: impl Fn() -> Result<T, AllocError>,
    ) -> Result<T, PoolError> {
        let mut given = self.lock();
        loop {
            match call() {
                Ok(block) => return Ok(block),
                Err(AllocError::OutOfMemory) => {}
                // A run that is longer than the pool.
                Err(AllocError::NoPlace(_)) => return Err(self.out_of_memory(frames)),
                Err(refusal) => return Err(PoolError::Place(refusal)),
            }
            if !self.take_for(&mut given, wanted)? {
                return Err(self.out_of_memory(frames));
            }
        }
    }

    pub(crate) fn out_of_memory(&self, frames: usize) -> PoolError {
        PoolError::OutOfMemory {
            bytes: frames.saturating_mul(FRAME),
            free: self.free_bytes(),
            resident: self.resident(),
            cap: self.cap(),
        }
    }

    /// Sees to it that units have memory in which the caller has frames.
    fn back_units(&self, units: Range<usize>) -> Result<(), PoolError> {
        for unit in units.filter(|&unit| !self.resident.has(unit)) {
            let provided = self.mapping.provide(self.bytes(&(unit..unit + 1)));
            let bytes = self.unit_bytes();
            provided.map_err(|cause| PoolError::NotProvided { bytes, cause })?;
            self.resident.insert(unit);
            if self.mapping.populates() {
                self.note_brought(unit..unit + 1);
            }
        }
        Ok(())
    }

    /// Puts a window online, in place of free units elsewhere.
    fn take_for(&self, given: &mut Given, wanted: Window) -> Result<bool, PoolError> {
        // A free huge frame elsewhere would have served the call itself.
        let units = if wanted.huge > 1 { self.window(given, wanted) } else { None };
        units.map_or(Ok(false), |units| self.exchange(given, units))
    }

    /// The units of the lowest window that is free, and in part offline.
    fn window(&self, given: &Given, wanted: Window) -> Option<Range<usize>> {
        let unit_of = |huge: usize| huge >> (self.unit_order - Base4K::HUGE_ORDER);
        let is_free = |huge: usize| {
            given.has(unit_of(huge)) || self.engine.free_in_huge(HugeId(huge)) == HUGE
        };
        let (mut first, end) = (0, self.mapping.len() / FRAME / HUGE);
        while end.checked_sub(first).is_some_and(|left| left >= wanted.huge) {
            let window = first..first + wanted.huge;
            let units = unit_of(first)..unit_of(window.end - 1) + 1;
            match window.rev().find(|&huge| !is_free(huge)) {
                Some(used) => first = (used + 1).next_multiple_of(wanted.align),
                None if given.count(units.clone()) > 0 => return Some(units),
                None => first += wanted.align,
            }
        }
        None
    }

    /// Puts those of the units online that are offline, and as many free ones elsewhere offline. False, and nothing has
    /// changed, if there are too few.
    fn exchange(&self, given: &mut Given, units: Range<usize>) -> Result<bool, PoolError> {
        let needed = given.runs(units.clone());
        let count = needed.iter().map(Range::len).sum();
        let mut others = Given::new(self.units(), 0..0);
        let elsewhere = (0..self.units()).rev().filter(|unit| !units.contains(unit));
        let out = elsewhere.filter(|&unit| !given.has(unit) && self.take_offline(unit));
        let found = out.take(count).map(|unit| others.insert(unit..unit + 1)).count();
        let others = others.runs(0..self.units());
        let discarded = if found == count { self.discard(&others) } else { Ok(0) };
        if found < count || discarded.is_err() {
            others.iter().for_each(|run| self.online(run));
            return discarded.map(|_| false);
        }
        others.into_iter().for_each(|run| given.insert(run));
        for run in needed {
            given.remove(run.clone());
            self.online(&run);
        }
        Ok(true)
    }

    /// Gives up to `bytes` to the system, rounded down to units.
    pub(crate) fn give_back(&self, bytes: usize) -> Result<usize, PoolError> {
        let _given = self.lock();
        Ok(self.give(bytes / self.unit_bytes())? * self.unit_bytes())
    }

    /// Gives up to `wanted` free units to the system, the highest first, in runs. The caller has the lock.
    fn give(&self, wanted: usize) -> Result<usize, PoolError> {
        let (mut done, mut run) = (0, 0..0);
        for unit in (0..self.units()).rev() {
            if done + run.len() == wanted {
                break;
            }
            if self.resident.has(unit) && self.take_offline(unit) {
                run = unit..if run.is_empty() { unit + 1 } else { run.end };
            } else {
                done += self.give_run(&run, done)?;
                run = 0..0;
            }
        }
        Ok(done + self.give_run(&run, done)?)
    }

    /// Gives the units to the system, which are offline, and puts them online again. `done` are gone before.
    fn give_run(&self, run: &Range<usize>, done: usize) -> Result<usize, PoolError> {
        if run.is_empty() {
            return Ok(0);
        }
        let discarded = self.discard(std::slice::from_ref(run));
        self.online(run);
        discarded.map_err(|refusal| match refusal {
            PoolError::NotTaken { given, cause } => {
                PoolError::NotTaken { given: given + done * self.unit_bytes(), cause }
            }
            other => other,
        })
    }

    /// Gives the memory of units to the system that are offline. How many units had some.
    fn discard(&self, runs: &[Range<usize>]) -> Result<usize, PoolError> {
        let mut done = 0;
        // A process that died before it had set the bit has left memory without one.
        let may_have = |unit| self.engine.is_shared() || self.resident.has(unit);
        for run in runs.iter().filter(|run| (run.start..run.end).any(may_have)) {
            // The system may take some and refuse the rest.
            run.clone().for_each(|unit| _ = self.brought.remove(unit));
            let discarded = self.mapping.discard(self.bytes(run));
            let given = done * self.unit_bytes();
            discarded.map_err(|cause| PoolError::NotTaken { given, cause })?;
            done += run.clone().filter(|&unit| self.resident.remove(unit)).count();
        }
        Ok(done)
    }

    /// Takes a unit offline that is free.
    fn take_offline(&self, unit: usize) -> bool {
        let (first, count) = self.huge(&(unit..unit + 1));
        self.engine.free_in_huge(first) == HUGE && self.engine.offline(first, count).is_ok()
    }

    fn online(&self, run: &Range<usize>) {
        let (first, count) = self.huge(run);
        let online = self.engine.online(first, count);
        debug_assert!(online.is_ok(), "{online:?}: only the holder of the lock puts units online");
    }

    fn bytes(&self, units: &Range<usize>) -> Range<usize> {
        units.start * self.unit_bytes()..units.end * self.unit_bytes()
    }

    /// Gives back what is above the mark. A thread looks when it has freed as much as a huge frame.
    #[inline]
    fn look(&self, mark: &Mark, slot: usize, frames: usize) {
        let Some(Freed(freed)) = mark.freed.get(slot) else { return };
        let now = freed.load(Ordering::Relaxed) + frames as u64;
        // Two threads on one slot can lose a count of each other; they look a little later then.
        freed.store(if now < HUGE as u64 { now } else { 0 }, Ordering::Relaxed);
        if now >= HUGE as u64 && self.free_resident() > mark.frames {
            self.give_above(mark);
        }
    }

    #[cold]
    fn give_above(&self, mark: &Mark) {
        // Whoever has the lock moves memory already.
        let Some(_locked) = self.try_lock() else { return };
        let above = self.free_resident().saturating_sub(mark.frames / 2);
        // A free has nobody to tell: memory that the system does not take stays the pool's.
        let _ = self.give(above >> self.unit_order);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn magazines_are_for_those_who_have_enough() {
        let frames = Frames::new(&Options::new(1 << 30)).expect("addresses are free");
        let keeps = || {
            let block = frames.alloc(Order(0)).expect("memory");
            frames.free(block, Order(0));
            frames.magazines.frames() > 0
        };
        assert!(keeps());
        frames.give_back(usize::MAX).expect("the system takes memory");
        assert_eq!(frames.magazines.frames(), 0);
        assert!(keeps(), "after memory was given back");
        let all: Vec<FrameId> = (0..256).filter_map(|_| frames.alloc(Order(10)).ok()).collect();
        assert_eq!(all.len(), 256);
        frames.alloc(Order(0)).expect_err("there is no more");
        {
            let _locked = frames.lock();
            frames
                .alloc(Order(0))
                .expect_err("and a signal handler does not wait for its own thread");
        }
        // 1 MiB is less than even one thread may keep.
        frames.free(all[0], Order(8));
        assert!(!keeps() && !keeps(), "memory is short");
        (1..4).for_each(|part| frames.free(FrameId(all[0].0 + part * 256), Order(8)));
        all[1..].iter().for_each(|&block| frames.free(block, Order(10)));
        let calls = (0..1000).find(|_| keeps());
        assert!(calls.is_some_and(|calls| calls < 200), "open again after {calls:?} pairs");
    }

    /// All frames of a pool, one by one.
    fn take_all(frames: &Frames) -> Vec<FrameId> {
        let count = frames.mapping.len() / FRAME;
        (0..count).map(|_| frames.alloc(Order(0)).expect("all of it")).collect()
    }

    /// Allocates, while another thread moves blocks from what it keeps to the engine, or the other way round.
    fn beside_a_move(to_engine: bool, look: impl FnOnce(&Frames, FrameId)) {
        let frames = Frames::new(&Options::new(2 << 20)).expect("addresses are free");
        let (moves, looks) = (Barrier::new(2), AtomicU64::new(0));
        // Two threads may keep more than this pool has: a gate that is shut once stays so.
        seats::number();
        thread::scope(|scope| {
            let mover = scope.spawn(|| {
                frames.free(frames.alloc(Order(0)).expect("memory"), Order(0));
                let Instead::Batch(moving) = frames.magazines.instead(Order(0)) else {
                    panic!("the gate is open");
                };
                let mut blocks = [FrameId(0); BATCH];
                let mut count = frames.magazines.take_older(&moving, Order(0), &mut blocks);
                if !to_engine {
                    frames.free_batch(&blocks[..count], Order(0));
                    let request = frames.request(Order(0));
                    let found = frames.engine.alloc_batch(request, Batch::UpTo, &mut blocks);
                    count = found.expect("memory");
                }
                looks.store(blocks[0].0 as u64, Ordering::Relaxed);
                moves.wait();
                // Whoever needs what is moving does not get on without it.
                while !frames.magazines.is_shut() {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(20));
                let kept = frames.magazines.fill(&moving, &blocks[..count], Order(0));
                assert_eq!(kept, 0, "the gate is shut");
                frames.free_batch(&blocks[..count], Order(0));
            });
            moves.wait();
            let block = FrameId(looks.load(Ordering::Relaxed) as usize);
            let looked = catch_unwind(AssertUnwindSafe(|| look(&frames, block)));
            // The other thread goes on whatever becomes of it.
            drop(frames.lock());
            mover.join().expect("it moves blocks");
            looked.unwrap_or_else(|panic| resume_unwind(panic));
        });
    }

    #[test]
    fn what_moves_is_found() {
        for to_engine in [true, false] {
            beside_a_move(to_engine, |frames, _| assert_eq!(take_all(frames).len(), 512));
        }
    }

    #[test]
    fn what_moves_is_not_adopted() {
        for to_engine in [true, false] {
            beside_a_move(to_engine, |frames, block| {
                frames.check_allocated(block, Order(0)).expect_err("it is free");
            });
        }
    }

    #[test]
    fn a_handler_does_not_wait_for_one_pool_inside_another() {
        let new = || Frames::new(&Options::new(2 << 20)).expect("addresses are free");
        let [one, other] = [new(), new()];
        for frames in [&one, &other] {
            frames.free(frames.alloc(Order(0)).expect("memory"), Order(0));
        }
        let Instead::Batch(moving) = one.magazines.instead(Order(0)) else {
            panic!("the gate is open");
        };
        // Blocks of this order are free once what is kept is taken back.
        let call = || other.alloc(Order(9));
        call().expect_err("the handler has taken the lock");
        assert!(other.magazines.frames() > 0);
        drop(moving);
        call().expect("all of it");
    }

    #[test]
    fn magazines_that_cannot_be_emptied() {
        let frames = Frames::new(&Options::new(2 << 20)).expect("addresses are free");
        // More than move at once.
        let blocks: Vec<FrameId> =
            (0..40).map(|_| frames.alloc(Order(0)).expect("memory")).collect();
        blocks.into_iter().for_each(|block| frames.free(block, Order(0)));
        let mut lost = Vec::new();
        let emptied = catch_unwind(AssertUnwindSafe(|| {
            frames.magazines.shut(|blocks, _| {
                lost.extend_from_slice(blocks);
                panic!("as a debug assertion would");
            })
        }));
        emptied.expect_err("it panics");
        frames.free_batch(&lost, Order(0));
        take_all(&frames);
    }

    /// Two pools of one file are to each other what two processes are. Eight units, of which four may be resident.
    fn two() -> [Frames; 2] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        // SAFETY: only these pools use the file.
        let options = unsafe { Options::new(16 << 20).cap(8 << 20).shared(file.path()) };
        [(); 2].map(|()| Frames::new(&options).expect("a shared pool"))
    }

    #[test]
    fn processes_move_memory_one_at_a_time() {
        let [one, other] = two();
        // A thread with a lock is refused any other one, so another thread tries.
        let can_lock = || {
            thread::scope(|scope| {
                scope.spawn(|| other.try_lock().is_some()).join().expect("it does not panic")
            })
        };
        let locked = one.lock();
        assert!(!can_lock(), "two move memory at once");
        drop(locked);
        assert!(can_lock());
        assert_eq!((one.magazines.frames(), other.magazines.frames()), (0, 0));
    }

    #[test]
    fn what_a_death_left_offline_is_put_online() {
        let [one, other] = two();
        let blocks = [(); 4].map(|()| one.alloc(Order(9)).expect("memory"));
        blocks.into_iter().for_each(|block| one.free(block, Order(9)));
        let locked = one.lock();
        assert_eq!((0..8).filter(|&unit| one.take_offline(unit)).count(), 4);
        drop(locked);
        drop(one);
        let again =
            [(); 4].map(|()| other.alloc(Order(9)).expect("what the dead one left offline"));
        assert!(again.iter().all(|&block| other.is_backed(block, Order(9))));
        other.alloc(Order(0)).expect_err("the cap");
        assert_eq!(other.resident(), other.cap());
    }

    #[test]
    fn what_a_death_left_without_a_bit_goes_to_the_system() {
        let [one, other] = two();
        let file = one.mapping.descriptor().expect("a file").try_clone_to_owned();
        let file = File::from(file.expect("a copy"));
        let blocks = || file.metadata().expect("its blocks").blocks();
        let before = blocks();
        // The system counts what it keeps of the file itself as well, which is less than a unit.
        let units = || (blocks() - before) * 512 / (HUGE * FRAME) as u64;
        one.mapping.provide(one.bytes(&(3..4))).expect("memory");
        assert_eq!((one.resident(), units()), (0, 1));
        other.alloc_at(FrameId(4 * HUGE), Order(10)).expect("in place of the last two units");
        assert_eq!(one.resident(), 2 * HUGE * FRAME);
        assert_eq!(units(), 2, "what is offline has memory");
    }

    #[test]
    fn what_one_puts_offline_the_other_learns() {
        let [one, other] = two();
        let pair = one.alloc_at(FrameId(6 * HUGE), Order(10)).expect("others go offline for it");
        let run = other.alloc_at(FrameId(4 * HUGE), Order(10)).expect("the other two");
        assert_eq!((one.resident(), other.resident()), (one.cap(), one.cap()));
        other.alloc_at(FrameId(0), Order(0)).expect_err("the cap");
        one.free(pair, Order(10));
        one.free(run, Order(10));
        other.alloc_at(FrameId(0), Order(10)).expect("in place of what is free");
        assert_eq!((one.resident(), one.free_bytes()), (one.cap(), one.cap() / 2));
    }
}
