//! What readers and checkers found, each as the call that showed it.

mod memory;

use std::collections::BTreeSet;

use woodlot_frame::{
    Base4K, Construct, FrameAllocator, FrameId, Geometry, Init, Order, Owned, Request, Slot,
    ZoneConfig,
};
use woodlot_llfree::LLFree;
use woodlot_suite::Engine;
use woodlot_suite::checks::{init, recovery};
use woodlot_suite::short::Small;

use memory::Memory;

/// Huge frames of eight base frames, `T` of them in a tree.
type Trees<const T: usize> = Small<3, T>;

/// Every huge frame of four trees is had once.
fn every_huge_frame_once<const T: usize>() {
    let config = ZoneConfig::new(4 * T * Trees::<T>::HUGE_FRAMES, 1);
    let mut memory = Memory::of::<LLFree<Trees<T>>>(&config);
    // SAFETY: the memory is aligned, initialised, and outlives the zone, which alone uses it.
    let zone = unsafe { LLFree::<Trees<T>>::construct(&config, memory.metadata(), Init::Free) };
    let zone = zone.expect("a zone");
    let request = Request::movable(Order(3), Slot(0));
    let frames: Vec<FrameId> = std::iter::from_fn(|| zone.alloc(request).ok()).collect();
    let distinct: BTreeSet<FrameId> = frames.iter().copied().collect();
    assert_eq!((frames.len(), distinct.len()), (4 * T, 4 * T));
    assert!(distinct.iter().all(|frame| frame.0 < config.frames));
}

/// Trees smaller than a state word were given the bits of their neighbours, and those that need one
/// word of states what was in the second.
#[test]
fn trees_of_any_size() {
    every_huge_frame_once::<2>();
    every_huge_frame_once::<4>();
    every_huge_frame_once::<8>();
    every_huge_frame_once::<16>();
    every_huge_frame_once::<32>();
}

/// What such trees begin with, and are recovered to, does not depend on what was in their memory.
fn any_memory_will_do<const T: usize>() {
    let engine = Engine::of::<LLFree<Trees<T>>>();
    init::dirty_metadata_is_as_good_as_new(engine);
    let config = ZoneConfig::new(3 * T * Trees::<T>::HUGE_FRAMES - 3, 2);
    recovery::garbage_in(engine, &config, 710);
}

#[test]
fn trees_of_any_size_in_any_memory() {
    any_memory_will_do::<2>();
    any_memory_will_do::<4>();
    any_memory_will_do::<8>();
    any_memory_will_do::<16>();
    any_memory_will_do::<32>();
}

/// A huge frame that is free, but whose credits three slots hold between them, is available.
#[test]
fn available_in_parts() {
    let zone = Owned::<LLFree<'static, Base4K>>::new(&ZoneConfig::new(512, 4), Init::Free)
        .expect("a zone");
    let alloc = |slot| zone.alloc(Request::movable(Order(0), Slot(slot))).expect("a frame");
    let free = |frame, slot| zone.free(frame, Order(0), Slot(slot)).expect("it is allocated");
    let frames: Vec<FrameId> = (0..512).map(|_| alloc(0)).collect();
    frames[..171].iter().for_each(|&frame| free(frame, 3));
    let one = alloc(1);
    frames[171..342].iter().for_each(|&frame| free(frame, 3));
    let two = alloc(2);
    frames[342..].iter().for_each(|&frame| free(frame, 3));
    free(one, 1);
    free(two, 2);
    assert_eq!(zone.stats().free_huge, 1);
    assert!((0..=9).all(|order| zone.is_available(Order(order))));
    assert!(!zone.is_available(Order(10)));
}
