//! How many instructions a call takes: for a simulator that counts them.
//!
//! A program that called [`enable`] is started again, under `valgrind --tool=callgrind`, with [`VERB`] for
//! its first argument: it then does nothing but [`pairs`]. Two runs with different numbers of pairs differ by
//! the instructions of the pairs between them; everything else is in both. The loop around the pairs is counted once more
//! with an allocator that does nothing, and taken off.

use std::env::current_exe;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use woodlot_frame::{FrameId, Order, Slot};

use crate::Failure;
use crate::contender::Contender;
use crate::engine::Engine;
use crate::patterns::{Pattern, Prepared, Runner as _, Setup, prepare};
use crate::size::Size;

/// An allocator that does nothing: it has one frame, which it hands out each time.
struct OneFrame;

impl Contender for OneFrame {
    fn new(_: usize, _: usize) -> Result<Self, Failure> {
        Ok(Self)
    }

    #[inline(always)]
    fn alloc(&self, _: Order, _: Slot) -> Option<FrameId> {
        Some(FrameId(0))
    }

    #[inline(always)]
    fn free(&self, _: FrameId, _: Order, _: Slot) -> bool {
        true
    }
}

/// How pairs follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Course {
    /// Each block is freed before the next one is allocated.
    Repeat,
    /// Half of the memory is allocated, then freed, again and again.
    Bulk,
}

impl Course {
    /// A zone of 1 GiB with one slot, in which so many pairs are made.
    fn setup(self, order: Order, pairs: usize) -> Setup {
        let pattern = match self {
            Course::Repeat => Pattern::Repeat,
            Course::Bulk => Pattern::Bulk,
        };
        Setup { memory: Size::gib(1), operations: pairs, ..Setup::new(pattern, order) }
    }

    /// The two numbers of pairs whose difference is taken: [`PAIRS`]; in bulk the least whole lists that differ by as many, behind
    /// two lists in which is done what is done once.
    fn numbers(self, order: Order) -> [u64; 2] {
        if self == Course::Repeat {
            return PAIRS;
        }
        let list = self.setup(order, 0).list() as u64;
        [2 * list, 2 * list + (PAIRS[1] - PAIRS[0]).next_multiple_of(list)]
    }

    /// What says so to a run that is counted.
    const fn option(self) -> &'static [&'static str] {
        match self {
            Course::Repeat => &[],
            Course::Bulk => &["--bulk"],
        }
    }
}

/// Makes so many pairs with an allocator that does nothing.
///
/// # Errors
/// The order is too large.
pub fn bare(course: Course, order: Order, pairs: usize) -> Result<(), Failure> {
    Prepared::<OneFrame>::new(course.setup(order, pairs))?.sample().map(drop)
}

/// Makes a zone, allocates a block and frees it, `pairs` times.
///
/// # Errors
/// What the engine cannot do.
pub fn pairs(course: Course, engine: Engine, order: Order, pairs: usize) -> Result<(), Failure> {
    prepare(engine, &course.setup(order, pairs))?.sample().map(drop)
}

/// The two numbers of pairs whose difference is taken: so many that what differs from run to run besides, some 3000
/// instructions of the program's start, is less than a tenth of one for a pair.
const PAIRS: [u64; 2] = [1_000, 101_000];

/// The first argument of a run that is counted; an engine, an order and a number of pairs follow.
pub const VERB: &str = "instructions";

/// What says that the loop goes around an allocator that does nothing, whoever is named.
const BARE: &str = "--bare";

/// The program that can be counted. A program that does not know [`VERB`] must not be started with it.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Says that this program runs [`pairs`] when it is started with [`VERB`], and what `kmem` has verbs for: from now on it
/// can [`count`].
pub fn enable() {
    if let Ok(program) = current_exe() {
        PROGRAM.get_or_init(|| program);
    }
}

/// Instructions of a pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Count {
    /// The allocator's own.
    pub pair: f64,
    /// Those of the loop around it.
    pub around: f64,
}

