//! A daemon of compaction for each domain.

mod machine;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use machine::{Machine, machine, memory, ranges};
use woodlot_compact::{
    Asks, Background, Block, Candidate, Chunk, Daemon, Event, Fmfi, Index, Lookup, Refusal,
    Relocate, Settings,
};
use woodlot_domains::{DomainId, Map, Metadata, OneDomain, Present, Room, Setup};
use woodlot_frame::{
    AllocError, Base4K, Class, FrameAllocator, FrameId, FreeError, Geometry, HugeId, IsolateError,
    Order, RawMetadata, Request, Slot,
};

const CHUNK: usize = Base4K::MAX_FRAMES;
const HUGE: usize = Base4K::HUGE_FRAMES;
const D0: DomainId = DomainId(0);
const D1: DomainId = DomainId(1);

/// Two pieces of each of two domains, which touch.
const PIECES: [(usize, usize, u8); 4] = [
    (0, 8 * CHUNK, 0),
    (8 * CHUNK, 16 * CHUNK, 1),
    (16 * CHUNK, 24 * CHUNK, 0),
    (24 * CHUNK, 32 * CHUNK, 1),
];

/// All slots are at home in domain 0; the last one is the daemons'.
fn of(map: &[(usize, usize, u8)]) -> Machine<'static> {
    let mut ranges = ranges(map);
    let map = Map::new(&mut ranges).expect("the map is right");
    machine(&Setup::new(map, 2).at_home(&[D0, D0]))
}

/// The blocks of a program, which move.
#[derive(Default)]
struct Blocks(BTreeMap<FrameId, Order>);

impl Blocks {
    fn add(&mut self, machine: &Machine<'_>, frame: usize, order: u8) {
        let request = Request::movable(Order(order), Slot(0)).at(FrameId(frame));
        self.0.insert(machine.alloc(request).expect("it is free"), Order(order));
    }

    /// Some single frames of each huge frame of these.
    fn add_some(&mut self, machine: &Machine<'_>, range: Range<HugeId>, rng: &mut Rng) {
        for huge in range.start.0..range.end.0 {
            let mut frames: Vec<_> = (huge * HUGE..(huge + 1) * HUGE).collect();
            rng.shuffle(&mut frames);
            let some = rng.usize(1..60);
            frames.into_iter().take(some).for_each(|frame| self.add(machine, frame, 0));
        }
    }

    fn of(&self, machine: &Machine<'_>, domain: DomainId) -> Vec<(FrameId, Order)> {
        let all = self.0.iter().map(|(&first, &order)| (first, order));
        all.filter(|&(first, _)| machine.domain_of(first) == Some(domain)).collect()
    }
}

/// Who moves blocks of a machine, and looks where they go.
#[derive(Clone)]
struct Owner {
    machine: Arc<Machine<'static>>,
    blocks: Arc<Mutex<Blocks>>,
}

impl Relocate for Owner {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        let blocks = self.blocks.lock().expect("nobody panics");
        match blocks.0.range(..=frame).next_back() {
            Some((&first, &order)) if frame.0 < first.0 + order.frames() => {
                Lookup::Movable(Block { first, order, class: Class::MOVABLE })
            }
            _ => Lookup::Gone,
        }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let [from, there] = [block.first, to].map(|frame| self.machine.domain_of(frame));
        assert_eq!(from, there, "a block leaves its domain");
        let mut blocks = self.blocks.lock().expect("nobody panics");
        let order = blocks.0.remove(&block.first).ok_or(Refusal::Gone)?;
        blocks.0.insert(to, order);
        Ok(())
    }
}

fn settings() -> Settings {
    Settings { gain: 0, moves: 0, rest: 1_000_000, ..Settings::new(Slot(1)) }
}

fn owner(machine: Machine<'static>, blocks: Blocks) -> Owner {
    Owner { machine: Arc::new(machine), blocks: Arc::new(Mutex::new(blocks)) }
}

/// A machine of which all huge frames are in use in part.
fn fragmented(seed: u64) -> Owner {
    let (machine, mut rng) = (of(&PIECES), Rng::with_seed(seed));
    let mut blocks = Blocks::default();
    blocks.add_some(&machine, machine.zone().huge_range::<Base4K>(), &mut rng);
    owner(machine, blocks)
}

/// How many huge frames a domain has, and could have, free as a whole.
fn free_huge(machine: &Machine<'_>, domain: DomainId) -> (usize, usize) {
    let stats = machine.stats_of(domain).expect("it has memory");
    (stats.free_huge, stats.free_frames / HUGE)
}

