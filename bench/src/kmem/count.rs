//! Instructions of a pair, as callgrind counts them (the paper's section 4.1).

use super::case::{Case, Interface, Setup, What};
use super::contender::Contender;
use crate::Failure;
use crate::instructions::difference;

/// The first argument of a run that is counted; `<contender> <bytes> <interface> <pairs>` follow.
pub const VERB: &str = "kmem-pairs";

/// Makes so many pairs, for counting them.
///
/// # Errors
/// There is no memory.
pub fn make_pairs(
    contender: &dyn Contender,
    (bytes, interface): (usize, Interface),
    pairs: usize,
) -> Result<(), Failure> {
    let case = Case { threads: 1, bytes: Some(bytes), interface: Some(interface) };
    let setup = Setup { operations: pairs, ..Setup::default() };
    contender.sample(What::Pair, case, &setup).map(drop)
}

/// Counts the instructions of a pair: those of the loop, three or four, are in it.
///
/// # Errors
/// When valgrind is not installed or fails, or when this program cannot be started again.
pub fn count(
    contender: &dyn Contender,
    bytes: usize,
    interface: Interface,
) -> Result<f64, Failure> {
    let (name, bytes) = (contender.name(), bytes.to_string());
    difference(&[VERB, name, &bytes, &interface.to_string()])
}
