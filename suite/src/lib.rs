//! The contract suite: one set of tests for every engine of the family.
//!
//! An engine calls [`contract_tests!`] in its `tests/contract.rs`, and every check becomes a test
//! of its own for every geometry:
//!
//! ```ignore
//! woodlot_suite::contract_tests! {
//!     base4k: LLFree<Base4K>,
//!     base16k: LLFree<Base16K>,
//!     base64k: LLFree<Base64K>,
//! }
//! ```
//!
//! ```text
//!   checks, threads    what is tried            random, or every case there is
//!   Checked, Arena     engine and judge in      one after the other, or with an owner word
//!                      lock step                per frame
//!   Engine             what is tested           a value that has the engine's calls behind it
//!   Model              the judge                one byte per frame, nothing clever
//! ```
//!
//! Engines that reclaim call `reclaim_tests!` in their `tests/flags.rs` as well.
//!
//! What an engine declares away in `FrameAllocator::UNSUPPORTED` must be refused as such, and the
//! rest must work. [`settings`] says which environment variables there are; a failure prints one
//! line that replays it. [`mutants`] holds the defects that the suite is known to catch.

/// The example of PORTING.md, compiled and run with the documentation's tests. The crates that PORTING.md is
/// about are published without that page.
#[cfg(doctest)]
#[doc = include_str!("../../PORTING.md")]
struct Porting;

pub mod checked;
pub mod checks;
pub mod engine;
pub mod judge;
pub mod model;
pub mod mutants;
pub mod reclaim;
pub mod reference;
pub mod settings;
pub mod short;
pub mod threads;
pub mod validate;
pub mod zones;

pub use checked::Checked;
pub use engine::Engine;
pub use model::{Model, State};
pub use reference::{Limited, Reference};

