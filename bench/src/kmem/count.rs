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
    /// How many with the loop. Files of before do not say.
    #[serde(default)]
    pub with_loop: Option<f64>,
    /// Why there is no number.
    pub not_counted: Option<String>,
}

impl Count {
    /// By what a turn of the loop takes with the heap, and around a heap that does nothing.
    fn new(
        contender: &str,
        (bytes, interface): (usize, Interface),
        counted: Result<[f64; 2], Failure>,
    ) -> Count {
        let not_counted = counted.as_ref().err().map(ToString::to_string);
        let (instructions, with_loop) =
            counted.ok().map(|[heap, bare]| (heap - bare, heap)).unzip();
        let contender = contender.to_string();
        Count { contender, bytes, interface, instructions, with_loop, not_counted }
    }

    /// Is that, to the tenth that is shown, no more than `woodlot-kmem` is to take? `None` of others, and where nothing was
    /// counted.
    pub fn is_met(&self) -> Option<bool> {
        let found = self.instructions.filter(|_| self.contender == OWN)?;
        Some((found * 10.0).round() <= most(self.interface) * 10.0)
    }
}

/// Whose instructions have a target.
const OWN: &str = <super::frames::Frames<woodlot_kmem::Quarters> as Heap>::NAME;

/// The paper's instructions of an allocation and of a free, of an 80x86 (section 4.1).
pub fn paper(interface: Interface) -> [u32; 2] {
    match interface {
        Interface::Cookie => [13, 13],
        Interface::Standard => [35, 32],
    }
}

/// The most that a pair of `woodlot-kmem` is to take.
pub fn most(interface: Interface) -> f64 {
    match interface {
        Interface::Cookie => 26.0,
        Interface::Standard => 60.0,
    }
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
                let counted = count(contender.name(), bytes, interface);
                counts.push(Count::new(contender.name(), (bytes, interface), counted));
            }
        }
    }
    counts
}

/// Counts the instructions of a turn of the loop, with the heap and around one that does nothing.
fn count(name: &str, bytes: usize, interface: Interface) -> Result<[f64; 2], Failure> {
    let (bytes, interface) = (bytes.to_string(), interface.to_string());
    let with_heap = difference(&[VERB, name, &bytes, &interface])?;
    Ok([with_heap, difference(&[VERB, BARE, name, &bytes, &interface])?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmem::describe_counts;

    fn cookie(contender: &str, counted: Result<[f64; 2], Failure>) -> Count {
        Count::new(contender, (256, Interface::Cookie), counted)
    }

    #[test]
    fn the_loop_is_taken_off_and_the_rest_is_held_against_the_target() {
        let found = cookie("kmem", Ok([32.0, 6.0]));
        assert_eq!((found.instructions, found.with_loop), (Some(26.0), Some(32.0)));
        assert_eq!(found.is_met(), Some(true), "the loop's own are none of the heap's");
        assert_eq!(
            cookie("kmem", Ok([32.03, 6.0])).is_met(),
            Some(true),
            "counts differ by so much"
        );
        assert_eq!(cookie("kmem", Ok([32.1, 6.0])).is_met(), Some(false));
        assert_eq!(cookie("system", Ok([33.0, 6.0])).is_met(), None, "the target is not others'");
        let standard = |heap| Count::new("kmem", (256, Interface::Standard), Ok([heap, 6.0]));
        assert_eq!([66.0, 67.0].map(|heap| standard(heap).is_met()), [Some(true), Some(false)]);
    }

    #[test]
    fn both_counts_stand_beside_the_target_and_the_paper() {
        let none = Err(Failure::Failed("no valgrind".into()));
        let counts = [Ok([31.0, 6.0]), Ok([34.0, 6.0]), none].map(|one| cookie("kmem", one));
        let text = describe_counts(&counts).unwrap();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let name = ["kmem", "256", "B,", "cookie"];
        let row = |rest: &[&'static str]| [&name[..], rest].concat();
        assert_eq!(lines[1], row(&["31.0", "25.0", "≤", "26", "met", "13", "+", "13"]));
        assert_eq!(lines[2], row(&["34.0", "28.0", "≤", "26", "SHORT", "13", "+", "13"]));
        assert_eq!(lines[3], row(&["not", "counted:", "no", "valgrind"]));
        let other = describe_counts(&[cookie("system", Ok([145.0, 6.0]))]).unwrap();
        assert!(other.contains("139.0\n"), "{other}");
        assert!(describe_counts(&counts[2..]).is_err(), "nothing was counted");
    }

    #[test]
    fn what_was_not_counted_has_a_reason_and_no_verdict() {
        let found = cookie("kmem", Err(Failure::Failed("no valgrind".into())));
        assert_eq!(found.not_counted.as_deref(), Some("no valgrind"));
        assert_eq!((found.instructions, found.with_loop, found.is_met()), (None, None, None));
    }

    #[test]
    fn a_file_of_before_can_be_read() {
        let old = r#"{"contender":"kmem","bytes":256,"interface":"cookie","instructions":26.0,"not_counted":null}"#;
        let found: Count = serde_json::from_str(old).unwrap();
        assert_eq!((found.instructions, found.with_loop), (Some(26.0), None));
    }
}
