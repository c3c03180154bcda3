//! The suite on allocators that are right: nothing may fail.

use woodlot_frame::{Base4K, Base16K, Base64K};
use woodlot_suite::{Limited, Reference};

woodlot_suite::contract_tests! {
    base4k: Reference<Base4K>,
    base16k: Reference<Base16K>,
    base64k: Reference<Base64K>,
    limited64k: Limited<Base64K>,
}
