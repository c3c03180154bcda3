//! Reclaim and the flags of huge frames, for engines that have them: against a naive model, after a recovery, and beside threads that
//! allocate and free.
//!
//! ```ignore
//! woodlot_suite::reclaim_tests!(LLFree);
//! ```

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use fastrand::Rng;
use woodlot_frame::{
    AllocError, Base4K, Class, Construct, FrameAllocator, FrameId, Geometry, HugeFlags, HugeId,
    Init, OfflineError, Order, Owned, Prefer, Reclaim, Reclaiming, Request, Slot, ZoneConfig,
};

use crate::short::Small;

/// What is tested: an engine for one geometry.
pub trait Reclaimer<G: Geometry>: Reclaiming<Geometry = G> + Construct {}

impl<G: Geometry, E: Reclaiming<Geometry = G> + Construct> Reclaimer<G> for E {}

/// Huge frames of eight frames, 32 of them in a tree.
pub type Trees = Small<3, 32>;

/// Four of them in a tree.
pub type SmallTrees = Small<3, 4>;

const HUGE: Order = Order(Base4K::HUGE_ORDER as u8);

/// A free zone.
pub fn zone<E: Reclaimer<Base4K>>(huge_frames: usize, slots: usize) -> Owned<E> {
    let config = ZoneConfig::new(huge_frames * Base4K::HUGE_FRAMES, slots);
    Owned::new(&config, Init::Free).expect("a zone")
}

/// A request for a block by the first slot.
pub fn request(order: Order) -> Request {
    Request::new(order, Class::HUGE, Slot(0))
}

/// A request for this huge frame.
pub fn at(huge: usize) -> Request {
    request(HUGE).at(HugeId(huge).first::<Base4K>())
}

fn drain(zone: &impl FrameAllocator) {
    (0..2).for_each(|slot| zone.drain(Slot(slot)).expect("a slot"));
}

/// Reclaims up to so many huge frames.
pub fn reclaim(zone: &impl Reclaiming, mode: Reclaim, most: usize) -> Vec<HugeId> {
    let mut out = vec![HugeId(usize::MAX); most];
    let count = zone.reclaim(mode, &mut out);
    assert!(out[count..].iter().all(|&rest| rest == HugeId(usize::MAX)), "written behind {count}");
    out.truncate(count);
    out
}

