//! A map of huge frames in characters, and as a picture.
//!
//! ```text
//!   in characters      frame │ ..37#9x          of colours: ▀, an upper cell and a lower one
//!   as a picture       SVG: a path for each shade, so that 65536 cells are a small file
//! ```

use std::fmt::Write;

use maud::{PreEscaped, html};
use woodlot_bench::chart::FONT;
use woodlot_frame::HugeId;
use woodlot_zone::HugeView;

use super::cells::{Counts, Grid, Shade};

/// What a map in the terminal is drawn with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// A character for each cell.
    Plain,
    /// Half of a character for each cell, in one of the terminal's 256 colours.
    Colours,
}

impl Ink {
    /// How many rows of cells a line shows.
    pub fn rows_in_a_line(self) -> usize {
        match self {
            Ink::Plain => 1,
            Ink::Colours => 2,
        }
    }
}

impl Shade {
    /// As a character.
    fn character(self) -> char {
        match self {
            Shade::Free => '.',
            Shade::Split(tenths) => char::from(b'0' + tenths),
            Shade::Whole => '#',
            Shade::Offline => 'x',
        }
    }

    /// As one of a terminal's 256 colours.
    pub fn indexed(self) -> u8 {
        const SPLIT: [u8; Shade::TENTHS as usize] =
            [230, 229, 228, 222, 221, 215, 214, 208, 202, 166];
        match self {
            Shade::Free => 151,
            Shade::Split(tenths) => SPLIT[usize::from(tenths.min(Shade::TENTHS - 1))],
            Shade::Whole => 25,
            Shade::Offline => 244,
        }
    }

    /// As 0xRRGGBB.
    fn rgb(self) -> u32 {
        // From a light yellow to a dark red.
        let between = |from: u32, to: u32, tenths: u8| {
            let last = u32::from(Shade::TENTHS - 1);
            (from * (last - u32::from(tenths)) + to * u32::from(tenths)) / last
        };
        match self {
            Shade::Free => 0xbfe3cc,
            Shade::Split(tenths) => {
                let channel = |from, to| between(from, to, tenths.min(Shade::TENTHS - 1));
                channel(0xff, 0xa8) << 16 | channel(0xf3, 0x2a) << 8 | channel(0xc4, 0x0a)
            }
            Shade::Whole => 0x2f5fb3,
            Shade::Offline => 0x8a8a8a,
        }
    }
}

/// What a legend says: a shade and what it is, with as many as there are.
pub fn legend(counts: &Counts) -> [(Shade, String); 4] {
    let Counts { free, split, split_frames, split_used, whole, offline } = counts;
    let used = match *split_frames {
        0 => String::new(),
        frames => format!(", {} % of their frames in use", 100 * split_used / frames),
    };
    [
        (Shade::Free, format!("{free} free")),
        (Shade::Split(Shade::TENTHS / 2), format!("{split} split{used}")),
        (Shade::Whole, format!("{whole} allocated as a whole")),
        (Shade::Offline, format!("{offline} offline")),
    ]
}

/// What stands before each line: the first frame of it.
pub const MARGIN: usize = 14;

/// The map in characters, with its legend.
pub fn text(grid: &Grid, huge: &[HugeView], counts: &Counts, ink: Ink) -> String {
    let mut text = String::new();
    for (index, rows) in grid.rows.chunks(ink.rows_in_a_line()).enumerate() {
        let first = huge.get(grid.before(index * ink.rows_in_a_line()));
        let frame = first.map_or(HugeId(0), |huge| huge.id);
        // Writing to a string does not fail.
        let _ = write!(text, "{:>width$} ", format!("{:#x}", frame.0), width = MARGIN - 2);
        match (ink, rows) {
            (Ink::Colours, [upper, rest @ ..]) => {
                coloured(&mut text, upper, rest.first().map_or(&[], Vec::as_slice));
            }
            (_, rows) => rows.iter().flatten().for_each(|shade| text.push(shade.character())),
        }
        text.push('\n');
    }
    let of = match grid.group {
        1 => "each cell is a huge frame".into(),
        group => format!("each cell is {group} huge frames"),
    };
    let _ = writeln!(text, "\n  at the left the number of the first huge frame; {of}");
    for (shade, what) in legend(counts) {
        let sign = match (ink, shade) {
            (Ink::Plain, Shade::Split(_)) => "0-9".into(),
            (Ink::Plain, shade) => shade.character().to_string(),
            (Ink::Colours, Shade::Split(_)) => {
                let tenths = (0..Shade::TENTHS).step_by(3).map(Shade::Split);
                tenths.map(|shade| block(shade, "█")).collect()
            }
            (Ink::Colours, shade) => block(shade, "████"),
        };
        let pad = " ".repeat(if ink == Ink::Plain { 4 - sign.len() } else { 1 });
        let _ = writeln!(text, "  {sign}{pad}{what}");
    }
    if ink == Ink::Plain {
        text.push_str("  the digit says how many tenths are in use\n");
    }
    text
}

