//! The contract suite for every geometry, or with `--cfg woodlot_one_geometry` for that which has the most orders.

use woodlot_frame::Base16K;
#[cfg(not(woodlot_one_geometry))]
use woodlot_frame::{Base4K, Base64K};
use woodlot_onewrite::OneWrite;

woodlot_suite::contract_tests! {
    base16k: OneWrite<'static, Base16K>,
}
#[cfg(not(woodlot_one_geometry))]
woodlot_suite::contract_tests! {
    base4k: OneWrite<'static, Base4K>,
    base64k: OneWrite<'static, Base64K>,
}
