//! What a trial has counted.

use core::fmt;

/// What a [`Trial`](crate::Trial) has counted, on all CPUs together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Blocks that were allocated and freed at once.
    pub pairs: u64,
    /// Lists that CPUs asked for meanwhile, which their own caches did not have.
    pub lists: u64,
    /// Interrupts that came inside of calls of the heap.
    pub inside: u64,
    /// Interrupts that came between them.
    pub outside: u64,
    /// Of both, those that had no memory.
    pub refused: u64,
    /// Bytes that were had, until there was no memory.
    pub bytes: u64,
    /// Times that the hook was told that there is no memory.
    pub told: u64,
    /// CPUs that had the last block, from the cache of another one.
    pub passed: u64,
    /// Blocks that two had at once, and wrong frees.
    pub wrong: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { pairs, lists, inside, outside, refused, bytes, told, passed, wrong } = self;
        writeln!(f, "heap: {pairs} pairs, {lists} lists asked for, {wrong} wrong")?;
        writeln!(
            f,
            "interrupts: {inside} inside of calls, {outside} outside, {refused} without memory"
        )?;
        write!(
            f,
            "low memory: {bytes} bytes had, hook called {told} times, last block had by {passed} CPUs"
        )
    }
}