/// A check by name, for any engine.
pub type Check = (&'static str, fn(Engine));

/// Calls the macro in the first brackets with the list of all checks, as
/// `[arguments] kind::module: check, check; …`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_checks {
    ([$($then:tt)+] $($argument:tt)*) => {
        $($then)+! { [$($argument)*]
            checks::orders: one_block_of_every_order, every_order_fills_the_zone,
                mixed_orders_fill_the_zone, pairs_leave_nothing_behind, frees_in_every_pattern;
            checks::ragged: ragged_zones_are_used_to_the_last_frame,
                small_zones_are_used_frame_by_frame, a_large_zone_is_used_frame_by_frame,
                ragged_zones_begin_allocated, frames_beyond_the_ends_are_out_of_range,
                zones_near_the_end_of_the_number_space, holes_are_never_handed_out;
            checks::exhaustion: the_last_block_is_found_from_every_slot_and_class,
                trees_held_by_other_slots_are_found, frames_freed_by_other_slots_are_found,
                the_last_exact_fit_is_used, more_slots_than_memory, scattered_frames_are_found,
                drains_lose_nothing;
            checks::errors: bad_requests_are_refused, bad_exact_frames_are_refused,
                bad_frees_are_refused, double_frees_are_refused,
                too_large_an_order_releases_nothing, one_free_frame_protects_the_block,
                half_a_largest_block_stays_owned, bad_huge_frames_are_refused,
                random_wrong_frees_change_nothing;
            checks::exact: every_block_can_be_claimed, a_frame_in_use_refuses_the_blocks_around_it,
                claims_and_allocations_mix, the_last_block_can_be_claimed,
                offline_frames_cannot_be_claimed;
            checks::partial: every_order_in_every_smaller_order,
                random_parts_return_and_come_back, small_blocks_are_freed_together,
                boot_memory_is_freed_in_every_order, a_split_frees_only_the_part;
            checks::batches: batches_of_every_order, batches_larger_than_the_zone, exact_batches,
                a_batch_of_frees_stops_at_the_first_error, a_batch_with_a_block_twice,
                batches_one_by_one;
            checks::ranges: runs_of_every_length, the_only_run_is_found, runs_lie_where_they_are_asked_for,
                blocks_lie_where_they_are_asked_for, small_runs_spare_free_huge_frames,
                runs_across_used_huge_frames,
                runs_at_a_frame, boot_memory_is_handed_over_by_ranges,
                a_run_is_freed_whole_or_not_at_all, bad_runs_are_refused;
            checks::offline: every_huge_frame_goes_and_comes_back,
                offline_frames_are_never_handed_out, whole_trees_go_and_come_back,
                ranges_are_taken_all_or_none, used_huge_frames_stay, everything_offline;
            checks::isolation: whatever_it_is_used_as_nobody_gets_a_frame,
                frees_go_on_and_what_is_empty_is_claimed, half_of_the_largest_block_is_not_available,
                ranges_are_isolated_all_or_none,
                what_slots_hold_is_isolated, exact_requests_are_refused,
                bad_isolations_are_refused, a_recovery_forgets_isolation;
            checks::recovery: ragged_zones_are_recovered, allocated_zones_are_recovered,
                splits_are_recovered, offline_frames_are_recovered,
                garbage_becomes_a_consistent_zone;
            checks::classes: classes_are_kept_apart_as_memory_fills,
                immovable_blocks_do_not_settle_among_movable_ones,
                classes_are_kept_apart_while_there_is_room,
                classes_are_kept_apart_on_one_slot, every_class_may_take_the_last_frame,
                statistics_by_class_sum_up;
            checks::statistics: counts_are_exact_after_every_call, availability_near_exhaustion,
                the_largest_order_needs_an_aligned_pair, drained_statistics,
                free_blocks_are_counted, the_map_of_huge_frames;
            checks::init: bad_zones_are_refused, many_slots_and_classes_work,
                bad_metadata_is_refused_and_untouched, dirty_metadata_is_as_good_as_new,
                metadata_sizes_are_sensible;
            checks::random: random_calls_agree_with_the_model,
                random_calls_are_the_same_for_the_same_seed;
            checks::unsupported: missing_abilities_are_said;
            threads::stress: nobody_owns_a_frame_twice,
                nobody_owns_a_frame_twice_when_memory_is_short, large_blocks_under_stress,
                single_frames_under_stress, batches_under_stress, claims_under_stress,
                slots_of_their_own_count_exactly;
            threads::drains: a_thread_drains_while_others_allocate, slots_steal_from_each_other,
                statistics_while_others_allocate;
            threads::hotplug: huge_frames_go_and_come_back_while_others_allocate,
                a_huge_frame_goes_offline_once;
            threads::isolators: huge_frames_are_isolated_while_others_allocate,
                a_huge_frame_is_isolated_once;
            threads::claims: each_block_is_claimed_once, claims_of_different_sizes_race;
            threads::runs: runs_race_with_blocks, runs_race_for_one_place;
            threads::frees: shares_of_one_block_are_freed_at_once,
                the_first_free_of_a_part_races_with_the_second, of_two_racing_frees_one_succeeds,
                every_free_is_remote;
            threads::last: more_threads_than_blocks, one_frame_for_all;
        }
    };
}

macro_rules! list {
    ([] $($kind:ident :: $module:ident: $($check:ident),*;)*) => {
        vec![$($((
            concat!(stringify!($module), "::", stringify!($check)),
            $crate::$kind::$module::$check as fn(Engine),
        ),)*)*]
    };
}

/// Every check of the suite, by name.
pub fn all() -> Vec<Check> {
    with_checks!([list])
}

#[doc(hidden)]
#[macro_export]
macro_rules! as_tests {
    ([] $($kind:ident :: $module:ident: $($check:ident),*;)*) => {
        $(mod $module {
            $(#[test]
            fn $check() {
                $crate::$kind::$module::$check(super::ENGINE);
            })*
        })*
    };
}

/// Makes every check a test, for each named engine: `name: Type<Geometry>, …`. The test is then
/// called `name::module::check`.
#[macro_export]
macro_rules! contract_tests {
    ($($name:ident: $engine:ty),+ $(,)?) => {
        $(mod $name {
            #[allow(unused_imports)]
            use super::*;
            const ENGINE: $crate::Engine = $crate::Engine::of::<$engine>();
            $crate::with_checks! { [$crate::as_tests] }
        })+
    };
}
