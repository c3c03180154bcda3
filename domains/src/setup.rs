//! Making domains: what is said of the machine, how much memory it takes, and where that comes from.
//!
//! ```text
//!   each domain    durable: the zone's allocator      volatile: the zone's allocator │ its chunks
//!   the first one                                     … │ zones │ ranges │ tallies │ homes │ index │ sections │ turns
//!
//!   carved from    the end of the domain's longest range
//! ```

use core::fmt;
use core::ops::Range;

use woodlot_frame::atomics::{AtomicU16, AtomicU64};
use woodlot_frame::{
    ClassPolicy, Construct, FrameAllocator, FrameId, Geometry, Init, InitError, METADATA_ALIGN,
    MetadataSize, Order, RawMetadata, Slot, ZoneConfig,
};

use crate::added::{Place, Ranges, Room};
use crate::chunk::{self, Piece, UNIT};
use crate::domains::Domains;
use crate::index::{self, Entry, Index, Run, Word};
use crate::map::{DomainId, MAX_DOMAINS, Map, Present};
use crate::policy::DomainSet;
use crate::tally::Tally;
use crate::turns::{Distances, Home, NO_ZONE, Turns};
use crate::zone::{Frames, Zone};
use crate::zones::Zones;

/// What is said of a machine.
#[derive(Clone, Debug)]
pub struct Setup<'s> {
    /// Its memory.
    pub map: Map<'s>,
    /// How many slots; at least one. One for each CPU is best.
    pub slots: usize,
    /// The classes of every zone.
    pub classes: ClassPolicy,
    /// The [room](ZoneConfig::record_room) of the records of every zone, if it has intents.
    pub record_room: usize,
    /// The domain of each slot's CPU. A slot of which nothing is said is in the first domain that has memory.
    pub homes: &'s [DomainId],
    /// How far the domains are from each other.
    pub distances: Distances<'s>,
    /// Where memory may be added later.
    pub room: Room,
}

/// Why there are no domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// A slot is at home in a domain of [`MAX_DOMAINS`] or more.
    NoSuchHome(Slot, DomainId),
    /// Two domains have frames of the same 64, which begin at a multiple of 64.
    SharedFrames(Present, Present),
    /// The sections of the room have a block of this order, or there are too many ranges or sections.
    RoomTooLarge(Order),
    /// A domain's zone cannot be made.
    Zone(DomainId, InitError),
    /// There is no memory for the metadata of a domain: its longest range has fewer frames than these.
    TooSmall(DomainId, usize),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchHome(slot, domain) => {
                write!(f, "slot {} is at home in {domain}, and there are {MAX_DOMAINS}", slot.0)
            }
            Self::SharedFrames(one, other) => write!(
                f,
                "the ranges from frame {} of {} and from frame {} of {} have frames of the same 64",
                one.start, one.domain, other.start, other.domain
            ),
            Self::RoomTooLarge(order) => {
                write!(f, "the room for more memory, in sections of {order}, is too large")
            }
            Self::Zone(domain, error) => write!(f, "{domain}: {error}"),
            Self::TooSmall(domain, frames) => {
                write!(f, "no range of {domain} has the {frames} frames that its metadata takes")
            }
        }
    }
}

impl core::error::Error for SetupError {}

/// The most sections of a room: two bytes each.
const MOST_SECTIONS: usize = 1 << 28;

/// The bytes of so many values, with what aligns what follows.
const fn bytes<T>(count: usize) -> usize {
    // What is too large for any memory stays so.
    count.saturating_mul(size_of::<T>()).saturating_add(METADATA_ALIGN - 1) & !(METADATA_ALIGN - 1)
}

/// What the first domain has beside its zone: how many values of each kind.
#[derive(Clone, Copy)]
struct Shared {
    zones: usize,
    ranges: usize,
    words: usize,
    entries: usize,
    sections: usize,
    domains: usize,
    homes: usize,
}

