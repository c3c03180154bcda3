//! The shape of OSTD's frame allocator, called as OSTD calls it and wrongly.

use std::alloc::Layout;
use std::sync::Mutex;

use woodlot_frame::{
    AllocError, Base4K, Construct, FrameAllocator, FrameId, FreeError, InitError, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_ostd::{Config, Frames, GlobalFrameAllocator, Refused, Storage};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

const fn config(memory: usize) -> Config {
    Config { memory, cpus: 4, cpu: || 5, refused: |why| panic!("{why}") }
}

/// Frames with storage of their own, which nobody else can name.
macro_rules! frames {
    ($config:expr) => {{
        static STORAGE: Storage<{ $config.lines() }> = Storage::new();
        static FRAMES: Frames = Frames::new($config, &STORAGE);
        &FRAMES
    }};
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

#[test]
fn the_storage_is_what_the_zone_needs() {
    for shift in 12..44 {
        for memory in [1usize << shift, (1 << shift) + 4096, (3 << shift) - 4096] {
            for cpus in [1, 2, 200] {
                let zone = ZoneConfig::new(memory >> 12, cpus);
                let size = LLFree::<Base4K>::metadata_size(&zone).expect("a good zone");
                let needed = (size.durable + size.volatile).div_ceil(64);
                let has = Config { cpus, ..config(memory) }.lines();
                assert!(has >= needed, "{has} lines for {needed}, {memory} bytes");
                let most = needed + needed / 100 + 64;
                assert!(has <= most, "{has} lines for {needed}, {memory} bytes");
            }
        }
    }
    // What the documents say.
    assert_eq!(config(64 * GIB).lines() * 64 / 1024, 2317);
}

#[test]
fn ranges_come_at_any_time_and_anywhere() {
    let frames = frames!(config(64 * GIB));
    let one = layout(4096, 4096);
    assert_eq!(frames.alloc(one), None, "before there is memory");
    assert_eq!(frames.free_bytes(), 0);
    let mut added = 0;
    for (addr, size) in [
        (MIB, 64 * MIB),
        (40 * GIB, GIB),
        (0x1000, 0x9e000),
        (200 * MIB, 4096),
        (64 * GIB - 4096, 4096),
        (7 * GIB, 0),
    ] {
        frames.add_free_memory(addr, size);
        added += size;
        assert_eq!(frames.free_bytes(), added);
    }
    let got: Vec<usize> = std::iter::from_fn(|| frames.alloc(one)).collect();
    assert_eq!(got.len() * 4096, added);
    for addr in got {
        frames.dealloc(addr, 4096);
    }
    assert_eq!(frames.free_bytes(), added);
}

#[test]
fn layouts_of_every_kind_and_frees_in_any_parts() {
    let frames = frames!(config(GIB));
    frames.add_free_memory(0, 512 * MIB);
    for (size, align) in [
        (4096, 1),
        (4096, 2 * MIB),
        (12288, 4096),
        (2 * MIB, 2 * MIB),
        (3 * MIB, 65536),
        (4 * MIB, 4096),
        (100 * MIB, 64 * MIB),
        (512 * MIB, 512 * MIB),
    ] {
        let addr = frames.alloc(layout(size, align)).expect("so much is free");
        assert!(addr.is_multiple_of(align));
        assert_eq!(frames.free_bytes(), 512 * MIB - size);
        let half = size / 8192 * 4096;
        frames.dealloc(addr + half, size - half);
        frames.dealloc(addr, half);
        assert_eq!(frames.free_bytes(), 512 * MIB);
    }
    assert_eq!(frames.alloc(layout(512 * MIB + 4096, 4096)), None);
    assert_eq!(frames.alloc(layout(4096, 1 << 40)), Some(0), "zero is aligned to everything");
    assert_eq!(frames.alloc(layout(4096, 1 << 40)), None);
}

#[test]
fn a_block_that_is_not_aligned_is_found() {
    let frames = frames!(config(GIB));
    frames.add_free_memory(4096, 8192);
    assert_eq!(frames.alloc(layout(8192, 4096)), Some(4096));
    frames.dealloc(4096, 8192);
    assert_eq!(frames.alloc(layout(8192, 8192)), None);
}

/// What the hook was told, by the only test that uses it.
static TOLD: Mutex<Vec<Refused>> = Mutex::new(Vec::new());

#[test]
fn wrong_calls_are_told_and_change_nothing() {
    let frames = frames!(Config {
        refused: |why| TOLD.lock().expect("nobody panics here").push(why),
        ..config(GIB)
    });
    let last = || TOLD.lock().expect("nobody panics here").pop();

    frames.dealloc(4096, 4096);
    assert_eq!(last(), Some(Refused::Early { addr: 4096, size: 4096 }));
    frames.add_free_memory(MIB, MIB);
    let free = |addr, size, cause| Some(Refused::Free { addr, size, cause });
    let frame = |addr: usize| FrameId(addr >> 12);

    frames.add_free_memory(MIB, 2 * MIB);
    assert_eq!(last(), free(MIB, 2 * MIB, FreeError::NotAllocated(frame(MIB))));
    frames.dealloc(MIB - 4096, 8192);
    assert_eq!(last(), free(MIB - 4096, 8192, FreeError::NotAllocated(frame(MIB))));
    frames.dealloc(2 * GIB, 4096);
    assert_eq!(last(), free(2 * GIB, 4096, FreeError::OutOfRange(frame(2 * GIB))));
    for (addr, size) in [(MIB + 1, 4096), (4096, 100), (usize::MAX - 4095, 8192)] {
        frames.dealloc(addr, size);
        assert_eq!(last(), Some(Refused::NotFrames { addr, size }));
        frames.add_free_memory(addr, size);
        assert_eq!(last(), Some(Refused::NotFrames { addr, size }));
    }
    for (wrong, cause) in [(layout(100, 4096), None), (layout(0, 4096), Some(AllocError::NoFrames))]
    {
        assert_eq!(frames.alloc(wrong), None);
        let size = wrong.size();
        let alloc = cause.map(|cause| Refused::Alloc { layout: wrong, cause });
        assert_eq!(last(), alloc.or(Some(Refused::NotFrames { addr: 0, size })));
    }
    assert_eq!(frames.free_bytes(), MIB);

    // The part below the limit is added, the other one is told.
    frames.add_free_memory(GIB - MIB, 3 * MIB);
    assert_eq!(last(), Some(Refused::Beyond { addr: GIB, size: 2 * MIB }));
    assert_eq!(frames.free_bytes(), 2 * MIB);
    frames.add_free_memory(8 * GIB, MIB);
    assert_eq!(last(), Some(Refused::Beyond { addr: 8 * GIB, size: MIB }));
    assert_eq!(frames.alloc(layout(GIB, 4096)), None, "which is no wrong call");
    assert_eq!((last(), frames.free_bytes()), (None, 2 * MIB));
}

#[test]
fn zones_that_cannot_be_made_are_told() {
    static STORAGE: Storage<1000> = Storage::new();
    let frames = |config| Frames::new(config, &STORAGE);
    let start = |config| frames(config).try_add(0, 4096);
    assert_eq!(start(config(0)), Err(Refused::Start(InitError::EmptyZone)));
    let none = Config { cpus: 0, ..config(GIB) };
    assert_eq!(start(none), Err(Refused::Start(InitError::NoSlots)));
    for memory in [4 * GIB, usize::MAX] {
        let short = start(config(memory));
        assert!(matches!(short, Err(Refused::Start(InitError::Short { .. }))), "{short:?}");
    }
    // None of them has kept the storage; this one does.
    let first = frames(config(GIB));
    assert_eq!(first.try_add(0, 4096), Ok(()));
    assert_eq!(start(config(GIB)), Err(Refused::StorageTaken));
    assert_eq!(
        (first.free_bytes(), first.zone().map(|zone| zone.stats().free_frames)),
        (4096, Some(1))
    );
}

#[test]
fn threads_add_and_use_memory_at_once() {
    let frames = frames!(config(4 * GIB));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for part in 0..16 {
                    frames.add_free_memory((part * 8 + thread) * 16 * MIB, 16 * MIB);
                    let sizes = [4096, 8192, 12288, 2 * MIB, 5 * MIB, 4096 * 7];
                    let got = sizes.map(|size| frames.alloc(layout(size, 4096)).expect("free"));
                    got.into_iter().zip(sizes).for_each(|(addr, size)| frames.dealloc(addr, size));
                }
            });
        }
    });
    assert_eq!(frames.free_bytes(), 2 * GIB);
}
