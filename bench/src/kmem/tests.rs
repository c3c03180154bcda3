//! Each benchmark does what it says, with heaps that keep count; and heaps that fail are found out.

use std::sync::atomic::{AtomicIsize, Ordering};

use woodlot_kmem::{Octaves, Quarters, Sizes};

use super::heap::Heap;
use super::waste::WasteRow;
use super::*;
use crate::Failure;
use crate::size::Size;

/// The system's heap, whose blocks in use are counted; each benchmark has one of its own.
struct Counting<const WHAT: usize>;

static IN_USE: [AtomicIsize; 8] = [const { AtomicIsize::new(0) }; 8];
static CALLS: [AtomicIsize; 8] = [const { AtomicIsize::new(0) }; 8];
static TICKS: [AtomicIsize; 8] = [const { AtomicIsize::new(0) }; 8];

// SAFETY: as the system's heap, whose blocks are freed with their sizes.
unsafe impl<const WHAT: usize> Heap for Counting<WHAT> {
    const NAME: &'static str = "counting";
    const ABOUT: &'static str = "the system's heap, counted";

    fn alloc(&self, bytes: usize) -> *mut u8 {
        IN_USE[WHAT].fetch_add(bytes as isize, Ordering::Relaxed);
        CALLS[WHAT].fetch_add(1, Ordering::Relaxed);
        let layout = std::alloc::Layout::from_size_align(bytes, 16).unwrap();
        // SAFETY: the layout is not empty.
        unsafe { std::alloc::alloc(layout) }
    }

    unsafe fn free(&self, block: *mut u8, bytes: usize) {
        IN_USE[WHAT].fetch_sub(bytes as isize, Ordering::Relaxed);
        let layout = std::alloc::Layout::from_size_align(bytes, 16).unwrap();
        // SAFETY: as the caller says.
        unsafe { std::alloc::dealloc(block, layout) };
    }

    fn tick(&self) {
        TICKS[WHAT].fetch_add(1, Ordering::Relaxed);
    }
}

/// A heap that has no memory.
struct Empty;

// SAFETY: it never returns a block.
unsafe impl Heap for Empty {
    const NAME: &'static str = "empty";
    const ABOUT: &'static str = "no memory";

