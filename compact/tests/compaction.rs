//! What one compaction does, and what others see of it.

mod world;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use woodlot_compact::{
    Block, Candidate, Compaction, Lookup, Manner, PlanError, Refusal, Relocate, Report, Setup,
    Step, Stop, Target,
};
use woodlot_frame::{
    AllocError, Base4K, Claim, Class, FrameAllocator, FrameId, HugeId, IsolateError, Order,
    Request, Unsupported, forward,
};
use woodlot_llfree::LLFree;
use world::{COMPACT, HUGE, Mood, Owner, RIVAL, SLOT, Zone, zone};

fn memory() -> Vec<Candidate> {
    vec![Candidate::EMPTY; 2048]
}

fn regions(zone: &Zone) -> impl Iterator<Item = Range<HugeId>> + Clone + use<> {
    std::iter::once(zone.zone().huge_range::<Base4K>())
}

fn plan<'m>(
    setup: Setup,
    memory: &'m mut [Candidate],
    zone: &Zone,
    owner: &mut Owner,
) -> Compaction<'m> {
    Compaction::plan(setup, memory, &**zone, owner, regions(zone)).expect("it can be planned")
}

/// Runs a compaction to its end; its report.
fn run(setup: Setup, zone: &Zone, owner: &mut Owner) -> Report {
    let mut memory = memory();
    let mut work = plan(setup, &mut memory, zone, owner);
    assert!(work.run(usize::MAX, &**zone, owner));
    work.report::<Base4K>()
}

fn huge(count: usize) -> Setup {
    Setup::huge(count, COMPACT)
}

fn range(huge: Range<usize>) -> Setup {
    Setup { target: Target::Range(HugeId(huge.start)..HugeId(huge.end)), ..Setup::huge(0, COMPACT) }
}

/// Frames of which so many in each huge frame are in use, at random places.
fn filled(zone: &Zone, used: &[usize], seed: u64) -> Owner {
    let mut owner = Owner::new(zone.zone().frames, seed);
    for (huge, &used) in used.iter().enumerate() {
        let mut places: Vec<_> = (0..HUGE).collect();
        owner.random.shuffle(&mut places);
        for &place in &places[..used] {
            owner.alloc_at(zone, huge * HUGE + place, 0, false);
        }
    }
    owner
}

#[test]
fn the_emptiest_give_and_the_fullest_receive() {
    let zone = zone(6);
    let mut owner = filled(&zone, &[40, 500, 30, 200, 507, 512], 1);
    let report = run(huge(1), &zone, &mut owner);
    assert_eq!(
        (report.stop, report.won, report.moves, report.fewest),
        (Some(Stop::Won), 1, 30, 30)
    );
    let used: Vec<_> = (0..6).map(|huge| owner.used(huge)).collect();
    assert_eq!(used, [40, 512, 0, 213, 512, 512]);
    owner.check_all(&zone);
    // All that is possible: 40 more.
    let report = run(huge(usize::MAX), &zone, &mut owner);
    assert_eq!((report.won, report.possible, report.moves, report.fewest), (1, 1, 40, 40));
    assert_eq!(zone.stats().free_huge, 2);
    owner.check_all(&zone);
}

#[test]
fn two_fingers_move_what_is_last_to_the_front() {
    let zone = zone(4);
    let mut owner = filled(&zone, &[100, 30, 20, 90], 1);
    let report = run(Setup { manner: Manner::Fingers, ..huge(usize::MAX) }, &zone, &mut owner);
    assert_eq!((report.won, report.moves, report.fewest), (3, 140, 140));
    assert_eq!(report.stop, Some(Stop::NoRoom));
    let used: Vec<_> = (0..4).map(|huge| owner.used(huge)).collect();
    assert_eq!(used, [240, 0, 0, 0]);
    owner.check_all(&zone);
}

