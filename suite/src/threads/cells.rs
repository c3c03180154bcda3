//! Each frame has a plain word that its owner writes: what a free and the next allocation of the
//! same frame must be ordered for.
//!
//! There are no owner words here, which would order the threads themselves: a checker of data races
//! (Miri, thread sanitizer) sees an edge that the allocator lacks as a race on the plain word. Where
//! blocks change hands, the hand-over orders two of the threads, and the frees are by others.

use std::cell::UnsafeCell;
use std::sync::Mutex;

use woodlot_frame::{Class, FrameId, Init, Order, Request, Slot, ZoneConfig};

use crate::checks::rng;
use crate::engine::{Allocator, Engine};

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

/// A block, and the number of the thread that wrote its words last.
type Written = (FrameId, Order, u32);

/// Whether threads free what others allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hands {
    /// Each frees its own: nothing but the allocator orders them.
    Own,
    /// Blocks are left to whoever comes next, which orders those two as well.
    Change,
}

/// Threads allocate, write, read again and free; each makes so many calls.
pub fn owners_write_their_frames(
    engine: Engine,
    config: &ZoneConfig,
    threads: u32,
    calls: usize,
    hands: Hands,
) {
    let zone = engine.zone(config, Init::Free).expect("the zone is legal");
    let cells = Cells::new(config);
    let left = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for me in 1..=threads {
            let (zone, cells) = (&zone, &cells);
            let left = (hands == Hands::Change).then_some(&left);
            scope.spawn(move || owner(engine, zone.allocator(), cells, me, calls, left));
        }
    });
    let left = left.into_inner().expect("no thread has failed");
    left.into_iter().for_each(|block| give(zone.allocator(), &cells, block, Slot(0)));
    assert_eq!(zone.allocator().stats().free_frames, config.frames, "someone kept frames");
}

fn owner(
    engine: Engine,
    zone: &dyn Allocator,
    cells: &Cells,
    me: u32,
    calls: usize,
    left: Option<&Mutex<Vec<Written>>>,
) {
    let mut rng = rng(500 + u64::from(me));
    let (slots, classes) = (zone.zone().slots, zone.classes().count() as u8);
    let max = engine.max_order.0;
    let mut blocks = Vec::new();
    for _ in 0..calls {
        let slot = Slot(rng.usize(..slots));
        match rng.u8(..20) {
            0 => zone.drain(slot).expect("the slot exists"),
            kind @ 1..=11 => {
                let limit = rng.u8(..=max);
                let order = Order(rng.u8(..=limit));
                let mut request = Request::new(order, Class(rng.u8(..classes)), slot);
                if kind == 1 && !engine.unsupported.exact_frame {
                    let frame = cells.start.0 + rng.usize(..cells.words.len());
                    request = request.at(FrameId(frame & !(order.frames() - 1)));
                }
                if let Ok(frame) = zone.alloc(request) {
                    assert!(cells.change((frame, order), 0, me), "{frame} of {order} is owned");
                    blocks.push((frame, order, me));
                }
            }
            _ if blocks.is_empty() => {}
            kind => {
                let own = blocks.swap_remove(rng.usize(..blocks.len()));
                let others = left.filter(|_| kind < 16).map(|left| {
                    let mut left = left.lock().expect("no thread has failed");
                    left.push(own);
                    let any = rng.usize(..left.len());
                    left.swap_remove(any)
                });
                give(zone, cells, others.unwrap_or(own), slot);
            }
        }
    }
    blocks.into_iter().for_each(|block| give(zone, cells, block, Slot(0)));
}

/// Frees a block that is the caller's, and what its last owner wrote.
fn give(zone: &dyn Allocator, cells: &Cells, (frame, order, by): Written, slot: Slot) {
    assert!(cells.change((frame, order), by, 0), "{frame} of {order} was written by another");
    zone.free(frame, order, slot).expect("the thread owns it");
}
