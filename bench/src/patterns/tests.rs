//! Each pattern does what its name says, told by an allocator that writes down what it is asked.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use clap::ValueEnum;
use woodlot_frame::{FrameId, Order, Slot};

use super::*;
use crate::size::Size;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Alloc(bool),
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    kind: Kind,
    frame: usize,
    order: Order,
    slot: Slot,
    thread: ThreadId,
}

/// Hands out the lowest blocks that are free and keeps a list of all calls.
struct Scribe(Mutex<State>);

struct State {
    free: Vec<(usize, Order)>,
    owned: HashSet<(usize, Order)>,
    calls: Vec<Call>,
    frames: usize,
    /// What was never used begins here.
    unused: usize,
}

impl Contender for Scribe {
    fn new(frames: usize, _: usize) -> Result<Self, Failure> {
        let (free, owned, calls) = (vec![], HashSet::new(), vec![]);
        let state = State { free, owned, calls, frames, unused: 0 };
        Ok(Self(Mutex::new(state)))
    }

    fn alloc(&self, order: Order, slot: Slot) -> Option<FrameId> {
        let mut state = self.0.lock().unwrap();
        let known = state.free.iter().rposition(|block| block.1 == order);
        let frame = match known {
            Some(known) => Some(state.free.remove(known).0),
            None => {
                let frame = state.unused.next_multiple_of(order.frames());
                let fits = frame + order.frames() <= state.frames;
                fits.then(|| {
                    state.unused = frame + order.frames();
                    frame
                })
            }
        };
        let kind = Kind::Alloc(frame.is_some());
        let thread = thread::current().id();
        state.calls.push(Call { kind, frame: frame.unwrap_or(0), order, slot, thread });
        state.owned.extend(frame.map(|frame| (frame, order)));
        frame.map(FrameId)
    }

    fn free(&self, frame: FrameId, order: Order, slot: Slot) -> bool {
        let mut state = self.0.lock().unwrap();
        let thread = thread::current().id();
        state.calls.push(Call { kind: Kind::Free, frame: frame.0, order, slot, thread });
        state.free.push((frame.0, order));
        state.owned.remove(&(frame.0, order))
    }
}

/// Runs one repetition on 4 MiB (1024 frames); returns its calls and figures.
fn calls(change: impl FnOnce(&mut Setup), pattern: Pattern) -> (Vec<Call>, Sample) {
    let mut setup = Setup::new(pattern, Order(1));
    (setup.memory, setup.operations) = ("4MiB".parse::<Size>().unwrap(), 1);
    change(&mut setup);
    let mut prepared = Prepared::<Scribe>::new(setup).unwrap();
    let state = |prepared: &Prepared<Scribe>| {
        let state = prepared.contender.0.lock().unwrap();
        (state.calls.len(), state.owned.clone())
    };
    let (before, owned_before) = state(&prepared);
    let sample = prepared.sample().unwrap();
    let owned = state(&prepared).1;
    // The same number in use; the very same blocks, where none is replaced by another.
    assert_eq!(owned.len(), owned_before.len());
    assert!(owned == owned_before || pattern == Pattern::NearFull);
    let calls = prepared.contender.0.lock().unwrap().calls[before..].to_vec();
    let orders: HashSet<_> = setup.orders().collect();
    assert!(calls.iter().all(|call| orders.contains(&call.order) && call.slot.0 < setup.slots));
    (calls, sample)
}

fn two_threads(setup: &mut Setup) {
    (setup.threads, setup.slots) = (2, 2);
}

fn count(calls: &[Call], kind: Kind) -> usize {
    calls.iter().filter(|call| call.kind == kind).count()
}

fn figures(sample: &Sample) -> Vec<(Metric, u64)> {
    sample.iter().map(|(metric, tally)| (*metric, tally.operations)).collect()
}

#[test]
fn bulk_allocates_half_and_frees_it_in_order() {
    for pattern in [Pattern::Bulk, Pattern::Batch] {
        let (calls, sample) = calls(|_| (), pattern);
        assert_eq!(calls.len(), 512);
        assert!(calls[..256].iter().all(|call| call.kind == Kind::Alloc(true)));
        assert!(calls[256..].iter().all(|call| call.kind == Kind::Free));
        let in_order = calls[..256].iter().zip(&calls[256..]).all(|(a, f)| a.frame == f.frame);
        assert!(in_order);
        assert_eq!(figures(&sample), [(Metric::Alloc, 256), (Metric::Free, 256)]);
    }
}

