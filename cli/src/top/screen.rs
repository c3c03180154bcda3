//! The figures on a terminal.
//!
//! ```text
//!   name, size, how to leave
//!   ┌ free memory ─────┐┌ free huge frames ─┐
//!   └──────────────────┘└───────────────────┘
//!   ┌ classes ─────────┐┌ slots ────────────┐
//!   └──────────────────┘└───────────────────┘
//!   ┌ resident ────────┐┌ processes ────────┐   of a shared pool
//!   └──────────────────┘└───────────────────┘
//!   compaction: the index, and whether it is at work
//!   ┌ huge frames ─────────────────────────┐
//!   └──────────────────────────────────────┘
//! ```

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

use super::figures::Figures;
use super::look::Shared;
use super::words;
use crate::zone::cells::{Counts, Grid, Shade};
use crate::zone::drawn;

/// Lines of a curve with its frame.
const CURVE: u16 = 6;
/// Slots and processes that are shown at most, and the lines of a table beside its rows.
const SLOTS: usize = 8;
const PROCESSES: usize = 4;
const AROUND: u16 = 3;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, figures: &Figures) {
    let (classes, slots) = (figures.classes(), figures.slots());
    let rows = classes.len().max(slots.len().min(SLOTS)) as u16;
    let pool = figures.look.pool.as_ref();
    let shared = pool.map_or(0, |pool| pool.seen.processes.len().min(PROCESSES) as u16 + AROUND);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(CURVE),
        Constraint::Length(rows + AROUND),
        Constraint::Length(shared),
        Constraint::Length(1),
        Constraint::Min(3),
    ];
    let [title, curves, tables, sharing, compaction, map] =
        Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Line::from(words::title(figures)).bold(), title);
    frame.render_widget(Line::from("q quits").alignment(Alignment::Right), title);

    let [left, right] = halves(curves);
    let [frames, huge] = words::free(figures);
    let most = figures.look.info.config.frames as u64;
    curve(frame, left, frames, figures.free_frames(), most, Color::Green);
    curve(frame, right, huge, figures.free_huge(), figures.look.huge.len() as u64, Color::Blue);

    let [left, right] = halves(tables);
    let rows = classes.iter().map(words::class_row);
    table(frame, left, "classes", words::CLASS_HEADINGS, rows);
    let hidden = slots.len().saturating_sub(SLOTS);
    let name = match hidden {
        0 => "slots in use".into(),
        more => format!("slots in use, and {more} more"),
    };
    table(frame, right, &name, words::SLOT_HEADINGS, slots.iter().take(SLOTS).map(words::slot_row));
    if let Some(pool) = pool {
        draw_pool(frame, sharing, figures, pool);
    }
    frame.render_widget(Line::from(words::compaction(figures)), compaction);
    draw_map(frame, map, figures);
}

fn halves(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area)
}

fn draw_pool(frame: &mut Frame<'_>, area: Rect, figures: &Figures, pool: &Shared) {
    let [left, right] = halves(area);
    let part = pool.seen.resident as f64 / pool.cap.max(1) as f64;
    let gauge = Gauge::default()
        .block(Block::bordered().title(words::resident(pool)))
        .gauge_style(Style::new().fg(Color::Green))
        .ratio(part.clamp(0.0, 1.0));
    frame.render_widget(gauge, left);
    let rows = figures.processes();
    let rows = rows.iter().take(PROCESSES).map(words::process_row);
    table(frame, right, &words::processes(pool), words::PROCESS_HEADINGS, rows);
}

fn curve(frame: &mut Frame<'_>, area: Rect, name: String, data: Vec<u64>, most: u64, color: Color) {
    let block = Block::bordered().title(name);
    // The latest is at the right.
    let line = Sparkline::default()
        .block(block)
        .data(data)
        .max(most.max(1))
        .direction(ratatui::widgets::RenderDirection::RightToLeft)
        .style(Style::new().fg(color));
    frame.render_widget(line, area);
}

