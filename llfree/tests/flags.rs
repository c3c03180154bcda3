//! Flags of huge frames and reclaim, by the suite's checks and by what LLFree promises besides; and news of free huge
//! frames.

mod memory;

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use memory::Memory;
use woodlot_frame::{
    AllocError, Base4K, Class, Construct, Flagged, FrameAllocator, FrameId, Geometry, HugeFlags,
    HugeId, Init, OfflineError, Order, Owned, Prefer, RawMetadata, Reclaim, Reclaiming, Request,
    Slot, Volatile, ZoneConfig,
};
use woodlot_llfree::{LLFree, Tuning};
use woodlot_suite::reclaim::{self, at, reclaim, request};

woodlot_suite::reclaim_tests!(LLFree);

const HUGE: Order = Order(Base4K::HUGE_ORDER as u8);

fn zone(huge_frames: usize, slots: usize) -> Owned<LLFree<'static, Base4K>> {
    reclaim::zone(huge_frames, slots)
}

#[test]
fn reclaim_takes_trees_that_nobody_has_first_and_those_reclaimed_last() {
    let zone = zone(96, 2);
    // The slot has the first tree, and one frame of it; one huge frame of the second is in use.
    zone.alloc(Request::movable(Order(0), Slot(0))).expect("a frame");
    zone.alloc(at(40)).expect("it is free");
    assert_eq!(zone.reclaim(Reclaim::Hard, &mut []), 0);
    let numbers = |huge: Vec<HugeId>| huge.into_iter().map(|HugeId(huge)| huge).collect::<Vec<_>>();
    assert_eq!(numbers(reclaim(&*zone, Reclaim::Soft, 3)), [64, 65, 66]);
    assert_eq!(zone.stats().free_huge, 94, "they are still free");
    assert_eq!(numbers(reclaim(&*zone, Reclaim::Hard, 2)), [67, 68]);
    assert_eq!((zone.stats().free_huge, zone.stats().offline_huge), (92, 2));
    assert_eq!(zone.free_frames(), zone.stats().free_frames);
    let found = zone.flagged();
    assert_eq!((found.reclaimed, found.free_reclaimed, found.free_zeroed), (5, 3, 0));
    // All but the first tree, the one in use, and those before.
    let rest = numbers(reclaim(&*zone, Reclaim::Hard, 27 + 31));
    assert_eq!(rest, (69..96).chain(32..40).chain(41..64).collect::<Vec<_>>());
    // Then what a slot has reserved; then what was reclaimed softly; the frame is in use.
    let last = numbers(reclaim(&*zone, Reclaim::Hard, 100));
    assert_eq!(last, (1..32).chain(64..67).collect::<Vec<_>>());
    assert_eq!(reclaim(&*zone, Reclaim::Hard, 1), []);
    assert_eq!(zone.alloc(request(HUGE)), Err(AllocError::OutOfMemory));
    assert_eq!(zone.flagged().reclaimed, 94);
}

#[test]
fn a_tree_that_was_entirely_free_turns_to_the_class() {
    let zone = zone(64, 1);
    zone.alloc(Request::movable(Order(0), Slot(0))).expect("a frame");
    zone.offline(HugeId(40), 1).expect("it is free");
    zone.give(&[HugeId(40)], HugeFlags::ZEROED).expect("it is offline");
    zone.alloc_preferring(request(HUGE), Prefer::Zeroed).expect("it is free");
    assert_eq!(zone.stats().classes[Class::HUGE.0 as usize].trees, 1);
}

/// A soft reclaim leaves slots what they hold; a hard one drains them when nothing else is left.
#[test]
fn only_a_hard_reclaim_drains_slots() {
    let zone = zone(2, 2);
    let frame = zone.alloc(Request::movable(Order(0), Slot(0))).expect("a frame");
    zone.free(frame, Order(0), Slot(0)).expect("it is allocated");
    assert_eq!(reclaim(&*zone, Reclaim::Soft, 2), [HugeId(1)]);
    assert_eq!(reclaim(&*zone, Reclaim::Hard, 2), [HugeId(1), HugeId(0)]);
}

/// Where one is named twice, and what is named in between is of another word.
#[test]
fn the_others_of_a_word_come_back_all_the_same() {
    let zone = zone(64, 1);
    zone.offline(HugeId(5), 2).expect("they are free");
    zone.offline(HugeId(40), 1).expect("it is free");
    let apart = [5, 40, 5, 6].map(HugeId);
    assert_eq!(zone.give(&apart, HugeFlags::BACKED), Err(OfflineError::NotOffline));
    let stats = zone.stats();
    assert_eq!((stats.free_huge, stats.offline_huge), (64, 0));
    assert_eq!((stats.free_frames, zone.free_frames()), (64 * 512, 64 * 512));
}

