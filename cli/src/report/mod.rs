//! `woodlot report`: the papers' figures, redrawn on this machine.
//!
//! ```text
//!   suite ──► data ──┬─► figures ──► section ─────┐
//!   (measures)       ├─► facts ──► claims, beside ┼─► page (HTML)
//!                    └─► files (JSON, CSV)        └─► figure-*.svg
//!                        compare (two report.json)
//! ```
//!
//! Above all of them stand `scope` (who is compared, at what), `words` (numbers as people read them) and
//! `papers` (what the papers give). What was measured in a kernel (`kernel`) is a part of the data, and so is
//! what was measured of heaps (`heaps`), which has figures and claims of its own; what
//! real load does (`load`) has figures of its own (`loaded`).

mod beside;
mod claims;
mod compare;
mod data;
mod facts;
mod figures;
mod files;
mod freebsd;
mod heaps;
mod kernel;
mod load;
mod loaded;
mod page;
mod papers;
mod scope;
mod section;
mod suite;
mod survived;
#[cfg(test)]
mod tests;
mod words;

use std::path::PathBuf;

use clap::Args;
use clap::builder::PathBufValueParser;
use woodlot_bench::Failure;
use woodlot_bench::output::{OutDir, Screen, replace_files};

use data::{Data, Form};

/// What to report.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Where the page and its data go; made if it is not there. docs/csv.md in the repository has
    /// the columns of the data
    #[arg(long, value_name = "DIR", default_value = "woodlot-report", value_parser = PathBufValueParser::new())]
    out: PathBuf,
    /// Few repetitions on small zones: five minutes
    #[arg(long, conflicts_with = "smoke")]
    quick: bool,
    /// Draw everything from a handful of operations, to see that it can be drawn; the times mean
    /// nothing
    #[arg(long)]
    smoke: bool,
    /// Draw the page from a report.json again instead of measuring
    #[arg(long, value_name = "JSON", conflicts_with_all = ["quick", "smoke"], value_parser = PathBufValueParser::new())]
    from: Option<PathBuf>,
    /// Add what was measured inside a kernel: a CSV file of linux/run bench (the boots joined) or
    /// of linux/run frag; again for each file
    #[arg(long, value_name = "CSV", value_parser = PathBufValueParser::new())]
    kernel: Vec<PathBuf>,
    /// Compare two runs instead of measuring
    #[arg(long, num_args = 2, value_names = ["A.json", "B.json"], conflicts_with_all = ["quick", "smoke", "from", "out", "kernel"], value_parser = PathBufValueParser::new())]
    compare: Option<Vec<PathBuf>>,
}

/// Reports.
///
/// # Errors
/// What cannot be read or written.
pub fn report(args: &ReportArgs, screen: &mut Screen) -> Result<(), Failure> {
    if let Some([a, b]) = args.compare.as_deref() {
        let (a, b) = (Data::read(a)?, Data::read(b)?);
        return screen.print(&compare::compare(&a, &b));
    }
    let data = args.from.as_deref().map(Data::read).transpose()?;
    let mut kernel = data.as_ref().map(|data| data.kernel.clone()).unwrap_or_default();
    args.kernel.iter().try_for_each(|path| kernel.join(path))?;
    let out = OutDir::prepare(&args.out)?;
    let room = files::check(out.path(), &kernel)?;
    let data = match data {
        Some(data) => data,
        None => suite::run(args.form())?,
    };
    let data = Data { kernel, ..data };
    let written = files::files(&data, out.path())?;
    drop(room);
    replace_files(&written, &files::earlier(out.path()))?;
    let page = out.path().join(files::PAGE);
    screen.print(&format!("wrote {} and {} files beside it\n", page.display(), written.len() - 1))
}

impl ReportArgs {
    fn form(&self) -> Form {
        match (self.smoke, self.quick) {
            (true, _) => Form::Smoke,
            (false, true) => Form::Quick,
            (false, false) => Form::Full,
        }
    }
}
