//! The layers under random calls, by one thread and by several, where memory is short, and under wrong calls; judged by
//! a naive model. `WOODLOT_OPS` says how many calls.

mod cpus;
#[cfg(target_os = "linux")]
mod domains;
mod histories;
mod layers;
mod memory;
mod misuse;
mod model;
mod nodes;
mod objects;
mod outside;
mod shortage;
#[cfg(target_os = "linux")]
mod space;
mod threads;
#[cfg(target_os = "linux")]
mod vmblk;

use woodlot_frame::Base4K;

/// The zones that pages come from.
type LLFree = woodlot_llfree::LLFree<'static, Base4K>;
type Nbbs = woodlot_nbbs::Nbbs4<'static, Base4K>;

/// How many calls a test makes.
fn calls(usual: usize) -> usize {
    let said = std::env::var("WOODLOT_OPS").ok().and_then(|calls| calls.parse().ok());
    said.map_or(usual, |calls: usize| usual.min(10 * calls))
}

/// A test on each zone and each set of sizes: a function that is generic in both.
macro_rules! on_all {
    ($check:ident) => {
        mod $check {
            use crate::{LLFree, Nbbs};
            use woodlot_kmem::{Octaves, Quarters, Wide};

            #[test]
            fn llfree_octaves() {
                super::$check::<LLFree, Octaves>();
            }

            #[test]
            fn llfree_quarters() {
                super::$check::<LLFree, Quarters>();
            }

            #[test]
            fn llfree_wide() {
                super::$check::<LLFree, Wide>();
            }

            #[test]
            fn nbbs_octaves() {
                super::$check::<Nbbs, Octaves>();
            }

            #[test]
            fn nbbs_quarters() {
                super::$check::<Nbbs, Quarters>();
            }
        }
    };
}
use on_all;
