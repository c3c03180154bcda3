//! The zone page: what lies in the memory, and how it is to be read.
//!
//! ```text
//!   word 0      magic, or the mark of a zone that is being formatted
//!   word 1      checksum of words 2 to 63
//!   words 2–63  constant: written once, before the magic
//!   word 64 …   the state, which changes
//! ```
//!
//! Magic, checksum and version keep their places and their meaning in every version. So a version that is not
//! known is told apart from damage.

use woodlot_frame::atomics::AtomicU64;
use woodlot_frame::{Class, ClassPolicy, FrameId, Geometry, InitError, MAX_CLASSES, ZoneConfig};
use woodlot_llfree::{DURABLE_VERSION, VOLATILE_VERSION};

use crate::ZoneError;
use crate::checksum;
use crate::field::{Field, MAGIC};
use crate::layout::{Layout, Memory, PAGE, PAGE_WORDS};
use crate::medium::{Medium, NotDurable, Persistence};
use crate::phase::Phase;
use crate::state::{self, State, load, store};

/// Words that are written once.
const CONSTANT: usize = 64;
/// Where those begin that the checksum is of.
const SUMMED: usize = Field::Version as usize;

/// The engine LLFree.
const LLFREE: u64 = 1;
/// The version of the zone page.
const VERSION: u64 = 1;
/// What the first word is while a zone is being formatted.
const MARK: u64 = u64::from_le_bytes(*b"woodlot?");
/// Of the features that must be known: the zone keeps intents.
const INTENTS: u64 = 1;
/// The features that must be known and are.
const KNOWN: u64 = INTENTS;

/// What a zone is by its medium.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    persistence: Persistence,
    intents: bool,
}

impl Kind {
    pub(crate) const fn of<M: Medium>() -> Kind {
        let intents = <M::WriteBack as woodlot_frame::Persistence>::INTENTS;
        Kind { persistence: M::MODEL, intents }
    }

    /// # Errors
    /// [`ZoneError::RecordOnFile`]
    pub(crate) fn check(self, config: &ZoneConfig) -> Result<(), ZoneError> {
        let (file, room) = (self.persistence == Persistence::File, config.record_entries());
        // A page of a file is written back as a whole: a record lies in one if its length divides the page's.
        let fits = (room + 1).is_power_of_two() && room <= ZoneConfig::RECORD_ROOM;
        match self.intents && file && !fits {
            true => Err(ZoneError::RecordOnFile { room }),
            false => Ok(()),
        }
    }
}

/// The constant words of a zone page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Constants([u64; CONSTANT]);

impl Constants {
    /// Those of a new zone.
    pub(crate) fn of<G: Geometry>(
        config: &ZoneConfig,
        Kind { persistence, intents }: Kind,
        layout: &Layout,
    ) -> Constants {
        let policy = &config.classes;
        let bytes = |at: fn(&ClassPolicy, Class) -> u8| {
            let bytes: [u8; MAX_CLASSES] =
                core::array::from_fn(|class| at(policy, Class(class as u8)));
            u64::from_le_bytes(bytes)
        };
        let mut words = Constants::of_fields(&[
            (Field::Magic, MAGIC),
            (Field::Version, VERSION),
            (Field::Incompatible, if intents { INTENTS } else { 0 }),
            (Field::Engine, LLFREE),
            (Field::EngineVersion, DURABLE_VERSION as u64),
            (Field::BaseShift, G::BASE_SHIFT as u64),
            (Field::HugeOrder, G::HUGE_ORDER as u64),
            (Field::TreeHuge, G::TREE_HUGE as u64),
            (Field::Persistence, persistence as u64),
            (Field::Start, config.start.0 as u64),
            (Field::Frames, config.frames as u64),
            (Field::Slots, config.slots as u64),
            (Field::Classes, policy.count() as u64),
            (Field::Fills, bytes(|policy, class| policy.fills(class).count() as u8)),
            (Field::Length, layout.len as u64),
            (Field::DurableOffset, layout.durable.start as u64),
            (Field::DurableBytes, layout.durable.len() as u64),
            (Field::VolatileOffset, layout.volatile.start as u64),
            (Field::VolatileBytes, layout.volatile.len() as u64),
            (Field::RecordRoom, if intents { config.record_entries() as u64 } else { 0 }),
        ]);
        for (class, field) in policy.all().zip(Field::TURNS) {
            let mut turns = [0; MAX_CLASSES];
            turns.iter_mut().zip(policy.turns(class)).for_each(|(byte, turn)| *byte = turn.0);
            words.set(field, u64::from_le_bytes(turns));
        }
        words.set(Field::Checksum, words.checksum());
        words
    }

    /// These words and their checksum; all others are zero.
    pub(crate) fn of_fields(fields: &[(Field, u64)]) -> Constants {
        let mut words = Constants([0; CONSTANT]);
        fields.iter().for_each(|&(field, value)| words.set(field, value));
        words.set(Field::Checksum, words.checksum());
        words
    }

