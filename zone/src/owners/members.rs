//! The members of a zone, and the slots that they have claimed.
//!
//! ```text
//!   entry, a line for each member     word 0  ┌ incarnation, 32 ┬ 0, 13 ┬ by, 15 ┬ phase, 4 ┐
//!                                     word 1    identity, the embedder's
//!   slot, a word for each             ┌ incarnation, 32 ┬ 0, 17 ┬ id, 15 ┐     0: nobody's
//! ```
//!
//! A member is an entry and an incarnation: how often the entry was joined. So a member that has gone is not taken for
//! the one that has its entry now.
//!
//! ```text
//!   free ── join ──▶ joining ──▶ live ── release ──▶ releasing, by … ──▶ free
//!                                  ◀── who releases has died ──
//! ```
//!
//! Each change but the two after *joining* and *releasing* is a swap. The identity is written while the entry is
//! joining; whoever reads it looks at word 0 before and after. A process that dies while it joins leaves the
//! entry so until the next sweep; it has no frames and no slots.

use woodlot_frame::atomics::Ordering::{AcqRel, Acquire, Release};

use woodlot_frame::Slot;
use woodlot_frame::atomics::AtomicU64;
use woodlot_llfree::Line;

use super::error::OwnersError;

/// The words of an entry: its state and its identity.
pub(crate) type Entry = Line<[AtomicU64; 2]>;

/// A member of a zone: who owns frames and slots there, usually a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    id: u16,
    incarnation: u32,
    identity: u64,
}

impl Member {
    /// Its number: from 1 to the number of members that the table has room for.
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// What it said of itself when it joined.
    pub const fn identity(&self) -> u64 {
        self.identity
    }

    /// What the word of a slot says that is its own.
    const fn as_slot(&self) -> u64 {
        (self.incarnation as u64) << 32 | self.id as u64
    }

    const fn state(&self, phase: Phase) -> State {
        State { phase, incarnation: self.incarnation }
    }
}

/// What a member is at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Free,
    Joining,
    Live,
    /// Its frames are being freed, by a member of this number.
    Releasing(u16),
}

/// The state word of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    phase: Phase,
    incarnation: u32,
}

impl State {
    const fn word(self) -> u64 {
        let low = match self.phase {
            Phase::Free => 0,
            Phase::Joining => 1,
            Phase::Live => 2,
            Phase::Releasing(by) => 3 | (by as u64) << 4,
        };
        (self.incarnation as u64) << 32 | low
    }

    /// A word that no entry has counts as one that is joining: only a sweep clears it.
    const fn of(word: u64) -> State {
        let phase = match word & 0xf {
            0 => Phase::Free,
            2 => Phase::Live,
            3 => Phase::Releasing((word >> 4) as u16 & 0x7fff),
            _ => Phase::Joining,
        };
        State { phase, incarnation: (word >> 32) as u32 }
    }
}

/// The entries and the slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members<'a> {
    entries: &'a [Entry],
    slots: &'a [AtomicU64],
}

impl<'a> Members<'a> {
    /// Entries that are all free, or in use.
    pub(crate) fn new(entries: &'a [Entry], slots: &'a [AtomicU64]) -> Self {
        Self { entries, slots }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The words of a member's entry.
    fn entry(&self, id: u16) -> Option<&'a [AtomicU64; 2]> {
        self.entries.get((id as usize).checked_sub(1)?).map(|line| &line.0)
    }

    fn ids(&self) -> core::ops::RangeInclusive<u16> {
        1..=self.entries.len() as u16
    }

    fn change(&self, id: u16, from: State, to: State) -> bool {
        let swap = |[state, _]: &[AtomicU64; 2]| {
            state.compare_exchange(from.word(), to.word(), AcqRel, Acquire).is_ok()
        };
        self.entry(id).is_some_and(swap)
    }

    fn state(&self, id: u16) -> Option<State> {
        self.entry(id).map(|[state, _]| State::of(state.load(Acquire)))
    }

    /// The member that an entry has, and whether it is live.
    fn read(&self, id: u16) -> Option<(Member, Phase)> {
        let [word, identity] = self.entry(id)?;
        let state = State::of(word.load(Acquire));
        let identity = identity.load(Acquire);
        let still = State::of(word.load(Acquire)).incarnation == state.incarnation;
        let joined = matches!(state.phase, Phase::Live | Phase::Releasing(_));
        let member = Member { id, incarnation: state.incarnation, identity };
        (still && joined).then_some((member, state.phase))
    }

