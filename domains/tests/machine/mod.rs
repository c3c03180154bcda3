//! A machine for tests: a map, and memory from the heap for its domains.

use woodlot_domains::{DomainId, Domains, Present, Setup};
use woodlot_frame::{Base4K, FrameId, Init, METADATA_ALIGN, RawMetadata};
use woodlot_llfree::LLFree;

pub type Machine<'a> = Domains<'a, LLFree<'a, Base4K>>;

/// Ranges, by first frame, frame behind the last one, and domain.
pub fn ranges(ranges: &[(usize, usize, u8)]) -> Vec<Present> {
    let present = |&(start, end, of)| Present::new(FrameId(start)..FrameId(end), DomainId(of));
    ranges.iter().map(present).collect()
}

/// Memory that stays, and is not zero.
pub fn memory(bytes: usize) -> (*mut u8, usize) {
    let memory = vec![0xa5_u8; bytes + METADATA_ALIGN].leak().as_mut_ptr();
    (memory.wrapping_add(memory.align_offset(METADATA_ALIGN)), bytes)
}

/// Domains that begin free.
pub fn machine(setup: &Setup<'_>) -> Machine<'static> {
    let metadata = |_, size: woodlot_frame::MetadataSize| {
        Ok(RawMetadata { durable: memory(size.durable), volatile: memory(size.volatile) })
    };
    // SAFETY: the memory is new, and stays.
    unsafe { setup.make(metadata, Init::Free) }.expect("the machine is right")
}
