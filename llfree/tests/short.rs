//! The short checks on LLFree, for huge frames of two rows and of half a row.

use woodlot_frame::Base64K;
use woodlot_llfree::LLFree;
use woodlot_suite::short::Small;

woodlot_suite::short_tests! {
    two_rows: LLFree<'static, Small<7, 4>>,
    base64k: LLFree<'static, Base64K>,
}
