//! The daemon on a thread of its own, and how it ends.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use woodlot_compact::{
    Asks, Background, Block, Candidate, Chunk, Compaction, Daemon, Event, Fmfi, Index, Lookup,
    Patience, Refusal, Relocate, Settings, Setup, Step, Stop, Target, alloc_or_ask,
};
use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init, Order,
    RawMetadata, Request, Slot, ZoneConfig,
};
use woodlot_llfree::LLFree;

type Zone = LLFree<'static, Base4K>;

/// Four huge frames, of which each has 16 frames in use.
fn zone() -> Arc<Zone> {
    zone_of(4 * Base4K::HUGE_FRAMES, 2)
}

/// So many frames, of which one of 32 is in use, and slots. Its metadata stays for the rest of the process.
fn zone_of(frames: usize, slots: usize) -> Arc<Zone> {
    let config = ZoneConfig::new(frames, slots);
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
    let zone = zone_of(Base4K::HUGE_FRAMES / 2, 2);
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

/// What the owner's call comes to in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Moves,
    Fails,
    Panics,
}

/// Frames in use, as their owner knows them. Its first move does not return before it is let go.
struct Slow {
    frames: Arc<Mutex<BTreeSet<FrameId>>>,
    begun: Sender<(FrameId, FrameId)>,
    go: Receiver<Outcome>,
    moves: usize,
}

impl Relocate for Slow {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        match self.frames.lock().unwrap().contains(&frame) {
            true => Lookup::Movable(Block { first: frame, order: Order(0), class: Class::MOVABLE }),
            false => Lookup::Pinned,
        }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        self.moves += 1;
        if self.moves == 1 {
            self.begun.send((block.first, to)).unwrap();
            match self.go.recv().unwrap() {
                Outcome::Moves => {}
                Outcome::Fails => return Err(Refusal::Failed),
                Outcome::Panics => panic!("at last"),
            }
        }
        let mut frames = self.frames.lock().unwrap();
        assert!(frames.remove(&block.first) && frames.insert(to));
        Ok(())
    }
}

/// A daemon in a call that does not return, and all that there is.
struct Hung {
    zone: Arc<Zone>,
    frames: Arc<Mutex<BTreeSet<FrameId>>>,
    background: Background,
    go: Sender<Outcome>,
    from: FrameId,
    to: FrameId,
}

/// Eight huge frames with 16 frames in use in each. The daemon is asked for one of them.
fn hung() -> Hung {
    let zone = zone_of(8 * Base4K::HUGE_FRAMES, 4);
    let all = (0..8 * Base4K::HUGE_FRAMES).step_by(32).map(FrameId);
    let frames = Arc::new(Mutex::new(BTreeSet::from_iter(all)));
    let ((begun, begins), (go, goes)) = (channel(), channel());
    let owner = Slow { frames: frames.clone(), begun, go: goes, moves: 0 };
    let settings = Settings { threshold: 1000, moves: 0, ..Settings::new(Slot(1)) };
    let background = Background::start(settings, 3, zone.clone(), owner).expect("it starts");
    background.asks().ask(1);
    background.wake();
    let (from, to) = begins.recv_timeout(LONG).expect("a move begins");
    Hung { zone, frames, background, go, from, to }
}

/// What a test waits for at the most.
const LONG: Duration = Duration::from_secs(60);

/// Waits until nothing is isolated any more.
fn settled(zone: &Zone) {
    let began = Instant::now();
    while zone.stats().isolated_huge > 0 {
        assert!(began.elapsed() < LONG, "something stays isolated");
        sleep(Duration::from_millis(1));
    }
}

/// What is in use is what the owner has, and `lost` frames besides.
fn account(zone: &Zone, frames: &Mutex<BTreeSet<FrameId>>, lost: &[FrameId]) {
    let frames = frames.lock().unwrap();
    for frame in (0..zone.zone().frames).map(FrameId) {
        let is_used = frames.contains(&frame) || lost.contains(&frame);
        assert_eq!(zone.is_free(frame, Order(0)), !is_used, "{frame}");
    }
    assert_eq!(zone.stats().free_frames, zone.zone().frames - frames.len() - lost.len());
}

