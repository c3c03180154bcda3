//! The contract suite on a domain that has all frames, or with `--cfg woodlot_one_geometry` on that of one geometry.

use woodlot_domains::Domains;
use woodlot_frame::Base4K;
#[cfg(not(woodlot_one_geometry))]
use woodlot_frame::Base64K;
use woodlot_llfree::LLFree;

woodlot_suite::contract_tests! {
    base4k: Domains<'static, LLFree<'static, Base4K>>,
}
#[cfg(not(woodlot_one_geometry))]
woodlot_suite::contract_tests! {
    base64k: Domains<'static, LLFree<'static, Base64K>>,
}
