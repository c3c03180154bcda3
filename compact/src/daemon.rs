//! The daemon of a domain: when to compact, where, and how fast.
//!
//! ```text
//!   resting ── FMFI above the threshold and enough to win, or somebody asked ──► search: the best regions ──► working, a step at a time
//!      ▲                                                          └ none                        │
//!      └── longer each time that nothing was won ◄──────────────────┴──── won enough, no more to win, below again,
//!                                                                               or somebody asked meanwhile
//! ```
//!
//! Whoever asks for a block of several huge frames gets neighbours: a run for one block looks at all of the memory, if there are candidates
//! enough for that.
//!
//! It is stepped by whoever has time: a kernel thread, [a thread of the program](crate::Background), an idle loop. Daemons of several
//! domains, or two of one by mistake, run beside each other: a huge frame is emptied by the one that isolated it.
//!
//! *Progress*: a step that works moves one block at the most; one that begins a search is linear in the huge frames.

use core::ops::Range;

use woodlot_frame::{FrameAllocator, Geometry, HugeId, Order, Slot};

use crate::asks::{Asks, Ticket};
use crate::compaction::{Compaction, Setup, Step, cheapest};
use crate::fmfi::Fmfi;
use crate::index::{Index, Payer};
use crate::plan::Candidate;
use crate::relocate::Relocate;
use crate::report::{Report, Stop};
use crate::target::{Manner, Target};

/// How a daemon works. Times are in the unit of the caller's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// It starts above this FMFI of a huge frame, in thousandths, and stops below. 200 to 1000 (at 1000 it never starts by itself).
    ///
    /// From [counters](Fmfi::of) the index of *h* free huge frames and *s* single ones is about *s* / (*h* + *s*): never negative, and
    /// above 300 as soon as there are three single frames for seven huge ones, which is nearly always. What keeps the daemon from
    /// working for little then are `gain` and `price`. Who knows larger blocks passes an index of those, as the paper does.
    pub threshold: i32,
    /// A run that nobody asked for does not begin, and ends, where no more than so many thousandths of the free memory could
    /// [still be won](Fmfi::winnable) as huge frames. 0 to 1000; at 0 it begins where one could be.
    pub gain: usize,
    /// What a huge frame may cost that nobody asked for, in base frames: those of which more is in use are not emptied.
    pub price: usize,
    /// The most regions that it works on at a time.
    pub regions: usize,
    /// Who gives and receives.
    pub manner: Manner,
    /// The slot of its calls: best one that nobody else uses.
    pub slot: Slot,
    /// It moves about so many base frames in each `interval`, at the most one block more; 0: as many as it can. Moves that its owner
    /// refused count as well, for they may have been copied.
    pub moves: usize,
    /// See `moves`.
    pub interval: u64,
    /// From the end of one run to the next look at the index. Where that run won nothing, asks are answered without another one
    /// for so long, unless they pay for what was too dear for nobody.
    pub rest: u64,
    /// The longest rest: it doubles each time that nothing was won.
    pub longest_rest: u64,
}

impl Settings {
    /// The bounds of the threshold.
    pub const THRESHOLD: core::ops::RangeInclusive<i32> = 200..=1000;

    /// With a clock of nanoseconds: a threshold of 300, a gain of 50, any price, ten regions, 64 MiB a second of 4 KiB frames, a
    /// rest of 0.1 to 60 seconds.
    pub const fn new(slot: Slot) -> Settings {
        Settings {
            threshold: 300,
            gain: 50,
            price: usize::MAX,
            regions: 10,
            manner: Manner::Matching,
            slot,
            moves: 1638,
            interval: 100_000_000,
            rest: 100_000_000,
            longest_rest: 60_000_000_000,
        }
    }
}

impl Default for Settings {
    /// Those of [`new`](Self::new), with the first slot.
    fn default() -> Settings {
        Settings::new(Slot(0))
    }
}

