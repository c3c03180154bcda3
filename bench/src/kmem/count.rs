//! Instructions of a pair, as callgrind counts them (the paper's section 4.1, which counts the functions).
//!
//! The loop of *pair* is counted with the heap, and once more around a heap that does nothing: what is between them is the
//! heap's own, its calls included.

use serde::{Deserialize, Serialize};

use super::case::{Case, Interface, Setup, What};
use super::contender::{Contender, Contenders};
use super::heap::Heap;
use crate::Failure;
use crate::instructions::difference;

/// The first argument of a run that is counted; `<contender> <bytes> <interface> <pairs>` follow.
pub const VERB: &str = "kmem-pairs";

/// Instructions of a pair.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Count {
    /// Who.
    pub contender: String,
    /// Bytes of a block.
    pub bytes: usize,
    /// How the size is said.
    pub interface: Interface,
    /// How many, those of the loop not included.
    pub instructions: Option<f64>,
    /// Why there is no number.
    pub not_counted: Option<String>,
}

/// What says that the loop goes around [`OneBlock`], whoever the contender is.
const BARE: &str = "--bare";

/// A heap that does nothing: it has one block, which it hands out each time.
pub struct OneBlock;

static BLOCK: u128 = 0;

// SAFETY: nothing is promised of what the block holds, and the loop does not look at it.
unsafe impl Heap for OneBlock {
    const NAME: &'static str = "one-block";
    const ABOUT: &'static str = "one block, which is always free";

    #[inline(always)]
    fn alloc(&self, _: usize) -> *mut u8 {
        (&raw const BLOCK).cast_mut().cast()
    }

    #[inline(always)]
    unsafe fn free(&self, _: *mut u8, _: usize) {}
}

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

/// Counts the instructions of a pair of each contender, size and interface.
pub fn counts(contenders: &Contenders, sizes: &[usize]) -> Vec<Count> {
    let mut counts = Vec::new();
    for &bytes in sizes {
        for interface in [Interface::Cookie, Interface::Standard] {
            for contender in &contenders.0 {
                let found = count(contender.name(), bytes, interface);
                let not_counted = found.as_ref().err().map(ToString::to_string);
                let (contender, instructions) = (contender.name().to_string(), found.ok());
                counts.push(Count { contender, bytes, interface, instructions, not_counted });
            }
        }
    }
    counts
}

/// Counts the instructions of a pair, those of the loop not included.
fn count(name: &str, bytes: usize, interface: Interface) -> Result<f64, Failure> {
    let (bytes, interface) = (bytes.to_string(), interface.to_string());
    let with_heap = difference(&[VERB, name, &bytes, &interface])?;
    Ok(with_heap - difference(&[VERB, BARE, name, &bytes, &interface])?)
}
