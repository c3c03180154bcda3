//! When the daemon works, where, how fast, and for whom.

mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use woodlot_compact::{
    Asks, Block, Candidate, Chunk, Compaction, Daemon, Event, Fmfi, Index, IndexError, Lookup,
    Patience, Refusal, Relocate, Settings, Setup, Step, Stop, alloc_or_ask,
};
use woodlot_frame::{AllocError, Base4K, FrameAllocator, FrameId, HugeId, Order, Request};
use world::{COMPACT, HUGE, Mood, Owner, RIVAL, SLOT, Zone, zone};

/// A zone with so many frames in use in each huge frame.
fn filled(used: &[usize], seed: u64) -> (Zone, Owner) {
    let zone = zone(used.len());
    let mut owner = Owner::new(used.len() * HUGE, seed);
    for (huge, &used) in used.iter().enumerate() {
        (0..used).for_each(|frame| _ = owner.alloc_at(&zone, huge * HUGE + frame, 0, false));
    }
    (zone, owner)
}

fn parts(zone: &Zone) -> Vec<Range<HugeId>> {
    vec![zone.zone().huge_range::<Base4K>()]
}

fn settings() -> Settings {
    Settings {
        gain: 0,
        rest: 100,
        longest_rest: 1000,
        moves: 0,
        interval: 10,
        ..Settings::new(COMPACT)
    }
}

fn fmfi(zone: &Zone) -> i32 {
    Fmfi::of::<Base4K>(&zone.stats()).index(Order(9))
}

/// A daemon with its memory, and a clock.
struct Rig<'a> {
    daemon: Daemon<'a>,
    asks: &'a Asks,
    now: u64,
}

impl<'a> Rig<'a> {
    fn step(&mut self, zone: &Zone, owner: &mut Owner) -> Event {
        self.step_as(Fmfi::of::<Base4K>(&zone.stats()), zone, owner)
    }

    /// A step that is told this of the free memory.
    fn step_as(&mut self, fmfi: Fmfi, zone: &Zone, owner: &mut Owner) -> Event {
        self.daemon.step(self.now, &**zone, owner, self.asks, || fmfi)
    }

    /// Steps until it has nothing to do; the events, but for the steps of compaction.
    fn until_idle(&mut self, zone: &Zone, owner: &mut Owner) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.step(zone, owner);
            if !matches!(event, Event::Worked(_)) {
                events.push(event);
            }
            if !matches!(event, Event::Worked(_) | Event::Started { .. }) {
                return events;
            }
        }
    }
}

macro_rules! rig {
    ($rig:ident, $zone:expr, $settings:expr, $shift:expr) => {
        let (parts, asks) = (parts(&$zone), Asks::new());
        let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, $shift)];
        let mut memory = vec![Candidate::EMPTY; $zone.zone().frames / HUGE];
        let index = Index::new(&mut chunks, &parts, $shift).unwrap();
        let mut $rig =
            Rig { daemon: Daemon::new($settings, index, &mut memory), asks: &asks, now: 0 };
    };
}

#[test]
fn it_starts_above_the_threshold_and_stops_below() {
    let (zone, mut owner) = filled(&[500, 400, 40, 60, 0, 0, 0, 0], 1);
    let before = fmfi(&zone);
    rig!(rig, zone, settings(), 2);
    assert!(before > 900);
    let events = rig.until_idle(&zone, &mut owner);
    assert_eq!(events[0], Event::Started { index: before, regions: 1 });
    let Event::Finished(report) = events[1] else { panic!("{events:?}") };
    assert_eq!((report.won, report.moves), (2, 100));
    owner.check_all(&zone);
    // 24 single frames, and six huge ones: 1 - (3096 / 512) / 30.
    assert_eq!(fmfi(&zone), 799);
    // It is above still, but there is nothing to win.
    rig.now = 100;
    assert_eq!(rig.until_idle(&zone, &mut owner), [Event::Below(799)]);

    let (zone, mut owner) = filled(&[500, 400, 40, 60, 0, 0, 0, 0], 1);
    // As in a zone with so many more free huge frames.
    let told = Fmfi::of_counts::<Base4K>(1600 * HUGE + 520, 1600);
    rig!(low, zone, Settings { threshold: 10, ..settings() }, 3);
    assert_eq!(low.daemon.settings().threshold, 200);
    let index = told.index(Order(9));
    assert_eq!((index, told.winnable::<Base4K>()), (245, 1));
    assert_eq!(low.step_as(told, &zone, &mut owner), Event::Started { index, regions: 1 });
    low.daemon.cancel(&*zone, low.asks);
    rig!(high, zone, settings(), 3);
    assert_eq!(high.step_as(told, &zone, &mut owner), Event::Below(index));
    assert_eq!(high.step_as(told, &zone, &mut owner), Event::Resting(100));
    owner.check_all(&zone);
}

