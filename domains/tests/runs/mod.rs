//! Runs of frames from the domains that a policy says.

use std::collections::BTreeSet;
use std::ops::Range;

use fastrand::Rng;
use woodlot_domains::{DomainId, DomainSet, NumaStats, OneDomain, Policy, Rounds};
use woodlot_frame::{
    AllocError, Class, FrameAllocator, FrameId, HugeId, IsolateError, OfflineError, Order,
    RangeRequest, Request, Slot,
};

use crate::machine::Machine;
use crate::{BELOW, CHUNK, HUGE, LOW, SPANNING, is_present, of, three};

fn run(frames: usize, slot: usize) -> RangeRequest {
    RangeRequest::new(frames, Class::MOVABLE, Slot(slot))
}

fn bind(domains: &[u8]) -> Policy<'static> {
    let domains: Vec<_> = domains.iter().copied().map(DomainId).collect();
    Policy::Bind(DomainSet::of(&domains))
}

/// The domains of a run, each once.
fn domains_of(machine: &Machine<'_>, run: &Range<FrameId>) -> Vec<u8> {
    let of = |frame| machine.domain_of(FrameId(frame)).expect("it exists").0;
    let mut all: Vec<u8> = (run.start.0..run.end.0).map(of).collect();
    all.dedup();
    all
}

/// From which domains runs come until there are no more, at most so many; each lies in one.
fn order_of(
    machine: &Machine<'_>,
    request: RangeRequest,
    policy: Policy<'_>,
    most: usize,
) -> Vec<u8> {
    let next = || {
        let run = machine.alloc_range_by(request, policy).ok()?;
        assert_eq!(run.end.0 - run.start.0, request.frames);
        match domains_of(machine, &run)[..] {
            [domain] => Some(domain),
            ref all => panic!("{run:?} is of {all:?}"),
        }
    };
    std::iter::from_fn(next).take(most).collect()
}

#[test]
fn the_nearest_domain_gives_a_run_first() {
    let all = |policy| order_of(&three(), run(2 * CHUNK, 1), policy, 100);
    assert_eq!(all(Policy::FirstTouch), [2, 2, 1, 1, 0, 0]);
    assert_eq!(all(Policy::Prefer(DomainId(0))), [0, 0, 1, 1, 2, 2]);
    assert_eq!(all(Policy::Prefer(DomainId(1))), [1, 1, 2, 2, 0, 0]);
    assert_eq!(all(bind(&[0, 1])), [1, 1, 0, 0]);
    let rounds = Rounds::new();
    assert_eq!(all(Policy::RoundRobin(&rounds)), [0, 1, 2, 0, 1, 2]);
    for page in 0..4 {
        let from = order_of(&three(), run(100, 1), Policy::Interleave { page }, 1);
        assert_eq!(from, [(page % 3) as u8]);
    }
    let machine = three();
    let without = || machine.alloc_range(run(2 * CHUNK, 1)).ok();
    let from: Vec<_> =
        std::iter::from_fn(without).flat_map(|run| domains_of(&machine, &run)).collect();
    assert_eq!(from, [2, 2, 1, 1, 0, 0], "without a policy");
}

