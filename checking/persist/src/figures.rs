//! What was looked at, and how much of it.

use std::fmt::{self, Display, Formatter};
use std::ops::AddAssign;

/// What is persistent when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// What is visible.
    Eadr,
    /// What was written back and fenced.
    Adr,
    /// What was synchronised, and any page as it was since.
    File,
}

/// What a crash interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Calls on a zone.
    Operation,
    /// The start of a new zone.
    Start,
    /// A recovery.
    Recovery,
}

/// How many points had all of their images looked at, and how many a sample.
#[derive(Clone, Copy, Default, Debug)]
pub struct Points {
    /// All.
    pub whole: u64,
    /// A sample.
    pub sampled: u64,
}

impl AddAssign for Points {
    fn add_assign(&mut self, other: Self) {
        self.whole += other.whole;
        self.sampled += other.sampled;
    }
}

/// How much was done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// Histories, and their calls.
    pub histories: u64,
    /// Calls.
    pub calls: u64,
    /// Images, by model and phase.
    pub images: [[u64; 3]; 3],
    /// Images that differ from one another in their history, each of which was recovered.
    pub recovered: u64,
    /// Points with ADR, and with a file.
    pub points: Points,
}

impl Figures {
    /// All images.
    pub fn all(&self) -> u64 {
        self.images.as_flattened().iter().sum()
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.calls += other.calls;
        self.recovered += other.recovered;
        self.points += other.points;
        let counts = self.images.as_flattened_mut().iter_mut();
        counts.zip(other.images.as_flattened()).for_each(|(sum, more)| *sum += more);
    }
}

impl Display for Figures {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [eadr, adr, file] = self.images;
        let Points { whole, sampled } = self.points;
        writeln!(f, "{} calls in {} histories; images of a crash in", self.calls, self.histories)?;
        writeln!(f, "  {:<8}{:>12}{:>12}{:>12}", "", "operation", "start", "recovery")?;
        for (name, [operation, start, recovery]) in [("eADR", eadr), ("ADR", adr), ("file", file)] {
            writeln!(f, "  {name:<8}{operation:>12}{start:>12}{recovery:>12}")?;
        }
        write!(f, "ADR and files: every image at {whole} points, a sample at {sampled}; ")?;
        write!(f, "{} images with {} recoveries, 0 violations", self.all(), self.recovered)
    }
}