    /// Those of a page that begins with `magic`.
    ///
    /// # Errors
    /// That it does not, or that the checksum is wrong.
    pub(crate) fn whole(
        page: &[AtomicU64; PAGE_WORDS],
        magic: u64,
    ) -> Result<Constants, ZoneError> {
        let words = Constants::load(page);
        match words.get(Field::Magic) {
            found if found == magic => {}
            MARK => return Err(ZoneError::Unfinished),
            0 if (0..PAGE_WORDS).all(|at| load(page, at) == 0) => return Err(ZoneError::Empty),
            found if words.is_whole() => return Err(mismatch(Field::Magic, magic, found)),
            magic => return Err(ZoneError::Foreign { magic }),
        }
        if !words.is_whole() {
            let (expected, found) = (words.checksum(), words.get(Field::Checksum));
            return Err(ZoneError::Checksum { expected, found });
        }
        Ok(words)
    }

    /// # Errors
    /// [`ZoneError::Mismatch`] where the page is of another version, otherwise [`ZoneError::Features`] with those that
    /// are not in `known`.
    pub(crate) fn version(&self, version: u64, known: u64) -> Result<(), ZoneError> {
        let (found, unknown) = (self.get(Field::Version), self.get(Field::Incompatible) & !known);
        match unknown {
            _ if found != version => Err(mismatch(Field::Version, version, found)),
            0 => Ok(()),
            unknown => Err(ZoneError::Features { unknown }),
        }
    }

    fn load(page: &[AtomicU64; PAGE_WORDS]) -> Constants {
        Constants(core::array::from_fn(|at| load(page, at)))
    }

    fn get(&self, field: Field) -> u64 {
        self.0.get(field as usize).copied().unwrap_or_default()
    }

    fn set(&mut self, field: Field, value: u64) {
        self.0.get_mut(field as usize).into_iter().for_each(|word| *word = value);
    }

    /// By the words.
    fn checksum(&self) -> u64 {
        checksum::of_words(self.0.get(SUMMED..).unwrap_or_default())
    }

    /// Is the checksum right, whatever else is wrong?
    fn is_whole(&self) -> bool {
        self.checksum() == self.get(Field::Checksum)
    }

    /// A number of the page, as this machine counts.
    pub(crate) fn number(&self, field: Field) -> Result<usize, ZoneError> {
        usize::try_from(self.get(field)).map_err(|_| InitError::ZoneTooLarge.into())
    }

    fn classes(&self) -> Result<ClassPolicy, ZoneError> {
        let count = self.number(Field::Classes)?;
        let turns = Field::TURNS.map(|field| self.get(field).to_le_bytes());
        let fills = self.get(Field::Fills).to_le_bytes();
        let mut rows: [(u8, &[u8]); MAX_CLASSES] = [(0, &[]); MAX_CLASSES];
        for ((row, turns), fills) in rows.iter_mut().zip(&turns).zip(fills) {
            *row = (fills, turns.get(..count).ok_or(ZoneError::Classes)?);
        }
        rows.get(..count).and_then(ClassPolicy::new).ok_or(ZoneError::Classes)
    }

    /// # Errors
    /// [`ZoneError::Mismatch`] with the first field that is not as in `expected`.
    pub(crate) fn compare(&self, expected: &Constants, fields: &[Field]) -> Result<(), ZoneError> {
        let differs = |&&field: &&Field| self.get(field) != expected.get(field);
        match fields.iter().find(differs) {
            Some(&field) => Err(mismatch(field, expected.get(field), self.get(field))),
            None => Ok(()),
        }
    }
}

fn mismatch(field: Field, expected: u64, found: u64) -> ZoneError {
    ZoneError::Mismatch { field, expected, found }
}

/// What a zone page says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The zone.
    pub config: ZoneConfig,
    /// The size of a base frame is 2 to the power of this, in bytes.
    pub base_shift: u64,
    /// The order of a huge frame.
    pub huge_order: u64,
    /// How many huge frames a tree has.
    pub tree_huge: u64,
    /// `None`: a model that this version does not know.
    pub persistence: Option<Persistence>,
    /// Does the zone keep [intents](crate::Intents)?
    pub intents: bool,
    /// Where the parts lie.
    pub layout: Layout,
    /// What the zone is at this moment. `None`: the word is damaged, and the zone must be recovered.
    pub phase: Option<Phase>,
    /// How often the zone was opened, formatting included; modulo 2^30. 0 if that is not known.
    pub generation: u32,
}

