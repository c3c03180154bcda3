//! Flags of huge frames, reclaim, and news of free huge frames: against a naive model, after a recovery, and beside
//! threads that allocate and free.

mod memory;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use fastrand::Rng;
use memory::Memory;
use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, Geometry, HugeId, Init,
    OfflineError, Order, Owned, RawMetadata, Request, Slot, Volatile, ZoneConfig,
};
use woodlot_llfree::{Flagged, HugeFlags, LLFree, Prefer, Reclaim, Tuning};
use woodlot_suite::short::Small;

type Zone<G> = Owned<LLFree<'static, G>>;

/// Huge frames of eight frames, sixteen of them in a state word.
type Trees = Small<3, 32>;

const HUGE: Order = Order(Base4K::HUGE_ORDER as u8);

fn zone(huge_frames: usize, slots: usize) -> Zone<Base4K> {
    let config = ZoneConfig::new(huge_frames * Base4K::HUGE_FRAMES, slots);
    Owned::new(&config, Init::Free).expect("a zone")
}

fn request(order: Order) -> Request {
    Request::new(order, Class::HUGE, Slot(0))
}

fn at(huge: usize) -> Request {
    request(HUGE).at(HugeId(huge).first::<Base4K>())
}

fn drain<G: Geometry>(zone: &LLFree<'_, G>) {
    (0..2).for_each(|slot| zone.drain(Slot(slot)).expect("a slot"));
}

fn reclaim<G: Geometry>(zone: &LLFree<'_, G>, mode: Reclaim, most: usize) -> Vec<HugeId> {
    let mut out = vec![HugeId(usize::MAX); most];
    let count = zone.reclaim(mode, &mut out);
    assert!(out[count..].iter().all(|&rest| rest == HugeId(usize::MAX)), "written behind {count}");
    out.truncate(count);
    out
}

#[test]
fn only_who_has_a_huge_frame_for_itself_sets_its_flags() {
    let zone = zone(40, 1);
    let (first, other) = (HugeId(3), HugeId(4));
    let in_use = |huge: HugeId| Err(OfflineError::InUse(huge.first::<Base4K>()));
    assert_eq!(zone.flags(first), HugeFlags::BACKED);
    assert_eq!(zone.set_flags(first, HugeFlags::ZEROED), in_use(first), "it is free");
    zone.alloc(at(3)).expect("it is free");
    zone.set_flags(first, HugeFlags::ZEROED).expect("it is allocated as a whole");
    assert_eq!([first, other].map(|huge| zone.flags(huge)), [HugeFlags::ZEROED, HugeFlags::BACKED]);
    // A part is freed: somebody else may write to it before the whole becomes free.
    zone.free(first.first::<Base4K>(), Order(1), Slot(0)).expect("it is allocated");
    assert_eq!(zone.flags(first), HugeFlags::BACKED);
    assert_eq!(zone.set_flags(first, HugeFlags::ZEROED), in_use(first), "it is split");
    zone.offline(other, 1).expect("it is free");
    zone.set_flags(other, HugeFlags::RECLAIMED).expect("it is offline");
    zone.online(other, 1).expect("it is offline");
    assert_eq!(zone.flags(other), HugeFlags::RECLAIMED, "free, and without memory");
    zone.set_backed(other).expect("it is in the zone");
    assert_eq!(zone.flags(other), HugeFlags::BACKED);
    let outside = HugeId(40);
    assert_eq!(zone.flags(outside), HugeFlags::BACKED);
    assert_eq!(zone.set_flags(outside, HugeFlags::ZEROED), Err(OfflineError::OutOfRange));
    assert_eq!(zone.set_backed(outside), Err(OfflineError::OutOfRange));
}

