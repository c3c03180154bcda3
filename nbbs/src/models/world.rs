//! A zone with all of its atomics, and who owns what in it at the beginning.

use std::boxed::Box;
use std::vec::Vec;

use woodlot_frame::atomics::{AtomicU8, AtomicU64, Ordering::Relaxed};
use woodlot_frame::{Geometry, Init, ZoneConfig};

use super::{Block, Scenario, std};
use crate::form::Form;
use crate::{Nbbs, Parts};

/// What the threads of a scenario share.
pub(super) struct World<G: Geometry, F: Cells> {
    /// Borrows from the boxes, so it goes first.
    pub(super) zone: Nbbs<'static, G, F>,
    pub(super) cells: Box<[F::Atom]>,
    pub(super) slots: Box<[AtomicU64]>,
    pub(super) spent: Box<[AtomicU8]>,
    pub(super) scenario: Scenario<G, F>,
    /// What the setup has allocated and no thread owns.
    pub(super) background: Vec<Block>,
    /// Read by a thread that makes a pause.
    #[cfg(woodlot_explore)]
    pub(super) pause: AtomicU64,
    /// What the owner of a frame writes to.
    #[cfg(woodlot_loom)]
    frames: Vec<loom::cell::UnsafeCell<Option<usize>>>,
}

/// A form whose cells can be made from nothing.
pub(super) trait Cells: Form {
    fn cell() -> Self::Atom;
    #[cfg(woodlot_explore)]
    fn name(model: &mut woodlot_explore::Model<'_>, cells: &[Self::Atom]);
}

macro_rules! cells {
    ($form:ident, $atom:ident) => {
        impl Cells for crate::$form {
            fn cell() -> Self::Atom {
                woodlot_frame::atomics::$atom::new(0)
            }

            #[cfg(woodlot_explore)]
            fn name(model: &mut woodlot_explore::Model<'_>, cells: &[Self::Atom]) {
                model.name("cell", cells);
            }
        }
    };
}

cells!(OneLevel, AtomicU8);
cells!(FourLevels, AtomicU64);

/// Shares what a box holds for longer than the compiler can see.
///
/// # Safety
/// The box must be kept as long as what is returned is used.
unsafe fn share<T>(of: &[T]) -> &'static [T] {
    // SAFETY: boxes do not move their contents, and the caller keeps this one.
    unsafe { &*std::ptr::from_ref(of) }
}

impl<G: Geometry, F: Cells> World<G, F> {
    /// The zone after the setup.
    pub(super) fn new(scenario: &Scenario<G, F>) -> Self {
        let config = ZoneConfig::new(scenario.roots << G::MAX_ORDER, 1);
        let [cells, words, roots] = Parts::<F>::lengths::<G>(&config).expect("a zone");
        let cells: Box<[F::Atom]> = (0..cells).map(|_| F::cell()).collect();
        let slots: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let spent: Box<[AtomicU8]> = (0..roots).map(|_| AtomicU8::new(0)).collect();
        // SAFETY: the zone is dropped before the boxes, which nobody replaces.
        let parts =
            unsafe { Parts { cells: share(&cells), slots: share(&slots), spent: share(&spent) } };
        let zone = Nbbs::from_parts(&config, parts, Init::Free).expect("a zone");
        let mut world = World {
            zone,
            cells,
            slots,
            spent,
            scenario: *scenario,
            background: Vec::new(),
            #[cfg(woodlot_explore)]
            pause: AtomicU64::new(0),
            #[cfg(woodlot_loom)]
            frames: (0..config.frames).map(|_| loom::cell::UnsafeCell::new(None)).collect(),
        };
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        for &block in self.scenario.setup {
            assert!(self.zone.claim(block.node(), 0), "the setup's blocks are free");
            let owner = |script: &super::Script| script.owns.contains(&block);
            match self.scenario.threads.iter().position(owner) {
                Some(owner) => self.hand_over(block, None, Some(owner)),
                None => self.background.push(block),
            }
        }
    }

    /// The zone as a recovery makes it, in place, from its cells; in all else is anything.
    pub(super) fn after_a_crash(&self) -> Nbbs<'_, G, F> {
        self.slots.iter().for_each(|word| word.store(0xa5a5_a5a5_a5a5_a5a5, Relaxed));
        self.spent.iter().for_each(|byte| byte.store(0xa5, Relaxed));
        let parts = Parts { cells: &self.cells, slots: &self.slots, spent: &self.spent };
        Nbbs::from_parts(&self.zone.zone, parts, Init::Recover).expect("a zone")
    }

    /// A block changes hands: from its owner, or to one.
    #[cfg(woodlot_loom)]
    pub(super) fn hand_over(&self, block: Block, from: Option<usize>, to: Option<usize>) {
        // Of a large block the first frames of each half will do.
        let half = 1 << block.1.saturating_sub(1);
        for frame in block.range().filter(|frame| frame % half < 2) {
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
