//! Orderings that are too weak, for loom: each a data race between two owners of a frame.

use woodlot_frame::atomics::{AtomicU8, Ordering};

use super::driver;
use crate::form::Form;
use crate::form::sealed::Sealed;
use crate::models::Op::{At, FreeGot};
use crate::models::scenarios::thread;
use crate::models::world::Cells;
use crate::models::{Scenario, Script, Tiny};

/// The one-level form with swaps that order nothing.
#[derive(Clone, Copy)]
struct Unordered;

/// With swaps that acquire only, so that a free publishes nothing.
#[derive(Clone, Copy)]
struct NoRelease;

/// With swaps that release only, so that an allocation sees nothing of the free before.
#[derive(Clone, Copy)]
struct NoAcquire;

macro_rules! weak {
    ($form:ident, $ordering:ident) => {
        impl Sealed for $form {}

        impl Form for $form {
            type Atom = AtomicU8;
            const NAME: &'static str = stringify!($form);
            const LEVELS: u32 = 1;

            fn load(atom: &AtomicU8) -> u64 {
                u64::from(atom.fetch_add(0, Ordering::$ordering))
            }

            fn swap(atom: &AtomicU8, from: u64, to: u64) -> Result<(), u64> {
                let (from, to) = (from as u8, to as u8);
                let swapped =
                    atom.compare_exchange(from, to, Ordering::$ordering, Ordering::Relaxed);
                swapped.map(|_| ()).map_err(u64::from)
            }

            fn store(atom: &AtomicU8, value: u64) {
                atom.store(value as u8, Ordering::Release);
            }
        }

        impl Cells for $form {
            fn cell() -> AtomicU8 {
                AtomicU8::new(0)
            }
        }
    };
}

weak!(Unordered, Relaxed);
weak!(NoRelease, Acquire);
weak!(NoAcquire, Release);

/// One frame for two threads.
const fn one_frame<F: Form>() -> Scenario<Tiny<1>, F> {
    Scenario::new(&[], &[thread!(At(0, 0), FreeGot(0)), thread!(At(0, 0), FreeGot(0))])
}

/// A frame, and the block around it.
const fn two_orders<F: Form>() -> Scenario<Tiny<1>, F> {
    Scenario::new(&[], &[thread!(At(0, 0), FreeGot(0)), thread!(At(0, 2), FreeGot(0))])
}

mutants! {
    one_frame_unordered = one_frame::<Unordered>() => "Causality violation";
    one_frame_not_released = one_frame::<NoRelease>() => "Causality violation";
    one_frame_not_acquired = one_frame::<NoAcquire>() => "Causality violation";
    a_larger_block_not_released = two_orders::<NoRelease>() => "Causality violation";
    a_larger_block_not_acquired = two_orders::<NoAcquire>() => "Causality violation";
}