#[test]
fn a_run_is_across_domains_where_none_has_one_by_itself() {
    let machine = three();
    let long = run(5 * CHUNK, 1);
    // 0 and 2 do not touch.
    assert_eq!(machine.alloc_range_by(long, bind(&[0, 2])), Err(AllocError::OutOfMemory));
    assert_eq!(machine.alloc_range_by(long, bind(&[1])), Err(AllocError::OutOfMemory));
    let across = machine.alloc_range_by(long, bind(&[1, 2])).expect("it is free");
    assert_eq!(domains_of(&machine, &across), [1, 2]);
    let counted = NumaStats { hit: CHUNK as u64, local_node: CHUNK as u64, ..NumaStats::default() };
    let foreign = 4 * CHUNK as u64;
    assert_eq!(machine.numa_stats(DomainId(2)), NumaStats { foreign, ..counted });
    let counted = NumaStats { miss: foreign, other_node: foreign, ..NumaStats::default() };
    assert_eq!(machine.numa_stats(DomainId(1)), counted);
    assert_eq!(machine.free_range(across, Slot(0)), Ok(()));
    // Each is large enough for this one, but has not so much that is free.
    let ends =
        [4, 10].map(|chunk| machine.alloc_range(run(2 * CHUNK, 0).at(FrameId(chunk * CHUNK))));
    let across = machine.alloc_range_by(run(3 * CHUNK, 1), bind(&[1, 2]));
    assert_eq!(across, Ok(FrameId(6 * CHUNK)..FrameId(9 * CHUNK)));
    for run in ends.into_iter().chain([across]) {
        assert_eq!(machine.free_range(run.expect("it is free"), Slot(0)), Ok(()));
    }
    // The nearest domain has a shorter one, and it is taken although the lowest frames are free, too.
    let short = machine.alloc_range(run(CHUNK, 1)).expect("it is free");
    assert_eq!(domains_of(&machine, &short), [2]);
    assert_eq!(machine.stats_of(DomainId(0)).expect("it is there").free_frames, 4 * CHUNK);
}

#[test]
fn a_run_is_counted_as_blocks_are() {
    let machine = three();
    let of = |domain| machine.numa_stats(DomainId(domain));
    let of_two = run(3 * CHUNK, 1);
    machine.alloc_range(of_two).expect("domain 2 has it");
    machine.alloc_range(of_two).expect("domain 1 has it");
    machine.alloc_range_by(run(7, 0), Policy::Interleave { page: 1 }).expect("it is short");
    machine.alloc_range_by(of_two, Policy::Interleave { page: 1 }).expect("domain 0 has it");
    let frames = 3 * CHUNK as u64;
    let two =
        NumaStats { hit: frames, foreign: frames, local_node: frames, ..NumaStats::default() };
    assert_eq!(of(2), two);
    let one = NumaStats { hit: 7, miss: frames, foreign: frames, ..NumaStats::default() };
    assert_eq!(of(1), NumaStats { interleave_hit: 7, other_node: frames + 7, ..one });
    let zero = NumaStats { miss: frames, other_node: frames, ..NumaStats::default() };
    assert_eq!(of(0), zero);
    // A run at a frame could come from nowhere else.
    machine.alloc_range(run(2, 0).at(FrameId(4 * CHUNK - 2))).expect("it is free");
    assert_eq!(of(0), zero);
    let own = OneDomain::new(&machine, DomainId(0));
    own.alloc_range(run(5, 0)).expect("it is short");
    assert_eq!(of(0), NumaStats { hit: 5, local_node: 5, ..zero });
}

#[test]
fn a_run_below_a_frame_goes_to_the_nearest_domain_that_a_policy_allows() {
    // Domain 0 has one chunk below, 1 two; of these the second goes on above.
    let all = |slot, policy| {
        let low = run(HUGE, slot).aligned(Order(9)).within(BELOW);
        order_of(&of(&SPANNING), low, policy, 100)
    };
    assert_eq!(all(0, Policy::FirstTouch), [0, 0, 1, 1, 1, 1]);
    assert_eq!(all(1, Policy::FirstTouch), [1, 1, 1, 1, 0, 0]);
    assert_eq!(all(0, Policy::Prefer(DomainId(1))), [1, 1, 1, 1, 0, 0]);
    assert_eq!(all(1, bind(&[0])), [0, 0]);
    assert_eq!(all(0, Policy::Interleave { page: 1 }), [1, 1, 1, 1, 0, 0]);
    let machine = of(&SPANNING);
    let found = machine.alloc_range(run(CHUNK, 1).within(FrameId(4 * CHUNK)..FrameId(LOW)));
    assert_eq!(found, Ok(FrameId(LOW - CHUNK)..FrameId(LOW)));
    // Domain 0 has nothing here, and was not to give.
    let found = machine.alloc_range(run(CHUNK, 0).within(FrameId(2 * CHUNK)..FrameId(LOW)));
    assert_eq!(found, Ok(FrameId(3 * CHUNK)..FrameId(4 * CHUNK)));
    assert_eq!(machine.numa_stats(DomainId(0)), NumaStats::default());
}