/// Counts the instructions of a pair with callgrind.
///
/// # Errors
/// When valgrind is not installed or fails, or when this program cannot be started again.
pub fn count(course: Course, engine: Engine, order: Order) -> Result<Count, Failure> {
    let (numbers, name) = (course.numbers(order), order.0.to_string());
    let counted = |options: &[&str]| {
        let arguments = [&[VERB], course.option(), options, &[engine.name(), &name]].concat();
        difference_of(&arguments, numbers)
    };
    let (both, around) = (counted(&[])?, counted(&[BARE])?);
    Ok(Count { pair: both - around, around })
}

/// The program, for whoever starts it again.
///
/// # Errors
/// It has not said that it can be.
pub(crate) fn program() -> Result<&'static Path, Failure> {
    let cannot = || Failure::Failed("this program cannot start itself again".into());
    PROGRAM.get().map(PathBuf::as_path).ok_or_else(cannot)
}

/// What a pair takes, of which the program makes so many as its last argument says.
///
/// # Errors
/// As [`count`].
pub(crate) fn difference(arguments: &[&str]) -> Result<f64, Failure> {
    difference_of(arguments, PAIRS)
}

fn difference_of(arguments: &[&str], numbers: [u64; 2]) -> Result<f64, Failure> {
    let program = program()?;
    let [few, many] = numbers.map(|pairs| callgrind(program, arguments, pairs));
    Ok(of_a_pair([few?, many?], numbers))
}

/// What a pair takes, by what these numbers of them take with the program around them. That may differ a little from run to run, so
/// that the difference may be less than nothing.
fn of_a_pair(collected: [u64; 2], numbers: [u64; 2]) -> f64 {
    let [few, many] = collected.map(|count| count as f64);
    (many - few) / (numbers[1] - numbers[0]) as f64
}

fn callgrind(program: &Path, arguments: &[&str], pairs: u64) -> Result<u64, Failure> {
    let failed = |cause: &str| Failure::Failed(format!("not counted: {cause}"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .arg(pairs.to_string())
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed("valgrind is not installed"),
            _ => failed(&format!("valgrind: {error}")),
        })?;
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = collected(&text).filter(|_| output.status.success());
    // The program's own words, among those of valgrind.
    let mut own = text.lines().filter_map(|line| line.strip_prefix("woodlot: "));
    let ended = format!("under valgrind the program ended with {}", output.status);
    counted.ok_or_else(|| failed(own.next().unwrap_or(&ended)))
}

/// The number in callgrind's line `==123== Collected : 4567`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    line?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_prints() {
        let text = "==7== Events    : Ir\n==7== Collected : 27465711\n==7==\n";
        assert_eq!(collected(text), Some(27_465_711));
        assert_eq!(collected("valgrind: no such file"), None);
    }

    #[test]
    fn a_pair_takes_what_more_of_them_take_more() {
        assert_eq!(of_a_pair([10_594_316, 10_594_316 + 34 * 100_000], PAIRS), 34.0);
        assert_eq!(of_a_pair([10_594_316, 10_594_316 + 3_000], PAIRS), 0.03);
        assert_eq!(of_a_pair([3_000, 0], PAIRS), -0.03);
        assert_eq!(of_a_pair([500, 1_200], [50, 100]), 14.0);
    }

    #[test]
    fn lists_are_counted_as_a_whole() {
        for (order, list) in [(0, 131_072), (5, 4096), (10, 128)] {
            let [few, many] = Course::Bulk.numbers(Order(order));
            assert_eq!((few, many % list), (2 * list, 0), "order {order}");
            assert!((PAIRS[1] - PAIRS[0]..PAIRS[1] + list).contains(&(many - few)));
        }
    }

    #[test]
    fn pairs_of_an_order_that_there_is_not_are_refused() {
        for course in [Course::Repeat, Course::Bulk] {
            assert!(pairs(course, Engine::Llfree, Order(3), 10).is_ok());
            assert!(pairs(course, Engine::Llfree, Order(11), 10).is_err());
            assert!(pairs(course, Engine::ListCas, Order(3), 10).is_err());
            assert!(bare(course, Order(3), 10).is_ok() && bare(course, Order(11), 10).is_err());
        }
    }
}
