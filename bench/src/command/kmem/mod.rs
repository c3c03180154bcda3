//! `bench kmem`.

mod args;
mod setup;

use std::process::ExitCode;

use serde::Serialize;
use woodlot_kmem::{Octaves, Quarters};

use crate::Failure;
use crate::kmem::{
    self, Checked, Child, Contender, Contenders, FLUSH, LOOPS, Libraries, MOST_CPUS, OneBlock,
    Setup, What, alone, answer, curves, describe, describe_counts, describe_curves,
    describe_emptied, describe_locks, describe_purity, describe_transfers, describe_waste,
    document, emptied, lock_manager, make_pairs, preload, purity, transfers, waste,
};
use crate::output::{Machine, Screen, check_writable, progress, write_files};

pub use args::{KmemArgs, KmemPairsArgs, KmemSampleArgs};
use setup::{describe_setup, setup, setup_of};

/// Makes pairs, for callgrind.
///
/// # Errors
/// There is no memory.
pub fn kmem_pairs(args: &KmemPairsArgs) -> Result<ExitCode, Failure> {
    let size = (args.bytes, args.interface);
    let make = |contender| make_pairs(contender, size, args.pairs);
    match args.bare {
        true => make(&OneBlock)?,
        false => args.engine.0.iter().try_for_each(|&contender| make(contender))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a case for the process that has started this one.
///
/// # Errors
/// It asks for what there is not, or there is no memory.
pub fn kmem_sample(args: &KmemSampleArgs) -> Result<ExitCode, Failure> {
    let said = answer(&args.ask)?;
    Screen::default().print(&said)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures heaps.
///
/// # Errors
/// When the arguments make no sense together, or nothing could be measured.
pub fn kmem(args: &KmemArgs) -> Result<ExitCode, Failure> {
    let (mut screen, setup) = (Screen::default(), setup(args)?);
    check_writable(args.json.as_deref())?;
    let machine = Machine::here();
    let (contenders, libraries) = who(args)?;
    screen.print(&machine.describe())?;
    screen.print(&describe_setup(args, &setup, &contenders, libraries))?;
    let run = Run { args, setup: &setup, machine: &machine };
    if args.what == What::Check {
        return run.check(&contenders, libraries, &mut screen);
    }
    let (text, bytes) = run.results(&contenders, libraries)?;
    screen.print(&text)?;
    write(args, bytes, &mut screen)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the file, if one was named.
fn write(args: &KmemArgs, bytes: Vec<u8>, screen: &mut Screen) -> Result<(), Failure> {
    let Some(path) = &args.json else { return Ok(()) };
    write_files(&[(path.clone(), bytes)])?;
    screen.print(&format!("wrote {}\n", path.display()))
}

/// Who is measured: heaps of this program, and libraries, which stay until it ends.
fn who(args: &KmemArgs) -> Result<(Contenders, &'static Libraries), Failure> {
    let named = || match &args.library {
        Some(libraries) => Ok(libraries.clone()),
        None => "all".parse().map_err(Failure::Failed),
    };
    let none = Contenders(Vec::new());
    let (contenders, libraries) = match args.what {
        What::Preload => (none, named()?),
        What::Memory | What::Returned | What::Check => (args.contenders(), named()?),
        What::LockManager | What::Waste | What::Purity | What::Transfers | What::Emptied => {
            (none, Libraries::default())
        }
        _ => (args.contenders(), Libraries::default()),
    };
    Ok((contenders, Box::leak(Box::new(libraries))))
}

/// What is done.
struct Run<'a> {
    args: &'a KmemArgs,
    setup: &'a Setup,
    machine: &'a Machine,
}

impl Run<'_> {
    /// As text, and as JSON.
    fn results(
        &self,
        contenders: &Contenders,
        libraries: &'static Libraries,
    ) -> Result<(String, Vec<u8>), Failure> {
        let setup = self.setup;
        match self.args.what {
            What::LockManager => self.locks(),
            What::Waste => {
                let rows = [
                    ("powers of two", waste::<Octaves>(setup)?),
                    ("four sizes an octave", waste::<Quarters>(setup)?),
                ];
                self.with(
                    rows.iter().map(|(sizes, rows)| describe_waste(sizes, rows)).collect(),
                    &rows,
                )
            }
            What::Purity => {
                let rows = purity(setup)?;
                self.with(describe_purity(&rows), &rows)
            }
            What::Transfers => {
                let rows = transfers(setup)?;
                self.with(describe_transfers(&rows), &rows)
            }
            What::Instructions => {
                let counts = kmem::counts(contenders, &setup.bytes);
                self.with(describe_counts(&counts)?, &counts)
            }
            What::Emptied => {
                let found = emptied(setup)?;
                self.with(describe_emptied(&found), &found)
            }
            What::Memory => self.memory(contenders, libraries),
            What::Preload => self.preload(libraries),
            What::Returned => {
                let children: &'static Vec<Child> =
                    Box::leak(Box::new(alone(contenders, libraries)));
                let children = children.iter().map(|child| child as &dyn Contender).collect();
                self.timed(What::Returned, &Contenders(children))
            }
            what => self.timed(what, contenders),
        }
    }

    fn timed(&self, what: What, contenders: &Contenders) -> Result<(String, Vec<u8>), Failure> {
        let steps = self.setup.cases(what).len() * contenders.0.len();
        let kept = self.measured(steps, |step| {
            kmem::measure(what, contenders, (self.setup, self.repetitions()), step)
        })?;
        self.with(describe(&kept), &kept)
    }

    /// Holds every target against what is measured.
    fn check(
        &self,
        contenders: &Contenders,
        libraries: &'static Libraries,
        screen: &mut Screen,
    ) -> Result<ExitCode, Failure> {
        let targets = kmem::load(self.args.targets.as_deref(), self.args.only.as_deref())?;
        let setup = |what| setup_of(what, self.args);
        let cpus = self.machine.cpus().min(MOST_CPUS);
        let repetitions = self.repetitions();
        let checked = Checked { contenders, libraries, setup: &setup, repetitions, cpus };
        let (judged, code) = kmem::check(&targets, &checked, screen)?;
        write(self.args, document(What::Check, self.setup, self.machine, &judged)?, screen)?;
        Ok(code)
    }

    fn repetitions(&self) -> usize {
        self.args.repetitions as usize
    }

    fn with(&self, text: String, results: &impl Serialize) -> Result<(String, Vec<u8>), Failure> {
        Ok((text, document(self.args.what, self.setup, self.machine, results)?))
    }

    /// With a bar of so many steps for each repetition.
    fn measured<T>(&self, steps: usize, measure: impl FnOnce(&dyn Fn()) -> T) -> T {
        let bar = progress("kmem", (self.repetitions() + 1) * steps);
        let found = measure(&|| bar.inc(1));
        bar.finish_and_clear();
        found
    }

    fn locks(&self) -> Result<(String, Vec<u8>), Failure> {
        let threads = self.setup.threads.last().copied().unwrap_or(1);
        let rows = [None, Some(FLUSH)].map(|every| {
            let rows = lock_manager::<Octaves>(threads, self.setup, every)?;
            Ok((every, rows))
        });
        let rows = rows.into_iter().collect::<Result<Vec<_>, Failure>>()?;
        let text = rows.iter().map(|(every, rows)| {
            let flushed = every.map_or("caches are not flushed".into(), |every| {
                format!("\ncaches are flushed every {every} transactions")
            });
            format!("{flushed}\n{}", describe_locks(rows))
        });
        self.with(text.collect(), &rows)
    }

    fn memory(
        &self,
        contenders: &Contenders,
        libraries: &Libraries,
    ) -> Result<(String, Vec<u8>), Failure> {
        let bar = progress("memory", contenders.0.len() + libraries.found.len());
        let (curves, failures) = curves(contenders, libraries, self.setup, &|| bar.inc(1));
        bar.finish_and_clear();
        match curves.is_empty() {
            true => Err(Failure::Failed(format!("nothing was measured: {}", failures.join("; ")))),
            false => self.with(describe_curves(&curves, &failures), &curves),
        }
    }

    fn preload(&self, libraries: &'static Libraries) -> Result<(String, Vec<u8>), Failure> {
        let setup = |what| setup_of(what, self.args);
        let cases: usize = LOOPS.iter().map(|&what| setup(what).cases(what).len()).sum();
        let looped = self.measured(cases * libraries.found.len(), |step| {
            preload(libraries, (&setup, self.repetitions()), step)
        })?;
        let text = looped.iter().map(|one| format!("{}\n{}\n", one.what, describe(&one.kept)));
        self.with(text.collect(), &looped)
    }
}