/// What a step of the daemon did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It rests, until then.
    Resting(u64),
    /// It has moved as much as it may, until then.
    Limited(u64),
    /// It looked at the index, and has nothing to do: this is its value. Above the threshold too little could be won.
    Below(i32),
    /// It begins with so many regions, at this index.
    Started {
        /// FMFI in thousandths.
        index: i32,
        /// How many regions; 0 where it looks for one block in all of the memory.
        regions: usize,
    },
    /// It did a step of compaction.
    Worked(Step),
    /// A run has ended.
    Finished(Report),
}

/// What a daemon has done since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Runs.
    pub runs: usize,
    /// Runs that won nothing.
    pub in_vain: usize,
    /// Runs that somebody asked for.
    pub asked: usize,
    /// What all runs did.
    pub all: Report,
}

/// What a run was asked for.
#[derive(Clone, Copy)]
struct Served {
    ticket: Ticket,
    /// One block of several huge frames.
    block: bool,
    /// Others have asked for huge frames meanwhile: the next run is theirs.
    more: bool,
}

/// A daemon. See the head of this file. Who drops it in a run leaves what that has isolated so: [`cancel`](Self::cancel) gives it back.
pub struct Daemon<'m> {
    settings: Settings,
    index: Index<'m>,
    /// For the candidates of a run; empty while one has them.
    memory: &'m mut [Candidate],
    /// The run under way, with the asks that are answered at its end.
    run: Option<(Compaction<'m>, Option<Served>)>,
    /// It looks at the index from then on.
    wakes: u64,
    /// Until then whoever asks is told that nothing can be won.
    vain_until: u64,
    rest: u64,
    /// When the interval began, and what has moved in it.
    interval: (u64, usize),
    counters: Counters,
}

