//! Damage to the durable bytes of a zone in use: what is recovered must agree with itself.

use woodlot_frame::{Construct, Order, Owned, Request, Slot, ZoneConfig};
use woodlot_suite::checks::recovery::recovered_is_consistent;

use crate::bytes::Bytes;
use crate::zone::{config, init, on_engine};

/// The first byte chooses engine and geometry, some more the zone, what is in use and how it is freed
/// at the end, the others the damage.
pub fn recovery(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    on_engine!(bytes.byte(), recovered(bytes));
}

fn recovered<A: Construct>(mut bytes: Bytes) {
    let config: ZoneConfig = config::<A::Geometry>(&mut bytes);
    let init = init::<A>(&mut bytes);
    let mut zone = Owned::<A>::new(&config, init).expect("the zone is legal");
    let part = Order(bytes.byte() % (Order::max::<A::Geometry>().0 + 1));
    for _ in 0..bytes.byte() % 16 {
        let order = Order(bytes.byte() % 12);
        let class = config.classes.all().next_back().expect("there is a class");
        let _ = zone.alloc(Request::new(order, Slot(0)).class(class));
    }
    damage(zone.durable_bytes(), bytes);
    if let Err(why) = recovered_is_consistent(&mut zone, &config, part) {
        panic!("{config:?}: {why}");
    }
}

/// Runs of bytes are turned over or overwritten; what is left at the end goes over everything.
fn damage(durable: &mut [u8], mut bytes: Bytes) {
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
