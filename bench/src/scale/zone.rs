//! An allocator whose every access to its state is followed, and what each line of that state is.
//!
//! ```text
//!   whole pages   │ the allocator itself │ durable metadata │ volatile metadata │
//! ```

use std::alloc::{Layout, alloc_zeroed, dealloc};

use woodlot_frame::{Base4K, Construct, FrameAllocator, Init, RawMetadata, Region, ZoneConfig};

use crate::Failure;
use crate::contender::fits;
use crate::dispersion::LINE;

const PAGE: usize = 4096;

/// The allocator and all that it keeps.
pub(super) struct Zone<A> {
    start: *mut u8,
    layout: Layout,
    allocator: *mut A,
    /// The first line of each part, and its name.
    parts: Vec<(usize, &'static str)>,
}

/// The allocator itself: its lock, the heads of its lists.
pub(super) const ITSELF: &str = "allocator";

impl<A: Construct + FrameAllocator<Geometry = Base4K>> Zone<A> {
    /// A free zone.
    ///
    /// # Errors
    /// There is no memory, or the engine cannot manage it.
    pub(super) fn new(config: &ZoneConfig) -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Failed(format!("{}: {why}", A::NAME));
        fits::<A>(config)?;
        let size = A::metadata_size(config).map_err(|why| failed(&why))?;
        let durable = size_of::<A>().next_multiple_of(PAGE);
        let volatile = durable + size.durable.next_multiple_of(PAGE);
        let length = volatile + size.volatile.next_multiple_of(PAGE);
        let layout = Layout::from_size_align(length, PAGE.max(align_of::<A>()));
        let layout = layout.map_err(|why| failed(&why))?;
        // SAFETY: an allocator is not empty, so the layout is not.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(failed(&"no memory for metadata"));
        }
        let mut zone = Zone { start, layout, allocator: std::ptr::null_mut(), parts: Vec::new() };
        zone.parts.push((0, ITSELF));
        let mut next = [durable, volatile];
        let name = &mut |region, name, bytes| {
            let next = &mut next[usize::from(region == Region::Volatile)];
            zone.parts.push((*next / LINE, name));
            *next += bytes;
        };
        A::metadata_parts(config, name).map_err(|why| failed(&why))?;
        zone.parts.sort_by_key(|(line, _)| *line);
        // SAFETY: both lie within the memory.
        let at = |offset: usize| unsafe { start.add(offset) };
        let raw = RawMetadata {
            durable: (at(durable), size.durable),
            volatile: (at(volatile), size.volatile),
        };
        // SAFETY: the memory is zeroed, as long as was asked for, and this zone's for as long as it lives.
        let made = unsafe { A::construct(config, raw, Init::Free) }.map_err(|why| failed(&why))?;
        let allocator = start.cast::<A>();
        // SAFETY: the memory begins with room for it, aligned, and nobody uses it yet.
        unsafe { allocator.write(made) };
        zone.allocator = allocator;
        Ok(zone)
    }

    /// The allocator.
    pub(super) fn allocator(&self) -> &A {
        // SAFETY: it was written there when this was made, and stays as long as this does.
        unsafe { &*self.allocator }
    }
}

impl<A> Zone<A> {
    /// The pages of it.
    pub(super) fn pages(&self) -> (*mut u8, usize) {
        (self.start, self.layout.size().next_multiple_of(PAGE))
    }

    /// How many lines it has.
    pub(super) fn lines(&self) -> usize {
        self.pages().1 / LINE
    }

    /// What a line is.
    pub(super) fn name(&self, line: usize) -> &'static str {
        let part = self.parts.partition_point(|(first, _)| *first <= line);
        self.parts.get(part.wrapping_sub(1)).map_or(ITSELF, |(_, name)| name)
    }
}

impl<A> Drop for Zone<A> {
    fn drop(&mut self) {
        if !self.allocator.is_null() {
            // SAFETY: it was written there, and is dropped once.
            unsafe { self.allocator.drop_in_place() };
        }
        // SAFETY: it came from `alloc_zeroed` with this layout, and is released once.
        unsafe { dealloc(self.start, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use woodlot_llfree::LLFree;
    use woodlot_onewrite::OneWrite;

    use super::*;

    #[test]
    fn every_line_has_the_name_of_its_part() {
        let zone = Zone::<LLFree<'static, Base4K>>::new(&ZoneConfig::new(1 << 18, 4)).unwrap();
        let itself = size_of::<LLFree<'static, Base4K>>().div_ceil(PAGE) * PAGE / LINE;
        assert_eq!(zone.name(0), ITSELF);
        // 512 huge frames of a line each, then 16 trees of a line each.
        assert_eq!((zone.name(itself), zone.name(itself + 511)), ("row", "row"));
        assert_eq!((zone.name(itself + 512), zone.name(itself + 527)), ("state", "state"));
        let names: Vec<_> = (0..zone.lines()).map(|line| zone.name(line)).collect();
        for name in ["total", "slot", "index mask", "index leaf", "tree", "child"] {
            assert!(names.contains(&name), "{name}");
        }
        assert_eq!(names.iter().filter(|name| **name == "tree").count(), 16);
    }

    #[test]
    fn the_one_write_engine_names_its_parts() {
        // 512 huge frames: 512 lines of rows, 32 of states, 2 of flags; the volatile part begins at the next page.
        let config = ZoneConfig::new(1 << 18, 4);
        let zone = Zone::<OneWrite<'static, Base4K>>::new(&config).unwrap();
        let itself = size_of::<OneWrite<'static, Base4K>>().div_ceil(PAGE) * PAGE / LINE;
        let names = |from: usize, to: usize| {
            let mut names: Vec<_> = (from..to).map(|line| zone.name(itself + line)).collect();
            names.dedup();
            names
        };
        assert_eq!(names(0, 544), ["row", "state"]);
        assert_eq!((zone.name(itself + 511), zone.name(itself + 512)), ("row", "state"));
        assert_eq!(names(544, 576), ["flags"]);
        assert_eq!(names(576, zone.lines() - itself), ["slot", "tree", "hint"]);
    }
}
