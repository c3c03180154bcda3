//! Damage to the durable bytes of a zone in use: what is recovered must agree with itself.

use woodlot_frame::{Order, Request, Slot};
use woodlot_suite::Engine;
use woodlot_suite::checks::recovery::recovered_is_consistent;

use crate::bytes::Bytes;
use crate::zone::{config, engine, init};

/// The first byte chooses engine and geometry, some more the zone, what is in use and how it is freed
/// at the end, the others the damage.
pub fn recovery(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    recovered(engine(&mut bytes), bytes);
}

/// One damaged zone of this engine.
pub fn recovered(engine: Engine, mut bytes: Bytes) {
    let config = config(engine, &mut bytes);
    let init = init(engine, &mut bytes);
    let mut zone = engine.zone(&config, init).expect("the zone is legal");
    let part = Order(bytes.byte() % (engine.max_order.0 + 1));
    for _ in 0..bytes.byte() % 16 {
        let order = Order(bytes.byte() % 12);
        let class = config.classes.all().next_back().expect("there is a class");
        let _ = zone.allocator().alloc(Request::new(order, class, Slot(0)));
    }
    zone.edit_durable(&mut |durable| damage(durable, &mut bytes));
    if let Err(why) = recovered_is_consistent(engine, &mut *zone, &config, part) {
        panic!("{config:?}: {why}");
    }
}

/// Runs of bytes are turned over or overwritten; what is left at the end goes over everything.
fn damage(durable: &mut [u8], bytes: &mut Bytes) {
    let len = durable.len();
    for _ in 0..bytes.byte() % 32 {
        let at = bytes.below(len);
        let (value, kind) = (bytes.byte(), bytes.byte());
        let end = len.min(at + 1 + usize::from(kind >> 2));
        for byte in &mut durable[at..end] {
            *byte = if kind & 1 == 0 { *byte ^ value } else { value };
        }
    }
    if bytes.byte() & 1 == 1 {
        let pattern = bytes.rest();
        durable.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, value)| *byte = *value);
    }
}
