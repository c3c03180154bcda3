//! *churn*: one of many blocks, chosen at random, is freed and one is allocated, again and again.
//! *remote-churn*: the same, freed in another slot than it is allocated in, as where one CPU takes memory and another
//! gives it back.
//!
//! Beside the time it keeps what is left of huge frames: how many are free after a repetition, and
//! how many would be had the same blocks been freed and allocated by the [best placement](Best),
//! from the same beginning.

use std::sync::Barrier;

use woodlot_frame::{Base4K, FrameId, Geometry, Order, Slot};

use super::best::{Best, huge_of};
use super::kinds::{Metric, Placement};
use super::mix::Mix;
use super::runner::{Kept, Part, Runner, Sample, total};
use super::setup::Setup;
use super::threads::on_threads;
use crate::Failure;
use crate::clock::{Tally, opaque, prefetch};
use crate::contender::Contender;
use crate::random::Random;

/// A block: its number among those of its order, above four bits with the order. Small, since the
/// list of all blocks is read at random while the clock runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block(u32);

impl Block {
    #[inline(always)]
    fn new(frame: FrameId, order: Order) -> Block {
        Block(((frame.0 >> order.0) as u32) << 4 | u32::from(order.0))
    }

    #[inline(always)]
    fn order(self) -> Order {
        Order((self.0 & 15) as u8)
    }

    #[inline(always)]
    fn frame(self) -> FrameId {
        FrameId((self.0 as usize >> 4) << self.order().0)
    }
}

/// What a thread has.
#[derive(Clone, Default)]
struct Herd {
    blocks: Vec<Block>,
    /// How many frames more it may have, as long as the zone is to be no fuller.
    room: usize,
}

/// What a thread does in a repetition, drawn before the clock starts.
struct Draws {
    /// For each free: which of the blocks is freed, as a share of 2^32. Where orders are mixed, there may be more frees than
    /// picks: then these begin anew.
    picks: Vec<u32>,
    /// The order that is allocated; nothing where it is that of all blocks.
    orders: Vec<Order>,
}

/// A zone that is as full as it is to be, and the same beside it as the best placement has it.
pub(super) struct Churning<C> {
    pub(super) contender: C,
    setup: Setup,
    random: Random,
    /// For each thread.
    herds: Vec<Herd>,
    best: Best,
    best_herds: Vec<Herd>,
    refused: u64,
}

impl<C: Contender> Churning<C> {
    /// Fills the zone.
    ///
    /// # Errors
    /// What the setup or the contender's limits forbid.
    pub(super) fn new(setup: Setup) -> Result<Self, Failure> {
        setup.check()?;
        let (frames, slots) = (setup.memory.frames(), setup.slots);
        let (contender, best) = (C::new(frames, slots)?, Best::new(frames, slots)?);
        let random = Random::new(setup.seed);
        let herds = vec![Herd::default(); setup.threads];
        let best_herds = Vec::new();
        let mut made = Self { contender, setup, random, herds, best, best_herds, refused: 0 };
        match setup.placement {
            Placement::Row => made.pack()?,
            Placement::Random => made.spread()?,
        }
        for block in made.herds.iter().flat_map(|herd| &herd.blocks) {
            made.best.occupy(block.frame(), block.order().frames());
        }
        // Any place in the same huge frame is as good as any other.
        made.best_herds = made.herds.clone();
        Ok(made)
    }

    /// As many frames as are to be in use.
    fn occupied_frames(&self) -> usize {
        self.setup.occupied() << self.setup.order.0
    }

    fn draw(&mut self) -> Result<Order, Failure> {
        match self.setup.mix {
            true => Ok(Mix::of_build()?.draw(&mut self.random)),
            false => Ok(self.setup.order),
        }
    }

