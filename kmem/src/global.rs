//! The global layer: full lists of blocks, on their way from CPUs that free to CPUs that allocate.
//!
//! ```text
//!   full     │ list │ list │ list │ …       each has `target` blocks; up to 2 · GLOBAL_TARGET of them, or fewer
//!   bucket   a list of fewer blocks, which regroups what comes in odd numbers
//! ```
//!
//! 1. The first `lists` places of `full` have a list each, of `target` blocks.
//! 2. The bucket has fewer than `target`.
//! 3. No block of a full list is touched here: its cache line may be another CPU's.
//!
//! Section 3.3.2 and figure 3 of the paper, which links the lists through their first blocks. *Progress*: a bounded number
//! of steps for each call; an odd list costs as many as it has blocks.

use core::mem::offset_of;

use crate::list::List;
use crate::lot::Lot;

/// Lists that come from the layer below, or go there, at a time: the paper's `gbltarget`. The layer keeps up to twice
/// as many. It is the most that any size has. Models of two CPUs with a few blocks have to come to its end.
pub const GLOBAL_TARGET: usize =
    if cfg!(any(woodlot_loom, woodlot_explore, woodlot_shuttle)) { 1 } else { 15 };

/// The lists that were put last go below, as their blocks are in a processor's cache. Each time that lists have gone so often,
/// those that were put first go: a program that frees all it has, the last block first, would else leave the huge frame that
/// it got last in use, for the lists that were put first have blocks of that. To send these each time took a free 0.2 ns
/// more of 16 bytes, and 4 ns more of 256.
const RENEWED: u64 = 16;

/// Places for full lists: with one more than it keeps the layer has too many.
const PLACES: usize = 2 * GLOBAL_TARGET + 1;

/// The full lists of one size of blocks. What every call changes comes first, on one cache line.
#[repr(C)]
#[cfg_attr(woodlot_explore, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Global {
    lists: usize,
    bucket: List,
    counts: GlobalCounts,
    full: [Lot; PLACES],
}

/// What the global layer of one size has done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct GlobalCounts {
    /// Lists that a CPU asked for.
    pub takes: u64,
    /// Of these, times that there was none, and the layer below was asked.
    pub take_misses: u64,
    /// Lists that came from a CPU.
    pub puts: u64,
    /// Of these, times that there were too many, and lists went to the layer below.
    pub put_misses: u64,
}

/// How much of a kind of blocks goes at a time.
#[derive(Clone, Copy)]
pub(crate) struct Targets {
    /// Blocks of a full list: the paper's `target`.
    pub(crate) blocks: usize,
    /// Lists that go below when there are more than twice as many: up to [`GLOBAL_TARGET`].
    pub(crate) lists: usize,
    /// Those that were put first go each time; otherwise each [`RENEWED`]th time.
    pub(crate) first: bool,
}

impl Global {
    /// Where *counts*, *lists* and *bucket* lie.
    pub(crate) const COUNTS: usize = offset_of!(Global, counts);
    pub(crate) const LISTS: usize = offset_of!(Global, lists);
    pub(crate) const BUCKET: usize = offset_of!(Global, bucket);

    pub(crate) const fn new() -> Global {
        Global {
            lists: 0,
            bucket: List::EMPTY,
            counts: GlobalCounts { takes: 0, take_misses: 0, puts: 0, put_misses: 0 },
            full: [Lot::EMPTY; PLACES],
        }
    }

    /// A list, for a CPU that has none: a full one; else what the bucket has. Empty if there is nothing.
    pub(crate) fn take(&mut self) -> Lot {
        self.counts.takes += 1;
        let lot = self.take_any();
        self.counts.take_misses += u64::from(lot.is_empty());
        lot
    }

    fn take_any(&mut self) -> Lot {
        self.take_full().unwrap_or_else(|| Lot::linked(core::mem::take(&mut self.bucket)))
    }

