//! The daemon on a thread of its own, and how it ends.

use std::alloc::{Layout, alloc_zeroed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use woodlot_compact::{
    Asks, Background, Block, Candidate, Chunk, Daemon, Event, Index, Lookup, Patience, Refusal,
    Relocate, Settings, Step, Stop, alloc_or_ask,
};
use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, Order,
    RawMetadata, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;

type Zone = LLFree<'static, Base4K>;

/// Four huge frames, of which each has 16 frames in use.
fn zone() -> Arc<Zone> {
    zone_of(4 * Base4K::HUGE_FRAMES)
}

/// So many frames, of which one of 32 is in use. Its metadata stays for the rest of the process.
fn zone_of(frames: usize) -> Arc<Zone> {
    let config = ZoneConfig::new(frames, 2);
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
fn an_observer_that_panics_leaves_nothing_isolated() {
    let zone = zone();
    let parts = [HugeId(0)..HugeId(4)];
    let (mut chunks, mut memory) = ([Chunk::default(); 1], [Candidate::EMPTY; 4]);
    let index = Index::new(&mut chunks, &parts, 2).expect("it has room");
    let settings = Settings { moves: 0, ..Settings::new(Slot(1)) };
    let mut daemon = Daemon::new(settings, index, &mut memory);
    let (asks, stop) = (Asks::new(), AtomicBool::new(false));
    let ticket = asks.ask(1);
    let run = catch_unwind(AssertUnwindSafe(|| {
        daemon.run(&*zone, &mut Owner { panics_in: "" }, &asks, &stop, |_| {
            assert_eq!(zone.stats().isolated_huge, 0, "the observer gives up in the middle");
        });
    }));
    assert!(run.is_err(), "a huge frame was isolated");
    assert!(asks.is_answered(ticket));
    assert_eq!(zone.stats().isolated_huge, 0);
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

#[test]
fn what_has_no_huge_frame_gets_no_daemon() {
    let zone = zone_of(Base4K::HUGE_FRAMES / 2);
    let owner = Owner { panics_in: "" };
    let refused =
        Background::start(Settings::new(Slot(1)), 2, zone, owner).expect_err("no huge frame");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{refused}");
}

/// An owner whose frames move. It stops the daemon in the middle of the first move.
struct Stopping<'a>(&'a AtomicBool);

impl Relocate for Stopping<'_> {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        Lookup::Movable(Block { first: frame, order: Order(0), class: Class::MOVABLE })
    }

    fn relocate(&mut self, _: Block, _: FrameId) -> Result<(), Refusal> {
        self.0.store(true, Ordering::Release);
        Ok(())
    }
}

#[test]
fn a_daemon_that_is_stopped_in_a_run_cancels_it_and_answers_whoever_asked() {
    let (zone, asks, stop) = (zone(), Asks::new(), AtomicBool::new(false));
    let parts = [zone.zone().huge_range::<Base4K>()];
    let (mut chunks, mut memory) = ([Chunk::default()], [Candidate::EMPTY; 4]);
    let index = Index::new(&mut chunks, &parts, 2).expect("one chunk is enough");
    let mut daemon = Daemon::new(Settings::new(Slot(1)), index, &mut memory);
    let ticket = asks.ask(3);
    let mut events = Vec::new();
    let mut owner = Stopping(&stop);
    daemon.run(&*zone, &mut owner, &asks, &stop, |event| events.push(*event));
    assert!(asks.is_answered(ticket));
    assert!(matches!(events[0], Event::Started { regions: 1, .. }), "{events:?}");
    assert!(matches!(events.last(), Some(Event::Worked(Step::Moved(..)))), "{events:?}");
    let all = daemon.counters().all;
    assert_eq!((all.stop, all.moves, all.won), (Some(Stop::Cancelled), 1, 0));
    assert_eq!(zone.stats().isolated_huge, 0);
}

#[test]
fn whoever_asks_a_thread_that_is_stopped_is_answered() {
    let zone = zone();
    let settings = Settings { threshold: 1000, ..Settings::new(Slot(1)) };
    let owner = Owner { panics_in: "" };
    let background = Background::start(settings, 2, zone.clone(), owner).expect("it starts");
    let asks = background.asks().clone();
    let before = asks.ask(1);
    background.stop();
    assert!(asks.is_answered(before) && asks.is_answered(asks.ask(1)));
    assert_eq!(zone.stats().isolated_huge, 0);
}