#[test]
fn bulk_on_two_threads_frees_after_both_have_allocated() {
    let (calls, _) = calls(two_threads, Pattern::Bulk);
    let first_free = calls.iter().position(|call| call.kind == Kind::Free);
    assert_eq!(first_free, Some(256));
    let threads: HashSet<_> = calls.iter().map(|call| (call.thread, call.slot)).collect();
    assert_eq!(threads.len(), 2);
}

#[test]
fn random_frees_everything_in_another_order() {
    let (calls, sample) = calls(|_| (), Pattern::Random);
    let frees: Vec<_> = calls.iter().filter(|call| call.kind == Kind::Free).collect();
    assert_eq!((calls.len(), frees.len()), (1024, 512));
    assert!(!frees.is_sorted_by_key(|call| call.frame));
    assert_eq!(figures(&sample), [(Metric::Free, 512)]);
}

#[test]
fn repeat_frees_what_it_has_just_allocated() {
    for pattern in [Pattern::Repeat, Pattern::CachedAllocation] {
        let (calls, sample) = calls(|setup| setup.operations = 100, pattern);
        let pairs: Vec<_> = calls.chunks(2).collect();
        assert_eq!(pairs.len(), 100);
        assert!(pairs.iter().all(|pair| pair[0].kind == Kind::Alloc(true)
            && pair[1].kind == Kind::Free
            && pair[0].frame == pair[1].frame));
        assert_eq!(figures(&sample), [(Metric::Pair, 100)]);
    }
}

#[test]
fn threads_allocate_and_free_in_bursts() {
    for (pattern, burst) in [(Pattern::LinuxScalability, 64), (Pattern::ThreadTest, 32)] {
        let change = |setup: &mut Setup| {
            two_threads(setup);
            (setup.burst, setup.operations) = (64, 3 * 2 * 64);
        };
        let (calls, sample) = calls(change, pattern);
        let rounds = 3 * 64 / burst;
        assert_eq!(figures(&sample), [(Metric::Pair, 3 * 2 * 64)]);
        for slot in [Slot(0), Slot(1)] {
            let own: Vec<_> = calls.iter().filter(|call| call.slot == slot).collect();
            assert_eq!(own.len(), rounds * 2 * burst);
            for round in own.chunks(2 * burst) {
                let (allocs, frees) = round.split_at(burst);
                assert!(allocs.iter().all(|call| call.kind == Kind::Alloc(true)));
                assert!(frees.iter().all(|call| call.kind == Kind::Free));
                let in_order = allocs.iter().zip(frees).all(|(a, f)| a.frame == f.frame);
                assert!(in_order && own.iter().all(|call| call.thread == own[0].thread));
            }
        }
    }
}

#[test]
fn constant_occupancy_replaces_halves_of_what_it_holds_of_each_order() {
    let change = |setup: &mut Setup| (setup.burst, setup.operations) = (32, 1);
    let (calls, sample) = calls(change, Pattern::ConstantOccupancy);
    let held = [(1, 32), (2, 16), (3, 8), (4, 4), (5, 2)];
    let all = 32 + 16 + 8 + 4 + 2;
    assert_eq!(figures(&sample), [(Metric::Pair, all)]);
    let mut left = &calls[..];
    let mut expect = |kind, order, count| {
        let (these, rest) = left.split_at(count);
        left = rest;
        assert!(these.iter().all(|call| (call.kind, call.order) == (kind, Order(order))));
        these.iter().map(|call| call.frame).collect::<HashSet<_>>()
    };
    let first = held.map(|(order, count)| expect(Kind::Alloc(true), order, count));
    let mut freed: Vec<HashSet<usize>> = vec![HashSet::new(); held.len()];
    for _ in 0..2 {
        for (at, (order, count)) in held.into_iter().enumerate() {
            freed[at].extend(expect(Kind::Free, order, count / 2));
            expect(Kind::Alloc(true), order, count / 2);
        }
    }
    assert_eq!(freed, first);
    for (order, count) in held {
        expect(Kind::Free, order, count);
    }
    assert!(left.is_empty());
}

