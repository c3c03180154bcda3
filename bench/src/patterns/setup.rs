//! What to run, and whether that can be run at all.

use woodlot_frame::{Order, Slot};

use super::kinds::{Pattern, Placement};
use super::loops::BATCH;
use super::mix::Mix;
use crate::Failure;
use crate::size::Size;

/// The most blocks that are held in arrays at once: 16 GiB of base frames, 32 MiB of array.
pub const MOST_BLOCKS: usize = 1 << 22;

/// Blocks in a burst where nothing else is said: at 2 MiB, eight threads of them are 8 GiB.
pub const BURST: usize = 512;

/// How many orders a thread holds blocks of in *constant-occupancy*: sizes from one to sixteen times
/// the smallest, as far as there are such orders.
pub const LEVELS: u8 = 5;

/// What to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// The way of asking.
    pub pattern: Pattern,
    /// The size of the blocks.
    pub order: Order,
    /// How many threads.
    pub threads: usize,
    /// How many slots the zone has; thread *t* uses slot *t* modulo this.
    pub slots: usize,
    /// How much memory the zone manages.
    pub memory: Size,
    /// How full the zone is before, in thousandths.
    pub fill: usize,
    /// Where that lies.
    pub placement: Placement,
    /// For *churn*: are the orders drawn, each as often as the shipped build trace allocates it?
    pub mix: bool,
    /// For the patterns with bursts: how many blocks of this order one has.
    pub burst: usize,
    /// What random choices follow from.
    pub seed: u64,
    /// How many operations a repetition does at least.
    pub operations: usize,
}

impl Setup {
    /// One thread with a slot of its own on a zone of 8 GiB.
    pub fn new(pattern: Pattern, order: Order) -> Setup {
        Setup {
            pattern,
            order,
            threads: 1,
            slots: pattern.slots().into(),
            memory: Size::gib(8),
            fill: if pattern == Pattern::NearFull || pattern.is_churn() { 990 } else { 0 },
            placement: Placement::Random,
            mix: false,
            burst: BURST,
            seed: 1,
            operations: 1 << 20,
        }
    }

