//! Machines with holes and several domains.

mod machine;
mod runs;

use std::collections::BTreeSet;
use std::ops::Range;

use fastrand::Rng;
use machine::{Machine, machine, ranges};
use woodlot_domains::{
    Distances, DomainId, DomainSet, Map, NumaStats, Policy, Present, Rounds, RunsError, Setup,
    SetupError,
};
use woodlot_frame::{
    AllocError, Base4K, Batch, Class, FrameAllocator, FrameId, FreeBlocks, FreeError, HugeId,
    MetadataSize, OfflineError, Order, RangeRequest, Request, Slot,
};
use woodlot_llfree::LLFree;

type Engine = LLFree<'static, Base4K>;

/// Frames of a chunk, and of a huge frame.
const CHUNK: usize = 1024;
const HUGE: usize = 512;

/// Two domains that alternate, with ragged ends, a hole within a chunk, and a hole of many chunks.
const HOLED: [(usize, usize, u8); 6] = [
    (3, 2 * CHUNK, 0),
    (2 * CHUNK, 5 * CHUNK + 7, 1),
    (5 * CHUNK + 9, 7 * CHUNK, 1),
    (7 * CHUNK, 8 * CHUNK, 0),
    (600 * CHUNK + 5, 600 * CHUNK + 6, 1),
    (900 * CHUNK, 903 * CHUNK - 1, 0),
];

/// A machine of a map alone, with two slots.
fn of(map: &[(usize, usize, u8)]) -> Machine<'static> {
    let mut ranges = ranges(map);
    let homes = [DomainId(0), DomainId(1)];
    let map = Map::new(&mut ranges).expect("the map is right");
    machine(&Setup::new(map, 2).at_home(&homes))
}

fn base(slot: usize) -> Request {
    Request::movable(Order::BASE, Slot(slot))
}

fn frames(map: &[(usize, usize, u8)], domain: u8) -> usize {
    map.iter().filter(|(.., of)| *of == domain).map(|(start, end, _)| end - start).sum()
}

fn is_present(map: &[(usize, usize, u8)], frame: usize) -> bool {
    map.iter().any(|(start, end, _)| (*start..*end).contains(&frame))
}

#[test]
fn each_frame_is_handed_out_once_and_none_of_a_hole() {
    let machine = of(&HOLED);
    let total = frames(&HOLED, 0) + frames(&HOLED, 1);
    assert_eq!((machine.free_frames(), machine.stats().free_frames), (total, total));
    let mut all = BTreeSet::new();
    while let Ok(frame) = machine.alloc(base(all.len() % 2)) {
        assert!(is_present(&HOLED, frame.0), "{frame} does not exist");
        assert!(all.insert(frame), "{frame} was handed out twice");
    }
    assert_eq!((all.len(), machine.stats().free_frames), (total, 0));
    for frame in all {
        assert_eq!(machine.free(frame, Order::BASE, Slot(0)), Ok(()));
    }
    assert_eq!(machine.stats().free_frames, total);
}

#[test]
fn random_calls_agree_with_a_set_of_frames() {
    let machine = of(&HOLED);
    let total = frames(&HOLED, 0) + frames(&HOLED, 1);
    let mut rng = Rng::with_seed(21);
    let (mut blocks, mut used) = (Vec::<(FrameId, Order)>::new(), BTreeSet::<usize>::new());
    for _ in 0..6000 {
        let order = Order(rng.u8(0..=10).min(rng.u8(0..=10)));
        let slot = Slot(rng.usize(..2));
        if rng.bool() || blocks.is_empty() {
            let request = Request::movable(order, slot);
            let request = match rng.u8(..4) {
                0 => {
                    let (start, end, _) = HOLED[rng.usize(..HOLED.len())];
                    request.at(FrameId(rng.usize(start..end) & !(order.frames() - 1)))
                }
                1 => request.within(FrameId(CHUNK)..FrameId(rng.usize(CHUNK..901 * CHUNK))),
                _ => request,
            };
            if let Ok(frame) = machine.alloc(request) {
                assert!(frame.is_aligned(order));
                for frame in frame.0..frame.0 + order.frames() {
                    assert!(
                        is_present(&HOLED, frame) && used.insert(frame),
                        "{request:?}: {frame:#x}"
                    );
                }
                blocks.push((frame, order));
            }
        } else {
            let (frame, order) = blocks.swap_remove(rng.usize(..blocks.len()));
            assert!((frame.0..frame.0 + order.frames()).all(|frame| used.remove(&frame)));
            assert_eq!(machine.free(frame, order, slot), Ok(()));
            let again = machine.free(frame, order, slot);
            assert_eq!(again, Err(FreeError::NotAllocated(frame)), "{order}");
        }
        let wrong = rng.usize(..910 * CHUNK);
        assert_eq!(
            machine.is_free(FrameId(wrong), Order::BASE),
            is_present(&HOLED, wrong) && !used.contains(&wrong)
        );
    }
    assert_eq!(machine.stats().free_frames, total - used.len());
    assert_eq!(machine.free_frames(), total - used.len());
}

