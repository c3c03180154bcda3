//! The figures in words.

use woodlot_compact::Fmfi;
use woodlot_frame::{Base4K, Base16K, Base64K, Geometry, Order, Stats};

use super::figures::{ClassRow, Figures, ProcessRow, SlotRow};
use super::look::Shared;
use crate::zone::cells::Counts;
use crate::zone::drawn;
use crate::zone::words::in_units;

pub const CLASS_HEADINGS: [&str; 5] = ["class", "trees", "free frames", "free huge", "free/s"];
pub const SLOT_HEADINGS: [&str; 4] = ["slot", "in use by it", "held free", "in use/s"];
pub const PROCESS_HEADINGS: [&str; 4] = ["process", "is", "MiB in use", "MiB/s"];

/// What zone that is.
pub fn title(figures: &Figures) -> String {
    let info = &figures.look.info;
    let memory = in_units(bytes(figures, info.config.frames));
    let (slots, generation) = (info.config.slots, info.generation);
    format!("{}: {memory}, {slots} slots, opened {generation} times", figures.name)
}

fn bytes(figures: &Figures, frames: usize) -> u64 {
    let shift = figures.look.info.base_shift as u32;
    (frames as u64).checked_shl(shift).unwrap_or(u64::MAX)
}

/// Free memory and free huge frames.
pub fn free(figures: &Figures) -> [String; 2] {
    let Stats { free_frames, free_huge, .. } = figures.look.stats;
    let gib = |frames| bytes(figures, frames) as f64 / f64::from(1 << 30);
    let (free, all) = (gib(free_frames), gib(figures.look.info.config.frames));
    [
        format!("free memory {free:.2} GiB of {all:.2} GiB"),
        format!("free huge frames {free_huge} of {}", figures.look.huge.len()),
    ]
}

/// What compaction sees, and whether it is at work: a huge frame that is emptied is isolated.
pub fn compaction(figures: &Figures) -> String {
    let stats = &figures.look.stats;
    let index = match figures.look.info.base_shift as u32 {
        Base16K::BASE_SHIFT => index::<Base16K>(stats),
        Base64K::BASE_SHIFT => index::<Base64K>(stats),
        _ => index::<Base4K>(stats),
    };
    let works = match stats.isolated_huge {
        0 => "no huge frame is being emptied".into(),
        1 => "1 huge frame is being emptied".into(),
        some => format!("{some} huge frames are being emptied"),
    };
    format!("compaction: FMFI {index} of 1000, {works}")
}

fn index<G: Geometry>(stats: &Stats) -> i32 {
    Fmfi::of::<G>(stats).index(Order::huge::<G>())
}

/// What of a shared pool is resident, and who has it.
pub fn resident(pool: &Shared) -> String {
    format!("resident {:.0} MiB of at most {:.0} MiB", mib(pool.seen.resident), mib(pool.cap))
}

/// Who has a shared pool.
pub fn processes(pool: &Shared) -> String {
    let count =
        |is_alive| pool.seen.processes.iter().filter(|one| one.is_alive == is_alive).count();
    match (count(true), count(false)) {
        (0, _) => "nobody has the pool: it is as the last process left it".into(),
        (alive, 0) => format!("processes: {alive} alive"),
        (alive, dead) => format!("processes: {alive} alive, {dead} dead"),
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub fn process_row(row: &ProcessRow) -> [String; 4] {
    let ProcessRow { process, rate } = row;
    let is = if process.is_alive { "alive" } else { "dead" };
    let hundredths = |rate: f64| (rate / f64::from(1 << 20) * 100.0).round() / 100.0 + 0.0;
    let rate = rate.map_or("-".into(), |rate| format!("{:+.2}", hundredths(rate)));
    [process.id.to_string(), is.into(), format!("{:.2}", mib(process.bytes)), rate]
}

pub fn class_row(row: &ClassRow) -> [String; 5] {
    let ClassRow { name, stats, rate: changed } = row;
    [
        name.clone(),
        stats.trees.to_string(),
        stats.free_frames.to_string(),
        stats.free_huge.to_string(),
        rate(*changed),
    ]
}

pub fn slot_row(row: &SlotRow) -> [String; 4] {
    let SlotRow { slot, balance, held, rate: changed } = row;
    [slot.to_string(), balance.to_string(), held.to_string(), rate(*changed)]
}

fn rate(rate: Option<f64>) -> String {
    // Adding zero turns a negative zero into the other one.
    rate.map_or("-".into(), |rate| format!("{:+.0}", rate.round() + 0.0))
}

/// All of it as text.
pub fn text(figures: &Figures) -> String {
    let [frames, huge] = free(figures);
    let counts = drawn::legend(&Counts::of(&figures.look.huge)).map(|(_, what)| what);
    let classes = table(CLASS_HEADINGS, figures.classes().iter().map(class_row));
    let slots = table(SLOT_HEADINGS, figures.slots().iter().map(slot_row));
    let huge_frames = counts.join(", ");
    let pool = figures.look.pool.as_ref().map_or_else(String::new, |pool| {
        let rows = table(PROCESS_HEADINGS, figures.processes().iter().map(process_row));
        format!("\n{}\n{}\n{rows}", resident(pool), processes(pool))
    });
    format!(
        "{}\n{frames}\n{huge}\nhuge frames: {huge_frames}\n{}\n\n{classes}\n{slots}{pool}",
        title(figures),
        compaction(figures)
    )
}

/// Rows under headings, to the right.
pub fn table<const N: usize>(
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: Vec<_> = [headings.map(String::from)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::figures::tests::{seen, seen_isolated};

    #[test]
    fn the_text_has_every_figure() {
        let said = text(&seen(&[[100, 0], [50, 7]]));
        for words in [
            "a.zone: 1 GiB, 2 slots, opened 1 times\n",
            "free memory 1.00 GiB of 1.00 GiB\n",
            "free huge frames 510 of 512\n",
            "huge frames: 510 free, 2 split, ",
            "\ncompaction: FMFI 629 of 1000, no huge frame is being emptied\n",
            "slot  in use by it  held free  in use/s\n   0           150        362       +50\n",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn compaction_at_work_is_said() {
        for (isolated, words) in [(1, "1 huge frame is being"), (3, "3 huge frames are being")] {
            let said = text(&seen_isolated(&[[0, 0]], isolated));
            let line = format!("\ncompaction: FMFI 0 of 1000, {words} emptied\n");
            assert!(said.contains(&line), "{said}");
        }
    }
}
