//! What has no geometry.

use core::fmt::{Display, Formatter, Result as Fmt};
use core::ops::Range;

use woodlot_frame::{
    AllocError, BadSlot, Class, ClassPolicy, FrameId, FreeBatchError, FreeBlocks, FreeError,
    HugeId, InitError, IsolateError, MetadataSize, OfflineError, Order, Place, RangeRequest,
    RawMetadata, Region, Request, Slot, ZoneConfig,
};

symbols! { hot plain:
    is_aligned(frame: FrameId, order: Order) -> bool = frame.is_aligned(order);
    checked_add(frame: FrameId, frames: usize) -> Option<FrameId> = frame.checked_add(frames);
    order_frames(order: Order) -> usize = order.frames();
    order_containing(frames: usize) -> Order = Order::containing(frames);
    request(order: Order, slot: Slot, class: Class, frame: FrameId) -> Request =
        Request::new(order, class, slot).at(frame);
    request_within(request: Request, frames: Range<FrameId>) -> Request = request.within(frames);
    place_within(frames: Range<FrameId>) -> Place = Place::within(frames);
    run(frames: usize, slot: Slot, class: Class, align: Order, at: FrameId) -> RangeRequest =
        RangeRequest::new(frames, class, slot).aligned(align).at(at);
    run_within(request: RangeRequest, frames: Range<FrameId>) -> RangeRequest =
        request.within(frames);
    zone_end(zone: &ZoneConfig) -> FrameId = zone.end();
    zone_contains(zone: &ZoneConfig, frame: FrameId, order: Order) -> bool =
        zone.contains(frame, order);
    has_class(policy: &ClassPolicy, class: Class) -> bool = policy.has(class);
    fills(policy: &ClassPolicy, class: Class) -> Option<Class> = policy.fills(class).last();
    turns(policy: &ClassPolicy, class: Class) -> Option<Class> = policy.turns(class).last();
}

symbols! { cold plain:
    zone(frames: usize, slots: usize, start: FrameId, policy: ClassPolicy) -> ZoneConfig =
        ZoneConfig::new(frames, slots).starting_at(start).with_classes(policy);
    zone_range(zone: &ZoneConfig) -> Range<FrameId> = zone.range();
    policy(rows: &[(u8, &[u8])]) -> Option<ClassPolicy> = ClassPolicy::new(rows);
    policy_default() -> ClassPolicy = ClassPolicy::default();
    policy_count(policy: &ClassPolicy) -> usize = policy.count();
    policy_all(policy: &ClassPolicy) -> Option<Class> = policy.all().next_back();
    metadata_check(raw: &RawMetadata, size: MetadataSize) -> Result<(), InitError> =
        raw.check(size);
    blocks_count(blocks: &FreeBlocks, order: Order) -> usize = blocks.count(order);
    blocks_unusable(blocks: &FreeBlocks, order: Order) -> u32 = blocks.unusable(order);
}

symbols! { cold message:
    frame(value: &FrameId, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    huge(value: &HugeId, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    order(value: &Order, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    class(value: &Class, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    alloc_error(value: &AllocError, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    free_error(value: &FreeError, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    free_batch_error(value: &FreeBatchError, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    offline_error(value: &OfflineError, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    isolate_error(value: &IsolateError, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    bad_slot(value: &BadSlot, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    region(value: &Region, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
    init_error(value: &InitError, f: &mut Formatter<'_>) -> Fmt = value.fmt(f);
}
