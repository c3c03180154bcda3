//! How long the allocator calls of a replay take.
//!
//! The trace is replayed once more, without a question to the engine in between, and every call is written
//! down. The list is then walked on a fresh allocator,
//! with the same claims, making the same calls and nothing else between them; the clock is read
//! before the first and after the last. What is measured is therefore the calls with the cost of
//! walking the list (12 bytes an entry, in order) and of finding the zone, and without the replay's
//! own bookkeeping between calls, which would push the allocator's words out of the cache. The walk
//! alone is measured as well and shown beside. Frees of failed allocations are not calls;
//! allocations that failed in Linux are.
//!
//! An engine whose answers differ from those of the replay, where nothing ran beside it either, is
//! not deterministic; the count of such answers is kept.

use std::hint::black_box;
use std::time::Instant;

use woodlot_frame::{Base4K, Class, Construct, FrameAllocator, FrameId, InitError, Order, Slot};

use super::manner::Manner;
use super::plan::{Plan, Want};
use super::report::Timing;
use super::zones::Zones;

/// An allocator call, as small as it can be.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What is freed, or what the allocation returned.
    frame: u32,
    slot: u16,
    order: u8,
    class: u8,
    /// [`FREE`], or the zone to allocate from.
    zone: u8,
}

const FREE: u8 = u8::MAX;
const NO_FRAME: u32 = u32::MAX;

impl Call {
    /// An allocation and its result.
    pub fn alloc(want: Want, slot: Slot, result: Option<FrameId>) -> Call {
        let frame = result.map_or(NO_FRAME, |frame| frame.0 as u32);
        let Want { order, class: Class(class), zone } = want;
        Call { frame, slot: slot.0 as u16, order, class, zone }
    }

    /// A free.
    pub fn free(frame: usize, order: u8, slot: Slot) -> Call {
        Call { frame: frame as u32, slot: slot.0 as u16, order, class: 0, zone: FREE }
    }

    /// Makes the call; false where an allocation's answer is another one than in the replay.
    fn make<A: Construct + FrameAllocator<Geometry = Base4K>>(self, zones: &Zones<A>) -> bool {
        let slot = Slot(self.slot.into());
        if self.zone == FREE {
            return zones.free(FrameId(self.frame as usize), Order(self.order), slot).is_ok();
        }
        let want = Want { order: self.order, class: Class(self.class), zone: self.zone };
        zones.alloc(want, slot).map_or(NO_FRAME, |frame| frame.0 as u32) == self.frame
    }
}

/// Makes the calls, of which there are some, again, `rounds` times.
pub fn measure<A: Construct + FrameAllocator<Geometry = Base4K>>(
    plan: &Plan,
    manner: Manner,
    calls: &[Call],
    rounds: u32,
) -> Result<Timing, InitError> {
    let mut ns_per_call = Vec::new();
    let mut ns_walk = f64::INFINITY;
    let mut different = 0;
    for _ in 0..rounds {
        let (zones, _) = Zones::<A>::claimed(plan, manner)?;
        ns_walk = ns_walk.min(per_call(calls, |call| _ = black_box(call)));
        ns_per_call.push(per_call(calls, |call| different += usize::from(!call.make(&zones))));
    }
    ns_per_call.sort_by(f64::total_cmp);
    Ok(Timing { ns_per_call, ns_walk, different })
}

fn per_call(calls: &[Call], mut each: impl FnMut(Call)) -> f64 {
    let started = Instant::now();
    for &call in calls {
        each(call);
    }
    started.elapsed().as_nanos() as f64 / calls.len() as f64
}
