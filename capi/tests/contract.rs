//! The contract suite through the C interface: each engine with every geometry.

mod through_c;

use woodlot_frame::{Base4K, Base16K, Base64K};
use woodlot_llfree::LLFree;
use woodlot_nbbs::Nbbs4;
use woodlot_onewrite::OneWrite;

use through_c::{CZone, Kind};

macro_rules! kinds {
    ($($kind:ident: $engine:literal, $geometry:literal, $name:literal, $type:ty;)*) => {
        $(#[doc = $name]
        pub struct $kind;

        impl Kind for $kind {
            const NAME: &'static str = $name;
            const ENGINE: u32 = $engine;
            const GEOMETRY: u32 = $geometry;
            type Engine = $type;
        })*
    };
}

kinds! {
    LLFree4K: 0, 0, "llfree, C", LLFree<'static, Base4K>;
    LLFree16K: 0, 1, "llfree, C", LLFree<'static, Base16K>;
    LLFree64K: 0, 2, "llfree, C", LLFree<'static, Base64K>;
    Nbbs4K: 1, 0, "nbbs, C", Nbbs4<'static, Base4K>;
    Nbbs16K: 1, 1, "nbbs, C", Nbbs4<'static, Base16K>;
    Nbbs64K: 1, 2, "nbbs, C", Nbbs4<'static, Base64K>;
    OneWrite4K: 2, 0, "onewrite, C", OneWrite<'static, Base4K>;
    OneWrite16K: 2, 1, "onewrite, C", OneWrite<'static, Base16K>;
    OneWrite64K: 2, 2, "onewrite, C", OneWrite<'static, Base64K>;
}

woodlot_suite::contract_tests! {
    base4k: CZone<LLFree4K>,
    base16k: CZone<LLFree16K>,
    base64k: CZone<LLFree64K>,
    nbbs_base4k: CZone<Nbbs4K>,
    nbbs_base16k: CZone<Nbbs16K>,
    nbbs_base64k: CZone<Nbbs64K>,
    onewrite_base4k: CZone<OneWrite4K>,
    onewrite_base16k: CZone<OneWrite16K>,
    onewrite_base64k: CZone<OneWrite64K>,
}
