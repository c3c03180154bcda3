//! What a CPU keeps that nobody uses goes back by itself, as long as anybody calls the heap.

use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use woodlot_malloc::{SizeStats, alloc, free, is_restartable, stats};

/// Blocks of a size that nothing else asks for.
const BYTES: usize = 3072;
/// A heap of more than 64 MiB: a smaller one interrupts no other CPU.
const SPANS: usize = 20;
const SPAN: usize = 4 << 20;

fn rare() -> SizeStats {
    (0..).map_while(stats).find(|size| size.bytes == BYTES).expect("there is such a size")
}

/// Allocates blocks, and frees them.
fn alloc_and_free(bytes: usize, count: usize) {
    let blocks: Vec<_> = (0..count).map(|_| alloc(bytes).expect("memory")).collect();
    // SAFETY: each was allocated, and nobody uses it.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
}

/// This thread runs on one CPU from now on.
fn run_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("the CPU is one of the process's");
}

#[test]
fn caches_of_a_cpu_that_goes_idle_are_flushed() {
    let all = sched_getaffinity(None).expect("it is Linux");
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect();
    let (Some(&here), Some(&other)) = (cpus.first(), cpus.last()) else { return };
    let work = move || {
        run_on(other);
        alloc_and_free(BYTES, 3);
        assert!(!is_restartable() || rare().pages > 0, "the CPU keeps nothing");
    };
    thread::spawn(work).join().expect("it ends");
    run_on(here);
    let spans: Vec<_> = (0..SPANS).map(|_| alloc(SPAN).expect("memory")).collect();
    let begin = Instant::now();
    while rare().pages > 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "they stay");
        thread::sleep(Duration::from_millis(10));
        alloc_and_free(64, 1000);
    }
    // SAFETY: as above.
    spans.into_iter().for_each(|span| unsafe { free(span) });
}