#[test]
fn what_is_in_a_hole_is_out_of_range() {
    let machine = of(&HOLED);
    let hole = FrameId(100 * CHUNK);
    assert_eq!(machine.domain_of(hole), None);
    assert_eq!(machine.alloc(base(0).at(hole)), Err(AllocError::OutOfRange(hole)));
    assert_eq!(machine.free(hole, Order::BASE, Slot(0)), Err(FreeError::OutOfRange(hole)));
    assert_eq!(machine.offline(HugeId(200), 1), Err(OfflineError::OutOfRange));
    assert_eq!((machine.free_map(hole), machine.free_in_huge(HugeId(200))), (0, 0));
    let in_hole = base(0).within(hole..FrameId(101 * CHUNK));
    assert_eq!(machine.alloc(in_hole), Err(AllocError::OutOfMemory));
}

#[test]
fn a_hole_costs_next_to_nothing() {
    let sum = |map: &[(usize, usize, u8)]| -> usize {
        let mut ranges = ranges(map);
        let setup = Setup::new(Map::new(&mut ranges).expect("the map is right"), 4);
        let bytes = |size: MetadataSize| size.durable + size.volatile;
        setup.sizes::<Engine>().map(|size| bytes(size.expect("it is small").1)).sum()
    };
    let four_gib = 1 << 20;
    let dense = sum(&[(0, four_gib, 0)]);
    // In millionths of a percent of what is there. A piece across the border of two chunks has the metadata of both.
    for (from, most) in [(0, 400), (CHUNK / 2, 4000)] {
        let piece = |n: usize| ((n << 18) + from, (n << 18) + from + CHUNK, 0);
        let spread = sum(&(0..1024).map(piece).collect::<Vec<_>>());
        let price = (spread - dense) * 100_000_000 / (four_gib * 4096);
        let pieces = format!("4 GiB over 1 TiB from frame {from} of each chunk");
        assert!(price < most, "{pieces}: {spread} bytes, side by side {dense}: {price}");
    }
}

#[test]
fn offline_frames_of_two_domains_go_together_or_not_at_all() {
    let machine = of(&HOLED);
    // The last huge frame of domain 0, and five of domain 1.
    let (first, count) = (HugeId(3), 6);
    assert_eq!(machine.offline(first, count), Ok(()));
    assert_eq!(machine.offline(HugeId(8), 1), Err(OfflineError::InUse(FrameId(8 * 512))));
    assert_eq!(machine.online(first, count), Ok(()));
    let used = FrameId(8 * 512 + 3);
    assert_eq!(machine.alloc(base(0).at(used)), Ok(used));
    assert_eq!(machine.offline(first, count), Err(OfflineError::InUse(used)));
    assert_eq!(machine.online(HugeId(3), 1), Err(OfflineError::NotOffline), "it was put back");
}

#[test]
fn a_batch_of_frees_crosses_domains() {
    let machine = of(&HOLED);
    let mut blocks = [FrameId(0); 3000];
    assert_eq!(machine.alloc_batch(base(1), Batch::All, &mut blocks), Ok(3000));
    Rng::with_seed(4).shuffle(&mut blocks);
    assert_eq!(machine.free_batch(&blocks, Order::BASE, Slot(0)), Ok(()));
    let total = frames(&HOLED, 0) + frames(&HOLED, 1);
    assert_eq!(machine.stats().free_frames, total);
    let mut all = vec![FrameId(0); total + 1];
    let failed = machine.alloc_batch(base(0), Batch::All, &mut all);
    assert_eq!((failed, machine.stats().free_frames), (Err(AllocError::OutOfMemory), total));
    assert_eq!(machine.alloc_batch(base(0), Batch::UpTo, &mut all), Ok(total));
}

/// Three domains, of which 1 is nearer to 2 than 0 is.
fn three() -> Machine<'static> {
    let map = [(0, 4 * CHUNK, 0), (4 * CHUNK, 8 * CHUNK, 1), (8 * CHUNK, 12 * CHUNK, 2)];
    let mut ranges = ranges(&map);
    let map = Map::new(&mut ranges).expect("the map is right");
    let distances = [10, 20, 30, 20, 10, 15, 30, 15, 10];
    let homes = [DomainId(0), DomainId(2)];
    let distances = Distances::new(&distances).expect("they are right");
    machine(&Setup::new(map, 2).at_home(&homes).apart(distances))
}

/// From which domains so many huge frames come.
fn order_of(machine: &Machine<'_>, request: Request, policy: Policy<'_>, count: usize) -> Vec<u8> {
    let huge = Request { order: Order(9), ..request };
    let next = || Some(machine.domain_of(machine.alloc_by(huge, policy).ok()?)?.0);
    std::iter::from_fn(next).take(count).collect()
}

