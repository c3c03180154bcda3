//! What must hold of a zone, whatever it was recovered from.

use woodlot_frame::{Batch, FrameId, FreeError, Geometry, Order, Request, Slot};

use crate::judge::Found;
use crate::subject::Subject;

/// Of zones above this, only one image of some has everything allocated and freed.
const SMALL: usize = 4096;
const SOME: u64 = 16;

/// How all frames of a zone with these words are tried, if they are.
pub fn is_tried(words: &[u64], frames: usize) -> Option<u64> {
    let sum = words.iter().fold(0u64, |sum, word| sum.rotate_left(7) ^ word);
    let seed = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (frames <= SMALL || seed.is_multiple_of(SOME)).then_some(seed)
}

/// Which frames are allocated or offline.
pub fn look<A: Subject>(zone: &A) -> Found {
    let frames = || (0..zone.zone().frames).map(|frame| FrameId(zone.zone().start.0 + frame));
    let offline = |frame| zone.can_free(frame, Order(0), Slot(0)) == Err(FreeError::Offline(frame));
    Found {
        allocated: frames().map(|frame| !zone.is_free(frame, Order(0))).collect(),
        offline: frames().map(offline).collect(),
        reclaimed: frames()
            .map(|frame| zone.flags(frame.huge::<A::Geometry>()).reclaimed)
            .collect(),
        named: zone.named(),
    }
}

/// Do all counts agree with the bits?
pub fn counts_agree<A: Subject>(zone: &A, found: &Found) -> Result<(), String> {
    let frames = <A::Geometry as Geometry>::HUGE_FRAMES;
    let free = found.allocated.iter().filter(|&&allocated| !allocated).count();
    let (stats, quick) = (zone.stats(), zone.free_frames());
    let huge = |first: usize| {
        let block = found.allocated.get(first..first + frames);
        block.is_some_and(|block| !block.contains(&true))
    };
    let start = zone.zone().start.0;
    let first = start.next_multiple_of(frames) - start;
    let free_huge = (first..zone.zone().frames).step_by(frames).filter(|&first| huge(first));
    let offline = found.offline.iter().filter(|&&offline| offline).count() / frames;
    let due = (free, free, free_huge.count(), offline);
    let said = (stats.free_frames, quick, stats.free_huge, stats.offline_huge);
    if said == due { Ok(()) } else { Err(format!("counts {said:?}, by the bits {due:?}")) }
}

/// Allocates every free frame, and nothing else.
pub fn take_everything<A: Subject>(zone: &A, found: &Found, seed: u64) -> Result<(), String> {
    let mut taken = found.allocated.clone();
    let mut take = |frame: FrameId, order: Order| {
        let first = frame.0 - zone.zone().start.0;
        taken[first..first + order.frames()].iter_mut().try_for_each(|taken| {
            if std::mem::replace(taken, true) {
                Err(format!("frame {frame} has two owners"))
            } else {
                Ok(())
            }
        })
    };
    let slot = Slot(seed as usize % zone.zone().slots);
    if !seed.is_multiple_of(3) {
        // Large blocks first; otherwise base frames break every huge frame.
        for order in Order::all::<A::Geometry>().rev() {
            while let Ok(frame) = zone.alloc(Request::movable(order, slot)) {
                take(frame, order)?;
            }
        }
    }
    let mut some = [FrameId(0); 32];
    while let Ok(count) = zone.alloc_batch(Request::movable(Order(0), slot), Batch::UpTo, &mut some)
    {
        some[..count].iter().try_for_each(|&frame| take(frame, Order(0)))?;
    }
    match taken.iter().filter(|&&taken| !taken).count() {
        0 => Ok(()),
        left => Err(format!("{left} free frames cannot be allocated")),
    }
}

/// Frees every frame, each alone.
pub fn free_everything<A: Subject>(zone: &A, found: &Found) -> Result<(), String> {
    let start = zone.zone().start.0;
    for (frame, _) in found.offline.iter().enumerate().filter(|&(_, &offline)| !offline) {
        let freed = zone.free(FrameId(start + frame), Order(0), Slot(frame % zone.zone().slots));
        freed.map_err(|why| format!("frame +{frame} cannot be freed: {why}"))?;
    }
    let all = found.offline.iter().filter(|&&offline| !offline).count();
    let free = zone.stats().free_frames;
    if free == all { Ok(()) } else { Err(format!("{free} of {all} frames are free in the end")) }
}
