//! A zone with all of its words, and who owns what in it at the beginning.

use std::boxed::Box;
#[cfg(woodlot_explore)]
use std::cell::RefCell;
#[cfg(woodlot_explore)]
use std::collections::HashMap;
use std::vec::Vec;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{ClassPolicy, Geometry, Init, Persistence, Request, Slot, ZoneConfig};

use super::frames::{Block, Frames};
use super::script::Thread;
use super::{Scenario, Script, std};
use crate::index::Index;
use crate::{LLFree, Line, Parts, RecordLine, TreeStates, Tuning};

/// What the threads of a scenario share.
pub(super) struct World<G: Geometry, P: Persistence> {
    /// Borrows from `words`, so it goes first.
    pub(super) zone: LLFree<'static, G, P>,
    pub(super) words: Words,
    pub(super) scenario: Scenario<G, P>,
    /// What the setup has allocated and no thread owns.
    pub(super) background: Frames,
    /// Read by a thread that makes a pause.
    #[cfg(woodlot_explore)]
    pub(super) pause: AtomicU64,
    /// A bit for each huge frame: somebody has isolated it, and knows.
    pub(super) isolated: AtomicU64,
    /// What recoveries have yielded, by the durable words that they began from.
    #[cfg(woodlot_explore)]
    pub(super) recoveries: RefCell<HashMap<Vec<u64>, Recovered>>,
    /// What the owner of a frame writes to.
    #[cfg(woodlot_loom)]
    cells: Vec<loom::cell::UnsafeCell<Option<usize>>>,
}

/// What a recovery finds, or would.
#[derive(Clone, Copy, Default)]
pub(super) struct Recovered {
    pub(super) allocated: Frames,
    /// With intents: the frames that records name, of operations that are whole and of those that were cut off.
    pub(super) whole: Frames,
    pub(super) cut_off: Frames,
}

/// The words of a zone.
pub(super) struct Words {
    rows: Box<[AtomicU64]>,
    states: Box<[TreeStates]>,
    totals: Box<[AtomicU64]>,
    slots: Box<[AtomicU64]>,
    masks: Box<[AtomicU64]>,
    leaves: Box<[AtomicU64]>,
    pub(super) trees: Box<[Line<AtomicU64>]>,
    children: Box<[AtomicU32]>,
    intents: Box<[RecordLine]>,
}

/// The words of an index, as they were at some time.
pub(super) struct CopyOfIndex {
    masks: Vec<AtomicU64>,
    leaves: Vec<AtomicU64>,
}

impl CopyOfIndex {
    pub(super) fn index<G: Geometry>(&self, classes: ClassPolicy) -> Index<'_, G> {
        Index::new(&self.masks, &self.leaves, classes.count())
    }
}

/// # Safety
/// The words must outlive what is made of them. Boxes do not move their contents.
unsafe fn forever<W>(words: &[W]) -> &'static [W] {
    // SAFETY: as the caller promises.
    unsafe { &*std::ptr::from_ref(words) }
}

impl Words {
    fn new<G: Geometry, P: Persistence>(zone: &ZoneConfig) -> Self {
        let lengths = Parts::lengths::<G>(zone).expect("a zone");
        let [rows, states, totals, slots, masks, leaves, trees, children] = lengths;
        let intents = Parts::records::<P>(zone).expect("a zone");
        let zero = || AtomicU64::new(0);
        let long = |length: usize| (0..length).map(|_| zero()).collect();
        Words {
            rows: long(rows),
            states: (0..states).map(|_| Line([zero(), zero(), zero(), zero()])).collect(),
            totals: long(totals),
            slots: long(slots),
            masks: long(masks),
            leaves: long(leaves),
            trees: (0..trees).map(|_| Line(zero())).collect(),
            children: (0..children).map(|_| AtomicU32::new(0)).collect(),
            intents: (0..intents).map(|_| Line([(); 4].map(|()| [zero(), zero()]))).collect(),
        }
    }