#[test]
fn nothing_moves_that_would_win_nothing() {
    let zone = zone(3);
    let mut owner = filled(&zone, &[300, 350, 400], 1);
    for manner in [Manner::Matching, Manner::Fingers] {
        let report = run(Setup { manner, ..huge(usize::MAX) }, &zone, &mut owner);
        assert_eq!((report.stop, report.moves, report.possible), (Some(Stop::NoRoom), 0, 0));
    }
    owner.check_all(&zone);
}

#[test]
fn what_is_pinned_is_found_before_anything_moves() {
    let zone = zone(4);
    let mut owner = filled(&zone, &[400, 10, 20, 30], 1);
    owner.alloc(&zone, Order(0), false);
    let last = (0..HUGE)
        .rev()
        .map(|frame| HUGE + frame)
        .find(|&frame| zone.is_free(FrameId(frame), Order(0)));
    owner.alloc_at(&zone, last.unwrap(), 0, true);
    let report = run(huge(1), &zone, &mut owner);
    assert_eq!((report.won, report.blocked, report.pinned), (1, 1, 0));
    assert!(report.moves <= 21, "{report:?}");
    owner.check_all(&zone);
}

#[test]
fn what_is_known_to_be_pinned_is_skipped_and_receives_first() {
    let zone = zone(4);
    let mut owner = filled(&zone, &[400, 10, 20, 30], 1);
    let free = (HUGE..2 * HUGE).find(|&frame| zone.is_free(FrameId(frame), Order(0)));
    owner.alloc_at(&zone, free.unwrap(), 0, true);
    owner.tells_pinned = true;
    let report = run(huge(usize::MAX), &zone, &mut owner);
    assert_eq!((report.pinned, report.possible, report.won, report.blocked), (1, 3, 3, 0));
    assert_eq!((report.moves, report.fewest), (450, 450));
    assert_eq!(owner.used(1), 461);
    owner.check_all(&zone);
}

#[test]
fn blocks_move_as_a_whole() {
    let zone = zone(8);
    let mut owner = Owner::new(8 * HUGE, 1);
    for huge in 0..8 {
        let mut at = huge * HUGE;
        for order in [3, 0, 6, 1, 7] {
            at = at.next_multiple_of(1 << order);
            owner.alloc_at(&zone, at, order, false);
            at += 1 << order;
        }
    }
    let report = run(huge(usize::MAX), &zone, &mut owner);
    assert_eq!((report.won, report.blocks), (4, 20), "{report:?}");
    assert_eq!((report.moves, report.fewest), (4 * (8 + 1 + 64 + 2 + 128), report.moves));
    owner.check_all(&zone);
}

#[test]
fn small_blocks_stay_where_a_large_one_has_no_room() {
    let zone = zone(3);
    let mut owner = Owner::new(3 * HUGE, 1);
    for huge in 0..3 {
        for (at, order) in [(0, 0), (8, 3), (256, 7)] {
            owner.alloc_at(&zone, huge * HUGE + at, order, false);
        }
        // In the middle of what would be room for the largest one.
        owner.alloc_at(&zone, huge * HUGE + 130, 0, false);
        owner.alloc_at(&zone, huge * HUGE + 450, 0, false);
    }
    let report = run(huge(usize::MAX), &zone, &mut owner);
    assert_eq!((report.possible, report.won, report.moves), (2, 0, 0));
    assert_eq!(report.stop, Some(Stop::NoRoom));
    owner.check_all(&zone);
}

#[test]
fn a_range_is_emptied_whole_huge_frames_included() {
    let zone = zone(10);
    let mut owner = filled(&zone, &[300, 300, 300, 300, 20, 0, 77], 1);
    owner.alloc_at(&zone, 7 * HUGE, 9, false);
    let report = run(range(4..8), &zone, &mut owner);
    assert_eq!((report.stop, report.won, report.moves), (Some(Stop::Won), 3, 20 + 77 + 512));
    assert_eq!(report.fewest, report.moves);
    assert!((4..8).all(|huge| zone.free_in_huge(HugeId(huge)) == HUGE));
    owner.check_all(&zone);
}

