//! The jobs: replaying what ships or what is named, converting and inspecting traces.

use std::path::{Path, PathBuf};

use woodlot_bench::Failure;
use woodlot_bench::output::{OutDir, Screen, note, progress, write_files};
use woodlot_frame::{Base4K, Construct, FrameAllocator};
use woodlot_trace::{Sources, Trace, load, shipped, write_binary};

use crate::args::{Lists, ReplayArgs, TraceCommand};
use crate::engine::OnEngine;
use crate::output::{Phase, describe_phase, describe_trace, write_all};
use crate::replay::{Options, Plan, Report, ZoneLayout, replay};

/// The main job: the traces that ship.
pub fn replay_shipped(args: &ReplayArgs, screen: &mut Screen) -> Result<(), Failure> {
    let traces =
        shipped().into_iter().map(|shipped| Ok((readable(shipped.trace())?, Some(shipped.about))));
    replay_all(traces, args, screen)
}

/// The traces named.
pub fn replay_files(
    files: &[PathBuf],
    lists: Lists,
    args: &ReplayArgs,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let sources = sources(lists);
    let traces = files.iter().map(|file| Ok((load_with_notes(file, &sources)?, None)));
    replay_all(traces, args, screen)
}

fn sources(lists: Lists) -> Sources {
    let Lists { start_owned, hidden_owned, curve } = lists;
    Sources { start_owned, hidden_owned, curve }
}

/// What is wrong with a trace is a failure of the program.
fn readable<T>(trace: woodlot_trace::Result<T>) -> Result<T, Failure> {
    trace.map_err(|error| Failure::Failed(error.to_string()))
}

fn load_with_notes(file: &Path, sources: &Sources) -> Result<Trace, Failure> {
    let loaded = readable(load(file, sources))?;
    loaded.notes.iter().for_each(|text| note(text));
    Ok(loaded.trace)
}

type Named = (Trace, Option<&'static str>);

fn replay_all(
    traces: impl Iterator<Item = Result<Named, Failure>>,
    args: &ReplayArgs,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let out = OutDir::prepare(&args.out)?;
    screen.print(&format!("zones: {}\n\n", zones_in_words(args.zones)))?;
    let mut phases = Vec::new();
    for named in traces {
        let (trace, about) = named?;
        let report = replay_one(&trace, args)?;
        let phase = Phase { name: trace.name, about, report };
        screen.print(&format!("{}\n", describe_phase(&phase)))?;
        phases.push(phase);
    }
    for path in write_all(out.path(), &phases, zones_in_words(args.zones))? {
        screen.print(&format!("wrote {}\n", path.display()))?;
    }
    let failed = phases.iter().filter(|phase| !phase.report.defects().is_empty());
    match failed.map(|phase| phase.name.as_str()).collect::<Vec<_>>()[..] {
        [] => Ok(()),
        ref names => Err(Failure::Failed(format!("checks failed: {}", names.join(", ")))),
    }
}

fn zones_in_words(layout: ZoneLayout) -> &'static str {
    match layout {
        ZoneLayout::One => "one over all frames",
        ZoneLayout::Linux => "one for each of Linux's zones",
    }
}

fn replay_one(trace: &Trace, args: &ReplayArgs) -> Result<Report, Failure> {
    let plan = Plan::new(trace, args.zones, args.every as usize);
    let bar = progress(&trace.name, plan.steps.len());
    let options = Options { threads: args.threads, rounds: args.rounds };
    let report = args.engine.run(Work {
        plan: &plan,
        options,
        progress: &|done| bar.set_position(done as u64),
    });
    bar.finish_and_clear();
    report.map_err(|error| Failure::Failed(format!("{}: {error}", trace.name)))
}

struct Work<'a> {
    plan: &'a Plan,
    options: Options,
    progress: &'a (dyn Fn(usize) + Sync),
}

impl OnEngine for Work<'_> {
    type Output = Result<Report, woodlot_frame::InitError>;

    fn on<A: Construct + FrameAllocator<Geometry = Base4K>>(self) -> Self::Output {
        replay::<A>(self.plan, self.options, self.progress)
    }
}

/// Converting and inspecting.
pub fn trace_command(command: TraceCommand, screen: &mut Screen) -> Result<(), Failure> {
    match command {
        TraceCommand::Convert { from, to, name, lists } => {
            let mut trace = load_with_notes(&from, &sources(lists))?;
            trace.name = name.unwrap_or(trace.name);
            if to.canonicalize().is_ok_and(|to| from.canonicalize().is_ok_and(|from| from == to)) {
                return Err(Failure::Usage(format!("{}: is what is read", to.display())));
            }
            let bytes = write_binary(&trace).map_err(|cause| Failure::at(&to, cause))?;
            let (events, len) = (trace.events.len(), bytes.len());
            write_files(&[(to.clone(), bytes)])?;
            screen.print(&format!("wrote {}: {events} events in {len} bytes\n", to.display()))
        }
        TraceCommand::Info { file, lists } => {
            let trace = load_with_notes(&file, &sources(lists))?;
            screen.print(&describe_trace(&trace))
        }
    }
}
