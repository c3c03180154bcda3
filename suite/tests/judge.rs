//! The judge itself: what it must call wrong, and what it must not.

use woodlot_frame::{
    AllocError, Batch, FrameId, FreeBatchError, FreeError, HugeId, Init, OfflineError, Order,
    Request, Slot, Unsupported, ZoneConfig,
};
use woodlot_suite::Model;

const NOTHING: Unsupported = Unsupported {
    exact_frame: false,
    partial_free: false,
    classes: false,
    offline: false,
    isolation: false,
    recovery: false,
    exact_exhaustion: false,
};

/// Frames 1 to 1535, of which 8 to 15 are allocated and huge frame 2 is offline.
fn model() -> Model {
    let config = ZoneConfig::new(1535, 2).starting_at(FrameId(1));
    let mut model = Model::new(&config, Init::Free, Order(9), NOTHING);
    let request = Request::movable(Order(3), Slot(0));
    model.alloc(request, Ok(FrameId(8))).expect("the block is free");
    model.offline(HugeId(2), 1, Ok(())).expect("the huge frame is free");
    model.recount();
    model
}

/// Judged on a fresh model, so that no answer counts for the next.
fn legal(judge: impl Fn(&mut Model) -> Result<(), String>) -> bool {
    let mut model = model();
    let legal = judge(&mut model).is_ok();
    model.recount();
    legal
}

#[test]
fn allocations() {
    let any = |order| Request::movable(Order(order), Slot(0));
    let judged = |request, answer| legal(|model| model.alloc(request, answer));
    assert!(judged(any(0), Ok(FrameId(1))));
    assert!(judged(any(9), Ok(FrameId(512))));
    assert!(judged(any(10), Err(AllocError::OutOfMemory)));
    assert!(judged(any(3).at(FrameId(8)), Err(AllocError::InUse(FrameId(8)))));
    assert!(judged(any(11), Err(AllocError::OrderTooLarge(Order(11)))));
    // Before the zone, misaligned, in use, offline, behind the zone, not what was asked for.
    assert!(!judged(any(0), Ok(FrameId(0))));
    assert!(!judged(any(1), Ok(FrameId(17))));
    assert!(!judged(any(0), Ok(FrameId(12))));
    assert!(!judged(any(4), Ok(FrameId(0))));
    assert!(!judged(any(0), Ok(FrameId(1024))));
    assert!(!judged(any(0), Ok(FrameId(1536))));
    assert!(!judged(any(0).at(FrameId(2)), Ok(FrameId(3))));
    // Refused for no reason, or for the wrong one.
    assert!(!judged(any(0), Err(AllocError::OutOfMemory)));
    assert!(!judged(any(0).at(FrameId(2)), Err(AllocError::InUse(FrameId(2)))));
    assert!(!judged(any(3).at(FrameId(8)), Err(AllocError::OutOfMemory)));
    assert!(!judged(any(11), Err(AllocError::OutOfMemory)));
    assert!(!judged(any(0), Err(AllocError::Unsupported)));
}

#[test]
fn batches() {
    let huge = Request::movable(Order(9), Slot(0));
    let judged = |request, batch, out: &[usize], answer| {
        let out: Vec<_> = out.iter().copied().map(FrameId).collect();
        legal(|model| model.alloc_batch(request, batch, &out, answer))
    };
    assert!(judged(huge, Batch::UpTo, &[512, 0], Ok(1)));
    assert!(judged(huge, Batch::All, &[512, 0], Err(AllocError::OutOfMemory)));
    assert!(judged(huge, Batch::All, &[], Ok(0)));
    assert!(!judged(huge, Batch::All, &[512, 0], Ok(1)));
    assert!(!judged(huge, Batch::UpTo, &[512, 0], Err(AllocError::OutOfMemory)));
    assert!(!judged(huge, Batch::UpTo, &[512, 0], Ok(0)));
    assert!(!judged(huge, Batch::UpTo, &[512, 0], Ok(3)));
    let base = Request::movable(Order(0), Slot(0));
    assert!(judged(base, Batch::All, &[5, 3], Ok(2)));
    assert!(!judged(base, Batch::All, &[5, 5], Ok(2)));
    assert!(!judged(base, Batch::All, &[5, 6, 7], Ok(2)));
    assert!(!judged(base, Batch::UpTo, &[5, 6, 7], Ok(2)));
    assert!(judged(base.at(FrameId(6)), Batch::UpTo, &[6, 7, 0], Ok(2)));
    assert!(judged(
        base.at(FrameId(6)),
        Batch::All,
        &[6, 7, 0],
        Err(AllocError::InUse(FrameId(8)))
    ));
    assert!(!judged(
        base.at(FrameId(6)),
        Batch::All,
        &[6, 7, 0],
        Err(AllocError::InUse(FrameId(7)))
    ));
}

#[test]
fn frees() {
    let judged = |frame, order, answer| {
        legal(|model| model.free(FrameId(frame), Order(order), Slot(0), answer))
    };
    let not = |frame| Err(FreeError::NotAllocated(FrameId(frame)));
    assert!(judged(8, 3, Ok(())));
    assert!(judged(12, 1, Ok(())));
    assert!(judged(0, 4, Err(FreeError::OutOfRange(FrameId(0)))));
    assert!(judged(16, 4, not(16)));
    assert!(judged(1024, 0, Err(FreeError::Offline(FrameId(1024)))));
    assert!(!judged(16, 4, Ok(())));
    assert!(!judged(8, 3, not(8)));
    assert!(!judged(16, 4, not(17)));
    assert!(!judged(1024, 0, Ok(())));
    assert!(!judged(9, 1, Ok(())));
    assert!(!judged(8, 3, Err(FreeError::Unsupported)));
    let batch = |answer| {
        legal(|model| model.free_batch(&[FrameId(8), FrameId(20)], Order(0), Slot(0), answer))
    };
    assert!(batch(Err(FreeBatchError { freed: 1, cause: FreeError::NotAllocated(FrameId(20)) })));
    assert!(!batch(Err(FreeBatchError { freed: 0, cause: FreeError::NotAllocated(FrameId(8)) })));
}

#[test]
fn offline_and_online() {
    let offline = |first, count, answer| legal(|m| m.offline(HugeId(first), count, answer));
    let online = |first, count, answer| legal(|m| m.online(HugeId(first), count, answer));
    assert!(offline(1, 1, Ok(())));
    assert!(offline(1, 2, Err(OfflineError::InUse(FrameId(1024)))));
    assert!(online(2, 1, Ok(())));
    assert!(offline(0, 1, Err(OfflineError::OutOfRange)));
    assert!(!offline(1, 2, Ok(())));
    assert!(!offline(1, 1, Err(OfflineError::InUse(FrameId(1024)))));
    assert!(!online(1, 1, Ok(())));
    assert!(!online(2, 1, Err(OfflineError::NotOffline)));
    assert!(!offline(1, 2, Err(OfflineError::InUse(FrameId(1025)))));
    assert!(!offline(1, 0, Ok(())));
    assert!(!offline(1, usize::MAX, Ok(())));
}
