//! The short checks on both forms, of the one with levels for trees of two groups of words and of three.
//! Roots are small: under Miri the time goes into cells.

use woodlot_nbbs::{Nbbs1, Nbbs4};
use woodlot_suite::short::Small;

woodlot_suite::short_tests! {
    one_level_order_5: Nbbs1<'static, Small<4, 2>>,
    one_level_order_6: Nbbs1<'static, Small<5, 1>>,
    four_levels_two_groups: Nbbs4<'static, Small<4, 2>>,
    four_levels_three_groups: Nbbs4<'static, Small<7, 1>>,
}
