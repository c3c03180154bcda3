//! The ways of asking an allocator for blocks.
//!
//! | | what a repetition does | what is timed |
//! |---|---|---|
//! | *bulk* | every thread allocates its share of half the memory, all wait, every thread frees its share in the order of allocation (LLFree section 5.1) | allocations; frees |
//! | *batch* | the same, 64 blocks a call | allocations; frees, for each block |
//! | *random* | all memory is allocated and freed in random order (5.1) | frees |
//! | *repeat* | every thread allocates a block and frees it, again and again (5.1) | pairs |
//! | *remote* | one thread of each two allocates, the other frees what it allocated, both at once, on slots of their own | allocations; frees |
//! | *exit-storm* | half the memory is allocated by all threads; then all at once free all of it, runs of [`STORM_RUN`] blocks dealt to them in turn whoever allocated them | frees |
//! | *near-full* | the zone is filled and blocks chosen at random are freed until it is 90, 99 or 99.8 % full; then a random one of the others is freed and one is allocated, again and again | pairs (a free and an allocation) |
//! | *full* | the zone is filled; then every thread asks again and again | allocations that fail |
//! | *linux-scalability* | every thread allocates a burst of blocks and frees it, again and again, without waiting for the others (Marotta et al., section III) | pairs |
//! | *thread-test* | the same, with one burst divided among all threads (there) | pairs |
//! | *constant-occupancy* | every thread holds blocks of [`LEVELS`] orders, from the one named up, as much memory of each; in turn it frees half of what it holds of an order and allocates as much | pairs |
//! | *cached-allocation* | what *repeat* does, at the sizes of the other three | pairs |
//! | *churn* | the zone is as full as [`Setup::fill`] says, in a row or with holes at random; then one of its blocks, any of them, is freed and one is allocated, again and again; beside the time, what is left of huge frames ([`Kept`]) | pairs |
//! | *in-step* | every thread allocates and frees, in order, until it has a random number of blocks, again and again; all have the same numbers, and wait for each other | allocations; frees |
//! | *out-of-step* | the same, but each with numbers of its own, every other thread begins with all that it can have, and nobody waits | allocations; frees |
//! | *ring* | every thread allocates, and frees what its neighbour allocated a round before; every other thread frees first | allocations; frees |
//! | *init* | a zone is initialised on metadata that has been used before; a random half of its frames is allocated (of its huge frames, above 256 GiB); it is recovered (5.7) | initialisation; recovery, each a call |
//!
//! Where the memory has more blocks than [`MOST_BLOCKS`], *bulk*, *batch*, *random* and
//! *exit-storm* use only so many of them: in a large zone they measure a corner of it. *near-full*
//! and *full* fill the whole zone, whatever its size, but *near-full* frees and allocates only so
//! many different blocks.
//!
//! Before anything else, so much of the zone as [`Setup::fill`] says is allocated in blocks of the order
//! that is measured: the first ones *in a row*, or ones chosen *at random* after all were allocated.
//! What a pattern then calls all memory, or half of it, is what is left.
//!
//! In *remote*, a thread that is done with its part of a round waits for the other, outside the
//! time taken, as in *ring*; both halves run at the same time as long as they take equally long.

mod best;
mod bursts;
mod churn;
mod init;
mod kinds;
mod loops;
mod mix;
mod prepared;
mod runner;
mod setup;
mod shared;
mod steps;
#[cfg(test)]
mod tests;
mod threads;

use woodlot_frame::{Base4K, Construct, FrameAllocator};

use crate::Failure;
use crate::contender::{Contender, Contract};
use crate::engine::{Engine, Visit};

pub use kinds::{Metric, Pattern, Placement};
pub use loops::BATCH;
pub use prepared::Prepared;
pub use runner::{Kept, Runner, Sample};
pub use setup::{BURST, LEVELS, MOST_BLOCKS, Setup};
pub use shared::STORM_RUN;
pub use threads::{on_one_thread, on_threads};

/// Makes a contender ready.
///
/// # Errors
/// Why it cannot do this.
pub fn prepare(engine: Engine, setup: &Setup) -> Result<Box<dyn Runner>, Failure> {
    setup.check()?;
    let unserved = |order| Failure::Failed(format!("{engine}: does not serve {order}"));
    if let Some(order) = setup.orders().find(|&order| !engine.serves(order)) {
        return Err(unserved(order));
    }
    let runner = engine.visit(setup.order, Prepare { engine, setup });
    runner.unwrap_or_else(|| Err(unserved(setup.order)))
}

struct Prepare<'a> {
    engine: Engine,
    setup: &'a Setup,
}

impl Visit for Prepare<'_> {
    type Output = Result<Box<dyn Runner>, Failure>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        match self.setup.pattern {
            Pattern::Init => Ok(Box::new(init::Starting::<A>::new(self.setup)?)),
            pattern if pattern.is_churn() => {
                Ok(Box::new(churn::Churning::<Contract<A>>::new(*self.setup)?))
            }
            _ => Ok(Box::new(Prepared::<Contract<A>>::new(*self.setup)?)),
        }
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        match self.setup.pattern {
            Pattern::Init => {
                let engine = self.engine;
                Err(Failure::Failed(format!("{engine}: is not made from raw metadata")))
            }
            pattern if pattern.is_churn() => Ok(Box::new(churn::Churning::<C>::new(*self.setup)?)),
            _ => Ok(Box::new(Prepared::<C>::new(*self.setup)?)),
        }
    }
}
