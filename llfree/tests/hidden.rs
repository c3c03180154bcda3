//! Nothing is hidden where every call has come to its end, however many ran at once.

use std::thread;

use fastrand::Rng;
use woodlot_frame::{
    Base4K, Base64K, Class, FrameAllocator, FrameId, Geometry, HugeId, Init, Order, Owned, Request,
    Slot, ZoneConfig,
};
use woodlot_llfree::{Hidden, LLFree};

/// Random calls of a thread, all on slots that the others use as well; frees half of what it has left.
fn churn<G: Geometry>(zone: &LLFree<'_, G>, mut rng: Rng) {
    let mut blocks: Vec<(FrameId, Order)> = Vec::new();
    for call in 0..4000 {
        let slot = Slot(rng.usize(..2));
        let order = Order(if rng.bool() { 0 } else { rng.u8(..=G::MAX_ORDER as u8) });
        if call % 500 == 0 {
            zone.drain(slot).expect("a slot");
            let huge = HugeId(rng.usize(..2 * G::TREE_HUGE));
            let _ = zone.offline(huge, 1).and_then(|()| zone.online(huge, 1));
        } else if rng.u8(..5) < 3 {
            let block = zone.alloc(Request::new(order, Class(rng.u8(..4)), slot));
            blocks.extend(block.map(|frame| (frame, order)));
        } else if !blocks.is_empty() {
            let (frame, order) = blocks.swap_remove(rng.usize(..blocks.len()));
            zone.free(frame, order, slot).expect("it is allocated");
        }
    }
    for (frame, order) in blocks.into_iter().step_by(2) {
        zone.free(frame, order, Slot(0)).expect("it is allocated");
    }
}

fn hides_nothing<G: Geometry>() {
    let config = ZoneConfig::new(3 * G::TREE_FRAMES + 77, 2).starting_at(FrameId(5));
    for seed in 0..4 {
        let zone = Owned::<LLFree<'static, G>>::new(&config, Init::Free).expect("a zone");
        for round in 0..4 {
            thread::scope(|scope| {
                (0..2).for_each(|thread| {
                    let rng = Rng::with_seed(seed * 100 + round * 10 + thread);
                    drop(scope.spawn(|| churn::<G>(&zone, rng)));
                });
            });
            assert_eq!(zone.hidden(), Hidden::default(), "seed {seed}, round {round}");
            (0..2).for_each(|slot| zone.drain(Slot(slot)).expect("a slot"));
            assert_eq!(zone.hidden(), Hidden::default(), "seed {seed}, round {round}");
        }
    }
}

#[test]
fn nothing_is_hidden_when_all_calls_have_returned() {
    hides_nothing::<Base4K>();
    hides_nothing::<Base64K>();
}
