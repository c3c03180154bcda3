//! Giant frames: 1 GiB of 4 KiB frames, order 18, and the orders between it and the largest of the allocators.

mod machine;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use fastrand::Rng;
use machine::{Machine, machine, memory, ranges};
use woodlot_compact::{
    Block, Candidate, Compaction, Lookup, Refusal, Relocate, Setup as Work, Stop, Target,
};
use woodlot_domains::{
    DomainId, DomainSet, Map, Metadata, Policy, Present, Room, Rounds, RunsError, Setup,
};
use woodlot_frame::{
    AllocError, Base4K, Base16K, Base64K, Batch, Class, FrameAllocator, FrameId, FreeBatchError,
    FreeError, HugeId, Order, RawMetadata, Request, Slot,
};
use woodlot_llfree::LLFree;

const GIANT: Order = Order(18);
/// Frames of a giant frame, and of a huge one.
const G: usize = 1 << 18;
const HUGE: usize = 1 << 9;

const D0: DomainId = DomainId(0);
const D1: DomainId = DomainId(1);

/// A machine of a map, with two slots: one in domain 0, the other in domain 1.
fn of(map: &[(usize, usize, u8)]) -> Machine<'static> {
    let mut ranges = ranges(map);
    let map = Map::new(&mut ranges).expect("the map is right");
    machine(&Setup::new(map, 2).at_home(&[D0, D1]))
}

fn giant(slot: usize) -> Request {
    Request::movable(GIANT, Slot(slot))
}

/// The blocks of an order that are free, by their frames.
fn free_blocks(machine: &Machine<'_>, order: Order) -> Vec<usize> {
    machine.free_giants(order).map(|block| block.0).collect()
}

