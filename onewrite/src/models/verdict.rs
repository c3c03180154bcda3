//! What must hold of a zone: in every state, and when every call has returned.

use std::vec::Vec;

use woodlot_frame::{FrameAllocator, FrameId, Geometry, HugeId, Order, Reclaiming};
#[cfg(woodlot_explore)]
use woodlot_frame::{Request, Slot};

#[cfg(woodlot_explore)]
use super::script::Doing;
use super::script::{State, whole};
use super::world::World;
use super::{Block, Op, std};
use crate::child::{OFFLINE, Part};

/// The threads' calls are under way, or have all returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    #[cfg_attr(woodlot_loom, expect(dead_code, reason = "for the explorer"))]
    UnderWay,
    Returned,
}

impl<G: Geometry> World<G> {
    /// Judges the zone with these threads.
    pub(super) fn judge(&self, states: &[&State], when: When) {
        let owned = self.judge_owners(states);
        for &frame in &owned {
            let free = self.zone.is_free(FrameId(frame), Order::BASE);
            assert!(!free, "frame {frame} is owned, and free");
        }
        self.judge_isolation(states, when);
        self.judge_flags(states);
        if when == When::Returned {
            self.judge_freed(states);
            let stats = self.zone.stats();
            let isolated = self.isolated().flat_map(|huge| whole::<G>(huge).range());
            let empty = isolated.filter(|frame| !owned.contains(frame)).count();
            let counted = (stats.isolated_huge, stats.isolated_frames);
            assert_eq!(counted, (self.isolated().count(), empty), "isolated by the statistics");
            let most = self.scenario.frames - owned.len() - empty;
            let free = stats.free_frames;
            // Of what a wrong free has named nothing is known; nothing else is lost.
            let named: usize = self.strays().iter().map(|block| block.range().len()).sum();
            assert!((most - named..=most).contains(&free), "{free} free frames, not {most}");
            assert_eq!(self.zone.free_frames(), free, "free frames by the counts");
        }
        #[cfg(woodlot_explore)]
        self.judge_crash(&owned, states);
    }

    /// The huge frames that are isolated.
    fn isolated(&self) -> impl Iterator<Item = usize> {
        let all = 0..self.scenario.frames >> G::HUGE_ORDER;
        all.filter(|&huge| self.zone.is_isolated(HugeId(huge)))
    }

    fn is_offline(&self, huge: usize) -> bool {
        Part::whole::<G>(huge).is(self.zone.states(huge), OFFLINE)
    }

    /// What a thread has isolated is isolated, and no other's; in the end nothing else is.
    fn judge_isolation(&self, states: &[&State], when: When) {
        if self.is_ended_by_others() {
            return;
        }
        for huge in 0..self.scenario.frames >> G::HUGE_ORDER {
            let isolators = states.iter().filter(|state| state.isolated.contains(&huge)).count();
            let is = self.zone.is_isolated(HugeId(huge));
            assert!(isolators < 2, "huge frame {huge} has two isolators");
            assert!(is || isolators == 0, "huge frame {huge} is isolated no more");
            let left = is && isolators == 0 && when == When::Returned;
            assert!(!left, "huge frame {huge} stays isolated");
            let both = is && self.is_offline(huge) && when == When::Returned;
            assert!(!both, "huge frame {huge} is isolated and offline");
        }
    }

    /// Who owns a frame may write to it: its huge frame is not zeroed. And what was reclaimed softly is told to one, and is told to whoever gets
    /// it.
    fn judge_flags(&self, states: &[&State]) {
        for huge in 0..self.scenario.frames >> G::HUGE_ORDER {
            let flags = self.zone.flags(HugeId(huge));
            let mut owned = states.iter().flat_map(|state| &state.owned);
            let is_owned = owned.any(|block| block.meets(whole::<G>(huge)));
            assert!(!(is_owned && flags.zeroed), "huge frame {huge} is in use, and zeroed");
            let told = states.iter().filter(|state| state.softly.contains(&huge)).count();
            assert!(told < 2, "huge frame {huge} was reclaimed twice");
            // No script clears the flag.
            assert!(flags.reclaimed || told == 0, "huge frame {huge} is not reclaimed any more");
        }
    }

    /// Blocks that several threads free.
    fn contested(&self) -> Vec<Block> {
        let ops = self.scenario.threads.iter().flat_map(|script| script.ops);
        let mut blocks: Vec<_> = ops
            .filter_map(|op| match *op {
                Op::FreeAgain(at, order) => Some(Block(at, order)),
                _ => None,
            })
            .collect();
        blocks.dedup();
        blocks
    }

    /// Blocks that a thread frees, or brings online, without owning them.
    fn strays(&self) -> Vec<Block> {
        let ops = self.scenario.threads.iter().flat_map(|script| script.ops);
        let stray = ops.filter_map(|op| match *op {
            Op::Stray(at, order) => Some(Block(at, order)),
            _ => None,
        });
        stray.chain(self.anyones()).collect()
    }