#[test]
fn a_block_of_several_huge_frames_leaves_all_of_them() {
    for manner in [Manner::Matching, Manner::Fingers] {
        let zone = zone(10);
        let mut owner = filled(&zone, &[300, 0, 0, 0, 0, 20], 1);
        owner.alloc_at(&zone, 2 * HUGE, 10, false);
        let report = run(Setup { manner, ..range(2..6) }, &zone, &mut owner);
        assert_eq!((report.stop, report.won, report.blocks), (Some(Stop::Won), 3, 21));
        assert_eq!((report.moves, report.fewest), (1024 + 20, 1024 + 20));
        owner.check_all(&zone);
    }
}

#[test]
fn a_range_with_something_pinned_is_given_back() {
    let zone = zone(6);
    let mut owner = filled(&zone, &[100, 100, 5, 6], 1);
    owner.alloc_at(&zone, 4 * HUGE - 1, 0, false);
    let id = owner.alloc_at(&zone, 5 * HUGE - 1, 0, true);
    let setup = Setup { keep: true, ..range(2..5) };
    let mut memory = memory();
    let mut work = plan(setup.clone(), &mut memory, &zone, &mut owner);
    work.run(usize::MAX, &*zone, &mut owner);
    assert_eq!(work.report::<Base4K>().stop, Some(Stop::Blocked));
    assert_eq!(work.kept().count(), 0);
    owner.check_all(&zone);
    owner.free(&zone, id);
    let mut work = plan(setup, &mut memory, &zone, &mut owner);
    assert!(work.run(usize::MAX, &*zone, &mut owner));
    assert_eq!(work.kept().count(), 3);
    // Nobody else gets it.
    let at = Request::movable(Order(9), SLOT).at(FrameId(2 * HUGE));
    assert!(zone.alloc(at).is_err());
    (2..5).for_each(|huge| zone.free(FrameId(huge * HUGE), Order(9), SLOT).unwrap());
    owner.check_all(&zone);
}

#[test]
fn a_giant_frame_is_won_where_the_fewest_frames_are_in_use() {
    let zone = zone(2048);
    let mut owner = Owner::new(2048 * HUGE, 1);
    // Each gigabyte has some frames in use, and the third one the fewest.
    for (gib, used) in [40, 30, 10, 20].into_iter().enumerate() {
        for _ in 0..used {
            let frame = gib * 512 * HUGE + owner.random.usize(..512 * HUGE);
            owner.alloc_at(&zone, frame, 0, false);
        }
    }
    let setup = Setup { target: Target::Block(Order(18)), keep: true, ..huge(0) };
    let mut memory = memory();
    let mut work = plan(setup, &mut memory, &zone, &mut owner);
    assert!(work.run(usize::MAX, &*zone, &mut owner));
    let report = work.report::<Base4K>();
    assert_eq!((report.stop, report.moves, report.fewest), (Some(Stop::Won), 10, 10));
    let mut kept: Vec<_> = work.kept().map(|huge| huge.0).collect();
    kept.sort_unstable();
    assert!(kept.into_iter().eq(1024..1536));
    (1024..1536).for_each(|huge| zone.free(FrameId(huge * HUGE), Order(9), SLOT).unwrap());
    owner.check_all(&zone);
}

