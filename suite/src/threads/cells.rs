//! Each frame has a plain word that its owner writes: what a free and the next allocation of the
//! same frame must be ordered for.
//!
//! There are no owner words here, which would order the threads themselves: a checker of data races
//! (Miri, thread sanitizer) sees an edge that the allocator lacks as a race on the plain word.

use std::cell::UnsafeCell;

use woodlot_frame::{
    Class, Construct, FrameId, Geometry, Init, Order, Owned, Request, Slot, ZoneConfig,
};

use crate::checks::{Geo, rng};

/// The words of a zone's frames.
struct Cells {
    start: FrameId,
    words: Vec<UnsafeCell<u32>>,
}

// SAFETY: only a frame's owner touches its word; that there is one owner at a time is what the
// allocator promises, and what is tested.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(config: &ZoneConfig) -> Self {
        let words = (0..config.frames).map(|_| UnsafeCell::new(0)).collect();
        Self { start: config.start, words }
    }

    /// Writes the words of a block that the caller owns, and returns whether all of them were
    /// `was`.
    fn change(&self, (frame, order): (FrameId, Order), was: u32, to: u32) -> bool {
        let first = frame.0 - self.start.0;
        self.words[first..first + order.frames()].iter().all(|word| {
            // SAFETY: the caller owns the frame.
            let before = unsafe { word.get().replace(to) };
            before == was
        })
    }
}

/// Threads allocate, write, read again and free; each makes so many calls.
pub fn owners_write_their_frames<A: Construct>(config: &ZoneConfig, threads: u32, calls: usize) {
    let zone = Owned::<A>::new(config, Init::Free).expect("the zone is legal");
    let cells = Cells::new(config);
    std::thread::scope(|scope| {
        for me in 1..=threads {
            let (zone, cells) = (&zone, &cells);
            scope.spawn(move || owner::<A>(zone, cells, me, calls));
        }
    });
    assert_eq!(zone.stats().free_frames, config.frames, "someone kept frames");
}

fn owner<A: Construct>(zone: &A, cells: &Cells, me: u32, calls: usize) {
    let mut rng = rng(500 + u64::from(me));
    let (slots, classes) = (zone.zone().slots, zone.classes().count() as u8);
    let max = Geo::<A>::MAX_ORDER as u8;
    let mut blocks = Vec::new();
    let give = |(frame, order): (FrameId, Order), slot| {
        assert!(cells.change((frame, order), me, 0), "{frame} of {order} was written by another");
        zone.free(frame, order, slot).expect("the thread owns it");
    };
    for _ in 0..calls {
        let slot = Slot(rng.usize(..slots));
        match rng.u8(..20) {
            0 => zone.drain(slot).expect("the slot exists"),
            1..=11 => {
                let limit = rng.u8(..=max);
                let order = Order(rng.u8(..=limit));
                let request = Request::new(order, slot).class(Class(rng.u8(..classes)));
                if let Ok(frame) = zone.alloc(request) {
                    assert!(cells.change((frame, order), 0, me), "{frame} of {order} is owned");
                    blocks.push((frame, order));
                }
            }
            _ if blocks.is_empty() => {}
            _ => give(blocks.swap_remove(rng.usize(..blocks.len())), slot),
        }
    }
    blocks.into_iter().for_each(|block| give(block, Slot(0)));
}
