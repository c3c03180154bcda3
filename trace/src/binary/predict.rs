//! The model that writer and reader step alike: which frame is probably next.
//!
//! Invariant: what a call to [`Predictor`] answers depends only on the events before it, so the
//! reader, which knows those, gets the same answers as the writer.

use std::collections::HashMap;

use crate::limits::MAX_ALLOCATED;
use crate::{Migrate, Pfn, StartSpan, StartUse};

/// How deep the stack of freed frames is searched: deeper finds hardly more (the build trace has
/// 89 % of its allocations within 32) and makes damaged or odd traces slow.
const DEPTH: usize = 32;

/// One of Linux's free lists, as far as the trace shows it.
#[derive(Default)]
struct List {
    /// Frames freed into it, the latest last.
    freed: Vec<Pfn>,
    /// The frame that was taken last.
    last: u32,
}

/// Frames by the order in which they were allocated, and free lists.
pub struct Predictor {
    lists: HashMap<(u16, Migrate, u8), List>,
    /// Frame and migrate type of every base frame ever allocated, by its number.
    allocated: Vec<(Pfn, Migrate)>,
    /// The number freed last by each CPU.
    last_freed: HashMap<u16, i64>,
    /// The last frame freed that nobody was known to own.
    last_stray: u32,
}

/// Where an allocation's frame comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The entry at this depth of its list.
    Rank(usize),
    /// None of those: the difference to the last frame taken.
    Fresh(i64),
}

impl Predictor {
    pub fn new(start: &[StartSpan]) -> Result<Self, String> {
        let mut predictor = Self {
            lists: HashMap::new(),
            allocated: Vec::new(),
            last_freed: HashMap::new(),
            last_stray: 0,
        };
        for start in start {
            let migrate = match start.usage {
                StartUse::Boot => Migrate::Unmovable,
                StartUse::Allocated(migrate) => migrate,
            };
            predictor.number(start.span.start, start.span.frames, migrate)?;
        }
        Ok(predictor)
    }

    /// Numbers the frames of a new allocation.
    pub fn number(&mut self, pfn: Pfn, frames: u32, migrate: Migrate) -> Result<(), String> {
        if self.allocated.len() + frames as usize > MAX_ALLOCATED {
            return Err(format!("the allocations add up to more than {MAX_ALLOCATED} frames"));
        }
        self.allocated.extend((pfn.0..pfn.0 + frames).map(|frame| (Pfn(frame), migrate)));
        Ok(())
    }

    /// How many base frames were numbered.
    pub fn numbered(&self) -> usize {
        self.allocated.len()
    }

    /// Where `pfn` would come from (the writer asks).
    pub fn locate(&self, cpu: u16, migrate: Migrate, order: u8, pfn: Pfn) -> Taken {
        let Some(list) = self.lists.get(&(cpu, migrate, order)) else {
            return Taken::Fresh(pfn.0.into());
        };
        match list.freed.iter().rev().take(DEPTH).position(|&freed| freed == pfn) {
            Some(rank) => Taken::Rank(rank),
            None => Taken::Fresh(i64::from(pfn.0) - i64::from(list.last)),
        }
    }

    /// Takes a frame from a list; `None` if it is not there or not a frame.
    pub fn take(&mut self, cpu: u16, migrate: Migrate, order: u8, from: Taken) -> Option<Pfn> {
        let list = self.lists.entry((cpu, migrate, order)).or_default();
        let pfn = match from {
            Taken::Rank(rank) => list.freed.remove(list.freed.len().checked_sub(rank + 1)?),
            Taken::Fresh(step) => Pfn(i64::from(list.last).checked_add(step)?.try_into().ok()?),
        };
        list.last = pfn.0;
        Some(pfn)
    }

    /// The step from the number that this CPU freed last to `number` (the writer asks).
    pub fn step_to(&self, cpu: u16, number: usize) -> i64 {
        number as i64 - self.last_freed.get(&cpu).copied().unwrap_or(0)
    }

    /// Frees the frame that is `step` numbers after the last one freed by this CPU.
    pub fn free_step(&mut self, cpu: u16, order: u8, step: i64) -> Option<Pfn> {
        let last = self.last_freed.entry(cpu).or_default();
        *last = last.checked_add(step)?;
        let (pfn, migrate) = *self.allocated.get(usize::try_from(*last).ok()?)?;
        self.lists.entry((cpu, migrate, order)).or_default().freed.push(pfn);
        Some(pfn)
    }

    /// The step from the last stray frame to `pfn` (the writer asks).
    pub fn stray_to(&self, pfn: Pfn) -> i64 {
        i64::from(pfn.0) - i64::from(self.last_stray)
    }

    /// Frees a frame that nobody was known to own.
    pub fn free_stray(&mut self, step: i64) -> Option<Pfn> {
        self.last_stray = i64::from(self.last_stray).checked_add(step)?.try_into().ok()?;
        Some(Pfn(self.last_stray))
    }
}