    fn alloc(&self, _: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    unsafe fn free(&self, _: *mut u8, _: usize) {}
}

#[test]
fn the_heap_over_the_other_engine_is_measured_where_it_is_named() {
    let names = |text: &str| -> Result<Vec<_>, String> {
        let found: Contenders = text.parse()?;
        Ok(found.0.iter().map(|contender| contender.name()).collect())
    };
    assert_eq!(names("kmem-onewrite,kmem"), Ok(vec!["kmem", "kmem-onewrite"]));
    assert!(names("all").is_ok_and(|all| all[0] == "kmem" && !all.contains(&"kmem-onewrite")));
    let none = names("kmem-nbbs").unwrap_err();
    assert!(none.starts_with("expected one of kmem, ") && none.ends_with("`kmem-nbbs`"), "{none}");
    let named: Contenders = "kmem-onewrite".parse().unwrap();
    let found = measure(What::Pair, &named, (&small(), 1), &|| {}).unwrap();
    assert!(found.failures.is_empty() && !found.lines.is_empty(), "{:?}", found.failures);
}

fn small() -> Setup {
    let (threads, bytes, memory) = (vec![1, 2], vec![16, 4096], Size::mib(4));
    Setup { threads, bytes, operations: 10_000, memory, seed: 3, ..Setup::default() }
}

/// Every case once; calls, and bytes that stayed in use.
fn run<const WHAT: usize>(what: What) -> (isize, isize) {
    for case in small().cases(what) {
        let readings = Counting::<WHAT>.sample(what, case, &small()).unwrap();
        assert!(!readings.is_empty() && readings.iter().all(|reading| reading.value >= 0.0));
    }
    (CALLS[WHAT].load(Ordering::Relaxed), IN_USE[WHAT].load(Ordering::Relaxed))
}

#[test]
fn each_benchmark_makes_its_calls_and_frees_everything() {
    // Two numbers of threads, two sizes and two interfaces, and one pair more on each thread.
    assert_eq!(run::<0>(What::Pair), (8 * 10_000 + 4 + 8, 0));
    // 4 MiB in each of two sizes.
    assert_eq!(run::<1>(What::Worst), ((4 << 20) / 16 + (4 << 20) / 4096, 0));
    // Whole lists of 4096.
    assert_eq!(run::<2>(What::ProducerConsumer), (2 * 3 * 4096, 0));
    // 4 MiB in each of two sizes.
    assert_eq!(run::<7>(What::Returned), ((4 << 20) / 16 + (4 << 20) / 4096, 0));
    // 4 MiB in each of two sizes, and as many pairs.
    assert_eq!(run::<6>(What::Zeroed), (2 * ((4 << 20) / 16 + (4 << 20) / 4096), 0));
    // On one thread and on two: the calls, and the blocks that each has at first.
    assert_eq!(run::<3>(What::Churn), (2 * 10_000 + 3 * 8 * 1024, 0));
    assert_eq!(run::<4>(What::Larson), (2 * 10_000 + 3 * 8 * 1024, 0));
    // On one thread and on two, in two sizes: a block for each thread, and 16 of its own.
    assert_eq!(run::<5>(What::CacheScratch), (2 * (1 + 2) * 17, 0));
    // The clock is looked at after each 1024 calls, where memory is noted.
    let slices = 2 * ((4 << 20) / 16 + (4 << 20) / 4096) / 1024;
    let ticks = [1, 7, 0, 6].map(|what: usize| TICKS[what].load(Ordering::Relaxed));
    assert_eq!(ticks, [slices, slices, 0, 0]);
}

#[test]
fn blocks_of_two_threads_that_lie_on_one_line_are_counted() {
    let kmem = all().into_iter().find(|contender| contender.name() == "kmem").unwrap();
    let shared = |bytes| {
        let case = Case { threads: 2, bytes: Some(bytes), interface: None };
        let readings = kmem.sample(What::CacheScratch, case, &small()).unwrap();
        readings.iter().find(|reading| reading.metric == Metric::Shared).unwrap().value
    };
    // A thread gets the block that it has just freed, which lies beside the other one's.
    assert_eq!((shared(16), shared(128)), (1.0, 0.0));
}

#[test]
fn a_load_that_rises_and_falls_is_seen_at_every_step() {
    let kmem = all().into_iter().find(|contender| contender.name() == "kmem").unwrap();
    let moments = kmem.moments(&small()).unwrap();
    assert_eq!(moments.len(), 4 * 16 + 2);
    let most = |of: fn(&Moment) -> usize| moments.iter().map(of).max().unwrap();
    assert!((4 << 20..5 << 20).contains(&most(|moment| moment.payload)));
    assert!(moments.iter().all(|moment| moment.taken >= moment.payload), "{moments:?}");
    // The zone has all of its frames again.
    assert_eq!(moments.last().map(|end| (end.payload, end.taken)), Some((0, 0)));
}

#[test]
fn a_heap_without_memory_is_not_measured() {
    static EMPTY: Empty = Empty;
    let timed = [
        What::Pair,
        What::Worst,
        What::ProducerConsumer,
        What::Churn,
        What::Larson,
        What::CacheScratch,
        What::Zeroed,
    ];
    for what in timed {
        let found = EMPTY.sample(what, small().cases(what)[0], &small());
        let Err(Failure::Failed(why)) = found else { panic!("{what}") };
        assert!(why.contains("empty: no memory for"), "{why}");
    }
    assert!(EMPTY.moments(&small()).is_err());
    let found = measure(What::Pair, &Contenders(vec![&EMPTY]), (&small(), 1), &|| {});
    let Err(Failure::Failed(why)) = found else { panic!("it was measured") };
    assert!(why.contains("nothing was measured: empty: no memory for"), "{why}");
}

#[test]
fn a_run_has_every_repetition_of_every_contender() {
    let all = all();
    assert!(all.iter().any(|contender| contender.name() == "kmem"));
    for what in [What::Pair, What::Worst] {
        let kept = measure(what, &Contenders(all.clone()), (&small(), 2), &|| {}).unwrap();
        assert!(kept.failures.is_empty(), "{:?}", kept.failures);
        let times = kept.lines.iter().filter(|line| line.metric != Metric::Peak);
        assert!(times.clone().all(|line| (line.values.len(), line.wall.len()) == (2, 2)));
        let cases = if what == What::Pair { 8 } else { 2 * 2 };
        assert_eq!(times.count(), all.len() * cases);
        assert!(describe(&kept).contains("hot CAS"));
        let floors = &kept.sequence_pairs;
        let of_cases: Vec<_> = floors.iter().map(|line| line.case).collect();
        if what == What::Worst || kept.sequence_pair.is_empty() {
            assert!(floors.is_empty(), "{floors:?}");
            continue;
        }
        assert_eq!(of_cases, small().cases(what));
        assert!(floors.iter().all(|line| line.values.len() == 2 && line.values[0] > 0.0));
        for threads in ["1 thread", "2 threads"] {
            let floor = format!("rseq pop and push, beside {threads} ");
            assert!(describe(&kept).contains(&floor), "{}", describe(&kept));
        }
    }
}

#[test]
fn the_worst_case_has_its_memory_while_it_is_in_use() {
    let kmem = all().into_iter().find(|contender| contender.name() == "kmem").unwrap();
    let case = small().cases(What::Worst)[0];
    let readings = kmem.sample(What::Worst, case, &small()).unwrap();
    let peaks: Vec<_> = readings.iter().filter(|reading| reading.metric == Metric::Peak).collect();
    assert_eq!(peaks.len(), 2);
    assert!(peaks.iter().all(|peak| peak.value >= 1.0), "{peaks:?}");
}

#[test]
fn the_first_of_several_rounds_gets_the_memory() {
    let kmem = all().into_iter().find(|contender| contender.name() == "kmem").unwrap();
    let (case, setup) = (small().cases(What::Worst)[0], Setup { rounds: 3, ..small() });
    let readings = kmem.sample(What::Worst, case, &setup).unwrap();
    let of = |metric: Metric| readings.iter().filter(|reading| reading.metric == metric).count();
    let metrics = [Metric::Alloc, Metric::Free, Metric::Peak];
    assert_eq!(metrics.map(of), [2 * 2, 2 * 2, 3 * 2], "of two sizes");
}

#[test]
fn what_stays_is_noted_at_once_later_and_when_it_was_asked_for() {
    let kmem = all().into_iter().find(|contender| contender.name() == "kmem").unwrap();
    let kept = |idle| {
        let setup = Setup { bytes: vec![64], idle, ..small() };
        let readings = kmem.sample(What::Returned, small().cases(What::Returned)[0], &setup);
        let readings = readings.unwrap().into_iter().filter(|reading| reading.wall.is_none());
        readings.map(|reading| (reading.metric, reading.value)).collect::<Vec<_>>()
    };
    let at_once = kept(0);
    let [(Metric::Kept, stays), (Metric::KeptAsked, asked)] = at_once[..] else {
        panic!("{at_once:?}")
    };
    assert!(stays > 0.0 && stays < 1.0 && asked == 0.0, "{at_once:?}");
    let later = kept(1);
    assert!(matches!(later[..], [_, (Metric::KeptLater, _), _]), "{later:?}");
}

#[test]
fn nodes_of_the_lock_manager_lose_nothing() {
    for threads in [1, 2] {
        let rows = lock_manager::<Octaves>(threads, &small(), None).unwrap();
        assert_eq!(rows.iter().map(|row| row.bytes).collect::<Vec<_>>(), [64, 256, 512, 1024]);
        for row in rows {
            assert_eq!(row.calls[0], row.calls[1], "{row:?}");
            assert!(row.global[0] <= row.calls[0] && row.pages[0] <= row.global[0], "{row:?}");
            assert!(row.slabs[0] > 0 && row.flushed == 0, "{row:?}");
        }
    }
    let rows = lock_manager::<Octaves>(2, &small(), Some(FLUSH)).unwrap();
    assert!(rows.iter().all(|row| row.flushed > 0), "{rows:?}");
}

fn check_waste<S: Sizes>() -> f64 {
    let rows = waste::<S>(&small()).unwrap();
    assert_eq!(rows.len(), 2 * S::COUNT);
    assert!(rows.iter().all(|row| row.asked <= row.blocks && row.blocks <= row.slabs), "{rows:?}");
    let sum = |load, of: fn(&WasteRow) -> usize| -> usize {
        rows.iter().filter(|row| row.load == load).map(of).sum()
    };
    // A quarter of the blocks is left at low load.
    let (heavy, low) = (sum(Load::Heavy, |row| row.asked), sum(Load::Low, |row| row.asked));
    assert!((heavy / 5..heavy / 3).contains(&low), "{heavy} {low}");
    sum(Load::Heavy, |row| row.blocks) as f64 / heavy as f64
}

#[test]
fn finer_sizes_waste_less_inside_blocks() {
    assert!(check_waste::<Quarters>() < check_waste::<Octaves>());
}
