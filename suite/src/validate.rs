//! Comparison of a whole zone with the model, frame by frame, when no call is in flight.

use std::ops::Range;

use woodlot_frame::{FrameId, HugeId, Order, Stats};

use crate::engine::Allocator;
use crate::judge::Judged;
use crate::model::{Model, State};

/// How far [`Allocator::free_frames`] may be from the truth when no call is in flight.
///
/// It is only "about" right, and the contract does not say by how much. The suite's rule: it is
/// exact as long as calls came one at a time, and where each thread had slots of its own, because
/// nothing can have been lost then. Where threads shared a slot an engine may have lost counts (a
/// plain counter per slot is enough for it), but not for ever: after a call of
/// [`Allocator::stats`], which is always exact, it is right again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// Every call so far returned before the next one began.
    Sequential,
    /// Calls ran at the same time, but never two on one slot.
    OwnSlots,
    /// Calls ran at the same time, on the same slots.
    SharedSlots,
}

macro_rules! agree {
    ($what:expr, $is:expr, $should:expr) => {
        if $is != $should {
            return Err(format!("{} is {:?}, but should be {:?}", $what, $is, $should));
        }
    };
}

/// Compares the counts: cheap enough for every few calls.
///
/// # Errors
/// The first difference.
pub fn counts(a: &dyn Allocator, model: &Model, history: History) -> Judged {
    let zone = model.config();
    agree!("the zone", a.zone(), zone);
    agree!("the class policy", a.classes(), &zone.classes);

    // Before stats(), which may put an approximate count right.
    let about = a.free_frames();
    if about > zone.frames {
        return Err(format!("free_frames() is {about} in a zone of {}", zone.frames));
    }
    if history != History::SharedSlots {
        agree!("free_frames()", about, model.free_frames());
    }

    let stats = a.stats();
    agree!("stats().free_frames", stats.free_frames, model.free_frames());
    agree!("stats().free_huge", stats.free_huge, model.free_huge_frames().count());
    agree!("stats().offline_huge", stats.offline_huge, model.offline_huge_frames().count());
    agree!("stats().isolated_huge", stats.isolated_huge, model.isolated_huge_frames().count());
    agree!("stats().isolated_frames", stats.isolated_frames, model.kept_frames());
    class_sums(a, &stats, model)?;

    agree!("free_frames() after stats()", a.free_frames(), model.free_frames());
    availability(a, model)
}

fn class_sums(a: &dyn Allocator, stats: &Stats, model: &Model) -> Judged {
    let zone = model.config();
    let sum = |count: fn(&woodlot_frame::ClassStats) -> usize| -> usize {
        stats.classes.iter().map(count).sum()
    };
    agree!("the sum of free frames by class", sum(|c| c.free_frames), stats.free_frames);
    agree!("the sum of free huge frames by class", sum(|c| c.free_huge), stats.free_huge);
    let classes = if model.unsupported.classes { 1 } else { zone.classes.count() };
    let beyond = &stats.classes[classes..];
    if beyond.iter().any(|class| *class != Default::default()) {
        return Err(format!("classes that do not exist have counts: {:?}", stats.classes));
    }
    // Trees may be counted from frame 0, or from the first block of the largest order. Not every engine has
    // trees.
    let trees = sum(|c| c.trees);
    let from =
        |block: usize| (zone.end().0 - zone.start.0 / block * block).div_ceil(a.tree_frames());
    let right = [a.tree_frames(), model.pair_order().frames()].map(from);
    if !right.contains(&trees) && (trees > 0 || !model.unsupported.classes) {
        return Err(format!("the classes have {trees} trees, but should have one of {right:?}"));
    }
    Ok(())
}

fn availability(a: &dyn Allocator, model: &Model) -> Judged {
    for order in model.orders() {
        let is = model.has_free_block(order);
        agree!(format!("is_available({order})"), a.is_available(order), is);
    }
    for order in [model.max_order().0 + 1, 63, 64, 127, 128, 255].map(Order) {
        agree!(format!("is_available({order})"), a.is_available(order), false);
    }
    Ok(())
}

/// Compares everything, frame by frame.
///
/// # Errors
/// The first difference.
pub fn everything(a: &dyn Allocator, model: &Model, history: History) -> Judged {
    model.recount();
    blocks(a, model, model.config().start.0..model.config().end().0)?;
    let zone = model.config().range();
    runs(a, model, zone.start.0..zone.end.0)?;
    for outside in [FrameId(0)..zone.start, zone.end..FrameId(usize::MAX), zone.end..zone.start] {
        agree!(
            format!("free_runs({outside:?})"),
            a.free_runs(outside.clone()),
            Vec::<Range<FrameId>>::new()
        );
    }
    for (frame, order) in no_blocks(model) {
        agree!(format!("is_free({frame}, {order})"), a.is_free(frame, order), false);
    }
    huge_map(a, model)?;
    counts(a, model, history)
}

/// Compares the frames of those huge frames that calls have changed one by one, the others by their
/// count, and the zone's counts.
///
/// # Errors
/// The first difference.
pub fn touched(a: &dyn Allocator, model: &Model, history: History) -> Judged {
    for frames in model.touched() {
        let pair = FrameId(frames.start & !(model.max_order().frames() - 1));
        let (max, due) = (model.max_order(), model.is_free(pair, model.max_order()));
        agree!(format!("is_free({pair}, {max})"), a.is_free(pair, max), due);
        blocks(a, model, frames.clone())?;
        runs(a, model, frames)?;
    }
    huge_map(a, model)?;
    counts(a, model, history)
}