    /// No frame has two owners. Returns all frames that are owned, but for those of contested blocks and of blocks that
    /// a wrong free names.
    fn judge_owners(&self, states: &[&State]) -> Vec<usize> {
        let contested = self.contested();
        let mut owned: Vec<Block> = Vec::new();
        for block in states.iter().flat_map(|state| &state.owned) {
            let other = owned.iter().find(|other| other.meets(*block));
            assert!(other.is_none(), "{block:?} and {other:?} are both owned");
            owned.push(*block);
        }
        let background = self.background().into_iter();
        let kept =
            background.filter(|frame| contested.iter().all(|block| !block.range().contains(frame)));
        let named = self.strays();
        let owned = owned.iter().flat_map(|block| block.range()).chain(kept);
        owned.filter(|frame| named.iter().all(|block| !block.range().contains(frame))).collect()
    }

    /// Of several frees of one block one succeeded, and of several calls that bring it online one, if it was out.
    fn judge_freed(&self, states: &[&State]) {
        let times = |block| {
            let freed = states.iter().flat_map(|state| &state.freed);
            freed.filter(|&&freed| freed == block).count()
        };
        for block in self.contested() {
            assert_eq!(times(block), 1, "so often was {block:?} freed");
        }
        for block in self.anyones() {
            assert!(times(block) < 2, "two have brought {block:?} online");
            let is_kept = states.iter().any(|state| state.owned.contains(&block));
            let stays = !is_kept && self.is_offline(block.0 >> G::HUGE_ORDER);
            assert!(!stays, "nobody has brought {block:?} online");
        }
    }

    /// What a recovery finds is what is owned, and what calls under way may have taken.
    #[cfg(woodlot_explore)]
    fn judge_crash(&self, owned: &[usize], states: &[&State]) {
        let recovered = self.after_a_crash();
        let lost = owned.iter().find(|&&frame| recovered.is_free(FrameId(frame), Order::BASE));
        assert!(lost.is_none(), "frame {lost:?} is owned, and free after a crash");
        let flagged = recovered.flagged();
        assert_eq!(flagged.free_zeroed, 0, "a crash has left that something is zeroed");
        let softly: usize = states.iter().map(|state| state.softly.len()).sum();
        assert!(flagged.reclaimed >= softly, "a crash has forgotten what was reclaimed");
        let free = recovered.stats().free_frames;
        assert_eq!(recovered.free_frames(), free, "free frames by the counts after a crash");
        let doing = states.iter().filter_map(|state| state.doing);
        let doubt: usize = doing.map(Doing::frames::<G>).sum();
        let contested = self.contested().into_iter().chain(self.strays());
        let contested: usize = contested.map(|block| 1 << block.1).sum();
        assert!(
            free + owned.len() + doubt + contested >= self.scenario.frames,
            "{free} frames are free after a crash, and {} owned",
            owned.len()
        );
    }

    /// Threads that are in a call die there, none of them in an allocation, and the others go on: the first block that is nobody's is
    /// freed by a survivor, and another one can have it then. A hint that the dead have not taken back hides no more than what they freed.
    #[cfg(woodlot_explore)]
    pub(super) fn survive(&self, states: &[&State]) {
        let frees = |state: &&State| matches!(state.doing, None | Some(Doing::Block(_)));
        let owned: Vec<_> = self.scenario.threads.iter().flat_map(|script| script.owns).collect();
        let mut nobodys = self.scenario.setup.iter().filter(|block| !owned.contains(block));
        if states.iter().all(frees)
            && let Some(&Block(at, order)) = nobodys.next()
        {
            let [one, other] = [1, 2].map(|slot| Slot(self.scenario.slots - slot));
            self.zone.free(FrameId(at), Order(order), one).expect("it is allocated");
            let found = self.zone.alloc(Request::movable(Order(order), other));
            assert!(found.is_ok(), "{at} of order {order} was freed, and is not to be had");
        }
    }

    /// Allocates blocks of `order` until there are no more, and looks that these were all that are free. Only for the
    /// explorer, which forgets it afterwards.
    #[cfg(woodlot_explore)]
    pub(super) fn exhaust(&self, order: u8) {
        let zone = &self.zone;
        let isolated: Vec<_> = self.isolated().collect();
        let blocks = (0..self.scenario.frames).step_by(1 << order).map(FrameId);
        let free = blocks.filter(|&frame| zone.is_free(frame, Order(order))).count();
        assert_eq!(zone.is_available(Order(order)), free > 0, "is order {order} available?");
        let request = Request::movable(Order(order), Slot(0));
        let named = self.strays();
        let taken = std::iter::from_fn(|| zone.alloc(request).ok()).take(free + named.len() + 1);
        let taken: Vec<_> = taken.map(|frame| Block(frame.0, order)).collect();
        let is_isolated =
            |block: &&Block| isolated.iter().any(|&huge| block.meets(whole::<G>(huge)));
        assert_eq!(taken.iter().find(is_isolated), None, "it is of what is isolated");
        // What a wrong free has named while its row was closed may be handed out once more.
        let again = taken.iter().filter(|block| named.iter().any(|named| named.meets(**block)));
        let (again, taken) = (again.count().min(named.len()), taken.len());
        assert!(
            (taken - again.min(taken)..=taken).contains(&free),
            "{free} blocks of order {order} are free, and {taken} can be allocated"
        );
    }
}
