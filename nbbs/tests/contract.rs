//! The contract suite on both forms, for every geometry, or with `--cfg woodlot_one_geometry` for that which
//! has the most orders.

use woodlot_frame::Base16K;
#[cfg(not(woodlot_one_geometry))]
use woodlot_frame::{Base4K, Base64K};
use woodlot_nbbs::{Nbbs1, Nbbs4};

woodlot_suite::contract_tests! {
    one_level_base16k: Nbbs1<'static, Base16K>,
    four_levels_base16k: Nbbs4<'static, Base16K>,
}
#[cfg(not(woodlot_one_geometry))]
woodlot_suite::contract_tests! {
    one_level_base4k: Nbbs1<'static, Base4K>,
    one_level_base64k: Nbbs1<'static, Base64K>,
    four_levels_base4k: Nbbs4<'static, Base4K>,
    four_levels_base64k: Nbbs4<'static, Base64K>,
}