/// A line of two rows of cells; the lower one may be shorter.
fn coloured(text: &mut String, upper: &[Shade], lower: &[Shade]) {
    for (at, shade) in upper.iter().enumerate() {
        let below = lower.get(at).map(|shade| format!(";48;5;{}", shade.indexed()));
        let below = below.unwrap_or(";49".into());
        let _ = write!(text, "\x1b[38;5;{}{below}m▀", shade.indexed());
    }
    text.push_str("\x1b[0m");
}

fn block(shade: Shade, what: &str) -> String {
    format!("\x1b[38;5;{}m{what}\x1b[0m", shade.indexed())
}

/// The cells of a picture at most: more than a picture has room for are drawn in groups.
const CELLS: usize = 1 << 18;
/// The width that cells share, and the largest of a cell.
const WIDTH: usize = 1024;
const LARGEST: usize = 32;
/// Around the cells, and at their left for numbers.
const EDGE: usize = 24;
const NUMBERS: usize = 96;
const HEADER: usize = 84;
const LETTERS: usize = 14;

/// The map as an SVG: a cell for each huge frame, unless there are more than 2^18.
pub fn svg(title: &str, huge: &[HugeView], counts: &Counts) -> String {
    // About a square, in rows of trees where there are as many huge frames.
    let side = huge.len().min(CELLS).isqrt().max(16).next_power_of_two();
    let columns = if huge.len() <= side { huge.len().max(1) } else { side };
    let grid = Grid::of(huge, side, CELLS / side);
    let size = (WIDTH / columns).clamp(1, LARGEST);
    // A line between cells that are large enough to have one.
    let gap = usize::from(size >= 8);
    let (width, height) = (columns * size, grid.rows.len() * size);
    let canvas = (NUMBERS + width.max(720) + EDGE, HEADER + height + EDGE);
    let shades = [Shade::Free, Shade::Whole, Shade::Offline].into_iter();
    let shades = shades.chain((0..Shade::TENTHS).map(Shade::Split));
    let note = match grid.group {
        1 => "a cell is a huge frame".into(),
        group => format!("a cell is {group} huge frames"),
    };
    let lines = numbered(&grid, size);
    let keys = legend(counts);
    let view = format!("0 0 {} {}", canvas.0, canvas.1);
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(canvas.0) height=(canvas.1) viewBox=(view) font-family=(FONT) font-size=(LETTERS) fill="#333333" {
            rect width=(canvas.0) height=(canvas.1) fill="#ffffff" {}
            text x=(EDGE) y="28" font-size="18" { (title) }
            (PreEscaped(keyed(&keys, &note)))
            @for shade in shades {
                @let path = path(&grid, shade, size, gap);
                @if !path.is_empty() {
                    path transform={ "translate(" (NUMBERS) " " (HEADER) ")" } fill=(hex(shade)) d=(path) {}
                }
            }
            @for (row, y) in lines {
                text x=(NUMBERS - 8) y=(HEADER + y) text-anchor="end" font-size="11" {
                    (format!("{:#x}", huge.get(grid.before(row)).map_or(0, |huge| huge.id.0)))
                }
            }
        }
    };
    svg.into_string()
}