fn table<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    name: &str,
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let rows: Vec<[String; N]> = rows.collect();
    let longest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0) as u16
    };
    let widths: [Constraint; N] = std::array::from_fn(|column| Constraint::Length(longest(column)));
    let right = |cell: String| Text::from(cell).alignment(Alignment::Right);
    let cells = |row: [String; N]| Row::new(row.map(right));
    let table = Table::new(rows.into_iter().map(cells), widths)
        .flex(Flex::SpaceBetween)
        .header(cells(headings.map(String::from)).dim())
        .block(Block::bordered().title(name.to_string()));
    frame.render_widget(table, area);
}

fn draw_map(frame: &mut Frame<'_>, area: Rect, figures: &Figures) {
    let huge = &figures.look.huge;
    let [columns, lines] =
        [area.width, area.height].map(|side| usize::from(side.saturating_sub(2)));
    let grid = Grid::of(huge, columns, 2 * lines.max(1));
    let color = |shade: &Shade| Color::Indexed(shade.indexed());
    let line = |rows: &[Vec<Shade>]| {
        let lower = rows.get(1);
        let cell = |(at, upper): (usize, &Shade)| {
            let style = Style::new().fg(color(upper));
            let below = lower.and_then(|row| row.get(at));
            Span::styled("▀", below.map_or(style, |below| style.bg(color(below))))
        };
        rows.iter().take(1).flatten().enumerate().map(cell).collect::<Line<'_>>()
    };
    let lines: Vec<Line<'_>> = grid.rows.chunks(2).map(line).collect();
    let title = format!("huge frames, {} in a cell", grid.group);
    let mut legend = Vec::new();
    for (shade, what) in drawn::legend(&Counts::of(huge)) {
        legend.push(Span::styled("█", Style::new().fg(color(&shade))));
        legend.push(Span::raw(format!(" {what}  ")));
    }
    let block = Block::bordered().title(title).title_bottom(Line::from(legend));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::figures::tests::{seen, seen_pool};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(figures: &Figures, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, figures)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        (0..height).map(line).collect()
    }

    #[test]
    fn every_figure_has_its_place() {
        let lines = drawn(&seen(&[[1000, 0], [512, 8]]), 100, 30);
        let has = |words: &str| lines.iter().any(|line| line.contains(words));
        assert!(lines[0].starts_with("a.zone: 1 GiB, 2 slots") && lines[0].ends_with("q quits"));
        for words in ["free memory 0.99 GiB of 1.00 GiB", "free huge frames 508 of 512", "movable"]
        {
            assert!(has(words), "{words}: {lines:#?}");
        }
        assert!(has("huge frames, 1 in a cell") && has("█ 508 free"), "{lines:#?}");
        assert!(has("compaction: FMFI ") && has("no huge frame is being emptied"), "{lines:#?}");
        let cells: usize = lines.iter().map(|line| line.matches('▀').count()).sum();
        assert_eq!(cells, 256, "two huge frames in each");
    }

    #[test]
    fn a_shared_pool_has_its_place() {
        let lines = drawn(&seen_pool(1, 4), 100, 30);
        let line = |words: &str| lines.iter().position(|line| line.contains(words));
        let place = line("resident 8 MiB of at most 16 MiB").expect("what is resident");
        assert!(lines[place].contains("processes: 1 alive"), "{lines:#?}");
        assert!(lines[place + 1].ends_with("MiB/s│"), "{lines:#?}");
        assert!(lines[place + 2].contains("50%") || lines[place + 1].contains("50%"), "{lines:#?}");
        let me = std::process::id().to_string();
        assert!(
            lines[place + 2].contains(&me) && lines[place + 2].ends_with("+6.00│"),
            "{lines:#?}"
        );
        assert!(line("huge frames, 1 in a cell") > Some(place), "the map is below");
    }

    #[test]
    fn a_small_terminal_shows_what_it_can() {
        for figures in [seen(&[[1000, 0]]), seen_pool(1, 1)] {
            for (width, height) in [(1, 1), (20, 5), (40, 12), (300, 100)] {
                assert_eq!(drawn(&figures, width, height).len(), usize::from(height));
            }
        }
    }
}
