//! `cargo xtask miri`: the core crates interpreted: undefined behaviour, provenance, alignment, data
//! races, and values that weak memory may show, under several schedules.

use std::process::Command;

use crate::models::ENGINES;
use crate::nightly::{components, nightly};
use crate::outcome::{Length, Outcome};
use crate::shell::{passed, run, two_at_a_time};

/// Without isolation, for `WOODLOT_OPS` and the clock.
const FLAGS: &str =
    "-Zmiri-strict-provenance -Zmiri-symbolic-alignment-check -Zmiri-disable-isolation";

/// For `kmem`, whose lists have addresses in words: they are exposed, and come back with any provenance.
const EXPOSED: &str =
    "-Zmiri-permissive-provenance -Zmiri-symbolic-alignment-check -Zmiri-disable-isolation";

/// The package of the kernel memory allocator.
const KMEM: &str = "woodlot-kmem";

/// Its unit tests, but for the longest.
const KMEM_UNITS: [&str; 5] = ["list::", "lot::", "run::", "filling::", "cpu::"];

/// Short tests of it that do not take minutes.
const KMEM_SHORT: [&str; 3] = [
    "layers::a_cpu_keeps_two_lists",
    "shortage::a_cpu_without_a_cache",
    "nodes::a_block_of_no_node_is_named",
];

/// The package of the heap of a program, and its tests of the caches of threads, which are used where there are no
/// restartable sequences: those need assembly.
const MALLOC: &str = "woodlot-malloc";
const MALLOC_UNITS: &str = "threads::tests::";

/// The short checks without threads, each by what its names contain.
const ALONE: [&[&str]; 2] = [&["garbage"], &["random"]];
/// Recovery from garbage takes the longest: a short run has it on one geometry of each engine.
const ALONE_SHORT: [&[&str]; 2] =
    [&["two_groups::garbage", "base64k::garbage", "two_rows::garbage"], &["random"]];

/// How much is run.
struct Bounds {
    /// Calls of each test and thread.
    ops: &'static str,
    /// Seeds of the random histories.
    histories: u32,
    /// Schedules of the threads.
    schedules: u32,
}

const SHORT: Bounds = Bounds { ops: "20", histories: 1, schedules: 2 };
/// For a seeded defect.
const SEEDED: Bounds = Bounds { ops: "30", histories: 0, schedules: 4 };
const FULL: Bounds = Bounds { ops: "40", histories: 3, schedules: 16 };

/// Runs frame's unit tests, the engines' short tests, of kmem those that are not too long, and the caches of threads of malloc.
pub fn miri(length: Length) -> Result<Outcome, String> {
    if let Err(why) = components(&["miri", "rust-src"]) {
        return Outcome::missing(length, why);
    }
    let (bounds, alone) = if length.short { (SHORT, ALONE_SHORT) } else { (FULL, ALONE) };
    // A history is interpreted on one processor.
    let frame =
        passed(test(&bounds, FLAGS, 1, "woodlot-frame").args(["--features", "std", "--lib"]))?;
    let mut runs = Vec::new();
    // NBBS comes first: it takes the longest.
    for engine in ENGINES.into_iter().rev() {
        let short = |mut command: Command, what: &[&str]| {
            command.args(["--test", "short"]).args(what);
            command
        };
        run(&mut short(test(&bounds, FLAGS, 1, engine), &["--no-run"]))?;
        runs.push(short(scheduled(&bounds, engine), &["--", "owners"]));
        let history = |seed| test(&bounds, FLAGS, seed, engine);
        for seed in 1..=bounds.histories {
            runs.extend(alone.map(|check| short(history(seed), &[&["--"], check].concat())));
        }
    }
    let mut units = test(&bounds, EXPOSED, 1, KMEM);
    units.args(["--lib", "--"]).args(KMEM_UNITS);
    run(test(&bounds, EXPOSED, 1, KMEM).args(["--lib", "--test", "short", "--no-run"]))?;
    runs.push(units);
    let mut short = test(&bounds, EXPOSED, 1, KMEM);
    short.args(["--test", "short", "--"]).args(KMEM_SHORT);
    runs.push(short);
    let mut fallback = test(&bounds, &with_schedules(EXPOSED, &bounds), 1, MALLOC);
    fallback.args(["--lib", "--", MALLOC_UNITS]);
    runs.push(fallback);
    let ran = two_at_a_time(runs, |mut command| passed(&mut command))?;
    let tests = frame + ran.iter().sum::<u64>();
    Ok(Outcome::Ran(format!(
        "0 findings in {tests} runs of tests, of kmem and its caches of threads too; {} histories and {} schedules of {} \
         calls on each of two geometries, of {} engines",
        bounds.histories,
        bounds.schedules,
        bounds.ops,
        ENGINES.len()
    )))
}

/// Tests of a package under a few schedules, for a defect that one of them must find.
pub fn schedules(package: &str) -> Command {
    scheduled(&SEEDED, package)
}

fn scheduled(bounds: &Bounds, package: &str) -> Command {
    test(bounds, &with_schedules(FLAGS, bounds), 1, package)
}

fn with_schedules(flags: &str, bounds: &Bounds) -> String {
    format!("{flags} -Zmiri-many-seeds=0..{}", bounds.schedules)
}

fn test(bounds: &Bounds, flags: &str, seed: u32, package: &str) -> Command {
    let mut command = nightly("cargo");
    command.args(["miri", "test", "--quiet", "-p", package]);
    command.env("CARGO_TARGET_DIR", "target/miri").env("MIRIFLAGS", flags);
    command.env("WOODLOT_OPS", bounds.ops).env("WOODLOT_SEED", seed.to_string());
    command
}