#[test]
fn the_nearest_domain_gives_first() {
    let all = |policy| order_of(&three(), base(1), policy, 100);
    let expect = |order: [u8; 3]| order.iter().flat_map(|&of| [of; 8]).collect::<Vec<_>>();
    assert_eq!(all(Policy::FirstTouch), expect([2, 1, 0]));
    assert_eq!(all(Policy::Prefer(DomainId(0))), expect([0, 1, 2]));
    assert_eq!(all(Policy::Prefer(DomainId(1))), expect([1, 2, 0]));
    let set = DomainSet::of(&[DomainId(0), DomainId(1)]);
    assert_eq!(all(Policy::Bind(set)), expect([1, 0, 0])[..16]);
    let machine = three();
    let without: Vec<u8> = std::iter::from_fn(|| {
        let frame = machine.alloc(Request { order: Order(9), ..base(1) }).ok()?;
        Some(machine.domain_of(frame)?.0)
    })
    .collect();
    assert_eq!(without, expect([2, 1, 0]), "without a policy");
}

/// A policy that is a mistake would give memory from anywhere, or say that there is none.
#[test]
fn a_policy_of_a_domain_that_does_not_exist_is_refused() {
    // Domain 2 has a slot and no memory; of 1 nobody says anything, although there is a domain 3.
    let mut ranges = ranges(&[(0, CHUNK, 0), (CHUNK, 2 * CHUNK, 3)]);
    let map = Map::new(&mut ranges).expect("the map is right");
    let machine = machine(&Setup::new(map, 2).at_home(&[DomainId(0), DomainId(2)]));
    let (before, mut runs) = (machine.stats(), [NO_RUN; 4]);
    let bind = |domains: &[u8]| {
        let domains: Vec<_> = domains.iter().copied().map(DomainId).collect();
        Policy::Bind(DomainSet::of(&domains))
    };
    for (policy, missing) in [
        (Policy::Prefer(DomainId(1)), 1),
        (Policy::Prefer(DomainId(4)), 4),
        (Policy::Prefer(DomainId(200)), 200),
        (bind(&[1]), 1),
        (bind(&[0, 3, 1, 63]), 1),
        (bind(&[0, 200]), 200),
    ] {
        let error = AllocError::NoSuchDomain(missing);
        for request in [base(0), base(0).within(FrameId(0)..FrameId(9)), base(0).at(FrameId(1))] {
            assert_eq!(machine.alloc_by(request, policy), Err(error), "{policy:?}");
        }
        for batch in [Batch::All, Batch::UpTo] {
            let refused = machine.alloc_runs(base(1), 9, policy, batch, &mut runs);
            assert_eq!(refused, Err(RunsError::Alloc(error)), "{policy:?}");
        }
        assert_eq!(error.to_string(), format!("the machine has no domain {missing}"));
    }
    assert_eq!(machine.stats(), before);
    assert!(machine.domains().all(|of| machine.numa_stats(of) == NumaStats::default()));
    let from = |policy| machine.domain_of(machine.alloc_by(base(0), policy).ok()?);
    assert_eq!(from(Policy::Prefer(DomainId(2))), Some(DomainId(0)), "it may get memory later");
    assert_eq!(from(bind(&[2])), None);
    assert_eq!(from(bind(&[2, 3])), Some(DomainId(3)));
    assert_eq!(from(Policy::Bind(DomainSet::ALL)), Some(DomainId(0)));
}

#[test]
fn a_frame_of_a_domain_that_bind_leaves_out_is_refused() {
    let machine = of(&[(0, CHUNK, 0), (CHUNK, 2 * CHUNK, 1)]);
    let bound = |domain| Policy::Bind(DomainSet::of(&[DomainId(domain)]));
    let there = FrameId(CHUNK + 8);
    let at = Request { order: Order(3), ..base(0).at(there) };
    assert_eq!(machine.alloc_by(at, bound(0)), Err(AllocError::OutOfMemory));
    let no_slot = Request { slot: Slot(2), ..at };
    assert_eq!(machine.alloc_by(no_slot, bound(0)), Err(AllocError::BadSlot(Slot(2))));
    let odd = Request { order: Order(4), ..at };
    let misaligned = Err(AllocError::Misaligned(there, Order(4)));
    assert_eq!(machine.alloc_by(odd, bound(0)), misaligned);
    let outside = FrameId(2 * CHUNK);
    let beyond = machine.alloc_by(at.at(outside), bound(0));
    assert_eq!(beyond, Err(AllocError::OutOfRange(outside)));
    assert_eq!(machine.stats().free_frames, 2 * CHUNK);
    for policy in [bound(1), Policy::Prefer(DomainId(0)), Policy::Interleave { page: 0 }] {
        assert_eq!(machine.alloc_by(at, policy), Ok(there));
        assert_eq!(machine.free(there, Order(3), Slot(0)), Ok(()));
    }
    assert!(machine.domains().all(|of| machine.numa_stats(of) == NumaStats::default()));
}