#[test]
fn what_cannot_be_a_target_is_refused() {
    let zone = zone(8);
    let mut owner = filled(&zone, &[500, 500, 500, 500, 500, 500, 500, 500], 1);
    let mut refused = |target, room: usize| {
        let setup = Setup { target, ..huge(0) };
        let mut memory = vec![Candidate::EMPTY; room];
        Compaction::plan(setup, &mut memory, &*zone, &mut owner, regions(&zone)).err()
    };
    assert_eq!(refused(Target::Block(Order(3)), 64), Some(PlanError::NoTarget));
    assert_eq!(refused(Target::Block(Order(255)), 64), Some(PlanError::NoTarget));
    assert_eq!(refused(Target::Block(Order(18)), 64), Some(PlanError::NoPlace));
    assert_eq!(refused(Target::Block(Order(10)), 64), Some(PlanError::NoPlace));
    assert_eq!(refused(Target::Range(HugeId(6)..HugeId(9)), 64), Some(PlanError::NoTarget));
    assert_eq!(refused(Target::Range(HugeId(6)..HugeId(6)), 64), Some(PlanError::NoTarget));
    assert_eq!(
        refused(Target::Range(HugeId(usize::MAX)..HugeId(3)), 64),
        Some(PlanError::NoTarget)
    );
    assert_eq!(refused(Target::Huge(1), 7), Some(PlanError::Memory(8)));
    assert_eq!(refused(Target::Huge(1), 8), None);
    owner.check_all(&zone);
}

#[test]
fn a_move_that_fails_leaves_the_block_and_frees_the_other() {
    let zone = zone(4);
    let mut owner = filled(&zone, &[400, 60, 70, 80], 1);
    owner.mood = Mood::Moody(100);
    let report = run(huge(1), &zone, &mut owner);
    assert_eq!((report.won, report.moves), (0, 0));
    assert!(report.failed >= 3 && report.blocked >= 3, "{report:?}");
    owner.check_all(&zone);
    owner.mood = Mood::Kind;
    assert_eq!(run(huge(1), &zone, &mut owner).won, 1);
    owner.check_all(&zone);
}

#[test]
fn a_block_that_its_owner_frees_is_left_alone() {
    let zone = zone(3);
    let mut owner = filled(&zone, &[400, 0, 60], 1);
    let chosen = *owner.blocks.keys().last().unwrap();
    owner.frees_what_moves = Some(chosen);
    let mut memory = memory();
    let mut work = plan(huge(1), &mut memory, &zone, &mut owner);
    loop {
        match work.step(&*zone, &mut owner) {
            // The free ends a little later.
            Step::Refused(_, Refusal::Gone) => owner.free(&zone, chosen),
            Step::Done(stop) => break assert_eq!(stop, Stop::Won),
            _ => {}
        }
    }
    let report = work.report::<Base4K>();
    assert_eq!((report.won, report.gone, report.moves), (1, 1, 59));
    owner.check_all(&zone);
}

#[test]
fn it_can_be_cancelled_at_each_step() {
    let mut cancelled = 0;
    for steps in 0.. {
        let zone = zone(5);
        let mut owner = filled(&zone, &[480, 40, 3, 490, 5], 1);
        let setup = if steps % 2 == 0 { huge(2) } else { range(1..3) };
        let mut memory = memory();
        let mut work = plan(setup, &mut memory, &zone, &mut owner);
        let done = (0..steps / 2).any(|_| matches!(work.step(&*zone, &mut owner), Step::Done(_)));
        work.cancel(&*zone);
        owner.check_all(&zone);
        let stop = work.report::<Base4K>().stop.expect("it has ended");
        assert!(!done || stop != Stop::Cancelled, "after {steps} steps");
        cancelled += usize::from(stop == Stop::Cancelled);
        assert_eq!(work.step(&*zone, &mut owner), Step::Done(stop));
        if done && steps % 2 == 1 {
            break;
        }
    }
    assert!(cancelled > 100);
}