#[test]
fn bad_runs_are_refused_by_name() {
    let machine = of(&SPANNING);
    let before = machine.stats();
    let by = |request, policy| machine.alloc_range_by(request, policy);
    for (request, error) in [
        (run(0, 0), AllocError::NoFrames),
        (run(8, 2), AllocError::BadSlot(Slot(2))),
        (RangeRequest { class: Class(7), ..run(8, 0) }, AllocError::BadClass(Class(7))),
        (run(8, 0).aligned(Order(200)), AllocError::OrderTooLarge(Order(200))),
        (run(usize::MAX, 0), AllocError::NoPlace(FrameId(CHUNK))),
        (run(CHUNK, 0).within(FrameId(LOW)..FrameId(3)), AllocError::Reversed(FrameId(LOW))),
        (run(9, 0).within(FrameId(LOW)..FrameId(LOW + 8)), AllocError::NoPlace(FrameId(LOW))),
        (run(9, 0).within(FrameId(6 * CHUNK)..FrameId(7 * CHUNK)), AllocError::OutOfMemory),
        (run(CHUNK + 1, 0).within(BELOW), AllocError::OutOfMemory),
        (run(9, 0).at(FrameId(CHUNK - 1)), AllocError::OutOfRange(FrameId(CHUNK - 1))),
        (run(9, 0).at(FrameId(2 * CHUNK - 1)), AllocError::InUse(FrameId(2 * CHUNK))),
        (run(9, 0).at(FrameId(usize::MAX)), AllocError::OutOfRange(FrameId(usize::MAX))),
    ] {
        for policy in [Policy::FirstTouch, Policy::Interleave { page: 1 }, bind(&[0, 1])] {
            assert_eq!(by(request, policy), Err(error), "{request:?} by {policy:?}");
        }
    }
    for (domains, missing) in [(&[2][..], 2), (&[0, 200], 200)] {
        let error = Err(AllocError::NoSuchDomain(missing));
        assert_eq!(by(run(1, 0), bind(domains)), error);
        assert_eq!(by(run(1, 0).at(FrameId(CHUNK)), bind(domains)), error);
        let own = OneDomain::new(&machine, DomainId(missing));
        assert_eq!(own.alloc_range(run(1, 0)), error);
    }
    assert_eq!(by(run(1, 0), Policy::Bind(DomainSet::default())), Err(AllocError::OutOfMemory));
    assert_eq!(machine.stats(), before);
    assert!(machine.domains().all(|of| machine.numa_stats(of) == NumaStats::default()));
}

#[test]
fn a_run_at_a_frame_has_no_frame_of_a_domain_that_bind_leaves_out() {
    let machine = three();
    let border = run(2 * HUGE, 0).at(FrameId(4 * CHUNK - HUGE));
    for left_out in [bind(&[0]), bind(&[1]), bind(&[2]), bind(&[0, 2])] {
        assert_eq!(machine.alloc_range_by(border, left_out), Err(AllocError::OutOfMemory));
    }
    assert_eq!(machine.free_frames(), 12 * CHUNK);
    let all = FrameId(4 * CHUNK - HUGE)..FrameId(4 * CHUNK + HUGE);
    for policy in [bind(&[0, 1]), Policy::Prefer(DomainId(2)), Policy::Bind(DomainSet::ALL)] {
        assert_eq!(machine.alloc_range_by(border, policy), Ok(all.clone()));
        let again = machine.alloc_range_by(border, policy);
        assert_eq!(again, Err(AllocError::InUse(all.start)), "{policy:?}");
        assert_eq!(machine.free_range(all.clone(), Slot(0)), Ok(()));
    }
}