#[test]
fn domains_take_turns() {
    let machine = three();
    let rounds = Rounds::new();
    let policy = Policy::RoundRobin(&rounds);
    assert_eq!(order_of(&machine, base(0), policy, 7), [0, 1, 2, 0, 1, 2, 0]);
    for page in [5, 7, usize::MAX] {
        let from = order_of(&machine, base(0), Policy::Interleave { page }, 1);
        assert_eq!(from, [(page % 3) as u8]);
    }
}

/// How many frames of runs are in each domain. The runs do not overlap.
fn shares(machine: &Machine<'_>, runs: &[Range<FrameId>]) -> [usize; 3] {
    let mut shares = [0; 3];
    let mut seen = BTreeSet::new();
    for frame in runs.iter().flat_map(|run| run.start.0..run.end.0) {
        assert!(seen.insert(frame), "{frame:#x} is in two runs");
        shares[machine.domain_of(FrameId(frame)).expect("it exists").index()] += 1;
    }
    shares
}

const NO_RUN: Range<FrameId> = FrameId(0)..FrameId(0);

#[test]
fn a_batch_is_shared_out_as_the_policy_says() {
    for (count, page) in [(64, 0), (100, 1), (4096, 2), (1, 5), (7, usize::MAX)] {
        let machine = three();
        let mut runs = vec![NO_RUN; 64];
        let mut of = |policy| {
            let count = machine.alloc_runs(base(1), count, policy, Batch::All, &mut runs);
            let runs = &runs[..count.expect("there is room")];
            let shares = shares(&machine, runs);
            runs.iter()
                .for_each(|run| machine.free_range(run.clone(), Slot(0)).expect("it is ours"));
            shares
        };
        assert_eq!(of(Policy::FirstTouch), [0, 0, count]);
        assert_eq!(of(Policy::Prefer(DomainId(1))), [0, count, 0]);
        let mut expected = [0; 3];
        (0..count).for_each(|n| expected[page.wrapping_add(n) % 3] += 1);
        if page.checked_add(count).is_some() {
            assert_eq!(of(Policy::Interleave { page }), expected, "{count} from {page}");
        }
        let rounds = Rounds::new();
        assert_eq!(of(Policy::RoundRobin(&rounds)).iter().sum::<usize>(), count);
        assert_eq!(machine.stats().free_huge, 24);
    }
}

#[test]
fn what_a_domain_lacks_comes_from_the_nearest_ones() {
    let machine = three();
    let mut runs = vec![NO_RUN; 64];
    let count = machine.alloc_runs(base(1), 5 * CHUNK, Policy::FirstTouch, Batch::All, &mut runs);
    assert_eq!(shares(&machine, &runs[..count.expect("there is room")]), [0, CHUNK, 4 * CHUNK]);
    let bound = Policy::Bind(DomainSet::of(&[DomainId(2)]));
    let none = machine.alloc_runs(base(1), 1, bound, Batch::UpTo, &mut runs);
    assert_eq!(none, Err(RunsError::Alloc(AllocError::OutOfMemory)));
    let rounds = Rounds::new();
    let policy = Policy::RoundRobin(&rounds);
    let rest = machine.alloc_runs(base(0), 8 * CHUNK, policy, Batch::UpTo, &mut runs);
    assert_eq!(shares(&machine, &runs[..rest.expect("there is some")]), [4 * CHUNK, 3 * CHUNK, 0]);
}

#[test]
fn a_batch_that_fails_leaves_nothing() {
    let machine = three();
    let mut runs = vec![NO_RUN; 64];
    let policy = Policy::FirstTouch;
    let failed = machine.alloc_runs(base(0), 12 * CHUNK + 1, policy, Batch::All, &mut runs);
    assert_eq!(failed, Err(RunsError::Alloc(AllocError::OutOfMemory)));
    assert_eq!(machine.stats().free_huge, 24);
    // Every other frame of a domain is in use.
    let mut used = Vec::new();
    for frame in (0..4 * CHUNK).step_by(2).map(FrameId) {
        used.push(machine.alloc(base(0).at(frame)).expect("it is free"));
    }
    let bound = Policy::Bind(DomainSet::of(&[DomainId(0)]));
    let failed = machine.alloc_runs(base(0), 100, bound, Batch::All, &mut runs);
    assert_eq!(failed, Err(RunsError::TooManyRuns));
    assert_eq!(machine.stats().free_frames, 12 * CHUNK - used.len());
    let some = machine.alloc_runs(base(0), 100, bound, Batch::UpTo, &mut runs);
    assert_eq!(some, Ok(64));
    assert_eq!(machine.stats().free_frames, 12 * CHUNK - used.len() - 64);
    let placed = machine.alloc_runs(base(0).at(FrameId(1)), 1, policy, Batch::All, &mut runs);
    assert_eq!(placed, Err(RunsError::Placed));
    let no_slot = machine.alloc_runs(base(2), 1, policy, Batch::All, &mut runs);
    assert_eq!(no_slot, Err(RunsError::Alloc(AllocError::BadSlot(Slot(2)))));
    assert_eq!(machine.alloc_by(base(2), policy), Err(AllocError::BadSlot(Slot(2))));
}

