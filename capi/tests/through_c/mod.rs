//! The contract for Rust on top of the calls for C, and nothing else: what the suite tests.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use woodlot_capi::types::{Config, Counts, Metadata, MetadataSizes};
use woodlot_capi::*;
use woodlot_frame::{
    AllocError, BadSlot, Batch, Class, ClassStats, Construct, FrameAllocator, FrameId,
    FreeBatchError, FreeError, Geometry, HugeId, Init, InitError, MetadataSize, OfflineError,
    Order, Place, RangeRequest, RawMetadata, Region, Request, Slot, Stats, Unsupported, ZoneConfig,
};

use classes::{policy, rows};

pub mod classes;

/// An engine and a geometry by their numbers, and what they must turn out to be.
pub trait Kind: 'static {
    const NAME: &'static str;
    const ENGINE: u32;
    const GEOMETRY: u32;
    type Engine: FrameAllocator;
}

/// A zone as a C program has it.
pub struct CZone<K: Kind> {
    handle: Box<MaybeUninit<Zone>>,
    config: ZoneConfig,
    kind: PhantomData<fn() -> K>,
}

/// `struct woodlot_place`.
fn place(place: Place) -> types::Place {
    let (kind, start, end) = match place {
        Place::Anywhere => (0, 0, 0),
        Place::At(frame) => (1, frame.0, 0),
        Place::Within { start, end } => (2, start.0, end.0),
    };
    types::Place { kind, start, end }
}

/// `struct woodlot_config`, and the classes that it leads to.
fn configure<K: Kind, T>(config: &ZoneConfig, then: impl FnOnce(&Config) -> T) -> T {
    let classes = rows(&config.classes);
    then(&Config {
        start: config.start.0,
        frames: config.frames,
        slots: config.slots,
        engine: K::ENGINE,
        geometry: K::GEOMETRY,
        classes: &classes,
    })
}

/// An error of a request for `order` and so on, about `frame`.
fn alloc_error(error: c_int, frame: usize, order: Order, class: Class, slot: Slot) -> AllocError {
    let frame = FrameId(frame);
    match Error::of(error).expect("a number") {
        Error::OutOfMemory => AllocError::OutOfMemory,
        Error::OrderTooLarge => AllocError::OrderTooLarge(order),
        Error::BadSlot => AllocError::BadSlot(slot),
        Error::BadClass => AllocError::BadClass(class),
        Error::OutOfRange => AllocError::OutOfRange(frame),
        Error::Misaligned => AllocError::Misaligned(frame, order),
        Error::InUse => AllocError::InUse(frame),
        Error::NoFrames => AllocError::NoFrames,
        Error::Reversed => AllocError::Reversed(frame),
        Error::NoPlace => AllocError::NoPlace(frame),
        Error::Unsupported => AllocError::Unsupported,
        other => panic!("an allocation says {other:?}"),
    }
}

fn free_error(error: c_int, frame: usize, order: Order, slot: Slot) -> Result<(), FreeError> {
    let frame = FrameId(frame);
    Err(match error {
        0 => return Ok(()),
        error => match Error::of(error).expect("a number") {
            Error::NotAllocated => FreeError::NotAllocated(frame),
            Error::OrderTooLarge => FreeError::OrderTooLarge(order),
            Error::BadSlot => FreeError::BadSlot(slot),
            Error::OutOfRange => FreeError::OutOfRange(frame),
            Error::Misaligned => FreeError::Misaligned(frame, order),
            Error::Offline => FreeError::Offline(frame),
            Error::Reversed => FreeError::Reversed(frame),
            Error::Unsupported => FreeError::Unsupported,
            other => panic!("a free says {other:?}"),
        },
    })
}

fn offline_error(error: c_int, frame: usize) -> Result<(), OfflineError> {
    Err(match error {
        0 => return Ok(()),
        error => match Error::of(error).expect("a number") {
            Error::OutOfRange => OfflineError::OutOfRange,
            Error::InUse => OfflineError::InUse(FrameId(frame)),
            Error::NotOffline => OfflineError::NotOffline,
            Error::Unsupported => OfflineError::Unsupported,
            other => panic!("offline or online says {other:?}"),
        },
    })
}

