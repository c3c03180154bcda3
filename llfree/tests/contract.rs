//! The contract suite on LLFree, for every geometry.
#![cfg(not(any(loom, woodlot_explore)))]

use woodlot_frame::{Base4K, Base16K, Base64K};
use woodlot_llfree::LLFree;

woodlot_suite::contract_tests! {
    base4k: LLFree<'static, Base4K>,
    base16k: LLFree<'static, Base16K>,
    base64k: LLFree<'static, Base64K>,
}