/// The rows that have a number, and where it stands: as many as there is room for.
fn numbered(grid: &Grid, size: usize) -> Vec<(usize, usize)> {
    let every = (LETTERS + 2).div_ceil(size).max(grid.rows.len().div_ceil(16)).next_power_of_two();
    (0..grid.rows.len())
        .step_by(every)
        .map(|row| (row, row * size + (size / 2 + 4).max(10)))
        .collect()
}

/// All cells of one shade, those side by side as one piece where no line is between them.
fn path(grid: &Grid, shade: Shade, size: usize, gap: usize) -> String {
    let mut path = String::new();
    for (y, row) in grid.rows.iter().enumerate() {
        let mut x = 0;
        for alike in row.chunk_by(|a, b| a == b) {
            let pieces = if gap > 0 { alike.len() } else { 1 };
            let width = alike.len() / pieces * size - gap;
            if alike.first() == Some(&shade) {
                for piece in 0..pieces {
                    let (x, y, height) = ((x + piece) * size, y * size, size - gap);
                    // Writing to a string does not fail.
                    let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
                }
            }
            x += alike.len();
        }
    }
    path
}

fn hex(shade: Shade) -> String {
    format!("#{:06x}", shade.rgb())
}

/// The legend: keys side by side, the one of split huge frames with all of its shades.
fn keyed(keys: &[(Shade, String)], note: &str) -> String {
    let mut x = EDGE;
    let mut svg = String::new();
    for (shade, what) in keys {
        let shades: Vec<Shade> = match shade {
            Shade::Split(_) => (0..Shade::TENTHS).map(Shade::Split).collect(),
            one => vec![*one],
        };
        let each = if shades.len() > 1 { 6 } else { 16 };
        for shade in shades {
            let fill = hex(shade);
            svg.push_str(
                &html! { rect x=(x) y="44" width=(each) height="14" fill=(fill) {} }.into_string(),
            );
            x += each;
        }
        svg.push_str(&html! { text x=(x + 6) y="56" { (what) } }.into_string());
        x += 6 + 8 * what.chars().count() + 20;
    }
    svg + &html! { text x=(EDGE) y="74" font-size="11" { "at the left the number of the first huge frame; " (note) } }
        .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_zone::HugeUse;

    fn huge(count: usize) -> Vec<HugeView> {
        let used_as = |id| match id % 4 {
            0 => HugeUse::Free,
            1 => HugeUse::Split { free: id % 513 },
            2 => HugeUse::Whole,
            _ => HugeUse::Offline,
        };
        (0..count)
            .map(|id| HugeView { id: HugeId(id), frames: 512, used_as: used_as(id) })
            .collect()
    }

    #[test]
    fn a_line_is_as_wide_as_its_cells_and_names_its_first_huge_frame() {
        let huge = huge(130);
        let grid = Grid::of(&huge, 64, 32);
        let text = text(&grid, &huge, &Counts::of(&huge), Ink::Plain);
        let lines: Vec<&str> = text.lines().take(3).collect();
        assert!(lines[0].starts_with("         0x0 .9#x.9#x"), "{text}");
        assert!(lines[2].starts_with("        0x80 .7"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= MARGIN + 64));
        assert!(text.contains("33 free") && text.contains("0-9 33 split, "), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn colours_show_two_rows_in_a_line() {
        let huge = huge(130);
        let grid = Grid::of(&huge, 64, 64);
        let text = text(&grid, &huge, &Counts::of(&huge), Ink::Colours);
        assert_eq!(text.matches('▀').count(), 64 + 2, "{text}");
        assert_eq!(text.lines().position(str::is_empty), Some(2));
    }

    #[test]
    fn a_picture_has_every_cell_once() {
        for count in [1, 3, 130, 65536] {
            let huge = huge(count);
            let svg = svg("a <zone>", &huge, &Counts::of(&huge));
            assert!(svg.starts_with("<svg") && svg.contains("a &lt;zone&gt;"));
            assert_eq!(svg.matches('M').count(), count, "no two cells side by side are alike");
        }
    }
}
