//! Places and runs: where blocks may lie, and runs of frames of any length.

use std::ops::Range;

use woodlot_frame::{
    AllocError, Class, FrameId, FreeError, Init, Order, RangeRequest, Request, Slot, ZoneConfig,
};

use super::{Checked, Engine, all_allocated, rng};
use crate::zones;

/// A ragged zone of one tree and some huge frames, which begins at frame 1.
fn ragged(engine: Engine) -> ZoneConfig {
    ZoneConfig::new(engine.tree_frames + 2 * engine.huge_frames - 2, 2).starting_at(FrameId(1))
}

fn run(frames: usize) -> RangeRequest {
    RangeRequest::new(frames, Class::MOVABLE, Slot(0))
}

/// Lengths around the units that there are.
fn lengths(engine: Engine) -> Vec<usize> {
    let (huge, tree) = (engine.huge_frames, engine.tree_frames);
    let odd = [1, 2, 3, 5, 63, 64, 65, 100, huge - 1, huge, huge + 1, huge + huge / 2];
    odd.into_iter().chain([2 * huge, 3 * huge + 5, tree - 1, tree, tree + 1]).collect()
}

/// Runs of every length and alignment, one beside the other, freed through another slot.
pub fn runs_of_every_length(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    for align in [0, 1, 6, engine.huge_order.0, engine.pair_order.0, engine.pair_order.0 + 2] {
        let mut zone = Checked::new(engine, &ragged(engine), Init::Free);
        let mut runs = Vec::new();
        for length in lengths(engine) {
            let found = zone.alloc_range(run(length).aligned(Order(align)));
            runs.extend(found);
            zone.validate_counts();
        }
        assert!(runs.len() > 3, "the judge let {} runs pass", runs.len());
        zone.validate();
        rng(90).shuffle(&mut runs);
        for run in runs {
            zone.free_range(run, Slot(1)).expect("it was just allocated");
        }
        zone.validate();
        assert_eq!(zone.model.free_frames(), ragged(engine).frames);
    }
}

/// In a full zone one run is free: it is found, wherever it lies, and nothing longer is.
pub fn the_only_run_is_found(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = ZoneConfig::new(3 * engine.huge_frames + 7, 2).starting_at(FrameId(3));
    let mut zone = Checked::new(engine, &config, Init::Free);
    zone.fill(Order::BASE, Class::MOVABLE, Slot(0));
    let mut rng = rng(91);
    for length in lengths(engine).into_iter().filter(|&length| length <= config.frames) {
        for _ in 0..6 {
            let start = FrameId(3 + rng.usize(..=config.frames - length));
            let hole = start..FrameId(start.0 + length);
            for frame in (hole.start.0..hole.end.0).map(FrameId) {
                zone.give(frame, Order::BASE, Slot(1));
            }
            let longer = zone.alloc_range(run(length + 1));
            assert!(longer.is_err());
            for slot in [Slot(1), Slot(0)] {
                let request = RangeRequest::new(length, Class::IMMOVABLE, slot);
                assert_eq!(zone.alloc_range(request), Ok(hole.clone()));
                zone.validate_counts();
                zone.free_range(hole.clone(), Slot(0)).expect("it was just allocated");
            }
            // As single frames, which engines without partial frees free again.
            for frame in (hole.start.0..hole.end.0).map(FrameId) {
                zone.claim(frame, Order::BASE, Slot(0));
            }
        }
    }
    zone.validate();
}

/// Windows of the zone: all of it, parts, across its ends, and outside.
fn windows(config: &ZoneConfig) -> Vec<Range<FrameId>> {
    let (start, end) = (config.start.0, config.end().0);
    let third = config.frames / 3;
    let ends = [
        (0, usize::MAX),
        (start, end),
        (start, start + 1),
        (0, start + third),
        (start + third, end - third),
        (end - third, usize::MAX),
        (end - 1, end + 1),
        (0, start),
        (end, usize::MAX),
        (start + 5, start + 5),
        (0, 0),
        (usize::MAX, usize::MAX),
        (start + 9, start),
        (usize::MAX, 0),
    ];
    ends.into_iter().map(|(start, end)| FrameId(start)..FrameId(end)).collect()
}

