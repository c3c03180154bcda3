//! Threads that free each other's blocks, while they are moved from CPU to CPU, interrupted by signals, have their caches
//! stolen, and the process forks: each of these aborts the sequence that a thread is in.
//!
//! The judge: each block holds what its owner wrote, as long as it is somebody's; and when all are free, each is back in
//! its page, so that no slab is left: none was lost, and none was there twice.
//!
//! A storm lasts until so many sequences were aborted: `WOODLOT_ABORTS`, or a thousand.

mod blocks;
mod churn;
mod disturb;
mod fork;
mod signals;
mod storm;

use std::process::Command;
use std::{env, thread};

use storm::Storm;

/// Threads of a storm, and where there are many more than CPUs.
const FEW: usize = 6;
const MANY: usize = 48;
/// Sequences that a storm aborts, if nothing else is asked for. With one CPU no two threads meet in one.
const ABORTS: u64 = 1000;
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
/// Many more threads than CPUs, and all at once.
const CROWDED: Weather = Weather {
    name: "crowded",
    threads: MANY,
    moves: true,
    disturbers: &[disturb::move_all, disturb::steal_all],
    ..INTERRUPTED
};

fn storm(weather: &Weather) {
    let least = if signals::cpus() > 1 { ABORTS } else { ABORTS_OF_ONE_CPU };
    let asked = env::var("WOODLOT_ABORTS").ok().map(|text| text.parse().expect("a number"));
    let goal = asked.unwrap_or(least).div_ceil(weather.one_in);
    signals::handle_signals(weather.moves);
    let storm = &Storm::new(weather.threads, weather.signals, goal);
    let children = thread::scope(|scope| {
        let forker = scope.spawn(|| fork::fork_all(weather.name, storm));
        let disturbers: Vec<_> =
            weather.disturbers.iter().map(|disturb| scope.spawn(move || disturb(storm))).collect();
        let churners: Vec<_> =
            (0..weather.threads).map(|at| scope.spawn(move || storm.thread(at))).collect();
        let ended: Vec<_> = churners.into_iter().map(thread::ScopedJoinHandle::join).collect();
        storm.end();
        disturbers.into_iter().for_each(|disturber| disturber.join().expect("a disturber"));
        assert!(ended.iter().all(Result::is_ok));
        forker.join().expect("the forker")
    });
    blocks::free_all();
    woodlot_malloc::trim(0);
    for stats in (0..).map_while(woodlot_malloc::stats) {
        assert_eq!((stats.coalesce.slabs(), stats.global_blocks), (0, 0), "{stats:?}");
        assert!(stats.coalesce.splits > 0, "{stats:?}");
    }
    let (name, aborts, steps) = (weather.name, storm.aborts(), storm.steps());
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