#[test]
fn what_is_to_be_in_use_before_lies_where_it_is_to_lie() {
    for (placement, sorted) in [(Placement::Row, true), (Placement::Random, false)] {
        let mut setup = Setup::new(Pattern::Repeat, Order(1));
        (setup.memory, setup.fill, setup.placement) = ("4MiB".parse().unwrap(), 250, placement);
        let prepared = Prepared::<Scribe>::new(setup).unwrap();
        let state = prepared.contender.0.lock().unwrap();
        let mut owned: Vec<_> = state.owned.iter().map(|block| block.0).collect();
        owned.sort_unstable();
        assert_eq!(owned.len(), 128);
        assert_eq!(owned.last() == Some(&(127 << 1)), sorted);
        drop(state);
        let change = |setup: &mut Setup| (setup.fill, setup.placement) = (250, placement);
        let (calls, _) = calls(change, Pattern::Bulk);
        assert_eq!(count(&calls, Kind::Alloc(true)), (512 - 128) / 2);
    }
}

#[test]
fn remote_frees_on_another_thread_and_slot() {
    let change = |setup: &mut Setup| {
        two_threads(setup);
        setup.operations = 1000;
    };
    let (calls, sample) = calls(change, Pattern::Remote);
    let mut owners = HashMap::new();
    for call in &calls {
        match call.kind {
            Kind::Alloc(_) => _ = owners.insert(call.frame, call),
            Kind::Free => {
                let alloc = owners.remove(&call.frame).unwrap();
                assert!(alloc.thread != call.thread && alloc.slot != call.slot);
            }
        }
    }
    let (allocs, frees) = (count(&calls, Kind::Alloc(true)), count(&calls, Kind::Free));
    assert_eq!((owners.len(), allocs), (0, frees));
    assert_eq!(figures(&sample), [(Metric::Alloc, allocs as u64), (Metric::Free, frees as u64)]);
}

#[test]
fn threads_in_step_allocate_together_and_free_together() {
    let change = |setup: &mut Setup| {
        two_threads(setup);
        setup.operations = 2000;
    };
    let (calls, sample) = calls(change, Pattern::InStep);
    let (allocs, frees) = (count(&calls, Kind::Alloc(true)), count(&calls, Kind::Free));
    assert_eq!(figures(&sample), [(Metric::Alloc, allocs as u64), (Metric::Free, frees as u64)]);
    assert!(allocs == frees && allocs >= 2000);
    // Both have as many blocks at the end of each phase: between two changes from allocations to frees or
    // back, both make the same calls, in whatever order.
    let mut phases = vec![[0usize; 2]];
    let is_alloc = |call: &Call| matches!(call.kind, Kind::Alloc(_));
    for pair in calls.windows(2) {
        phases.last_mut().unwrap()[pair[0].slot.0] += 1;
        if is_alloc(&pair[0]) != is_alloc(&pair[1]) {
            phases.push([0; 2]);
        }
    }
    assert!(phases.len() > 10);
    phases.pop();
    assert!(phases.iter().all(|[one, other]| one == other), "{phases:?}");
    freed_by_their_owners(&calls);
}

/// Every block is freed by the thread that allocated it.
fn freed_by_their_owners(calls: &[Call]) {
    let mut owners = HashMap::new();
    for call in calls {
        match call.kind {
            Kind::Alloc(_) => _ = owners.insert(call.frame, call.thread),
            Kind::Free => assert_eq!(owners.remove(&call.frame), Some(call.thread)),
        }
    }
    assert!(owners.is_empty());
}

#[test]
fn threads_out_of_step_have_phases_of_their_own() {
    let change = |setup: &mut Setup| {
        two_threads(setup);
        setup.operations = 2000;
    };
    let (calls, sample) = calls(change, Pattern::OutOfStep);
    // What a thread has before the others begin is not in the figures.
    let before = count(&calls, Kind::Alloc(true)) as u64 - figures(&sample)[0].1;
    // A quarter of 512 blocks, by two threads.
    assert_eq!(before, 64);
    let phases = |slot: usize| {
        let own: Vec<_> = calls.iter().filter(|call| call.slot.0 == slot).collect();
        let runs = own.chunk_by(|a, b| a.kind == b.kind);
        runs.map(<[_]>::len).collect::<Vec<_>>()
    };
    let (one, other) = (phases(0), phases(1));
    assert!(one.len() > 5 && other.len() > 5);
    // The other one begins with all that it can have, so its first phase frees; their phases differ.
    assert_ne!(one, other[1..]);
    freed_by_their_owners(&calls);
}