    /// Allocates until the zone is as full as it is to be, by each thread in turn.
    fn pack(&mut self) -> Result<(), Failure> {
        let (target, mut used) = (self.occupied_frames(), 0);
        for thread in (0..self.setup.threads).cycle() {
            let order = self.draw()?;
            if used + order.frames() > target {
                break;
            }
            let frame = self.contender.alloc(order, self.setup.slot(thread));
            let frame = frame.ok_or_else(|| Failure::Failed("churn: memory ran out".into()))?;
            self.herds[thread].blocks.push(Block::new(frame, order));
            used += order.frames();
        }
        self.herds[0].room = target - used;
        Ok(())
    }

    /// Allocates all there is, and frees blocks at random until the zone is as full as it is to be.
    fn spread(&mut self) -> Result<(), Failure> {
        let mut blocks = Vec::new();
        for slot in (0..self.setup.slots).map(Slot) {
            loop {
                let drawn = self.draw()?;
                // The order of all blocks, or the lowest that is drawn.
                let lowest = self.setup.order;
                let found = [drawn, lowest].into_iter().find_map(|order| {
                    let frame = self.contender.alloc(order, slot)?;
                    Some(Block::new(frame, order))
                });
                match found {
                    Some(block) => blocks.push(block),
                    None => break,
                }
            }
        }
        let frames = |blocks: &[Block]| blocks.iter().map(|one| one.order().frames()).sum();
        let (all, mut used): (usize, usize) =
            (self.setup.blocks() << self.setup.order.0, frames(&blocks));
        self.setup.all_allocated(used, all)?;
        self.random.shuffle(&mut blocks);
        while used > self.occupied_frames()
            && let Some(hole) = blocks.pop()
        {
            if !self.contender.free(hole.frame(), hole.order(), self.setup.freeing_slot(0)) {
                return Err(Failure::Failed("churn: a free was refused".into()));
            }
            used -= hole.order().frames();
        }
        let threads = self.setup.threads;
        for (index, block) in blocks.into_iter().enumerate() {
            self.herds[index % threads].blocks.push(block);
        }
        self.herds[0].room = self.occupied_frames() - used;
        Ok(())
    }

    fn draws(&mut self, pairs: usize) -> Result<Draws, Failure> {
        let picks = (0..pairs).map(|_| self.random.bits() as u32).collect();
        let orders = if self.setup.mix { pairs } else { 0 };
        let orders: Result<_, _> = (0..orders).map(|_| self.draw()).collect();
        Ok(Draws { picks, orders: orders? })
    }
}

/// All pairs of a thread, which frees in the second of the slots; returns how many there were, and how many allocations found no block of
/// their order, which is no mistake where orders are mixed.
fn run<C: Contender>(
    c: &C,
    setup: &Setup,
    slots: [Slot; 2],
    herd: &mut Herd,
    draws: &Draws,
) -> [usize; 2] {
    match setup.mix {
        true => exchange(c, slots, herd, draws),
        false => [replace(c, setup.order, slots, &mut herd.blocks, &draws.picks), 0],
    }
}

/// A share of a number.
#[inline(always)]
fn pick(of: usize, share: u32) -> usize {
    ((of as u64 * u64::from(share)) >> 32) as usize
}

/// So many pairs ahead the list of blocks is asked for: that the next block lies in no cache is not
/// the allocator's doing.
const AHEAD: usize = 8;

/// Frees the blocks that are picked and allocates another for each; returns how many there were.
#[inline(never)]
fn replace<C: Contender>(
    c: &C,
    order: Order,
    slots: [Slot; 2],
    blocks: &mut [Block],
    picks: &[u32],
) -> usize {
    let order = Order(opaque(order.0.into()) as u8);
    let [slot, freeing] = slots.map(|slot| Slot(opaque(slot.0)));
    for (done, &share) in picks.iter().enumerate() {
        if let Some(&later) = picks.get(done + AHEAD) {
            prefetch(blocks.as_ptr().wrapping_add(pick(blocks.len(), later)));
        }
        let at = pick(blocks.len(), share);
        let Some(block) = blocks.get_mut(at) else { return done };
        if !c.free(FrameId((block.0 as usize >> 4) << order.0), order, freeing) {
            return done;
        }
        match c.alloc(order, slot) {
            Some(frame) => *block = Block::new(frame, order),
            None => return done,
        }
    }
    picks.len()
}