#[test]
fn where_little_can_be_won_it_rests() {
    assert_eq!(Settings::default().gain, 50);
    // Ten of 100 free huge frames' worth lie in pieces.
    let mut used = vec![0; 110];
    used[..20].fill(256);
    let (zone, mut owner) = filled(&used, 1);
    let at = Fmfi::of::<Base4K>(&zone.stats());
    assert_eq!((at.winnable::<Base4K>(), at.free_huge, at.index(Order(9)) > 900), (10, 90, true));
    rig!(rests, zone, Settings { gain: 100, ..settings() }, 7);
    assert!(matches!(rests.step(&zone, &mut owner), Event::Below(_)));
    rig!(works, zone, Settings { gain: 99, ..settings() }, 7);
    let events = works.until_idle(&zone, &mut owner);
    // One is enough to be as far: nine of 100.
    assert!(
        matches!(events[..], [Event::Started { .. }, Event::Finished(report)] if report.won == 1),
        "{events:?}"
    );
    works.now = 100;
    assert!(matches!(works.step(&zone, &mut owner), Event::Below(_)));
    // Who asks is served all the same.
    works.asks.ask(3);
    let events = works.until_idle(&zone, &mut owner);
    assert!(matches!(events[1], Event::Finished(report) if report.won == 3), "{events:?}");
    owner.check_all(&zone);
}

#[test]
fn what_nobody_asked_for_has_its_price() {
    let (zone, mut owner) = filled(&[500, 40, 300, 400, 300, 300, 300, 300], 1);
    rig!(rig, zone, Settings { price: 40, ..settings() }, 3);
    let events = rig.until_idle(&zone, &mut owner);
    let Event::Finished(report) = events[1] else { panic!("{events:?}") };
    assert_eq!((report.won, report.moves, report.dear), (1, 40, 7));
    rig.now = 100;
    let events = rig.until_idle(&zone, &mut owner);
    assert!(
        matches!(events[1], Event::Finished(report) if (report.won, report.moves) == (0, 0)),
        "{events:?}"
    );
    // Who asks pays what it costs, also soon after a run or a search for nobody that was in vain.
    for searches in [false, true] {
        if searches {
            rig.now += 100;
            assert!(matches!(rig.until_idle(&zone, &mut owner)[..], [_, Event::Finished(_)]));
            rig.now += 100;
            assert!(matches!(rig.until_idle(&zone, &mut owner)[..], [Event::Resting(_)]));
        }
        rig.asks.ask(1);
        let events = rig.until_idle(&zone, &mut owner);
        let Some(Event::Finished(report)) = events.get(1) else { panic!("{events:?}") };
        assert_eq!((report.won, report.moves, report.dear), (1, 300, 0));
        owner.check_all(&zone);
    }
}

#[test]
fn a_run_ends_as_soon_as_the_index_is_low() {
    // Two huge frames can be won; after the first one the index is low enough.
    let mut used = vec![0; 64];
    used[..5].copy_from_slice(&[502, 502, 502, 10, 20]);
    let (zone, mut owner) = filled(&used, 1);
    assert_eq!(fmfi(&zone), 944);
    rig!(rig, zone, Settings { threshold: 950, ..settings() }, 6);
    assert_eq!(rig.step(&zone, &mut owner), Event::Below(944));
    rig!(rig, zone, Settings { threshold: 920, ..settings() }, 6);
    let events = rig.until_idle(&zone, &mut owner);
    assert!(
        matches!(events[1], Event::Finished(report) if (report.won, report.moves) == (1, 10)),
        "{events:?}"
    );
    owner.check_all(&zone);
}