#[test]
fn the_largest_order_is_one_gibibyte() {
    const fn max<A: FrameAllocator>() -> Order {
        A::MAX_ORDER
    }
    type Of<G> = woodlot_domains::Domains<'static, LLFree<'static, G>>;
    assert_eq!(max::<Of<Base4K>>(), Order(18));
    assert_eq!(max::<Of<Base16K>>(), Order(16));
    assert_eq!(max::<Of<Base64K>>(), Order(14));
    assert_eq!(max::<LLFree<'static, Base4K>>(), Order(10));
}

#[test]
fn each_comes_from_the_nearest_domain_that_has_one() {
    // One and a half in domain 0, two in domain 1; the lowest frame is not at a multiple of anything.
    let machine = of(&[(3, G + 2 * HUGE + 5, 0), (2 * G, 3 * G, 0), (4 * G, 6 * G, 1)]);
    let all = machine.free_frames();
    assert_eq!(free_blocks(&machine, GIANT), [2 * G, 4 * G, 5 * G]);
    let far = machine.alloc(giant(1));
    assert_eq!(far, Ok(FrameId(4 * G)));
    assert_eq!(machine.alloc(giant(0)), Ok(FrameId(2 * G)));
    assert_eq!(machine.free_frames(), all - 2 * G);
    // Domain 0 has none any more.
    let bound = Policy::Bind(DomainSet::of(&[D0]));
    assert_eq!(machine.alloc_by(giant(0), bound), Err(AllocError::OutOfMemory));
    assert_eq!(machine.alloc(giant(0)), Ok(FrameId(5 * G)));
    assert!(!machine.is_available(GIANT) && machine.is_available(Order(17)));
    assert_eq!(machine.alloc(giant(1)), Err(AllocError::OutOfMemory));
    assert_eq!(machine.stats().free_huge, (all - 3 * G) / HUGE - 1, "one is cut off at each end");
    let stats = machine.numa_stats(D1);
    assert_eq!((stats.hit, stats.miss, stats.local_node), (G as u64, G as u64, G as u64));
    assert_eq!(machine.numa_stats(D0).foreign, G as u64);
    for block in [2 * G, 4 * G, 5 * G].map(FrameId) {
        assert!(!machine.is_free(block, GIANT));
        assert_eq!(machine.can_free(block, GIANT, Slot(1)), Ok(()));
        assert_eq!(machine.free(block, GIANT, Slot(1)), Ok(()));
        assert!(machine.is_free(block, GIANT));
    }
    assert_eq!((machine.free_frames(), machine.is_available(GIANT)), (all, true));
}

#[test]
fn one_inside_of_a_range_comes_from_the_nearest_domain_that_a_policy_allows() {
    let machine = of(&[(0, G, 0), (G, 3 * G, 1), (3 * G, 4 * G, 0)]);
    let inside = giant(1).within(FrameId(1)..FrameId(4 * G - 1));
    assert_eq!(machine.alloc(giant(0).within(FrameId(0)..FrameId(2 * G))), Ok(FrameId(0)));
    let bound = Policy::Bind(DomainSet::of(&[D0]));
    assert_eq!(machine.alloc_by(inside, bound), Err(AllocError::OutOfMemory));
    assert_eq!(machine.alloc_by(inside, Policy::Prefer(D0)), Ok(FrameId(G)));
    assert_eq!((machine.numa_stats(D0).foreign, machine.numa_stats(D1).miss), (G as u64, G as u64));
    let of_one = giant(0).within(FrameId(G)..FrameId(3 * G));
    assert_eq!(machine.alloc(of_one), Ok(FrameId(2 * G)));
    assert_eq!(machine.numa_stats(D1).hit, G as u64, "domain 0 has nothing there");
    let narrow = giant(0).within(FrameId(1)..FrameId(2 * G - 1));
    assert_eq!(machine.alloc(narrow), Err(AllocError::NoPlace(FrameId(1))));
}

/// The slot's domain has no zone that could say that the order is too large for it.
#[test]
fn a_slot_of_a_domain_without_memory_has_them_from_others() {
    let machine = of(&[(0, 2 * G, 0)]);
    assert_eq!(machine.alloc(giant(1)), Ok(FrameId(0)));
    assert_eq!(machine.free(FrameId(0), GIANT, Slot(1)), Ok(()));
    let missing = Request { class: Class(77), ..giant(1) };
    assert_eq!(machine.alloc(missing), Err(AllocError::BadClass(Class(77))));
}

#[test]
fn one_at_a_frame_comes_from_domains_that_a_policy_allows() {
    let machine = of(&[(0, G / 4, 0), (G / 4, 2 * G, 1)]);
    let bound = |domains: &[DomainId]| Policy::Bind(DomainSet::of(domains));
    for set in [&[D0][..], &[D1]] {
        let refused = machine.alloc_by(giant(0).at(FrameId(0)), bound(set));
        assert_eq!(refused, Err(AllocError::OutOfMemory), "it lies across both");
    }
    assert_eq!(machine.alloc_by(giant(0).at(FrameId(0)), bound(&[D0, D1])), Ok(FrameId(0)));
    let next = giant(0).at(FrameId(G));
    assert_eq!(machine.alloc_by(next, bound(&[D0])), Err(AllocError::OutOfMemory));
    assert_eq!(machine.alloc_by(next, bound(&[D1])), Ok(FrameId(G)));
}

#[test]
fn one_lies_across_domains_that_touch() {
    let machine = of(&[(0, G / 4, 0), (G / 4, G, 1)]);
    for only in [D0, D1] {
        let bound = Policy::Bind(DomainSet::of(&[only]));
        assert_eq!(machine.alloc_by(giant(0), bound), Err(AllocError::OutOfMemory));
    }
    let both = Policy::Bind(DomainSet::of(&[D1, D0]));
    assert_eq!(machine.alloc_by(giant(0), both), Ok(FrameId(0)));
    assert_eq!(machine.numa_stats(D0).hit, G as u64 / 4);
    assert_eq!(machine.numa_stats(D1).miss, 3 * G as u64 / 4);
    // Two of its halves, of which one is as large as what a domain has.
    assert_eq!(machine.free(FrameId(0), Order(17), Slot(1)), Ok(()));
    assert_eq!(machine.free(FrameId(G / 2), Order(17), Slot(1)), Ok(()));
    assert_eq!(machine.free_frames(), G);
    // A chunk that they share is neither's as a whole, and both have their part of it.
    for border in [G / 4 + 64, G / 4 + HUGE] {
        let shared = of(&[(0, border, 0), (border, G, 1)]);
        for request in [giant(0), giant(0).at(FrameId(0))] {
            assert!(shared.is_available(GIANT) && shared.is_free(FrameId(0), GIANT));
            assert_eq!(shared.alloc(request), Ok(FrameId(0)));
            assert!(!shared.is_available(GIANT) && shared.free_frames() == 0);
            assert_eq!(shared.free(FrameId(0), GIANT, Slot(1)), Ok(()));
            assert_eq!(shared.stats_of(D0).expect("it is there").free_frames, border);
            assert_eq!(shared.stats_of(D1).expect("it is there").free_frames, G - border);
        }
        assert_eq!(shared.numa_stats(D0).hit, border as u64);
        assert_eq!(shared.numa_stats(D1).miss, (G - border) as u64);
        let gap = of(&[(0, border, 0), (border + 64, G, 1)]);
        let there = gap.alloc(giant(0).at(FrameId(0)));
        assert_eq!(there, Err(AllocError::OutOfRange(FrameId(0))), "what is between is nobody's");
        assert_eq!(gap.free_frames(), G - 64);
    }
}

#[test]
fn one_lies_across_ranges_of_which_one_was_added() {
    let mut ranges = ranges(&[(0, G / 2, 0)]);
    let map = Map::new(&mut ranges).expect("the map is right");
    let room = Room::new(FrameId(0)..FrameId(2 * G), 2);
    let machine = machine(&Setup::new(map, 2).growing(room));
    assert_eq!(machine.alloc(giant(0)), Err(AllocError::OutOfMemory));
    let rest = Present::new(FrameId(G / 2)..FrameId(G), D0);
    let size = machine.metadata_of(rest.range()).expect("it is small");
    let given = Metadata::Given(RawMetadata {
        durable: memory(size.durable),
        volatile: memory(size.volatile),
    });
    // SAFETY: the memory is new, and stays.
    unsafe { machine.add_range(rest, given) }.expect("there is room");
    assert_eq!(machine.alloc(giant(1)), Ok(FrameId(0)));
    assert_eq!(machine.free_frames(), 0);
    assert_eq!(machine.free(FrameId(0), GIANT, Slot(0)), Ok(()));
    assert_eq!(machine.free_frames(), G);
}

#[test]
fn it_is_freed_in_parts_of_any_order_and_is_whole_again() {
    let machine = of(&[(0, G, 0)]);
    let mut rng = Rng::with_seed(18);
    for smallest in [0_u8, 5, 9, 10, 13, 17] {
        let block = machine.alloc(giant(0)).expect("all is free");
        // Halves of halves, down to the smallest at one place.
        let mut parts = vec![(block.0, GIANT.0)];
        while let Some(at) = parts.iter().position(|&(_, order)| order > smallest) {
            let (frame, order) = parts.swap_remove(at);
            parts.push((frame, order - 1));
            let other = (frame + (1 << (order - 1)), order - 1);
            // Of those above a huge frame both are split now and then.
            let splits = other.1 > smallest.max(9) && rng.u8(..3) == 0;
            parts.push(if splits { (other.0, other.1 - 1) } else { other });
            parts.extend(splits.then(|| (other.0 + (1 << (other.1 - 1)), other.1 - 1)));
            if parts.iter().filter(|&&(_, order)| order == smallest).count() > 1 {
                break;
            }
        }
        rng.shuffle(&mut parts);
        let mut free = 0;
        for (frame, order) in parts {
            assert!(!machine.is_available(GIANT), "a part is in use");
            let (frame, order) = (FrameId(frame), Order(order));
            assert_eq!(machine.free(frame, order, Slot(1)), Ok(()), "{frame} of {order}");
            let again = machine.free(frame, order, Slot(0));
            assert_eq!(again, Err(FreeError::NotAllocated(frame)), "{frame} of {order}");
            free += order.frames();
            assert_eq!(machine.free_frames(), free);
        }
        assert!(machine.is_available(GIANT));
    }
}

#[test]
fn one_frame_in_use_anywhere_is_in_the_way() {
    let machine = of(&[(0, 2 * G, 0)]);
    let other = machine.alloc(giant(0).at(FrameId(G))).expect("all is free");
    for frame in [0, 1, HUGE - 1, HUGE, G / 2, G - 1] {
        let one = Request::movable(Order::BASE, Slot(1)).at(FrameId(frame));
        machine.alloc(one).expect("it is free");
        assert_eq!(machine.alloc(giant(0)), Err(AllocError::OutOfMemory), "frame {frame}");
        let at = machine.alloc(giant(0).at(FrameId(0)));
        assert_eq!(at, Err(AllocError::InUse(FrameId(0))), "frame {frame}");
        assert!(!machine.is_available(GIANT) && !machine.is_free(FrameId(0), GIANT));
        assert_eq!(free_blocks(&machine, Order(17)).len(), 1);
        // All but one of its frames are free.
        let due = Err(FreeError::NotAllocated(FrameId(0)));
        assert_eq!(machine.can_free(FrameId(0), GIANT, Slot(0)), due, "frame {frame}");
        assert_eq!(machine.free(FrameId(0), GIANT, Slot(0)), due, "frame {frame}");
        assert_eq!(machine.free_frames(), G - 1, "nothing has changed");
        machine.free(FrameId(frame), Order::BASE, Slot(0)).expect("it is in use");
    }
    // A huge frame that is offline or isolated is not free.
    machine.offline(HugeId(5), 1).expect("it is free");
    assert_eq!(machine.alloc(giant(0)), Err(AllocError::OutOfMemory));
    assert!(matches!(machine.free(FrameId(0), GIANT, Slot(0)), Err(FreeError::NotAllocated(_))));
    machine.online(HugeId(5), 1).expect("it is offline");
    machine.isolate(HugeId(511), 1).expect("it is there");
    assert_eq!(machine.alloc(giant(0)), Err(AllocError::OutOfMemory));
    machine.unisolate(HugeId(511), 1).expect("it is isolated");
    assert_eq!(machine.alloc(giant(0)), Ok(FrameId(0)));
    assert_eq!(other, FrameId(G));
}

#[test]
fn one_lies_where_it_is_asked_for() {
    let machine = of(&[(0, 4 * G, 0)]);
    let within = |start, end| machine.alloc(giant(0).within(FrameId(start)..FrameId(end)));
    assert_eq!(within(1, 3 * G), Ok(FrameId(G)));
    assert_eq!(within(1, 3 * G), Ok(FrameId(2 * G)));
    assert_eq!(within(1, 3 * G), Err(AllocError::OutOfMemory));
    assert_eq!(within(1, 2 * G - 1), Err(AllocError::NoPlace(FrameId(1))));
    assert_eq!(within(9, 3), Err(AllocError::Reversed(FrameId(9))));
    assert_eq!(machine.alloc(giant(0).at(FrameId(3 * G))), Ok(FrameId(3 * G)));
    assert_eq!(machine.alloc(giant(0).at(FrameId(3 * G))), Err(AllocError::InUse(FrameId(3 * G))));
    assert_eq!(machine.free_frames(), G);
}

#[test]
fn what_is_wrong_with_a_call_is_said_and_nothing_changes() {
    // A hole in the second giant frame; the third ends too early.
    let machine = of(&[(0, G + 4 * HUGE, 0), (G + 8 * HUGE, 3 * G - HUGE, 0)]);
    let all = machine.free_frames();
    for order in [19, 20, 52, 63, 64, 255].map(Order) {
        let large = Request::movable(order, Slot(0));
        let too_large = Err(AllocError::OrderTooLarge(order));
        assert_eq!(machine.alloc(large), too_large);
        assert_eq!(machine.alloc(large.at(FrameId(0))), too_large);
        assert_eq!(machine.alloc(large.within(FrameId(0)..FrameId(G))), too_large);
        assert_eq!(machine.alloc_by(large, Policy::FirstTouch), too_large);
        let refused = Err(FreeError::OrderTooLarge(order));
        assert_eq!(machine.free(FrameId(0), order, Slot(0)), refused);
        assert_eq!(machine.can_free(FrameId(0), order, Slot(0)), refused);
        assert!(!machine.is_available(order) && !machine.is_free(FrameId(0), order));
        assert_eq!(machine.free_giants(order).count(), 0);
    }
    assert_eq!(machine.free_giants(Order(10)).count(), 0, "the allocators' own orders are theirs");
    assert_eq!(machine.alloc(giant(2)), Err(AllocError::BadSlot(Slot(2))));
    let nothing = giant(0).class(Class(200));
    assert_eq!(machine.alloc(nothing), Err(AllocError::BadClass(Class(200))));
    assert_eq!(machine.alloc(nothing.at(FrameId(0))), Err(AllocError::BadClass(Class(200))));
    for (frame, order) in [(1, 18), (HUGE, 18), (G / 2, 18), (1024, 11), (usize::MAX, 18)] {
        let (frame, order) = (FrameId(frame), Order(order));
        let at = Request::movable(order, Slot(0)).at(frame);
        assert_eq!(machine.alloc(at), Err(AllocError::Misaligned(frame, order)));
        assert_eq!(machine.free(frame, order, Slot(0)), Err(FreeError::Misaligned(frame, order)));
    }
    let last = usize::MAX & !(G - 1);
    for frame in [G, 2 * G, 3 * G, 100 * G, last].map(FrameId) {
        let outside = Err(AllocError::OutOfRange(frame));
        assert_eq!(machine.alloc(giant(0).at(frame)), outside, "{frame}");
        assert_eq!(machine.free(frame, GIANT, Slot(0)), Err(FreeError::OutOfRange(frame)));
        assert_eq!(machine.can_free(frame, GIANT, Slot(0)), Err(FreeError::OutOfRange(frame)));
        assert!(!machine.is_free(frame, GIANT));
    }
    assert_eq!(free_blocks(&machine, GIANT), [0]);
    assert_eq!(machine.alloc(giant(0)), Ok(FrameId(0)));
    assert_eq!(machine.free(FrameId(0), GIANT, Slot(9)), Err(FreeError::BadSlot(Slot(9))));
    assert_eq!(machine.free_frames(), all - G);
}

#[test]
fn batches_and_runs_of_giant_frames() {
    let machine = of(&[(0, 2 * G, 0), (2 * G, 4 * G, 1)]);
    let mut out = [FrameId(0); 5];
    let all = machine.alloc_batch(giant(1), Batch::All, &mut out);
    assert_eq!((all, machine.free_frames()), (Err(AllocError::OutOfMemory), 4 * G));
    assert_eq!(machine.alloc_batch(giant(1), Batch::UpTo, &mut out), Ok(4));
    assert_eq!(out[..4], [2 * G, 3 * G, 0, G].map(FrameId));
    let freed = machine.free_batch(&[FrameId(0), FrameId(G), FrameId(0)], GIANT, Slot(0));
    let cause = FreeError::NotAllocated(FrameId(0));
    assert_eq!(freed, Err(FreeBatchError { freed: 2, cause }));
    machine.free_batch(&out[..2], GIANT, Slot(0)).expect("they are in use");

    let mut runs = vec![FrameId(0)..FrameId(0); 4];
    let pages = Policy::Interleave { page: 1 };
    assert_eq!(machine.alloc_runs(giant(0), 3, pages, Batch::All, &mut runs), Ok(3));
    let due = [2 * G, 0, 3 * G].map(|block| FrameId(block)..FrameId(block + G));
    assert_eq!(runs[..3], due);
    assert_eq!(machine.numa_stats(D0).interleave_hit, G as u64);
    let refused = machine.alloc_runs(giant(0), 2, pages, Batch::All, &mut runs);
    assert_eq!(refused, Err(RunsError::Alloc(AllocError::OutOfMemory)));
    assert_eq!(machine.alloc_runs(giant(0), 2, pages, Batch::UpTo, &mut runs), Ok(1));
    assert_eq!((runs[0].clone(), machine.free_frames()), (FrameId(G)..FrameId(2 * G), 0));
    machine.free_range(FrameId(0)..FrameId(4 * G), Slot(0)).expect("all is in use");
    let rounds = Rounds::new();
    let refused = machine.alloc_runs(giant(0), 2, Policy::RoundRobin(&rounds), Batch::All, &mut []);
    assert_eq!((refused, machine.free_frames()), (Err(RunsError::TooManyRuns), 4 * G));
}

/// Blocks of the orders around and above the largest of the allocators, at random, against a map of their huge frames.
#[test]
fn random_calls_agree_with_a_map() {
    const ALL: usize = 100;
    let machine = of(&[(0, 62 * HUGE, 0), (62 * HUGE, ALL * HUGE, 1)]);
    let mut rng = Rng::with_seed(21);
    let (mut used, mut blocks) = ([false; ALL], Vec::new());
    for call in 0..3000 {
        let order = Order(rng.u8(9..=15));
        let (huge, slot) = (1 << (order.0 - 9), Slot(rng.usize(..2)));
        let free = |used: &[bool], at: usize| used[at..at + huge].iter().all(|used| !used);
        let mut all = (0..=ALL - huge).step_by(huge);
        let there = all.any(|at| free(&used, at));
        assert_eq!(machine.is_available(order), there, "call {call}: {order}");
        if rng.u8(..5) < 3 {
            match machine.alloc(Request::movable(order, slot)) {
                Ok(block) => {
                    let at = block.0 / HUGE;
                    assert!(block.is_aligned(order) && free(&used, at), "call {call}: {block}");
                    used[at..at + huge].fill(true);
                    blocks.push((block, order));
                }
                refused => {
                    assert_eq!((refused, there), (Err(AllocError::OutOfMemory), false), "{call}");
                }
            }
        } else if !blocks.is_empty() {
            let (block, order) = blocks.swap_remove(rng.usize(..blocks.len()));
            // As a whole, or the half of it.
            let part = Order(order.0 - u8::from(order.0 > 9 && rng.bool()));
            assert_eq!(machine.free(block, part, slot), Ok(()), "call {call}");
            let at = block.0 / HUGE;
            used[at..at + (part.frames() / HUGE)].fill(false);
            if part < order {
                blocks.push((FrameId(block.0 + part.frames()), part));
            }
        }
        let free = used.iter().filter(|used| !**used).count();
        assert_eq!(machine.free_frames(), free * HUGE, "call {call}");
    }
}

/// Threads want the same giant frames, and single frames of them: nobody gets what another one has.
#[test]
fn threads_want_the_same_giant_frames() {
    let machine = of(&[(0, 2 * G, 0)]);
    for round in 0..6 {
        let start = Barrier::new(4);
        let taken: Vec<_> = thread::scope(|scope| {
            let threads = [18, 17, 18, 0].map(|order| {
                let (machine, start) = (&machine, &start);
                scope.spawn(move || {
                    start.wait();
                    let request = Request::movable(Order(order), Slot(round % 2));
                    let blocks = (0..2).filter_map(|_| machine.alloc(request).ok());
                    blocks.map(|block| (block, Order(order))).collect::<Vec<_>>()
                })
            });
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
        });
        let mut frames: Vec<_> =
            taken.iter().map(|(block, order)| block.0..block.0 + order.frames()).collect();
        frames.sort_by_key(|frames| frames.start);
        assert!(frames.windows(2).all(|pair| pair[0].end <= pair[1].start), "{frames:?}");
        let sum: usize = taken.iter().map(|(_, order)| order.frames()).sum();
        // The statistics are exact; the sum of the slots is not, where threads share one.
        assert_eq!(machine.stats().free_frames, 2 * G - sum);
        for (block, order) in taken {
            machine.free(block, order, Slot(0)).expect("it is in use");
        }
        assert_eq!(free_blocks(&machine, GIANT), [0, G]);
    }
}

/// The single frames of a program, which move.
struct Owned(BTreeSet<FrameId>);

impl Relocate for Owned {
    fn block_at(&mut self, first: FrameId) -> Lookup {
        let block = Block { first, order: Order::BASE, class: Class::MOVABLE };
        if self.0.contains(&first) { Lookup::Movable(block) } else { Lookup::Gone }
    }

    fn relocate(&mut self, block: Block, to: FrameId) -> Result<(), Refusal> {
        let was_there = self.0.remove(&block.first) && self.0.insert(to);
        if was_there { Ok(()) } else { Err(Refusal::Gone) }
    }
}

#[test]
fn compaction_wins_one_back() {
    let machine = of(&[(0, 2 * G, 0), (2 * G, 3 * G, 1)]);
    let mut rng = Rng::with_seed(3);
    let mut owned = Owned(BTreeSet::new());
    // Some frames in use in each, and the fewest in the second.
    for (number, used) in [30, 7, 20].into_iter().enumerate() {
        let here = FrameId(number * G)..FrameId((number + 1) * G);
        while owned.0.range(here.clone()).count() < used {
            let frame = FrameId(number * G + rng.usize(..G));
            let base = Request::movable(Order::BASE, Slot(0)).at(frame);
            owned.0.extend(machine.alloc(base).ok());
        }
    }
    assert_eq!(machine.alloc(giant(0)), Err(AllocError::OutOfMemory));
    for keep in [false, true] {
        let work = Work { target: Target::Block(GIANT), keep, ..Work::huge(1, Slot(1)) };
        let mut memory = vec![Candidate::EMPTY; 3 * G / HUGE];
        let all = [machine.zone().huge_range::<Base4K>()];
        let work = Compaction::plan(work, &mut memory, &machine, &mut owned, all.iter().cloned());
        let mut work = work.expect("no frame is pinned");
        assert!(work.run(usize::MAX, &machine, &mut owned));
        let report = work.report::<Base4K>();
        // The second time there is nothing to move.
        assert_eq!((report.stop, report.moves), (Some(Stop::Won), if keep { 0 } else { 7 }));
        if !keep {
            assert_eq!(free_blocks(&machine, GIANT), [G]);
            assert_eq!(machine.alloc(giant(0)), Ok(FrameId(G)));
        }
        // What was kept is freed as one, too.
        assert!(!machine.is_available(GIANT));
        machine.free(FrameId(G), GIANT, Slot(0)).expect("it is in use");
    }
    assert_eq!(machine.free_frames(), 3 * G - owned.0.len());
    for frame in owned.0 {
        machine.free(frame, Order::BASE, Slot(0)).expect("it has moved, and is in use");
    }
    assert_eq!(free_blocks(&machine, GIANT), [0, G, 2 * G]);
}
