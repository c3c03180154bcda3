//! The short checks on both forms, for trees of two groups of words and of three. Roots are small: under
//! Miri the time goes into cells.
#![cfg(not(any(loom, woodlot_explore)))]

use woodlot_nbbs::{Nbbs1, Nbbs4};
use woodlot_suite::short::Small;

woodlot_suite::short_tests! {
    one_level_two_groups: Nbbs1<'static, Small<4, 2>>,
    one_level_three_groups: Nbbs1<'static, Small<7, 1>>,
    four_levels_two_groups: Nbbs4<'static, Small<4, 2>>,
    four_levels_three_groups: Nbbs4<'static, Small<7, 1>>,
}
