//! What an engine declares away says so, in the error of the call, and changes nothing.

use woodlot_frame::{
    AllocError, Batch, Claim, Class, FrameId, FreeError, HugeId, Init, InitError, IsolateError,
    OfflineError, Order, RangeRequest, Request, Slot,
};

use super::{Checked, Engine};
use crate::zones;

/// Every call that needs a missing ability returns `Unsupported`.
pub fn missing_abilities_are_said(engine: Engine) {
    let config = zones::huges(engine, 4, 2);
    let mut zone = Checked::new(engine, &config, Init::Free);
    let block = zone.take(Order(2), Slot(0));
    let missing = engine.unsupported;
    if missing.exact_frame {
        let request = Request::movable(Order::BASE, Slot(0)).at(FrameId(0));
        assert_eq!(zone.alloc(request), Err(AllocError::Unsupported));
        let batch = zone.alloc_batch(request, Batch::All, 1);
        assert_eq!(batch, Err(AllocError::Unsupported));
        let within = Request::movable(Order::BASE, Slot(0)).within(FrameId(0)..FrameId(9));
        assert_eq!(zone.alloc(within), Err(AllocError::Unsupported));
        let run = zone.alloc_range(RangeRequest::new(3, Class::MOVABLE, Slot(0)));
        assert_eq!(run, Err(AllocError::Unsupported));
    }
    if missing.partial_free {
        let smaller = zone.free(block, Order(1), Slot(0));
        assert_eq!(smaller, Err(FreeError::Unsupported));
        let inside = zone.free(FrameId(block.0 + 2), Order(1), Slot(0));
        assert_eq!(inside, Err(FreeError::Unsupported));
        let part = zone.free_range(block..FrameId(block.0 + 3), Slot(0));
        assert_eq!(part, Err(FreeError::Unsupported));
    }
    if missing.offline {
        assert_eq!(zone.offline(HugeId(3), 1), Err(OfflineError::Unsupported));
        assert_eq!(zone.online(HugeId(3), 1), Err(OfflineError::Unsupported));
    }
    if missing.isolation {
        let unsupported = Err(IsolateError::Unsupported);
        assert_eq!(zone.isolate(HugeId(3), 1), unsupported);
        assert_eq!(zone.unisolate(HugeId(3), 1), unsupported);
        assert_eq!(zone.claim_isolated(HugeId(3), 1, Claim::Offline), unsupported);
    }
    if missing.recovery {
        let mut owned = engine.zone(&config, Init::Free).expect("the zone is legal");
        assert_eq!(owned.recover(&config), Err(InitError::Unsupported));
        assert_eq!(owned.allocator().stats().free_frames, config.frames);
    }
    zone.validate();
    zone.give(block, Order(2), Slot(1));
    zone.validate();
}
