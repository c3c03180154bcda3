//! The traits of the `x86_64` crate over a zone.

use std::collections::HashSet;

use woodlot_frame::{
    AllocError, Base4K, Class, ClassPolicy, FrameAllocator as _, FrameId, FreeError, Init, Order,
    Owned, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_x86_64::{BadZone, Frames, Refused};
use x86_64::PhysAddr;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB,
};

type Zone = Owned<LLFree<'static, Base4K>>;

fn zone(start: usize, frames: usize) -> Zone {
    let config = ZoneConfig::new(frames, 4).starting_at(FrameId(start));
    Zone::new(&config, Init::Free).expect("the zone is made")
}

fn frames(zone: &Zone, slot: usize) -> Frames<'_, LLFree<'static, Base4K>> {
    // SAFETY: nothing here reads or writes the frames.
    unsafe { Frames::new(&**zone, Slot(slot), Class::IMMOVABLE) }.expect("a good zone")
}

/// Takes every frame of a size, and gives all back; how many there were.
fn all<S: PageSize>(zone: &Zone) -> usize
where
    for<'a> Frames<'a, LLFree<'static, Base4K>>: FrameAllocator<S> + FrameDeallocator<S>,
{
    let before = zone.stats();
    let mut frames = frames(zone, 0);
    let got: Vec<PhysFrame<S>> = std::iter::from_fn(|| frames.allocate_frame()).collect();
    let different: HashSet<u64> = got.iter().map(|frame| frame.start_address().as_u64()).collect();
    assert_eq!(different.len(), got.len());
    let inside = zone.zone().range();
    for &address in &different {
        assert!(address.is_multiple_of(S::SIZE));
        let first = FrameId::containing::<Base4K>(address);
        let last = FrameId::containing::<Base4K>(address + (S::SIZE - 1));
        assert!(inside.contains(&first) && inside.contains(&last));
    }
    for &frame in &got {
        // SAFETY: nobody uses the frame.
        unsafe { frames.deallocate_frame(frame) };
    }
    assert_eq!(frames.take_refused(), None);
    assert_eq!(zone.stats().free_frames, before.free_frames);
    got.len()
}

#[test]
fn every_frame_of_every_size_is_had_and_returns() {
    // 3 GiB and 6 MiB, from 1 MiB on: of two gigabytes that are whole.
    let zone = zone(256, (3 << 18) + 1536);
    assert_eq!(all::<Size4KiB>(&zone), (3 << 18) + 1536);
    assert_eq!(all::<Size2MiB>(&zone), 1538);
    assert_eq!(all::<Size1GiB>(&zone), 2);
}

#[test]
fn a_gigabyte_is_found_beside_what_is_in_use() {
    let zone = zone(0, 4 << 18);
    let taken = |frame| zone.alloc(Request::immovable(Order(0), Slot(0)).at(FrameId(frame)));
    taken(0).and(taken(3 << 18)).expect("both are free");
    assert_eq!(all::<Size1GiB>(&zone), 2);
    taken(1 << 18).and(taken((3 << 18) - 1)).expect("both are free");
    assert_eq!(frames(&zone, 1).alloc::<Size1GiB>(), Err(AllocError::OutOfMemory));
}

#[test]
fn a_huge_frame_may_be_freed_in_parts() {
    let zone = zone(0, 1024);
    let mut frames = frames(&zone, 0);
    let huge: PhysFrame<Size2MiB> = frames.allocate_frame().expect("one is free");
    for n in 0..512 {
        let part = PhysFrame::<Size4KiB>::containing_address(huge.start_address() + n * 4096);
        // SAFETY: nobody uses the frame.
        unsafe { frames.deallocate_frame(part) };
    }
    assert_eq!((frames.take_refused(), zone.stats().free_huge), (None, 2));
}

#[test]
fn wrong_frees_change_nothing_and_are_told() {
    let zone = zone(512, 1024);
    let mut frames = frames(&zone, 0);
    let at = |address| PhysFrame::<Size4KiB>::containing_address(PhysAddr::new(address));
    let wrong = [
        (at(512 << 12), FreeError::NotAllocated(FrameId(512))),
        (at(0), FreeError::OutOfRange(FrameId(0))),
        (at(1536 << 12), FreeError::OutOfRange(FrameId(1536))),
        (at((1 << 52) - 1), FreeError::OutOfRange(FrameId((1 << 40) - 1))),
    ];
    for (frame, cause) in wrong {
        assert_eq!(frames.free(frame), Err(cause));
        // SAFETY: nobody uses the frame.
        unsafe { frames.deallocate_frame(frame) };
        let start = FrameId::containing::<Base4K>(frame.start_address().as_u64());
        let refused = frames.take_refused();
        assert_eq!(refused, Some(Refused { frame: start, frames: 1, cause }));
        assert_eq!((frames.take_refused(), zone.stats().free_frames), (None, 1024));
    }
    let refused = Refused { frame: FrameId(7), frames: 512, cause: FreeError::Unsupported };
    let said = "512 frames from 0x7 on were not freed: this engine cannot do this";
    assert_eq!(refused.to_string(), said);
}

#[test]
fn zones_that_the_crate_cannot_name_are_refused() {
    let slots = ZoneConfig::new(1, 1).with_classes(ClassPolicy::SINGLE);
    let end = FrameId(1 << 40);
    let new = |config: ZoneConfig, slot, class| {
        let zone = Zone::new(&config, Init::Free).expect("the zone is made");
        // SAFETY: nothing here reads or writes the frames.
        unsafe { Frames::new(&*zone, Slot(slot), class) }.map(|_| ()).map_err(|why| why.to_string())
    };
    assert_eq!(new(slots, 0, Class::MOVABLE), Ok(()));
    assert_eq!(new(slots, 1, Class::MOVABLE), Err(BadZone::BadSlot(Slot(1)).to_string()));
    let class = Class::IMMOVABLE;
    assert_eq!(new(slots, 0, class), Err(BadZone::BadClass(class).to_string()));
    assert_eq!(new(slots.starting_at(FrameId(end.0 - 1)), 0, Class::MOVABLE), Ok(()));
    let high = "the zone reaches to frame 0x10000000000, beyond 52 bits of address";
    assert_eq!(new(slots.starting_at(end), 0, Class::MOVABLE), Err(high.into()));
}

#[test]
fn cpus_share_a_zone() {
    let zone = zone(0, 1 << 16);
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let mut frames = frames(&zone, cpu);
            scope.spawn(move || {
                for _ in 0..200 {
                    let got: [Option<PhysFrame<Size4KiB>>; 50] =
                        std::array::from_fn(|_| frames.allocate_frame());
                    let huge: Option<PhysFrame<Size2MiB>> = frames.allocate_frame();
                    // SAFETY: nobody uses the frames.
                    unsafe {
                        got.into_iter().flatten().for_each(|frame| frames.deallocate_frame(frame));
                        huge.into_iter().for_each(|frame| frames.deallocate_frame(frame));
                    }
                }
                assert_eq!(frames.take_refused(), None);
            });
        }
    });
    assert_eq!((zone.stats().free_frames, zone.stats().free_huge), (1 << 16, 128));
}
