//! `woodlot top`: a zone file that is in use, live.
//!
//! ```text
//!   look (a zone file, read alone) ──► figures (counts, rates, history) ──┬─► screen, again and again
//!                                                                       └─► words, once
//! ```
//!
//! Nothing is written to the zone, and nobody who uses it is waited for.

mod figures;
mod look;
mod screen;
mod words;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PathBufValueParser;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;

use crate::stop;
use figures::Figures;
use look::ZoneFile;

pub use words::table;

/// What to watch.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// The zone file; somebody must have the zone in use
    #[arg(value_parser = PathBufValueParser::new())]
    file: PathBuf,
    /// Look once and print it; so it is done where there is no terminal. Rates need two looks, an interval apart
    #[arg(long)]
    once: bool,
    /// Seconds from one look to the next
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("a number of seconds from 0.05 to 3600".into())
}

/// How long a key may wait.
const PATIENCE: Duration = Duration::from_millis(100);

/// Watches.
///
/// # Errors
/// When the file cannot be read, holds no zone, or nobody has it in use, at the beginning or later on.
pub fn top(args: &TopArgs, screen: &mut Screen) -> Result<(), Failure> {
    let file = ZoneFile::open(&args.file)?;
    let mut figures = Figures::new(file.name(), file.first()?, Instant::now());
    if args.once || !io::stdout().is_terminal() {
        std::thread::sleep(args.interval);
        figures.add(file.first()?, Instant::now());
        return screen.print(&words::text(&figures));
    }
    stop::listen();
    let failed = |cause: io::Error| Failure::Failed(format!("the terminal: {cause}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let watched = watch(&mut terminal, &file, &mut figures, args.interval);
    ratatui::try_restore().map_err(failed)?;
    watched
}

fn watch(
    terminal: &mut DefaultTerminal,
    file: &ZoneFile,
    figures: &mut Figures,
    interval: Duration,
) -> Result<(), Failure> {
    let failed = |cause: io::Error| Failure::Failed(format!("the terminal: {cause}"));
    loop {
        let next = Instant::now() + interval;
        terminal.draw(|frame| screen::draw(frame, figures)).map_err(failed)?;
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            let wait = left.min(PATIENCE);
            if event::poll(wait).map_err(failed)? {
                match event::read().map_err(failed)? {
                    event if quits(&event) => return Ok(()),
                    // A window of another size is drawn at once.
                    Event::Resize(..) => {
                        terminal.draw(|frame| screen::draw(frame, figures)).map_err(failed)?;
                    }
                    _ => {}
                }
            }
            if stop::asked() {
                return Ok(());
            }
        }
        if let Some(look) = file.look()? {
            figures.add(look, Instant::now());
        }
    }
}

fn quits(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    let leave = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind == KeyEventKind::Press && (leave || control_c)
}