impl Shared {
    const fn bytes<A>(self) -> usize {
        let zones = bytes::<Zone<'_, A>>(self.zones.saturating_sub(1));
        let zones = zones.saturating_add(bytes::<Place<'_, A>>(self.ranges));
        let tallies = bytes::<Tally>(self.homes.saturating_mul(self.domains));
        let slots = tallies.saturating_add(bytes::<Home>(self.homes));
        let sections = bytes::<AtomicU16>(self.sections);
        let index = bytes::<Word>(self.words).saturating_add(bytes::<Entry>(self.entries));
        let lists = index.saturating_add(sections);
        let turns = bytes::<u8>(self.domains * self.domains) + bytes::<u16>(self.domains);
        zones.saturating_add(slots).saturating_add(lists).saturating_add(turns)
    }
}

impl<'s> Setup<'s> {
    /// A machine with this memory and so many slots, the shipped classes, all of it equally far.
    pub const fn new(map: Map<'s>, slots: usize) -> Setup<'s> {
        let (homes, distances) = (&[], Distances::EQUAL);
        let (classes, record_room) = (ClassPolicy::SHIPPED, ZoneConfig::RECORD_ROOM);
        Setup { map, slots, classes, record_room, homes, distances, room: Room::NONE }
    }

    /// The same with slots at home in these domains.
    pub const fn at_home(mut self, homes: &'s [DomainId]) -> Setup<'s> {
        self.homes = homes;
        self
    }

    /// The same with these distances.
    pub const fn apart(mut self, distances: Distances<'s>) -> Setup<'s> {
        self.distances = distances;
        self
    }

    /// The same with room for ranges that are [added](Domains::add_range) later, to domains that the map, the homes or
    /// the distances name.
    pub const fn growing(mut self, room: Room) -> Setup<'s> {
        self.room = room;
        self
    }

    /// The domain of a slot's CPU.
    fn home(&self, slot: usize) -> DomainId {
        let first = || self.map.ranges().iter().map(|range| range.domain).min();
        self.homes.get(slot).copied().or_else(first).unwrap_or_default()
    }

    /// Can there be such a machine, if its zones can?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check<G: Geometry>(&self) -> Result<(), SetupError> {
        let pairs = self.map.ranges().windows(2).filter_map(<[Present]>::first_chunk);
        for &[one, other] in pairs {
            let shared = (one.end.0 - 1) >> UNIT == other.start.0 >> UNIT;
            if shared && one.domain != other.domain {
                return Err(SetupError::SharedFrames(one, other));
            }
        }
        let most = usize::from(NO_ZONE) - MAX_DOMAINS;
        let section = u32::from(self.room.section.0);
        if section >= usize::BITS
            || self.room.ranges > most
            || self.sections::<G>().1 > MOST_SECTIONS
        {
            return Err(SetupError::RoomTooLarge(self.room.section));
        }
        let bad = self.homes.iter().position(|home| home.index() >= MAX_DOMAINS);
        match bad.and_then(|slot| Some((slot, self.homes.get(slot)?))) {
            Some((slot, &home)) => Err(SetupError::NoSuchHome(Slot(slot), home)),
            None => Ok(()),
        }
    }

    /// log2 of the frames of a section of the room.
    fn section<G: Geometry>(&self) -> u32 {
        u32::from(self.room.section.0).clamp(G::MAX_ORDER, usize::BITS - 1)
    }

    /// The first section of the room, and how many there are.
    fn sections<G: Geometry>(&self) -> (usize, usize) {
        let shift = self.section::<G>();
        let Range { start, end } = &self.room.within;
        // What is not a whole section has no room.
        let (first, end) = (start.0.div_ceil(1 << shift), end.0 >> shift);
        (first, if self.room.ranges == 0 { 0 } else { end.saturating_sub(first) })
    }

    /// The pieces of all zones, zone by zone.
    fn pieces<G: Geometry>(&self) -> impl Iterator<Item = (usize, Piece)> + Clone + use<'s, G> {
        let map = self.map;
        let zones = map.domains().enumerate();
        zones
            .flat_map(move |(zone, of)| chunk::pieces::<G>(map, of).map(move |piece| (zone, piece)))
    }

    fn units<G: Geometry>(&self) -> impl Iterator<Item = Range<usize>> + Clone + use<'s, G> {
        self.pieces::<G>().map(|(_, piece)| piece.units)
    }

