//! What all rivals check alike: zones, requests, frees.

use woodlot_frame::{
    AllocError, FrameId, FreeError, Geometry, InitError, Order, Place, Request, Slot, ZoneConfig,
};

/// The most slots.
const MAX_SLOTS: usize = 1 << 16;
/// The most frames: with room for list heads and padding their indices have 32 bits.
const MAX_FRAMES: usize = u32::MAX as usize - (1 << 27);

/// Is this a zone that a rival can manage?
pub(crate) fn check_zone(config: &ZoneConfig) -> Result<(), InitError> {
    config.check(MAX_FRAMES, MAX_SLOTS)
}

/// What is wrong with a request that names no frame; one that does cannot be served.
#[inline(always)]
pub(crate) fn check_request<G: Geometry>(
    zone: &ZoneConfig,
    request: &Request,
) -> Result<(), AllocError> {
    if request.order.0 as u32 > G::MAX_ORDER {
        return Err(AllocError::OrderTooLarge(request.order));
    }
    if request.slot.0 >= zone.slots {
        return Err(AllocError::BadSlot(request.slot));
    }
    if !zone.classes.has(request.class) {
        return Err(AllocError::BadClass(request.class));
    }
    match request.place {
        Place::Anywhere => Ok(()),
        Place::At(_) | Place::Within { .. } => Err(AllocError::Unsupported),
    }
}

/// What is wrong with a free, whatever the block's state.
#[inline(always)]
pub(crate) fn check_free<G: Geometry>(
    zone: &ZoneConfig,
    frame: FrameId,
    order: Order,
    slot: Slot,
) -> Result<(), FreeError> {
    if order.0 as u32 > G::MAX_ORDER {
        return Err(FreeError::OrderTooLarge(order));
    }
    if slot.0 >= zone.slots {
        return Err(FreeError::BadSlot(slot));
    }
    let size = 1usize << order.0;
    if frame.0 & (size - 1) != 0 {
        return Err(FreeError::Misaligned(frame, order));
    }
    let offset = frame.0.wrapping_sub(zone.start.0);
    if offset >= zone.frames || zone.frames - offset < size {
        return Err(FreeError::OutOfRange(frame));
    }
    Ok(())
}

/// Is this a block of the zone?
pub(crate) fn is_block<G: Geometry>(zone: &ZoneConfig, frame: FrameId, order: Order) -> bool {
    check_free::<G>(zone, frame, order, Slot(0)).is_ok()
}