/// What is free, or split, has no flags to be set.
pub fn only_who_has_a_huge_frame_for_itself_sets_its_flags<E: Reclaimer<Base4K>>() {
    let zone = zone::<E>(40, 1);
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

/// Whatever takes a huge frame out of *free* forgets that it is zeroed; of the others it is known still.
pub fn what_is_allocated_is_no_longer_zeroed<E: Reclaimer<Base4K>>() {
    const COUNT: usize = 32;
    let zone = zone::<E>(COUNT, 1);
    let tenth = |order| request(order).at(HugeId(10).first::<Base4K>());
    let exact = [0, 6, 9, 10].map(|order| tenth(Order(order)));
    let orders = (0..=10).map(|order| request(Order(order)));
    for (taken, flags) in exact
        .into_iter()
        .chain(orders)
        .flat_map(|taken| [HugeFlags::ZEROED, HugeFlags::BACKED].map(|flags| (taken, flags)))
    {
        let all = reclaim(&*zone, Reclaim::Hard, COUNT);
        zone.give(&all, flags).expect("they are offline");
        assert_eq!((all.len(), zone.flagged().free_reclaimed), (COUNT, 0));
        let frame = zone.alloc(taken).expect("it is free");
        let end = frame.0 + taken.order.frames();
        for huge in 0..COUNT {
            let block = frame.0 / Base4K::HUGE_FRAMES..end.div_ceil(Base4K::HUGE_FRAMES);
            let zeroed = flags.zeroed && !block.contains(&huge);
            assert_eq!(zone.flags(HugeId(huge)).zeroed, zeroed, "{huge}, {taken:?}");
        }
        zone.free(frame, taken.order, Slot(0)).expect("it is allocated");
    }
}

/// Huge frames and pairs that are preferred come first.
pub fn an_allocation_gets_what_it_prefers_and_is_told<E: Reclaimer<Base4K>>() {
    let zone = zone::<E>(16 * 32, 2);
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

/// Frames that are all free, of which a slot may keep some.
pub fn a_hard_reclaim_finds_what_slots_hold<E: Reclaimer<Base4K>>() {
    let zone = zone::<E>(2, 2);
    let frame = zone.alloc(Request::movable(Order(0), Slot(0))).expect("a frame");
    zone.free(frame, Order(0), Slot(0)).expect("it is allocated");
    assert!(reclaim(&*zone, Reclaim::Soft, 2).contains(&HugeId(1)));
    let mut all = reclaim(&*zone, Reclaim::Hard, 2);
    all.sort_unstable();
    assert_eq!(all, [HugeId(0), HugeId(1)]);
    assert_eq!((zone.free_frames(), zone.stats().offline_huge), (0, 2));
}

/// In any order, once.
pub fn what_is_given_back_is_free_or_the_call_says_what_is_wrong<E: Reclaimer<Base4K>>() {
    let zone = zone::<E>(64, 1);
    let all = reclaim(&*zone, Reclaim::Hard, 64);
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
    let stats = zone.stats();
    assert_eq!((stats.free_huge, stats.offline_huge), (64, 0));
    assert_eq!((stats.free_frames, zone.free_frames()), (64 * 512, 64 * 512));
}

/// Whoever has it offline may write to it.
pub fn what_was_offline_is_no_longer_zeroed<E: Reclaimer<Base4K>>() {
    let zone = zone::<E>(4, 1);
    let frame = zone.alloc(at(1)).expect("it is free");
    zone.set_flags(HugeId(1), HugeFlags::ZEROED).expect("it is ours");
    zone.free(frame, HUGE, Slot(0)).expect("it is allocated");
    zone.offline(HugeId(1), 1).expect("it is free");
    assert_eq!(zone.flags(HugeId(1)), HugeFlags::BACKED);
    zone.online(HugeId(1), 1).expect("it is offline");
    assert_eq!(zone.flags(HugeId(1)), HugeFlags::BACKED);
}

/// Where a word has flags of several trees, or a tree few huge frames.
pub fn small_trees_keep_their_flags_apart<E: Reclaimer<SmallTrees>>() {
    let zone = Owned::<E>::new(&ZoneConfig::new(16 * 8, 1), Init::Free).expect("a zone");
    let all = reclaim(&*zone, Reclaim::Hard, 16);
    assert_eq!((all.len(), zone.stats().offline_huge), (16, 16));
    let zeroed = HugeFlags { reclaimed: true, zeroed: true };
    zone.set_flags(HugeId(5), zeroed).expect("it is offline");
    let flags = |huge| zone.flags(HugeId(huge));
    assert_eq!([4, 5, 6].map(flags), [HugeFlags::RECLAIMED, zeroed, HugeFlags::RECLAIMED]);
    assert_eq!(zone.give(&all, HugeFlags::ZEROED), Ok(()));
    assert!((0..16).all(|huge| flags(huge) == HugeFlags::ZEROED));
    assert_eq!((zone.stats().offline_huge, zone.free_frames()), (0, 16 * 8));
}

/// A wrong call that brings back what a soft reclaim has taken out for a moment spoils no count.
pub fn counts_survive_who_brings_back_what_another_one_reclaims<E: Reclaimer<Base4K>>() {
    let zone = zone::<E>(16, 1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for huge in (0..16).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                // Nearly always it is not offline.
                let _ = zone.online(HugeId(huge), 1);
            }
        });
        for _ in 0..4_000 {
            reclaim(&*zone, Reclaim::Soft, 16);
            (0..16).for_each(|huge| zone.set_backed(HugeId(huge)).expect("it is there"));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(zone.free_frames(), 16 * Base4K::HUGE_FRAMES);
    let stats = zone.stats();
    assert_eq!((stats.offline_huge, stats.free_huge), (0, 16));
}

/// A zone that is cut off at both ends, and a model of it that knows nothing but frames and flags.
struct Model<E: Reclaimer<Trees>> {
    zone: Owned<E>,
    /// Blocks in use.
    blocks: Vec<(FrameId, Order)>,
    offline: Vec<HugeId>,
    flags: BTreeMap<usize, HugeFlags>,
}

impl<E: Reclaimer<Trees>> Model<E> {
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
                drain(&*self.zone);
                let backed = |huge: &usize| !self.flags[huge].reclaimed;
                let backed: Vec<_> = self.free().into_iter().filter(backed).collect();
                let taken = reclaim(&*self.zone, Reclaim::Soft, most);
                assert_eq!(taken.len(), most.min(backed.len()));
                for huge in taken {
                    assert!(backed.contains(&huge.0));
                    self.set(huge.0, |flags| *flags = HugeFlags::RECLAIMED);
                }
            }
            9 => {
                let most = rng.usize(0..40);
                let free = self.free();
                let taken = reclaim(&*self.zone, Reclaim::Hard, most);
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
        let offline = self.offline.len();
        let free = Self::ZONE.frames - used - offline * Trees::HUGE_FRAMES;
        // Before the statistics, which may correct the count.
        assert_eq!(self.zone.free_frames(), free);
        let stats = self.zone.stats();
        assert_eq!((stats.free_frames, self.zone.free_frames()), (free, free));
        assert_eq!((stats.free_huge, stats.offline_huge), (self.free().len(), offline));
        let reclaimed = self.flags.values().filter(|flags| flags.reclaimed).count();
        assert_eq!(self.zone.flagged().reclaimed, reclaimed);
    }
}