/// Compares the maps of these frames of the zone, and the free runs among them.
fn runs(a: &dyn Allocator, model: &Model, frames: Range<usize>) -> Judged {
    let is_free = |frame: usize| model.is_free(FrameId(frame), Order::BASE);
    for first in (frames.start & !63..frames.end).step_by(64) {
        let due = (0..64).filter(|bit| is_free(first | bit)).fold(0, |map, bit| map | 1 << bit);
        let is_used = |bit: &usize| model.state(FrameId(first | bit)) == Some(State::Allocated);
        let used = (0..64).filter(is_used).fold(0, |map, bit| map | 1 << bit);
        for frame in [first, first | 37].map(FrameId) {
            agree!(format!("free_map({frame})"), a.free_map(frame), due);
        }
        let frame = FrameId(first | 21);
        agree!(format!("used_map({frame})"), a.used_map(frame), used);
    }
    let mut due: Vec<Range<FrameId>> = Vec::new();
    for frame in frames.clone().filter(|&frame| is_free(frame)) {
        let behind = FrameId(frame + 1);
        match due.last_mut().filter(|run| run.end.0 == frame) {
            Some(run) => run.end = behind,
            None => due.push(FrameId(frame)..behind),
        }
    }
    let inside = FrameId(frames.start)..FrameId(frames.end);
    agree!(format!("free_runs({inside:?})"), a.free_runs(inside.clone()), due);
    Ok(())
}

/// Compares every block that lies wholly in these frames of the zone.
fn blocks(a: &dyn Allocator, model: &Model, frames: Range<usize>) -> Judged {
    let (mut first, mut free) = (frames.start, model.are_free(frames));
    for order in model.orders() {
        for (n, &due) in free.iter().enumerate() {
            let frame = FrameId(first + (n << order.0));
            let is = a.is_free(frame, order);
            if is != due {
                return Err(format!("is_free({frame}, {order}) is {is}, but should be {due}"));
            }
        }
        // Two neighbours are a block of the next order, if the first has an even number.
        let odd = first >> order.0 & 1;
        let pairs = free.get(odd..).unwrap_or_default().chunks_exact(2);
        free = pairs.map(|pair| pair[0] && pair[1]).collect();
        first += odd << order.0;
    }
    Ok(())
}

/// Frames and orders that are no blocks of the zone: beyond its ends, misaligned, too large.
fn no_blocks(model: &Model) -> Vec<(FrameId, Order)> {
    let (start, end) = (model.config().start.0, model.config().end().0);
    let max = model.max_order().0;
    let mut list = Vec::new();
    for order in (0..=max).chain([max + 1, 63, 64, 255]).map(Order) {
        let size = order.frames();
        let below = start.checked_sub(1).map(|n| n & !size.wrapping_sub(1));
        let last = (end - 1) & !size.wrapping_sub(1);
        let far = [end, usize::MAX, usize::MAX - 1, usize::MAX & !size.wrapping_sub(1)];
        for frame in below.into_iter().chain([last, start + 1, start]).chain(far).map(FrameId) {
            let block =
                order.0 <= max && frame.is_aligned(order) && model.config().contains(frame, order);
            if !block {
                list.push((frame, order));
            }
        }
    }
    list
}

fn huge_map(a: &dyn Allocator, model: &Model) -> Judged {
    let first = model.config().start.0 >> model.huge_order;
    let last = (model.config().end().0 - 1) >> model.huge_order;
    let beyond = [first.wrapping_sub(1), last + 1, usize::MAX, usize::MAX >> 1];
    for huge in (first..=last).chain(beyond).map(HugeId) {
        let due = model.free_in_huge(huge);
        agree!(format!("free_in_huge({huge})"), a.free_in_huge(huge), due);
        let due = model.is_isolated(huge);
        agree!(format!("is_isolated({huge})"), a.is_isolated(huge), due);
    }
    for huge in model.huge_range().chain(beyond).map(HugeId) {
        let due = model.frames_in_use(huge);
        agree!(format!("frames_in_use({huge})"), a.frames_in_use(huge), due);
    }
    let mut due: Vec<_> = model.free_huge_frames().collect();
    agree!("free_huge_frames()", a.free_huge_frames(), due);
    due.reverse();
    agree!("free_huge_frames() from the end", a.free_huge_frames_back(), due);
    Ok(())
}

/// Compares the map of free blocks, counted here one frame at a time.
///
/// # Errors
/// The first difference.
pub fn free_blocks(a: &dyn Allocator, model: &Model) -> Judged {
    let blocks = a.free_blocks();
    let zone = model.config().range();
    let largest = |frame: FrameId| {
        let orders = (0..=model.pair_order().0).rev().map(Order);
        orders
            .map(|order| (FrameId(frame.0 & !(order.frames() - 1)), order))
            .find(|&(first, order)| model.is_free(first, order))
    };
    let (mut frames, mut run, mut longest) = (vec![0; model.pair_order().0 as usize + 1], 0, 0);
    for frame in (zone.start.0..zone.end.0).map(FrameId) {
        match largest(frame) {
            Some((_, order)) => {
                frames[order.0 as usize] += 1;
                run += 1;
            }
            None => run = 0,
        }
        longest = longest.max(run);
    }
    for order in (0..=model.pair_order().0).map(Order) {
        let due = frames[order.0 as usize] >> order.0;
        agree!(format!("the count of free blocks of {order}"), blocks.count(order), due);
    }
    agree!("the largest run", blocks.largest_run, longest);
    Ok(())
}
