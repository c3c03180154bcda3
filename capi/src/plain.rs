//! What needs no zone: names, orders, addresses.

use core::ffi::{CStr, c_int};

use woodlot_frame::{FrameId, Geometry, HugeId, Order};

use crate::alloc::order;
use crate::error::Error;
use crate::types::{Run, Text};
use crate::zone::{BASE_4K, BASE_16K, BASE_64K, LLFREE, NBBS, ONEWRITE};

/// Does what follows `=>` with the geometry of a number, or what follows `else`.
macro_rules! with_geometry {
    ($number:expr, $geometry:ident => $body:expr, else $other:expr) => {
        match $number {
            $crate::zone::BASE_4K => {
                type $geometry = woodlot_frame::Base4K;
                $body
            }
            $crate::zone::BASE_16K => {
                type $geometry = woodlot_frame::Base16K;
                $body
            }
            $crate::zone::BASE_64K => {
                type $geometry = woodlot_frame::Base64K;
                $body
            }
            _ => $other,
        }
    };
}
pub(crate) use with_geometry;

/// The version of the header that this library goes with, as bytes with a zero at the end.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_version() -> Text {
    Text::of(VERSION)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_error_message(error: c_int) -> Text {
    let message = match error {
        0 => c"no error",
        _ => Error::of(error).map_or(c"there is no such error", Error::message),
    };
    Text::of(message)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_engine_name(engine: u32) -> Text {
    let name = match engine {
        LLFREE => c"llfree",
        NBBS => c"nbbs-4level",
        ONEWRITE => c"onewrite",
        _ => c"no engine",
    };
    Text::of(name)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_geometry_name(geometry: u32) -> Text {
    let name = match geometry {
        BASE_4K => c"4 KiB base, 2 MiB huge (order 9)",
        BASE_16K => c"16 KiB base, 32 MiB huge (order 11)",
        BASE_64K => c"64 KiB base, 2 MiB huge (order 5)",
        _ => c"no geometry",
    };
    Text::of(name)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_class_name(class: u32) -> Text {
    let name = match class {
        0 => c"movable",
        1 => c"immovable",
        2 => c"huge",
        3 => c"long-lived",
        4 => c"class 4",
        5 => c"class 5",
        6 => c"class 6",
        7 => c"class 7",
        _ => c"no class",
    };
    Text::of(name)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_order_containing(frames: usize) -> u32 {
    Order::containing(frames).0.into()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_order_frames(block_order: u32) -> usize {
    order(block_order).frames()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_frame_address(geometry: u32, frame: usize) -> u64 {
    with_geometry!(geometry, G => FrameId(frame).address::<G>(), else u64::MAX)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_frame_containing(geometry: u32, address: u64) -> usize {
    with_geometry!(geometry, G => FrameId::containing::<G>(address).0, else usize::MAX)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_frames_inside(geometry: u32, start: u64, end: u64) -> Run {
    with_geometry!(
        geometry,
        G => FrameId::inside::<G>(start..end).into(),
        else Error::BadGeometry.into()
    )
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_huge_containing(geometry: u32, frame: usize) -> usize {
    with_geometry!(geometry, G => FrameId(frame).huge::<G>().0, else usize::MAX)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn woodlot_huge_first(geometry: u32, huge: usize) -> usize {
    with_geometry!(geometry, G => HugeId(huge).first::<G>().0, else usize::MAX)
}

/// The largest order of any geometry is named by `WOODLOT_ORDERS`.
const _: () = assert!(woodlot_frame::Base16K::MAX_ORDER < crate::types::ORDERS as u32);
