//! A little of everything, on zones of a few hundred frames: what Miri and the sanitizers run, to
//! which each step is expensive. `WOODLOT_OPS` says how many calls.

use woodlot_frame::{FrameId, Geometry, ZoneConfig};

use crate::checks::{random, recovery};
use crate::engine::Engine;
use crate::settings::{ops, seed};
use crate::threads::cells::{self, Hands};

/// A geometry with huge frames of 2^`H` base frames and trees of `T` huge frames.
#[derive(Clone, Copy, Debug)]
pub struct Small<const H: u32, const T: usize>;

impl<const H: u32, const T: usize> Geometry for Small<H, T> {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = H;
    const NAME: &'static str = "small";
    const TREE_HUGE: usize = T;
}

/// Random calls on a ragged zone.
pub fn random_calls(engine: Engine) {
    let config = ZoneConfig::new(2 * engine.huge_frames + 5, 2).starting_at(FrameId(3));
    random::random_calls_on(engine, &config, seed());
}

/// Threads write the frames that they own, where memory is short.
pub fn owners_write_their_frames(engine: Engine) {
    let config =
        ZoneConfig::new(engine.huge_frames + 2, 2).starting_at(FrameId(engine.huge_frames - 1));
    cells::owners_write_their_frames(engine, &config, 3, ops(), Hands::Own);
}

/// The same in a zone of more than a tree, where others free what they have written.
pub fn owners_of_more_than_a_tree(engine: Engine) {
    let config = ZoneConfig::new(engine.tree_frames + engine.huge_frames / 2, 3);
    cells::owners_write_their_frames(engine, &config, 3, ops(), Hands::Change);
}

/// Recovery of every kind of garbage.
pub fn garbage_becomes_a_consistent_zone(engine: Engine) {
    let config =
        ZoneConfig::new(engine.huge_frames / 2 + 7, 2).starting_at(FrameId(engine.huge_frames - 9));
    recovery::garbage_in(engine, &config, 700);
}

/// Makes the short checks tests, for each named engine: `name: Type<Geometry>, …`.
#[macro_export]
macro_rules! short_tests {
    ($($name:ident: $engine:ty),+ $(,)?) => {
        $(mod $name {
            #[allow(unused_imports)]
            use super::*;

            const ENGINE: $crate::Engine = $crate::Engine::of::<$engine>();
            $crate::short_tests! { @
                random_calls, owners_write_their_frames, owners_of_more_than_a_tree,
                garbage_becomes_a_consistent_zone
            }
        })+
    };
    (@ $($check:ident),+) => {
        $(#[test]
        fn $check() {
            $crate::short::$check(ENGINE);
        })+
    };
}