/// Allocates the orders that were drawn, and frees blocks for each until there is room: one, in the
/// mean. Returns how many were drawn before a free was refused, and for how many there was no block.
#[inline(never)]
fn exchange<C: Contender>(c: &C, slots: [Slot; 2], herd: &mut Herd, draws: &Draws) -> [usize; 2] {
    let ([slot, freeing], mut none) = (slots.map(|slot| Slot(opaque(slot.0))), 0);
    let Herd { blocks, room } = herd;
    let mut picks = draws.picks.as_slice();
    for (done, &order) in draws.orders.iter().enumerate() {
        while *room < order.frames() {
            // The list has about as many blocks then.
            if let Some(&later) = picks.get(AHEAD) {
                prefetch(blocks.as_ptr().wrapping_add(pick(blocks.len(), later)));
            }
            let Some((&share, rest)) = picks.split_first().filter(|_| !blocks.is_empty()) else {
                return [done, none];
            };
            picks = if rest.is_empty() { &draws.picks } else { rest };
            let freed = blocks.swap_remove(pick(blocks.len(), share));
            if !c.free(freed.frame(), freed.order(), freeing) {
                return [done, none];
            }
            *room += freed.order().frames();
        }
        match c.alloc(order, slot) {
            Some(frame) => {
                *room -= order.frames();
                blocks.push(Block::new(frame, order));
            }
            None => none += 1,
        }
    }
    [draws.orders.len(), none]
}

impl<C: Contender> Runner for Churning<C> {
    fn sample(&mut self) -> Result<Sample, Failure> {
        let pairs = self.setup.operations.div_ceil(self.setup.threads);
        let draws: Result<Vec<Draws>, _> =
            (0..self.setup.threads).map(|_| self.draws(pairs)).collect();
        let (draws, setup, c) = (draws?, self.setup, &self.contender);
        let barrier = Barrier::new(setup.threads);
        let parts = on_threads(self.herds.iter_mut().zip(&draws), |thread, (herd, draws)| {
            let (mut tally, mut none) = (Tally::default(), 0);
            barrier.wait();
            tally.time(|| {
                let [done, refused] =
                    run(c, &setup, [setup.slot(thread), setup.freeing_slot(thread)], herd, draws);
                none = refused;
                done
            });
            let refused = pairs - tally.operations as usize;
            (Part { tallies: vec![(Metric::Pair, tally)], refused }, none)
        });
        for (herd, draws) in self.best_herds.iter_mut().zip(&draws) {
            run(&self.best, &setup, [Slot(0); 2], herd, draws);
        }
        self.refused = parts.iter().map(|(_, none)| *none as u64).sum();
        total(setup.pattern, parts.into_iter().map(|(part, _)| part).collect())
    }