#[test]
fn metadata_is_carved_from_the_memory_itself() {
    let map = [(0, 700, 0), (900, 2 * CHUNK, 0), (4 * CHUNK, 5 * CHUNK, 1)];
    let memory = vec![[0xa5a5_a5a5_u64; 512]; 5 * CHUNK + 1].leak();
    let start = memory.as_mut_ptr().cast::<u8>();
    let start = start.wrapping_add(start.align_offset(4096));
    let mut ranges = ranges(&map);
    let setup = Setup::new(Map::new(&mut ranges).expect("the map is right"), 2);
    // SAFETY: the memory has all frames, and stays.
    let machine: Machine<'_> =
        unsafe { setup.carve(|frame| start.add(frame.0 * 4096)) }.expect("there is room");
    let bytes =
        |size: MetadataSize| (size.durable.next_multiple_of(64) + size.volatile).div_ceil(4096);
    let sizes = setup.sizes::<Engine>().map(|size| size.expect("it is small"));
    let carved: Vec<_> = sizes.map(|(_, size)| bytes(size)).collect();
    let total = frames(&map, 0) + frames(&map, 1);
    assert_eq!(machine.stats().free_frames, total - carved.iter().sum::<usize>());
    for (end, frames) in [2 * CHUNK, 5 * CHUNK].into_iter().zip(carved) {
        let metadata = FrameId(end - frames)..FrameId(end);
        assert_eq!(machine.free_runs(metadata).count(), 0, "metadata is in use");
    }
    while machine.alloc(base(1)).is_ok_and(|frame| {
        // SAFETY: the frame is ours.
        unsafe { start.add(frame.0 * 4096).write_bytes(0xff, 4096) };
        true
    }) {}
    assert_eq!(machine.stats().free_frames, 0);
}

#[test]
fn a_domain_without_room_for_its_metadata_is_named() {
    let mut ranges = ranges(&[(0, CHUNK, 0), (CHUNK, CHUNK + 1, 1)]);
    let setup = Setup::new(Map::new(&mut ranges).expect("the map is right"), 64);
    // SAFETY: nothing is written.
    let error = unsafe { setup.carve::<Engine>(|_| std::ptr::null_mut()) }.err();
    assert!(matches!(error, Some(SetupError::Zone(DomainId(0), _) | SetupError::TooSmall(..))));
    let homes = [DomainId(0), DomainId(64)];
    let lost = setup.at_home(&homes);
    // SAFETY: nothing is written.
    let error = unsafe { lost.carve::<Engine>(|_| std::ptr::null_mut()) }.err();
    assert_eq!(error, Some(SetupError::NoSuchHome(Slot(1), DomainId(64))));
}

#[test]
fn one_frame_is_a_machine() {
    let machine = of(&[(usize::MAX - 1, usize::MAX, 0)]);
    let frame = FrameId(usize::MAX - 1);
    assert_eq!(machine.alloc(base(0)), Ok(frame));
    assert_eq!(machine.alloc(base(1)), Err(AllocError::OutOfMemory));
    assert_eq!(machine.free(frame, Order::BASE, Slot(1)), Ok(()));
    let of = Present::new(frame..FrameId(usize::MAX), DomainId(0));
    assert_eq!((of.frames(), machine.domains().count()), (1, 1));
}

#[test]
fn two_domains_share_no_64_frames() {
    let mut ranges = ranges(&[(0, CHUNK + 1, 0), (CHUNK + 1, 2 * CHUNK, 1)]);
    let [one, other] = [ranges[0], ranges[1]];
    let setup = Setup::new(Map::new(&mut ranges).expect("the map is right"), 1);
    // SAFETY: nothing is written.
    let error = unsafe { setup.carve::<Engine>(|_| std::ptr::null_mut()) }.err();
    assert_eq!(error, Some(SetupError::SharedFrames(one, other)));
}

/// Three domains with frames of the same chunk, one of them twice, and the longest piece at either end of another.
const SHARED: [(usize, usize, u8); 6] = [
    (0, CHUNK + 64, 0),
    (CHUNK + 64, CHUNK + 200, 1),
    (CHUNK + 330, CHUNK + 700, 0),
    (CHUNK + 704, 4 * CHUNK + 640, 2),
    (4 * CHUNK + 640, 5 * CHUNK, 0),
    (6 * CHUNK, 7 * CHUNK, 1),
];

