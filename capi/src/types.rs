//! The structures of the header, field for field.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;

use woodlot_frame::{AllocError, FrameId, FreeError, MAX_CLASSES, OfflineError};

use crate::error::{About, Error, of_alloc, of_free, of_offline};

/// `const char *`: a text that is never written and never goes away.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    pub(crate) const fn of(text: &'static CStr) -> Text {
        Text(text.as_ptr())
    }

    /// The text.
    pub fn get(self) -> &'static CStr {
        // SAFETY: `of` made it of such a text, and nobody else makes one.
        unsafe { CStr::from_ptr(self.0) }
    }
}

/// `struct woodlot_block`: one frame, or why there is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Block {
    /// The frame found; with an error, the frame that the error is about.
    pub frame: usize,
    /// 0 or an error number.
    pub error: c_int,
}

/// `struct woodlot_run`: neighbouring frames.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Run {
    /// The first frame; with an error, the frame that the error is about.
    pub start: usize,
    /// The frame after the last; with an error, the same as `start`.
    pub end: usize,
    /// 0 or an error number.
    pub error: c_int,
}

/// `struct woodlot_batch`: how far a batch came.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Batch {
    /// How many blocks were allocated or freed.
    pub count: usize,
    /// With an error, the frame that the error is about.
    pub frame: usize,
    /// 0 or an error number.
    pub error: c_int,
}

/// `struct woodlot_count`: a number of frames.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Count {
    /// How many; 0 with an error.
    pub count: usize,
    /// 0 or an error number.
    pub error: c_int,
}

/// `struct woodlot_huge`: a huge frame.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Huge {
    /// Its number; 0 with an error.
    pub huge: usize,
    /// 0 or an error number.
    pub error: c_int,
}

/// `struct woodlot_map`: which of 64 frames are free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Map {
    /// One bit a frame; 0 with an error.
    pub map: u64,
    /// 0 or an error number.
    pub error: c_int,
}

/// `struct woodlot_place`: where a block or run is to lie.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Place {
    /// 0 anywhere, 1 at `start`, 2 within `start .. end`.
    pub kind: u32,
    /// A frame.
    pub start: usize,
    /// The frame after the last.
    pub end: usize,
}

/// `struct woodlot_classes`: a policy of classes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Classes {
    /// How many there are.
    pub count: u32,
    /// For each class, how many of its row it fills, itself included.
    pub fills: [u8; MAX_CLASSES],
    /// For each class, every class in the order in which it turns to them.
    pub turns: [[u8; MAX_CLASSES]; MAX_CLASSES],
}

/// `struct woodlot_config`: a zone that is to be made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    /// The first frame.
    pub start: usize,
    /// How many frames.
    pub frames: usize,
    /// How many slots.
    pub slots: usize,
    /// Which engine.
    pub engine: u32,
    /// Which geometry.
    pub geometry: u32,
    /// Null for the classes as shipped.
    pub classes: *const Classes,
}

/// `struct woodlot_metadata_sizes`: how much memory a zone needs beside its handle.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MetadataSizes {
    /// Bytes of the part that outlives a crash.
    pub durable_size: usize,
    /// Bytes of the part that is recomputed.
    pub volatile_size: usize,
}

/// `struct woodlot_metadata`: the memory for it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Metadata {
    /// The part that outlives a crash.
    pub durable_start: *mut c_void,
    /// Its bytes.
    pub durable_size: usize,
    /// The part that is recomputed.
    pub volatile_start: *mut c_void,
    /// Its bytes.
    pub volatile_size: usize,
}

/// `struct woodlot_geometry_sizes`: the sizes of a geometry.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sizes {
    /// log₂ of a base frame's bytes.
    pub base_shift: u32,
    /// The order of a huge frame.
    pub huge_order: u32,
    /// The largest order.
    pub max_order: u32,
    /// Huge frames in a tree.
    pub tree_huge: u32,
}

/// `struct woodlot_zone_info`: a zone as it was made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Info {
    /// The first frame.
    pub start: usize,
    /// How many frames.
    pub frames: usize,
    /// How many slots.
    pub slots: usize,
    /// The first huge frame that lies wholly in the zone.
    pub first_huge: usize,
    /// The huge frame after the last of those.
    pub end_huge: usize,
    /// Which engine.
    pub engine: u32,
    /// Which geometry.
    pub geometry: u32,
    /// Bits of what the engine cannot do.
    pub unsupported: u32,
    /// The geometry's sizes.
    pub sizes: Sizes,
    /// The classes.
    pub classes: Classes,
}

/// `struct woodlot_class_counts`: what lies in the trees of a class.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct ClassCounts {
    /// Trees.
    pub trees: usize,
    /// Free base frames in them.
    pub free_frames: usize,
    /// Free huge frames in them.
    pub free_huge: usize,
}

/// `struct woodlot_counts`: a count over the zone.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Counts {
    /// Free base frames.
    pub free_frames: usize,
    /// Huge frames all of whose frames are free.
    pub free_huge: usize,
    /// Huge frames that are offline.
    pub offline_huge: usize,
    /// The same by class.
    pub classes: [ClassCounts; MAX_CLASSES],
}

/// Orders that `struct woodlot_blocks` has room for: `WOODLOT_ORDERS`.
pub const ORDERS: usize = 14;

/// `struct woodlot_blocks`: free blocks by order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Blocks {
    /// How many maximal free blocks there are of each order.
    pub counts: [usize; ORDERS],
    /// The most free frames in a row.
    pub largest_run: usize,
}

impl Block {
    #[inline]
    pub(crate) fn about((error, frame): About) -> Block {
        Block { frame, error: error.into() }
    }
}

impl Run {
    pub(crate) fn about((error, frame): About) -> Run {
        Run { start: frame, end: frame, error: error.into() }
    }
}

impl From<Range<FrameId>> for Run {
    fn from(frames: Range<FrameId>) -> Run {
        Run { start: frames.start.0, end: frames.end.0, error: 0 }
    }
}

impl From<Error> for Block {
    fn from(error: Error) -> Block {
        Block::about((error, 0))
    }
}

impl From<Error> for Run {
    fn from(error: Error) -> Run {
        Run::about((error, 0))
    }
}

impl From<Error> for Batch {
    fn from(error: Error) -> Batch {
        Batch { count: 0, frame: 0, error: error.into() }
    }
}

impl From<Error> for Count {
    fn from(error: Error) -> Count {
        Count { count: 0, error: error.into() }
    }
}

impl From<Error> for Huge {
    fn from(error: Error) -> Huge {
        Huge { huge: 0, error: error.into() }
    }
}

impl From<Error> for Map {
    fn from(error: Error) -> Map {
        Map { map: 0, error: error.into() }
    }
}

impl From<Result<FrameId, AllocError>> for Block {
    #[inline]
    fn from(answer: Result<FrameId, AllocError>) -> Block {
        match answer {
            Ok(frame) => Block { frame: frame.0, error: 0 },
            Err(error) => Block::about(of_alloc(error)),
        }
    }
}

impl From<Result<(), FreeError>> for Block {
    fn from(answer: Result<(), FreeError>) -> Block {
        match answer {
            Ok(()) => Block { frame: 0, error: 0 },
            Err(error) => Block::about(of_free(error)),
        }
    }
}

impl From<Result<(), OfflineError>> for Block {
    fn from(answer: Result<(), OfflineError>) -> Block {
        match answer {
            Ok(()) => Block { frame: 0, error: 0 },
            Err(error) => Block::about(of_offline(error)),
        }
    }
}