    fn kept(&self) -> Option<Kept> {
        let huge = self.setup.memory.frames() / Base4K::HUGE_FRAMES;
        let (mut in_use, mut used) = (vec![false; huge], 0);
        for block in self.herds.iter().flat_map(|herd| &herd.blocks) {
            in_use[huge_of(block.frame(), huge)] = true;
            used += block.order().frames();
        }
        Some(Kept {
            free_huge: in_use.iter().filter(|&&in_use| !in_use).count(),
            best_huge: self.best.free_huge(),
            possible_huge: (huge * Base4K::HUGE_FRAMES - used) / Base4K::HUGE_FRAMES,
            refused: self.refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::contender::Contract;
    use crate::patterns::{Pattern, Setup};
    use woodlot_frame::Owned;
    use woodlot_llfree::LLFree;

    type Zone = Contract<LLFree<'static, Base4K>>;

    fn setup(change: impl FnOnce(&mut Setup)) -> Setup {
        let mut setup = Setup::new(Pattern::Churn, Order(0));
        (setup.memory, setup.operations) = ("64MiB".parse().unwrap(), 20_000);
        change(&mut setup);
        setup
    }

    /// The blocks do not overlap, and the zone has exactly them.
    fn agrees(churning: &Churning<Zone>) {
        let mut frames = HashSet::new();
        for block in churning.herds.iter().flat_map(|herd| &herd.blocks) {
            let first = block.frame().0;
            assert!((first..first + block.order().frames()).all(|frame| frames.insert(frame)));
        }
        let zone: &Owned<_> = &churning.contender.0;
        use woodlot_frame::FrameAllocator;
        assert_eq!(zone.free_frames(), churning.setup.memory.frames() - frames.len());
    }

    #[test]
    fn the_zone_is_as_full_as_it_is_to_be_and_stays_so() {
        for placement in [Placement::Row, Placement::Random] {
            for (order, mix, threads) in [(0, false, 1), (4, false, 2), (9, false, 1), (0, true, 1)]
            {
                let setup = setup(|setup| {
                    (setup.order, setup.mix, setup.placement) = (Order(order), mix, placement);
                    (setup.threads, setup.slots, setup.fill) = (threads, threads, 900);
                });
                let mut churning = Churning::<Zone>::new(setup).unwrap();
                let frames = |churning: &Churning<Zone>| {
                    let all = churning.herds.iter().flat_map(|herd| &herd.blocks);
                    all.map(|block| block.order().frames()).sum::<usize>()
                };
                let target = churning.occupied_frames();
                let least = if mix { target - 512 } else { target };
                assert!((least..=target).contains(&frames(&churning)));
                agrees(&churning);
                let sample = churning.sample().unwrap();
                assert_eq!(sample.len(), 1);
                assert_eq!((sample[0].0, sample[0].1.operations), (Metric::Pair, 20_000));
                assert!((least - 512 * usize::from(mix)..=target).contains(&frames(&churning)));
                agrees(&churning);
                assert!(mix || churning.refused == 0);
            }
        }
    }

    #[test]
    fn holes_are_packed_or_spread() {
        let kept = |placement| {
            let setup = setup(|setup| (setup.fill, setup.placement) = (500, placement));
            Churning::<Zone>::new(setup).unwrap().kept().unwrap()
        };
        let packed = kept(Placement::Row);
        assert_eq!((packed.free_huge, packed.best_huge, packed.possible_huge), (16, 16, 16));
        let spread = kept(Placement::Random);
        assert_eq!((spread.free_huge, spread.best_huge, spread.possible_huge), (0, 0, 16));
        assert_eq!((packed.percent(), spread.percent()), (100.0, 100.0));
    }

    #[test]
    fn the_best_placement_gathers_what_was_spread() {
        let setup = setup(|setup| (setup.fill, setup.placement) = (500, Placement::Random));
        let mut churning = Churning::<Zone>::new(setup).unwrap();
        for _ in 0..20 {
            churning.sample().unwrap();
        }
        let kept = churning.kept().unwrap();
        assert!(kept.best_huge >= 15, "{kept:?}");
        assert!(kept.free_huge <= kept.possible_huge && kept.percent() <= 107.0, "{kept:?}");
    }

    #[test]
    fn any_block_is_as_likely_to_be_freed_as_any_other() {
        let setup = setup(|setup| setup.fill = 500);
        let mut churning = Churning::<Zone>::new(setup).unwrap();
        let before: HashSet<u32> = churning.herds[0].blocks.iter().map(|block| block.0).collect();
        let picks = churning.draws(8192).unwrap().picks;
        let picked: HashSet<usize> = picks.iter().map(|&share| pick(before.len(), share)).collect();
        // Of 8192 blocks 8192 random picks miss one in e.
        assert_eq!(before.len(), 8192);
        assert!((4900..5450).contains(&picked.len()), "{}", picked.len());
        assert!(picked.contains(&0) || picked.iter().any(|&at| at < 10));
        assert!(picked.iter().any(|&at| at > 8180));
    }

    #[test]
    fn a_block_is_what_it_was_made_of() {
        for (frame, order) in [(0, 0), (12345, 0), (512 * 4_194_303, 9), (48, 4)] {
            let block = Block::new(FrameId(frame), Order(order));
            assert_eq!((block.frame(), block.order()), (FrameId(frame), Order(order)));
        }
    }
}
