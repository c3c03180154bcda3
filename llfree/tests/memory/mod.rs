//! Memory for the metadata of one zone.

use woodlot_frame::{Construct, RawMetadata, ZoneConfig};

/// A cache line of memory that was used for something else before.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Used(#[expect(dead_code, reason = "read through a pointer")] [u8; 64]);

/// The two parts.
pub struct Memory([Vec<Used>; 2]);

impl Memory {
    /// For a legal zone of such allocators.
    pub fn of<A: Construct>(config: &ZoneConfig) -> Self {
        let size = A::metadata_size(config).expect("a zone");
        let used = |bytes: usize| vec![Used([0x5a; 64]); bytes.div_ceil(64)];
        Self([used(size.durable), used(size.volatile)])
    }

    /// Aligned and initialised, for as long as this is there.
    pub fn metadata(&mut self) -> RawMetadata {
        let part = |lines: &mut Vec<Used>| (lines.as_mut_ptr().cast::<u8>(), lines.len() * 64);
        let [durable, volatile] = self.0.each_mut().map(part);
        RawMetadata { durable, volatile }
    }
}