impl<'m> Daemon<'m> {
    /// A daemon over the memory of an index. `memory` is for the candidates of a run: with fewer than the chosen regions have huge
    /// frames, fewer regions are chosen. A threshold outside of its bounds is brought to the nearest one.
    pub fn new(settings: Settings, index: Index<'m>, memory: &'m mut [Candidate]) -> Daemon<'m> {
        let (low, high) = Settings::THRESHOLD.into_inner();
        let threshold = settings.threshold.clamp(low, high);
        let rest = settings.rest;
        let settings = Settings { threshold, ..settings };
        Daemon {
            settings,
            index,
            memory,
            run: None,
            wakes: 0,
            vain_until: 0,
            rest,
            interval: (0, 0),
            counters: Counters::default(),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How it works: the threshold within its bounds.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Serves the memory of another index from the next search on, as where memory was added or removed; returns the one before. A run
    /// under way goes on where it is: what was removed meanwhile cannot be isolated, and is passed by.
    pub fn renew(&mut self, index: Index<'m>) -> Index<'m> {
        core::mem::replace(&mut self.index, index)
    }

    /// Is a run under way?
    pub fn is_working(&self) -> bool {
        self.run.is_some()
    }

    /// Does the next thing at the time `now`, which never goes back. `fmfi` is called when it must know: for a zone
    /// `|| Fmfi::of(&allocator.stats())`, for a domain with that domain's statistics.
    ///
    /// # Panics
    /// Where a call of the owner does. The next step goes on: with the end of the run, if the call was one of a run.
    pub fn step<A: FrameAllocator, R: Relocate>(
        &mut self,
        now: u64,
        allocator: &A,
        relocate: &mut R,
        asks: &Asks,
        fmfi: impl FnOnce() -> Fmfi,
    ) -> Event {
        match self.run {
            Some(_) => self.work(now, allocator, relocate, (asks, fmfi)),
            None => self.look(now, allocator, relocate, (asks, fmfi)),
        }
    }

    /// Ends the run under way, if there is one: gives back what it has isolated. All that was asked is answered, whether it was
    /// served or not.
    pub fn cancel<A: FrameAllocator>(&mut self, allocator: &A, asks: &Asks) -> Option<Report> {
        let (ticket, asked) = asks.open();
        if asked > 0 {
            asks.take_block();
        }
        asks.answer(ticket);
        self.end(0, allocator, asks)
    }

    fn index_of<G: Geometry>(fmfi: Fmfi) -> i32 {
        fmfi.index(Order::huge::<G>())
    }

    /// Is the free memory together, or is so little to be won that nobody is to pay for it?
    fn is_low<G: Geometry>(&self, fmfi: Fmfi) -> bool {
        let little = (fmfi.free_frames >> G::HUGE_ORDER).saturating_mul(self.settings.gain) / 1000;
        Self::index_of::<G>(fmfi) <= self.settings.threshold || fmfi.winnable::<G>() <= little
    }

    /// Is there something to do?
    fn look<A: FrameAllocator, R: Relocate>(
        &mut self,
        now: u64,
        allocator: &A,
        relocate: &mut R,
        (asks, fmfi): (&Asks, impl FnOnce() -> Fmfi),
    ) -> Event {
        let (ticket, asked) = asks.open();
        // Also where the ask is answered at once: its order is not left to the next one.
        let block = if asked > 0 { asks.take_block() } else { None };
        if asked == 0 && now < self.wakes || now < self.vain_until {
            asks.answer(ticket);
            return Event::Resting(self.wakes);
        }
        let fmfi = fmfi();
        let index = Self::index_of::<A::Geometry>(fmfi);
        if asked == 0 && self.is_low::<A::Geometry>(fmfi) {
            self.wakes = now.saturating_add(self.settings.rest);
            return Event::Below(index);
        }
        // Before regions are chosen, too.
        relocate.prepare();
        let place =
            block.and_then(|order| self.place_for(order, self.memory.len(), allocator, relocate));
        let payer = if asked > 0 { Payer::Asker } else { Payer::Nobody };
        let regions =
            if place.is_some() { 0 } else { self.choose(self.memory.len(), payer, allocator) };
        if regions == 0 && place.is_none() {
            return self.has_none(now, payer, ticket, asks);
        }
        let served = Served { ticket, block: place.is_some(), more: place.is_some() && asked > 1 };
        let work = match place {
            Some(range) => {
                let setup = self.setup(Target::Range(range), usize::MAX);
                let parts = self.index.parts();
                Compaction::plan_in(setup, &mut self.memory, allocator, relocate, parts)
            }
            None => {
                let (count, price) = match asked {
                    0 => (usize::MAX, self.settings.price),
                    asked => (asked, usize::MAX),
                };
                let setup = self.setup(Target::Huge(count), price);
                let chosen = self.index.chosen();
                Compaction::plan_in(setup, &mut self.memory, allocator, relocate, chosen)
            }
        };
        // There is memory for all candidates, and a block is looked for where the zone is: this cannot be.
        let Ok(work) = work else { return self.has_none(now, payer, ticket, asks) };
        self.run = Some((work, (asked > 0).then_some(served)));
        Event::Started { index, regions }
    }

    /// There is nothing to win for this payer.
    fn has_none(&mut self, now: u64, payer: Payer, ticket: Ticket, asks: &Asks) -> Event {
        self.rest_longer(now);
        if payer == Payer::Asker {
            self.vain_until = now.saturating_add(self.settings.rest);
        }
        asks.answer(ticket);
        Event::Resting(self.wakes)
    }

    fn setup(&self, target: Target, price: usize) -> Setup {
        let Settings { manner, slot, .. } = self.settings;
        Setup { target, manner, slot, keep: false, price }
    }

    /// Where a block of several huge frames is to be won, if it can be anywhere and all that is there has room among the candidates.
    fn place_for<A: FrameAllocator, R: Relocate>(
        &self,
        order: Order,
        candidates: usize,
        allocator: &A,
        relocate: &mut R,
    ) -> Option<Range<HugeId>> {
        let huge: usize = self.index.parts().map(|part| part.end.0 - part.start.0).sum();
        if huge > candidates {
            return None;
        }
        cheapest(order, allocator, relocate, self.index.parts()).ok()
    }

    /// Chooses regions that there is memory for.
    fn choose<A: FrameAllocator>(
        &mut self,
        candidates: usize,
        payer: Payer,
        allocator: &A,
    ) -> usize {
        let mut regions = self.settings.regions;
        loop {
            let found = self.index.choose(regions, payer, allocator);
            let huge: usize = self.index.chosen().map(|region| region.end.0 - region.start.0).sum();
            if found == 0 || huge <= candidates {
                return found;
            }
            regions = found - 1;
        }
    }

    /// A step of the run.
    fn work<A: FrameAllocator, R: Relocate>(
        &mut self,
        now: u64,
        allocator: &A,
        relocate: &mut R,
        (asks, fmfi): (&Asks, impl FnOnce() -> Fmfi),
    ) -> Event {
        let (began, moved) = &mut self.interval;
        if now.saturating_sub(*began) >= self.settings.interval {
            (*began, *moved) = (now, 0);
        }
        if self.settings.moves > 0 && *moved >= self.settings.moves {
            return Event::Limited(began.saturating_add(self.settings.interval));
        }
        let Some((work, served)) = &mut self.run else { return Event::Resting(now) };
        let nobody_asked = served.is_none();
        let step = work.step(allocator, relocate);
        if let Step::Moved(block, _) | Step::Refused(block, _) = step {
            *moved += block.order.frames();
        }
        let ends = match step {
            Step::Done(_) => true,
            // Whoever has asked meanwhile does not wait for all of it.
            Step::Won(_) if nobody_asked => asks.open().1 > 0 || self.is_low::<A::Geometry>(fmfi()),
            _ => false,
        };
        let report = if ends { self.end(now, allocator, asks) } else { None };
        report.map_or(Event::Worked(step), Event::Finished)
    }

    /// Ends the run under way, if there is one.
    fn end<A: FrameAllocator>(&mut self, now: u64, allocator: &A, asks: &Asks) -> Option<Report> {
        let (mut work, served) = self.run.take()?;
        work.cancel(allocator);
        let report = work.report::<A::Geometry>();
        self.memory = work.into_memory();
        self.counters.runs += 1;
        self.counters.asked += usize::from(served.is_some());
        self.counters.all.add(&report);
        let (block, more) = served.map_or((false, false), |served| (served.block, served.more));
        // Of a block all is won or nothing.
        let in_vain = if block { report.stop != Some(Stop::Won) } else { report.won == 0 };
        // What others have cut short says nothing about the regions, nor does a block, which has none.
        if report.stop != Some(Stop::Cancelled) && !block {
            self.index.tried(in_vain, report.dear > 0);
        }
        self.counters.in_vain += usize::from(in_vain);
        match in_vain {
            true if more => {}
            true => {
                self.rest_longer(now);
                // Who asks pays for what was too dear for nobody.
                if served.is_some() || report.dear == 0 {
                    self.vain_until = now.saturating_add(self.settings.rest);
                }
            }
            false => {
                self.rest = self.settings.rest;
                self.wakes = now.saturating_add(self.rest);
            }
        }
        if let Some(served) = served.filter(|_| !more) {
            asks.answer(served.ticket);
        }
        Some(report)
    }

    /// Rests, and the next time twice as long.
    fn rest_longer(&mut self, now: u64) {
        self.wakes = now.saturating_add(self.rest);
        self.rest = self.rest.saturating_mul(2).min(self.settings.longest_rest);
    }

    /// The regions that the run under way works on, or that the last one did that had regions.
    pub fn regions(&self) -> impl Iterator<Item = Range<HugeId>> + Clone + '_ {
        self.index.chosen()
    }
}
