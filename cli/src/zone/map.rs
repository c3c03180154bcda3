//! `woodlot zone map`: the huge frames of a zone, in the terminal or as a picture.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PathBufValueParser;
use ratatui::crossterm::terminal;
use woodlot_bench::Failure;
use woodlot_bench::output::{Screen, replace_files};
use woodlot_frame::{Base4K, Base16K, Base64K, Geometry};
use woodlot_zone::{HugeView, Info, Memory, view};

use super::cells::{Counts, Grid};
use super::drawn::{self, Ink};
use super::file::{Access, Mapped};
use super::words::in_units;
use crate::output::png;

/// What to draw.
#[derive(Args, Debug)]
pub struct MapArgs {
    /// The zone file
    #[arg(value_parser = PathBufValueParser::new())]
    file: PathBuf,
    /// Draw a picture instead, a cell for each huge frame: a .png or .svg file
    #[arg(long, value_name = "FILE", value_parser = picture)]
    out: Option<PathBuf>,
}

/// A file that can be drawn to.
fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let known = path.extension().is_some_and(|kind| kind == "png" || kind == "svg");
    if known { Ok(path) } else { Err("a file whose name ends in .png or .svg".into()) }
}

/// The lines that a map in the terminal has at most.
const LINES: usize = 32;
/// Columns where there is no terminal that says how many it has.
const COLUMNS: usize = 80;

pub fn map(args: &MapArgs, screen: &mut Screen) -> Result<(), Failure> {
    let mapped = Mapped::open(&args.file, Access::Watch)?;
    let (info, huge) = seen(&mapped, &args.file)?;
    let said = headline(&args.file, &info, huge.len());
    let counts = Counts::of(&huge);
    let Some(out) = &args.out else {
        let ink = ink();
        let columns = terminal_columns().saturating_sub(drawn::MARGIN).max(8);
        let grid = Grid::of(&huge, columns, LINES * ink.rows_in_a_line());
        return screen.print(&format!("{said}\n{}", drawn::text(&grid, &huge, &counts, ink)));
    };
    let svg = drawn::svg(&said, &huge, &counts);
    let bytes = match out.extension().is_some_and(|kind| kind == "png") {
        true => png::render(&svg).map_err(Failure::Failed)?,
        false => svg.into_bytes(),
    };
    replace_files(&[(out.clone(), bytes)], &[])?;
    screen.print(&format!("{said}\nwrote {}\n", out.display()))
}

/// What the zone page says, and every huge frame.
pub fn seen(mapped: &Mapped, path: &Path) -> Result<(Info, Vec<HugeView>), Failure> {
    let memory = mapped.memory(path)?;
    let seen = Info::read(memory).and_then(|info| match info.base_shift as u32 {
        Base16K::BASE_SHIFT => seen_as::<Base16K>(memory),
        Base64K::BASE_SHIFT => seen_as::<Base64K>(memory),
        _ => seen_as::<Base4K>(memory),
    });
    mapped.whole(path, seen.map_err(|cause| Failure::at(path, cause)))
}

fn seen_as<G: Geometry>(
    memory: Memory<'_>,
) -> Result<(Info, Vec<HugeView>), woodlot_zone::ZoneError> {
    // SAFETY: a zone that is there is formatted by nobody, and the memory stays for as long as it is borrowed.
    let (info, view) = unsafe { view::<G>(memory) }?;
    Ok((info, view.huge_frames().collect()))
}

fn headline(path: &Path, info: &Info, huge: usize) -> String {
    let of = in_units(1u64.checked_shl((info.base_shift + info.huge_order) as u32).unwrap_or(0));
    let phase = info.phase.map_or("damaged".into(), |phase| phase.to_string());
    format!("{}: {huge} huge frames of {of}; the zone is {phase}", path.display())
}

/// Colours where somebody sees them who has not said that none are wanted.
fn ink() -> Ink {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !unwanted { Ink::Colours } else { Ink::Plain }
}

fn terminal_columns() -> usize {
    let seen = io::stdout().is_terminal().then(|| terminal::size().ok()).flatten();
    seen.map_or(COLUMNS, |(columns, _)| columns.into())
}
