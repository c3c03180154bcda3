//! The list allocators against the suite's judge. They serve one order, which the suite cannot
//! leave out yet, so the checks that keep to it are made here; those of construction are the
//! suite's own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use woodlot_frame::{
    AllocError, Base4K, Base16K, Base64K, Class, FrameAllocator, FrameId, FreeError, Geometry,
    Init, Order, Owned, Request, Slot, ZoneConfig,
};
use woodlot_rivals::{ListCas, ListLocal, ListLocked};
use woodlot_suite::checks::init;
use woodlot_suite::threads::arena::Arena;
use woodlot_suite::{Checked, Engine, settings, zones};

/// Makes a module of tests for each list: the engine, the order that it serves, how many slots a
/// check of one thread may use, and the checks that only some lists pass.
macro_rules! lists {
    ($($name:ident: $engine:ty, $order:expr, $slots:expr, [$($more:ident),*];)*) => {
        $(mod $name {
            use super::*;
            const ENGINE: Engine = Engine::of::<$engine>();
            const ORDER: Order = Order($order as u8);

            #[test]
            fn bad_zones_are_refused() {
                init::bad_zones_are_refused(ENGINE);
            }

            #[test]
            fn bad_metadata_is_refused_and_untouched() {
                init::bad_metadata_is_refused_and_untouched(ENGINE);
            }

            #[test]
            fn metadata_sizes_are_sensible() {
                init::metadata_sizes_are_sensible(ENGINE);
            }

            #[test]
            fn zones_are_used_to_the_last_block() {
                super::zones_are_used_to_the_last_block(ENGINE, ORDER, $slots);
            }

            #[test]
            fn wrong_calls_are_refused() {
                super::wrong_calls_are_refused(ENGINE, ORDER, $slots);
            }

            #[test]
            fn random_calls_agree_with_the_model() {
                super::random_calls_agree_with_the_model(ENGINE, ORDER, $slots);
            }

            #[test]
            fn nobody_owns_a_frame_twice() {
                super::nobody_owns_a_frame_twice(ENGINE, ORDER);
            }

            $(#[test]
            fn $more() {
                super::$more(ENGINE, ORDER);
            })*
        })*
    };
}

lists! {
    locked: ListLocked<Base4K>, 0, 3,
        [every_free_is_remote, slots_share_all, of_two_racing_frees_one_succeeds];
    cas: ListCas<Base4K>, 0, 3, [every_free_is_remote, slots_share_all];
    local: ListLocal<Base4K>, 0, 1, [slots_keep_to_themselves];
    locked_huge: ListLocked<Base4K, 9>, 9, 3,
        [every_free_is_remote, slots_share_all, of_two_racing_frees_one_succeeds];
    cas_huge: ListCas<Base16K, 11>, 11, 3, [every_free_is_remote, slots_share_all];
    local_huge: ListLocal<Base64K, 5>, 5, 1, [slots_keep_to_themselves];
    locked_base64k: ListLocked<Base64K>, 0, 3, [slots_share_all];
    cas_base64k: ListCas<Base64K>, 0, 3, [slots_share_all];
    local_base16k: ListLocal<Base16K>, 0, 1, [slots_keep_to_themselves];
}

const THREADS: usize = 4;

/// Zones of whole blocks: of any frames for order 0.
fn whole_zones(engine: Engine, order: Order, slots: usize) -> Vec<ZoneConfig> {
    let zones = match order {
        Order(0) => zones::ragged(engine),
        _ => [1, 2, 7, 32, 40].map(|n| zones::huges(engine, n, slots)).into(),
    };
    zones.into_iter().map(|config| ZoneConfig { slots, ..config }).collect()
}

/// Takes every block and gives them back in random order through random slots, in every zone.
fn zones_are_used_to_the_last_block(engine: Engine, order: Order, slots: usize) {
    let mut rng = settings::rng(900);
    for config in whole_zones(engine, order, slots) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        zone.validate();
        for class in config.classes.all() {
            let blocks = zone.fill(order, class, Slot(slots - 1));
            assert_eq!(blocks.len() << order.0, config.frames);
            zone.validate_counts();
            zone.give_all(blocks.into_iter().map(|frame| (frame, order)).collect(), &mut rng);
        }
        zone.validate();
    }
}

