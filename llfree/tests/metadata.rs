//! How much metadata a zone takes, against the budget: 0.0040 % of the memory, 256 bytes for each
//! slot and class, and 0.0003 % for the index.
//!
//! `cargo test -p woodlot-llfree --test metadata -- --nocapture` prints the figures.

use woodlot_frame::{Base4K, Base16K, Base64K, ClassPolicy, Construct, Geometry, ZoneConfig};
use woodlot_llfree::{LLFree, Parts};

fn within_budget<G: Geometry>() {
    for gibibytes in [1, 8, 128, 1024, 16384] {
        let memory = gibibytes << 30;
        for (slots, classes) in [(2, ClassPolicy::SHIPPED), (128, ClassPolicy::SHIPPED)] {
            let zone = ZoneConfig::new(memory >> G::BASE_SHIFT, slots).with_classes(classes);
            let size = LLFree::<G>::metadata_size(&zone).expect("the zone is legal");
            let [.., masks, leaves, _trees, _children] =
                Parts::lengths::<G>(&zone).expect("the same");
            let index = (masks + leaves) * size_of::<u64>();
            let total = size.durable + size.volatile;
            let percent = |bytes: usize| bytes as f64 * 100.0 / memory as f64;
            println!(
                "{}, {gibibytes} GiB, {slots} slots: {total} bytes, {:.5} %; index {:.6} %",
                G::NAME,
                percent(total),
                percent(index)
            );
            let per_slot = slots * classes.count() * 256;
            assert!(percent(total - index) <= 0.0040 + percent(per_slot), "the words");
            assert!(percent(index) <= 0.0003, "the index");
        }
    }
}

#[test]
fn metadata_is_within_its_budget() {
    within_budget::<Base4K>();
    within_budget::<Base16K>();
    within_budget::<Base64K>();
}