#[test]
fn domains_share_chunks() {
    let machine = of(&SHARED);
    let mut expected = [0; 3];
    for frame in 0..8 * CHUNK {
        let owner = SHARED.iter().find(|(start, end, _)| (*start..*end).contains(&frame));
        let free = machine.is_free(FrameId(frame), Order::BASE);
        assert_eq!(free, owner.is_some(), "{frame:#x}");
        if let Some(&(.., domain)) = owner {
            assert_eq!(machine.domain_of(FrameId(frame)), Some(DomainId(domain)), "{frame:#x}");
            expected[usize::from(domain)] += 1;
        }
    }
    let hole = FrameId(CHUNK + 256);
    assert_eq!(machine.domain_of(hole), None, "what is missing in a shared chunk is nobody's");
    for domain in 0..3u8 {
        let of = |frame: &FrameId| machine.domain_of(*frame) == Some(DomainId(domain));
        let bound = Policy::Bind(DomainSet::of(&[DomainId(domain)]));
        let all: BTreeSet<_> =
            std::iter::from_fn(|| machine.alloc_by(base(0), bound).ok()).collect();
        assert_eq!(all.len(), expected[usize::from(domain)]);
        assert!(all.iter().all(|frame| of(frame) && is_present(&SHARED, frame.0)));
    }
    for (start, end, _) in SHARED {
        assert_eq!(machine.free_range(FrameId(start)..FrameId(end), Slot(1)), Ok(()));
    }
    assert_eq!(machine.stats().free_frames, expected.iter().sum::<usize>());
}

#[test]
fn runs_reach_over_a_border_inside_a_chunk() {
    // Borders at a huge frame, and at every number of units.
    for border in (0..CHUNK / 64).map(|units| 2 * CHUNK + units * 64) {
        let machine = of(&[(0, border, 0), (border, 5 * CHUNK, 1)]);
        let own = |domain| machine.stats_of(DomainId(domain)).expect("it is there").free_frames;
        let whole = [own(0), own(1)];
        assert_eq!(whole, [border, 5 * CHUNK - border]);
        for (start, end) in [(0, 5 * CHUNK), (border - 64, border + 64), (border - 1, border + 1)] {
            let frames = FrameId(start)..FrameId(end);
            let request = RangeRequest::new(end - start, Class::MOVABLE, Slot(1));
            let run = machine.alloc_range(request.at(frames.start));
            assert_eq!(run, Ok(frames.clone()), "border {border:#x}");
            assert_eq!([own(0), own(1)], [start, 5 * CHUNK - end], "border {border:#x}");
            let again = machine.alloc_range(request.at(frames.start));
            assert_eq!(again, Err(AllocError::InUse(frames.start)), "border {border:#x}");
            assert_eq!(machine.free_range(frames.clone(), Slot(0)), Ok(()), "border {border:#x}");
            assert_eq!([own(0), own(1)], whole, "border {border:#x}");
            let again = machine.free_range(frames.clone(), Slot(0));
            assert_eq!(again, Err(FreeError::NotAllocated(frames.start)), "border {border:#x}");
        }
        // The whole of it is found, too.
        let request = RangeRequest::new(5 * CHUNK, Class::MOVABLE, Slot(0));
        let run = machine.alloc_range(request).expect("all is free");
        assert_eq!(machine.free_range(run, Slot(0)), Ok(()));
        let blocks = FreeBlocks::of(&machine);
        let sum: usize = Order::all::<Base4K>().map(|o| blocks.count(o) << o.0).sum();
        assert_eq!((sum, blocks.largest_run), (5 * CHUNK, 5 * CHUNK));
        let is_cut = !border.is_multiple_of(CHUNK);
        assert_eq!(blocks.count(Order(10)), 5 - usize::from(is_cut), "border {border:#x}");
    }
}

#[test]
fn a_run_does_not_reach_over_what_is_nobodys() {
    let (border, end) = (CHUNK + HUGE, 2 * CHUNK);
    let machine = of(&[(0, border, 0), (border + 64, end, 1)]);
    let all = machine.free_frames();
    let run = RangeRequest::new(end, Class::MOVABLE, Slot(0));
    assert!(machine.alloc_range(run.at(FrameId(0))).is_err());
    let one = RangeRequest::new(border, Class::MOVABLE, Slot(0)).at(FrameId(0));
    assert_eq!(machine.alloc_range(one), Ok(FrameId(0)..FrameId(border)));
    let freed = machine.free_range(FrameId(0)..FrameId(border + 1), Slot(0));
    assert_eq!(freed, Err(FreeError::OutOfRange(FrameId(border))), "one frame too many");
    assert_eq!(machine.free_frames(), all - border, "nothing has changed");
    assert_eq!(machine.free_range(FrameId(0)..FrameId(border), Slot(0)), Ok(()));
    // Of what is the last huge frame of a domain otherwise: it is named where it begins, and not the block that would have it.
    let (border, end) = (CHUNK + HUGE - 64, CHUNK + HUGE);
    let machine = of(&[(0, border, 0), (end, 2 * CHUNK, 1)]);
    assert_eq!(machine.largest_at(FrameId(CHUNK)), Order(8));
    assert!(machine.alloc_range(RangeRequest { frames: border, ..one }).is_ok());
    let freed = machine.free_range(FrameId(0)..FrameId(end), Slot(0));
    assert_eq!(freed, Err(FreeError::OutOfRange(FrameId(border))), "one unit too many");
}

