//! Huge frames are isolated, emptied and claimed while others allocate and free.

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{Claim, HugeId, Slot, ZoneConfig};

use super::arena::Arena;
use super::hotplug::beside_work;
use crate::engine::Engine;

/// Two threads isolate huge frames, whatever they are used as, and claim those that are empty; what they have claimed
/// nobody else has.
pub fn huge_frames_are_isolated_while_others_allocate(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    beside_work(engine, 320, |arena, me, rng, chosen| {
        let isolate = |huge: &&HugeId| arena.allocator().isolate(**huge, 1).is_ok();
        let isolated: Vec<_> = chosen.iter().filter(isolate).collect();
        std::thread::yield_now();
        let slot = Slot(rng.usize(..3));
        for &huge in isolated {
            let used = arena.allocator().frames_in_use(huge);
            let claim = if rng.bool() { Claim::Block(slot) } else { Claim::Offline };
            if used == 0 && arena.claim_isolated(me, huge, claim) {
                arena.give_claimed(me, huge, claim);
            } else {
                arena.allocator().unisolate(huge, 1).expect("this very thread has isolated it");
            }
        }
    });
}

/// Threads race to isolate the same huge frames: each has one isolator. The others are told so, and what the one
/// claims nobody else has.
pub fn a_huge_frame_is_isolated_once(engine: Engine) {
    if engine.unsupported.isolation {
        return;
    }
    let config = ZoneConfig::new(engine.tree_frames, 2);
    let arena = Arena::new(engine, &config);
    let won = AtomicU64::new(0);
    let huge_frames = engine.tree_huge;
    arena.run(super::THREADS, |me| {
        for n in 0..huge_frames {
            let huge = HugeId((me as usize * 5 + n) % huge_frames);
            if arena.allocator().isolate(huge, 1).is_ok() {
                won.fetch_add(1, Ordering::Relaxed);
            }
        }
        Vec::new()
    });
    assert_eq!(won.load(Ordering::Relaxed), huge_frames as u64, "each has one isolator");
    let claims = AtomicU64::new(0);
    arena.run(super::THREADS, |me| {
        for huge in (0..huge_frames).map(HugeId) {
            // The owner words of the arena see a second taker.
            if arena.claim_isolated(me, huge, Claim::Offline) {
                claims.fetch_add(1, Ordering::Relaxed);
            }
        }
        Vec::new()
    });
    assert_eq!(claims.load(Ordering::Relaxed), huge_frames as u64, "each is claimed once");
    arena.validate();
    arena.settle(Vec::new());
}
