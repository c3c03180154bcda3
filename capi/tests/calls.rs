//! What the contract suite does not call: the next free run, free blocks, names, numbers, and what is refused.

mod through_c;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use woodlot_capi::types::{self, Blocks, Classes, Counts, Info, MetadataSizes, Sizes};
use woodlot_capi::*;
use woodlot_frame::{
    Base4K, Base16K, Base64K, ClassPolicy, FrameAllocator, FrameId, FreeBlocks, Geometry, HugeId,
    Init, Order, Owned, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;
use woodlot_onewrite::OneWrite;

use through_c::{CZone, Kind, classes, sizes_agree};

/// LLFree with 4 KiB frames.
struct Shipped;

impl Kind for Shipped {
    const NAME: &'static str = "llfree, C";
    const ENGINE: u32 = 0;
    const GEOMETRY: u32 = 0;
    type Engine = LLFree<'static, Base4K>;
}

/// A zone of three huge frames and a half, of which some frames are allocated.
fn scattered() -> Owned<CZone<Shipped>> {
    let config = ZoneConfig::new(3 * 512 + 256, 2).starting_at(FrameId(100));
    let zone = Owned::<CZone<Shipped>>::new(&config, Init::Free).expect("a zone");
    for frame in [100, 101, 163, 512, 900, 1023, 1891] {
        let request = Request::movable(Order::BASE, Slot(0)).at(FrameId(frame));
        zone.alloc(request).expect("it is free");
    }
    zone
}

#[test]
fn free_runs_are_found_one_by_one() {
    let zone = scattered();
    for range in [0..usize::MAX, 0..0, 101..1000, 164..164, 1700..5000, 5000..6000] {
        let expected: Vec<_> = zone.free_runs(FrameId(range.start)..FrameId(range.end)).collect();
        let mut from = range.start;
        for run in expected {
            // SAFETY: the handle was filled.
            let found = unsafe { woodlot_next_free_run(zone.pointer(), from, range.end) };
            assert_eq!((found.start, found.end, found.error), (run.start.0, run.end.0, 0));
            from = found.end;
        }
        // SAFETY: as above.
        let none = unsafe { woodlot_next_free_run(zone.pointer(), from, range.end) };
        assert_eq!((none.start, none.end), (0, 0));
        assert_eq!(Error::of(none.error), Some(Error::NoMore));
    }
}

#[test]
fn free_blocks_are_those_of_the_contract() {
    let zone = scattered();
    let expected = FreeBlocks::of(&*zone);
    let mut blocks = MaybeUninit::<Blocks>::uninit();
    // SAFETY: the handle was filled, and there is room for the answer.
    let blocks = unsafe {
        assert_eq!(woodlot_free_blocks(zone.pointer(), blocks.as_mut_ptr()), 0);
        blocks.assume_init()
    };
    assert_eq!(blocks.largest_run, expected.largest_run);
    for (order, &count) in (0..).zip(&blocks.counts) {
        assert_eq!(count, expected.count(Order(order)), "order {order}");
    }
}

#[test]
fn the_classes_as_shipped() {
    let mut shipped = MaybeUninit::<Classes>::uninit();
    // SAFETY: there is room for the answer.
    let shipped = unsafe {
        assert_eq!(woodlot_shipped_classes(shipped.as_mut_ptr()), 0);
        shipped.assume_init()
    };
    assert_eq!(classes::policy(&shipped), ClassPolicy::SHIPPED);
}

#[test]
fn names_are_those_of_rust() {
    let text = |text: types::Text| text.get().to_str().expect("a text");
    assert_eq!(text(woodlot_version()), env!("CARGO_PKG_VERSION"));
    assert_eq!(text(woodlot_engine_name(0)), LLFree::<Base4K>::NAME);
    assert_eq!(text(woodlot_engine_name(1)), Nbbs4::<Base4K>::NAME);
    assert_eq!(text(woodlot_engine_name(2)), OneWrite::<Base4K>::NAME);
    let geometries = [Base4K::NAME, Base16K::NAME, Base64K::NAME];
    (0..).zip(geometries).for_each(|(n, name)| assert_eq!(text(woodlot_geometry_name(n)), name));
    for class in 0..woodlot_frame::MAX_CLASSES as u8 {
        let name = woodlot_frame::Class(class).to_string();
        assert_eq!(text(woodlot_class_name(class.into())), name);
    }
    for (name, none) in [
        (woodlot_engine_name(3), "no engine"),
        (woodlot_geometry_name(3), "no geometry"),
        (woodlot_class_name(8), "no class"),
        (woodlot_class_name(u32::MAX), "no class"),
        (woodlot_error_message(0), "no error"),
        (woodlot_error_message(1), "there is no such error"),
        (woodlot_error_message(c_int::MIN), "there is no such error"),
    ] {
        assert_eq!(text(name), none);
    }
}

#[test]
fn every_error_has_its_number_and_its_message() {
    let mut messages = Vec::new();
    for (&error, number) in Error::ALL.iter().zip(1..) {
        assert_eq!((error as c_int, Error::of(-number)), (-number, Some(error)));
        messages.push(woodlot_error_message(-number).get());
    }
    assert_eq!(Error::of(-(Error::ALL.len() as c_int) - 1), None);
    messages.sort();
    messages.dedup();
    assert_eq!(messages.len(), Error::ALL.len(), "two errors say the same");
}

fn conversions<G: Geometry>(number: u32) {
    let frames = [0, 1, 7, 511, 512, 1 << 20, usize::MAX / 2, usize::MAX];
    for frame in frames {
        assert_eq!(woodlot_frame_address(number, frame), FrameId(frame).address::<G>());
        assert_eq!(woodlot_huge_containing(number, frame), FrameId(frame).huge::<G>().0);
        assert_eq!(woodlot_huge_first(number, frame), HugeId(frame).first::<G>().0);
        assert_eq!(woodlot_order_containing(frame), u32::from(Order::containing(frame).0));
    }
    let addresses = [0, 1, 0xfff, 0x1000, 0x9_fc00, 1 << 32, u64::MAX - 1, u64::MAX];
    for start in addresses {
        assert_eq!(woodlot_frame_containing(number, start), FrameId::containing::<G>(start).0);
        for end in addresses {
            let (run, inside) =
                (woodlot_frames_inside(number, start, end), FrameId::inside::<G>(start..end));
            assert_eq!((run.start, run.end, run.error), (inside.start.0, inside.end.0, 0));
        }
    }
    let mut sizes = MaybeUninit::<Sizes>::uninit();
    // SAFETY: there is room for the answer.
    sizes_agree::<G>(unsafe {
        assert_eq!(woodlot_sizes(number, sizes.as_mut_ptr()), 0);
        sizes.assume_init_ref()
    });
}

#[test]
fn conversions_are_those_of_rust() {
    conversions::<Base4K>(0);
    conversions::<Base16K>(1);
    conversions::<Base64K>(2);
    let orders = [(0, 1), (9, 512), (63, 1 << 63), (64, 0), (255, 0), (256, 0), (u32::MAX, 0)];
    for (order, frames) in orders {
        assert_eq!(woodlot_order_frames(order), frames, "order {order}");
    }
    for none in [3, u32::MAX] {
        assert_eq!(woodlot_frame_address(none, 0), u64::MAX);
        assert_eq!(woodlot_frame_containing(none, 0), usize::MAX);
        assert_eq!(woodlot_huge_containing(none, 0), usize::MAX);
        assert_eq!(woodlot_huge_first(none, 0), usize::MAX);
        let run = woodlot_frames_inside(none, 0, 1 << 20);
        assert_eq!((run.start, run.end, Error::of(run.error)), (0, 0, Some(Error::BadGeometry)));
    }
}

/// What every call says of a pointer that leads to no zone.
fn refused_by_all(zone: *const Zone, expected: Error) {
    let anywhere = types::Place { kind: 0, start: 0, end: 0 };
    let mut frames = [0; 2];
    let (mut info, mut counts, mut blocks) = (
        MaybeUninit::<Info>::uninit(),
        MaybeUninit::<Counts>::uninit(),
        MaybeUninit::<Blocks>::uninit(),
    );
    // SAFETY: the pointer is null, misaligned, or leads to a handle without a zone; all others are good.
    let said = unsafe {
        [
            woodlot_info(zone, info.as_mut_ptr()),
            woodlot_alloc(zone, 0, 0, 0).error,
            woodlot_alloc_placed(zone, 0, 0, 0, anywhere).error,
            woodlot_alloc_range(zone, 1, 0, 0, 0, anywhere).error,
            woodlot_alloc_batch(zone, 0, 0, 0, anywhere, 0, frames.as_mut_ptr(), 2).error,
            woodlot_free(zone, 0, 0, 0),
            woodlot_free_range(zone, 0, 1, 0).error,
            woodlot_free_batch(zone, frames.as_ptr(), 2, 0, 0).error,
            woodlot_can_free(zone, 0, 0, 0),
            woodlot_drain(zone, 0),
            woodlot_offline(zone, 0, 1).error,
            woodlot_online(zone, 0, 1),
            woodlot_is_available(zone, 0),
            woodlot_is_free(zone, 0, 0),
            woodlot_free_frames(zone).error,
            woodlot_free_in_huge(zone, 0).error,
            woodlot_free_map(zone, 0).error,
            woodlot_next_free_run(zone, 0, 1).error,
            woodlot_next_free_huge(zone, 0).error,
            woodlot_last_free_huge(zone, 1).error,
            woodlot_stats(zone, counts.as_mut_ptr()),
            woodlot_free_blocks(zone, blocks.as_mut_ptr()),
        ]
    };
    for (call, error) in said.into_iter().enumerate() {
        assert_eq!(Error::of(error), Some(expected), "call {call}");
    }
}

#[test]
fn what_is_no_zone_is_refused_by_every_call() {
    refused_by_all(ptr::null(), Error::Null);
    let zeros = Box::new(MaybeUninit::<Zone>::zeroed());
    refused_by_all(zeros.as_ptr(), Error::NotAZone);
    refused_by_all(zeros.as_ptr().wrapping_byte_add(8), Error::Unaligned);
    refused_by_all(zeros.as_ptr().wrapping_byte_add(1), Error::Unaligned);
    let mut ones = Box::new(MaybeUninit::<Zone>::uninit());
    // SAFETY: the handle is as long as that.
    unsafe { ones.as_mut_ptr().cast::<u8>().write_bytes(0xff, size_of::<Zone>()) };
    refused_by_all(ones.as_ptr(), Error::NotAZone);
    // An engine and a geometry that there are not, under the right word.
    for kind in [0x03, 0x13, 0x23, 0x30, 0xff] {
        // SAFETY: as above.
        unsafe { ones.as_mut_ptr().cast::<u64>().write(0x574f_4f44_4c4f_5400 | kind) };
        refused_by_all(ones.as_ptr(), Error::NotAZone);
    }
}

#[test]
fn a_handle_is_not_written_by_a_zone_that_is_refused() {
    let mut handle = Box::new(MaybeUninit::<Zone>::zeroed());
    let config = types::Config {
        start: 0,
        frames: 512,
        slots: 1,
        engine: 0,
        geometry: 0,
        classes: ptr::null(),
    };
    let mut need = MetadataSizes { durable_size: 0, volatile_size: 0 };
    let metadata = types::Metadata {
        durable_start: ptr::null_mut(),
        durable_size: 4096,
        volatile_start: ptr::null_mut(),
        volatile_size: 4096,
    };
    // SAFETY: all pointers lead to values of this program, but for the metadata, which is refused.
    let said = unsafe {
        assert_eq!(woodlot_metadata_size(&config, &mut need), 0);
        woodlot_init(handle.as_mut_ptr(), &config, &metadata, 0)
    };
    assert_eq!(Error::of(said), Some(Error::DurableNull));
    // SAFETY: it is initialised memory.
    let bytes = unsafe { *handle.as_ptr().cast::<[u8; size_of::<Zone>()]>() };
    assert!(bytes.iter().all(|&byte| byte == 0));
}