    /// The live members, and those that are leaving: one that died meanwhile is to be found and released.
    pub(crate) fn all(self) -> impl Iterator<Item = Member> + 'a {
        let unreleased = |&(member, phase): &(Member, Phase)| {
            phase == Phase::Live || phase == Phase::Releasing(member.id)
        };
        self.ids().filter_map(move |id| self.read(id).filter(unreleased)).map(|(member, _)| member)
    }

    /// The member that has this number, live or being released.
    pub(crate) fn of(&self, id: u16) -> Option<Member> {
        self.read(id).map(|(member, _)| member)
    }

    pub(crate) fn is_live(&self, member: Member) -> bool {
        self.state(member.id) == Some(member.state(Phase::Live))
    }

    /// Takes a free entry.
    pub(crate) fn join(&self, identity: u64) -> Option<Member> {
        self.ids().find_map(|id| {
            let [word, of] = self.entry(id)?;
            let free = State::of(word.load(Acquire));
            if free.phase != Phase::Free {
                return None;
            }
            let incarnation = free.incarnation.wrapping_add(1);
            let member = Member { id, incarnation, identity };
            if !self.change(id, free, member.state(Phase::Joining)) {
                return None;
            }
            of.store(identity, Release);
            word.store(member.state(Phase::Live).word(), Release);
            Some(member)
        })
    }

    /// Begins to release a member that is dead, or that leaves.
    pub(crate) fn begin_release(&self, dead: Member, by: Member) -> Result<(), OwnersError> {
        let releasing = dead.state(Phase::Releasing(by.id));
        // A member that died while it left is released like one that lived.
        let leaving = dead.state(Phase::Releasing(dead.id));
        if self.change(dead.id, dead.state(Phase::Live), releasing)
            || by.id != dead.id && self.change(dead.id, leaving, releasing)
        {
            return Ok(());
        }
        match self.state(dead.id) {
            Some(State { phase: Phase::Releasing(other), incarnation })
                if incarnation == dead.incarnation =>
            {
                Err(OwnersError::BeingReleased { by: self.of(other).map(|member| member.identity) })
            }
            _ => Err(OwnersError::Gone(dead)),
        }
    }

    /// The entry of a member whose frames are free and whose slots are too.
    pub(crate) fn end_release(&self, dead: Member, by: Member) {
        // Those whom the dead one was releasing can be released by anybody again.
        for id in self.ids() {
            if let Some(state @ State { phase: Phase::Releasing(of), incarnation }) = self.state(id)
                && of == dead.id
                && id != dead.id
            {
                self.change(id, state, State { phase: Phase::Live, incarnation });
            }
        }
        self.change(dead.id, dead.state(Phase::Releasing(by.id)), dead.state(Phase::Free));
    }

    /// Claims a slot.
    pub(crate) fn claim(&self, member: Member, slot: Slot) -> Result<(), OwnersError> {
        let word = self.slots.get(slot.0).ok_or(OwnersError::BadSlot(slot))?;
        if !self.is_live(member) {
            return Err(OwnersError::Gone(member));
        }
        match word.compare_exchange(0, member.as_slot(), AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(_) => {
                let by = self.owner(slot).map(|owner| owner.identity);
                Err(OwnersError::SlotTaken { slot, by })
            }
        }
    }

    /// Who has a slot.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Member> {
        let word = self.slots.get(slot.0)?.load(Acquire);
        self.of(word as u16).filter(|member| member.as_slot() == word)
    }

    /// The slots that a member has.
    pub(crate) fn slots_of(self, member: Member) -> impl Iterator<Item = Slot> + 'a {
        let own = move |&slot: &Slot| {
            self.slots.get(slot.0).is_some_and(|word| word.load(Acquire) == member.as_slot())
        };
        (0..self.slots.len()).map(Slot).filter(own)
    }

    /// Gives a slot up. False: the member has not got it.
    pub(crate) fn give_up(&self, member: Member, slot: Slot) -> bool {
        self.slots
            .get(slot.0)
            .is_some_and(|word| word.compare_exchange(member.as_slot(), 0, AcqRel, Acquire).is_ok())
    }

    /// Frees every slot, and every entry but those of members that are kept; these are live. Returns how many entries
    /// became free. Nobody else uses the zone.
    pub(crate) fn clear(&self, keep: impl Fn(Member) -> bool) -> usize {
        self.slots.iter().for_each(|slot| slot.store(0, Release));
        let clear = |&id: &u16| {
            let (Some([word, _]), Some(state)) = (self.entry(id), self.state(id)) else {
                return false;
            };
            let kept = self.of(id).is_some_and(&keep);
            let phase = if kept { Phase::Live } else { Phase::Free };
            word.store(State { phase, ..state }.word(), Release);
            !kept && state.phase != Phase::Free
        };
        self.ids().filter(clear).count()
    }
}
