//! What must hold of a zone: in every state, and when every call has returned.

use std::vec::Vec;

use woodlot_frame::{
    FrameAllocator, FrameId, Geometry, HugeId, Order, Persistence, Reclaiming, Slot,
};

use super::frames::{Block, Doing, Frames};
use super::machine::Level;
use super::script::State;
use super::world::{Recovered, World};
use super::{Law, Op, std};
use crate::End;
use crate::index::{Kind, Places};
use crate::state::Phase;
use crate::tree::{Tree, quarters};

/// The threads' calls are under way, or have all returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    UnderWay,
    Returned,
}

impl<G: Geometry, P: Persistence> World<G, P> {
    /// Judges the zone with these threads.
    pub(super) fn judge(&self, states: &[&State], when: When) {
        let (level, law) = (self.scenario.machine.level, self.scenario.law);
        let credits = when == When::Returned || law == Law::Kept;
        if credits && level != Level::Index {
            self.judge_children(states, when);
        }
        if credits && level == Level::Zone {
            self.judge_trees(when);
        }
        if when == When::Returned && level != Level::Lower {
            self.judge_index();
        }
        if when == When::Returned && level == Level::Zone {
            self.judge_statistics();
            self.judge_news(states);
        }
        if level == Level::Zone {
            self.judge_flags(states, when);
        }
        match (level, law) {
            // No frames stand behind what the index says.
            (Level::Index, _) => {}
            // Whose the frames are nobody can say; a recovery must fit together all the same.
            (_, Law::FreedByOthers) => _ = self.recovered(),
            _ => self.judge_owners(states, when),
        }
        if P::INTENTS && when == When::Returned {
            self.judge_records(states);
        }
    }

    /// The record of each slot names the last operation of its thread.
    fn judge_records(&self, states: &[&State]) {
        for (state, script) in states.iter().zip(self.scenario.threads) {
            let Some((operation, frames)) = state.last else { continue };
            let last = self.zone.last_operation(Slot(script.at)).expect("there was an operation");
            let mut named = Frames::default();
            for run in self.zone.frames_of(last) {
                named = named.or(Frames::of(run.start.0..run.start.0 + run.count));
            }
            let said = (last.operation, last.end, named);
            assert_eq!(said, (operation, End::Whole, frames), "the record of slot {}", script.at);
        }
    }

    fn huge_frames(&self) -> std::ops::Range<usize> {
        0..self.scenario.frames >> G::HUGE_ORDER
    }

    /// Credits held of a huge frame.
    fn held(&self, huge: usize) -> usize {
        let words = self.zone.reservations().map(|word| self.zone.read(word));
        let held = words.filter(|now| now.is_some() && now.huge_index() == huge);
        held.map(|now| now.held()).sum()
    }

