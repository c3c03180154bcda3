//! *preload*: the loops through the C library's names, each heap preloaded in a process of its own.
//!
//! The loops are those of *pair*, *worst* and *producer-consumer*, by turns as everywhere: each repetition of each case
//! starts a process for each library. So every heap is reached as a program reaches it, through the procedure linkage
//! table, and frees without a size.

use serde::{Deserialize, Serialize};

use super::case::{Setup, What};
use super::contender::{Contender, Contenders};
use super::libraries::Libraries;
use super::measure::{Kept, measure};
use crate::Failure;

/// The loops.
pub const LOOPS: [What; 3] = [What::Pair, What::Worst, What::ProducerConsumer];

/// What a loop gave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Looped {
    /// Which.
    pub what: What,
    /// Every figure.
    pub kept: Kept,
}

/// Measures every loop with the setup that `setup` has for it.
///
/// # Errors
/// Nobody could be measured in some loop.
pub fn preload(
    libraries: &'static Libraries,
    (setup, repetitions): (&dyn Fn(What) -> Setup, usize),
    progress: &dyn Fn(),
) -> Result<Vec<Looped>, Failure> {
    let contenders = libraries.found.iter().map(|child| child as &dyn Contender);
    let contenders = Contenders(contenders.collect());
    let looped = LOOPS.map(|what| {
        let kept = measure(what, &contenders, (&setup(what), repetitions), progress)?;
        Ok(Looped { what, kept })
    });
    looped.into_iter().collect()
}
