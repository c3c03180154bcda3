//! LLFree with write-backs: it answers as without them, and leaves the same durable memory.
//!
//! What a loss of power leaves is simulated: `cargo xtask persist`.
#![cfg(not(miri))]

use fastrand::Rng;
use woodlot_frame::{
    Adr, Base4K, Batch, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, Order, Owned,
    Persistence, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;

/// The answers to random calls, and the durable memory at the end.
fn history<A: Construct + FrameAllocator>(config: &ZoneConfig) -> (Vec<String>, Vec<u8>) {
    let mut rng = Rng::with_seed(7);
    let mut zone = Owned::<A>::new(config, Init::Free).expect("a zone");
    let (mut owned, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        let (slot, order) = (Slot(rng.usize(..config.slots)), Order(rng.u8(..=10)));
        let request = Request::movable(order, slot);
        match rng.u8(..8) {
            0..3 => {
                let answer = zone.alloc(request);
                owned.extend(answer.iter().map(|&frame| (frame, order)));
                answers.push(format!("{answer:?}"));
            }
            3 => {
                let mut out = [FrameId(0); 40];
                let answer =
                    zone.alloc_batch(Request::movable(Order(0), slot), Batch::UpTo, &mut out);
                owned.extend(out.iter().take(answer.unwrap_or(0)).map(|&frame| (frame, Order(0))));
                answers.push(format!("{answer:?}"));
            }
            4 => {
                let huge = HugeId(rng.usize(..config.frames / Base4K::HUGE_FRAMES));
                answers.push(format!("{:?}", (zone.offline(huge, 1), zone.online(huge, 1))));
            }
            _ if !owned.is_empty() => {
                let (frame, order) = owned.swap_remove(rng.usize(..owned.len()));
                // A half of some blocks is freed alone.
                let part = Order(order.0.saturating_sub(rng.u8(..2)));
                if part < order {
                    owned.push((FrameId(frame.0 + part.frames()), part));
                }
                answers.push(format!("{:?}", zone.free(frame, part, slot)));
            }
            _ => {}
        }
    }
    let mut durable = Vec::new();
    zone.recover(config).expect("it can be recovered");
    answers.push(format!("{:?}", zone.stats()));
    zone.edit_durable(|bytes| durable = bytes.to_vec());
    (answers, durable)
}

#[test]
fn write_backs_change_no_answer_and_no_word() {
    if Adr::detect().is_none() {
        println!("this processor has no write-back that is known here");
        return;
    }
    for frames in [4096, 3 * Base4K::TREE_FRAMES / 2 + 77] {
        let config = ZoneConfig::new(frames, 3);
        let plain = history::<LLFree<'static, Base4K>>(&config);
        assert!(plain == history::<LLFree<'static, Base4K, Adr>>(&config), "{frames} frames");
    }
}