/// Machines of random ranges: a set of frames is the judge.
#[test]
fn random_machines_hand_out_what_they_have() {
    let mut rng = Rng::with_seed(7);
    for machine_number in 0..40 {
        let (mut map, mut next) = (Vec::new(), rng.usize(..3000));
        for _ in 0..rng.usize(1..9) {
            let end = next + rng.usize(1..3000);
            map.push((next, end, rng.u8(..3)));
            // A gap that domains need, and sometimes a larger one.
            next = end + if rng.bool() { 64 } else { rng.usize(64..9000) };
        }
        let given = map.clone();
        rng.shuffle(&mut map);
        let machine = of(&map);
        let total: usize = given.iter().map(|(start, end, _)| end - start).sum();
        let mut all = BTreeSet::new();
        while let Ok(frame) = machine.alloc(base(all.len() % 2)) {
            let owner = given.iter().find(|(start, end, _)| (*start..*end).contains(&frame.0));
            let domain = owner.map(|&(.., domain)| DomainId(domain));
            assert!(
                domain.is_some(),
                "machine {machine_number}: {frame} does not exist: {given:x?}"
            );
            assert_eq!(machine.domain_of(frame), domain, "machine {machine_number}: {given:x?}");
            assert!(all.insert(frame), "machine {machine_number}: {frame} twice: {given:x?}");
        }
        assert_eq!(all.len(), total, "machine {machine_number}: {given:x?}");
    }
}

#[test]
fn frames_are_counted_by_who_was_to_give_and_who_gave() {
    let machine = three();
    let of = |domain| machine.numa_stats(DomainId(domain));
    let huge = Request { order: Order(9), ..base(1) };
    // Slot 1 is at home in domain 2, which has eight huge frames; 1 is nearer to it than 0.
    for _ in 0..9 {
        machine.alloc(huge).expect("a block");
    }
    machine.alloc_by(huge, Policy::Prefer(DomainId(0))).expect("a block");
    let counted = NumaStats { hit: 512, other_node: 512, ..NumaStats::default() };
    assert_eq!(of(0), counted);
    let counted = NumaStats { miss: 512, other_node: 512, ..NumaStats::default() };
    assert_eq!(of(1), counted);
    let counted = NumaStats { hit: 4096, foreign: 512, local_node: 4096, ..NumaStats::default() };
    assert_eq!(of(2), counted);
    let mut runs = vec![NO_RUN; 64];
    let interleave = Policy::Interleave { page: 0 };
    machine.alloc_runs(base(0), 300, interleave, Batch::All, &mut runs).expect("there is room");
    let counted = NumaStats { hit: 612, miss: 100, interleave_hit: 100, local_node: 200, ..of(0) };
    assert_eq!(of(2).foreign, 612);
    assert_eq!((of(0).interleave_hit, of(1).interleave_hit, of(2).interleave_hit), (100, 100, 0));
    assert_eq!(of(0), counted, "a hundred in turn, and those that domain 2 did not have");
}

#[test]
fn a_share_that_finds_no_room_is_counted() {
    let machine = three();
    for frame in (0..4 * CHUNK).step_by(2).map(FrameId) {
        machine.alloc(base(0).at(frame)).expect("it is free");
    }
    let mut runs = vec![NO_RUN; 4];
    let policy = Policy::Interleave { page: 0 };
    assert_eq!(machine.alloc_runs(base(0), 300, policy, Batch::UpTo, &mut runs), Ok(4));
    assert_eq!(machine.stats().free_frames, 10 * CHUNK - 4);
    assert_eq!(machine.free_in_huge(HugeId(usize::MAX)), 0);
}

/// Frames of 4 GiB.
const LOW: usize = 1 << 20;
const BELOW: Range<FrameId> = FrameId(0)..FrameId(LOW);

/// A span of 1 TiB: a little of domain 0 and two pieces of domain 1 are below 4 GiB, and most of domain 0 is above.
const SPANNING: [(usize, usize, u8); 5] = [
    (CHUNK, 2 * CHUNK, 0),
    (3 * CHUNK, 4 * CHUNK, 1),
    (LOW - CHUNK, LOW + CHUNK, 1),
    (1 << 21, (1 << 21) + 8 * CHUNK, 0),
    ((1 << 28) - CHUNK, 1 << 28, 0),
];

