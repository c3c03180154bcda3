//! The jobs: replaying what ships or what is named, converting and inspecting traces.

use std::path::{Path, PathBuf};

use woodlot_bench::Failure;
use woodlot_bench::contender::Contender;
use woodlot_bench::engine::{Engine, Visit};
use woodlot_bench::output::{OutDir, Screen, note, progress, write_files};
use woodlot_frame::{Base4K, Construct, FrameAllocator, Order};
use woodlot_trace::{Sources, Trace, load, shipped, write_binary};

use crate::args::{Lists, ReplayArgs, TraceCommand};
use crate::output::{Phase, describe_phase, describe_trace, write_all};
use crate::replay::{Options, Plan, Report, Thrift, ZoneLayout, replay};

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
        let runs = replay_one(&trace, args)?;
        let phase = Phase { name: trace.name, about, runs };
        screen.print(&format!("{}\n", describe_phase(&phase)))?;
        phases.push(phase);
    }
    for path in write_all(out.path(), &phases, zones_in_words(args.zones))? {
        screen.print(&format!("wrote {}\n", path.display()))?;
    }
    let runs = phases.iter().flat_map(|phase| phase.runs.iter().map(move |run| (phase, run)));
    let failed = runs.filter(|(_, (_, report))| !report.defects().is_empty());
    let failed = failed.map(|(phase, (_, report))| format!("{} ({})", phase.name, report.engine));
    match failed.collect::<Vec<_>>()[..] {
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

/// A trace on each of the engines; one that cannot manage such zones is noted, unless there is no other.
fn replay_one(trace: &Trace, args: &ReplayArgs) -> Result<Vec<(Engine, Report)>, Failure> {
    let mut plan = Plan::new(trace, args.zones, args.every as usize);
    // The daemon's.
    plan.slots += usize::from(args.compact);
    let plan = plan;
    let mut runs = Vec::new();
    let mut failed = Ok(());
    for &engine in &args.engine.0 {
        let bar =
            progress(&format!("{}, {engine}", trace.name), plan.steps.len() * args.starts as usize);
        let base_frames = !engine.serves(Order(1));
        let (threads, rounds, starts) = (args.threads, args.rounds, args.starts);
        let thrift = Thrift { gain: args.gain.into(), price: args.price.into() };
        let compact = args.compact.then_some(thrift);
        let options = Options { threads, compact, rounds, starts, base_frames };
        let progress: &(dyn Fn(usize) + Sync) = &|done| bar.set_position(done as u64);
        let report = engine.visit(Order::BASE, Work { plan: &plan, options, progress }).flatten();
        bar.finish_and_clear();
        match report.unwrap_or_else(|| Err("it cannot replay a trace".into())) {
            Ok(report) => runs.push((engine, report)),
            Err(why) => {
                let why = format!("{}: {engine}: {why}", trace.name);
                note(&why);
                failed = Err(Failure::Failed(why));
            }
        }
    }
    if runs.is_empty() { failed.map(|()| runs) } else { Ok(runs) }
}

struct Work<'a> {
    plan: &'a Plan,
    options: Options,
    progress: &'a (dyn Fn(usize) + Sync),
}

impl Visit for Work<'_> {
    /// `None` for an allocator that does not keep the contract.
    type Output = Option<Result<Report, String>>;

    fn contract<A>(self) -> Self::Output
    where
        A: Construct + FrameAllocator<Geometry = Base4K> + Send + 'static,
    {
        if self.options.compact.is_some()
            && (A::UNSUPPORTED.isolation || A::UNSUPPORTED.partial_free)
        {
            return Some(Err(
                "it cannot isolate huge frames, so that nothing can be compacted".into()
            ));
        }
        let report = replay::<A>(self.plan, self.options, self.progress);
        Some(report.map_err(|error| error.to_string()))
    }

    fn foreign<C: Contender + 'static>(self) -> Self::Output {
        None
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