/// Steps the daemon of a domain until it has nothing to do; the events but for the steps of compaction. What it won as the first
/// index says is the domain's.
fn work_off(owner: &mut Owner, domain: DomainId, settings: Settings, asks: &Asks) -> Vec<Event> {
    let machine = owner.machine.clone();
    let own = OneDomain::new(&*machine, domain);
    let parts: Vec<_> = machine.huge_ranges(domain).collect();
    let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, 3)];
    let mut memory = vec![Candidate::EMPTY; machine.zone().frames / HUGE];
    let index = Index::new(&mut chunks, &parts, 3).expect("it is right");
    let mut daemon = Daemon::new(settings, index, &mut memory);
    let (mut now, mut events) = (0, Vec::new());
    loop {
        let fmfi = || Fmfi::of::<Base4K>(&own.stats());
        match daemon.step(now, &own, owner, asks, fmfi) {
            Event::Worked(_) => {}
            Event::Resting(until) if events.len() < 20 => now = until,
            event => {
                events.push(event);
                if matches!(event, Event::Below(_) | Event::Resting(_)) {
                    return events;
                }
            }
        }
    }
}

#[test]
fn a_domain_has_the_huge_frames_that_are_all_its_own() {
    let shared: &[(usize, usize, u8)] = &[
        (100, CHUNK + 700, 0),
        (CHUNK + 704, 3 * CHUNK + 64, 1),
        (3 * CHUNK + 64, 5 * CHUNK, 0),
        (9 * CHUNK, 10 * CHUNK + 512, 1),
        (10 * CHUNK + 512, 12 * CHUNK - 3, 0),
        (40 * CHUNK + 9, 40 * CHUNK + 70, 2),
    ];
    for map in [&PIECES[..], shared] {
        let mut ranges = ranges(map);
        let map = Map::new(&mut ranges).expect("the map is right");
        let room = Room::new(FrameId(50 * CHUNK)..FrameId(60 * CHUNK), 3);
        let machine = machine(&Setup::new(map, 2).growing(room));
        // What is added later lies lower, and another range has its metadata at its end.
        for (start, end, domain) in [(56, 58, 1), (52, 54, 1), (54, 56, 0)] {
            let frames = FrameId(start * CHUNK)..FrameId(end * CHUNK);
            let layout = Layout::from_size_align(2 * CHUNK * 4096, 4096).expect("it is small");
            // SAFETY: the layout is not empty. The memory is never freed.
            let at = unsafe { std::alloc::alloc_zeroed(layout) };
            let range = Present::new(frames, DomainId(domain));
            // SAFETY: the memory is new.
            assert_eq!(unsafe { machine.add_range(range, Metadata::Carved(at)) }, Ok(()));
        }
        for domain in (0..4).map(DomainId) {
            let is_own = |huge: usize| {
                let mut units = (huge * HUGE..(huge + 1) * HUGE).step_by(64);
                units.all(|unit| machine.domain_of(FrameId(unit)) == Some(domain))
                    && machine.isolate(HugeId(huge), 1).is_ok()
                    && machine.unisolate(HugeId(huge), 1).is_ok()
            };
            let expected: Vec<_> = (0..62 * CHUNK / HUGE).filter(|&huge| is_own(huge)).collect();
            let ranges: Vec<_> = machine.huge_ranges(domain).collect();
            let found = ranges.iter().flat_map(|range| range.start.0..range.end.0);
            assert_eq!(found.collect::<Vec<_>>(), expected, "{domain}");
            assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
            assert_eq!(expected.is_empty(), domain.0 > 1, "{domain}");
        }
    }
}

#[test]
fn only_the_domain_of_a_daemon_changes() {
    let mut owner = fragmented(1);
    let machine = owner.machine.clone();
    let blocks = |owner: &Owner, domain| owner.blocks.lock().unwrap().of(&machine, domain);
    let before = [D0, D1].map(|domain| (blocks(&owner, domain), machine.stats_of(domain)));
    for (domain, other) in [(D1, D0), (D0, D1)] {
        let untouched = (blocks(&owner, other), machine.stats_of(other));
        let events = work_off(&mut owner, domain, settings(), &Asks::new());
        assert!(matches!(events[0], Event::Started { .. }), "{events:?}");
        let (free, possible) = free_huge(&machine, domain);
        assert!(free == possible && free > 25, "{free} of {possible}");
        assert_eq!((blocks(&owner, other), machine.stats_of(other)), untouched);
    }
    for (domain, (blocks_before, _)) in [D0, D1].into_iter().zip(before) {
        assert_eq!(blocks(&owner, domain).len(), blocks_before.len());
    }
    assert_eq!(machine.stats().isolated_huge, 0);
}