/// Every other order is unsupported, and what is wrong in the served order has its own error.
fn wrong_calls_are_refused(engine: Engine, order: Order, slots: usize) {
    let config = zones::huges(engine, 6, slots);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let block = zone.take(order, Slot(0));
    for other in engine.orders().filter(|&other| other != order) {
        let answer = zone.allocator().alloc(Request::movable(other, Slot(0)));
        assert_eq!(answer, Err(AllocError::Unsupported));
        let around = FrameId(block.0 & !(other.frames() - 1));
        assert_eq!(zone.allocator().free(around, other, Slot(0)), Err(FreeError::Unsupported));
    }
    for frame in [config.end().0, config.end().0 - 1, block.0 + 1, usize::MAX, 1 << 62] {
        let _ = zone.free(FrameId(frame), order, Slot(0));
    }
    let _ = zone.free(block, order, Slot(slots));
    let _ = zone.free(block, Order(255), Slot(0));
    let _ = zone.drain(Slot(slots));
    let _ = zone.alloc(Request::movable(order, Slot(slots)));
    let _ = zone.alloc(Request::movable(Order(255), Slot(0)));
    let _ = zone.alloc(Request::new(order, Class(9), Slot(0)));
    let _ = zone.alloc(Request::movable(order, Slot(0)).at(FrameId(0)));
    zone.validate();
    zone.give(block, order, Slot(0));
    assert_eq!(zone.free(block, order, Slot(0)), Err(FreeError::NotAllocated(block)));
    zone.validate();
    for init in [Init::Allocated, Init::Recover] {
        let answer = engine.zone(&config, init).err();
        assert_eq!(answer, Some(woodlot_frame::InitError::Unsupported));
    }
}

/// Random calls, double frees among them, each judged.
fn random_calls_agree_with_the_model(engine: Engine, order: Order, slots: usize) {
    let mut rng = settings::rng(901);
    for config in whole_zones(engine, order, slots).into_iter().step_by(4) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        let mut blocks = Vec::new();
        for _ in 0..settings::ops() {
            let slot = Slot(rng.usize(..slots));
            match rng.u8(..5) {
                0 => {
                    let block = rng.usize(..config.frames >> order.0) << order.0;
                    let frame = FrameId(config.start.0 + block);
                    if zone.free(frame, order, slot).is_ok() {
                        blocks.retain(|&taken| taken != frame);
                    }
                }
                1 | 2 if !blocks.is_empty() => {
                    zone.give(blocks.swap_remove(rng.usize(..blocks.len())), order, slot);
                }
                _ => blocks.extend(zone.alloc(Request::movable(order, slot))),
            }
        }
        zone.validate();
    }
}

/// Threads on slots of their own; then everything is free, and each slot's share can be had.
fn nobody_owns_a_frame_twice(engine: Engine, order: Order) {
    let blocks = 24 * THREADS;
    let arena = Arena::new(engine, &ZoneConfig::new(blocks << order.0, THREADS));
    let owned = arena.run(THREADS, |me| {
        let slot = Slot(me as usize - 1);
        let mut rng = settings::rng(910 + u64::from(me));
        let mut mine = Vec::new();
        for _ in 0..settings::ops() {
            if rng.bool() {
                mine.extend(arena.alloc(me, Request::movable(order, slot)));
            } else if !mine.is_empty() {
                arena.free(me, mine.swap_remove(rng.usize(..mine.len())), slot);
            }
        }
        mine
    });
    arena.validate();
    for (me, block) in owned {
        arena.free(me, block, Slot(me as usize - 1));
    }
    arena.validate();
    let request = |n: usize| Request::movable(order, Slot(n % THREADS));
    let all = (0..blocks).filter(|&n| arena.alloc(1, request(n)).is_some()).count();
    assert_eq!(all, blocks);
    arena.validate();
}