#[test]
fn in_a_ring_everything_is_freed_by_the_neighbour() {
    let change = |setup: &mut Setup| {
        (setup.threads, setup.slots, setup.operations) = (3, 3, 3000);
    };
    let (calls, sample) = calls(change, Pattern::Ring);
    let mut owners = HashMap::new();
    for call in &calls {
        match call.kind {
            Kind::Alloc(_) => _ = owners.insert(call.frame, call.slot.0),
            Kind::Free => assert_eq!(owners.remove(&call.frame), Some((call.slot.0 + 1) % 3)),
        }
    }
    let (allocs, frees) = (count(&calls, Kind::Alloc(true)), count(&calls, Kind::Free));
    assert_eq!((owners.len(), allocs), (0, frees));
    assert_eq!(figures(&sample), [(Metric::Alloc, allocs as u64), (Metric::Free, frees as u64)]);
    // From the second round on every other thread frees before it allocates.
    let first =
        |slot: usize| calls.iter().filter(move |call| call.slot.0 == slot).map(|call| call.kind);
    let list = first(1).take_while(|kind| *kind != Kind::Free).count();
    let round = |slot: usize| first(slot).nth(list).unwrap();
    assert_eq!([round(0), round(1)], [Kind::Alloc(true), Kind::Free]);
}

#[test]
fn churn_frees_any_block_and_allocates_one() {
    let (calls, sample) = churned(|_| ());
    assert_eq!(figures(&sample), [(Metric::Pair, 700)]);
    assert_eq!(calls.len(), 1400);
    assert!(
        calls.chunks(2).all(|pair| [pair[0].kind, pair[1].kind] == [Kind::Free, Kind::Alloc(true)])
    );
    let freed: HashSet<_> = calls.iter().map(|call| call.frame).collect();
    assert!(freed.len() > 200 && !calls.iter().step_by(2).is_sorted_by_key(|call| call.frame));
}

#[test]
fn churn_of_mixed_orders_has_room_for_each() {
    let (calls, sample) = churned(|setup| {
        (setup.mix, setup.order, setup.placement) = (true, Order(0), Placement::Row);
    });
    assert_eq!(figures(&sample), [(Metric::Pair, 700)]);
    let orders: HashSet<_> = calls.iter().map(|call| call.order).collect();
    assert!(orders.len() > 1 && orders.contains(&Order(0)), "{orders:?}");
    let allocs = calls.iter().filter(|call| call.kind != Kind::Free).count();
    assert_eq!(allocs, 700);
}

/// Runs *churn* on 4 MiB, half of them in use.
fn churned(change: impl FnOnce(&mut Setup)) -> (Vec<Call>, Sample) {
    let mut setup = Setup::new(Pattern::Churn, Order(1));
    (setup.memory, setup.fill, setup.operations) = ("4MiB".parse().unwrap(), 500, 700);
    change(&mut setup);
    let mut churning = super::churn::Churning::<Scribe>::new(setup).unwrap();
    let before = churning.contender.0.lock().unwrap().calls.len();
    let sample = churning.sample().unwrap();
    let calls = churning.contender.0.lock().unwrap().calls[before..].to_vec();
    (calls, sample)
}

#[test]
fn remote_churn_frees_in_other_slots_than_it_allocates_in() {
    for mix in [false, true] {
        let (calls, _) = churned(|setup| {
            (setup.pattern, setup.threads, setup.slots) = (Pattern::RemoteChurn, 2, 4);
            (setup.memory, setup.fill, setup.operations) = ("64MiB".parse().unwrap(), 500, 7000);
            (setup.mix, setup.order, setup.placement) =
                (mix, Order(u8::from(!mix)), Placement::Row);
        });
        let slots = |kind| {
            let of_kind = calls.iter().filter(move |call| call.kind == kind);
            of_kind.map(|call| call.slot.0).collect::<HashSet<_>>()
        };
        assert_eq!(slots(Kind::Free), HashSet::from([2, 3]));
        assert_eq!(slots(Kind::Alloc(true)), HashSet::from([0, 1]));
    }
}

#[test]
fn an_exit_storm_deals_everything_to_all_threads() {
    let (calls, sample) = calls(two_threads, Pattern::ExitStorm);
    assert_eq!(figures(&sample), [(Metric::Free, 256)]);
    let slot_of_alloc: HashMap<_, _> =
        calls[..256].iter().map(|call| (call.frame, call.slot)).collect();
    let frees = &calls[256..];
    for slot in [Slot(0), Slot(1)] {
        let freed: Vec<_> = frees.iter().filter(|call| call.slot == slot).collect();
        assert_eq!(freed.len(), 128);
        let foreign = freed.iter().filter(|call| slot_of_alloc[&call.frame] != slot).count();
        assert_eq!(foreign, 64);
    }
}

