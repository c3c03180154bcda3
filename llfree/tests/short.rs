//! A little of everything on LLFree, on zones of a few hundred frames: what Miri and the sanitizers
//! run, to which each step is expensive. `WOODLOT_OPS` says how many calls.
#![cfg(not(any(loom, woodlot_explore)))]

use woodlot_frame::{Base64K, FrameId, Geometry, ZoneConfig};
use woodlot_llfree::LLFree;

/// Huge frames of two rows, trees of four huge frames.
#[derive(Clone, Copy)]
struct TwoRows;

impl Geometry for TwoRows {
    const BASE_SHIFT: u32 = 12;
    const HUGE_ORDER: u32 = 7;
    const NAME: &'static str = "huge frames of two rows";
    const TREE_HUGE: usize = 4;
}

macro_rules! short_tests {
    ($($name:ident: $geometry:ty),+) => {
        $(mod $name {
            use super::*;
            use woodlot_suite::{checks, settings, threads};

            type Engine = LLFree<'static, $geometry>;
            const HUGE: usize = <$geometry>::HUGE_FRAMES;

            #[test]
            fn random_calls() {
                let config = ZoneConfig::new(2 * HUGE + 5, 2).starting_at(FrameId(3));
                checks::random::random_calls_on::<Engine>(&config, settings::seed());
            }

            #[test]
            fn owners_write_their_frames() {
                let config = ZoneConfig::new(HUGE + 2, 2).starting_at(FrameId(HUGE - 1));
                let calls = settings::ops();
                threads::cells::owners_write_their_frames::<Engine>(&config, 3, calls);
            }

            #[test]
            fn owners_of_more_than_a_tree() {
                let config = ZoneConfig::new(<$geometry>::TREE_FRAMES + HUGE / 2, 3);
                let calls = settings::ops();
                threads::cells::owners_write_their_frames::<Engine>(&config, 3, calls);
            }

            #[test]
            fn garbage_becomes_a_consistent_zone() {
                let config = ZoneConfig::new(HUGE / 2 + 7, 2).starting_at(FrameId(HUGE - 9));
                checks::recovery::garbage_in::<Engine>(&config, 700);
            }
        })+
    };
}

short_tests! {
    two_rows: TwoRows,
    base64k: Base64K
}