    /// The same with their numbers in the zones.
    fn runs<G: Geometry>(&self) -> impl Iterator<Item = Run> + Clone + use<'_, 's, G> {
        self.pieces::<G>().map(|(zone, Piece { units, nth })| {
            let domain = self.map.domains().nth(zone).unwrap_or_default();
            let chunk = Self::longest::<G>(self.map, domain).1 + nth;
            let within = units.start & ((1 << chunk::units::<G>()) - 1);
            Run { zone, there: chunk << chunk::units::<G>() | within, units }
        })
    }

    /// The longest piece of a domain, and the chunk that its first one has to be in the zone for this piece to have the
    /// same numbers there.
    fn longest<G: Geometry>(map: Map<'_>, domain: DomainId) -> (Frames, usize) {
        let longest = chunk::pieces::<G>(map, domain).max_by_key(|piece| piece.units.len());
        let Some(Piece { units, nth }) = longest else { return (Frames { start: 0, count: 0 }, 0) };
        // As many chunks lie before it.
        let first = (units.start >> chunk::units::<G>()) - nth;
        (Frames { start: units.start << UNIT, count: units.len().saturating_mul(1 << UNIT) }, first)
    }

    /// The domains that are known.
    fn known(&self) -> DomainSet {
        let named = self.map.domains().chain(self.homes.iter().copied());
        let apart = (0..self.distances.domains() as u8).map(DomainId);
        named.chain(apart).fold(DomainSet::default(), DomainSet::with)
    }

    fn shared<G: Geometry>(&self) -> Shared {
        let (words, entries) = index::sizes::<G>(self.units::<G>());
        Shared {
            zones: self.map.domains().count(),
            ranges: self.room.ranges,
            words,
            entries,
            sections: self.sections::<G>().1,
            domains: self.known().iter().last().map_or(1, |domain| domain.index() + 1),
            homes: self.slots,
        }
    }

    /// So many frames from this one on, for these slots.
    const fn config(&self, start: FrameId, frames: usize) -> ZoneConfig {
        let config = ZoneConfig::new(frames, self.slots).starting_at(start);
        config.with_classes(self.classes).with_record_room(self.record_room)
    }

    /// The zone of a domain, with frames as they are numbered there.
    fn zone<G: Geometry>(&self, domain: DomainId) -> ZoneConfig {
        let chunks = self.chunks::<G>(domain);
        let mut ranges = self.map.of(domain);
        let (first, last) = (ranges.next(), ranges.next_back());
        let start = first.map_or(0, |range| chunk::offset::<G>(range.start));
        let place = Self::longest::<G>(self.map, domain).1;
        let end = last.or(first).map_or(0, |range| chunk::offset::<G>(range.end));
        let end = if end == 0 { G::MAX_FRAMES } else { end };
        let frames =
            chunks.saturating_mul(G::MAX_FRAMES).saturating_sub(start + G::MAX_FRAMES - end);
        self.config(chunk::frame::<G>(place, start), frames)
    }

    /// How many chunks a domain has.
    fn chunks<G: Geometry>(&self, domain: DomainId) -> usize {
        chunk::runs::<G>(self.map, domain).map(|run| run.len()).sum()
    }

    /// What the zone of a domain takes, without what is beside it.
    fn zone_size<A: Construct>(&self, domain: DomainId) -> Result<MetadataSize, SetupError> {
        let size = A::metadata_size(&self.zone::<A::Geometry>(domain));
        let MetadataSize { durable, volatile } =
            size.map_err(|error| SetupError::Zone(domain, error))?;
        Ok(MetadataSize { durable, volatile: volatile.next_multiple_of(METADATA_ALIGN) })
    }

    /// How much metadata each domain takes.
    ///
    /// # Errors
    /// What is wrong with the zone of a domain.
    pub fn sizes<A: Construct>(
        &self,
    ) -> impl Iterator<Item = Result<(DomainId, MetadataSize), SetupError>> + use<'_, 's, A> {
        self.map.domains().enumerate().map(|(number, domain)| {
            let mut size = self.zone_size::<A>(domain)?;
            size.volatile += bytes::<u32>(self.chunks::<A::Geometry>(domain));
            if number == 0 {
                let shared = self.shared::<A::Geometry>().bytes::<A>();
                size.volatile = size.volatile.saturating_add(shared);
            }
            Ok((domain, size))
        })
    }