/// Whatever takes a huge frame out of *free* forgets that it is zeroed.
#[test]
fn what_is_allocated_is_no_longer_zeroed() {
    let zone = zone(32, 1);
    let zero = |huge: usize, count: usize| {
        for huge in huge..huge + count {
            zone.offline(HugeId(huge), 1).expect("it is free");
            zone.give(&[HugeId(huge)], HugeFlags::ZEROED).expect("it is offline");
            assert_eq!(zone.flags(HugeId(huge)), HugeFlags::ZEROED);
        }
    };
    let all = |huge: usize| [huge, huge + 1].map(|huge| zone.flags(HugeId(huge)).zeroed);
    for (number, taken) in [
        (0, at(10)),
        (1, request(Order(10)).at(HugeId(10).first::<Base4K>())),
        (2, request(Order(0)).at(HugeId(10).first::<Base4K>())),
        (3, request(Order(9))),
        (4, request(Order(10))),
        (5, request(Order(2))),
    ] {
        // Where nothing is said, the first one is taken.
        let huge = if number < 3 { 10 } else { 0 };
        zero(huge, 2);
        let frame = zone.alloc(taken).expect("it is free");
        assert_eq!(frame, HugeId(huge).first::<Base4K>(), "{number}");
        assert_eq!(all(huge), [false, taken.order != Order(10)], "{number}");
        zone.free(frame, taken.order, Slot(0)).expect("it is allocated");
        zone.drain(Slot(0)).expect("a slot");
        // A second time, so that it is forgotten where nothing was kept.
        zone.offline(HugeId(huge), 2).expect("they are free");
        zone.give(&[HugeId(huge), HugeId(huge + 1)], HugeFlags::BACKED).expect("they are offline");
    }
    assert_eq!(zone.flagged(), Flagged::default());
}