#[test]
fn of_two_compactions_one_empties_a_huge_frame() {
    let zone = zone(4);
    let mut owner = filled(&zone, &[470, 20, 30, 480], 1);
    let (mut one, mut other) = (memory(), memory());
    let mut one = plan(huge(usize::MAX), &mut one, &zone, &mut owner);
    let setup = Setup { slot: RIVAL, ..huge(usize::MAX) };
    let mut other = plan(setup, &mut other, &zone, &mut owner);
    let mut busy = true;
    while busy {
        let steps = [one.step(&*zone, &mut owner), other.step(&*zone, &mut owner)];
        busy = steps.iter().any(|step| !matches!(step, Step::Done(_)));
        owner.check();
    }
    let (one, other) = (one.report::<Base4K>(), other.report::<Base4K>());
    assert!(one.taken + other.taken > 0, "{one:?} {other:?}");
    assert_eq!((one.won + other.won, one.moves + other.moves), (2, 50), "{one:?} {other:?}");
    owner.check_all(&zone);
}

#[test]
fn two_compactions_of_one_range_exclude_each_other() {
    let zone = zone(6);
    let mut owner = filled(&zone, &[200, 200, 50, 60, 70], 1);
    let (mut one, mut other) = (memory(), memory());
    let mut one = plan(range(2..4), &mut one, &zone, &mut owner);
    let mut other = plan(Setup { slot: RIVAL, ..range(3..5) }, &mut other, &zone, &mut owner);
    one.step(&*zone, &mut owner);
    // It gives back what it has isolated up to there.
    assert_eq!(other.step(&*zone, &mut owner), Step::Looked);
    assert_eq!(other.step(&*zone, &mut owner), Step::Done(Stop::Taken));
    assert_eq!(zone.stats().isolated_huge, 2);
    assert_eq!(other.report::<Base4K>().taken, 1);
    assert!(one.run(usize::MAX, &*zone, &mut owner));
    assert_eq!(one.report::<Base4K>().won, 2);
    owner.check_all(&zone);
}

#[test]
fn a_run_is_bounded_by_moves() {
    let zone = zone(3);
    let mut owner = filled(&zone, &[100, 90, 80], 1);
    let mut memory = memory();
    let mut work = plan(huge(2), &mut memory, &zone, &mut owner);
    for moves in (7..).step_by(7).take_while(|&moves| moves < 170) {
        assert!(!work.run(7, &*zone, &mut owner));
        assert_eq!(work.report::<Base4K>().moves, moves);
    }
    assert!(work.run(7, &*zone, &mut owner));
    owner.check_all(&zone);
}

#[test]
fn a_block_that_the_frame_does_not_belong_to_is_not_moved() {
    fn movable(first: usize, order: u8) -> Lookup {
        let order = Order(order);
        Lookup::Movable(Block { first: FrameId(first), order, class: Class::MOVABLE })
    }
    let lies: [fn(FrameId) -> Lookup; 6] = [
        // The frame before, one far below, one above.
        |frame| movable(frame.0 - 1, 0),
        |_| movable(3, 0),
        |frame| movable(frame.0 + 1, 0),
        // Not aligned, of no size, larger than what is isolated.
        |frame| movable(frame.0 | 1, 1),
        |frame| movable(frame.0, 255),
        |_| movable(0, 11),
    ];
    for (lie, setup) in lies.into_iter().flat_map(|lie| [(lie, huge(2)), (lie, range(2..4))]) {
        let zone = zone(4);
        let mut owner = filled(&zone, &[400, 100, 20, 30], 1);
        owner.lies = Some(lie);
        let report = run(setup, &zone, &mut owner);
        assert_eq!((report.won, report.moves, owner.copies), (0, 0, 0), "{report:?}");
        assert!(owner.lookups < 10_000);
        owner.check_all(&zone);
    }
}