    /// Who owns a frame may write to it: its huge frame is not zeroed. And what was reclaimed softly is told to one
    /// caller.
    fn judge_flags(&self, states: &[&State], when: When) {
        for huge in self.huge_frames() {
            let frames = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER).frames();
            let writes = |state: &&State| !frames.and(state.owned.but(state.offline)).is_empty();
            let zeroed = self.zone.flags(HugeId(huge)).zeroed;
            assert!(
                !zeroed || !states.iter().any(writes),
                "huge frame {huge} is in use, and zeroed"
            );
            let told = states.iter().filter(|state| !frames.and(state.softly).is_empty()).count();
            let again = self.scenario.threads.iter().any(|script| script.ops.contains(&Op::Give));
            let fits = told < 2 || again || when == When::UnderWay;
            assert!(fits, "huge frame {huge} was reclaimed {told} times");
        }
    }

    /// Who asked for news when fewer huge frames were free has some.
    fn judge_news(&self, states: &[&State]) {
        let free =
            || (0..self.words.trees.len()).map(|tree| self.zone.lower.count_whole(tree)).sum();
        for (news, counted) in states.iter().filter_map(|state| state.asked) {
            let free: usize = free();
            let told = free <= counted || self.zone.has_news(news);
            assert!(told, "{free} huge frames are free, {counted} were, and nobody is told");
        }
    }

    /// A child never promises more than its bits hold, and in the end all of it; one that is not
    /// split promises nothing, and one that promises everything is closed by whoever sees to it.
    fn judge_children(&self, states: &[&State], when: When) {
        for huge in self.huge_frames() {
            let lower = &self.zone.lower;
            let mine = |state: &&&State| state.credits.0 == huge;
            let moved: usize = states.iter().filter(mine).map(|state| state.credits.1).sum();
            let isolated = lower.isolated_credits(huge);
            let claimed = lower.phase(huge) != Phase::Split && isolated == Some(G::HUGE_FRAMES);
            // Who has just claimed it is about to take them.
            let isolated = isolated.filter(|_| !claimed || when == When::Returned);
            let counted = isolated.unwrap_or_else(|| lower.credits(huge));
            assert!(
                counted < G::HUGE_FRAMES || isolated == Some(G::HUGE_FRAMES),
                "huge frame {huge} has all credits and is not closed"
            );
            self.judge_isolation(states, when, huge);
            let credits = counted + self.held(huge) + moved;
            let free = match lower.phase(huge) {
                Phase::Split => lower.rows(huge, lower.polarity(huge)).count_free(),
                _ => 0,
            };
            let fits = credits == free || when == When::UnderWay && credits < free;
            assert!(fits, "huge frame {huge} has {credits} credits for {free} free frames");
        }
    }

    /// What a thread has isolated is split. In the end no reservation holds credits of it, and nothing else is isolated.
    fn judge_isolation(&self, states: &[&State], when: When, huge: usize) {
        let frames = Block(huge << G::HUGE_ORDER, G::HUGE_ORDER).frames();
        let isolators = states.iter().filter(|state| !frames.and(state.isolated).is_empty());
        let isolators = isolators.count();
        let (lower, held) = (&self.zone.lower, self.held(huge));
        if when == When::Returned {
            let is = lower.is_isolated(huge);
            assert!(!is || held == 0, "{held} credits of {huge} are held, which is isolated");
        }
        if matches!(self.scenario.law, Law::EndedByOthers | Law::FreedByOthers) {
            return;
        }
        assert!(isolators < 2, "huge frame {huge} has two isolators");
        if isolators == 1 {
            let split = lower.is_isolated(huge) && lower.phase(huge) == Phase::Split;
            assert!(split, "huge frame {huge} is isolated, and {:?}", lower.phase(huge));
        }
        if when == When::Returned {
            let is = lower.is_isolated(huge);
            assert_eq!(is, isolators == 1, "huge frame {huge}: is it isolated?");
        }
    }

    /// What a tree says of its children is so at the end, but that a child of which it says that
    /// it has credits may have none. Who reserves it has it in a reservation, or will.
    fn judge_trees(&self, when: When) {
        for tree in 0..self.words.trees.len() {
            let entry = self.zone.tree(tree);
            let words = self.zone.reservations().map(|word| self.zone.read(word));
            let owners = words.filter(|now| now.owns(tree)).count();
            let reserved = entry.is_reserved() as usize;
            let fits = owners == reserved || when == When::UnderWay && owners < reserved;
            assert!(fits, "{owners} reservations of tree {tree}, {entry:?}");
            if when == When::UnderWay {
                continue;
            }
            let first = tree * G::TREE_HUGE;
            let mut sum = 0;
            for huge in self.huge_frames().filter(|huge| huge / G::TREE_HUGE == tree) {
                let credits = self.zone.lower.credits(huge);
                let told = entry.children() >> (huge - first) & 1 != 0;
                assert!(
                    told || credits == 0,
                    "tree {tree} does not know of child {huge}: {entry:?}"
                );
                sum += quarters::<G>(credits);
            }
            assert_eq!(entry.0 >> 48, sum, "the quarters of tree {tree}: {entry:?}");
        }
    }

    /// Every tree that has something to find is found by the first search for it: each looks into a
    /// copy of its own, since it heals what it comes upon.
    fn judge_index(&self) {
        for kind in Kind::ALL {
            for tree in 0..self.words.trees.len() {
                let is = self.zone.look_at(tree);
                if is.is_of(kind) {
                    let look = |tree| self.zone.look_at(tree);
                    let this =
                        |found: usize, now: Tree| (found == tree && now == is.tree).then_some(());
                    let places = Places::of(is.tree.class());
                    let copy = self.words.copy_of_index();
                    let index = copy.index::<G>(self.scenario.classes);
                    let found = index.search(kind, places, 0, look, this);
                    assert!(found.is_some(), "tree {tree} is lost to the index: {is:?}, {kind:?}");
                }
            }
        }
    }

    /// What the zone says of itself is what the bits say.
    fn judge_statistics(&self) {
        let frees = self.huge_frames().map(|huge| self.zone.free_in_huge(HugeId(huge)));
        let frees: Vec<usize> = frees.collect();
        let free = frees.iter().sum();
        // What was freed while another call was allocating it is counted by one of the two.
        if self.scenario.counts_exactly() && self.scenario.law != Law::FreedByOthers {
            assert_eq!(self.zone.free_frames(), free, "the approximate count, of slots apart");
        }
        let stats = self.zone.stats();
        assert_eq!(stats.free_frames, free, "frames by stats and by bits");
        let huge = frees.iter().filter(|&&free| free == G::HUGE_FRAMES).count();
        assert_eq!(stats.free_huge, huge, "huge frames by stats and by bits");
        let offline = |&huge: &usize| self.zone.lower.phase(huge) == Phase::Offline;
        let offline = self.huge_frames().filter(offline).count();
        assert_eq!(stats.offline_huge, offline, "offline by stats and by states");
        let isolated = self.huge_frames().filter_map(|huge| self.zone.lower.isolated_credits(huge));
        let isolated = isolated.fold((0, 0), |(huge, all), credits| (huge + 1, all + credits));
        let counted = (stats.isolated_huge, stats.isolated_frames);
        assert_eq!(counted, isolated, "isolated by stats and by counters");
        assert_eq!(self.zone.free_frames(), free, "the approximate count, healed");
        for order in [0, G::HUGE_ORDER, G::MAX_ORDER] {
            let is = self.is_anywhere(order);
            assert_eq!(self.zone.is_available(Order(order as u8)), is, "availability of {order}");
        }
    }

    fn is_anywhere(&self, order: u32) -> bool {
        let zone = &self.zone;
        let free = |at: usize| zone.is_free(FrameId(at), Order(order as u8));
        (0..self.scenario.frames).step_by(1 << order).any(free)
    }

    /// Frames that several threads free.
    fn contested(&self) -> Frames {
        let ops = self.scenario.threads.iter().flat_map(|script| script.ops);
        ops.fold(Frames::default(), |all, op| match *op {
            Op::FreeAgain(frame, order) => all.or(Block(frame, order).frames()),
            _ => all,
        })
    }

    /// No frame has two owners, and the durable words say what is owned: up to one operation of
    /// each thread when calls are under way.
    fn judge_owners(&self, states: &[&State], when: When) {
        let mut owned = self.background;
        for (number, state) in states.iter().enumerate() {
            let twice = owned.and(state.owned);
            assert!(twice.is_empty(), "thread {number} shares {twice:?}");
            owned = owned.or(state.owned);
        }
        let contested = self.contested();
        let mut freed = Frames::default();
        for block in states.iter().flat_map(|state| &state.freed) {
            let twice = freed.and(block.frames());
            assert!(twice.is_empty(), "freed twice: {twice:?}");
            freed = freed.or(block.frames());
        }
        if when == When::Returned && !contested.is_empty() {
            assert!(!freed.is_empty(), "of several frees of {contested:?} none succeeded");
        }
        let found = self.recovered();
        let recovered = found.allocated.but(contested);
        let owned = owned.but(contested);
        let lost = owned.but(recovered);
        assert!(lost.is_empty(), "owned, but not in the durable words: {lost:?}");
        let mut more = recovered.but(owned);
        if P::INTENTS {
            // What is about to be freed its owner knows.
            let doing = states.iter().flat_map(|state| &state.doing);
            let giving = doing.fold(Frames::default(), |all, doing| match doing {
                Doing::Giving(block) => all.or(block.frames()),
                _ => all,
            });
            let lost = more.but(found.whole).but(found.cut_off).but(giving);
            assert!(lost.is_empty(), "allocated, nobody's, and not named: {lost:?}");
            // Of an operation that was cut off the write in doubt is left, and nothing else.
            more = more.but(found.cut_off);
        }
        let mut doing: Vec<_> = states.iter().flat_map(|state| state.doing.clone()).collect();
        let torn = |order: u32| !P::INTENTS && (7..G::HUGE_ORDER).contains(&order);
        let explained = more.explained(&mut doing, torn);
        assert!(explained, "owned by nobody: {more:?} in the durable words, {states:?}");
    }

    /// What a recovery from the durable words says is allocated. It is run as after a crash at this moment,
    /// once for what the durable words have ever been, and must yield a zone in which everything fits
    /// together.
    #[cfg(woodlot_explore)]
    fn recovered(&self) -> Recovered {
        let durable = self.words.durable();
        if let Some(&known) = self.recoveries.borrow().get(&durable) {
            return known;
        }
        let recovered = self.after_a_crash();
        recovered.judge_children(&[], When::Returned);
        recovered.judge_trees(When::Returned);
        recovered.judge_index();
        let free = self.huge_frames().map(|huge| recovered.zone.lower.count_free(huge)).sum();
        assert_eq!(recovered.zone.free_frames(), free, "the recovery counts what the bits say");
        recovered.judge_statistics();
        let found = recovered.found();
        self.recoveries.borrow_mut().insert(durable, found);
        found
    }

    #[cfg(not(woodlot_explore))]
    fn recovered(&self) -> Recovered {
        self.found()
    }

    /// What the states and the bits say is allocated, and what the records name.
    fn found(&self) -> Recovered {
        let mut found = Recovered::default();
        for frame in 0..self.scenario.frames {
            let (huge, offset) = self.zone.locate(FrameId(frame));
            if !self.zone.lower.is_free(huge, offset, 0) {
                found.allocated.insert(frame);
            }
        }
        for last in self.zone.last_operations() {
            let cut_off = last.end == End::CutOff;
            let named = if cut_off { &mut found.cut_off } else { &mut found.whole };
            for run in self.zone.frames_of(last) {
                *named = named.or(Frames::of(run.start.0..run.start.0 + run.count));
            }
        }
        found
    }

    /// Allocates blocks of `order` until there are no more, and looks that this is so. Only for
    /// the explorer, which forgets it afterwards.
    #[cfg(woodlot_explore)]
    pub(super) fn exhaust(&self, order: u32, slot: usize) {
        let mut taken = 0;
        let alloc = || (self.scenario.machine.alloc)(&self.zone, Self::request(order, slot));
        while let Some(frame) = alloc() {
            taken += 1;
            let mut frames = (frame.0..frame.0 + (1 << order)).map(FrameId);
            let huge = |frame| self.zone.locate(frame).0;
            let isolated = frames.find(|&frame| self.zone.lower.is_isolated(huge(frame)));
            assert_eq!(isolated, None, "a frame of an isolated huge frame is handed out");
            assert!(taken <= self.scenario.frames, "more allocated than there is");
        }
        let left = self.is_anywhere(order);
        assert!(!left, "a block of order {order} is free, but slot {slot} does not get it");
    }
}
