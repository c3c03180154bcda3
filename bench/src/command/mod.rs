//! The commands `bench`, `frag` and `instructions`: their arguments and what they do. The program around them
//! adds them to its own, prints a [`Failure`](crate::Failure) to standard error and ends with its
//! exit code.

mod bench;
#[cfg(target_os = "linux")]
mod daemon;
mod domains;
mod frag;
mod instructions;
mod kmem;
#[cfg(target_os = "linux")]
mod moves;
mod scale;
mod stacks;
pub mod values;
#[cfg(target_os = "linux")]
mod wiring;

pub use bench::{BenchArgs, Others, bench};
#[cfg(target_os = "linux")]
pub use daemon::DaemonArgs;
pub use domains::DomainsArgs;
pub use frag::{FragArgs, frag};
pub use instructions::{InstructionsArgs, instructions};
pub use kmem::{KmemArgs, KmemPairsArgs, KmemSampleArgs, kmem_pairs, kmem_sample};
#[cfg(target_os = "linux")]
pub use moves::MovesArgs;
pub use scale::ScaleArgs;
pub use stacks::StacksArgs;
#[cfg(target_os = "linux")]
pub use wiring::WiringArgs;

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Failure;
    use crate::floor::Loop;

    #[derive(Parser, Debug)]
    enum Program {
        Bench(Box<BenchArgs>),
        Frag(FragArgs),
    }

    fn parse(line: &str) -> Result<Program, clap::Error> {
        Program::try_parse_from(["program"].into_iter().chain(line.split(' ')))
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        Program::command().debug_assert();
        let wrong = [
            "bench",
            "bench slab",
            "bench bulk --engine slab",
            "bench bulk --order 11",
            "bench bulk --order 3-11",
            "bench bulk --order 3-",
            "bench bulk --order 9-0",
            "bench bulk --order 1,,2",
            "bench bulk --order 1;2",
            "bench bulk --threads 0",
            "bench bulk --threads 1,0",
            "bench bulk --threads 4097",
            "bench bulk --memory 1KiB",
            "bench bulk --repetitions 0",
            "bench bulk --fill 101",
            "bench bulk --fill 99.96",
            "bench bulk --placement nowhere",
            "bench churn --mix --order 3",
            "bench --check --svg a.svg",
            "bench thread-test --threads 0",
            "bench thread-test --burst 0",
            "bench --check --burst 8",
            "bench bulk --check",
            "bench bulk --quick",
            "bench bulk --only frag",
            "bench --only frag",
            "bench --check --engine linux",
            "bench kmem",
            "bench kmem bulk",
            "bench bulk kmem pair",
            "bench kmem pair --engine slab",
            "bench kmem pair --bytes 48",
            "bench kmem pair --bytes 8192",
            "bench kmem pair --threads 65",
            "bench kmem pair --check",
            "bench kmem preload --library hoard",
            "bench kmem preload --library x=/no/such/file.so",
            "bench kmem transfers --operations 0",
            "bench domains --repetitions 0",
            "bench stacks --pages 33",
            "bench scale --cpus 257",
            "bench scale --engine bitmap",
            "bench scale --order 11",
            "bench scale --fill 99.96",
            "bench scale --transfer -1",
            "bench stacks --stacks 0",
            "bench wiring --repetitions 0",
            "bench moves --kept 100",
            "bench daemon --repetitions 0",
            "frag --churn -1",
            "frag --churn NaN",
            "frag --slots 0",
        ];
        for line in wrong {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in [
            "bench --check --quick",
            "bench bulk --engine all --order 0,9",
            "bench bulk --fill 99.9,0.3,100",
            "bench bulk --order 0-3,9 --threads 1,2-4 --fill 50,90",
            "bench kmem pair --engine kmem --bytes 16,4096 --threads 1-2",
            "bench domains --repetitions 3",
            "frag",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_only_makes_no_sense_together_is_a_usage_failure_too() {
        for (line, cause) in [
            ("bench remote --threads 3", "twos"),
            ("bench bulk --memory 4MiB --threads 4096", "too few blocks"),
            ("bench repeat --fill 100", "no block of order 0 is free in 8GiB that is 100 % full"),
            ("bench near-full --placement row", "random"),
            ("bench churn --fill 0", "--fill above 0"),
            ("bench churn --memory 32GiB", "less --memory"),
            ("bench churn --order 10", "orders 0 to 9"),
            ("bench repeat --mix", "churn alone"),
            ("bench out-of-step --threads 1", "two threads"),
            ("bench ring --slots 1", "a slot for each"),
            ("bench near-full --fill 0", "--fill above 0"),
            ("bench repeat --order 10 --memory 4MiB", "blocks of order 10"),
            ("bench full --fill 50", "--fill 0"),
            (
                "bench linux-scalability --threads 2 --memory 1GiB",
                "need 1024 blocks of order 9, and 512 are free in 1GiB",
            ),
            ("bench thread-test --burst 1 --threads 2", "too short"),
            ("bench constant-occupancy --burst 31", "a burst of 31"),
            ("bench kmem worst --threads 2", "worst: it has one thread"),
            ("bench kmem producer-consumer --threads 1", "producer-consumer: it has two threads"),
            ("bench kmem churn --bytes 16", "churn: its sizes are its own"),
            ("bench kmem waste --memory 2GiB", "waste: --memory 2GiB is more than 1GiB"),
            ("bench kmem lock-manager --threads 1,2", "one number of threads"),
            ("bench kmem larson --bytes 16", "larson: its sizes are its own"),
            ("bench kmem memory --threads 2", "memory: it has one thread"),
            ("bench kmem memory --memory 2GiB", "memory: --memory 2GiB is more than 1GiB"),
            ("bench kmem preload --threads 2", "preload: each loop has its threads"),
            ("bench kmem preload --engine kmem", "preload: whom it measures is its own"),
            ("bench kmem check --threads 2", "check: the targets say how many threads"),
            ("bench kmem check --engine kmem", "check: whom it measures is its own"),
            ("bench kmem check --only nothing", "no target is so named"),
            ("bench kmem pair --only cookie", "pair: it has no targets"),
            ("bench kmem churn --rounds 2", "churn: it has no rounds"),
            ("bench kmem worst --idle 2", "worst: nobody waits"),
            ("bench kmem returned --threads 2", "returned: it has one thread"),
            ("bench kmem emptied --threads 1,2", "one number of threads"),
            ("bench kmem purity --threads 2", "purity: one thread plays its CPUs"),
            (
                "bench kmem transfers --operations 5000",
                "5000 pairs for each CPU are more than 4096",
            ),
        ] {
            let Ok(Program::Bench(args)) = parse(line) else { panic!("{line}") };
            let Err(Failure::Usage(message)) = bench(*args) else { panic!("{line}") };
            assert!(message.contains(cause), "{line}: {message}");
        }
    }

    #[test]
    fn results_are_written_as_json_and_csv() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (json, csv, svg) = (at("a.json"), at("a.csv"), at("a.svg"));
        let line = format!(
            "bench near-full --memory 16MiB --fill 90 --operations 100 --repetitions 2 --engine \
             llfree,bitmap --json {json} --csv {csv}"
        );
        let Ok(Program::Bench(args)) = parse(&line) else { panic!("{line}") };
        bench(*args).unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), Loop::ALL.len() + 2);
        assert_eq!(results[Loop::ALL.len() + 1]["cpu_ns"].as_array().map(Vec::len), Some(2));
        assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 1 + Loop::ALL.len() + 2);
        let line = format!(
            "bench churn --memory 16MiB --fill 50,90 --placement packed,spread --operations 100 --repetitions 2 \
             --engine llfree,linux --json {json} --csv {csv} --svg {svg}",
            json = at("c.json"),
            csv = at("c.csv")
        );
        let Ok(Program::Bench(args)) = parse(&line) else { panic!("{line}") };
        bench(*args).unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(at("c.json")).unwrap()).unwrap();
        assert_eq!(json["results"].as_array().map(Vec::len), Some(Loop::ALL.len() + 2 * 2 * 2));
        let last = &json["results"][Loop::ALL.len() + 7];
        assert_eq!(last["kept"].as_array().map(Vec::len), Some(2));
        assert_eq!((&last["placement"], &last["fill_percent"]), (&"random".into(), &90.0.into()));
        assert_eq!(last["free_huge"], last["kept"][1]["free_huge"]);
        let drawn = std::fs::read_to_string(&svg).unwrap();
        for words in ["churn", "in a row, pair", "at random, free huge frames", "linux"] {
            assert!(drawn.contains(words), "{words}");
        }
        let line = format!("frag --memory 16MiB --iterations 3 --csv {} --svg {svg}", at("b.csv"));
        let Ok(Program::Frag(args)) = parse(&line) else { panic!("{line}") };
        frag(args).unwrap();
        assert_eq!(std::fs::read_to_string(at("b.csv")).unwrap().lines().count(), 1 + 4);
        assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    }
}