#[test]
fn the_index_of_a_daemon_is_its_domains() {
    let (machine, mut rng) = (of(&PIECES), Rng::with_seed(2));
    let mut blocks = Blocks::default();
    let own: Vec<_> = machine.huge_ranges(D1).collect();
    own.into_iter().for_each(|range| blocks.add_some(&machine, range, &mut rng));
    let mut owner = owner(machine, blocks);
    let machine = owner.machine.clone();
    let of = |domain| Fmfi::of::<Base4K>(&machine.stats_of(domain).unwrap()).index(Order(9));
    let index = of(D1);
    assert!(index > 990 && of(D0) == 0, "{index}");
    // Of the free memory of the whole machine that is too little.
    let picky = Settings { gain: 600, ..settings() };
    let events = work_off(&mut owner, D0, picky.clone(), &Asks::new());
    assert_eq!(events, [Event::Below(0)]);
    let events = work_off(&mut owner, D1, picky, &Asks::new());
    assert!(matches!(events[0], Event::Started { index: at, .. } if at == index), "{events:?}");
}

#[test]
fn a_block_of_a_huge_frame_moves_within_its_domain() {
    let machine = of(&[(0, 8 * CHUNK, 0), (8 * CHUNK, 10 * CHUNK, 1)]);
    let mut blocks = Blocks::default();
    for chunk in [8, 9] {
        blocks.add(&machine, chunk * CHUNK, 9);
    }
    let mut owner = owner(machine, blocks);
    let asks = Asks::new();
    let ticket = asks.ask_block(Order(10));
    let events = work_off(&mut owner, D1, Settings { threshold: 1000, ..settings() }, &asks);
    assert!(asks.is_answered(ticket), "{events:?}");
    let own = OneDomain::new(&*owner.machine, D1);
    assert!(own.is_available(Order(10)), "{events:?}");
    assert_eq!(free_huge(&owner.machine, D0), (16, 16));
}

#[test]
fn daemons_of_two_domains_run_side_by_side() {
    for (seed, both) in [(3, false), (4, true)] {
        let owner = fragmented(seed);
        let machine = owner.machine.clone();
        let untouched = machine.stats_of(D0);
        let domains = if both { &[D0, D1][..] } else { &[D1] };
        // A move has two blocks for a moment, so that less is free.
        let goals = [D0, D1].map(|domain| free_huge(&machine, domain).1);
        let daemons = domains.iter().map(|&domain| {
            let parts = machine.huge_ranges(domain).collect();
            let own = Arc::new(OneDomain::new(machine.clone(), domain));
            Background::start_in(settings(), 3, parts, own, owner.clone()).expect("it starts")
        });
        let daemons: Vec<_> = daemons.collect();
        let recovered = |&domain: &DomainId| free_huge(&machine, domain).0 == goals[domain.index()];
        let began = Instant::now();
        while !domains.iter().all(recovered) && began.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(1));
        }
        let counters: Vec<_> = daemons.into_iter().map(Background::stop).collect();
        assert!(domains.iter().all(recovered), "{counters:?}");
        assert!(counters.iter().all(|counters| counters.all.won > 0), "{counters:?}");
        if !both {
            assert_eq!(machine.stats_of(D0), untouched);
        }
        // Each block is where its owner thinks, and nothing else is in use.
        let blocks = owner.blocks.lock().unwrap();
        for (&first, &order) in &blocks.0 {
            assert_eq!(machine.free(first, order, Slot(0)), Ok(()));
        }
        let stats = machine.stats();
        assert_eq!((stats.free_huge, stats.isolated_huge), (64, 0));
    }
}