    /// Makes domains in memory that `memory` supplies for each.
    ///
    /// # Errors
    /// What is wrong with the machine, or with the memory.
    ///
    /// # Safety
    /// As for [`Construct::construct`] with each memory, for `'a`.
    ///
    /// # Crash
    /// As the allocator's: `init` may be [`Init::Recover`] for the same map and the same durable parts.
    pub unsafe fn make<'a, A: Construct>(
        &self,
        mut memory: impl FnMut(DomainId, MetadataSize) -> Result<RawMetadata, SetupError>,
        init: Init,
    ) -> Result<Domains<'a, A>, SetupError> {
        self.check::<A::Geometry>()?;
        self.sizes::<A>().try_for_each(|size| size.map(|_| ()))?;
        let shared = self.shared::<A::Geometry>();
        let mut zones = self.sizes::<A>().map(|size| {
            let (domain, size) = size?;
            let metadata = memory(domain, size)?;
            metadata.check(size).map_err(|error| SetupError::Zone(domain, error))?;
            // SAFETY: as the caller says; the memory is as long as it must be.
            unsafe { self.zone_in(domain, metadata, init) }
        });
        let empty = SetupError::Zone(DomainId(0), InitError::EmptyZone);
        let (first, mut rest) = zones.next().unwrap_or(Err(empty))?;
        // SAFETY: the first domain's memory has room for this behind the zone's, and for each other zone.
        let (tables, others) = unsafe {
            let tables = Tables::new(self, shared, &mut rest);
            let mut others = 0;
            for zone in zones {
                tables.others.add(others).write(zone?.0);
                others += 1;
            }
            let others = core::slice::from_raw_parts(tables.others, others);
            (tables, others)
        };
        let too_large = SetupError::Zone(DomainId(0), InitError::ZoneTooLarge);
        let runs = self.runs::<A::Geometry>();
        let index =
            Index::new::<A::Geometry>(tables.words, tables.entries, runs).ok_or(too_large)?;
        let heads = tables.heads;
        let numbered = self.map.domains().enumerate();
        numbered.for_each(|(zone, of)| {
            heads.get_mut(of.index()).into_iter().for_each(|head| *head = zone as u16);
        });
        let room = (self.sections::<A::Geometry>().0, self.section::<A::Geometry>());
        let added = Ranges::new(tables.sections, tables.places, room);
        let zones = Zones { first, others, added };
        let Tables { homes, rows, tallies, .. } = tables;
        let turns = Turns::new(homes, rows, heads, tallies, &self.distances);
        let config = self.span();
        let (known, memory) = (self.known(), AtomicU64::new(0));
        let domains = Domains { config, index, zones, turns, known, memory };
        domains.look_for_memory();
        let holed = self.map.ranges().iter().filter(|_| init == Init::Free);
        let mut holed = holed.filter(|range| self.begins(range.domain) == Init::Allocated);
        holed.try_for_each(|range| domains.hand_over(range.range()))?;
        Ok(domains)
    }

    /// All frames that there are or may be, with holes.
    fn span(&self) -> ZoneConfig {
        let (mut span, room) = (self.map.span(), &self.room.within);
        if self.room.ranges > 0 && room.start < room.end {
            span = span.start.min(room.start)..span.end.max(room.end);
        }
        self.config(span.start, span.end.0 - span.start.0)
    }

    /// Makes the zone of a domain; returns what is left of its memory, too.
    ///
    /// # Safety
    /// As for [`make`](Self::make); the memory has what [`sizes`](Self::sizes) says.
    unsafe fn zone_in<'a, A: Construct>(
        &self,
        domain: DomainId,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<(Zone<'a, A>, Rest), SetupError> {
        let config = self.zone::<A::Geometry>(domain);
        let begins = if init == Init::Free { self.begins(domain) } else { init };
        let size = self.zone_size::<A>(domain)?;
        let own = RawMetadata { volatile: (metadata.volatile.0, size.volatile), ..metadata };
        // SAFETY: as the caller says; what lies behind is not the allocator's.
        let allocator = unsafe { A::construct(&config, own, begins) };
        let allocator = allocator.map_err(|error| SetupError::Zone(domain, error))?;
        let first = index::first::<A::Geometry>(self.units::<A::Geometry>());
        let runs = chunk::runs::<A::Geometry>(self.map, domain);
        let mut all = runs.flatten().map(|chunk| (chunk - first) as u32);
        // SAFETY: as the caller says.
        let (chunks, rest) = unsafe {
            let mut rest = Rest(metadata.volatile.0.add(size.volatile));
            let count = self.chunks::<A::Geometry>(domain);
            (&*rest.take(count, |_| all.next().unwrap_or(0)), rest)
        };
        let (longest, there) = Self::longest::<A::Geometry>(self.map, domain);
        let metadata = FrameId(0)..FrameId(0);
        Ok((Zone { allocator, domain, longest, first: (first, there), chunks, metadata }, rest))
    }

    /// How the zone of a domain begins that is to be free: allocated, if it has holes, and then freed but for these.
    fn begins(&self, domain: DomainId) -> Init {
        let holed = self.map.of(domain).nth(1).is_some();
        if holed { Init::Allocated } else { Init::Free }
    }

    /// The frames that hold so much metadata of a domain: the last ones of its longest range.
    fn carved<G: Geometry>(
        &self,
        domain: DomainId,
        size: MetadataSize,
    ) -> Result<Range<FrameId>, SetupError> {
        let bytes = size.durable.next_multiple_of(METADATA_ALIGN) + size.volatile;
        let frames = bytes.div_ceil(G::BASE_BYTES);
        let longest = self.map.of(domain).max_by_key(Present::frames);
        let longest = longest.filter(|range| range.frames() >= frames);
        let range = longest.ok_or(SetupError::TooSmall(domain, frames))?;
        Ok(FrameId(range.end.0 - frames)..range.end)
    }

    /// Makes domains whose metadata lies in their own memory, and stays allocated there. All else is free.
    ///
    /// `at` says where a frame is mapped; the frames of a range are mapped side by side.
    ///
    /// # Errors
    /// What is wrong with the machine. Frames may have been written to.
    ///
    /// # Safety
    /// All frames of the map are free, initialised memory, nobody else's, and stay mapped where `at` says for `'a`.
    pub unsafe fn carve<'a, A: Construct>(
        &self,
        at: impl Fn(FrameId) -> *mut u8,
    ) -> Result<Domains<'a, A>, SetupError> {
        let memory = |domain, size: MetadataSize| {
            let start = at(self.carved::<A::Geometry>(domain, size)?.start);
            // SAFETY: the frames have room for both parts.
            let volatile = unsafe { start.add(size.durable.next_multiple_of(METADATA_ALIGN)) };
            Ok(RawMetadata { durable: (start, size.durable), volatile: (volatile, size.volatile) })
        };
        // SAFETY: the frames are the caller's, mapped and initialised, and are not freed below.
        let domains = unsafe { self.make::<A>(memory, Init::Allocated) }?;
        for size in self.sizes::<A>() {
            let (domain, size) = size?;
            let carved = self.carved::<A::Geometry>(domain, size)?;
            for range in self.map.of(domain) {
                let end = if range.end == carved.end { carved.start } else { range.end };
                domains.hand_over(range.start..end)?;
            }
        }
        Ok(domains)
    }
}