#[test]
fn an_allocation_gets_what_it_prefers_and_is_told() {
    let zone = zone(16 * 32, 2);
    let preferring = |order, prefer| zone.alloc_preferring(request(order), prefer);
    let of = |huge: usize| HugeId(huge).first::<Base4K>();
    // The slot's own tree is the first.
    assert_eq!(zone.alloc(request(HUGE)), Ok(of(0)));
    let set = |huge: usize, flags| {
        zone.offline(HugeId(huge), 1).expect("it is free");
        zone.give(&[HugeId(huge)], flags).expect("it is offline");
    };
    set(1, HugeFlags::RECLAIMED);
    set(2, HugeFlags { reclaimed: true, zeroed: true });
    set(20, HugeFlags::ZEROED);
    assert_eq!(preferring(HUGE, Prefer::Backed), Ok((of(3), HugeFlags::BACKED)));
    assert_eq!(preferring(HUGE, Prefer::Zeroed), Ok((of(20), HugeFlags::ZEROED)));
    // No other is zeroed and backed, here or elsewhere.
    assert_eq!(preferring(HUGE, Prefer::Zeroed), Ok((of(1), HugeFlags::RECLAIMED)));
    let both = HugeFlags { reclaimed: true, zeroed: true };
    assert_eq!(preferring(HUGE, Prefer::Zeroed), Ok((of(2), both)));
    // In another tree.
    set(40, HugeFlags::ZEROED);
    assert_eq!(preferring(HUGE, Prefer::Zeroed), Ok((of(40), HugeFlags::ZEROED)));
    assert_eq!(zone.flags(HugeId(40)), HugeFlags::BACKED, "it may be written to");
    // A pair is zeroed if both are.
    set(50, HugeFlags::ZEROED);
    assert_eq!(preferring(Order(10), Prefer::Zeroed), Ok((of(4), HugeFlags::BACKED)));
    set(51, HugeFlags::ZEROED);
    assert_eq!(preferring(Order(10), Prefer::Zeroed), Ok((of(50), HugeFlags::ZEROED)));
    // Only the own tree and eight others are looked into.
    set(15 * 32, HugeFlags::ZEROED);
    let far = preferring(HUGE, Prefer::Zeroed).expect("much is free");
    assert_eq!(far, (of(6), HugeFlags::BACKED));
    // Base frames, and this very block, are taken as ever.
    zone.set_flags(HugeId(0), HugeFlags::RECLAIMED).expect("it is allocated");
    zone.free(of(0), Order(0), Slot(0)).expect("it is allocated");
    let base = preferring(Order(0), Prefer::Backed).expect("it is free");
    assert_eq!(base, (of(0), HugeFlags::RECLAIMED));
    set(9, HugeFlags::RECLAIMED);
    assert_eq!(zone.alloc_preferring(at(9), Prefer::Backed), Ok((of(9), HugeFlags::RECLAIMED)));
    // Wrong calls are told apart.
    let wrong = Request { slot: Slot(2), ..request(HUGE) };
    assert_eq!(zone.alloc_preferring(wrong, Prefer::Backed), Err(AllocError::BadSlot(Slot(2))));
    let large = AllocError::OrderTooLarge(Order(11));
    assert_eq!(preferring(Order(11), Prefer::Backed), Err(large));
    // What is not preferred comes before nothing.
    let count = std::iter::from_fn(|| preferring(HUGE, Prefer::Zeroed).ok()).count();
    assert_eq!((count, zone.stats().free_huge), (16 * 32 - 12, 0));
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

#[test]
fn reclaim_takes_trees_that_nobody_has_first_and_those_reclaimed_last() {
    let zone = zone(96, 2);
    // The slot has the first tree, and one frame of it; one huge frame of the second is in use.
    zone.alloc(Request::movable(Order(0), Slot(0))).expect("a frame");
    zone.alloc(at(40)).expect("it is free");
    assert_eq!(zone.reclaim(Reclaim::Hard, &mut []), 0);
    let numbers = |huge: Vec<HugeId>| huge.into_iter().map(|HugeId(huge)| huge).collect::<Vec<_>>();
    assert_eq!(numbers(reclaim(&zone, Reclaim::Soft, 3)), [64, 65, 66]);
    assert_eq!(zone.stats().free_huge, 94, "they are still free");
    assert_eq!(numbers(reclaim(&zone, Reclaim::Hard, 2)), [67, 68]);
    assert_eq!((zone.stats().free_huge, zone.stats().offline_huge), (92, 2));
    assert_eq!(zone.free_frames(), zone.stats().free_frames);
    let found = zone.flagged();
    assert_eq!((found.reclaimed, found.free_reclaimed, found.free_zeroed), (5, 3, 0));
    // All but the first tree, the one in use, and those before.
    let rest = numbers(reclaim(&zone, Reclaim::Hard, 27 + 31));
    assert_eq!(rest, (69..96).chain(32..40).chain(41..64).collect::<Vec<_>>());
    // Then what a slot has reserved; then what was reclaimed softly; the frame is in use.
    let last = numbers(reclaim(&zone, Reclaim::Hard, 100));
    assert_eq!(last, (1..32).chain(64..67).collect::<Vec<_>>());
    assert_eq!(reclaim(&zone, Reclaim::Hard, 1), []);
    assert_eq!(zone.alloc(request(HUGE)), Err(AllocError::OutOfMemory));
    assert_eq!(zone.flagged().reclaimed, 94);
}

/// Frames that are all free, but whose credits a slot keeps.
#[test]
fn a_hard_reclaim_finds_what_slots_hold() {
    let zone = zone(2, 2);
    let frame = zone.alloc(Request::movable(Order(0), Slot(0))).expect("a frame");
    zone.free(frame, Order(0), Slot(0)).expect("it is allocated");
    assert_eq!(reclaim(&zone, Reclaim::Soft, 2), [HugeId(1)]);
    assert_eq!(reclaim(&zone, Reclaim::Hard, 2), [HugeId(1), HugeId(0)]);
    assert_eq!((zone.free_frames(), zone.stats().offline_huge), (0, 2));
}

#[test]
fn what_is_given_back_is_free_or_the_call_says_what_is_wrong() {
    let zone = zone(64, 1);
    let all = reclaim(&zone, Reclaim::Hard, 64);
    assert_eq!(all.len(), 64);
    zone.give(&[], HugeFlags::BACKED).expect("nothing is wrong with nothing");
    let unchanged = || assert_eq!(zone.stats().offline_huge, 64);
    let (first, outside) = (all[0], HugeId(64));
    assert_eq!(zone.give(&[first, outside], HugeFlags::BACKED), Err(OfflineError::OutOfRange));
    unchanged();
    // From both ends, so that some stand alone and some do not.
    let (even, odd): (Vec<HugeId>, Vec<_>) = all.iter().partition(|huge| huge.0 % 2 == 0);
    zone.give(&even, HugeFlags::ZEROED).expect("they are offline");
    let reversed: Vec<_> = odd.iter().rev().copied().collect();
    assert_eq!(zone.give(&[odd[0], even[0]], HugeFlags::BACKED), Err(OfflineError::NotOffline));
    zone.give(&reversed, HugeFlags::RECLAIMED).expect("they are offline");
    let found = zone.flagged();
    assert_eq!((found.reclaimed, found.free_reclaimed, found.free_zeroed), (32, 32, 32));
    assert_eq!((zone.stats().free_huge, zone.free_frames()), (64, 64 * 512));
    // Named twice.
    zone.offline(HugeId(5), 2).expect("they are free");
    let twice = [HugeId(5), HugeId(6), HugeId(5)];
    assert_eq!(zone.give(&twice, HugeFlags::BACKED), Err(OfflineError::NotOffline));
    let all_free = || {
        let stats = zone.stats();
        assert_eq!((stats.free_huge, stats.offline_huge), (64, 0));
        assert_eq!((stats.free_frames, zone.free_frames()), (64 * 512, 64 * 512));
    };
    all_free();
    // Apart from one another: the others of its word come back all the same.
    zone.offline(HugeId(5), 2).expect("they are free");
    zone.offline(HugeId(40), 1).expect("it is free");
    let apart = [5, 40, 5, 6].map(HugeId);
    assert_eq!(zone.give(&apart, HugeFlags::BACKED), Err(OfflineError::NotOffline));
    all_free();
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

/// A zone that is cut off at both ends, and a model of it that knows nothing but frames and flags.
struct Model {
    zone: Zone<Trees>,
    /// Blocks in use.
    blocks: Vec<(FrameId, Order)>,
    offline: Vec<HugeId>,
    flags: BTreeMap<usize, HugeFlags>,
}

impl Model {
    const ZONE: ZoneConfig =
        ZoneConfig::new(70 * Trees::HUGE_FRAMES + 3, 2).starting_at(FrameId(16 * 8 + 5));

    fn new() -> Self {
        let zone = Owned::new(&Self::ZONE, Init::Free).expect("a zone");
        let inside = Self::ZONE.huge_range::<Trees>();
        let flags = (inside.start.0..inside.end.0).map(|huge| (huge, HugeFlags::BACKED)).collect();
        Model { zone, blocks: Vec::new(), offline: Vec::new(), flags }
    }

    fn huge_of(frame: FrameId, order: Order) -> std::ops::Range<usize> {
        let huge = |frame: usize| frame / Trees::HUGE_FRAMES;
        huge(frame.0)..huge(frame.0 + order.frames() - 1) + 1
    }

    /// Huge frames in which nothing is in use.
    fn free(&self) -> Vec<usize> {
        let used = self.blocks.iter().flat_map(|&(frame, order)| Self::huge_of(frame, order));
        let used: Vec<_> = used.chain(self.offline.iter().map(|huge| huge.0)).collect();
        self.flags.keys().copied().filter(|huge| !used.contains(huge)).collect()
    }

    fn set(&mut self, huge: usize, change: impl Fn(&mut HugeFlags)) {
        self.flags.get_mut(&huge).into_iter().for_each(change);
    }

    fn allocated(&mut self, frame: FrameId, order: Order) {
        self.blocks.push((frame, order));
        Self::huge_of(frame, order).for_each(|huge| self.set(huge, |flags| flags.zeroed = false));
    }

    /// One random call.
    fn step(&mut self, rng: &mut Rng) {
        let order = Order(rng.u8(0..5));
        let request = Request::new(order, Class(rng.u8(0..4)), Slot(rng.usize(0..2)));
        match rng.u8(0..12) {
            0..3 => {
                if let Ok(frame) = self.zone.alloc(request) {
                    self.allocated(frame, order);
                }
            }
            3 => {
                let prefer = if rng.bool() { Prefer::Backed } else { Prefer::Zeroed };
                if let Ok((frame, got)) = self.zone.alloc_preferring(request, prefer) {
                    let huge = Self::huge_of(frame, order);
                    let is = |flag: fn(&HugeFlags) -> bool| {
                        let mut all = huge.clone().filter_map(|huge| self.flags.get(&huge));
                        (all.clone().any(flag), all.all(flag))
                    };
                    assert_eq!(got.reclaimed, is(|flags| flags.reclaimed).0);
                    assert!(!got.zeroed || is(|flags| flags.zeroed).1);
                    self.allocated(frame, order);
                }
            }
            4..7 => {
                if !self.blocks.is_empty() {
                    let (frame, order) = self.blocks.swap_remove(rng.usize(..self.blocks.len()));
                    let huge = Self::huge_of(frame, order);
                    if order >= Order(3) && rng.bool() {
                        for huge in huge {
                            let flags = HugeFlags { reclaimed: rng.bool(), zeroed: rng.bool() };
                            if self.zone.set_flags(HugeId(huge), flags).is_ok() {
                                self.set(huge, |now| *now = flags);
                            }
                        }
                    }
                    self.zone.free(frame, order, request.slot).expect("it is in use");
                }
            }
            7 => {
                if let Some(&(frame, order)) = rng.choice(&self.blocks) {
                    let huge = Self::huge_of(frame, order).start;
                    let set = self.zone.set_backed(HugeId(huge)).is_ok();
                    assert_eq!(set, self.flags.contains_key(&huge));
                    self.set(huge, |flags| flags.reclaimed = false);
                }
            }
            8 => {
                let most = rng.usize(0..20);
                drain(&self.zone);
                let backed = |huge: &usize| !self.flags[huge].reclaimed;
                let backed: Vec<_> = self.free().into_iter().filter(backed).collect();
                let taken = reclaim(&self.zone, Reclaim::Soft, most);
                assert_eq!(taken.len(), most.min(backed.len()));
                for huge in taken {
                    assert!(backed.contains(&huge.0));
                    self.set(huge.0, |flags| *flags = HugeFlags::RECLAIMED);
                }
            }
            9 => {
                let most = rng.usize(0..40);
                let free = self.free();
                let taken = reclaim(&self.zone, Reclaim::Hard, most);
                assert_eq!(taken.len(), most.min(free.len()));
                for &huge in &taken {
                    assert!(free.contains(&huge.0));
                    self.set(huge.0, |flags| *flags = HugeFlags::RECLAIMED);
                }
                self.offline.extend(taken);
                self.offline.sort();
                self.offline.windows(2).for_each(|two| assert_ne!(two[0], two[1]));
            }
            10 => {
                let back = rng.usize(0..=self.offline.len());
                let back: Vec<_> = self.offline.drain(..back).collect();
                let flags = HugeFlags { reclaimed: rng.bool(), zeroed: rng.bool() };
                self.zone.give(&back, flags).expect("they are offline");
                back.iter().for_each(|huge| self.set(huge.0, |now| *now = flags));
            }
            _ => self.zone.drain(request.slot).expect("a slot"),
        }
    }

    fn judge(&self) {
        for (&huge, &flags) in &self.flags {
            assert_eq!(self.zone.flags(HugeId(huge)), flags, "huge frame {huge}");
        }
        let used: usize = self.blocks.iter().map(|(_, order)| order.frames()).sum();
        let stats = self.zone.stats();
        let offline = self.offline.len();
        let free = Self::ZONE.frames - used - offline * Trees::HUGE_FRAMES;
        assert_eq!((stats.free_frames, self.zone.free_frames()), (free, free));
        assert_eq!((stats.free_huge, stats.offline_huge), (self.free().len(), offline));
        let reclaimed = self.flags.values().filter(|flags| flags.reclaimed).count();
        assert_eq!(self.zone.flagged().reclaimed, reclaimed);
    }
}

#[test]
fn random_calls_and_a_model() {
    let seed = woodlot_suite::settings::seed();
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..20 {
        let mut model = Model::new();
        for _ in 0..600 {
            model.step(&mut rng);
            model.judge();
        }
        drain(&model.zone);
        let free = model.free();
        let of = |flag: fn(&HugeFlags) -> bool| {
            free.iter().filter(|huge| flag(&model.flags[huge])).count()
        };
        let found = model.zone.flagged();
        assert_eq!(found.free_reclaimed, of(|flags| flags.reclaimed));
        assert_eq!(found.free_zeroed, of(|flags| flags.zeroed));
    }
}

/// Ends in the middle of a state word and of a huge frame.
const ENDING: ZoneConfig = ZoneConfig::new(52 * Base4K::HUGE_FRAMES + 7, 1);

fn made(raw: RawMetadata, init: Init) -> LLFree<'static, Base4K> {
    // SAFETY: the callers have the memory to themselves, and use one allocator at a time.
    unsafe { LLFree::construct(&ENDING, raw, init) }.expect("a zone")
}

#[test]
fn a_recovery_keeps_what_is_gone_and_forgets_what_is_zero() {
    let mut memory = Memory::of::<LLFree<Base4K>>(&ENDING);
    let raw = memory.metadata();
    let zone = made(raw, Init::Free);
    assert_eq!(zone.flagged(), Flagged::default(), "whatever was in the memory before");
    let hard = reclaim(&zone, Reclaim::Hard, 40);
    zone.give(&hard[..30], HugeFlags { reclaimed: true, zeroed: true }).expect("they are offline");
    zone.give(&hard[30..35], HugeFlags::ZEROED).expect("they are offline");
    let kept: Vec<_> = (0..53).map(|huge| zone.flags(HugeId(huge)).reclaimed).collect();
    // SAFETY: the metadata is that of a zone in use.
    let attached: LLFree<'_, Base4K> =
        unsafe { LLFree::attach(&ENDING, Tuning::DEFAULT, Volatile, raw) }.expect("a zone");
    assert_eq!(attached.flagged(), zone.flagged());
    assert_eq!((zone.flagged().reclaimed, zone.flagged().free_zeroed), (35, 35));
    // SAFETY: no call is under way.
    let looked = unsafe { LLFree::<Base4K>::inspect(&ENDING, raw) }.expect("a zone");
    assert!(looked.is_nothing() && looked.offline_huge == 5, "{looked:?}");
    assert_eq!(zone.flagged().free_zeroed, 35, "an inspection writes nothing");
    let zone = made(raw, Init::Recover);
    assert_eq!((zone.flagged().reclaimed, zone.flagged().free_zeroed), (35, 0));
    assert!((0..53).all(|huge| zone.flags(HugeId(huge)).reclaimed == kept[huge]));
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

/// A huge frame of the machine: what a hypervisor knows of it, and whether somebody has written to it.
#[derive(Default)]
struct Memory2M {
    /// Is there memory behind it? Locked by who takes it away, and by who puts it there.
    gone: Mutex<bool>,
    dirty: AtomicBool,
}

/// Two guests and a host that takes memory away, softly and hard, and brings it back.
#[test]
fn guests_and_a_host_lose_nothing() {
    const HUGE_FRAMES: usize = 96;
    let rounds = 3000;
    let zone = zone(HUGE_FRAMES, 2);
    let machine: Vec<Memory2M> = (0..HUGE_FRAMES).map(|_| Memory2M::default()).collect();
    let huge_of = |frame: FrameId| frame.0 / Base4K::HUGE_FRAMES;
    // A guest touches what it has allocated: there must be memory.
    let touch = |huge: usize| {
        let memory = &machine[huge];
        let mut gone = memory.gone.lock().expect("nobody panics");
        if zone.flags(HugeId(huge)).reclaimed {
            *gone = false;
            zone.set_backed(HugeId(huge)).expect("it is in the zone");
        }
        assert!(!*gone, "huge frame {huge} has no memory, and its owner is not told");
        memory.dirty.store(true, Ordering::Relaxed);
    };
    let guests_left = AtomicUsize::new(2);
    let guest = |number: usize| {
        let (slot, mut rng) = (Slot(number), Rng::with_seed(number as u64));
        let mut owned = Vec::new();
        for _ in 0..rounds {
            let order = if rng.bool() { HUGE } else { Order(rng.u8(0..9)) };
            let request = Request::new(order, Class(rng.u8(0..4)), slot);
            if owned.len() < 24
                && let Ok((frame, flags)) = zone.alloc_preferring(request, Prefer::Zeroed)
            {
                let huge = huge_of(frame);
                let dirty = machine[huge].dirty.load(Ordering::Relaxed);
                assert!(!flags.zeroed || !dirty, "huge frame {huge} is said to be zero");
                touch(huge);
                owned.push((frame, order));
            } else if let Some((frame, order)) = owned.pop() {
                if order == HUGE && rng.bool() {
                    let huge = huge_of(frame);
                    machine[huge].dirty.store(false, Ordering::Relaxed);
                    zone.set_flags(HugeId(huge), HugeFlags::ZEROED).expect("it is whole");
                }
                zone.free(frame, order, slot).expect("it is in use");
            }
            rng.shuffle(&mut owned);
        }
        for (frame, order) in owned {
            zone.free(frame, order, slot).expect("it is in use");
        }
        guests_left.fetch_sub(1, Ordering::Release);
    };
    let host = || {
        let mut rng = Rng::with_seed(7);
        let (mut offline, mut reclaimed) = (Vec::new(), 0);
        while guests_left.load(Ordering::Acquire) > 0 || reclaimed == 0 {
            for huge in reclaim(&zone, Reclaim::Soft, rng.usize(1..20)) {
                let mut gone = machine[huge.0].gone.lock().expect("nobody panics");
                // Somebody may have allocated it, and put memory there.
                *gone |= zone.flags(huge).reclaimed;
                reclaimed += 1;
            }
            let hard = reclaim(&zone, Reclaim::Hard, rng.usize(1..40));
            for huge in &hard {
                let mut gone = machine[huge.0].gone.lock().expect("nobody panics");
                *gone = true;
            }
            offline.extend(hard);
            rng.shuffle(&mut offline);
            let back = offline.split_off(offline.len() / 2);
            for huge in &back {
                *machine[huge.0].gone.lock().expect("nobody panics") = false;
                machine[huge.0].dirty.store(false, Ordering::Relaxed);
            }
            zone.give(&back, HugeFlags::ZEROED).expect("they are offline");
        }
        zone.give(&offline, HugeFlags::RECLAIMED).expect("they are offline");
    };
    thread::scope(|scope| {
        (0..2).for_each(|number| _ = scope.spawn(move || guest(number)));
        scope.spawn(host);
    });
    drain(&zone);
    let stats = zone.stats();
    assert_eq!((stats.free_huge, stats.offline_huge), (HUGE_FRAMES, 0), "something is lost");
    assert_eq!(zone.free_frames(), HUGE_FRAMES * Base4K::HUGE_FRAMES);
    (0..HUGE_FRAMES).for_each(|huge| {
        let frame = zone.alloc(at(huge)).expect("it is free");
        touch(huge_of(frame));
    });
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