    fn take_full(&mut self) -> Option<Lot> {
        let last = self.lists.checked_sub(1)?;
        let lot = *self.full.get(last)?;
        self.lists = last;
        Some(lot)
    }

    /// The full list that is taken next. It stays here.
    pub(crate) fn next(&self) -> Option<Lot> {
        self.full.get(self.lists.checked_sub(1)?).copied()
    }

    /// How many lists the layer below is to be asked for, after a [`take`](Self::take) in vain: one the first time, twice
    /// as many each time, and so many in the end. So a size that few ask for takes little memory.
    pub(crate) fn wanted(&self, most: usize) -> usize {
        let times = self.counts.take_misses.saturating_sub(1).min(u64::from(usize::BITS - 1));
        most.min(1 << times)
    }

    /// Puts a list of up to `target` blocks. Returns the lists that are too much.
    ///
    /// # Safety
    /// The caller has the list, and gives it away.
    pub(crate) unsafe fn put(&mut self, list: List, targets: Targets) -> Option<Lists> {
        self.counts.puts += 1;
        // SAFETY: as the caller says.
        let excess = unsafe { self.fill(Lot::linked(list), targets) };
        self.counts.put_misses += u64::from(excess.is_some());
        excess
    }

    /// The same for a lot that comes from the layer below, and is linked if it is not full. When CPUs have filled this one at the same time, there are
    /// too many as well.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    pub(crate) unsafe fn fill(&mut self, lot: Lot, targets: Targets) -> Option<Lists> {
        // SAFETY: as the caller says.
        unsafe { self.regroup(lot, targets.blocks) };
        let is_renewed = targets.first || self.counts.put_misses % RENEWED == RENEWED - 1;
        (self.lists > 2 * targets.lists).then(|| self.split(targets.lists, is_renewed))
    }

    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn regroup(&mut self, lot: Lot, target: usize) {
        if lot.len() == target {
            return self.put_full(lot);
        }
        let mut list = lot.list();
        // SAFETY: the list is the caller's, who gives it away, and each block of it goes into the bucket, which has fewer
        // than `target` blocks (invariant 2).
        unsafe {
            while let Some((block, rest)) = list.pop() {
                list = rest;
                self.bucket = self.bucket.push(block);
                if self.bucket.len() == target {
                    let full = core::mem::take(&mut self.bucket);
                    self.put_full(Lot::linked(full));
                }
            }
        }
    }

    /// Keeps a list that has `target` blocks.
    fn put_full(&mut self, lot: Lot) {
        if let Some(place) = self.full.get_mut(self.lists) {
            *place = lot;
            self.lists += 1;
        }
    }

    /// Takes up to so many full lists: those that were put last, or first. Of these, what was put last comes first.
    fn split(&mut self, most: usize, first: bool) -> Lists {
        let (mut taken, lists) = (Lists::new(), self.lists);
        let from = if first { 0 } else { lists.saturating_sub(most) };
        let end = lists.min(from + most);
        self.full.get(from..end).into_iter().flatten().rev().for_each(|&lot| taken.push(lot));
        let gone = end - from;
        for at in end..lists {
            if let Some(&lot) = self.full.get(at)
                && let Some(place) = self.full.get_mut(at - gone)
            {
                *place = lot;
            }
        }
        self.lists -= gone;
        taken
    }

    /// Takes full lists that have so many blocks, those that were put first; all of them, if they have fewer.
    pub(crate) fn take_first(&mut self, blocks: usize, target: usize) -> Option<Lists> {
        let is_enough = |&lists: &usize| lists * target >= blocks;
        let lists = (0..self.lists).find(is_enough).unwrap_or(self.lists);
        (lists > 0).then(|| self.split(lists, true))
    }

    /// Takes all there is, the bucket too.
    pub(crate) fn take_all(&mut self) -> Lists {
        let mut all = self.split(PLACES, false);
        all.push(Lot::linked(core::mem::take(&mut self.bucket)));
        all
    }

    pub(crate) fn counts(&self) -> GlobalCounts {
        self.counts
    }

    /// Blocks that are here.
    pub(crate) fn blocks(&self, target: usize) -> usize {
        self.lists * target + self.bucket.len()
    }
}