/// What the first domain has beside its zone, laid out.
struct Tables<'a, A> {
    others: *mut Zone<'a, A>,
    places: &'a [Place<'a, A>],
    tallies: &'a [Tally],
    homes: &'a [Home],
    words: &'a mut [Word],
    entries: &'a mut [Entry],
    sections: &'a [AtomicU16],
    rows: &'a mut [u8],
    heads: &'a mut [u16],
}

impl<A> Tables<'_, A> {
    /// # Safety
    /// As for [`Rest::take`], for all of them.
    unsafe fn new(setup: &Setup<'_>, shared: Shared, rest: &mut Rest) -> Self {
        let Shared { zones, ranges, words, entries, sections, domains, homes } = shared;
        // SAFETY: as the caller says.
        unsafe {
            Tables {
                others: rest.skip(zones.saturating_sub(1)),
                places: rest.take(ranges, |_| Place::new()),
                tallies: rest.take(homes * domains, |_| Tally::default()),
                homes: rest.take(homes, |slot| Home::new(setup.home(slot))),
                words: rest.take(words, |_| Word::NONE),
                entries: rest.take(entries, |_| Entry::NONE),
                sections: rest.take(sections, |_| AtomicU16::new(0)),
                rows: rest.take(domains * domains, |_| 0),
                heads: rest.take(domains, |_| NO_ZONE),
            }
        }
    }
}