/// Half of the threads allocates, the other half frees, through slots that they share.
fn every_free_is_remote(engine: Engine, order: Order) {
    let blocks = 50;
    let arena = Arena::new(engine, &ZoneConfig::new(blocks << order.0, 2));
    arena.run(THREADS, |me| {
        let slot = Slot(me as usize % 2);
        for _ in 0..settings::ops() {
            if me % 2 == 0 {
                if let Some(block) = arena.alloc(me, Request::movable(order, slot)) {
                    arena.send(me, block);
                }
            } else if let Some(block) = arena.receive(me) {
                arena.free(me, block, slot);
            }
        }
        Vec::new()
    });
    while let Some(block) = arena.receive(1) {
        arena.free(1, block, Slot(0));
    }
    arena.validate();
}

/// What one slot freed any other can have.
fn slots_share_all(engine: Engine, order: Order) {
    let mut zone = Checked::new(engine, &ZoneConfig::new(9 << order.0, 3), Init::Free);
    let blocks = zone.fill(order, Class::MOVABLE, Slot(0));
    for (n, &block) in blocks.iter().enumerate() {
        zone.give(block, order, Slot(n % 3));
        assert_eq!(zone.take(order, Slot((n + 1) % 3)), block);
    }
    zone.validate();
}

/// Slots have equal shares; what one frees no other finds, drained or not.
fn slots_keep_to_themselves(engine: Engine, order: Order) {
    let config = ZoneConfig::new(10 << order.0, 3);
    let zone = engine.zone(&config, Init::Free).expect("it is legal");
    let a = zone.allocator();
    let shares = [0, 1, 2].map(|slot| {
        std::iter::from_fn(|| a.alloc(Request::movable(order, Slot(slot))).ok()).collect::<Vec<_>>()
    });
    assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 4]);
    assert_eq!(a.free_frames(), 0);
    a.free(shares[0][0], order, Slot(2)).expect("it is allocated");
    a.drain(Slot(2)).expect("the slot exists");
    assert_eq!(a.alloc(Request::movable(order, Slot(0))), Err(AllocError::OutOfMemory));
    assert!(a.is_available(order) && a.is_free(shares[0][0], order));
    assert_eq!(a.alloc(Request::movable(order, Slot(2))), Ok(shares[0][0]));
}

/// Two threads free the same block at once: exactly one succeeds.
fn of_two_racing_frees_one_succeeds(engine: Engine, order: Order) {
    let arena = Arena::new(engine, &ZoneConfig::new(60 << order.0, 2));
    let take = |_| arena.alloc(1, Request::movable(order, Slot(0))).expect("there is room");
    let blocks: Vec<_> = (0..60).map(take).collect();
    blocks.iter().for_each(|&block| arena.disown(1, block));
    let (barrier, successes) = (Barrier::new(2), AtomicUsize::new(0));
    arena.run(2, |me| {
        for &(frame, _) in &blocks {
            barrier.wait();
            match arena.allocator().free(frame, order, Slot(me as usize - 1)) {
                Ok(()) => drop(successes.fetch_add(1, Relaxed)),
                Err(error) => assert_eq!(error, FreeError::NotAllocated(frame)),
            }
        }
        Vec::new()
    });
    assert_eq!(successes.load(Relaxed), blocks.len());
    arena.validate();
}

/// Frames at the ends that make up no block are nobody's.
#[test]
fn incomplete_blocks_are_never_free() {
    let huge = Base4K::HUGE_FRAMES;
    let config = ZoneConfig::new(3 * huge, 1).starting_at(FrameId(huge - 1));
    let a = Owned::<ListCas<Base4K, 9>>::new(&config, Init::Free).expect("it is legal");
    assert_eq!((a.free_frames(), a.stats().free_frames, a.stats().free_huge), (1024, 1024, 2));
    assert!(!a.is_free(FrameId(huge - 1), Order(0)));
    assert_eq!(a.free(FrameId(huge - 1), Order(0), Slot(0)), Err(FreeError::Unsupported));
    let taken = [0, 1].map(|_| a.alloc(Request::movable(Order(9), Slot(0))));
    assert_eq!(taken, [Ok(FrameId(huge)), Ok(FrameId(2 * huge))]);
    assert_eq!(a.alloc(Request::movable(Order(9), Slot(0))), Err(AllocError::OutOfMemory));
}