    /// Can this be run at all?
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::Usage(format!("{}: {what}", self.pattern)));
        if self.threads == 0 || self.slots == 0 {
            return wrong("at least one thread and one slot".into());
        }
        if self.pattern == Pattern::Remote && !self.threads.is_multiple_of(2) {
            return wrong("threads in twos (--threads 2): one allocates, the other frees".into());
        }
        if self.pattern == Pattern::Remote && self.slots < self.threads {
            return wrong("a slot for each thread, for a free to be remote".into());
        }
        if matches!(self.pattern, Pattern::OutOfStep | Pattern::Ring)
            && (self.threads < 2 || self.slots < self.threads)
        {
            return wrong("two threads or more, with a slot for each (--threads 2)".into());
        }
        if self.pattern == Pattern::RemoteChurn && self.slots < 2 * self.threads {
            return wrong("two slots for each thread, for a free to be remote".into());
        }
        if self.mix && (!self.pattern.is_churn() || self.order != Order::BASE) {
            return wrong("orders are drawn for churn alone, and then none is named".into());
        }
        if self.pattern.is_churn() {
            if self.order.0 > 9 {
                return wrong("orders 0 to 9: what fits into a huge frame".into());
            }
            if self.occupied() > MOST_BLOCKS {
                return wrong(format!("at most {MOST_BLOCKS} blocks: less --memory"));
            }
        }
        if self.pattern == Pattern::Init && self.threads != 1 {
            return wrong("one thread".into());
        }
        if self.order.0 > 10 {
            return wrong("orders 0 to 10".into());
        }
        if self.pattern == Pattern::NearFull && self.placement != Placement::Random {
            return wrong("is full at random (--placement random)".into());
        }
        if matches!(self.pattern, Pattern::Full | Pattern::Init) && self.fill != 0 {
            return wrong("begins with a zone that is free (--fill 0)".into());
        }
        if self.holes() == 0 {
            let (order, memory, percent) = (self.order, self.memory, self.fill as f64 / 10.0);
            return wrong(format!(
                "no block of {order} is free in {memory} that is {percent} % full"
            ));
        }
        let burst = self.burst;
        if self.pattern == Pattern::ThreadTest && burst < self.threads {
            let threads = self.threads;
            return wrong(format!("a burst of {burst} blocks is too short for {threads} threads"));
        }
        if let Some(least) = self.held().map(|(_, blocks)| blocks).min()
            && least < 2
        {
            let order = self.order;
            return wrong(format!(
                "a burst of {burst} blocks of {order} is less than two of the largest that are held"
            ));
        }
        let (needed, left) = (self.burst_blocks(), self.holes());
        if needed > left {
            return wrong(format!(
                "{} threads with bursts of {burst} blocks need {needed} blocks of {}, and {left} \
                 are free in {}: a smaller --burst, or more --memory",
                self.threads, self.order, self.memory
            ));
        }
        if (self.pattern == Pattern::NearFull || self.pattern.is_churn()) && self.fill == 0 {
            return wrong("begins with a zone that is in use (a --fill above 0)".into());
        }
        if self.list() < if self.pattern == Pattern::Batch { BATCH } else { 1 } {
            let (memory, threads, order) = (self.memory, self.threads, self.order);
            let filled =
                if self.fill > 0 { format!(", filled{}", self.before()) } else { String::new() };
            return wrong(format!(
                "{memory}{filled}, has too few blocks of {order} for {threads} threads: more --memory"
            ));
        }
        Ok(())
    }

    /// For [`Pattern::ConstantOccupancy`]: the orders of the blocks that a thread holds, and how
    /// many of each. Nothing for all others.
    pub(super) fn held(&self) -> impl Iterator<Item = (Order, usize)> + use<> {
        let levels = if self.pattern == Pattern::ConstantOccupancy { LEVELS } else { 0 };
        let (lowest, burst) = (self.order.0, self.burst);
        (0..levels)
            .map(move |level| (Order(lowest + level), burst >> level))
            .filter(|held| held.0.0 <= 10)
    }

    /// Is it one of the patterns with bursts?
    pub(crate) fn has_bursts(&self) -> bool {
        self.burst_blocks() > 0
    }

    /// Every order that is asked for.
    pub(super) fn orders(&self) -> impl Iterator<Item = Order> + use<> {
        // That the trace cannot be read is said where it is drawn from.
        let drawn = self.mix.then(|| Mix::of_build().ok()).flatten();
        let drawn = drawn.into_iter().flat_map(Mix::orders);
        std::iter::once(self.order).chain(self.held().map(|(order, _)| order)).chain(drawn)
    }

    /// The orders in words.
    pub(crate) fn order_in_words(&self) -> String {
        if self.mix { "mixed orders".into() } else { self.order.to_string() }
    }

    /// How much memory all bursts have at once, in blocks of the lowest order.
    pub(super) fn burst_blocks(&self) -> usize {
        self.threads.saturating_mul(match self.pattern {
            Pattern::LinuxScalability => self.burst,
            Pattern::ThreadTest => self.burst / self.threads,
            _ => self.held().count().saturating_mul(self.burst),
        })
    }

    /// How full the zone is before, in words that follow others.
    pub(crate) fn before(&self) -> String {
        let percent = self.fill as f64 / 10.0;
        match self.pattern {
            Pattern::NearFull => format!(" {percent} %"),
            Pattern::Churn | Pattern::RemoteChurn => match self.placement {
                Placement::Row => format!(" {percent} % packed"),
                Placement::Random => format!(" {percent} % spread"),
            },
            _ if self.fill > 0 => format!(" {percent} % {}", self.placement),
            _ => String::new(),
        }
    }

    /// The slot of a thread.
    pub(super) fn slot(&self, thread: usize) -> Slot {
        Slot(thread % self.slots)
    }

    /// The slot in which a thread frees what it churns.
    pub(super) fn freeing_slot(&self, thread: usize) -> Slot {
        let behind = if self.pattern == Pattern::RemoteChurn { self.threads } else { 0 };
        self.slot(behind + thread)
    }

    /// The blocks of the zone.
    pub(super) fn blocks(&self) -> usize {
        self.memory.frames() >> self.order.0
    }

    /// How many blocks each thread's array holds.
    pub(crate) fn list(&self) -> usize {
        let all = match self.pattern {
            Pattern::LinuxScalability => return self.burst,
            Pattern::ThreadTest => return self.burst / self.threads,
            Pattern::ConstantOccupancy => return self.held().map(|(_, blocks)| blocks).sum(),
            Pattern::Random => self.holes(),
            Pattern::NearFull | Pattern::Churn | Pattern::RemoteChurn => self.occupied(),
            // Read by the other thread while this one writes another one like it.
            Pattern::Remote | Pattern::Ring | Pattern::InStep | Pattern::OutOfStep => {
                (self.holes() / 4).min(8192 * self.threads)
            }
            _ => self.holes() / 2,
        };
        let list = all.min(MOST_BLOCKS) / self.threads;
        if self.pattern == Pattern::Batch { list / BATCH * BATCH } else { list }
    }

    /// How many blocks are free in a zone as full as this.
    pub(super) fn holes(&self) -> usize {
        self.blocks() * (1000 - self.fill.min(1000)) / 1000
    }

    /// How many are not.
    pub(super) fn occupied(&self) -> usize {
        self.blocks() - self.holes()
    }

    /// Is that how many blocks were to be allocated?
    pub(super) fn all_allocated(&self, allocated: usize, blocks: usize) -> Result<(), Failure> {
        let pattern = self.pattern;
        match allocated == blocks {
            true => Ok(()),
            false => Err(Failure::Failed(format!(
                "{pattern}: only {allocated} of {blocks} blocks could be allocated"
            ))),
        }
    }

    /// How often lists are worked through in a repetition.
    pub(super) fn rounds(&self) -> usize {
        self.operations.div_ceil(self.list() * self.threads).max(1)
    }
}
