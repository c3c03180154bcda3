//! Seeded defects, each of which the simulator must find; and the model of persistence that makes them.

use std::cell::RefCell;

use woodlot_frame::Persistence;
use woodlot_frame::atomics::AtomicU64;
use woodlot_recorder::{Store, fence, recent_stores, write_back};

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
            | Defect::RecoveryNotWrittenBack => Phase::Recovery,
            _ => Phase::Operation,
        };
        if its == phase { self } else { Defect::Nothing }
    }
}

/// The model of persistence of a simulated zone.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    pub(crate) defect: Defect,
    /// The addresses of the durable memory and of the first state.
    pub(crate) durable: usize,
    pub(crate) states: usize,
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
        let is_state = |address| address >= self.states;
        let state = is_state(address);
        let recent = recent_stores();
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
            Defect::WrongLine => write_back(address + 64, 0),
            _ if self.forgets(address) => {}
            _ => write_back(address, 0),
        }
    }

    fn fence(self) {
        let late = LATE.take();
        match self.defect {
            Defect::NoFence => {}
            Defect::WriteBackAfterFence => {
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
