//! How the allocator is made: the metadata's layout, and the first blocks.
//!
//! ```text
//!   slots │ classes of huge frames │ pages: padding, frames, padding │ heads: zone, slot 0, …
//! ```
//!
//! The padding completes the largest blocks at both ends of the zone, so that the buddy of every
//! page has an entry (Linux's memory map covers whole sections for the same reason).

use std::marker::PhantomData;

use woodlot_frame::atomics::AtomicU32;
use woodlot_frame::{
    Class, Construct, FrameId, Geometry, Init, InitError, MAX_CLASSES, MetadataSize, RawMetadata,
    Region, ZoneConfig,
};

use super::pcp::{HEADS, Pcp};
use super::state::{self, FREE, NONE};
use super::{Central, Linux};
use crate::config::check_zone;
use crate::lock::SpinLock;
use crate::pages::{Carver, Page, Pages, bytes_of};

/// How many there are of what.
struct Sizes {
    base: usize,
    /// Pages with the padding.
    pages: usize,
    heads: usize,
    classes: usize,
}

impl Sizes {
    fn of<G: Geometry, const PCP: bool>(config: &ZoneConfig) -> Self {
        let base = config.start.0 & !(G::MAX_FRAMES - 1);
        let pages = (config.end().0 - base).next_multiple_of(G::MAX_FRAMES);
        let zone_heads = (G::MAX_ORDER as usize + 1) * MAX_CLASSES;
        let slot_heads = if PCP { config.slots * HEADS as usize } else { 0 };
        Self { base, pages, heads: zone_heads + slot_heads, classes: pages >> G::HUGE_ORDER }
    }
}

impl<G: Geometry, const PCP: bool> Construct for Linux<G, PCP> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        check_zone(config)?;
        let sizes = Sizes::of::<G, PCP>(config);
        let volatile = bytes_of::<Pcp>(config.slots)
            + bytes_of::<AtomicU32>(sizes.classes)
            + bytes_of::<Page>(sizes.pages + sizes.heads);
        Ok(MetadataSize { durable: 0, volatile })
    }

    fn metadata_parts(
        config: &ZoneConfig,
        part: &mut dyn FnMut(Region, &'static str, usize),
    ) -> Result<(), InitError> {
        check_zone(config)?;
        let sizes = Sizes::of::<G, PCP>(config);
        part(Region::Volatile, "slot", bytes_of::<Pcp>(config.slots));
        part(Region::Volatile, "class", bytes_of::<AtomicU32>(sizes.classes));
        part(Region::Volatile, "page", bytes_of::<Page>(sizes.pages));
        part(Region::Volatile, "list head", bytes_of::<Page>(sizes.heads));
        Ok(())
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        metadata.check(Self::metadata_size(config)?)?;
        if init == Init::Recover {
            return Err(InitError::Unsupported);
        }
        let sizes = Sizes::of::<G, PCP>(config);
        let mut carver = Carver::new(metadata.volatile.0);
        let slots = carver.take::<Pcp>(config.slots);
        let classes = carver.take::<AtomicU32>(sizes.classes);
        let pages = carver.take::<Page>(sizes.pages + sizes.heads);
        let mut turns = [[0; MAX_CLASSES]; MAX_CLASSES];
        for class in config.classes.all() {
            let row = turns[class.0 as usize].iter_mut();
            row.zip(config.classes.turns(class)).for_each(|(entry, turn)| *entry = turn.0);
        }
        let this = Self {
            zone: *config,
            base: sizes.base,
            // SAFETY: `take` gave that many entries of the memory that the caller hands over.
            pages: unsafe { Pages::new(pages, sizes.pages + sizes.heads) },
            heads: sizes.pages as u32,
            classes,
            turns,
            slots,
            central: Central { lock: SpinLock::new(), free: 0.into() },
            geometry: PhantomData,
        };
        // Blocks are movable at first (`memmap_init`).
        let first_class = u32::from(Class::MOVABLE.0);
        let slot_heads = this.heads + (G::MAX_ORDER + 1) * MAX_CLASSES as u32;
        for slot in 0..config.slots {
            let pcp = Pcp::new(slot_heads + slot as u32 * HEADS);
            // SAFETY: there are `config.slots` slots, and nobody else knows of them yet.
            unsafe { this.slots.add(slot).write(pcp) };
        }
        for huge in 0..sizes.classes {
            // SAFETY: there are so many classes, and nobody else knows of them yet.
            unsafe { this.classes.add(huge).write(first_class.into()) };
        }
        (0..sizes.pages).for_each(|page| this.pages.at(page as u32).set_state(NONE));
        (0..sizes.heads).for_each(|head| this.pages.clear(this.heads + head as u32));
        this.first_blocks(init, first_class);
        Ok(this)
    }
}

impl<G: Geometry, const PCP: bool> Linux<G, PCP> {
    /// Tiles the zone with the largest blocks that fit.
    fn first_blocks(&self, init: Init, class: u32) {
        let held = self.central.lock.lock();
        let (mut frame, end) = (self.zone.start.0, self.zone.end().0);
        while frame < end {
            let aligned = frame.trailing_zeros().min(G::MAX_ORDER);
            let order = aligned.min((end - frame).ilog2());
            let page = self.page(FrameId(frame));
            if init == Init::Allocated {
                self.pages.at(page).set_state(state::allocated(order, class));
            } else {
                self.add_block(page, order, class, &held);
            }
            frame += 1 << order;
        }
    }

    fn add_block(&self, page: u32, order: u32, class: u32, held: &crate::lock::Held<'_>) {
        self.pages.at(page).set_state(FREE | order);
        self.pages.push_back(self.list(order, class), page);
        self.count(1 << order, held);
    }
}