    /// # Safety
    /// The words must outlive what is made of the parts.
    unsafe fn parts(&self) -> Parts<'static> {
        // SAFETY: the caller keeps the boxes.
        unsafe {
            Parts {
                rows: forever(&self.rows),
                states: forever(&self.states),
                totals: forever(&self.totals),
                slots: forever(&self.slots),
                masks: forever(&self.masks),
                leaves: forever(&self.leaves),
                trees: forever(&self.trees),
                children: forever(&self.children),
                intents: forever(&self.intents),
            }
        }
    }

    /// What is in the words that are left after a crash.
    #[cfg(woodlot_explore)]
    pub(super) fn durable(&self) -> Vec<u64> {
        let states = self.states.iter().flat_map(|line| &line.0);
        let records = self.intents.iter().flat_map(|line| line.as_flattened());
        let words = self.rows.iter().chain(states).chain(records);
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// The words that are left after a crash; in the others is anything.
    #[cfg(woodlot_explore)]
    fn after_a_crash(&self) -> Words {
        let copy = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        let forgotten = || AtomicU64::new(0xa5a5_a5a5_a5a5_a5a5);
        let any = |words: &[AtomicU64]| words.iter().map(|_| forgotten()).collect();
        Words {
            rows: self.rows.iter().map(copy).collect(),
            states: self.states.iter().map(|line| Line(line.0.each_ref().map(copy))).collect(),
            totals: any(&self.totals),
            slots: any(&self.slots),
            masks: any(&self.masks),
            leaves: any(&self.leaves),
            trees: self.trees.iter().map(|_| Line(forgotten())).collect(),
            children: self.children.iter().map(|_| AtomicU32::new(0xa5a5_a5a5)).collect(),
            intents: {
                let line =
                    |line: &RecordLine| line.0.each_ref().map(|pair| pair.each_ref().map(copy));
                self.intents.iter().map(|of| Line(line(of))).collect()
            },
        }
    }

    pub(super) fn copy_of_index(&self) -> CopyOfIndex {
        let copy = |words: &[AtomicU64]| {
            let values = words.iter().map(|word| word.load(Ordering::Relaxed));
            values.map(AtomicU64::new).collect()
        };
        CopyOfIndex { masks: copy(&self.masks), leaves: copy(&self.leaves) }
    }

    /// What the words are called in a schedule.
    #[cfg(woodlot_explore)]
    pub(super) fn name(&self, model: &mut woodlot_explore::Model<'_>) {
        model.name("row", &self.rows);
        model.name("total", &self.totals);
        model.name("slot", &self.slots);
        model.name("mask", &self.masks);
        model.name("leaf", &self.leaves);
        model.name("child", &self.children);
        for (line, words) in self.intents.iter().enumerate() {
            model.name(&std::format!("record line {line}"), words.as_flattened());
        }
        for (tree, states) in self.states.iter().enumerate() {
            model.name(&std::format!("states of tree {tree}"), &states.0);
        }
        for (tree, entry) in self.trees.iter().enumerate() {
            model.name(&std::format!("tree[{tree}]"), std::slice::from_ref(&entry.0));
        }
    }
}

impl<G: Geometry, P: Persistence> Scenario<G, P> {
    fn config(&self) -> ZoneConfig {
        let &Scenario { frames, slots, classes, room, .. } = self;
        ZoneConfig::new(frames, slots).with_classes(classes).with_record_room(room)
    }
}

impl<G: Geometry, P: Persistence> World<G, P> {
    /// The zone after the setup.
    pub(super) fn new(scenario: &Scenario<G, P>) -> Self {
        let mut world = World::start(scenario, Words::new::<G, P>(&scenario.config()), Init::Free);
        world.set_up();
        world
    }

    /// The zone as a recovery makes it from what a crash leaves now.
    #[cfg(woodlot_explore)]
    pub(super) fn after_a_crash(&self) -> Self {
        World::start(&self.scenario, self.words.after_a_crash(), Init::Recover)
    }

    fn start(scenario: &Scenario<G, P>, words: Words, init: Init) -> Self {
        let mut tuning = Tuning::DEFAULT;
        tuning.reserve_after_frees = scenario.machine.reserve_after_frees;
        // SAFETY: the zone is dropped before the words, which nobody replaces.
        let parts = unsafe { words.parts() };
        World {
            zone: {
                let persistence = P::detect().expect("it is there everywhere");
                let config = scenario.config();
                LLFree::persistent_from_parts(&config, tuning, persistence, parts, init)
                    .expect("a zone")
            },
            words,
            scenario: *scenario,
            background: Frames::default(),
            #[cfg(woodlot_explore)]
            pause: AtomicU64::new(0),
            isolated: AtomicU64::new(0),
            #[cfg(woodlot_explore)]
            recoveries: RefCell::default(),
            #[cfg(woodlot_loom)]
            cells: (0..scenario.frames).map(|_| loom::cell::UnsafeCell::new(None)).collect(),
        }
    }

    fn set_up(&mut self) {
        let mut owned = Frames::default();
        for &(at, ref op) in self.scenario.setup {
            let script = Script { at, owns: &[], ops: std::slice::from_ref(op) };
            owned = Thread::new(self, usize::MAX, &script, owned).run().owned;
        }
        for (number, script) in self.scenario.threads.iter().enumerate() {
            let mine = script.start();
            assert_eq!(mine.but(owned), Frames::default(), "thread {number} owns what is free");
            owned = owned.but(mine);
            for &block in script.owns {
                self.hand_over(block, Some(usize::MAX), Some(number));
            }
        }
        self.background = owned;
    }

    /// A block changes hands: from its owner, or to one.
    #[cfg(woodlot_loom)]
    pub(super) fn hand_over(&self, block: Block, from: Option<usize>, to: Option<usize>) {
        if self.scenario.law == super::Law::FreedByOthers {
            return;
        }
        // Of a row of 64 frames the first ones will do.
        for frame in block.range().filter(|frame| frame % 64 < 8) {
            self.cells[frame].with_mut(|owner| {
                // SAFETY: loom checks that nobody else is at the cell.
                let before = unsafe { std::mem::replace(&mut *owner, to) };
                assert_eq!(before, from, "frame {frame} has another owner");
            });
        }
    }

    #[cfg(not(woodlot_loom))]
    pub(super) fn hand_over(&self, _: Block, _: Option<usize>, _: Option<usize>) {}

    /// A request on a slot, of class 0.
    pub(super) fn request(order: u32, slot: usize) -> Request {
        Request::movable(woodlot_frame::Order(order as u8), Slot(slot))
    }
}
