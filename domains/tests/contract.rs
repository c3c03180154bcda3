//! The contract suite on domains: one with all frames, and three whose chunks alternate.

mod split;

use split::Split;
use woodlot_domains::Domains;
use woodlot_frame::{Base4K, Base64K};
use woodlot_llfree::LLFree;

woodlot_suite::contract_tests! {
    one_domain_base4k: Domains<'static, LLFree<'static, Base4K>>,
    three_domains_base4k: Split<LLFree<'static, Base4K>>,
    three_domains_base64k: Split<LLFree<'static, Base64K>>,
}
