//! The daemon on a thread of its own, and how it ends.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use woodlot_compact::{
    Asks, Background, Block, Candidate, Chunk, Compaction, Daemon, Event, Fmfi, Index, Lookup,
    Patience, Refusal, Relocate, Settings, Setup, Step, Stop, Target, Ticket, alloc_or_ask,
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

impl Outcome {
    const ALL: [Outcome; 3] = [Outcome::Moves, Outcome::Fails, Outcome::Panics];
}

/// A call that does not return before it is let go.
struct Hangs {
    call: &'static str,
    begun: Sender<(FrameId, FrameId)>,
    go: Receiver<Outcome>,
}

/// Frames in use, as their owner knows them.
struct Slow {
    frames: Arc<Mutex<BTreeSet<FrameId>>>,
    /// The first call of that name hangs.
    hangs: Option<Hangs>,
}

impl Slow {
    /// What the call comes to if it was one that hangs.
    fn reaches(&mut self, call: &str, from: FrameId, to: FrameId) -> Option<Outcome> {
        let Hangs { begun, go, .. } = self.hangs.take_if(|hangs| hangs.call == call)?;
        begun.send((from, to)).unwrap();
        let outcome = go.recv().unwrap();
        assert_ne!(outcome, Outcome::Panics, "at last");
        Some(outcome)
    }
}

impl Relocate for Slow {
    fn prepare(&mut self) {
        self.reaches("prepare", FrameId(0), FrameId(0));
    }