/// Memory of which the first values are taken.
struct Rest(*mut u8);

impl Rest {
    /// Room for the next values.
    ///
    /// # Safety
    /// There is so much memory, and nobody else has it. It is aligned to a cache line.
    unsafe fn skip<T>(&mut self, count: usize) -> *mut T {
        const { assert!(align_of::<T>() <= METADATA_ALIGN) };
        let start = self.0.cast::<T>();
        // SAFETY: as the caller says.
        self.0 = unsafe { self.0.add(bytes::<T>(count)) };
        start
    }

    /// The next values.
    ///
    /// # Safety
    /// As for [`skip`](Self::skip), for `'a`.
    unsafe fn take<'a, T>(
        &mut self,
        count: usize,
        mut value: impl FnMut(usize) -> T,
    ) -> &'a mut [T] {
        // SAFETY: as the caller says; each value is written.
        unsafe {
            let start = self.skip::<T>(count);
            (0..count).for_each(|at| start.add(at).write(value(at)));
            core::slice::from_raw_parts_mut(start, count)
        }
    }
}

impl<A: FrameAllocator> Domains<'_, A> {
    /// Frees a range that begins allocated.
    fn hand_over(&self, range: Range<FrameId>) -> Result<(), SetupError> {
        let domain = self.domain_of(range.start).unwrap_or_default();
        let freed = self.free_range(range, Slot(0));
        freed.map_err(|_| SetupError::Zone(domain, InitError::Unsupported))
    }
}

/// One domain with all frames of a zone: what a contiguous machine is.
impl<A: Construct> Construct for Domains<'_, A> {
    fn metadata_size(config: &ZoneConfig) -> Result<MetadataSize, InitError> {
        single(config, |setup| {
            let size = setup.sizes::<A>().next();
            size.map_or(Err(InitError::EmptyZone), |size| Ok(size.map_err(init_error)?.1))
        })
    }

    unsafe fn construct(
        config: &ZoneConfig,
        metadata: RawMetadata,
        init: Init,
    ) -> Result<Self, InitError> {
        single(config, |setup| {
            // SAFETY: as the caller says; there is one domain.
            let domains = unsafe { setup.make(|_, _| Ok(metadata), init) };
            domains.map_err(init_error)
        })
    }
}

/// Calls with a machine that has these frames in one domain.
fn single<R>(
    config: &ZoneConfig,
    call: impl FnOnce(Setup<'_>) -> Result<R, InitError>,
) -> Result<R, InitError> {
    if config.frames == 0 {
        return Err(InitError::EmptyZone);
    }
    let end = config.start.checked_add(config.frames).ok_or(InitError::ZoneTooLarge)?;
    let mut ranges = [Present::new(config.start..end, DomainId(0))];
    let map = Map::new(&mut ranges).map_err(|_| InitError::EmptyZone)?;
    let ZoneConfig { classes, record_room, .. } = *config;
    call(Setup { classes, record_room, ..Setup::new(map, config.slots) })
}

fn init_error(error: SetupError) -> InitError {
    match error {
        SetupError::Zone(_, error) => error,
        SetupError::NoSuchHome(..)
        | SetupError::SharedFrames(..)
        | SetupError::RoomTooLarge(..)
        | SetupError::TooSmall(..) => InitError::Unsupported,
    }
}