#[test]
fn a_request_below_a_frame_goes_to_the_nearest_domain_that_a_policy_allows() {
    let all = |slot, policy| {
        let machine = of(&SPANNING);
        let low = Request { order: Order(9), ..base(slot).within(BELOW) };
        let blocks = std::iter::from_fn(|| machine.alloc_by(low, policy).ok());
        let domain = |frame: FrameId| {
            assert!(frame.0 + HUGE <= LOW && is_present(&SPANNING, frame.0), "{frame}");
            machine.domain_of(frame).expect("it exists").0
        };
        let from: Vec<u8> = blocks.map(domain).collect();
        assert_eq!(machine.alloc_by(low, policy), Err(AllocError::OutOfMemory));
        from
    };
    assert_eq!(all(0, Policy::FirstTouch), [0, 0, 1, 1, 1, 1]);
    assert_eq!(all(1, Policy::FirstTouch), [1, 1, 1, 1, 0, 0]);
    assert_eq!(all(0, Policy::Prefer(DomainId(1))), [1, 1, 1, 1, 0, 0]);
    assert_eq!(all(1, Policy::Prefer(DomainId(0))), [0, 0, 1, 1, 1, 1]);
    assert_eq!(all(1, Policy::Bind(DomainSet::of(&[DomainId(0)]))), [0, 0]);
    assert_eq!(all(0, Policy::Interleave { page: 1 }), [1, 1, 1, 1, 0, 0]);
    let machine = of(&SPANNING);
    let low = Request { order: Order(9), ..base(1).within(BELOW) };
    assert_eq!(machine.alloc(low), Ok(FrameId(3 * CHUNK)), "without a policy");
}

#[test]
fn a_domain_with_nothing_in_a_range_is_passed_by() {
    let machine = of(&SPANNING);
    let bound = |domain| Policy::Bind(DomainSet::of(&[DomainId(domain)]));
    let within = |start, end| base(0).within(FrameId(start)..FrameId(end));
    // Only domain 1 has frames here.
    let of_one = within(2 * CHUNK, LOW);
    assert_eq!(machine.alloc_by(of_one, bound(0)), Err(AllocError::OutOfMemory));
    assert_eq!(machine.alloc_by(of_one, bound(1)), Ok(FrameId(3 * CHUNK)));
    assert_eq!(machine.alloc(of_one), Ok(FrameId(3 * CHUNK + 1)));
    let counted = NumaStats { hit: 2, other_node: 2, ..NumaStats::default() };
    assert_eq!(machine.numa_stats(DomainId(1)), counted, "nobody else was to give");
    assert_eq!(machine.numa_stats(DomainId(0)), NumaStats::default());
    let hole = within(5 * CHUNK, 9 * CHUNK);
    assert_eq!(machine.alloc_by(hole, Policy::FirstTouch), Err(AllocError::OutOfMemory));
    let narrow = Request { order: Order(10), ..within(LOW + 1, LOW + CHUNK) };
    let no_place = Err(AllocError::NoPlace(FrameId(LOW + 1)));
    assert_eq!(machine.alloc_by(narrow, Policy::FirstTouch), no_place);
    for (start, end) in [(LOW, 2 * CHUNK), (9 * CHUNK, 5 * CHUNK)] {
        let reversed = Err(AllocError::Reversed(FrameId(start)));
        assert_eq!(machine.alloc_by(within(start, end), bound(0)), reversed);
    }
    let no_slot = machine.alloc_by(Request { slot: Slot(2), ..of_one }, bound(1));
    assert_eq!(no_slot, Err(AllocError::BadSlot(Slot(2))));
}

#[test]
fn a_request_below_a_frame_is_counted() {
    let machine = of(&SPANNING);
    let low = Request { order: Order(9), ..base(0).within(BELOW) };
    for _ in 0..3 {
        machine.alloc(low).expect("a block");
    }
    machine.alloc_by(low, Policy::Interleave { page: 1 }).expect("a block");
    let zero = NumaStats { hit: 1024, foreign: 512, local_node: 1024, ..NumaStats::default() };
    assert_eq!(machine.numa_stats(DomainId(0)), zero);
    let (hit, miss, interleave_hit, other_node) = (512, 512, 512, 1024);
    let one = NumaStats { hit, miss, interleave_hit, other_node, ..NumaStats::default() };
    assert_eq!(machine.numa_stats(DomainId(1)), one);
}

/// The frames of a range, one by one, from the lowest: those that are there, and no others.
#[test]
fn a_range_ends_where_it_says_in_any_piece() {
    let bounds = SHARED.iter().flat_map(|&(start, end, _)| [start, end]);
    let bounds: Vec<usize> = bounds.flat_map(|at| [at.saturating_sub(1), at, at + 1]).collect();
    for &start in &bounds {
        for &end in bounds.iter().filter(|&&end| end >= start) {
            let machine = of(&SHARED);
            let request = base(1).within(FrameId(start)..FrameId(end));
            let last = FrameId(end.saturating_sub(1));
            let all = (start..end).filter(|&frame| is_present(&SHARED, frame));
            let first = machine.alloc(request);
            let has_any = all.clone().next().is_some();
            assert_eq!(first.is_ok(), has_any, "{start:#x}..{end:#x}");
            assert!(first.is_err() || all.clone().any(|frame| Ok(FrameId(frame)) == first));
            // The last one is found when it is all that is left.
            if is_present(&SHARED, last.0) && start < end {
                let only = base(0).within(last..FrameId(end));
                let found = machine.alloc(only);
                assert!(found == Ok(last) || first == Ok(last), "{end:#x}: {found:?}");
            }
        }
    }
}