    fn block_at(&mut self, frame: FrameId) -> Lookup {
        self.reaches("block_at", frame, frame);
        match self.frames.lock().unwrap().contains(&frame) {
            true => Lookup::Movable(Block { first: frame, order: Order(0), class: Class::MOVABLE }),
            false => Lookup::Pinned,
        }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        if self.reaches("relocate", block.first, to) == Some(Outcome::Fails) {
            return Err(Refusal::Failed);
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
    /// What is to be won.
    held: Range<usize>,
    ticket: Ticket,
}

/// One huge frame, and four neighbours.
const ORDERS: [Order; 2] = [Order(9), Order(11)];

/// Eight huge frames with 16 frames in use in each, and their owner.
fn slow() -> (Arc<Zone>, Slow) {
    let zone = zone_of(8 * Base4K::HUGE_FRAMES, 4);
    let all = (0..8 * Base4K::HUGE_FRAMES).step_by(32).map(FrameId);
    let frames = Arc::new(Mutex::new(BTreeSet::from_iter(all)));
    (zone, Slow { frames, hangs: None })
}

/// A daemon that is asked for a block of an order, and hangs in a call.
fn hung(order: Order, call: &'static str) -> Hung {
    let (zone, mut owner) = slow();
    let frames = owner.frames.clone();
    let ((begun, begins), (go, goes)) = (channel(), channel());
    owner.hangs = Some(Hangs { call, begun, go: goes });
    let settings = Settings { threshold: 1000, moves: 0, ..Settings::new(Slot(1)) };
    let background = Background::start(settings, 3, zone.clone(), owner).expect("it starts");
    let asks = background.asks();
    let ticket = if order == Order(9) { asks.ask(1) } else { asks.ask_block(order) };
    background.wake();
    let (from, to) = begins.recv_timeout(LONG).expect("the call begins");
    let count = order.frames() >> 9;
    let first = from.huge::<Base4K>().0 & !(count - 1);
    Hung { zone, frames, background, go, from, to, held: first..first + count, ticket }
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

/// Waits until the daemon has done what it could.
fn answered(background: &Background, ticket: Ticket) {
    let began = Instant::now();
    while !background.asks().is_answered(ticket) {
        assert!(began.elapsed() < LONG, "nobody answers");
        sleep(Duration::from_millis(1));
    }
}

/// Isolated are these huge frames and no other, with so many frames in use in each.
fn isolated(zone: &Zone, held: &Range<usize>, used: usize) {
    for huge in (0..8).map(HugeId) {
        assert_eq!(zone.is_isolated(huge), held.contains(&huge.0), "{huge:?} of {held:?}");
        assert!(!held.contains(&huge.0) || zone.frames_in_use(huge) == used, "{huge:?}");
    }
    let stats = zone.stats();
    let nobodys = held.len() * (Base4K::HUGE_FRAMES - used);
    assert_eq!((stats.isolated_huge, stats.isolated_frames), (held.len(), nobodys));
}

/// Allocates all that is free, and frees it again; how much it was.
fn allocates_all(zone: &Zone) -> usize {
    let request = Request::movable(Order(0), Slot(0));
    let all: Vec<_> = std::iter::from_fn(|| zone.alloc(request).ok()).collect();
    all.iter().for_each(|&frame| zone.free(frame, Order(0), Slot(0)).expect("it was ours"));
    all.len()
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
    for order in ORDERS {
        let Hung { zone, frames, background, go, from, to, held, ticket } = hung(order, "relocate");
        // Isolated is one huge frame, or all that is to be won as neighbours; in use are both blocks of the move.
        isolated(&zone, &held, 16);
        assert!(!zone.is_free(to, Order(0)) && !held.contains(&to.huge::<Base4K>().0));

        // Whoever waits for the daemon does so as long as they want to.
        let request = Request::movable(Order(9), Slot(0));
        for (patience, most) in [(Patience::Fail, 0), (Patience::Ask, 0), (Patience::Wait, 5)] {
            let mut waits = 0;
            let refused = alloc_or_ask(&*zone, request, background.asks(), patience, || {
                waits += 1;
                waits < most
            });
            assert_eq!((refused, waits), (Err(AllocError::OutOfMemory), most));
        }
        assert!(!background.asks().is_answered(ticket));

        // Allocations of all that is free elsewhere, and frees, also of a frame in each of those huge frames, which nobody gets.
        assert_eq!(allocates_all(&zone), (8 - held.len()) * (Base4K::HUGE_FRAMES - 16) - 1);
        for huge in held.clone().map(HugeId) {
            let another = *frames.lock().unwrap().range(huge.first::<Base4K>()..).nth(7).unwrap();
            assert!(another.huge::<Base4K>() == huge && another != from);
            frames.lock().unwrap().remove(&another);
            zone.free(another, Order(0), Slot(0)).expect("it was ours");
            let again = zone.alloc(Request::movable(Order(0), Slot(0)).at(another));
            assert!(again.is_err(), "{another} is nobody's");
        }
        isolated(&zone, &held, 15);
        let others = allocates_all(&zone);
        assert_eq!(others, (8 - held.len()) * (Base4K::HUGE_FRAMES - 16) - 1);

        // Compactions elsewhere, though not into it, nor of it, nor of a part of it.
        let mut owner = Slow { frames: frames.clone(), hangs: None };
        let mut memory = [Candidate::EMPTY; 8];
        let mut run = |target| {
            let setup = Setup { target, ..Setup::huge(0, Slot(2)) };
            let regions = std::iter::once(HugeId(0)..HugeId(8));
            let mut work =
                Compaction::plan(setup, &mut memory, &*zone, &mut owner, regions).expect("a plan");
            work.run(usize::MAX, &*zone, &mut owner);
            work.report::<Base4K>()
        };
        let range = |huge: Range<usize>| Target::Range(HugeId(huge.start)..HugeId(huge.end));
        let end = if held.end < 8 { held.end } else { held.start };
        for taken in [held.clone(), held.start..held.start + 1, end - 1..end + 1] {
            let report = run(range(taken));
            assert_eq!((report.stop, report.taken, report.moves), (Some(Stop::Taken), 1, 0));
            isolated(&zone, &held, 15);
        }
        let other = if held.end < 8 { held.end } else { 0 };
        let used = zone.frames_in_use(HugeId(other));
        let is_pinned = to.huge::<Base4K>() == HugeId(other);
        let report = run(range(other..other + 1));
        assert_eq!((report.won, report.moves), if is_pinned { (0, 0) } else { (1, used) });
        let report = run(Target::Huge(usize::MAX));
        assert!(report.won > 0, "{report:?}");
        isolated(&zone, &held, 15);

        // As does another daemon of the same huge frames, whether it is asked for some of them or for neighbours.
        let parts = [HugeId(0)..HugeId(8)];
        let (mut chunks, mut memory) = ([Chunk::default(); 1], [Candidate::EMPTY; 8]);
        let index = Index::new(&mut chunks, &parts, 3).expect("it has room");
        let settings = Settings { moves: 0, rest: 1, longest_rest: 1, ..Settings::new(Slot(3)) };
        let (mut daemon, asks) = (Daemon::new(settings, index, &mut memory), Asks::new());
        let fmfi = || Fmfi::of::<Base4K>(&zone.stats());
        for now in 0..8 {
            let ticket = if now % 2 == 0 { asks.ask(8) } else { asks.ask_block(Order(11)) };
            for step in 0.. {
                assert!(step < 10_000, "the other daemon does not end");
                daemon.step(10 * now, &*zone, &mut owner, &asks, fmfi);
                if asks.is_answered(ticket) {
                    break;
                }
            }
            isolated(&zone, &held, 15);
        }

        // What it was asked for is won, when it can go on.
        go.send(Outcome::Moves).expect("it waits");
        answered(&background, ticket);
        let won = |huge: usize| zone.free_in_huge(HugeId(huge)) == Base4K::HUGE_FRAMES;
        assert!(held.clone().all(won), "{held:?}");
        let counters = background.stop();
        assert!(counters.all.won >= held.len() && counters.all.failed == 0, "{counters:?}");
        assert!(!frames.lock().unwrap().contains(&from) && frames.lock().unwrap().contains(&to));
        assert_eq!(zone.stats().isolated_huge, 0);
        account(&zone, &frames, &[]);
    }
}

#[test]
fn what_returns_late_counts_once_as_it_says() {
    for (order, outcome) in
        ORDERS.into_iter().flat_map(|order| Outcome::ALL.map(|outcome| (order, outcome)))
    {
        let Hung { zone, frames, background, go, from, to, held, ticket } = hung(order, "relocate");
        go.send(outcome).expect("it waits");
        answered(&background, ticket);
        settled(&zone);
        let end = catch_unwind(AssertUnwindSafe(|| background.stop()));
        if outcome == Outcome::Panics {
            // Neither of the two blocks is freed, and all else is as it was.
            assert!(end.is_err(), "the panic is said");
            assert!(frames.lock().unwrap().contains(&from));
            account(&zone, &frames, &[to]);
            continue;
        }
        let all = end.expect("no panic").all;
        let failed = usize::from(outcome == Outcome::Fails);
        assert_eq!((all.won, all.failed), (held.len(), failed), "{order} {outcome:?}");
        assert_eq!((all.moves, all.fewest), (16 * held.len(), 16 * held.len()));
        account(&zone, &frames, &[]);
    }
}

#[test]
fn a_call_before_the_moves_may_hang_as_well() {
    for (order, call) in
        ORDERS.into_iter().flat_map(|order| [(order, "prepare"), (order, "block_at")])
    {
        let Hung { zone, frames, background, go, held, ticket, .. } = hung(order, call);
        let there = if call == "prepare" { 0..0 } else { held };
        isolated(&zone, &there, 16);
        assert_eq!(allocates_all(&zone), (8 - there.len()) * (Base4K::HUGE_FRAMES - 16));
        assert!(!background.asks().is_answered(ticket));
        go.send(Outcome::Moves).expect("it waits");
        answered(&background, ticket);
        let all = background.stop().all;
        let count = order.frames() >> 9;
        assert_eq!((all.won, all.moves), (count, 16 * count), "{order} {call}");
        account(&zone, &frames, &[]);
    }
}

#[test]
fn a_range_that_is_to_be_kept_is_kept_after_a_call_that_returns_late() {
    let (zone, mut owner) = slow();
    let frames = owner.frames.clone();
    let ((begun, begins), (go, goes)) = (channel(), channel());
    owner.hangs = Some(Hangs { call: "relocate", begun, go: goes });
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let target = Target::Range(HugeId(2)..HugeId(6));
            let setup = Setup { target, keep: true, ..Setup::huge(0, Slot(1)) };
            let (mut memory, regions) = ([Candidate::EMPTY; 8], HugeId(0)..HugeId(8));
            let regions = std::iter::once(regions);
            let mut work =
                Compaction::plan(setup, &mut memory, &*zone, &mut owner, regions).expect("a plan");
            assert!(work.run(usize::MAX, &*zone, &mut owner));
            let kept: Vec<_> = work.kept().collect();
            (work.report::<Base4K>(), kept)
        });
        begins.recv_timeout(LONG).expect("the call begins");
        isolated(&zone, &(2..6), 16);
        let all = allocates_all(&zone);
        assert_eq!(all, 4 * (Base4K::HUGE_FRAMES - 16) - 1);
        go.send(Outcome::Moves).expect("it waits");
        let (report, mut kept) = work.join().expect("it does not panic");
        assert_eq!((report.stop, report.won, report.moves), (Some(Stop::Won), 4, 64));
        kept.sort_unstable();
        assert!(kept.iter().map(|huge| huge.0).eq(2..6));
        assert_eq!(zone.stats().isolated_huge, 0);
        for huge in kept {
            zone.free(huge.first::<Base4K>(), Order(9), Slot(1)).expect("it is the caller's");
        }
    });
    account(&zone, &frames, &[]);
}

