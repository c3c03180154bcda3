//! How an engine is made: the zones and the metadata that must be refused, each with its error,
//! and that nothing but its own metadata is ever touched.

use std::alloc::{Layout, alloc, dealloc};

use woodlot_frame::{
    ClassPolicy, Init, InitError, METADATA_ALIGN, MetadataSize, Order, RawMetadata, Region,
    Request, Slot, ZoneConfig,
};

use super::{Checked, Engine};
use crate::zones;

/// Zones without frames or slots, and sizes beyond all measure.
pub fn bad_zones_are_refused(engine: Engine) {
    let refused = |config: ZoneConfig| {
        let error = engine.metadata_size(&config).expect_err("the zone is refused");
        assert_eq!(engine.zone(&config, Init::Free).err(), Some(error));
        error
    };
    assert_eq!(refused(ZoneConfig::new(0, 1)), InitError::EmptyZone);
    let far = ZoneConfig::new(0, 1).starting_at(woodlot_frame::FrameId(usize::MAX));
    assert_eq!(refused(far), InitError::EmptyZone);
    assert_eq!(refused(ZoneConfig::new(1, 0)), InitError::NoSlots);
    for slots in [usize::MAX, usize::MAX / 2, usize::MAX / 64, 1 << 58, 1 << 48] {
        assert_eq!(refused(ZoneConfig::new(engine.huge_frames, slots)), InitError::TooManySlots);
    }
    assert_eq!(refused(ZoneConfig::new(usize::MAX, 1)), InitError::ZoneTooLarge);
    // Both wrong: either error.
    assert!(engine.metadata_size(&ZoneConfig::new(0, 0)).is_err());
    assert!(engine.metadata_size(&ZoneConfig::new(usize::MAX, usize::MAX)).is_err());
    // Large, but perhaps not too large: a size or an error, and no overflow.
    for frames in [1 << 40, 1 << 48, 1 << 56, 1 << 62, usize::MAX / 2, usize::MAX - 1] {
        match engine.metadata_size(&ZoneConfig::new(frames, 1)) {
            Ok(size) => {
                assert!(size.durable >= frames / engine.huge_frames / 8, "{size:?} for {frames}")
            }
            Err(error) => assert_eq!(error, InitError::ZoneTooLarge),
        }
    }
}

/// As many slots as a large machine has CPUs, and every number of classes.
pub fn many_slots_and_classes_work(engine: Engine) {
    for slots in [1, 2, 64, 1024] {
        let mut zone = Checked::new(engine, &zones::trees(engine, 2, slots), Init::Free);
        for slot in [0, slots / 2, slots - 1].map(Slot) {
            let frame = zone.take(Order(1), slot);
            zone.give(frame, Order(1), slot);
        }
        zone.validate_counts();
    }
    for policy in [ClassPolicy::SINGLE, super::classes::eight_classes()] {
        let config = zones::trees(engine, 2, 2).with_classes(policy);
        // An engine may keep fewer than the most classes, and says so.
        if engine.metadata_size(&config) == Err(InitError::TooManyClasses) && policy.count() > 4 {
            continue;
        }
        let mut zone = Checked::new(engine, &config, Init::Free);
        let last = policy.all().next_back().expect("a policy has a class");
        let frame = zone.alloc(Request::new(Order(0), last, Slot(1)));
        zone.give(frame.expect("the zone is empty"), Order(0), Slot(0));
        zone.validate();
    }
}

/// Memory from the heap, filled with a pattern, aligned to a cache line and no more.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

const PATTERN: u8 = 0xA5;

impl Memory {
    fn new(bytes: usize) -> Memory {
        // One line before and one behind, to see writes beyond the ends.
        let bytes = bytes.next_multiple_of(METADATA_ALIGN) + 2 * METADATA_ALIGN;
        // SAFETY: the layout's size is not zero; the memory is written before it is used.
        let start = unsafe { alloc(Self::layout(bytes)) };
        assert!(!start.is_null(), "no memory for {bytes} bytes");
        // SAFETY: `start` is valid for `bytes` bytes.
        unsafe { start.write_bytes(PATTERN, bytes) };
        Memory { start, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, METADATA_ALIGN).expect("the size is small")
    }

    /// The usable part.
    fn part(&self) -> *mut u8 {
        self.start.wrapping_add(METADATA_ALIGN)
    }

