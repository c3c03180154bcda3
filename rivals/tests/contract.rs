//! The contract suite on both Linux allocators, for every geometry.

use woodlot_frame::{Base4K, Base16K, Base64K};
use woodlot_rivals::{LinuxBuddy, LinuxBuddyNoPcp};

woodlot_suite::contract_tests! {
    linux_base4k: LinuxBuddy<Base4K>,
    linux_base16k: LinuxBuddy<Base16K>,
    linux_base64k: LinuxBuddy<Base64K>,
    no_pcp_base4k: LinuxBuddyNoPcp<Base4K>,
    no_pcp_base16k: LinuxBuddyNoPcp<Base16K>,
    no_pcp_base64k: LinuxBuddyNoPcp<Base64K>,
}
