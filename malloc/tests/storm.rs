//! Threads that free each other's blocks, are moved from CPU to CPU, and have their caches stolen meanwhile.
//!
//! The judge: each block holds what its owner wrote, as long as it is somebody's; and when all are free, each is back in
//! its page, so that no slab is left: none was lost, and none was there twice.

use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{env, ptr, thread};

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

const THREADS: usize = 6;
const STEPS: usize = 60_000;
/// Blocks that wait for any thread to free them.
const SHARED: usize = 2048;
/// Set for the process that runs without restartable sequences.
const WITHOUT: &str = "glibc.pthread.rseq=0";

static BLOCKS: [AtomicUsize; SHARED] = [const { AtomicUsize::new(0) }; SHARED];

/// Every word of a block is its first one: bytes, and the number of the step that made it.
fn fill(block: NonNull<u64>, bytes: usize, step: usize) {
    let word = bytes as u64 | (step as u64) << 32;
    // SAFETY: the block has so many bytes, and is this thread's.
    unsafe { (0..bytes / 8).for_each(|at| block.add(at).write(word)) };
}

/// Checks a block, and returns its bytes.
fn check(block: NonNull<u64>) -> usize {
    // SAFETY: the block is this thread's, and was filled.
    unsafe {
        let word = block.read();
        let bytes = word as u32 as usize;
        assert!(woodlot_malloc::usable(block.cast()) >= bytes, "{word:x}");
        for at in 0..bytes / 8 {
            assert_eq!(block.add(at).read(), word, "word {at} of a block of {bytes} bytes");
        }
        bytes
    }
}

fn exchange(at: usize, block: *mut u64) -> Option<NonNull<u64>> {
    let old = BLOCKS[at].swap(block.expose_provenance(), Ordering::AcqRel);
    NonNull::new(ptr::with_exposed_provenance_mut(old))
}

fn free(block: NonNull<u64>, sized: bool) {
    let bytes = check(block);
    fill(block, bytes, 0);
    // SAFETY: the block is this thread's, and was allocated for so many bytes.
    unsafe {
        if sized {
            woodlot_malloc::free_sized(block.cast(), bytes);
        } else {
            woodlot_malloc::free(block.cast());
        }
    }
}

/// Pairs of sequences, which leave little time between them.
fn pairs(bytes: usize) {
    for _ in 0..20 {
        let block = woodlot_malloc::alloc(bytes).expect("memory");
        // SAFETY: the block was just allocated for so many bytes.
        unsafe {
            block.cast::<u64>().write(u64::MAX);
            woodlot_malloc::free_sized(block, bytes);
        }
    }
}

fn churn(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for step in 1..=STEPS {
        let most = match random.u8(..) {
            0 => 40_000,
            1..40 => 500,
            _ => 10,
        };
        let bytes = random.usize(1..most) * 8;
        let block = woodlot_malloc::alloc(bytes).expect("memory").cast();
        fill(block, bytes, step);
        pairs(bytes.min(256));
        if let Some(old) = exchange(random.usize(..SHARED), block.as_ptr()) {
            free(old, random.bool());
        }
    }
}

/// Moves the threads from CPU to CPU, and steals what CPUs have now and then.
fn move_all(tasks: &[AtomicUsize], over: &AtomicBool) {
    let all = sched_getaffinity(None).expect("the CPUs");
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect();
    for step in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        for (at, task) in tasks.iter().enumerate() {
            let mut set = CpuSet::new();
            set.set(cpus[(step + at) % cpus.len()]);
            let task = Pid::from_raw(task.load(Ordering::Relaxed) as i32);
            // A thread that has ended is not moved.
            let _ = task.is_some_and(|task| sched_setaffinity(Some(task), &set).is_ok());
        }
        if step % 16 == 0 {
            woodlot_malloc::trim(0);
        }
    }
}

/// Steals what CPUs have, all the time.
fn steal_all(_: &[AtomicUsize], over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        woodlot_malloc::trim(0);
    }
}

fn storm(disturb: fn(&[AtomicUsize], &AtomicBool)) {
    let tasks: [AtomicUsize; THREADS] = [const { AtomicUsize::new(0) }; THREADS];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let disturber = scope.spawn(|| disturb(&tasks, &over));
        let churners: Vec<_> = tasks
            .iter()
            .enumerate()
            .map(|(seed, task)| {
                scope.spawn(move || {
                    task.store(gettid().as_raw_nonzero().get() as usize, Ordering::Relaxed);
                    churn(seed as u64);
                })
            })
            .collect();
        let ended: Vec<_> = churners.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        disturber.join().expect("the disturber");
        assert!(ended.iter().all(Result::is_ok));
    });
    for at in 0..SHARED {
        exchange(at, ptr::null_mut()).into_iter().for_each(|block| free(block, true));
    }
    woodlot_malloc::trim(0);
    for stats in (0..).map_while(woodlot_malloc::stats) {
        assert_eq!((stats.coalesce.slabs(), stats.global_blocks), (0, 0), "{stats:?}");
        assert!(stats.coalesce.splits > 0, "{stats:?}");
    }
}

#[test]
fn no_block_is_lost_or_there_twice() {
    storm(move_all);
    storm(steal_all);
    println!("{} sequences were aborted", woodlot_malloc::aborts());
    assert_eq!(woodlot_malloc::is_restartable(), woodlot_malloc::aborts() > 0);
    if env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables == WITHOUT) {
        return assert!(!woodlot_malloc::is_restartable(), "it was to run without");
    }
    let test = env::current_exe().expect("this test");
    let status = Command::new(test).env("GLIBC_TUNABLES", WITHOUT).status().expect("it runs");
    assert!(status.success(), "without restartable sequences");
}