#[test]
fn news_of_free_huge_frames() {
    let zone = zone(64, 2);
    let frame = |order, huge: usize| {
        let request = Request { slot: Slot(0), ..request(order) };
        zone.alloc(request.at(HugeId(huge).first::<Base4K>())).expect("it is free")
    };
    let free = |frame, order| zone.free(frame, order, Slot(1)).expect("it is allocated");
    let ask = || zone.ask_for_news();
    let whole = frame(HUGE, 0);
    let pair = frame(Order(10), 2);
    let parts = frame(HUGE, 5);
    let joined = frame(HUGE, 6);
    free(joined, Order(0));
    let again = zone.alloc(request(Order(0)).at(joined)).expect("it is free");
    zone.offline(HugeId(9), 2).expect("they are free");
    zone.offline(HugeId(11), 1).expect("it is free");
    let (mut news, mut count) = ask();
    assert_eq!(count, 64 - 8);
    let mut told = |what: &str, expected: usize| {
        assert!(zone.has_news(news), "{what}");
        // Another one asks, and gets its own.
        let (next, free) = ask();
        assert!(zone.has_news(news) && !zone.has_news(next), "{what}");
        assert_eq!(free, count + expected, "{what}");
        (news, count) = (next, free);
    };
    let quiet = |frame, order| {
        let (news, _) = ask();
        free(frame, order);
        assert!(!zone.has_news(news), "no huge frame became free");
    };
    free(whole, HUGE);
    told("a whole one", 1);
    free(pair, Order(10));
    told("a pair", 2);
    quiet(parts, Order(8));
    free(FrameId(parts.0 + 256), Order(8));
    zone.drain(Slot(1)).expect("a slot");
    told("the last part", 1);
    free(again, HUGE);
    told("a join", 1);
    zone.online(HugeId(9), 2).expect("they are offline");
    told("online", 2);
    zone.give(&[HugeId(11)], HugeFlags::BACKED).expect("it is offline");
    told("given back", 1);
    // Nobody asked since: the next one to ask hears nothing of it.
    let (old, _) = ask();
    let whole = frame(HUGE, 0);
    free(whole, HUGE);
    let whole = frame(HUGE, 0);
    free(whole, HUGE);
    assert!(zone.has_news(old));
    assert!(!zone.has_news(ask().0));
}

/// Ends in the middle of a state word and of a huge frame.
const ENDING: ZoneConfig = ZoneConfig::new(52 * Base4K::HUGE_FRAMES + 7, 1);

fn made(raw: RawMetadata, init: Init) -> LLFree<'static, Base4K> {
    // SAFETY: the callers have the memory to themselves, and use one allocator at a time.
    unsafe { LLFree::construct(&ENDING, raw, init) }.expect("a zone")
}

#[test]
fn who_attaches_or_inspects_sees_the_flags() {
    let mut memory = Memory::of::<LLFree<Base4K>>(&ENDING);
    let raw = memory.metadata();
    let zone = made(raw, Init::Free);
    assert_eq!(zone.flagged(), Flagged::default(), "whatever was in the memory before");
    let hard = reclaim(&zone, Reclaim::Hard, 40);
    zone.give(&hard[..30], HugeFlags { reclaimed: true, zeroed: true }).expect("they are offline");
    zone.give(&hard[30..35], HugeFlags::ZEROED).expect("they are offline");
    // SAFETY: the metadata is that of a zone in use.
    let attached: LLFree<'_, Base4K> =
        unsafe { LLFree::attach(&ENDING, Tuning::DEFAULT, Volatile, raw) }.expect("a zone");
    assert_eq!(attached.flagged(), zone.flagged());
    assert_eq!((zone.flagged().reclaimed, zone.flagged().free_zeroed), (35, 35));
    // SAFETY: no call is under way.
    let looked = unsafe { LLFree::<Base4K>::inspect(&ENDING, raw) }.expect("a zone");
    assert!(looked.is_nothing() && looked.offline_huge == 5, "{looked:?}");
    assert_eq!(zone.flagged().free_zeroed, 35, "an inspection writes nothing");
    let zone = made(raw, Init::Allocated);
    assert_eq!(zone.flagged(), Flagged::default());
}

#[test]
fn flags_that_no_call_writes_are_damage() {
    let mut memory = Memory::of::<LLFree<Base4K>>(&ENDING);
    let raw = memory.metadata();
    let states = (54 * 64usize).next_multiple_of(64);
    for (word, damage, is_damage) in [
        (2, 0xffff_u64, false),
        (2, 0xffff_0000, false),
        (3, 1 << 32, true),
        // The second tree has 22 huge frames: as many as make pairs.
        (8 + 3, 1 << 5, false),
        (8 + 3, 1 << 6, true),
        (8 + 3, 1 << (16 + 6), true),
        // These mean nothing.
        (4, !0, false),
    ] {
        made(raw, Init::Free);
        // SAFETY: the word lies in the durable part, and no call is under way.
        unsafe { *raw.durable.0.add(states + word * 8).cast::<u64>() = damage };
        // SAFETY: as above.
        let look = || unsafe { LLFree::<Base4K>::inspect(&ENDING, raw) }.expect("a zone");
        assert_eq!(look().states_cleared, is_damage as usize, "{word}, {damage:#x}");
        made(raw, Init::Recover);
        assert!(look().is_nothing(), "repaired once");
    }
}

/// Who waits for free huge frames is told of each one.
#[test]
fn who_waits_for_free_huge_frames_is_told() {
    let zone = zone(4, 2);
    let rounds = 20_000;
    let held = Mutex::new(Vec::new());
    let start = Instant::now();
    let wait = || {
        assert!(start.elapsed().as_secs() < 300, "nobody is told");
        thread::yield_now();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                let (news, free) = zone.ask_for_news();
                if free == 0 {
                    while !zone.has_news(news) {
                        wait();
                    }
                    continue;
                }
                let mut all = held.lock().expect("nobody panics");
                all.extend(zone.alloc(Request { slot: Slot(1), ..request(HUGE) }));
            }
            held.lock().expect("nobody panics").push(FrameId(usize::MAX));
        });
        loop {
            let frame = held.lock().expect("nobody panics").pop();
            match frame {
                Some(FrameId(usize::MAX)) => break,
                Some(frame) => zone.free(frame, HUGE, Slot(0)).expect("it is in use"),
                None => wait(),
            }
        }
    });
}