#[test]
fn who_asks_does_not_wait_for_a_run_that_nobody_asked_for() {
    let (zone, mut owner) = filled(&[500, 400, 40, 60, 50, 300, 300, 300], 1);
    rig!(rig, zone, settings(), 3);
    assert!(matches!(rig.step(&zone, &mut owner), Event::Started { .. }));
    let ticket = rig.asks.ask(1);
    let events = rig.until_idle(&zone, &mut owner);
    assert!(
        matches!(events[..], [Event::Finished(report)] if (report.won, report.moves) == (1, 40)),
        "{events:?}"
    );
    assert!(!rig.asks.is_answered(ticket), "the next run is theirs");
    let events = rig.until_idle(&zone, &mut owner);
    assert!(
        matches!(events[1], Event::Finished(report) if (report.won, report.moves) == (1, 50)),
        "{events:?}"
    );
    assert!(rig.asks.is_answered(ticket));
    owner.check_all(&zone);
}

#[test]
fn it_rests_longer_each_time_that_nothing_was_won() {
    let (zone, mut owner) = filled(&[300, 300, 300, 300], 1);
    let pinned: Vec<_> = owner.blocks.keys().copied().collect();
    pinned.iter().for_each(|id| owner.blocks.get_mut(id).unwrap().pinned = true);
    rig!(rig, zone, settings(), 2);
    let mut rests = Vec::new();
    while rests.len() < 6 {
        if let Event::Resting(until) = rig.step(&zone, &mut owner) {
            rests.push(until - rig.now);
            rig.now = until;
            // Something changes in the region, or it would not be looked at again.
            let any = owner.any().unwrap();
            (0..60).for_each(|_| _ = owner.alloc(&zone, Order(0), true));
            owner.free(&zone, any);
        }
    }
    assert_eq!(rests, [100, 200, 400, 800, 1000, 1000]);
    assert_eq!(rig.daemon.counters().all.moves, 0);
    owner.check_all(&zone);
}

#[test]
fn a_region_compacted_in_vain_is_left_until_it_changes() {
    let (zone, mut owner) = filled(&[300, 300, 300, 300, 0, 0, 0, 0], 1);
    owner.blocks.values_mut().for_each(|held| held.pinned = true);
    rig!(rig, zone, settings(), 2);
    assert!(matches!(
        rig.until_idle(&zone, &mut owner)[..],
        [Event::Started { .. }, Event::Finished(_)]
    ));
    let asked = owner.lookups;
    for _ in 0..5 {
        rig.now += 5000;
        assert!(matches!(rig.step(&zone, &mut owner), Event::Resting(_)));
    }
    assert_eq!(owner.lookups, asked);
    let ids: Vec<_> = owner.blocks.keys().copied().take(200).collect();
    ids.into_iter().for_each(|id| owner.free(&zone, id));
    rig.now += 5000;
    assert!(matches!(rig.step(&zone, &mut owner), Event::Started { .. }));
    rig.daemon.cancel(&*zone, rig.asks);
    owner.check_all(&zone);
}

#[test]
fn it_moves_no_more_than_it_may() {
    let (zone, mut owner) = filled(&[100, 200, 200, 250], 1);
    rig!(rig, zone, Settings { moves: 16, interval: 10, ..settings() }, 2);
    let mut before = 0;
    loop {
        match rig.step(&zone, &mut owner) {
            Event::Limited(until) => {
                assert_eq!((owner.copies - before, until), (16, rig.now + 10));
                (before, rig.now) = (owner.copies, until);
            }
            Event::Finished(_) => break,
            _ => {}
        }
    }
    assert!(before > 200);
    owner.check_all(&zone);
}

#[test]
fn at_most_ten_regions_are_searched_and_the_best_first() {
    let mut used = vec![0; 40];
    (0..40).step_by(2).for_each(|huge| used[huge] = 200 + huge);
    let (zone, mut owner) = filled(&used, 1);
    rig!(rig, zone, settings(), 1);
    assert!(matches!(rig.step(&zone, &mut owner), Event::Started { regions: 10, .. }));
    let regions: Vec<_> = rig.daemon.regions().map(|region| region.start.0..region.end.0).collect();
    assert_eq!(regions, (0..10).map(|chunk| 2 * chunk..2 * chunk + 2).collect::<Vec<_>>());
    assert!(rig.daemon.cancel(&*zone, rig.asks).is_some());
    assert!(!rig.daemon.is_working());
    owner.check_all(&zone);
}

