//! The contract suite on domains: one with all frames, for every geometry.

use woodlot_domains::Domains;
use woodlot_frame::{Base4K, Base16K, Base64K};
use woodlot_llfree::LLFree;

woodlot_suite::contract_tests! {
    base4k: Domains<'static, LLFree<'static, Base4K>>,
    base16k: Domains<'static, LLFree<'static, Base16K>>,
    base64k: Domains<'static, LLFree<'static, Base64K>>,
}