#[test]
fn memory_that_comes_while_a_daemon_runs_is_served_when_its_index_is_renewed() {
    let mut ranges = ranges(&[(0, 4 * CHUNK, 0), (4 * CHUNK, 8 * CHUNK, 1)]);
    let map = Map::new(&mut ranges).expect("the map is right");
    let room = Room::new(FrameId(8 * CHUNK)..FrameId(16 * CHUNK), 1);
    let machine = machine(&Setup::new(map, 2).at_home(&[D0, D0]).growing(room));
    let mut owner = owner(machine, Blocks::default());
    let machine = owner.machine.clone();
    let (own, asks) = (OneDomain::new(&*machine, D1), Asks::new());
    let parts: Vec<_> = machine.huge_ranges(D1).collect();
    let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, 3)];
    let mut candidates = vec![Candidate::EMPTY; 32];
    let index = Index::new(&mut chunks, &parts, 3).expect("it is right");
    let mut daemon = Daemon::new(settings(), index, &mut candidates);
    let added = FrameId(8 * CHUNK)..FrameId(12 * CHUNK);
    let range = Present::new(added.clone(), D1);
    let size = machine.metadata_of(added.clone()).expect("it is right");
    let (durable, volatile) = (memory(size.durable), memory(size.volatile));
    // SAFETY: the memory is new, and stays.
    let is_added =
        unsafe { machine.add_range(range, Metadata::Given(RawMetadata { durable, volatile })) };
    assert_eq!(is_added, Ok(()));
    let mut rng = Rng::with_seed(5);
    let huge = added.start.huge::<Base4K>()..added.end.huge::<Base4K>();
    owner.blocks.lock().unwrap().add_some(&machine, huge, &mut rng);
    let step = |daemon: &mut Daemon<'_>, owner: &mut Owner, now| {
        daemon.step(now, &own, owner, &asks, || Fmfi::of::<Base4K>(&own.stats()))
    };
    let before = machine.stats();
    assert!(matches!(step(&mut daemon, &mut owner, 0), Event::Resting(_)), "nothing is in reach");
    assert_eq!(machine.stats(), before);
    let parts: Vec<_> = machine.huge_ranges(D1).collect();
    assert_eq!(parts, [HugeId(8)..HugeId(24)]);
    let mut chunks = vec![Chunk::default(); Index::chunks_for(&parts, 3)];
    daemon.renew(Index::new(&mut chunks, &parts, 3).expect("it is right"));
    let mut now = u64::MAX / 2;
    while !matches!(step(&mut daemon, &mut owner, now), Event::Finished(_)) {
        now += 1;
    }
    let (free, possible) = free_huge(&machine, D1);
    assert_eq!(free, possible);
    // It goes in the middle of a run.
    owner.blocks.lock().unwrap().add_some(&machine, HugeId(8)..HugeId(16), &mut rng);
    now = u64::MAX / 4 * 3;
    while machine.stats().isolated_huge == 0 {
        step(&mut daemon, &mut owner, now);
    }
    let mine = std::mem::take(&mut owner.blocks.lock().unwrap().0);
    for (first, order) in mine {
        assert_eq!(machine.free(first, order, Slot(0)), Ok(()));
    }
    let isolated = (8..24).map(HugeId).find(|&huge| machine.is_isolated(huge));
    let refused = machine.remove_range(added.clone());
    assert_eq!(refused.is_err(), isolated.is_some_and(|huge| huge.0 >= 16));
    daemon.cancel(&own, &asks);
    assert_eq!((machine.stats().isolated_huge, machine.free_frames() % HUGE), (0, 0));
    if refused.is_err() {
        assert_eq!(machine.remove_range(added).map(|removed| removed.zones()), Ok(1));
    }
    assert!(!matches!(step(&mut daemon, &mut owner, u64::MAX), Event::Started { .. }));
}

#[test]
fn what_another_domain_has_is_outside() {
    let machine = of(&PIECES);
    let own = OneDomain::new(&machine, D1);
    let other = machine.alloc(Request::movable(Order(0), Slot(0))).expect("it is free");
    let huge = other.huge::<Base4K>();
    assert_eq!(machine.domain_of(other), Some(D0));
    let block = Request::movable(Order(0), Slot(0));
    assert_eq!(own.alloc(block.at(FrameId(9))), Err(AllocError::OutOfMemory));
    assert_eq!(own.free(other, Order(0), Slot(0)), Err(FreeError::OutOfRange(other)));
    assert_eq!(own.can_free(other, Order(0), Slot(0)), Err(FreeError::OutOfRange(other)));
    assert_eq!(own.isolate(HugeId(15), 2), Err(IsolateError::OutOfRange));
    assert_eq!(own.isolate(HugeId(31), 1), Ok(()));
    assert_eq!(machine.isolate(huge, 1), Ok(()));
    assert_eq!(own.unisolate(huge, 1), Err(IsolateError::OutOfRange));
    assert!(own.is_isolated(HugeId(31)) && !own.is_isolated(huge));
    assert_eq!((own.frames_in_use(huge), own.used_map(other), own.free_map(other)), (0, 0, 0));
    assert!(own.free_in_huge(huge) == 0 && !own.is_free(FrameId(9), Order(0)));
    assert_eq!(Some(own.stats()), machine.stats_of(D1));
    let mut taken = 0;
    while let Ok(frame) = own.alloc(Request::movable(Order(9), Slot(0))) {
        assert_eq!(machine.domain_of(frame), Some(D1));
        taken += 1;
    }
    // All but the one that is isolated.
    assert_eq!((taken, own.free_frames(), own.is_available(Order(0))), (31, 0, false));
    let unknown = OneDomain::new(&machine, DomainId(7));
    assert_eq!(unknown.alloc(block), Err(AllocError::NoSuchDomain(7)));
    assert_eq!((unknown.free_frames(), unknown.stats().free_frames), (0, 0));
}