impl Info {
    /// Reads the zone page of a zone of any geometry. Nothing is written.
    ///
    /// # Errors
    /// What is wrong with the zone page: no zone, an unfinished one, damage, an unknown version or feature, an
    /// unknown allocator, contradicting classes.
    pub fn read(memory: Memory<'_>) -> Result<Info, ZoneError> {
        let page = memory.page();
        let words = Constants::whole(page, MAGIC)?;
        words.version(VERSION, KNOWN)?;
        let engine = words.get(Field::Engine);
        if engine != LLFREE {
            return Err(mismatch(Field::Engine, LLFREE, engine));
        }
        let config = ZoneConfig {
            start: FrameId(words.number(Field::Start)?),
            frames: words.number(Field::Frames)?,
            slots: words.number(Field::Slots)?,
            classes: words.classes()?,
            record_room: match words.number(Field::RecordRoom)? {
                0 => ZoneConfig::RECORD_ROOM,
                room => room,
            },
        };
        let part = |offset, bytes| {
            let start = words.number(offset)?;
            let end = start.checked_add(words.number(bytes)?).ok_or(InitError::ZoneTooLarge)?;
            Ok::<_, ZoneError>(start..end)
        };
        let layout = Layout {
            durable: part(Field::DurableOffset, Field::DurableBytes)?,
            volatile: part(Field::VolatileOffset, Field::VolatileBytes)?,
            len: words.number(Field::Length)?,
        };
        let state = State::load(page);
        Ok(Info {
            config,
            base_shift: words.get(Field::BaseShift),
            huge_order: words.get(Field::HugeOrder),
            tree_huge: words.get(Field::TreeHuge),
            persistence: Persistence::of(words.get(Field::Persistence)),
            intents: words.get(Field::Incompatible) & INTENTS != 0,
            layout,
            phase: state.map(|state| state.phase),
            generation: state.map_or(0, |state| state.generation),
        })
    }

    /// Reads the zone page, and checks that the zone is `expected`, or at least one of this geometry; and, if a
    /// kind is given, of that.
    pub(crate) fn check<G: Geometry>(
        memory: Memory<'_>,
        expected: Option<&ZoneConfig>,
        kind: Option<Kind>,
    ) -> Result<Info, ZoneError> {
        let info = Info::read(memory)?;
        let found = Constants::load(memory.page());
        let config = expected.unwrap_or(&info.config);
        let persistence = info.persistence.unwrap_or(Persistence::None);
        let kind = kind.unwrap_or(Kind { persistence, intents: info.intents });
        if kind.intents != info.intents {
            return Err(ZoneError::Intents { kept: info.intents });
        }
        kind.check(config)?;
        let layout = match info.intents {
            false => Layout::of::<G>(config),
            true => Layout::with_intents::<G>(config),
        }?;
        let due = Constants::of::<G>(config, kind, &layout);
        // Before the lengths, which follow from it.
        found.compare(&due, &[Field::RecordRoom])?;
        found.compare(&due, &Field::COMPARED)?;
        memory.check(layout.len)?;
        Ok(info)
    }
}

/// Is there room for what begins with `magic`: nothing, something else, or one that was not made to the end?
///
/// # Errors
/// [`ZoneError::Exists`] where there is one, of whatever version; what is damaged of it, if it can still be told that
/// it was one.
pub(crate) fn vacant(page: &[AtomicU64; PAGE_WORDS], magic: u64) -> Result<(), ZoneError> {
    match Constants::whole(page, magic) {
        Ok(_) => Err(ZoneError::Exists),
        Err(ZoneError::Empty | ZoneError::Unfinished | ZoneError::Foreign { .. }) => Ok(()),
        Err(damage) => Err(damage),
    }
}

/// Clears the page of a zone or of an owner table, whatever it holds: what lay there is gone, and another one can be
/// made.
///
/// # Errors
/// [`NotDurable`]
///
/// # Safety
/// Nobody uses what lies in the memory, or will.
pub unsafe fn erase<M: Medium>(memory: Memory<'_>, medium: &M) -> Result<(), NotDurable> {
    (0..PAGE_WORDS).for_each(|at| store(memory.page(), at, 0));
    memory.persist(medium, 0..PAGE)
}

/// Marks the page as one of a zone that is being formatted.
pub(crate) fn mark(page: &[AtomicU64; PAGE_WORDS]) {
    store(page, Field::Magic as usize, MARK);
}

/// Writes all of the page but the magic: the constants, and zeroes behind them.
pub(crate) fn write(page: &[AtomicU64; PAGE_WORDS], constants: &Constants) {
    let words = constants.0.iter().copied().chain(core::iter::repeat(0));
    words.take(PAGE_WORDS).enumerate().skip(1).for_each(|(at, word)| store(page, at, word));
}

/// The same of a zone page, with its state.
pub(crate) fn fill(page: &[AtomicU64; PAGE_WORDS], constants: &Constants, opened: State) {
    write(page, constants);
    state::set_volatile_version(page, VOLATILE_VERSION as u64);
    opened.store(page);
}

/// Says that all of it is there.
pub(crate) fn finish(page: &[AtomicU64; PAGE_WORDS], magic: u64) {
    store(page, Field::Magic as usize, magic);
}
