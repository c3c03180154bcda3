//! Huge frames that leave and come back, and slots that give back what they hold.

use core::ffi::c_int;

use woodlot_frame::{FrameAllocator, HugeId, Slot};

use crate::error::{Error, of_offline};
use crate::types::Block;
use crate::zone::{Zone, on_zone};

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_offline(zone: *const Zone, first: usize, count: usize) -> Block {
    on_zone!(zone, engine => engine.offline(HugeId(first), count).into())
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_online(zone: *const Zone, first: usize, count: usize) -> c_int {
    match on_zone!(zone, engine => engine.online(HugeId(first), count)) {
        Ok(()) => 0,
        Err(error) => of_offline(error).0.into(),
    }
}

/// See the header.
///
/// # Safety
/// See the header, under "Memory".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn woodlot_drain(zone: *const Zone, slot: usize) -> c_int {
    match on_zone!(zone, engine => engine.drain(Slot(slot))) {
        Ok(()) => 0,
        Err(error) => Error::from(error).into(),
    }
}