#[test]
fn while_a_call_does_not_return_everybody_else_goes_on() {
    let Hung { zone, frames, background, go, from, to } = hung();
    let held = from.huge::<Base4K>();
    // Isolated is one huge frame, and in use are both blocks of the move.
    assert_eq!((zone.stats().isolated_huge, zone.is_isolated(held)), (1, true));
    assert_eq!(zone.frames_in_use(held), 16);
    assert!(!zone.is_free(to, Order(0)) && to.huge::<Base4K>() != held);

    // Allocations of all that is free elsewhere, and frees, also of a frame in that huge frame.
    let request = Request::movable(Order(0), Slot(0));
    let all: Vec<_> = std::iter::from_fn(|| zone.alloc(request).ok()).collect();
    assert_eq!(all.len(), 7 * (Base4K::HUGE_FRAMES - 16) - 1);
    all.into_iter().for_each(|frame| zone.free(frame, Order(0), Slot(0)).expect("it was ours"));
    let another = *frames.lock().unwrap().range(held.first::<Base4K>()..).nth(7).unwrap();
    assert!(another.huge::<Base4K>() == held && another != from);
    frames.lock().unwrap().remove(&another);
    zone.free(another, Order(0), Slot(0)).expect("it was ours");
    assert_eq!(zone.frames_in_use(held), 15);

    // Compactions elsewhere, though not into it, nor of it.
    let (quick, _) = channel();
    let (_, never) = channel();
    let mut owner = Slow { frames: frames.clone(), begun: quick, go: never, moves: 1 };
    let mut memory = [Candidate::EMPTY; 8];
    let mut run = |target| {
        let setup = Setup { target, ..Setup::huge(0, Slot(2)) };
        let regions = std::iter::once(HugeId(0)..HugeId(8));
        let mut work =
            Compaction::plan(setup, &mut memory, &*zone, &mut owner, regions).expect("a plan");
        work.run(usize::MAX, &*zone, &mut owner);
        work.report::<Base4K>()
    };
    let report = run(Target::Range(held..HugeId(held.0 + 1)));
    assert_eq!((report.stop, report.taken, report.moves), (Some(Stop::Taken), 1, 0));
    let other = HugeId((held.0 + 1) % 8);
    let used = zone.frames_in_use(other);
    let is_pinned = to.huge::<Base4K>() == other;
    let report = run(Target::Range(other..HugeId(other.0 + 1)));
    assert_eq!((report.won, report.moves), if is_pinned { (0, 0) } else { (1, used) });
    let report = run(Target::Huge(usize::MAX));
    assert!(report.won > 0, "{report:?}");
    assert_eq!(zone.frames_in_use(held), 15);

    // As does another daemon of the same huge frames.
    let parts = [HugeId(0)..HugeId(8)];
    let (mut chunks, mut memory) = ([Chunk::default(); 1], [Candidate::EMPTY; 8]);
    let index = Index::new(&mut chunks, &parts, 3).expect("it has room");
    let settings = Settings { moves: 0, ..Settings::new(Slot(3)) };
    let (mut daemon, asks) = (Daemon::new(settings, index, &mut memory), Asks::new());
    asks.ask(8);
    let fmfi = || Fmfi::of::<Base4K>(&zone.stats());
    while !matches!(daemon.step(0, &*zone, &mut owner, &asks, fmfi), Event::Resting(_)) {}
    assert_eq!((zone.stats().isolated_huge, zone.frames_in_use(held)), (1, 15));

    go.send(Outcome::Moves).expect("it waits");
    let counters = background.stop();
    assert_eq!(counters.runs, 1, "{counters:?}");
    assert_eq!(zone.stats().isolated_huge, 0);
    assert!(!frames.lock().unwrap().contains(&from) && frames.lock().unwrap().contains(&to));
    account(&zone, &frames, &[]);
}

#[test]
fn a_stop_waits_no_longer_than_it_is_told_to() {
    for outcome in [Outcome::Moves, Outcome::Fails, Outcome::Panics] {
        let Hung { zone, frames, background, go, from, to } = hung();
        let asks = background.asks().clone();
        let ticket = asks.ask(1);
        let unfinished = background.stop_within(Duration::from_millis(20)).expect_err("it hangs");
        assert_eq!(
            unfinished.to_string(),
            "a call of the frames' owner did not return within 20ms: a block may still be moving; \
             the daemon ends when it has"
        );
        assert!(asks.is_answered(ticket) && asks.is_answered(asks.ask(1)));
        assert!(zone.is_isolated(from.huge::<Base4K>()), "the move is still under way");
        let unfinished = unfinished.into_background().stop_within(Duration::ZERO);
        let background = unfinished.expect_err("it still hangs").into_background();
        go.send(outcome).expect("it waits");
        let end = catch_unwind(AssertUnwindSafe(|| background.stop_within(LONG)));
        match outcome {
            Outcome::Panics => assert!(end.is_err(), "the panic is said"),
            _ => {
                let all = end.expect("no panic").expect("it has ended").all;
                let moves = usize::from(outcome == Outcome::Moves);
                assert_eq!((all.moves, all.failed), (moves, 1 - moves));
                assert_eq!((all.stop, all.won), (Some(Stop::Cancelled), 0));
            }
        }
        let lost: &[_] = if outcome == Outcome::Panics { &[to] } else { &[] };
        assert_eq!(frames.lock().unwrap().contains(&to), outcome == Outcome::Moves);
        assert_eq!(zone.stats().isolated_huge, 0);
        account(&zone, &frames, lost);
    }
}

#[test]
fn what_is_dropped_ends_by_itself() {
    for outcome in [Outcome::Moves, Outcome::Fails] {
        for is_stopped in [true, false] {
            let Hung { zone, frames, background, go, from, .. } = hung();
            let asks = background.asks().clone();
            let began = Instant::now();
            if is_stopped {
                drop(background.stop_within(Duration::ZERO).expect_err("it hangs"));
                assert!(began.elapsed() < Background::PATIENCE, "it was told already");
            } else {
                drop(background);
                assert!(began.elapsed() < LONG);
            }
            assert!(asks.is_answered(asks.ask(1)));
            assert_eq!(zone.stats().isolated_huge, 1);
            go.send(outcome).expect("it waits");
            settled(&zone);
            let moved = usize::from(outcome == Outcome::Moves);
            assert_eq!(zone.frames_in_use(from.huge::<Base4K>()), 16 - moved, "it moved on");
            account(&zone, &frames, &[]);
        }
    }
}