#[test]
fn who_asks_is_served_whatever_the_threshold() {
    let (zone, mut owner) = filled(&[500, 12, 510, 500], 1);
    rig!(rig, zone, Settings { threshold: 1000, ..settings() }, 2);
    assert!(matches!(rig.step(&zone, &mut owner), Event::Below(_)));
    let request = Request::movable(Order(9), SLOT);
    let mut waited = 0;
    let result = alloc_or_ask(&*zone, request, rig.asks, Patience::Fail, || unreachable!());
    assert_eq!(result, Err(AllocError::OutOfMemory));
    assert_eq!(rig.step(&zone, &mut owner), Event::Resting(100));
    let asks = rig.asks;
    let frame = alloc_or_ask(&*zone, request, asks, Patience::Wait, || {
        waited += 1;
        assert!(!matches!(rig.step(&zone, &mut owner), Event::Resting(_)));
        true
    });
    owner.take(frame.unwrap(), Order(9), false);
    assert!(waited > 12);
    assert_eq!((rig.daemon.counters().asked, rig.daemon.counters().all.won), (1, 1));
    // The next one is not to be had; who waits is told so in the end.
    let second = alloc_or_ask(&*zone, request, asks, Patience::Wait, || {
        rig.step(&zone, &mut owner);
        true
    });
    assert_eq!(second, Err(AllocError::OutOfMemory));
    assert_eq!(
        alloc_or_ask(&*zone, request, asks, Patience::Ask, || unreachable!()),
        Err(AllocError::OutOfMemory)
    );
    assert!(!asks.is_answered(asks.ask(0)));
    rig.until_idle(&zone, &mut owner);
    assert!(asks.is_answered(asks.ask(0)));
    owner.check_all(&zone);
}

#[test]
fn two_daemons_on_one_region_exclude_each_other() {
    for seed in 0..8 {
        let used: Vec<_> =
            (0..16).map(|huge| if huge % 2 == 0 { 480 } else { 20 + 2 * huge }).collect();
        let (zone, mut owner) = filled(&used, seed);
        rig!(one, zone, settings(), 3);
        rig!(other, zone, Settings { slot: RIVAL, ..settings() }, 4);
        let mut emptied = Vec::new();
        while one.daemon.counters().runs == 0 || other.daemon.counters().runs == 0 {
            let turn = if owner.random.bool() { &mut one } else { &mut other };
            if let Event::Worked(Step::Won(huge)) = turn.step(&zone, &mut owner) {
                emptied.push(huge);
            }
            owner.check();
        }
        one.daemon.cancel(&*zone, one.asks);
        other.daemon.cancel(&*zone, other.asks);
        owner.check_all(&zone);
        let won = emptied.len();
        emptied.sort_unstable();
        emptied.dedup();
        assert_eq!(emptied.len(), won, "a huge frame was emptied twice");
        let taken = one.daemon.counters().all.taken + other.daemon.counters().all.taken;
        assert!(taken > 0 && won > 0, "they never met: {taken} {won}");
        // What one moves out of a huge frame the other does not move again.
        assert!(owner.copies <= used.iter().filter(|&&used| used < 100).sum(), "{}", owner.copies);
    }
}

#[test]
fn the_index_knows_holes_of_the_memory() {
    let parts = [HugeId(3)..HugeId(5), HugeId(5)..HugeId(6), HugeId(40)..HugeId(50)];
    let mut chunks = [Chunk::default(); 16];
    assert_eq!(Index::chunks_for(&parts, 2), 13);
    let index = Index::new(&mut chunks, &parts, 2).unwrap();
    assert_eq!(index.numbers().collect::<Vec<_>>(), [0, 1, 10, 11, 12]);
    let regions: Vec<_> = index
        .numbers()
        .flat_map(|number| index.regions(number))
        .map(|r| r.start.0..r.end.0)
        .collect();
    assert_eq!(regions, [3..4, 4..5, 5..6, 40..44, 44..48, 48..50]);
    assert_eq!(index.regions(5).count() + index.regions(99).count(), 0);

    let new = |chunks: usize, parts: &[Range<usize>]| {
        let parts: Vec<_> = parts.iter().map(|part| HugeId(part.start)..HugeId(part.end)).collect();
        Index::new(&mut vec![Chunk::default(); chunks], &parts, 2).err()
    };
    assert_eq!(new(16, &[]), Some(IndexError::Parts));
    assert_eq!(new(16, std::slice::from_ref(&(3..3))), Some(IndexError::Parts));
    assert_eq!(new(16, &[3..7, 6..9]), Some(IndexError::Parts));
    assert_eq!(new(16, &[8..9, 3..4]), Some(IndexError::Parts));
    assert_eq!(new(2, std::slice::from_ref(&(0..9))), Some(IndexError::Chunks(3)));
    assert!(matches!(new(2, &[0..1, usize::MAX - 1..usize::MAX]), Some(IndexError::Chunks(_))));
}