#[test]
fn the_fewest_moves_are_those_for_what_was_won() {
    // Of a range, only what was emptied before the pinned frame was found.
    let zone4 = zone(4);
    let mut owner = filled(&zone4, &[100, 30, 20, 0], 1);
    let pinned = owner.alloc_at(&zone4, 2 * HUGE - 1, 0, true);
    let report = run(range(1..3), &zone4, &mut owner);
    assert_eq!((report.stop, report.won), (Some(Stop::Blocked), 1));
    assert_eq!((report.moves, report.fewest), (20, 20));
    owner.free(&zone4, pinned);

    // A huge frame that its owner has emptied since the plan was not won; what is freed since makes another one cheaper.
    let zone = zone(4);
    let mut owner = filled(&zone, &[400, 60, 40, 10], 1);
    let mut memory = memory();
    let mut work = plan(huge(1), &mut memory, &zone, &mut owner);
    let of = |owner: &Owner, huge: usize| -> Vec<u64> {
        let is_there = |first: FrameId| first.0 / HUGE == huge;
        let held = owner.blocks.iter().filter(|(_, held)| is_there(held.block.first));
        held.map(|(&id, _)| id).collect()
    };
    of(&owner, 3).into_iter().for_each(|id| owner.free(&zone, id));
    of(&owner, 2).into_iter().take(15).for_each(|id| owner.free(&zone, id));
    assert_eq!(work.report::<Base4K>().fewest, 0);
    assert!(work.run(usize::MAX, &*zone, &mut owner));
    let report = work.report::<Base4K>();
    assert_eq!((report.won, report.moves, report.fewest), (1, 25, 25), "{report:?}");
    owner.check_all(&zone);
}

#[test]
fn what_has_filled_since_the_plan_is_passed_over() {
    for order in [0, 9] {
        let zone = zone(4);
        let mut owner = filled(&zone, &[400, 60, 40, 1], 1);
        let mut memory = memory();
        let mut work = plan(huge(1), &mut memory, &zone, &mut owner);
        let last = *owner.blocks.keys().last().unwrap();
        owner.free(&zone, last);
        for at in [0, 1].map(|at| at << order).into_iter().take_while(|&at| at < HUGE) {
            owner.alloc_at(&zone, 3 * HUGE + at, order, false);
        }
        assert!(work.run(usize::MAX, &*zone, &mut owner));
        assert_eq!((work.report::<Base4K>().won, work.report::<Base4K>().moves), (1, 40));
        owner.check_all(&zone);
    }
}

#[test]
fn what_is_kept_is_allocated() {
    let zone = zone(4);
    let mut owner = filled(&zone, &[400, 60, 40, 10], 1);
    let mut memory = memory();
    let mut work = plan(Setup { keep: true, ..huge(2) }, &mut memory, &zone, &mut owner);
    assert!(work.run(usize::MAX, &*zone, &mut owner));
    let kept: Vec<_> = work.kept().collect();
    assert_eq!((kept.len(), work.report::<Base4K>().won), (2, 2));
    for huge in kept {
        assert!(!zone.is_isolated(huge));
        assert_eq!(zone.frames_in_use(huge), HUGE);
        zone.free(huge.first::<Base4K>(), Order(9), COMPACT).unwrap();
    }
    owner.check_all(&zone);
}

#[test]
fn no_step_of_a_range_is_longer_for_a_longer_range() {
    let zone = zone(200);
    let mut owner = filled(&zone, &[0; 200], 1);
    let mut memory = vec![Candidate::EMPTY; 200];
    for pinned in [false, true] {
        let pin = pinned.then(|| owner.alloc_at(&zone, 5 * HUGE, 0, true));
        let mut work =
            Compaction::plan(range(0..199), &mut memory, &*zone, &mut owner, regions(&zone))
                .unwrap();
        let (mut before, mut most) = (0, 0);
        while !matches!(work.step(&*zone, &mut owner), Step::Done(_)) {
            let isolated = zone.stats().isolated_huge;
            most = most.max(isolated);
            assert!(isolated.abs_diff(before) <= 64, "{before} and then {isolated}");
            before = isolated;
        }
        assert_eq!(most, 199);
        assert!(before <= 64, "the last step gave {before} back");
        pin.into_iter().for_each(|pin| owner.free(&zone, pin));
    }
    owner.check_all(&zone);
}