#[test]
fn a_stop_waits_no_longer_than_it_is_told_to() {
    for (order, outcome) in
        ORDERS.into_iter().flat_map(|order| Outcome::ALL.map(|outcome| (order, outcome)))
    {
        let Hung { zone, frames, background, go, to, held, .. } = hung(order, "relocate");
        let asks = background.asks().clone();
        let ticket = asks.ask(1);
        let unfinished = background.stop_within(Duration::from_millis(20)).expect_err("it hangs");
        assert_eq!(
            unfinished.to_string(),
            "a call of the frames' owner did not return within 20ms: a block may still be moving; \
             the daemon ends when it has"
        );
        assert!(asks.is_answered(ticket) && asks.is_answered(asks.ask(1)));
        // The move is still under way.
        isolated(&zone, &held, 16);
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
    for (order, outcome) in
        ORDERS.into_iter().flat_map(|order| [(order, Outcome::Moves), (order, Outcome::Fails)])
    {
        for is_stopped in [true, false] {
            let Hung { zone, frames, background, go, from, held, .. } = hung(order, "relocate");
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
            isolated(&zone, &held, 16);
            go.send(outcome).expect("it waits");
            settled(&zone);
            let moved = usize::from(outcome == Outcome::Moves);
            assert_eq!(zone.frames_in_use(from.huge::<Base4K>()), 16 - moved, "it moved on");
            account(&zone, &frames, &[]);
        }
    }
}
