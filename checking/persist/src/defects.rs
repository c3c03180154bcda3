//! Seeded defects, each of which the simulator must find; and the model of persistence that makes them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::recorder::{Event, Store, fence, recent_stores, write_back};
use woodlot_frame::Persistence;
use woodlot_frame::atomics::AtomicU64;
use woodlot_zone::PAGE;

use crate::figures::Phase;

macro_rules! defects {
    ($($(#[$doc:meta])+ $name:ident,)*) => {
        /// A defect.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Defect {
            /// None: where something is found, the simulator or the engine is wrong.
            Nothing,
            $($(#[$doc])+ $name,)*
        }

        /// Every defect.
        pub const ALL: &[Defect] = &[$(Defect::$name),*];
    };
}

defects! {
    /// No state is written back.
    StateNotWrittenBack,
    /// No row is written back.
    RowNotWrittenBack,
    /// There are write-backs, and no fence.
    NoFence,
    /// A line is written back before the store.
    WriteBackBeforeStore,
    /// A line is written back after the fence.
    WriteBackAfterFence,
    /// A call writes back the last of its lines only.
    OnlyLastLine,
    /// A call writes back the first of its lines only.
    OnlyFirstLine,
    /// The line behind the right one is written back.
    WrongLine,
    /// Credits are given before the opening of the huge frame is persistent.
    CreditsBeforeOpening,
    /// A huge frame is handed out before its state is persistent.
    WholeBeforePersistent,
    /// A free of a whole huge frame returns before its state is persistent.
    FreedBeforePersistent,
    /// A free of a part leaves it to the call that has split the huge frame to write its state back.
    SplitLeftToOthers,
    /// A join is not written back.
    JoinNotWrittenBack,
    /// A huge frame that goes offline is not written back.
    OfflineNotWrittenBack,
    /// A claim of base frames is not written back.
    ClaimNotWrittenBack,
    /// A release of base frames is not written back.
    ReleaseNotWrittenBack,
    /// The recovery leaves the rows of huge frames that are not split as they are.
    RecoveryKeepsRowsOfWhole,
    /// The recovery turns the polarity of every huge frame, and its bits: the same frames are allocated.
    RecoveryTurnsPolarity,
    /// The recovery believes that joins are under way.
    RecoveryKeepsJoins,
    /// The recovery puts what was offline back.
    RecoveryOnlinesOffline,
    /// The recovery forgets whose memory is gone.
    RecoveryForgetsReclaimed,
    /// The recovery does not count the credits, and takes the counters as it finds them.
    RecoveryTrustsCredits,
    /// The recovery writes nothing back: it trusts that what it reads is persistent.
    RecoveryNotWrittenBack,
    /// The zone page says that the zone is whole before its rows and states are written.
    PageFirst,
    /// The rows of a new zone are not written back.
    NewRowsNotWrittenBack,
    /// The states of a new zone are not written back.
    NewStatesNotWrittenBack,
    /// The one-write engine takes the huge frames of a pair one after the other.
    OneWriteTakesHalves,
    /// It frees them one after the other.
    OneWriteFreesHalves,
    /// Its recovery frees rows that are taken.
    OneWriteFreesTaken,
    /// Its recovery takes rows that are open for taken.
    OneWriteKeepsOpen,
    /// Its recovery puts what was offline back.
    OneWriteOnlinesOffline,
    /// Its recovery forgets whose memory is gone.
    OneWriteForgetsReclaimed,
    /// The record names a write after it was made.
    IntentAfterWrite,
    /// No record is written back.
    IntentNotWrittenBack,
    /// A record is written back after the fence.
    IntentAfterFence,
    /// The record names the frame beside the right one.
    IntentNamesNeighbour,
    /// The record of a batch counts an entry before the entry is there.
    EntryAfterHeader,
    /// Nothing says that a call of several writes has come to its end.
    EndNotWritten,
    /// The steps of a long batch are counted in eight bits.
    StepOfEightBits,
    /// Of a record only the first page is written back.
    FirstPageOfRecord,
    /// The recovery does not look at the records.
    RecoveryIgnoresIntents,
    /// The recovery does not say in a record what it has resolved.
    RecoveryNotSealed,
    /// The recovery releases the write in doubt as well.
    RecoveryReleasesTooMuch,
    /// The recovery leaves one of the writes that are to be released.
    RecoveryReleasesTooLittle,
    /// The recovery takes a free back as if it were an allocation.
    RecoveryTakesFreesBack,
    /// The recovery says that a call is resolved before what it has resolved is persistent.
    RecoverySealsFirst,
    /// The same on a file: before what it has resolved is synchronised.
    FileSealedBeforeSync,
    /// What the recovery of a file says of calls that were cut off is not synchronised.
    FileSealNotSynced,
    /// A zone in a file is in use before what was recovered is synchronised.
    FileInUseBeforeSync,
    /// A synchronisation leaves the records out.
    FileRecordsNotSynced,
    /// A synchronisation leaves the last piece before the records out: rows, states or both.
    FileStatesNotSynced,
    /// A synchronisation leaves the first piece of the rows out.
    FileRowsNotSynced,
    /// The recovery opens a huge frame at an end of the zone, which damage had closed, before its rows are synchronised.
    FileEndOpenedBeforeSync,
}

impl Defect {
    /// The defect, if it is one of this phase.
    pub(crate) fn during(self, phase: Phase) -> Defect {
        let its = match self {
            Defect::PageFirst | Defect::NewRowsNotWrittenBack | Defect::NewStatesNotWrittenBack => {
                Phase::Start
            }
            Defect::RecoveryKeepsRowsOfWhole
            | Defect::RecoveryTurnsPolarity
            | Defect::RecoveryKeepsJoins
            | Defect::RecoveryOnlinesOffline
            | Defect::RecoveryForgetsReclaimed
            | Defect::RecoveryTrustsCredits
            | Defect::RecoveryNotWrittenBack
            | Defect::RecoveryIgnoresIntents
            | Defect::RecoveryNotSealed
            | Defect::RecoveryReleasesTooMuch
            | Defect::RecoveryReleasesTooLittle
            | Defect::RecoveryTakesFreesBack
            | Defect::RecoverySealsFirst => Phase::Recovery,
            _ => Phase::Operation,
        };
        if its == phase { self } else { Defect::Nothing }
    }

    /// Is this one of the one-write engine?
    pub(crate) fn is_of_one_write(self) -> bool {
        (Defect::OneWriteTakesHalves as usize..Defect::IntentAfterWrite as usize)
            .contains(&(self as usize))
    }

    /// Is this one of intents?
    pub(crate) fn needs_intents(self) -> bool {
        self as usize >= Defect::IntentAfterWrite as usize
    }

    /// Is it one of zones in files?
    pub(crate) fn is_of_files(self) -> bool {
        self as usize >= Defect::FileSealedBeforeSync as usize
    }

    /// Does it change records so that a recovery makes something else of them?
    pub(crate) fn misleads(self) -> bool {
        self.needs_intents() && self != Defect::RecoverySealsFirst && !self.is_of_files()
    }

    /// Is it one of a batch that is longer than a page of a record?
    pub(crate) fn is_of_long_batches(self) -> bool {
        matches!(self, Defect::StepOfEightBits | Defect::FirstPageOfRecord)
    }

    /// The events as a history with this defect has them.
    pub(crate) fn events(
        self,
        events: Vec<Event>,
        records: &Range<usize>,
        record_len: usize,
    ) -> Vec<Event> {
        // Stores that each thread has put off.
        let mut late: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
        let mut all = Vec::new();
        for event in events {
            let said = Said::of(&event, records, record_len);
            match (self, event, said) {
                (Defect::IntentAfterWrite, Event::Store(store), Some(Said::Header)) => {
                    late.entry(store.thread).or_default().push(event);
                }
                (Defect::IntentAfterWrite, Event::Store(store), None) => {
                    all.push(event);
                    all.append(late.entry(store.thread).or_default());
                }
                (Defect::EntryAfterHeader, Event::Store(store), Some(Said::Entry)) => {
                    late.entry(store.thread).or_default().push(event);
                }
                (Defect::EntryAfterHeader, Event::Store(store), Some(Said::Header)) => {
                    all.push(event);
                    all.append(late.entry(store.thread).or_default());
                }
                (Defect::IntentNamesNeighbour, Event::Store(mut store), Some(Said::Header)) => {
                    let batch = store.after >> 4 & 15 == 15;
                    store.after += if batch || store.after == 0 { 0 } else { 1 << 16 };
                    all.push(Event::Store(store));
                }
                (Defect::EndNotWritten, Event::Store(store), Some(Said::Header))
                    if store.before >> 2 & 3 == 1
                        && store.after & 15 != 0
                        && store.after >> 2 & 3 == 0 => {}
                (Defect::StepOfEightBits, Event::Store(mut store), Some(Said::Header)) => {
                    let batch = store.after >> 4 & 15 == 15;
                    store.after &= if batch { !(0xffff << 48) } else { !0 };
                    all.push(Event::Store(store));
                }
                (_, Event::Mark { thread, .. }, _) => {
                    all.append(late.entry(thread).or_default());
                    all.push(event);
                }
                _ => all.push(event),
            }
        }
        all
    }
}

/// Recoveries.
impl Defect {
    /// The events as a recovery with this defect has them.
    pub(crate) fn recovery(
        self,
        events: Vec<Event>,
        records: &Range<usize>,
        record_len: usize,
    ) -> Vec<Event> {
        let is_seal = |event: &Event| match (event, Said::of(event, records, record_len)) {
            (Event::Store(store), Some(Said::Header)) => {
                [store.before, store.after].map(|header| header >> 2 & 3) == [1, 2]
            }
            _ => false,
        };
        let is_in_use = |event: &Event| matches!(event, Event::Store(store) if store.word == STATE && store.after & 3 == 1);
        let is_fence = |event: &Event| matches!(event, Event::Fence { .. });
        let position = |is: &dyn Fn(&Event) -> bool| events.iter().position(is);
        let up_to_fence = |first: usize| {
            let fence = events.iter().skip(first).position(is_fence);
            first..fence.map_or(events.len(), |fence| first + fence + 1)
        };
        match self {
            // Of each the store, and what makes it persistent.
            Defect::RecoverySealsFirst => {
                let seals = (0..events.len()).filter(|&at| is_seal(&events[at]));
                moved(&events, seals.flat_map(up_to_fence).collect(), 0)
            }
            Defect::FileSealedBeforeSync => {
                let seals = (0..events.len()).filter(|&at| is_seal(&events[at]));
                // Behind the zone page, which says that the zone is being opened.
                let opening = position(&is_fence).map_or(0, |fence| fence + 1);
                moved(&events, seals.collect(), opening)
            }
            Defect::FileEndOpenedBeforeSync => {
                let opened = (0..events.len()).filter(|&at| opens_an_end(&events[at], records));
                let opening = position(&is_fence).map_or(0, |fence| fence + 1);
                moved(&events, opened.collect(), opening)
            }
            Defect::FileSealNotSynced => {
                let seal = events.iter().rposition(is_seal);
                without_sync(&events, seal.map_or(0..0, up_to_fence))
            }
            Defect::FileInUseBeforeSync => {
                let opening = position(&is_fence).map_or(0, |fence| fence + 1);
                let in_use = position(&is_in_use).map_or(0..0, up_to_fence);
                moved(&events, in_use.collect(), opening)
            }
            _ => events,
        }
    }
}

/// The word of the zone page that has the state: see LAYOUT.md.
pub(crate) const STATE: usize = 64;

/// Does a recovery say here that a huge frame is split, which was not?
fn opens_an_end(event: &Event, records: &Range<usize>) -> bool {
    let Event::Store(store) = *event else { return false };
    let in_states = store.word >= PAGE / 8 && store.word < records.start;
    in_states && [FREE, WHOLE, OFFLINE].iter().any(|&closed| turns(store, closed, SPLIT))
}

/// The events with some of them, in their order, at another place.
fn moved(events: &[Event], some: Vec<usize>, to: usize) -> Vec<Event> {
    let others = |range: Range<usize>| range.filter(|at| !some.contains(at));
    let order = others(0..to).chain(some.iter().copied()).chain(others(to..events.len()));
    order.map(|at| events[at]).collect()
}

/// The events, but for write-backs and fences among these.
fn without_sync(events: &[Event], some: Range<usize>) -> Vec<Event> {
    let is_sync = |event: &Event| matches!(event, Event::WriteBack { .. } | Event::Fence { .. });
    let all = events.iter().enumerate();
    all.filter(|(at, event)| !some.contains(at) || !is_sync(event))
        .map(|(_, &event)| event)
        .collect()
}

/// A word of a record.
#[derive(Clone, Copy)]
enum Said {
    Header,
    Entry,
}

impl Said {
    /// What a store writes to, if to a record.
    fn of(event: &Event, records: &Range<usize>, record_len: usize) -> Option<Said> {
        match event {
            Event::Store(store) if records.contains(&store.word) => {
                let header = (store.word - records.start).is_multiple_of(record_len);
                Some(if header { Said::Header } else { Said::Entry })
            }
            _ => None,
        }
    }
}

/// The model of persistence of a simulated zone.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    pub(crate) defect: Defect,
    /// The addresses of the durable memory, of the first state and of the first record.
    pub(crate) durable: usize,
    pub(crate) states: usize,
    pub(crate) records: usize,
    /// Words of a record.
    pub(crate) record_len: usize,
}

thread_local! {
    /// What a defect has put off.
    static LATE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// What a change of a state word does to huge frames: bits of the lanes a and b.
fn turns(store: Store, from: (u64, u64), to: (u64, u64)) -> bool {
    let lanes = |word: u64, bit: u64| (word >> bit & 1, word >> (bit + 16) & 1);
    let changes = |bit: &u64| lanes(store.before, *bit) == from && lanes(store.after, *bit) == to;
    (0..16).any(|bit| changes(&bit))
}

const SPLIT: (u64, u64) = (0, 0);
const FREE: (u64, u64) = (1, 0);
const WHOLE: (u64, u64) = (0, 1);
const OFFLINE: (u64, u64) = (1, 1);

impl Simulated {
    /// Does the defect leave this line as it is?
    fn forgets(self, address: usize) -> bool {
        if let Some(offset) = address.checked_sub(self.records) {
            return match self.defect {
                Defect::IntentNotWrittenBack | Defect::RecoveryNotWrittenBack => true,
                Defect::FirstPageOfRecord => offset % (8 * self.record_len) >= 4096,
                _ => false,
            };
        }
        let is_state = |address| address >= self.states;
        let state = is_state(address);
        let mut recent = recent_stores();
        recent.retain(|store| self.durable + store.word * 8 < self.records);
        let (states, rows): (Vec<Store>, Vec<Store>) =
            recent.into_iter().partition(|store| is_state(self.durable + store.word * 8));
        let turned = |from, to| state && states.iter().any(|&store| turns(store, from, to));
        match self.defect {
            Defect::StateNotWrittenBack | Defect::NewStatesNotWrittenBack => state,
            Defect::RowNotWrittenBack | Defect::NewRowsNotWrittenBack => !state,
            Defect::CreditsBeforeOpening => turned(FREE, SPLIT),
            Defect::WholeBeforePersistent => turned(FREE, WHOLE),
            Defect::FreedBeforePersistent => turned(WHOLE, FREE),
            Defect::OfflineNotWrittenBack => turned(FREE, OFFLINE),
            // A join turns the polarity; a close does not.
            Defect::JoinNotWrittenBack => {
                let polarity = |store: &Store| (store.before ^ store.after) >> 32 & 0xffff != 0;
                turned(SPLIT, FREE) && states.iter().any(polarity)
            }
            Defect::SplitLeftToOthers => state && states.is_empty(),
            Defect::ClaimNotWrittenBack => !state && !rows.iter().all(is_release),
            Defect::ReleaseNotWrittenBack => !state && rows.iter().all(is_release),
            Defect::RecoveryNotWrittenBack => true,
            _ => false,
        }
    }
}

/// Does the store to a row release frames of a huge frame that was whole, or with polarity 0?
fn is_release(store: &Store) -> bool {
    store.after.count_ones() < store.before.count_ones()
}

impl Persistence for Simulated {
    const NAME: &'static str = "simulated";

    fn detect() -> Option<Self> {
        None
    }

    fn write_back(self, word: &AtomicU64) {
        let address = word.as_ptr().addr();
        match self.defect {
            Defect::WriteBackBeforeStore => write_back(address, 1),
            Defect::WriteBackAfterFence | Defect::OnlyLastLine => {
                LATE.with_borrow_mut(|late| late.push(address));
            }
            Defect::OnlyFirstLine => LATE.with_borrow_mut(|late| {
                late.push(address);
                if late.len() == 1 {
                    write_back(address, 0);
                }
            }),
            Defect::IntentAfterFence if address >= self.records => {
                LATE.with_borrow_mut(|late| late.push(address));
            }
            Defect::WrongLine => write_back(address + 64, 0),
            _ if self.forgets(address) => {}
            _ => write_back(address, 0),
        }
    }

    fn fence(self) {
        let late = LATE.take();
        match self.defect {
            Defect::NoFence => {}
            Defect::WriteBackAfterFence | Defect::IntentAfterFence => {
                fence();
                late.iter().for_each(|&address| write_back(address, 0));
            }
            Defect::OnlyLastLine => {
                late.last().into_iter().for_each(|&address| write_back(address, 0));
                fence();
            }
            _ => fence(),
        }
    }
}
