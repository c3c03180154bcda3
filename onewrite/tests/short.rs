//! The short checks with one row a huge frame, and with two. Huge frames are small: under Miri the time goes into frames.

use woodlot_onewrite::OneWrite;
use woodlot_suite::short::Small;

woodlot_suite::short_tests! {
    one_row: OneWrite<'static, Small<4, 2>>,
    two_rows: OneWrite<'static, Small<7, 1>>,
}
