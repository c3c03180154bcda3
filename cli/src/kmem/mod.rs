//! `woodlot kmem`: heaps of this allocator in programs that run.
//!
//! ```text
//!   process (maps, memory) ─► notes of programs and libraries ─► heaps of woodlot-malloc ─► table or JSON
//! ```
//!
//! The process goes on meanwhile, and does not know of it.

mod notes;
mod process;

use clap::{Args, Subcommand};
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;
use woodlot_malloc::outside::{LookError, Snapshot, look};

use process::Process;

/// What can be asked of a heap.
#[derive(Subcommand, Debug)]
pub enum KmemCommand {
    /// Print what the heap of a running program has, and what its layers have done
    #[command(after_help = STAT)]
    Stat(StatArgs),
}

const STAT: &str = "\
The program has libwoodlot_malloc.so preloaded, or woodlot-malloc as its global allocator. Its memory is read as a debugger
reads it, which takes the same user and no kernel.yama.ptrace_scope, or root. It is not stopped and waits for nothing; so
what is printed of each size is true of about one moment.

A miss is a list of blocks that a layer had to ask of the layer below, or to give to it. A hit is what it could do itself. Hits
of the caches are counted by a library that was built with --features counted, and else not, as that would cost as much as
they do. The global layer was asked as often as the caches missed, and slabs as often as the global layer missed. A program
that was started with WOODLOT_MALLOC_STATS=text or json prints the same when it ends.";

/// Which program.
#[derive(Args, Debug)]
pub struct StatArgs {
    /// The number of the process
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// Print JSON, on one line
    #[arg(long)]
    json: bool,
}

/// Does what was asked.
///
/// # Errors
/// There is no such process, its memory cannot be read, or it has no heap that this program knows.
pub fn kmem_command(command: &KmemCommand, screen: &mut Screen) -> Result<(), Failure> {
    let KmemCommand::Stat(StatArgs { pid, json }) = command;
    let process = Process::open(*pid)?;
    let heaps = heaps(&process)?;
    screen.print(&if *json {
        let heaps: Vec<_> = heaps.iter().map(|heap| heap.json().to_string()).collect();
        format!("{{\"pid\":{pid},\"heaps\":[{}]}}\n", heaps.join(","))
    } else {
        heaps.iter().map(|heap| format!("{}: {heap}", process.name())).collect()
    })
}

/// The heaps of a process: usually one; two, if a program has one of its own and the library preloaded.
fn heaps(process: &Process) -> Result<Vec<Snapshot>, Failure> {
    let pages = notes::pages(process)?;
    let heaps = pages.into_iter().map(|page| look(process, page));
    // What looks like a note in a file that is mapped leads nowhere.
    let known = heaps.filter(|heap| !matches!(heap, Err(LookError::NotAHeap)));
    let known: Result<Vec<_>, _> = known.collect();
    let known = known.map_err(|cause| match cause {
        LookError::Read(cause) => process.cannot_be_read(&cause),
        cause => process.failed(cause),
    })?;
    if known.is_empty() {
        return Err(process.failed(
            "has no heap of woodlot-malloc: it was not started with LD_PRELOAD=libwoodlot_malloc.so",
        ));
    }
    Ok(known)
}
