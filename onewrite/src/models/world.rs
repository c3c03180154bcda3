//! A zone with all of its atomics, and who owns what in it at the beginning.

use std::boxed::Box;
use std::vec::Vec;

#[cfg(woodlot_explore)]
use woodlot_frame::atomics::Ordering::Relaxed;
use woodlot_frame::atomics::{AtomicU16, AtomicU64};
use woodlot_frame::{
    FrameAllocator, FrameId, Geometry, HugeFlags, HugeId, Init, Order, Reclaiming, Request, Slot,
    ZoneConfig,
};

use super::script::whole;
use super::{Block, Op, Scenario, std};
use crate::{Lengths, OneWrite, Parts};

/// What the threads of a scenario share.
pub(super) struct World<G: Geometry> {
    /// Borrows from the boxes, so it goes first.
    pub(super) zone: OneWrite<'static, G>,
    #[cfg_attr(
        woodlot_loom,
        expect(dead_code, reason = "kept for the zone, which borrows from them")
    )]
    pub(super) words: Words,
    pub(super) scenario: Scenario,
    /// A bit for each huge frame: somebody has isolated it, and knows.
    pub(super) isolated: AtomicU64,
    /// What the owner of a frame writes to.
    #[cfg(woodlot_loom)]
    frames: Vec<loom::cell::UnsafeCell<Option<usize>>>,
}

/// The atomics.
pub(super) struct Words {
    pub(super) rows: Box<[AtomicU64]>,
    pub(super) states: Box<[AtomicU64]>,
    pub(super) flags: Box<[AtomicU64]>,
    pub(super) slots: Box<[AtomicU64]>,
    pub(super) trees: Box<[AtomicU64]>,
    pub(super) hints: Box<[AtomicU16]>,
}

/// Shares what a box holds for longer than the compiler can see.
///
/// # Safety
/// The box must be kept as long as what is returned is used.
unsafe fn share<T>(of: &[T]) -> &'static [T] {
    // SAFETY: boxes do not move their contents, and the caller keeps this one.
    unsafe { &*std::ptr::from_ref(of) }
}

impl<G: Geometry> World<G> {
    /// The zone after the setup.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let config = ZoneConfig::new(scenario.frames, scenario.slots);
        let lengths = Lengths::of::<G>(&config).expect("a zone");
        let some = |count| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[AtomicU64]>>();
        let words = Words {
            rows: some(lengths.rows),
            states: some(lengths.states),
            flags: some(lengths.flags),
            slots: some(lengths.slots),
            trees: some(lengths.trees),
            hints: (0..lengths.hints).map(|_| AtomicU16::new(0)).collect(),
        };
        // SAFETY: the zone is dropped before the boxes, which nobody replaces.
        let parts = unsafe {
            Parts {
                rows: share(&words.rows),
                states: share(&words.states),
                flags: share(&words.flags),
                slots: share(&words.slots),
                trees: share(&words.trees),
                hints: share(&words.hints),
            }
        };
        let zone = OneWrite::from_parts(&config, parts, Init::Free).expect("a zone");
        let world = World {
            zone,
            words,
            scenario: *scenario,
            isolated: AtomicU64::new(0),
            #[cfg(woodlot_loom)]
            frames: (0..config.frames).map(|_| loom::cell::UnsafeCell::new(None)).collect(),
        };
        world.set_up();
        world
    }

    fn set_up(&self) {
        for &Block(at, order) in self.scenario.setup {
            let request = Request::movable(Order(order), Slot(0)).at(FrameId(at));
            self.zone.alloc(request).expect("the setup's blocks are free");
        }
        for (owner, script) in self.scenario.threads.iter().enumerate() {
            script.owns.iter().for_each(|&block| self.hand_over(block, None, Some(owner)));
            for &huge in script.isolated {
                self.zone.isolate(HugeId(huge), 1).expect("it is in the zone");
            }
            for &huge in script.zeroed {
                self.zone.set_flags(HugeId(huge), HugeFlags::ZEROED).expect("it is allocated");
            }
        }
    }

    /// Huge frames that are brought online by whoever has not taken them out.
    pub(super) fn anyones(&self) -> Vec<Block> {
        let ops = self.scenario.threads.iter().flat_map(|script| script.ops);
        let anyones = ops.filter_map(|op| match *op {
            Op::OnlineAnyones(huge) => Some(whole::<G>(huge)),
            _ => None,
        });
        anyones.collect()
    }

    /// Does a thread end isolations that it has not begun?
    pub(super) fn is_ended_by_others(&self) -> bool {
        let mut ops = self.scenario.threads.iter().flat_map(|script| script.ops);
        ops.any(|op| matches!(op, Op::EndAnyones(_)))
    }

    /// What is allocated at the beginning and no thread's.
    pub(super) fn background(&self) -> Vec<usize> {
        let owned = |frame: &usize| {
            let mut all = self.scenario.threads.iter().flat_map(|script| script.owns);
            all.any(|block| block.range().contains(frame))
        };
        let setup = self.scenario.setup.iter().flat_map(|block| block.range());
        setup.filter(|frame| !owned(frame)).collect()
    }

    /// The zone as a recovery makes it, in place, from rows, their states and flags; in all else is anything.
    #[cfg(woodlot_explore)]
    pub(super) fn after_a_crash(&self) -> OneWrite<'_, G> {
        let Words { rows, states, flags, slots, trees, hints } = &self.words;
        let volatile = slots.iter().chain(trees);
        volatile.for_each(|word| word.store(0xa5a5_a5a5_a5a5_a5a5, Relaxed));
        hints.iter().for_each(|hint| hint.store(0xa5a5, Relaxed));
        let parts = Parts { rows, states, flags, slots, trees, hints };
        OneWrite::from_parts(self.zone.zone(), parts, Init::Recover).expect("a zone")
    }

    /// A block changes hands: from its owner, or to one.
    #[cfg(woodlot_loom)]
    pub(super) fn hand_over(&self, block: Block, from: Option<usize>, to: Option<usize>) {
        // Of a large block the first frame of each half of a row will do.
        for frame in block.range().filter(|frame| frame % 32 == 0 || block.1 < 5) {
            self.frames[frame].with_mut(|owner| {
                // SAFETY: loom checks that nobody else is at the cell.
                let before = unsafe { std::mem::replace(&mut *owner, to) };
                assert_eq!(before, from, "frame {frame} has another owner");
            });
        }
    }

    #[cfg(not(woodlot_loom))]
    pub(super) fn hand_over(&self, _: Block, _: Option<usize>, _: Option<usize>) {}
}