#[test]
fn a_run_may_begin_in_a_huge_frame_that_others_share() {
    // Domain 0 has the first 64 frames of a huge frame, all in use; and nobody has those of another.
    let machine =
        of(&[(0, CHUNK + 64, 0), (CHUNK + 64, 3 * CHUNK, 1), (3 * CHUNK + 64, 4 * CHUNK, 0)]);
    assert_eq!(machine.free_in_huge(HugeId(2)), HUGE);
    let own = OneDomain::new(&machine, DomainId(1));
    let lists = [machine.free_huge_frames().collect::<Vec<_>>(), own.free_huge_frames().collect()];
    assert_eq!(
        lists,
        [&[0, 1, 3, 4, 5, 7][..], &[3, 4, 5]].map(|of| of
            .iter()
            .copied()
            .map(HugeId)
            .collect::<Vec<_>>())
    );
    assert_eq!(lists.map(|list| list.len()), [machine.stats().free_huge, own.stats().free_huge]);
    assert!(machine.alloc_range(run(CHUNK + 64, 0)).is_ok());
    for free in [machine.free_in_huge(HugeId(2)), own.free_in_huge(HugeId(2))] {
        assert_eq!(free, HUGE - 64);
    }
    assert_eq!(OneDomain::new(&machine, DomainId(0)).free_in_huge(HugeId(2)), 0);
    let (start, end) = (FrameId(CHUNK + 64), FrameId(3 * CHUNK));
    assert_eq!(machine.alloc_range(run(2 * CHUNK - 64, 0)), Ok(start..end));
    let machine =
        of(&[(0, CHUNK, 0), (CHUNK + 64, 2 * CHUNK - 64, 1), (2 * CHUNK - 64, 2 * CHUNK, 0)]);
    assert_eq!(machine.free_in_huge(HugeId(2)), HUGE - 64);
    let (start, end) = (FrameId(CHUNK + 64), FrameId(2 * CHUNK - 64));
    assert_eq!(machine.alloc_range(run(CHUNK - 128, 1)), Ok(start..end));
}

#[test]
fn a_huge_frame_that_zones_share_is_no_ones_to_isolate() {
    // Domain 0 goes on behind, so that its zone does not end in the huge frame.
    let machine = of(&[(0, CHUNK + 64, 0), (CHUNK + 64, 3 * CHUNK, 1), (3 * CHUNK, 4 * CHUNK, 0)]);
    let (own, other) =
        (OneDomain::new(&machine, DomainId(0)), OneDomain::new(&machine, DomainId(1)));
    let used =
        |huge| [own.frames_in_use(huge), other.frames_in_use(huge), machine.frames_in_use(huge)];
    assert_eq!(used(HugeId(2)), [0; 3], "what another zone has is not in use");
    machine.alloc_range(run(100, 0).at(FrameId(CHUNK))).expect("it is free");
    assert_eq!(used(HugeId(2)), [64, 36, 100]);
    assert_eq!(used(HugeId(usize::MAX)), [0; 3]);
    for first in [HugeId(1), HugeId(2)] {
        assert_eq!(machine.isolate(first, 2), Err(IsolateError::OutOfRange));
        assert_eq!(machine.offline(first, 2), Err(OfflineError::OutOfRange));
    }
    assert_eq!(own.isolate(HugeId(2), 1), Err(IsolateError::OutOfRange));
    assert!((0..8).all(|huge| !machine.is_isolated(HugeId(huge))));
    assert_eq!(machine.isolate(HugeId(0), 2), Ok(()));
    assert_eq!(machine.isolate(HugeId(3), 3), Ok(()), "all of one zone");
}

/// Is there a run of so many free frames inside of a range, of those that are its own?
fn has_run(
    free: &BTreeSet<usize>,
    is_own: impl Fn(usize) -> bool,
    frames: usize,
    place: &Range<usize>,
) -> bool {
    let (mut start, mut next) = (0, 0);
    free.range(place.clone()).filter(|&&frame| is_own(frame)).any(|&frame| {
        start = if frame == next && next > 0 { start } else { frame };
        next = frame + 1;
        next - start >= frames
    })
}

