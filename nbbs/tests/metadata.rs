//! How much state a zone takes, against the budget: 2 bytes for each base frame with one node a byte,
//! 1.1 bytes with four levels a word, and two cache lines for each slot.
//!
//! `cargo test -p woodlot-nbbs --test metadata -- --nocapture` prints the figures.

use woodlot_frame::{Base4K, Base16K, Base64K, Construct, FrameAllocator, Geometry, ZoneConfig};
use woodlot_nbbs::{Nbbs1, Nbbs4};

fn within_budget<A: Construct>(bytes: f64) {
    for gibibytes in [1usize, 8, 128, 1024] {
        let frames = (gibibytes << 30) >> <A::Geometry as Geometry>::BASE_SHIFT;
        for slots in [2, 128] {
            let size = A::metadata_size(&ZoneConfig::new(frames, slots)).expect("a legal zone");
            let each = size.durable as f64 / frames as f64;
            println!(
                "{}, {}, {gibibytes} GiB: {each:.4} bytes a frame; {slots} slots: {} bytes",
                A::NAME,
                <A as FrameAllocator>::Geometry::NAME,
                size.volatile
            );
            assert!(each <= bytes, "{each} bytes for each frame");
            assert!(
                size.volatile <= slots * 128 + frames / 64,
                "{} bytes for {slots} slots",
                size.volatile
            );
        }
    }
}

#[test]
fn state_is_within_its_budget() {
    within_budget::<Nbbs1<Base4K>>(2.0);
    within_budget::<Nbbs1<Base16K>>(2.0);
    within_budget::<Nbbs1<Base64K>>(2.0);
    within_budget::<Nbbs4<Base4K>>(1.1);
    within_budget::<Nbbs4<Base16K>>(1.1);
    within_budget::<Nbbs4<Base64K>>(1.1);
}