/// All calls, at random, on a zone that is cut off at both ends.
pub fn random_calls_and_a_model<E: Reclaimer<Trees>>() {
    let seed = crate::settings::seed();
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..20 {
        let mut model = Model::<E>::new();
        for _ in 0..600 {
            model.step(&mut rng);
            model.judge();
        }
        drain(&*model.zone);
        let free = model.free();
        let of = |flag: fn(&HugeFlags) -> bool| {
            free.iter().filter(|huge| flag(&model.flags[huge])).count()
        };
        let found = model.zone.flagged();
        assert_eq!(found.free_reclaimed, of(|flags| flags.reclaimed));
        assert_eq!(found.free_zeroed, of(|flags| flags.zeroed));
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
pub fn guests_and_a_host_lose_nothing<E: Reclaimer<Base4K>>() {
    const HUGE_FRAMES: usize = 96;
    let rounds = 3000;
    let zone = zone::<E>(HUGE_FRAMES, 2);
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
            for huge in reclaim(&*zone, Reclaim::Soft, rng.usize(1..20)) {
                let mut gone = machine[huge.0].gone.lock().expect("nobody panics");
                // Somebody may have allocated it, and put memory there.
                *gone |= zone.flags(huge).reclaimed;
                reclaimed += 1;
            }
            let hard = reclaim(&*zone, Reclaim::Hard, rng.usize(1..40));
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
    drain(&*zone);
    let stats = zone.stats();
    assert_eq!((stats.free_huge, stats.offline_huge), (HUGE_FRAMES, 0), "something is lost");
    assert_eq!(zone.free_frames(), HUGE_FRAMES * Base4K::HUGE_FRAMES);
    (0..HUGE_FRAMES).for_each(|huge| {
        let frame = zone.alloc(at(huge)).expect("it is free");
        touch(huge_of(frame));
    });
}

/// What is reclaimed stays so, and what is zero is forgotten: its owner may have written there.
pub fn a_recovery_keeps_what_is_gone_and_forgets_what_is_zero<E: Reclaimer<Base4K>>() {
    let config = ZoneConfig::new(52 * Base4K::HUGE_FRAMES + 7, 1).starting_at(FrameId(3));
    let mut zone = Owned::<E>::new(&config, Init::Free).expect("a zone");
    let hard = reclaim(&*zone, Reclaim::Hard, 40);
    let both = HugeFlags { reclaimed: true, zeroed: true };
    zone.give(&hard[..30], both).expect("they are offline");
    zone.give(&hard[30..35], HugeFlags::ZEROED).expect("they are offline");
    assert_eq!((zone.flagged().reclaimed, zone.flagged().free_zeroed), (35, 35));
    let gone = |zone: &E| (0..54).map(|huge| zone.flags(HugeId(huge)).reclaimed).collect();
    let before: Vec<_> = gone(&zone);
    zone.recover(&config).expect("a zone");
    assert_eq!((zone.flagged().reclaimed, zone.flagged().free_zeroed), (35, 0));
    assert_eq!((gone(&zone), zone.stats().offline_huge), (before, 5));
}

/// Makes the checks tests, for an engine by its name.
#[macro_export]
macro_rules! reclaim_tests {
    ($engine:ident) => {
        $crate::reclaim_tests! { @ $engine<woodlot_frame::Base4K>:
            only_who_has_a_huge_frame_for_itself_sets_its_flags,
            what_is_allocated_is_no_longer_zeroed,
            an_allocation_gets_what_it_prefers_and_is_told,
            a_hard_reclaim_finds_what_slots_hold,
            what_is_given_back_is_free_or_the_call_says_what_is_wrong,
            what_was_offline_is_no_longer_zeroed,
            counts_survive_who_brings_back_what_another_one_reclaims,
            a_recovery_keeps_what_is_gone_and_forgets_what_is_zero,
            guests_and_a_host_lose_nothing
        }
        $crate::reclaim_tests! { @ $engine<$crate::reclaim::Trees>: random_calls_and_a_model }
        $crate::reclaim_tests! { @ $engine<$crate::reclaim::SmallTrees>:
            small_trees_keep_their_flags_apart
        }
    };
    (@ $engine:ident<$geometry:ty>: $($check:ident),+) => {
        $(#[test]
        fn $check() {
            $crate::reclaim::$check::<$engine<'static, $geometry>>();
        })+
    };
}