/// A run lies inside of the range that it was asked for in, whatever is free elsewhere.
pub fn runs_lie_where_they_are_asked_for(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = ragged(engine);
    for window in windows(&config) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        // The longest first, so that few are needed until nothing is left.
        for length in lengths(engine).into_iter().rev() {
            for align in [Order(3), Order::BASE] {
                let request = run(length).aligned(align).within(window.clone());
                while zone.alloc_range(request).is_ok() {}
            }
        }
        zone.validate();
        zone.give_rest(Slot(1));
    }
}

/// A block lies inside of the range that it was asked for in, and the last one there is found.
pub fn blocks_lie_where_they_are_asked_for(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = ZoneConfig::new(4 * engine.huge_frames, 2).starting_at(FrameId(1));
    for window in windows(&config) {
        let mut zone = Checked::new(engine, &config, Init::Free);
        for order in engine.orders().rev().chain([Order(255), Order(64)]) {
            let request = Request::immovable(order, Slot(1)).within(window.clone());
            while zone.alloc(request).is_ok() {}
        }
        zone.validate_touched();
        zone.give_rest(Slot(0));
        zone.validate();
    }
}

/// A run of less than a huge frame breaks a free one only where there is no room beside what is in use.
pub fn small_runs_spare_free_huge_frames(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let huge = engine.huge_frames;
    let config = zones::huges(engine, 6, 1);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let third = huge / 3;
    // A frame in the middle of huge frame 4: all others are free.
    zone.claim(FrameId(4 * huge + huge / 2), Order::BASE, Slot(0));
    for _ in 0..2 {
        zone.alloc_range(run(third)).expect("there is room");
        let free = zone.model.free_huge_frames().count();
        assert_eq!(free, 5, "{}: a free huge frame was broken", engine.name);
    }
    zone.alloc_range(run(third)).expect("there is room in others");
    assert_eq!(zone.model.free_huge_frames().count(), 4);
    zone.validate();
}

/// A run across two huge frames that are both in use spares those that are free; one as long as a huge frame
/// is the first that there is.
pub fn runs_across_used_huge_frames(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let huge = engine.huge_frames;
    let mut zone = Checked::new(engine, &zones::huges(engine, 4, 1), Init::Free);
    // Huge frames 0 and 3 are free, and the run from the middle of 1 to the middle of 2.
    for frame in [huge, huge + huge / 2 - 1, 2 * huge + huge / 2, 3 * huge - 1] {
        zone.claim(FrameId(frame), Order::BASE, Slot(0));
    }
    let first = zone.alloc_range(run(huge)).expect("two huge frames are free");
    assert_eq!(first.start, FrameId(0), "{}: the first run is taken", engine.name);
    zone.free_range(first, Slot(0)).expect("it was just allocated");
    let across = zone.alloc_range(run(huge - 1)).expect("there is room");
    assert_eq!(across.start.0 / huge, 1, "{}: a free huge frame was broken", engine.name);
    zone.validate();
}

/// A run that begins at a frame, and what stands in its way.
pub fn runs_at_a_frame(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = ragged(engine);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let (start, end) = (config.start.0, config.end().0);
    let all = zone.alloc_range(run(config.frames).at(config.start));
    assert_eq!(all, Ok(config.range()));
    assert_eq!(
        zone.alloc_range(run(1).at(FrameId(end - 1))),
        Err(AllocError::InUse(FrameId(end - 1)))
    );
    zone.free_range(config.range(), Slot(0)).expect("it was just allocated");
    let mut rng = rng(92);
    for _ in 0..200 {
        let used = FrameId(rng.usize(start..end));
        zone.claim(used, Order::BASE, Slot(0));
        let first = rng.usize(start..=used.0);
        let length = rng.usize(1..=end - first);
        let answer = zone.alloc_range(run(length).at(FrameId(first)));
        assert_eq!(answer.is_ok(), first + length <= used.0);
        if let Ok(run) = answer {
            zone.free_range(run, Slot(1)).expect("it was just allocated");
        }
        zone.give(used, Order::BASE, Slot(1));
        zone.validate_counts();
    }
    zone.validate();
    refused_runs_leave_classes(engine);
}

/// What a run in the way of which something stands would have taken first keeps its class.
fn refused_runs_leave_classes(engine: Engine) {
    let mut zone = Checked::new(engine, &zones::trees(engine, 3, 2), Init::Free);
    let used = FrameId(2 * engine.tree_frames + 1);
    zone.claim(used, Order::BASE, Slot(0));
    zone.claim(FrameId(0), Order::BASE, Slot(0));
    let before = zone.allocator().stats();
    let request = RangeRequest::new(used.0, Class::IMMOVABLE, Slot(1)).at(FrameId(1));
    assert_eq!(zone.alloc_range(request), Err(AllocError::InUse(used)));
    assert_eq!(zone.allocator().stats(), before, "{}: refused, but not nothing", engine.name);
    zone.validate();
}