#[test]
fn scores_come_from_the_counters_of_the_engine() {
    let (zone, _) = filled(&[512, 0, 112, 312, 500, 0, 0, 0], 1);
    let parts = parts(&zone);
    let mut chunks = [Chunk::default(); 2];
    let mut index = Index::new(&mut chunks, &parts, 2).unwrap();
    (0..2).for_each(|chunk| index.refresh(chunk, &*zone));
    assert_eq!((index.holes(0), index.score(0)), (400 + 200, (400 * 400 + 200 * 200) / 512));
    assert_eq!((index.holes(1), index.score(1)), (12, 0));
    assert_eq!(zone.free_in_huge(FrameId(3 * HUGE).huge::<Base4K>()), 200);
}

#[test]
fn asks_in_vain_share_one_search_in_a_rest() {
    let (zone, mut owner) = filled(&[300, 300, 300, 300], 1);
    rig!(rig, zone, Settings { threshold: 1000, ..settings() }, 2);
    let mut started = 0;
    for now in 0..1000 {
        rig.now = now;
        let ticket = rig.asks.ask(1);
        let events = rig.until_idle(&zone, &mut owner);
        started += events.iter().filter(|event| matches!(event, Event::Started { .. })).count();
        assert!(rig.asks.is_answered(ticket), "at {now}: {events:?}");
        // Something changes in the region, or it would not be looked at again.
        _ = owner.alloc(&zone, Order(0), true);
    }
    assert!((2..=10).contains(&started), "{started} searches");
    owner.check_all(&zone);
}

#[test]
fn an_order_that_is_answered_without_a_search_is_not_left_to_the_next_ask() {
    let (zone, mut owner) = filled(&[500, 400, 40, 60], 1);
    rig!(rig, zone, Settings { threshold: 1000, ..settings() }, 2);
    rig.asks.ask_block(Order(10));
    assert_eq!(rig.daemon.cancel(&*zone, rig.asks), None);
    rig.asks.ask(1);
    let Event::Started { regions, .. } = rig.step(&zone, &mut owner) else { panic!("it starts") };
    assert!(regions > 0, "it looks for one huge frame, not for neighbours");
    assert!(rig.daemon.cancel(&*zone, rig.asks).is_some());
    owner.check_all(&zone);
}

#[test]
fn who_waits_for_a_daemon_that_is_cancelled_is_answered() {
    let (zone, mut owner) = filled(&[500, 400, 40, 60], 1);
    rig!(rig, zone, Settings { threshold: 1000, ..settings() }, 2);
    // At rest, and beside a run that began before.
    let first = rig.asks.ask(1);
    assert_eq!(rig.daemon.cancel(&*zone, rig.asks), None);
    assert!(rig.asks.is_answered(first));
    rig.asks.ask(1);
    assert!(matches!(rig.step(&zone, &mut owner), Event::Started { .. }));
    let second = rig.asks.ask(1);
    assert!(rig.daemon.cancel(&*zone, rig.asks).is_some());
    assert!(rig.asks.is_answered(second));
    owner.check_all(&zone);
}