fn init_error(error: c_int, short: impl Fn(Region) -> InitError) -> InitError {
    match Error::of(error).expect("a number") {
        Error::EmptyZone => InitError::EmptyZone,
        Error::ZoneTooLarge => InitError::ZoneTooLarge,
        Error::NoSlots => InitError::NoSlots,
        Error::TooManySlots => InitError::TooManySlots,
        Error::TooManyClasses => InitError::TooManyClasses,
        Error::DurableShort => short(Region::Durable),
        Error::VolatileShort => short(Region::Volatile),
        Error::DurableNull | Error::DurableMisaligned => InitError::Misaligned(Region::Durable),
        Error::VolatileNull | Error::VolatileMisaligned => InitError::Misaligned(Region::Volatile),
        Error::Overlap => InitError::Overlap,
        Error::Unsupported => InitError::Unsupported,
        other => panic!("making a zone says {other:?}"),
    }
}

impl<K: Kind> CZone<K> {
    /// What the calls are given.
    pub fn pointer(&self) -> *const Zone {
        self.handle.as_ptr()
    }

    /// 1 or 0.
    fn truth(answer: c_int) -> bool {
        assert!(answer == 0 || answer == 1, "{answer} is neither true nor false");
        answer == 1
    }
}

// SAFETY, of every call below: the handle was filled by `woodlot_init`, and all other pointers lead to
// values of this program.
#[expect(clippy::undocumented_unsafe_blocks, reason = "it is written once, above")]
impl<K: Kind> FrameAllocator for CZone<K> {
    type Geometry = <K::Engine as FrameAllocator>::Geometry;
    const NAME: &'static str = K::NAME;
    /// The headers have no isolation.
    const UNSUPPORTED: Unsupported = Unsupported { isolation: true, ..K::Engine::UNSUPPORTED };

