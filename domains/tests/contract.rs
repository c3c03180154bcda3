//! The contract suite on domains of which one has all frames, and on that domain alone; with `--cfg woodlot_one_geometry` on
//! domains of one geometry.
//!
//! A giant frame of 1 GiB would be larger than most zones of the suite. So base frames are so large here that four huge frames
//! are one: as many in each geometry, and otherwise these are those of `Base4K` and `Base64K`.

use woodlot_domains::Domains;
#[cfg(not(woodlot_one_geometry))]
use woodlot_domains::OneDomain;
use woodlot_frame::Geometry;
use woodlot_llfree::LLFree;

/// 512 base frames are a huge frame, and four of these 1 GiB.
#[derive(Clone, Copy)]
struct Huge512;

impl Geometry for Huge512 {
    const BASE_SHIFT: u32 = 19;
    const HUGE_ORDER: u32 = 9;
    const NAME: &'static str = "512 KiB base, 256 MiB huge (order 9)";
}

/// The same of 32 base frames.
#[cfg(not(woodlot_one_geometry))]
#[derive(Clone, Copy)]
struct Huge32;

#[cfg(not(woodlot_one_geometry))]
impl Geometry for Huge32 {
    const BASE_SHIFT: u32 = 23;
    const HUGE_ORDER: u32 = 5;
    const NAME: &'static str = "8 MiB base, 256 MiB huge (order 5)";
}

woodlot_suite::contract_tests! {
    huge512: Domains<'static, LLFree<'static, Huge512>>,
}
#[cfg(not(woodlot_one_geometry))]
woodlot_suite::contract_tests! {
    huge32: Domains<'static, LLFree<'static, Huge32>>,
    // Where the two differ, the geometry makes no difference.
    one_huge32: OneDomain<'static, LLFree<'static, Huge32>, Box<Domains<'static, LLFree<'static, Huge32>>>>,
}
