//! The names of what is measured: patterns, placements, metrics.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A way of asking for blocks.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Half the memory is allocated and then freed
    Bulk,
    /// The same, 64 blocks a call
    Batch,
    /// All memory is freed in random order
    Random,
    /// A block is allocated and freed, again and again
    Repeat,
    /// One thread allocates, another one frees
    Remote,
    /// All threads free everything at once
    ExitStorm,
    /// A block is freed and one allocated in a zone that is 90, 99 or 99.8 % full
    NearFull,
    /// A full zone is asked for a block
    Full,
    /// Every thread allocates a burst and frees it
    LinuxScalability,
    /// The same with one burst divided among the threads
    ThreadTest,
    /// Threads hold blocks of several orders and free and allocate bursts of them
    ConstantOccupancy,
    /// A block is allocated and freed, at the sizes of these three
    CachedAllocation,
    /// Any of all blocks is freed and one is allocated; what is left of huge frames
    Churn,
    /// The same where each thread frees in another slot than it allocates in
    RemoteChurn,
    /// Threads allocate and free at the same time as each other
    InStep,
    /// Threads allocate and free when they please; ring, remote and exit-storm too, each beside the same in step
    OutOfStep,
    /// Every thread frees what its neighbour allocated
    Ring,
    /// A zone is initialised and recovered
    Init,
}

impl Pattern {
    /// The orders that are measured where none is named: for the four benchmarks of Marotta et al.
    /// 4 KiB, 128 KiB and 2 MiB.
    pub const fn orders(self) -> &'static [u8] {
        match self {
            Pattern::LinuxScalability
            | Pattern::ThreadTest
            | Pattern::ConstantOccupancy
            | Pattern::CachedAllocation => &[0, 5, 9],
            _ => &[0],
        }
    }

    /// How full a zone is before, in percent, where nothing else is said.
    pub const fn fills(self) -> &'static [f64] {
        match self {
            Pattern::NearFull => &[90.0, 99.0, 99.8],
            Pattern::Churn | Pattern::RemoteChurn => &[50.0, 90.0, 99.0, 99.8],
            _ => &[0.0],
        }
    }

    /// Where that lies, where nothing else is said.
    pub const fn placements(self) -> &'static [Placement] {
        match self {
            Pattern::Churn | Pattern::RemoteChurn => &[Placement::Row, Placement::Random],
            _ => &[Placement::Random],
        }
    }

    /// How many threads there are, where nothing else is said.
    pub const fn threads(self) -> u16 {
        match self {
            Pattern::Remote | Pattern::InStep | Pattern::OutOfStep | Pattern::Ring => 2,
            _ => 1,
        }
    }

    /// How many slots each thread has, where nothing else is said.
    pub const fn slots(self) -> u16 {
        match self {
            Pattern::RemoteChurn => 2,
            _ => 1,
        }
    }

    /// Is any of many blocks freed, and one allocated, with free huge frames kept beside the time?
    pub const fn is_churn(self) -> bool {
        matches!(self, Pattern::Churn | Pattern::RemoteChurn)
    }

    /// What is measured together under this name.
    pub const fn together(self) -> &'static [Pattern] {
        match self {
            Pattern::OutOfStep => &[
                Pattern::InStep,
                Pattern::OutOfStep,
                Pattern::Ring,
                Pattern::Remote,
                Pattern::Bulk,
                Pattern::ExitStorm,
            ],
            _ => &[],
        }
    }

    /// What threads do that are in step, and free what is their own.
    pub const fn in_step(self) -> Option<Pattern> {
        match self {
            Pattern::OutOfStep | Pattern::Ring | Pattern::Remote => Some(Pattern::InStep),
            Pattern::ExitStorm => Some(Pattern::Bulk),
            _ => None,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Pattern::Bulk => "bulk",
            Pattern::Batch => "batch",
            Pattern::Random => "random",
            Pattern::Repeat => "repeat",
            Pattern::Remote => "remote",
            Pattern::ExitStorm => "exit-storm",
            Pattern::NearFull => "near-full",
            Pattern::Full => "full",
            Pattern::LinuxScalability => "linux-scalability",
            Pattern::ThreadTest => "thread-test",
            Pattern::ConstantOccupancy => "constant-occupancy",
            Pattern::CachedAllocation => "cached-allocation",
            Pattern::Churn => "churn",
            Pattern::RemoteChurn => "remote-churn",
            Pattern::InStep => "in-step",
            Pattern::OutOfStep => "out-of-step",
            Pattern::Ring => "ring",
            Pattern::Init => "init",
        })
    }
}

/// Where the blocks lie that are allocated before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Any block is as likely as any other
    #[default]
    #[value(alias = "spread")]
    Random,
    /// The first ones that the allocator hands out
    #[value(alias = "packed")]
    Row,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::Random => "at random",
            Placement::Row => "in a row",
        })
    }
}

/// What an operation of a figure is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// An allocation.
    Alloc,
    /// A free.
    Free,
    /// An allocation and a free.
    Pair,
    /// An allocation that fails because memory is exhausted.
    FailingAlloc,
    /// Initialising a zone.
    Init,
    /// Recovering a zone.
    Recover,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Metric::Alloc => "alloc",
            Metric::Free => "free",
            Metric::Pair => "pair",
            Metric::FailingAlloc => "failing alloc",
            Metric::Init => "init",
            Metric::Recover => "recover",
        })
    }
}