    /// Were only the bytes from `from` to `to` of the usable part written?
    fn untouched_but(&self, from: usize, to: usize) -> bool {
        // SAFETY: the memory is ours and initialised, and no allocator is in use on it.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.bytes) };
        let own = METADATA_ALIGN + from..METADATA_ALIGN + to;
        bytes.iter().enumerate().all(|(n, &byte)| own.contains(&n) || byte == PATTERN)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc` with this layout.
        unsafe { dealloc(self.start, Self::layout(self.bytes)) };
    }
}

fn size_of(engine: Engine, config: &ZoneConfig) -> MetadataSize {
    engine.metadata_size(config).expect("the zone is legal")
}

/// Constructs on `metadata`, which must be refused and stay as it is.
fn refuse(engine: Engine, config: &ZoneConfig, metadata: RawMetadata, error: InitError) {
    let modes = [Init::Free, Init::Allocated, Init::Recover];
    for init in modes {
        // SAFETY: where the engine could accept it, the metadata is memory of the caller's that
        // nobody else uses; what is not is refused before it is touched, which is what this tests.
        let answer = unsafe { engine.construct(config, metadata, init) };
        let answer = answer.err();
        let missing = match init {
            Init::Recover => engine.unsupported.recovery,
            Init::Allocated => engine.unsupported.partial_free,
            Init::Free => false,
        };
        let unsupported = missing && answer == Some(InitError::Unsupported);
        assert!(answer == Some(error) || unsupported, "{answer:?}, not {error:?}, in {init:?}");
    }
}

/// Metadata that is short, misaligned, null, wrapping or overlapping is refused and not written.
pub fn bad_metadata_is_refused_and_untouched(engine: Engine) {
    let config = ZoneConfig::new(engine.tree_frames + 3, 2);
    let size = size_of(engine, &config);
    let (durable, volatile) = (Memory::new(size.durable + 64), Memory::new(size.volatile + 64));
    let good = RawMetadata {
        durable: (durable.part(), size.durable),
        volatile: (volatile.part(), size.volatile),
    };
    for given in [0, 1, size.durable / 2, size.durable.saturating_sub(1)] {
        if given < size.durable {
            let short = RawMetadata { durable: (durable.part(), given), ..good };
            let (region, needed) = (Region::Durable, size.durable);
            refuse(engine, &config, short, InitError::Short { region, needed, given });
        }
    }
    for given in [0, 1, size.volatile / 2, size.volatile.saturating_sub(1)] {
        if given < size.volatile {
            let short = RawMetadata { volatile: (volatile.part(), given), ..good };
            let (region, needed) = (Region::Volatile, size.volatile);
            refuse(engine, &config, short, InitError::Short { region, needed, given });
        }
    }
    for off in [1, 4, 8, 16, 32, 63] {
        let start = durable.part().wrapping_add(off);
        let bad = RawMetadata { durable: (start, size.durable), ..good };
        refuse(engine, &config, bad, InitError::Misaligned(Region::Durable));
        let start = volatile.part().wrapping_add(off);
        let bad = RawMetadata { volatile: (start, size.volatile), ..good };
        refuse(engine, &config, bad, InitError::Misaligned(Region::Volatile));
    }
    let null = RawMetadata { durable: (std::ptr::null_mut(), size.durable), ..good };
    refuse(engine, &config, null, InitError::Misaligned(Region::Durable));
    let null = RawMetadata { volatile: (std::ptr::null_mut(), size.volatile), ..good };
    refuse(engine, &config, null, InitError::Misaligned(Region::Volatile));
    if size.durable > 0 && size.volatile > 0 {
        let same = RawMetadata { volatile: (durable.part(), size.volatile), ..good };
        refuse(engine, &config, same, InitError::Overlap);
        let last_line = (size.durable - 1) & !(METADATA_ALIGN - 1);
        let inside = durable.part().wrapping_add(last_line);
        let tail = RawMetadata { volatile: (inside, size.volatile), ..good };
        refuse(engine, &config, tail, InitError::Overlap);
    }
    // A zone that is refused does not touch good metadata either.
    refuse(engine, &ZoneConfig::new(0, 2), good, InitError::EmptyZone);
    refuse(engine, &ZoneConfig::new(1, 0), good, InitError::NoSlots);
    assert!(durable.untouched_but(0, 0), "the durable memory was written");
    assert!(volatile.untouched_but(0, 0), "the volatile memory was written");
}

/// Memory full of old bytes is as good as new, and nothing beside it is written.
pub fn dirty_metadata_is_as_good_as_new(engine: Engine) {
    let huge = engine.huge_frames;
    for frames in [1, huge - 1, huge + 1, 3 * huge + 5, engine.tree_frames + 1] {
        let config = ZoneConfig::new(frames, 3).starting_at(woodlot_frame::FrameId(1));
        let size = size_of(engine, &config);
        let (durable, volatile) = (Memory::new(size.durable), Memory::new(size.volatile));
        for init in [Init::Free, Init::Allocated] {
            let metadata = RawMetadata {
                durable: (durable.part(), size.durable),
                volatile: (volatile.part(), size.volatile),
            };
            // SAFETY: both parts are initialised memory that nobody else uses, and outlive `a`.
            let a = match unsafe { engine.construct(&config, metadata, init) } {
                Ok(a) => a,
                Err(InitError::Unsupported) if init == Init::Allocated => continue,
                Err(error) => panic!("{error}"),
            };
            let model = engine.model(&config, init);
            let history = crate::validate::History::Sequential;
            if let Err(why) = crate::validate::everything(&*a, &model, history) {
                panic!("{} on dirty metadata, {config:?} {init:?}: {why}", engine.name);
            }
            while a.alloc(Request::movable(Order(0), Slot(0))).is_ok() {}
            assert_eq!(a.stats().free_frames, 0);
        }
        assert!(durable.untouched_but(0, size.durable), "wrote beside the durable part");
        assert!(volatile.untouched_but(0, size.volatile), "wrote beside the volatile part");
    }
}

/// The size of the metadata is a whole thing: the same for every call, growing with the zone.
pub fn metadata_sizes_are_sensible(engine: Engine) {
    let mut before = MetadataSize { durable: 0, volatile: 0 };
    for trees in [1, 2, 8, 64] {
        let config = zones::trees(engine, trees, 4);
        let size = size_of(engine, &config);
        assert_eq!(size, size_of(engine, &config));
        assert!(size.durable >= before.durable && size.volatile >= before.volatile);
        before = size;
    }
}