#[test]
fn where_nobody_has_room_the_run_ends() {
    for manner in [Manner::Matching, Manner::Fingers] {
        let zone = zone(4);
        let mut owner = filled(&zone, &[500, 490, 12, 10], 1);
        let mut memory = memory();
        let setup = Setup { manner, ..huge(2) };
        let mut work = plan(setup, &mut memory, &zone, &mut owner);
        while !matches!(work.step(&*zone, &mut owner), Step::Moved(..)) {}
        // Others take all that is left elsewhere, and free some of it when it is too late.
        let mut late = Vec::new();
        while let Some(id) = owner.alloc(&zone, Order(0), false) {
            late.push(id);
        }
        late.retain(|id| owner.blocks[id].block.first.0 / HUGE == 2);
        let mut gave_up = 0;
        let stop = loop {
            match work.step(&*zone, &mut owner) {
                Step::GaveUp(_) => {
                    gave_up += 1;
                    late.drain(..).for_each(|id| owner.free(&zone, id));
                }
                Step::Done(stop) => break stop,
                _ => {}
            }
        };
        let report = work.report::<Base4K>();
        assert_eq!(
            (stop, gave_up, report.won, report.blocked),
            (Stop::NoRoom, 1, 0, 0),
            "{manner:?}"
        );
        owner.check_all(&zone);
    }
}

/// A zone in which allocations that began before an isolation end late: when this huge frame is to be claimed, as often as is said.
struct Late<'a> {
    zone: &'a Zone,
    owner: &'a Mutex<Owner>,
    huge: HugeId,
    /// Where they get a frame, and whether that is pinned.
    gets: &'a [(HugeId, bool)],
    times: AtomicUsize,
}

impl FrameAllocator for Late<'_> {
    type Geometry = Base4K;
    const NAME: &'static str = "late";
    const UNSUPPORTED: Unsupported = LLFree::<Base4K>::UNSUPPORTED;

    fn alloc(&self, request: Request) -> Result<FrameId, AllocError> {
        self.zone.alloc(request)
    }

    fn claim_isolated(&self, first: HugeId, count: usize, to: Claim) -> Result<(), IsolateError> {
        if first == self.huge && self.times.load(Ordering::Relaxed) > 0 {
            self.times.fetch_sub(1, Ordering::Relaxed);
            for &(huge, pinned) in self.gets {
                self.zone.unisolate(huge, 1).expect("it was isolated");
                let frame = huge.first::<Base4K>().0 + 7;
                self.owner.lock().unwrap().alloc_at(self.zone, frame, 0, pinned);
                self.zone.isolate(huge, 1).expect("nobody else does");
            }
        }
        self.zone.claim_isolated(first, count, to)
    }

    forward!(zone: zone, free, can_free, drain, offline, online);
    forward!(zone: isolate, unisolate, is_isolated, frames_in_use, used_map);
    forward!(zone: is_available, free_frames, stats, is_free, free_map, free_in_huge);
}

/// The owner, while the zone has it too.
struct Shared<'a>(&'a Mutex<Owner>);

impl Relocate for Shared<'_> {
    fn block_at(&mut self, frame: FrameId) -> Lookup {
        self.0.lock().unwrap().block_at(frame)
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        self.0.lock().unwrap().relocate(block, to)
    }
}

#[test]
fn a_range_is_claimed_a_part_each_step() {
    let zone = zone(200);
    let mut owner = filled(&zone, &[10; 4], 1);
    let mut memory = memory();
    let setup = Setup { keep: true, ..range(2..199) };
    let mut parts = 0;
    for cancelled_after in (0..5).map(|parts| (parts < 4).then_some(parts)) {
        let mut work = plan(setup.clone(), &mut memory, &zone, &mut owner);
        let mut before = 0;
        parts = 0;
        let stop = loop {
            let step = work.step(&*zone, &mut owner);
            let isolated = zone.stats().isolated_huge;
            assert!(isolated.abs_diff(before) <= 64, "{before} and then {isolated}");
            parts += usize::from(isolated < before);
            before = isolated;
            if let Step::Done(stop) = step {
                break stop;
            }
            assert_eq!(work.kept().count(), 0, "not all of it is claimed");
            if cancelled_after.is_some_and(|after| parts == after && isolated == 197 - 64 * after) {
                work.cancel(&*zone);
                break Stop::Cancelled;
            }
        };
        match cancelled_after {
            Some(_) => assert_eq!((stop, work.kept().count()), (Stop::Cancelled, 0)),
            None => assert_eq!((stop, work.kept().count()), (Stop::Won, 197)),
        }
        for huge in work.kept() {
            zone.free(huge.first::<Base4K>(), Order(9), COMPACT).expect("it is the caller's");
        }
        owner.check_all(&zone);
    }
    assert_eq!(parts, 4, "all of it was claimed");
}