/// Frames of three domains are freed and taken by chance: a set of frames says from which domain a run has to come.
#[test]
fn random_runs_come_from_the_first_domain_that_has_one() {
    const MAP: [(usize, usize, u8); 6] = [
        (5, CHUNK + 64, 0),
        (CHUNK + 64, 2 * CHUNK, 1),
        (2 * CHUNK, 3 * CHUNK - 9, 2),
        (3 * CHUNK, 4 * CHUNK, 1),
        (4 * CHUNK, 5 * CHUNK + 128, 0),
        (90 * CHUNK, 91 * CHUNK, 2),
    ];
    let (machine, mut rng) = (of(&MAP), Rng::with_seed(22));
    let domain =
        |frame| MAP.iter().find(|(start, end, _)| (*start..*end).contains(&frame)).map(|of| of.2);
    let mut free: BTreeSet<usize> =
        (0..92 * CHUNK).filter(|&frame| is_present(&MAP, frame)).collect();
    let mut runs: Vec<Range<FrameId>> = Vec::new();
    let (mut within, mut across, mut none) = (0, 0, 0);
    for step in 0..1500 {
        if rng.bool() && !runs.is_empty() {
            let run = runs.swap_remove(rng.usize(..runs.len()));
            free.extend(run.start.0..run.end.0);
            assert_eq!(machine.free_range(run, Slot(rng.usize(..2))), Ok(()));
            continue;
        }
        let (slot, frames) = (rng.usize(..2), [1, 64, 300, 900, 1100, 1500][rng.usize(..6)]);
        let end = [3 * CHUNK, 5 * CHUNK, 91 * CHUNK][rng.usize(..3)];
        let place = rng.usize(..CHUNK)..end;
        // Equally far: by number, from the domain of the slot or of the policy.
        let from = |first: u8| {
            [0, 1, 2].map(|n| {
                if n == 0 {
                    first
                } else if n <= first {
                    n - 1
                } else {
                    n
                }
            })
        };
        let (policy, turn) = match rng.u8(..5) {
            0 => (Policy::FirstTouch, from(slot as u8).to_vec()),
            1 => (Policy::Prefer(DomainId(2)), from(2).to_vec()),
            2 => (bind(&[1, 2]), vec![1, 2]),
            3 => (bind(&[0]), vec![0]),
            _ => {
                let page = rng.usize(..3);
                let mut turn = from(slot as u8).to_vec();
                turn.insert(0, page as u8);
                (Policy::Interleave { page }, turn)
            }
        };
        let request = run(frames, slot).within(FrameId(place.start)..FrameId(place.end));
        let says = format!("step {step}: {request:?} by {policy:?}");
        let own = |of| has_run(&free, |frame| domain(frame) == Some(of), frames, &place);
        let allowed = |frame| domain(frame).is_some_and(|of| turn.contains(&of));
        let expected = turn.iter().copied().find(|&of| own(of));
        match machine.alloc_range_by(request, policy) {
            Ok(run) => {
                assert!(place.start <= run.start.0 && run.end.0 <= place.end, "{says}: {run:?}");
                assert_eq!(run.end.0 - run.start.0, frames, "{says}");
                let mut all = run.start.0..run.end.0;
                match expected {
                    Some(of) => {
                        assert!(all.all(|frame| domain(frame) == Some(of)), "{says}: {run:?}")
                    }
                    None => assert!(all.all(allowed), "{says}: {run:?}"),
                }
                let taken = |frame| assert!(free.remove(&frame), "{says}: {run:?}");
                (run.start.0..run.end.0).for_each(taken);
                *if expected.is_some() { &mut within } else { &mut across } += 1;
                runs.push(run);
            }
            Err(error) => {
                assert_eq!(error, AllocError::OutOfMemory, "{says}");
                assert!(expected.is_none() && !has_run(&free, allowed, frames, &place), "{says}");
                none += 1;
            }
        }
        assert_eq!(machine.free_frames(), free.len(), "{says}");
    }
    assert!(
        within > 100 && across > 20 && none > 100,
        "{within} in a domain, {across} across, {none} not"
    );
    let one = Request::movable(Order::BASE, Slot(0));
    assert_eq!(machine.alloc(one).is_ok(), !free.is_empty());
}
