//! What is simulated.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use woodlot_frame::Order;

use super::caches::Costs;
use crate::patterns::Placement;

/// How CPUs ask for blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A list of blocks is allocated and freed in order, again and again
    Bulk,
    /// The same, freed in random order
    Random,
    /// A block is allocated and freed, again and again
    Repeat,
    /// Much of memory is in use: any block of a CPU is freed and one allocated, again and again
    Churn,
    /// A CPU allocates until it has a random number of blocks, at most a list, and frees until it has no more than the next number says
    OutOfStep,
    /// Every CPU allocates a list and frees its neighbour's
    Ring,
    /// Every other CPU only allocates, and the next one only frees that
    Remote,
}

impl Load {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Load::Bulk => "bulk",
            Load::Random => "random",
            Load::Repeat => "repeat",
            Load::Churn => "churn",
            Load::OutOfStep => "out-of-step",
            Load::Ring => "ring",
            Load::Remote => "remote",
        }
    }
}

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// How CPUs ask for blocks.
    pub load: Load,
    /// The size of the blocks.
    pub order: Order,
    /// In churn: how full memory is, in tenths of a percent.
    pub fill: usize,
    /// In churn: where that lies.
    pub placement: Placement,
    /// How many blocks a list has.
    pub list: usize,
    /// How many calls each CPU makes before anybody looks.
    pub warm: usize,
    /// How many calls are counted at least, by all CPUs together. More are where a CPU would have made
    /// fewer than sixteen.
    pub calls: usize,
    /// What accesses cost.
    pub costs: Costs,
    /// What random choices follow from.
    pub seed: u64,
}

#[cfg(test)]
impl Setup {
    /// A short one of single frames.
    pub(super) fn short(load: Load) -> Setup {
        Setup {
            load,
            order: Order(0),
            fill: 500,
            placement: Placement::Row,
            list: 32,
            warm: 256,
            calls: 64,
            costs: Costs { read: 1.0, write: 3.0, transfer: 50.0 },
            seed: 1,
        }
    }
}
