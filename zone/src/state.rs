//! The state of a zone: one word of the zone page, and the seal that a close leaves.
//!
//! ```text
//!   word 64   ┌ complement of the low half, 32 ┬ generation, 30 ┬ phase, 2 ┐
//!   word 65   the version of the volatile part, of who opened the zone last
//!   word 72   seal: version and checksum of the volatile part │ checksum of the durable part │
//!             state word of the close │ checksum of these four
//! ```
//!
//! The state changes by a store of one word. A word whose halves do not fit together is torn or damaged; the zone
//! is then recovered, which is right in every state. A seal counts only if it is whole and of this generation.
//!
//! ```text
//!   clean ── open ──────────────────────────────▶ in use ── close ──▶ clean
//!   in use, opening, damaged ── open ─▶ opening ─┘   ▲
//!                                       format ──────┘
//! ```

use woodlot_frame::atomics::{AtomicU64, Ordering, fence};

use crate::checksum;
use crate::layout::PAGE_WORDS;
use crate::phase::Phase;
use crate::{Field, ZoneError};

/// The word of the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// How often the zone was opened, formatting included; modulo 2^30.
    pub(crate) generation: u32,
}

const STATE: usize = 64;
const VOLATILE_VERSION: usize = 65;
const SEAL: usize = 72;

impl State {
    const GENERATIONS: u32 = 1 << 30;

    pub(crate) const fn word(self) -> u64 {
        let low = self.generation << 2 | self.phase as u32;
        low as u64 | (!low as u64) << 32
    }

    /// `None`: torn or damaged.
    pub(crate) fn of(word: u64) -> Option<State> {
        let low = word as u32;
        let phase = match low & 3 {
            0 => Phase::Opening,
            1 => Phase::InUse,
            2 => Phase::Clean,
            _ => return None,
        };
        let state = State { phase, generation: low >> 2 };
        (state.word() == word).then_some(state)
    }

    /// The same zone in another phase.
    pub(crate) const fn to(self, phase: Phase) -> State {
        State { phase, ..self }
    }

    /// The state of the opening that follows.
    pub(crate) const fn next(self, phase: Phase) -> State {
        State { phase, generation: (self.generation + 1) % Self::GENERATIONS }
    }

    pub(crate) fn load(page: &[AtomicU64; PAGE_WORDS]) -> Option<State> {
        Self::of(load(page, STATE))
    }

    /// The state of a zone that is in use by programs whose volatile part looks as it does here.
    ///
    /// # Errors
    /// [`ZoneError::NotInUse`], or [`ZoneError::Mismatch`] with the version of the volatile part.
    pub(crate) fn of_user(page: &[AtomicU64; PAGE_WORDS]) -> Result<State, ZoneError> {
        let state = State::load(page);
        let Some(state @ State { phase: Phase::InUse, .. }) = state else {
            return Err(ZoneError::NotInUse(state.map(|state| state.phase)));
        };
        let (expected, found) = (woodlot_llfree::VOLATILE_VERSION as u64, volatile_version(page));
        match expected == found {
            true => Ok(state),
            false => Err(ZoneError::Mismatch { field: Field::VolatileVersion, expected, found }),
        }
    }

    pub(crate) fn store(self, page: &[AtomicU64; PAGE_WORDS]) {
        store(page, STATE, self.word());
    }
}

/// The version of the volatile part, by who opened the zone last.
pub(crate) fn volatile_version(page: &[AtomicU64; PAGE_WORDS]) -> u64 {
    load(page, VOLATILE_VERSION)
}

pub(crate) fn set_volatile_version(page: &[AtomicU64; PAGE_WORDS], version: u64) {
    store(page, VOLATILE_VERSION, version);
}

/// What a close says of the parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seal {
    /// The version of the volatile part.
    pub(crate) version: u64,
    /// The checksum of the volatile part.
    pub(crate) volatile: u64,
    /// The checksum of the durable part.
    pub(crate) durable: u64,
}

impl Seal {
    /// The seal of the close that left this state, if it is whole.
    pub(crate) fn load(page: &[AtomicU64; PAGE_WORDS], closed: State) -> Option<Seal> {
        let [version, volatile, durable, state, sum] =
            core::array::from_fn(|at| load(page, SEAL + at));
        let whole = sum == checksum::of_words(&[version, volatile, durable, state]);
        (whole && state == closed.word()).then_some(Seal { version, volatile, durable })
    }

    pub(crate) fn store(self, page: &[AtomicU64; PAGE_WORDS], closed: State) {
        let words = [self.version, self.volatile, self.durable, closed.word()];
        let sum = checksum::of_words(&words);
        words.into_iter().chain([sum]).zip(SEAL..).for_each(|(word, at)| store(page, at, word));
    }
}

/// A relaxed load and a fence, not an acquiring load: of the two, Rust promises only for the first that it works
/// where the memory cannot be written.
pub(crate) fn load(page: &[AtomicU64; PAGE_WORDS], at: usize) -> u64 {
    let value = page.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
    fence(Ordering::Acquire);
    value
}

pub(crate) fn store(page: &[AtomicU64; PAGE_WORDS], at: usize, value: u64) {
    page.get(at).into_iter().for_each(|word| word.store(value, Ordering::Release));
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
mod tests {
    use super::*;

    #[test]
    fn a_state_with_any_byte_changed_is_none() {
        let state = State { phase: Phase::InUse, generation: 0x1234_5678 };
        assert_eq!(State::of(state.word()), Some(state));
        for (byte, value) in (0..8).flat_map(|byte| (1..=255u64).map(move |value| (byte, value))) {
            assert_eq!(State::of(state.word() ^ value << (byte * 8)), None);
        }
        assert_eq!(State::of(0), None);
        assert_eq!(State::of(0xffff_fffc_0000_0003), None, "there is no phase 3");
    }

    #[test]
    fn generations_begin_anew() {
        let last = State { phase: Phase::Clean, generation: State::GENERATIONS - 1 };
        assert_eq!(last.next(Phase::InUse), State { phase: Phase::InUse, generation: 0 });
        assert_eq!(State::of(last.word()), Some(last));
    }
}
