//! Threads that free each other's blocks, while they are moved from CPU to CPU, interrupted by signals, have their caches
//! stolen, and the process forks: each of these aborts the sequence that a thread is in.
//!
//! The judge: each block holds what its owner wrote, as long as it is somebody's; and when all are free, each is back in
//! its page, so that no slab is left: none was lost, and none was there twice.
//!
//! A storm lasts until so many sequences were aborted: `WOODLOT_ABORTS`, or some thousand.

mod blocks;
mod disturb;
mod fork;

use std::panic::{catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::{env, thread};

use rustix::thread::{Pid, gettid};

use disturb::Signals;

/// Threads of a storm, and where there are many more than CPUs.
const FEW: usize = 6;
const MANY: usize = 48;
/// Steps that the threads of a storm do at least, together.
const STEPS: u64 = 2000;
/// Sequences that a storm aborts, if nothing else is asked for. With one CPU no two threads meet in one.
const ABORTS: u64 = 3000;
const ABORTS_OF_ONE_CPU: u64 = 10;
/// Set for the process that runs without restartable sequences.
const WITHOUT: &str = "glibc.pthread.rseq=0";

/// What a storm is made of.
struct Weather {
    name: &'static str,
    threads: usize,
    /// Do signals interrupt the threads, and then move them?
    signals: bool,
    moves: bool,
    disturbers: &'static [fn(&Storm)],
    /// It lasts for one in so many of the aborts that are asked for.
    one_in: u64,
}

const INTERRUPTED: Weather = Weather {
    name: "interrupted",
    threads: FEW,
    signals: true,
    moves: false,
    disturbers: &[],
    one_in: 4,
};
const MOVED: Weather = Weather { name: "moved", moves: true, one_in: 1, ..INTERRUPTED };
/// Only a sequence that is under way when the thief comes is aborted.
const STOLEN_FROM: Weather = Weather {
    name: "stolen from",
    threads: 2,
    signals: false,
    disturbers: &[disturb::steal_all],
    one_in: 40,
    ..INTERRUPTED
};
const CROWDED: Weather = Weather {
    name: "crowded",
    threads: MANY,
    moves: true,
    disturbers: &[disturb::move_all, disturb::steal_all],
    ..INTERRUPTED
};

/// A storm under way.
struct Storm {
    signals: bool,
    /// The threads' numbers; 0: has not begun.
    tasks: Vec<AtomicUsize>,
    steps: AtomicU64,
    /// Aborted sequences before, and those that are to come.
    before: u64,
    aborts: u64,
    over: AtomicBool,
}

impl Storm {
    fn new(weather: &Weather) -> Storm {
        let least = if disturb::cpus() > 1 { ABORTS } else { ABORTS_OF_ONE_CPU };
        let asked = env::var("WOODLOT_ABORTS").ok().map(|text| text.parse().expect("a number"));
        disturb::handle_signals(weather.moves);
        Storm {
            signals: weather.signals,
            tasks: (0..weather.threads).map(|_| AtomicUsize::new(0)).collect(),
            steps: AtomicU64::new(0),
            before: woodlot_malloc::aborts(),
            aborts: asked.unwrap_or(least).div_ceil(weather.one_in),
            over: AtomicBool::new(false),
        }
    }

    /// How much of it has happened: 1 is all.
    fn part(&self) -> f64 {
        let steps = self.steps.load(Ordering::Relaxed) as f64 / STEPS as f64;
        if !woodlot_malloc::is_restartable() {
            return steps;
        }
        steps.min((woodlot_malloc::aborts() - self.before) as f64 / self.aborts as f64)
    }

    /// Have all threads ended, or one failed?
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The threads that have begun.
    fn tasks(&self) -> impl Iterator<Item = Pid> {
        self.tasks.iter().filter_map(|task| Pid::from_raw(task.load(Ordering::Relaxed) as i32))
    }

    /// Signals to this thread, if there are any.
    fn signals(&self) -> Option<Signals> {
        self.signals.then(Signals::new)
    }

    fn thread(&self, at: usize) {
        self.tasks[at].store(gettid().as_raw_nonzero().get() as usize, Ordering::Relaxed);
        let _signals = self.signals();
        let ended = catch_unwind(|| {
            churn(at + 1, |step| {
                if step % 16 == 0 {
                    self.steps.fetch_add(16, Ordering::Relaxed);
                }
                self.part() < 1.0 && !self.is_over()
            });
        });
        if let Err(why) = ended {
            self.over.store(true, Ordering::Relaxed);
            resume_unwind(why);
        }
    }
}

/// Allocates and signs blocks, puts them into the table, and frees what it finds there, for as long as it is told to.
fn churn(owner: usize, goes_on: impl Fn(usize) -> bool) {
    let mut random = fastrand::Rng::with_seed(owner as u64);
    let mut step = 0;
    while goes_on(step) {
        step += 1;
        let most = match random.u8(..) {
            0 => 40_000,
            1..40 => 500,
            _ => 10,
        };
        let block = blocks::alloc(random.usize(1..most) * 8, owner, step);
        pairs(random.usize(1..32) * 8);
        if let Some(old) = blocks::exchange(&mut random, block) {
            blocks::free(old, random.bool());
        }
    }
}

/// Pairs of sequences, which leave little time between them.
fn pairs(bytes: usize) {
    for _ in 0..50 {
        let block = woodlot_malloc::alloc(bytes).expect("memory");
        // SAFETY: the block was just allocated for so many bytes.
        unsafe {
            block.cast::<u64>().write(u64::MAX);
            woodlot_malloc::free_sized(block, bytes);
        }
    }
}

fn storm(weather: &Weather) {
    let storm = &Storm::new(weather);
    let children = thread::scope(|scope| {
        let forker = scope.spawn(|| fork::fork_all(storm));
        let disturbers: Vec<_> =
            weather.disturbers.iter().map(|disturb| scope.spawn(move || disturb(storm))).collect();
        let churners: Vec<_> =
            (0..weather.threads).map(|at| scope.spawn(move || storm.thread(at))).collect();
        let ended: Vec<_> = churners.into_iter().map(thread::ScopedJoinHandle::join).collect();
        storm.over.store(true, Ordering::Relaxed);
        disturbers.into_iter().for_each(|disturber| disturber.join().expect("a disturber"));
        assert!(ended.iter().all(Result::is_ok));
        forker.join().expect("the forker")
    });
    assert!(children > 0, "no child");
    blocks::free_all();
    woodlot_malloc::trim(0);
    for stats in (0..).map_while(woodlot_malloc::stats) {
        assert_eq!((stats.coalesce.slabs(), stats.global_blocks), (0, 0), "{stats:?}");
        assert!(stats.coalesce.splits > 0, "{stats:?}");
    }
    let aborts = woodlot_malloc::aborts() - storm.before;
    let steps = storm.steps.load(Ordering::Relaxed);
    let name = weather.name;
    println!("{name}: {aborts} sequences were aborted in {steps} steps, {children} children");
}

#[test]
fn no_block_is_lost_or_there_twice() {
    [MOVED, INTERRUPTED, STOLEN_FROM, CROWDED].iter().for_each(storm);
    assert_eq!(woodlot_malloc::is_restartable(), woodlot_malloc::aborts() > 0);
    if env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables == WITHOUT) {
        return assert!(!woodlot_malloc::is_restartable(), "it was to run without");
    }
    let test = env::current_exe().expect("this test");
    let status = Command::new(test).env("GLIBC_TUNABLES", WITHOUT).status().expect("it runs");
    assert!(status.success(), "without restartable sequences");
}
