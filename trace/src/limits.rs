//! What a trace may hold. Every number that is read from a file is checked against one of these
//! before memory is set aside for it, so that one damaged digit cannot ask for terabytes.

/// Frame numbers lie below this: 1 TiB of base frames, whose largest map is 1 GiB of address space.
pub const MAX_FRAMES: u32 = 1 << 28;
/// Orders are at most this; Linux's own limit is 10 on x86-64 and 13 on Arm with 16 KiB frames.
pub const MAX_ORDER: u8 = 13;
/// CPUs are numbered below this.
pub const MAX_CPUS: u16 = 4096;
/// The most bytes in a line of text; the longest of a real trace has under 300.
pub const MAX_LINE: usize = 64 << 10;
/// The most bytes that the binary form may unpack to.
pub const MAX_PAYLOAD: u64 = 1 << 30;
/// The most base frames that all allocations of one trace may add up to: what the predictor of the
/// binary form numbers.
pub const MAX_ALLOCATED: usize = 1 << 28;
/// The most zones; Linux has six kinds.
pub const MAX_ZONES: usize = 64;