/// Claims a range of 148 huge frames, of which the first held 10 frames, while others get theirs late. What it did, and how many huge
/// frames are kept.
fn claim_late(huge: usize, gets: &[(HugeId, bool)], times: usize) -> (Report, usize) {
    let zone = zone(160);
    let owner = Mutex::new(filled(&zone, &[10; 3], 1));
    let times = AtomicUsize::new(times);
    let late = Late { zone: &zone, owner: &owner, huge: HugeId(huge), gets, times };
    let mut memory = memory();
    let setup = Setup { keep: true, ..range(2..150) };
    let mut side = Shared(&owner);
    let mut work =
        Compaction::plan(setup, &mut memory, &late, &mut side, regions(&zone)).expect("a plan");
    let mut claimed = 0;
    while !matches!(work.step(&late, &mut side), Step::Done(_)) {
        claimed = claimed.max(148_usize.saturating_sub(zone.stats().isolated_huge));
    }
    assert!(claimed >= huge - 2 - (huge - 2) % 64, "{claimed} were claimed in the meantime");
    let kept: Vec<_> = work.kept().collect();
    for huge in &kept {
        zone.free(huge.first::<Base4K>(), Order(9), COMPACT).expect("it is the caller's");
    }
    owner.lock().unwrap().check_all(&zone);
    (work.report::<Base4K>(), kept.len())
}

#[test]
fn what_comes_late_to_a_range_that_is_claimed_moves_or_undoes_the_claim() {
    for (pinned, times, stop) in [
        (false, 1, Stop::Won),
        (false, 4, Stop::Won),
        (false, 5, Stop::Blocked),
        (true, 1, Stop::Blocked),
    ] {
        // The last of those that were free from the beginning.
        let (report, kept) = claim_late(149, &[(HugeId(149), pinned)], times);
        assert_eq!(report.stop, Some(stop));
        assert_eq!(kept, if stop == Stop::Won { 148 } else { 0 });
    }
}

#[test]
fn what_was_emptied_twice_is_won_once() {
    let counts = |report: Report| (report.won, report.moves, report.fewest);
    let (first, last) = (HugeId(2), HugeId(149));
    // The first one holds ten frames, and as many more as come late.
    for times in 0..5 {
        let (report, _) = claim_late(2, &[(first, false)], times);
        assert_eq!((report.stop, counts(report)), (Some(Stop::Won), (1, 10 + times, 10 + times)));
        let (report, _) = claim_late(149, &[(last, false)], times);
        let won = 1 + usize::from(times > 0);
        assert_eq!((report.stop, counts(report)), (Some(Stop::Won), (won, 10 + times, 10 + times)));
    }
    // What is in use when it is given back is not won: found so, and not.
    assert_eq!(counts(claim_late(2, &[(first, false)], 5).0), (0, 14, 0));
    assert_eq!(counts(claim_late(149, &[(last, false)], 5).0), (1, 14, 10));
    assert_eq!(counts(claim_late(2, &[(first, true)], 1).0), (0, 10, 0));
    assert_eq!(counts(claim_late(2, &[(first, false), (last, true)], 1).0), (0, 10, 0));
}