    fn zone(&self) -> &ZoneConfig {
        &self.config
    }

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        let Request { order, class, slot, place: wanted } = request;
        let (zone, number, kind) = (self.pointer(), order.0.into(), class.0.into());
        let block = match wanted {
            Place::Anywhere => unsafe { woodlot_alloc(zone, number, kind, slot.0) },
            _ => unsafe { woodlot_alloc_placed(zone, number, kind, slot.0, place(wanted)) },
        };
        match block.error {
            0 => Ok(FrameId(block.frame)),
            error => Err(alloc_error(error, block.frame, order, class, slot)),
        }
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let error = unsafe { woodlot_free(self.pointer(), frame.0, order.0.into(), slot.0) };
        free_error(error, frame.0, order, slot)
    }

    fn alloc_batch(
        &self,
        request: Request,
        batch: Batch,
        out: &mut [FrameId],
    ) -> Result<usize, AllocError> {
        let Request { order, class, slot, place: wanted } = request;
        let mode = u32::from(batch == Batch::UpTo);
        let (place, frames, len) = (place(wanted), out.as_mut_ptr().cast(), out.len());
        let (number, kind) = (order.0.into(), class.0.into());
        let zone = self.pointer();
        let batch =
            unsafe { woodlot_alloc_batch(zone, number, kind, slot.0, place, mode, frames, len) };
        match batch.error {
            0 => Ok(batch.count),
            error => Err(alloc_error(error, batch.frame, order, class, slot)),
        }
    }

    fn free_batch(
        &self,
        frames: &[FrameId],
        order: Order,
        slot: Slot,
    ) -> Result<(), FreeBatchError> {
        let (start, count) = (frames.as_ptr().cast(), frames.len());
        let zone = self.pointer();
        let batch = unsafe { woodlot_free_batch(zone, start, count, order.0.into(), slot.0) };
        let answer = free_error(batch.error, batch.frame, order, slot);
        assert!(answer.is_err() || batch.count == count, "{} of {count} freed", batch.count);
        answer.map_err(|cause| FreeBatchError { freed: batch.count, cause })
    }

    fn alloc_range(&self, request: RangeRequest) -> Result<Range<FrameId>, AllocError> {
        let RangeRequest { frames, align, class, slot, place: wanted } = request;
        let (zone, order, kind) = (self.pointer(), align.0.into(), class.0.into());
        let run = unsafe { woodlot_alloc_range(zone, frames, order, kind, slot.0, place(wanted)) };
        match run.error {
            0 => Ok(FrameId(run.start)..FrameId(run.end)),
            error => Err(alloc_error(error, run.start, align, class, slot)),
        }
    }

    fn free_range(&self, frames: Range<FrameId>, slot: Slot) -> Result<(), FreeError> {
        let (start, end) = (frames.start.0, frames.end.0);
        let block = unsafe { woodlot_free_range(self.pointer(), start, end, slot.0) };
        free_error(block.error, block.frame, Order::BASE, slot)
    }

    fn can_free(&self, frame: FrameId, order: Order, slot: Slot) -> Result<(), FreeError> {
        let error = unsafe { woodlot_can_free(self.pointer(), frame.0, order.0.into(), slot.0) };
        free_error(error, frame.0, order, slot)
    }

    fn drain(&self, slot: Slot) -> Result<(), BadSlot> {
        match unsafe { woodlot_drain(self.pointer(), slot.0) } {
            0 => Ok(()),
            error => {
                assert_eq!(Error::of(error), Some(Error::BadSlot));
                Err(BadSlot(slot))
            }
        }
    }

    fn offline(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        let block = unsafe { woodlot_offline(self.pointer(), first.0, count) };
        offline_error(block.error, block.frame)
    }

    fn online(&self, first: HugeId, count: usize) -> Result<(), OfflineError> {
        offline_error(unsafe { woodlot_online(self.pointer(), first.0, count) }, 0)
    }

    fn is_available(&self, order: Order) -> bool {
        Self::truth(unsafe { woodlot_is_available(self.pointer(), order.0.into()) })
    }

    fn free_frames(&self) -> usize {
        let free = unsafe { woodlot_free_frames(self.pointer()) };
        assert_eq!(free.error, 0);
        free.count
    }

    fn stats(&self) -> Stats {
        let mut counts = MaybeUninit::<Counts>::uninit();
        assert_eq!(unsafe { woodlot_stats(self.pointer(), counts.as_mut_ptr()) }, 0);
        let counts = unsafe { counts.assume_init() };
        Stats {
            free_frames: counts.free_frames,
            free_huge: counts.free_huge,
            offline_huge: counts.offline_huge,
            classes: counts.classes.map(|of| ClassStats {
                trees: of.trees,
                free_frames: of.free_frames,
                free_huge: of.free_huge,
            }),
            ..Stats::default()
        }
    }

    fn is_free(&self, frame: FrameId, order: Order) -> bool {
        Self::truth(unsafe { woodlot_is_free(self.pointer(), frame.0, order.0.into()) })
    }

    fn free_map(&self, frame: FrameId) -> u64 {
        let map = unsafe { woodlot_free_map(self.pointer(), frame.0) };
        assert_eq!(map.error, 0);
        map.map
    }

    fn free_in_huge(&self, huge: HugeId) -> usize {
        let free = unsafe { woodlot_free_in_huge(self.pointer(), huge.0) };
        assert_eq!(free.error, 0);
        free.count
    }

    fn free_huge_frames(&self) -> impl DoubleEndedIterator<Item = HugeId> + '_ {
        FreeHuge { zone: self.pointer(), from: 0, before: usize::MAX, allocator: PhantomData }
    }
}

/// The free huge frames, as a C program finds them from both ends.
struct FreeHuge<'a> {
    zone: *const Zone,
    from: usize,
    before: usize,
    allocator: PhantomData<&'a Zone>,
}

impl FreeHuge<'_> {
    fn found(&self, huge: types::Huge) -> Option<HugeId> {
        let end = huge.error == c_int::from(Error::NoMore);
        assert!(end || huge.error == 0, "error {}", huge.error);
        (!end && (self.from..self.before).contains(&huge.huge)).then_some(HugeId(huge.huge))
    }
}