/// A zone that begins allocated is handed over range by range; its holes stay.
pub fn boot_memory_is_handed_over_by_ranges(engine: Engine) {
    let config = ragged(engine);
    for seed in 93..97 {
        let Some(mut zone) = all_allocated(engine, &config) else { return };
        let mut rng = rng(seed);
        let mut cuts: Vec<_> = (0..8).map(|_| rng.usize(config.start.0..config.end().0)).collect();
        cuts.sort_unstable();
        let mut usable = Vec::new();
        for pair in cuts.chunks_exact(2) {
            usable.push(FrameId(pair[0])..FrameId(pair[1]));
        }
        let frames = usable.iter().map(|range| range.end.0 - range.start.0).sum::<usize>();
        rng.shuffle(&mut usable);
        for range in usable {
            zone.free_range(range, Slot(1)).expect("it begins allocated");
            zone.validate_counts();
        }
        assert_eq!(zone.model.free_frames(), frames);
        zone.validate();
        zone.fill_all(Slot(0));
    }
}

/// One frame of a run that is free, at any place of it, is named, and nothing is freed.
pub fn a_run_is_freed_whole_or_not_at_all(engine: Engine) {
    if engine.unsupported.exact_frame {
        return;
    }
    let config = ragged(engine);
    let mut zone = Checked::new(engine, &config, Init::Free);
    zone.fill(Order::BASE, Class::MOVABLE, Slot(0));
    let mut rng = rng(97);
    for length in lengths(engine) {
        let start = rng.usize(config.start.0..=config.end().0 - length);
        let run = FrameId(start)..FrameId(start + length);
        for place in [0, length / 2, length - 1].map(|n| FrameId(start + n)) {
            zone.give(place, Order::BASE, Slot(1));
            let refused = Err(FreeError::NotAllocated(place));
            assert_eq!(zone.free_range(run.clone(), Slot(0)), refused);
            zone.validate_counts();
            zone.claim(place, Order::BASE, Slot(0));
        }
        zone.free_range(run.clone(), Slot(1)).expect("it is allocated again");
        let again = zone.free_range(run.clone(), Slot(1));
        assert_eq!(again, Err(FreeError::NotAllocated(run.start)));
        for frame in (run.start.0..run.end.0).map(FrameId) {
            zone.claim(frame, Order::BASE, Slot(0));
        }
    }
    zone.validate();
}

/// Numbers at the limits, in runs and in windows: refused, each with its own error, nothing changed.
pub fn bad_runs_are_refused(engine: Engine) {
    let config = ragged(engine);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let block = zone.take(Order(3), Slot(0));
    let max = usize::MAX;
    let numbers = [0, 1, 2, config.end().0 - 1, config.end().0, max / 2, max / 2 + 1, max - 1, max];
    for frames in [0, 1, config.frames, config.frames + 1, max / 2 + 1, max - 1, max] {
        for align in [0, 1, 13, 62, 63, 64, 255].map(Order) {
            let request = run(frames).aligned(align);
            let mut bad = vec![
                RangeRequest { slot: Slot(2), ..request },
                RangeRequest { slot: Slot(max), ..request },
                RangeRequest { class: Class(4), ..request },
                RangeRequest { class: Class(255), ..request },
            ];
            // Without these faults the run is as good as the judge says.
            if frames == 0 || frames > config.frames || align.0 > 30 {
                bad.push(request);
                bad.extend(numbers.map(|frame| request.at(FrameId(frame))));
                for start in numbers.map(FrameId) {
                    bad.extend(numbers.map(|end| request.within(start..FrameId(end))));
                }
            }
            for request in bad {
                // A window may have one place for one frame, however large its alignment: frame zero.
                if let Ok(run) = zone.alloc_range(request) {
                    zone.free_range(run, Slot(0)).expect("it was just allocated");
                }
            }
        }
    }
    for start in numbers.map(FrameId) {
        for end in numbers.map(FrameId) {
            for slot in [0, 1, 2, max].map(Slot) {
                let freed = zone.free_range(start..end, slot);
                assert!(freed.is_err() || start == end, "most of the zone is free");
            }
        }
    }
    zone.validate();
    zone.give(block, Order(3), Slot(0));
    zone.validate();
}
