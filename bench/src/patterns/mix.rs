//! Orders as a real load asks for them: how often the shipped build trace allocates each.

use std::sync::OnceLock;

use woodlot_frame::Order;
use woodlot_trace::{EventKind, Source, shipped};

use crate::Failure;
use crate::random::Random;

/// Which shipped trace.
const TRACE: &str = "build";
/// Orders 0 to 9: what fits into a huge frame.
const ORDERS: usize = 10;

/// How often each order is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mix {
    /// How often that order or a lower one comes among [`all`](Self::all) allocations.
    up_to: [usize; ORDERS],
}

impl Mix {
    /// As the trace allocates: by the ordinary path, and with success.
    ///
    /// # Errors
    /// The trace that ships cannot be read, which is a defect.
    pub(super) fn of_build() -> Result<&'static Mix, Failure> {
        static MIX: OnceLock<Result<Mix, Failure>> = OnceLock::new();
        MIX.get_or_init(read).as_ref().map_err(Failure::clone)
    }

    /// Of one order alone.
    #[cfg(test)]
    pub(super) fn only(order: Order) -> Mix {
        Mix { up_to: std::array::from_fn(|up_to| usize::from(up_to >= order.0.into())) }
    }

    fn all(&self) -> usize {
        self.up_to[ORDERS - 1]
    }

    /// The orders that come.
    pub(super) fn orders(&self) -> impl Iterator<Item = Order> + '_ {
        let orders = (0..ORDERS).filter(|&order| {
            self.up_to[order] > order.checked_sub(1).map_or(0, |below| self.up_to[below])
        });
        orders.map(|order| Order(order as u8))
    }

    /// The next order.
    pub(super) fn draw(&self, random: &mut Random) -> Order {
        let number = random.below(self.all().max(1));
        Order(self.up_to.iter().filter(|&&up_to| up_to <= number).count() as u8)
    }
}

fn read() -> Result<Mix, Failure> {
    let failed = |why: String| Failure::Failed(format!("the trace {TRACE}: {why}"));
    let shipped = shipped().into_iter().find(|shipped| shipped.name == TRACE);
    let shipped = shipped.ok_or_else(|| failed("is not there".into()))?;
    let trace = shipped.trace().map_err(|error| failed(error.to_string()))?;
    let mut counts = [0; ORDERS];
    for event in &trace.events {
        if let EventKind::Alloc { pfn: Some(_), order, source: Source::Page, .. } = event.kind
            && let Some(count) = counts.get_mut(usize::from(order))
        {
            *count += 1;
        }
    }
    let mut sum = 0;
    let up_to = counts.map(|count| {
        sum += count;
        sum
    });
    if sum == 0 { Err(failed("allocates nothing".into())) } else { Ok(Mix { up_to }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_drawn_as_often_as_the_trace_allocates_them() {
        let (mix, mut random) = (Mix::of_build().unwrap(), Random::new(1));
        let orders: Vec<Order> = mix.orders().collect();
        assert!(orders.contains(&Order(0)) && orders.contains(&Order(9)), "{orders:?}");
        let mut drawn = [0usize; ORDERS];
        let draws = 1 << 18;
        (0..draws).for_each(|_| drawn[usize::from(mix.draw(&mut random).0)] += 1);
        let mut sum = 0;
        for (order, drawn) in drawn.into_iter().enumerate() {
            sum += drawn;
            let expected = mix.up_to[order] as f64 / mix.all() as f64;
            let found = sum as f64 / draws as f64;
            assert!((found - expected).abs() < 0.01, "order {order}: {found}, not {expected}");
        }
    }

    #[test]
    fn one_order_alone_is_drawn_always() {
        let (mix, mut random) = (Mix::only(Order(3)), Random::new(1));
        assert_eq!(mix.orders().collect::<Vec<_>>(), [Order(3)]);
        assert!((0..100).all(|_| mix.draw(&mut random) == Order(3)));
    }
}
