//! The daemon on a thread of its own, and how it ends.

use std::alloc::{Layout, alloc_zeroed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use woodlot_compact::{
    Asks, Background, Block, Lookup, Patience, Refusal, Relocate, Settings, alloc_or_ask,
};
use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, Order,
    RawMetadata, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;

type Zone = LLFree<'static, Base4K>;

/// Four huge frames, of which each has 16 frames in use. Its metadata stays for the rest of the process.
fn zone() -> Arc<Zone> {
    let config = ZoneConfig::new(4 * Base4K::HUGE_FRAMES, 2);
    let size = Zone::metadata_size(&config).expect("such zones can be");
    let part = |bytes| {
        let layout = Layout::from_size_align(bytes, 4096).expect("it is small");
        // SAFETY: no part of the metadata is empty.
        (unsafe { alloc_zeroed(layout) }, bytes)
    };
    let metadata = RawMetadata { durable: part(size.durable), volatile: part(size.volatile) };
    // SAFETY: the memory is fresh, so long and aligned, nobody else has it, and it is never freed.
    let zone =
        unsafe { Zone::construct(&config, metadata, Init::Free) }.expect("such zones can be");
    for frame in (0..config.frames).step_by(32) {
        zone.alloc(Request::movable(Order(0), Slot(0)).at(FrameId(frame))).expect("it is free");
    }
    Arc::new(zone)
}

/// Each frame is a block. Its calls panic, or nothing moves.
struct Owner {
    panics_in: &'static str,
}

impl Relocate for Owner {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        assert_ne!(self.panics_in, "block_at");
        Lookup::Movable(Block { first: frame, order: Order(0), class: Class::MOVABLE })
    }

    fn relocate(&mut self, _: Block, _: FrameId) -> Result<(), Refusal> {
        assert_ne!(self.panics_in, "relocate");
        Err(Refusal::Pinned)
    }
}

/// Waits for a huge frame, as long as it takes.
fn wait_for_a_huge_frame(zone: &Zone, asks: &Asks, background: &Background) {
    let request = Request::movable(Order(9), Slot(0));
    let refused = alloc_or_ask(zone, request, asks, Patience::Wait, || {
        background.wake();
        sleep(Duration::from_millis(1));
        true
    });
    assert_eq!(refused, Err(AllocError::OutOfMemory));
}

#[test]
fn who_waits_for_a_thread_that_panics_is_answered() {
    for panics_in in ["block_at", "relocate"] {
        for is_stopped in [true, false] {
            let zone = zone();
            let settings = Settings { moves: 0, ..Settings::new(Slot(1)) };
            let owner = Owner { panics_in };
            let background =
                Background::start(settings, 2, zone.clone(), owner).expect("it starts");
            wait_for_a_huge_frame(&zone, background.asks(), &background);
            // As does who comes later.
            wait_for_a_huge_frame(&zone, background.asks(), &background);
            if is_stopped {
                let stop = catch_unwind(AssertUnwindSafe(|| background.stop()));
                assert!(stop.is_err(), "the panic is said");
            } else {
                drop(background);
            }
            assert!((0..4).all(|huge| !zone.is_isolated(HugeId(huge))), "{panics_in}");
        }
    }
}

#[test]
fn a_thread_that_is_stopped_says_what_it_did() {
    let zone = zone();
    let owner = Owner { panics_in: "" };
    let settings = Settings { moves: 0, ..Settings::new(Slot(1)) };
    let background = Background::start(settings, 2, zone.clone(), owner).expect("it starts");
    wait_for_a_huge_frame(&zone, background.asks(), &background);
    let counters = background.stop();
    assert!(counters.runs > 0 && counters.all.won == 0, "{counters:?}");
    assert_eq!(zone.stats().isolated_huge, 0);
}