#[test]
fn who_asks_for_neighbours_gets_neighbours() {
    // The emptiest two are no neighbours, and of the two first ones nothing is in use but what cannot move.
    let (zone, mut owner) = filled(&[1, 0, 200, 10, 100, 120, 10, 200], 1);
    owner.blocks.values_mut().next().unwrap().pinned = true;
    owner.tells_pinned = true;
    let one = owner.alloc_at(&zone, HUGE, 0, false);
    let asks = Asks::new();
    let parts = parts(&zone);
    let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, 0)];
    let mut memory = vec![Candidate::EMPTY; 8];
    let index = Index::new(&mut chunks, &parts, 0).unwrap();
    let mut rig = Rig { daemon: Daemon::new(settings(), index, &mut memory), asks: &asks, now: 0 };
    let request = Request::movable(Order(10), SLOT);
    let mut events = Vec::new();
    let frame = alloc_or_ask(&*zone, request, &asks, Patience::Wait, || {
        // Somebody else asks for one huge frame beside it, and waits no longer than the run after.
        if events.is_empty() {
            asks.ask(1);
        }
        events.push(rig.step(&zone, &mut owner));
        true
    });
    let frame = frame.expect("200 and 10, or 100 and 120, can be moved away");
    let started = |event: &Event| match event {
        Event::Started { regions, .. } => Some(*regions),
        _ => None,
    };
    let runs: Vec<usize> = events.iter().filter_map(started).collect();
    assert_eq!(runs[0], 0, "it looks for one block first");
    assert!(runs[1..].iter().all(|&regions| regions > 0) && runs.len() == 2, "{runs:?}");
    owner.take(frame, Order(10), false);
    owner.free(&zone, one);
    owner.check_all(&zone);
}

#[test]
fn moves_that_are_refused_count_for_the_rate() {
    let (zone, mut owner) = filled(&[100, 200, 200, 250], 1);
    owner.mood = Mood::Moody(100);
    rig!(rig, zone, Settings { moves: 2, interval: 10, ..settings() }, 2);
    let mut refused = 0;
    loop {
        match rig.step(&zone, &mut owner) {
            Event::Limited(until) => {
                assert_eq!((refused, until), (2, 10));
                break;
            }
            Event::Worked(Step::Refused(..)) => refused += 1,
            Event::Finished(report) => panic!("{refused} were copied in vain: {report:?}"),
            _ => {}
        }
    }
    assert!(rig.daemon.cancel(&*zone, rig.asks).is_some());
    owner.check_all(&zone);
}

#[test]
fn by_the_counters_the_index_is_above_the_threshold_with_few_single_frames() {
    // What the settings say of it.
    let index = |huge: usize, single: usize| {
        Fmfi::of_counts::<Base4K>(huge * HUGE + single, huge).index(Order(9))
    };
    assert!(index(7000, 2990) <= settings().threshold && index(7000, 3010) > settings().threshold);
    assert!((0..5000).all(|single| index(1, single) >= 0));
}

/// An owner that panics in one of its calls, once.
struct Panics<'a> {
    owner: &'a mut Owner,
    call: &'static str,
}

impl Panics<'_> {
    fn reaches(&mut self, call: &str) {
        if self.call == call {
            self.call = "";
            panic!("{call}");
        }
    }
}

impl Relocate for Panics<'_> {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        self.reaches("block_at");
        self.owner.block_at(frame)
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        // Before anything has happened: so both blocks stay, and the test frees the new one.
        if self.call == "relocate" {
            self.owner.take(to, block.order, false);
        }
        self.reaches("relocate");
        self.owner.relocate(block, to)
    }

    fn has_pinned(&mut self, huge: HugeId) -> bool {
        self.reaches("has_pinned");
        self.owner.has_pinned(huge)
    }
}

#[test]
fn after_a_panic_of_its_owner_the_daemon_works_on() {
    for call in ["has_pinned", "block_at", "relocate"] {
        let (zone, mut owner) = filled(&[500, 400, 40, 60, 0, 0, 0, 0], 1);
        rig!(rig, zone, settings(), 2);
        let ticket = rig.asks.ask(1);
        let mut panics = Panics { owner: &mut owner, call };
        let fmfi = || Fmfi::of::<Base4K>(&zone.stats());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            loop {
                rig.daemon.step(0, &*zone, &mut panics, rig.asks, fmfi);
            }
        }));
        assert!(panicked.is_err());
        panics.owner.check_all(&zone);
        assert_eq!(rig.daemon.is_working(), call != "has_pinned", "{call}");
        if rig.daemon.is_working() {
            let event = rig.daemon.step(0, &*zone, &mut panics, rig.asks, fmfi);
            let Event::Finished(report) = event else { panic!("{event:?}") };
            assert_eq!((report.stop, report.won), (Some(Stop::Cancelled), 0));
            assert!(rig.asks.is_answered(ticket), "the run has ended");
            rig.asks.ask(1);
        }
        // After the rest.
        rig.now = 1000;
        let events = rig.until_idle(&zone, &mut owner);
        let Event::Finished(report) = events[1] else { panic!("{events:?}") };
        assert_eq!(report.won, 1, "{call}");
        owner.check_all(&zone);
    }
}