/// Lists in the hands of a caller.
pub(crate) struct Lists {
    lists: [Lot; PLACES],
    count: usize,
}

impl Lists {
    pub(crate) const fn new() -> Lists {
        Lists { lists: [Lot::EMPTY; PLACES], count: 0 }
    }

    /// Adds a list, if it is not empty. There is room for what a global layer keeps, and for one more.
    pub(crate) fn push(&mut self, lot: Lot) {
        if let Some(place) = self.lists.get_mut(self.count).filter(|_| !lot.is_empty()) {
            *place = lot;
            self.count += 1;
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Makes the last one the first, of those from `from` on.
    pub(crate) fn reverse(&mut self, from: usize) {
        self.lists.get_mut(from..self.count).into_iter().for_each(|lists| lists.reverse());
    }

    /// All of them, the first one first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Lot> + Clone {
        self.lists.iter().take(self.count).copied()
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    extern crate std;

    use core::ptr::NonNull;
    use std::vec::Vec;

    use super::*;

    const TARGET: usize = 3;
    const TARGETS: Targets = Targets { blocks: TARGET, lists: GLOBAL_TARGET, first: false };
    const BLOCKS: usize = 3 * GLOBAL_TARGET * TARGET;

    fn blocks(mut list: List) -> Vec<NonNull<u8>> {
        core::iter::from_fn(|| {
            // SAFETY: the list is the test's, or nobody changes it meanwhile.
            let (block, rest) = unsafe { list.pop() }?;
            list = rest;
            Some(block)
        })
        .collect()
    }

    /// The invariants in the header of the file; and each block is in one place.
    fn judge(global: &Global, others: &[List]) {
        let full: Vec<List> = global.full[..global.lists].iter().map(|lot| lot.list()).collect();
        assert!(full.iter().all(|list| list.len() == TARGET), "a list is not full");
        assert!(full.len() <= 2 * GLOBAL_TARGET, "too many lists");
        assert!(global.bucket.len() < TARGET, "the bucket is full");
        let everywhere = full.iter().chain([&global.bucket]).chain(others);
        let mut all: Vec<_> = everywhere.flat_map(|&list| blocks(list)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), BLOCKS, "each block is in one place");
        let outside: usize = others.iter().map(|list| list.len()).sum();
        assert_eq!(global.blocks(TARGET) + outside, BLOCKS, "blocks are counted");
    }

    /// Lists of any lengths come and go; what is too much comes back.
    #[test]
    fn each_block_is_in_one_place() {
        let mut memory: Vec<[u64; 2]> = std::vec![[0; 2]; BLOCKS];
        let mut random = fastrand::Rng::with_seed(1);
        // SAFETY: each block is pushed once.
        let mut others: Vec<List> = memory
            .iter_mut()
            .map(|block| unsafe { List::EMPTY.push(NonNull::from(block).cast()) })
            .collect();
        let mut global = Global::new();
        let mut seen = GlobalCounts::default();
        for _ in 0..if cfg!(miri) { 10 } else { 3000 } {
            if random.u8(..8) < 3 {
                let list = global.take().list();
                seen.takes += 1;
                seen.take_misses += u64::from(list.is_empty());
                others.extend((!list.is_empty()).then_some(list));
            } else if !others.is_empty() {
                let list = others.swap_remove(random.usize(..others.len()));
                let is_put = random.bool();
                // SAFETY: the list is the test's, and goes to the layer.
                let excess = unsafe {
                    if is_put {
                        global.put(list, TARGETS)
                    } else {
                        global.fill(Lot::linked(list), TARGETS)
                    }
                };
                seen.puts += u64::from(is_put);
                seen.put_misses += u64::from(is_put && excess.is_some());
                if let Some(excess) = excess {
                    assert_eq!(excess.iter().count(), GLOBAL_TARGET, "not half of them is excess");
                    others.extend(excess.iter().map(Lot::list));
                }
            }
            judge(&global, &others);
        }
        assert_eq!(global.counts(), seen);
        assert!(cfg!(miri) || seen.take_misses > 0 && seen.put_misses > 0, "{seen:?}");
        others.extend(global.take_all().iter().map(Lot::list));
        judge(&global, &others);
        assert_eq!(global.blocks(TARGET), 0);
    }

    /// What a caller has freed last is what the layer below looks at first.
    #[test]
    fn of_what_is_too_much_the_last_comes_first() {
        const TARGETS: Targets = Targets { blocks: 1, lists: GLOBAL_TARGET, first: false };
        let mut memory = [[0u64; 2]; 2 * GLOBAL_TARGET + 1];
        // SAFETY: each block is pushed once.
        let lists =
            memory.each_mut().map(|block| unsafe { List::EMPTY.push(NonNull::from(block).cast()) });
        let mut global = Global::new();
        // SAFETY: each list is put once.
        let excess = lists.iter().filter_map(|&list| unsafe { global.put(list, TARGETS) });
        let excess: Vec<List> =
            excess.flat_map(|lists| lists.iter().map(Lot::list).collect::<Vec<_>>()).collect();
        assert!(excess.iter().eq(lists.iter().rev().take(GLOBAL_TARGET)), "in another order");
    }

    /// A list that was put when the layer was empty goes below in the end.
    #[test]
    fn the_first_lists_do_not_stay() {
        const TARGETS: Targets = Targets { blocks: 1, lists: GLOBAL_TARGET, first: false };
        let mut memory = [[0u64; 2]; (RENEWED as usize + 2) * (GLOBAL_TARGET + 1)];
        // SAFETY: each block is pushed once.
        let lists =
            memory.each_mut().map(|block| unsafe { List::EMPTY.push(NonNull::from(block).cast()) });
        let mut global = Global::new();
        // SAFETY: each list is put once.
        lists.iter().for_each(|&list| _ = unsafe { global.put(list, TARGETS) });
        let kept = &global.full[..global.lists];
        assert!(
            !kept.iter().any(|lot| lists[..GLOBAL_TARGET].contains(&lot.list())),
            "a first one stays"
        );
    }

    /// As many as have so many blocks, those that were put first.
    #[test]
    fn lists_that_were_put_first_go_where_they_are_needed() {
        let mut memory = [[0u64; 2]; 5 * TARGET];
        let mut global = Global::new();
        for block in &mut memory {
            // SAFETY: each block is pushed once, and each list put once.
            let excess =
                unsafe { global.put(List::EMPTY.push(NonNull::from(block).cast()), TARGETS) };
            assert!(excess.is_none());
        }
        let full = global.full;
        let firsts =
            [(0, 0..0), (1, 0..1), (TARGET, 1..2), (TARGET + 1, 2..4), (99, 4..5), (1, 0..0)];
        for (blocks, places) in firsts {
            let taken = global.take_first(blocks, TARGET);
            let taken: Vec<Lot> = taken.iter().flat_map(|lists| lists.iter()).collect();
            assert!(taken.iter().rev().eq(&full[places]), "for {blocks} blocks");
        }
    }

    /// Odd blocks are handed out when there is no full list.
    #[test]
    fn the_bucket_is_the_last_resort() {
        let mut memory = [[0u64; 2]; 4];
        let mut global = Global::new();
        for block in &mut memory {
            // SAFETY: each block is pushed once.
            unsafe { global.put(List::EMPTY.push(NonNull::from(block).cast()), TARGETS) };
        }
        assert_eq!([global.take().len(), global.take().len(), global.take().len()], [3, 1, 0]);
    }
}