impl Iterator for FreeHuge<'_> {
    type Item = HugeId;

    fn next(&mut self) -> Option<HugeId> {
        // SAFETY: the handle was filled.
        let found = self.found(unsafe { woodlot_next_free_huge(self.zone, self.from) })?;
        self.from = found.0 + 1;
        Some(found)
    }
}

impl DoubleEndedIterator for FreeHuge<'_> {
    fn next_back(&mut self) -> Option<HugeId> {
        // SAFETY: the handle was filled.
        let found = self.found(unsafe { woodlot_last_free_huge(self.zone, self.before) })?;
        self.before = found.0;
        Some(found)
    }
}

impl<K: Kind> Construct for CZone<K> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        let mut sizes = MetadataSizes { durable_size: usize::MAX, volatile_size: usize::MAX };
        // SAFETY: both lead to values of this program.
        let error = configure::<K, _>(config, |config| unsafe {
            woodlot_metadata_size(config, &mut sizes)
        });
        match error {
            0 => Ok(MetadataSize { durable: sizes.durable_size, volatile: sizes.volatile_size }),
            error => Err(init_error(error, |_| unreachable!("no metadata was given"))),
        }
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        let mut handle = Box::new(MaybeUninit::<Zone>::zeroed());
        let given = Metadata {
            durable_start: metadata.durable.0.cast(),
            durable_size: metadata.durable.1,
            volatile_start: metadata.volatile.0.cast(),
            volatile_size: metadata.volatile.1,
        };
        let mode = match init {
            Init::Free => 0,
            Init::Allocated => 1,
            Init::Recover => 2,
        };
        // SAFETY: the caller vouches for the metadata; the rest are values of this program.
        let error = configure::<K, _>(config, |config| unsafe {
            woodlot_init(handle.as_mut_ptr(), config, &given, mode)
        });
        if error != 0 {
            let needed = Self::metadata_size(config);
            return Err(init_error(error, |region| {
                let needed = needed.expect("the zone is legal");
                let (needed, given) = match region {
                    Region::Durable => (needed.durable, given.durable_size),
                    Region::Volatile => (needed.volatile, given.volatile_size),
                };
                InitError::Short { region, needed, given }
            }));
        }
        // C keeps no intents, so a room of their records is nothing that it is told.
        let config = describe::<K>(handle.as_ptr()).with_record_room(config.record_room);
        Ok(CZone { handle, config, kind: PhantomData })
    }
}

/// What `woodlot_info` says of a zone, which must be of this kind.
fn describe<K: Kind>(zone: *const Zone) -> ZoneConfig {
    let mut info = MaybeUninit::uninit();
    // SAFETY: the handle was filled, and there is room for the answer.
    let info = unsafe {
        assert_eq!(woodlot_info(zone, info.as_mut_ptr()), 0);
        info.assume_init()
    };
    assert_eq!((info.engine, info.geometry), (K::ENGINE, K::GEOMETRY));
    let Unsupported {
        exact_frame,
        partial_free,
        classes,
        offline,
        isolation: _,
        recovery,
        exact_exhaustion,
    } = K::Engine::UNSUPPORTED;
    let missing = [exact_frame, partial_free, classes, offline, recovery, exact_exhaustion];
    let missing = missing.iter().enumerate().map(|(bit, &missing)| u32::from(missing) << bit);
    assert_eq!(info.unsupported, missing.sum::<u32>());
    sizes_agree::<<K::Engine as FrameAllocator>::Geometry>(&info.sizes);
    let config = ZoneConfig::new(info.frames, info.slots)
        .starting_at(FrameId(info.start))
        .with_classes(policy(&info.classes));
    let huge = config.huge_range::<<K::Engine as FrameAllocator>::Geometry>();
    assert_eq!((info.first_huge, info.end_huge), (huge.start.0, huge.end.0));
    config
}

/// The sizes are those of this geometry.
pub fn sizes_agree<G: Geometry>(sizes: &types::Sizes) {
    assert_eq!((sizes.base_shift, sizes.huge_order), (G::BASE_SHIFT, G::HUGE_ORDER));
    assert_eq!((sizes.max_order, sizes.tree_huge as usize), (G::MAX_ORDER, G::TREE_HUGE));
}