#[test]
fn a_block_that_reaches_out_of_the_zone_is_not_looked_for() {
    let (zone, mut owner) = filled(&[500, 500, 0, 0, 0, 0], 1);
    // By mistake there are two more: with them four neighbours, for half of which the others have room.
    let (parts, asks) = ([HugeId(2)..HugeId(8)], Asks::new());
    let (mut chunks, mut memory) = ([Chunk::default(); 1], [Candidate::EMPTY; 8]);
    let index = Index::new(&mut chunks, &parts, 3).expect("one chunk is enough");
    let mut rig = Rig { daemon: Daemon::new(settings(), index, &mut memory), asks: &asks, now: 0 };
    let ticket = asks.ask_block(Order(11));
    assert_eq!(rig.step(&zone, &mut owner), Event::Resting(100));
    assert!(asks.is_answered(ticket), "there is no such block");
    // It works on.
    for (huge, used) in [(2, 40), (4, 1)] {
        (0..used).for_each(|frame| _ = owner.alloc_at(&zone, huge * HUGE + frame, 0, false));
    }
    rig.now = 1000;
    asks.ask(1);
    let events = rig.until_idle(&zone, &mut owner);
    let Event::Finished(report) = events[1] else { panic!("{events:?}") };
    assert_eq!((report.won, report.moves), (1, 1));
    owner.check_all(&zone);
}

/// An owner that keeps some free frames to itself, until the free ones are to be counted.
struct Keeps<'a> {
    owner: Owner,
    zone: &'a Zone,
    kept: Vec<u64>,
}

impl Relocate for Keeps<'_> {
    fn prepare(&mut self) {
        self.kept.drain(..).for_each(|id| self.owner.free(self.zone, id));
    }

    fn block_at(&mut self, frame: FrameId) -> Lookup {
        self.owner.block_at(frame)
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        self.owner.relocate(block, to)
    }
}

/// Two huge frames' worth is free, to the frame. Of one huge frame the owner keeps all that is free.
fn keeps(zone: &Zone, mut owner: Owner) -> Keeps<'_> {
    let frames = 3 * HUGE + 256..4 * HUGE;
    let kept = frames.map(|frame| owner.alloc_at(zone, frame, 0, true)).collect();
    Keeps { owner, zone, kept }
}

#[test]
fn what_the_owner_keeps_is_free_to_a_plan() {
    for order in [9, 10].map(Order) {
        let (zone, owner) = filled(&[256; 4], 1);
        let mut keeps = keeps(&zone, owner);
        rig!(rig, zone, settings(), 0);
        match order {
            Order(9) => rig.asks.ask(2),
            _ => rig.asks.ask_block(order),
        };
        let fmfi = || Fmfi::of::<Base4K>(&zone.stats());
        let started = rig.daemon.step(0, &*zone, &mut keeps, rig.asks, fmfi);
        let regions = if order == Order(9) { 4 } else { 0 };
        assert!(
            matches!(started, Event::Started { regions: of, .. } if of == regions),
            "{started:?}"
        );
        while rig.daemon.is_working() {
            rig.daemon.step(0, &*zone, &mut keeps, rig.asks, fmfi);
        }
        assert_eq!((rig.daemon.counters().all.won, rig.daemon.counters().all.moves), (2, 512));
        keeps.owner.check_all(&zone);
    }
    let (zone, owner) = filled(&[256; 4], 1);
    let mut keeps = keeps(&zone, owner);
    let mut memory = [Candidate::EMPTY; 4];
    let regions = parts(&zone).into_iter();
    // Through a reference, too.
    let work =
        Compaction::plan(Setup::huge(2, COMPACT), &mut memory, &*zone, &mut &mut keeps, regions);
    assert_eq!(work.expect("a plan").report::<Base4K>().possible, 2);
    keeps.owner.check_all(&zone);
}
