//! The engines that can be chosen. A new one is one value and one line here.

use clap::ValueEnum;
use woodlot_frame::{Base4K, Construct, FrameAllocator};
use woodlot_llfree::LLFree;

/// An engine by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Engine {
    /// LLFree (ATC'23): bit fields, child counters, trees, per-CPU reservations
    #[default]
    Llfree,
}

/// Work that is written once for every engine.
pub trait OnEngine {
    /// What it yields.
    type Output;
    /// Does it. Linux traces have 4 KiB base frames and 2 MiB huge frames.
    fn on<A: Construct + FrameAllocator<Geometry = Base4K>>(self) -> Self::Output;
}

impl Engine {
    /// Does the work on this engine.
    pub fn run<W: OnEngine>(self, work: W) -> W::Output {
        match self {
            Engine::Llfree => work.on::<LLFree<Base4K>>(),
        }
    }
}
