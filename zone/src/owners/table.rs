//! The owner table in its memory: a page that says what follows, then the entries, the slots and the tags.

use core::ops::Range;

use woodlot_frame::atomics::clear;
use woodlot_frame::{Geometry, InitError, ZoneConfig};

use super::Owners;
use super::error::OwnersError;
use super::members::{Entry, Members};
use super::tags::{MOST_IDS, Tags};
use crate::field::{Field, OWNERS_MAGIC};
use crate::layout::{Memory, PAGE};
use crate::page::{self, Constants};

/// The version of the owner table. Version 1 did not say who sweeps.
const VERSION: u64 = 2;
/// The word of the page that says who has the right to sweep.
const SWEEPING: usize = 64;

/// Where the parts of an owner table lie, in bytes from its page.
struct Layout {
    members: Range<usize>,
    slots: Range<usize>,
    tags: Range<usize>,
    len: usize,
}

impl Layout {
    fn of(config: &ZoneConfig, members: usize) -> Result<Layout, OwnersError> {
        if !(1..=MOST_IDS).contains(&members) {
            return Err(OwnersError::Members(members));
        }
        let after = |at: usize, count: usize, bytes: usize| {
            let end = at.checked_add(count.checked_mul(bytes)?)?;
            Some((at..end, end.checked_next_multiple_of(64)?))
        };
        let parts = || {
            let (members, next) = after(PAGE, members, size_of::<Entry>())?;
            let (slots, next) = after(next, config.slots, size_of::<u64>())?;
            let (tags, next) = after(next, config.frames, size_of::<u16>())?;
            Some(Layout { members, slots, tags, len: next.checked_next_multiple_of(PAGE)? })
        };
        parts().ok_or(OwnersError::Page(InitError::ZoneTooLarge.into()))
    }
}

/// The words of the page that are compared, in the order in which they are reported.
const COMPARED: [Field; 7] = [
    Field::BaseShift,
    Field::Start,
    Field::Frames,
    Field::Slots,
    Field::MembersOffset,
    Field::SlotsOffset,
    Field::TagsOffset,
];

fn constants<G: Geometry>(config: &ZoneConfig, members: usize, layout: &Layout) -> Constants {
    Constants::of_fields(&[
        (Field::Magic, OWNERS_MAGIC),
        (Field::Version, VERSION),
        (Field::BaseShift, G::BASE_SHIFT as u64),
        (Field::Start, config.start.0 as u64),
        (Field::Frames, config.frames as u64),
        (Field::Slots, config.slots as u64),
        (Field::Length, layout.len as u64),
        (Field::Members, members as u64),
        (Field::MembersOffset, layout.members.start as u64),
        (Field::SlotsOffset, layout.slots.start as u64),
        (Field::TagsOffset, layout.tags.start as u64),
    ])
}

impl<'a> Owners<'a> {
    /// The bytes of an owner table for a zone, with room for `members` members, 1 to 32767. A multiple of
    /// [`PAGE`].
    ///
    /// # Errors
    /// [`OwnersError::Members`], or [`OwnersError::Page`] where the zone is too large.
    pub fn len(config: &ZoneConfig, members: usize) -> Result<usize, OwnersError> {
        Ok(Layout::of(config, members)?.len)
    }

    /// Makes an owner table in which there is no member and no frame has an owner.
    ///
    /// # Errors
    /// [`OwnersError::Members`]; [`OwnersError::Page`] with [`ZoneError::Exists`](crate::ZoneError::Exists) where a table is already, with what
    /// is damaged of one, or with [`ZoneError::Short`](crate::ZoneError::Short). Who wants another one [erases](crate::erase) its page first.
    ///
    /// # Crash
    /// The table is there or not: its magic number is written last.
    ///
    /// # Safety
    /// Nobody else may use the memory meanwhile; then only as owner tables of the same zone.
    pub unsafe fn format<G: Geometry>(
        memory: Memory<'a>,
        config: &ZoneConfig,
        members: usize,
    ) -> Result<Self, OwnersError> {
        let layout = Layout::of(config, members)?;
        memory.check(layout.len)?;
        page::vacant(memory.page(), OWNERS_MAGIC)?;
        page::mark(memory.page());
        // SAFETY: as the caller promises.
        unsafe { clear(memory.part(&(PAGE..layout.len))) };
        page::write(memory.page(), &constants::<G>(config, members, &layout));
        page::finish(memory.page(), OWNERS_MAGIC);
        // SAFETY: `check` found that the memory holds the parts, and the caller vouches for its use.
        Ok(unsafe { Self::over(memory, config, &layout) })
    }

    /// An owner table that is there. Nothing is written: others may use it, or nobody.
    ///
    /// # Errors
    /// [`OwnersError::Page`] with what is wrong: no table, damage, one of another version, or of another zone.
    ///
    /// # Safety
    /// The memory may be used as owner tables of the same zone only.
    pub unsafe fn open<G: Geometry>(
        memory: Memory<'a>,
        config: &ZoneConfig,
    ) -> Result<Self, OwnersError> {
        let found = Constants::whole(memory.page(), OWNERS_MAGIC)?;
        found.version(VERSION, 0)?;
        let members = found.number(Field::Members)?;
        let layout = Layout::of(config, members)?;
        found.compare(&constants::<G>(config, members, &layout), &COMPARED)?;
        memory.check(layout.len)?;
        // SAFETY: as above.
        Ok(unsafe { Self::over(memory, config, &layout) })
    }

    /// # Safety
    /// The memory holds the parts and is used as owner tables of the same zone only.
    unsafe fn over(memory: Memory<'a>, config: &ZoneConfig, layout: &Layout) -> Self {
        let start = |part: &Range<usize>| memory.part(&(part.start..layout.len)).as_ptr();
        let count = |part: &Range<usize>, bytes: usize| part.len() / bytes;
        // SAFETY: each part begins at a multiple of 64 bytes in the memory, which is aligned to a page, and ends in it;
        // atomics may have any value; each part is accessed at one width only, but by `format`, which nobody else
        // accesses it beside.
        unsafe {
            let entries = core::slice::from_raw_parts(
                start(&layout.members).cast(),
                count(&layout.members, size_of::<Entry>()),
            );
            let slots = core::slice::from_raw_parts(start(&layout.slots), config.slots);
            let tags = core::slice::from_raw_parts(start(&layout.tags).cast(), config.frames);
            Self::new(
                Members::new(entries, slots),
                Tags::new(tags, config.start),
                &memory.page()[SWEEPING],
            )
        }
    }
}