#[test]
fn near_full_keeps_the_zone_as_full_as_it_says() {
    for (fill, holes) in [(900, 51), (990, 5), (998, 1)] {
        let change = |setup: &mut Setup| (setup.fill, setup.operations) = (fill, 700);
        let (calls, sample) = calls(change, Pattern::NearFull);
        assert_eq!(figures(&sample), [(Metric::Pair, 700)]);
        assert!(calls.chunks(2).all(|pair| pair[0].kind == Kind::Free));
        let distinct: HashSet<_> = calls.iter().map(|call| call.frame).collect();
        assert!(distinct.len() >= 512 - holes, "{} blocks were freed", distinct.len());
        let mut setup = Setup::new(Pattern::NearFull, Order(1));
        (setup.memory, setup.fill) = ("4MiB".parse().unwrap(), fill);
        let prepared = Prepared::<Scribe>::new(setup).unwrap();
        assert_eq!(prepared.contender.0.lock().unwrap().owned.len(), 512 - holes);
    }
}

#[test]
fn a_full_zone_refuses_every_call() {
    let (calls, sample) = calls(
        |setup| {
            two_threads(setup);
            setup.operations = 100;
        },
        Pattern::Full,
    );
    assert_eq!((calls.len(), count(&calls, Kind::Alloc(false))), (100, 100));
    assert_eq!(figures(&sample), [(Metric::FailingAlloc, 100)]);
}

#[test]
fn every_engine_does_every_pattern_that_it_can() {
    for &engine in Engine::ALL {
        for pattern in Pattern::value_variants() {
            let mut setup = Setup::new(*pattern, Order(0));
            (setup.memory, setup.operations) = ("16MiB".parse().unwrap(), 1000);
            setup.burst = 64;
            let threads = usize::from(pattern.threads());
            (setup.threads, setup.slots) = (threads, threads * usize::from(pattern.slots()));
            let foreign = !engine.keeps_contract() && *pattern == Pattern::Init;
            let able = !foreign && setup.orders().all(|order| engine.serves(order));
            let sample = prepare(engine, &setup).and_then(|mut runner| {
                runner.sample()?;
                runner.sample()
            });
            match sample {
                Ok(sample) => assert!(!sample.is_empty() && able, "{engine} {pattern}"),
                // The one's list of ranges is full; the other's lists belong to their slots.
                Err(failure) => assert!(
                    !able || engine == Engine::ListLocal || engine == Engine::FreeList,
                    "{engine} {pattern}: {failure}"
                ),
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_a_mistake_of_the_caller() {
    let wrong = |pattern, change: fn(&mut Setup)| {
        let mut setup = Setup::new(pattern, Order(0));
        change(&mut setup);
        assert!(matches!(setup.check(), Err(Failure::Usage(_))), "{setup:?}");
        assert!(prepare(Engine::Llfree, &setup).is_err());
    };
    wrong(Pattern::Bulk, |setup| setup.threads = 0);
    wrong(Pattern::Bulk, |setup| setup.order = Order(11));
    wrong(Pattern::Remote, |setup| setup.slots = 2);
    wrong(Pattern::Remote, |setup| setup.threads = 2);
    wrong(Pattern::Init, |setup| setup.threads = 2);
    wrong(Pattern::OutOfStep, |_| ());
    wrong(Pattern::Ring, |setup| setup.threads = 2);
    wrong(Pattern::Churn, |setup| setup.fill = 0);
    wrong(Pattern::Churn, |setup| setup.order = Order(10));
    wrong(Pattern::Churn, |setup| setup.memory = Size::gib(32));
    wrong(Pattern::Churn, |setup| (setup.mix, setup.order) = (true, Order(1)));
    wrong(Pattern::Bulk, |setup| setup.mix = true);
    wrong(Pattern::RemoteChurn, |setup| setup.slots = 1);
    wrong(Pattern::Bulk, |setup| {
        (setup.order, setup.threads) = (Order(10), 4);
        setup.memory = "4MiB".parse().unwrap();
    });
    wrong(Pattern::NearFull, |setup| {
        (setup.order, setup.fill) = (Order(10), 998);
        setup.memory = "64MiB".parse().unwrap();
    });
}
