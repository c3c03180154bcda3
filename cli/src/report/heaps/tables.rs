//! Tables of what was counted, and what the paper has.

use woodlot_bench::kmem::{Interface, Load, LockRow, WasteRow};

use super::Heaps;
use super::findings::{Misses, from_to, misses, percent_of};
use crate::report::beside::{Beside, beside};
use crate::report::papers;
use crate::report::section::{Section, Table};
use crate::report::words::{count, number, percent};

/// A section that a table says it all of.
fn counted(id: &str, title: &str, about: String, table: Table, paper: Vec<Beside>) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        about,
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table,
        paper,
        paper_machine: papers::KMEM_MACHINE,
    }
}

/// Sections 4.1 and 4.2: instructions, and lines that move.
pub fn instructions(heaps: &Heaps) -> Section {
    let counts = heaps.counts.iter().map(|found| {
        let what = format!(
            "instructions of a pair, {}, {} B, {}",
            found.contender, found.bytes, found.interface
        );
        let here = found.instructions.map(number).or(found.not_counted.clone());
        vec![what, here.unwrap_or("not counted".into())]
    });
    let moves = heaps.transfers.iter().map(|row| {
        let way = if row.handed_over { "freed by the next CPU" } else { "freed by the same CPU" };
        let cpus = if row.cpus == 1 { "1 CPU".into() } else { format!("{} CPUs", row.cpus) };
        let what = format!("lines that move for a pair, {cpus}, {way}");
        vec![what, format!("{} of {} touched", number(row.moved), number(row.touched))]
    });
    let mut rows: Vec<_> = counts.chain(moves).collect();
    if rows.is_empty() {
        rows.push(vec!["instructions, and lines that move".into(), "not counted".into()]);
    }
    let of = |interface| heaps.instructions(interface).map(number);
    let moved = heaps.moved().map(|(moved, cpus)| {
        format!("{} lines move for a pair, on up to {cpus} CPUs", number(moved))
    });
    let given = vec![
        beside(
            "by a cookie: an allocation and its free",
            "13 + 13",
            of(Interface::Cookie),
            "section 4.1",
        ),
        beside("by the standard interface", "35 + 32", of(Interface::Standard), "section 4.1"),
        beside(
            "cache lines that go from CPU to CPU",
            "“free from the cache-thrashing”, by hardware monitors",
            moved,
            "section 4.2",
        ),
    ];
    let about = "Instructions as callgrind counts them, those of the loop not included; the paper's are of an 80x86. \
        Lines: one thread plays the CPUs, every access to the heap's memory and to the \
        blocks traps, and a line moves when a CPU writes to it that another one has, or reads it after another one's write.";
    counted(
        "kmem-section-4-1",
        "kmem sections 4.1 and 4.2: instructions, and cache lines that move",
        about.into(),
        Table { columns: vec!["what", "here"], rows },
        given,
    )
}

fn rate(found: [f64; 2], bound: f64, way: usize) -> String {
    let mark = if found[way] > 100.0 * bound { " (above)" } else { "" };
    format!("{}{mark} of at most {}", percent(found[way]), percent(100.0 * bound))
}

fn lock_rows(rows: &[LockRow], flushes: &str) -> Vec<Vec<String>> {
    let row = |row: &LockRow, way: usize| {
        let found = misses(row);
        let flushed = percent_of(row.flushed, row.global[1] + row.flushed);
        vec![
            flushes.to_string(),
            row.bytes.to_string(),
            ["allocations", "frees"][way].to_string(),
            count(row.calls[way] as usize),
            rate(found.first, row.bounds[0], way),
            rate(found.second, row.bounds[1], way),
            format!("{:.3} %", found.both[way]),
            if way == 1 { percent(flushed) } else { "–".into() },
        ]
    };
    rows.iter().flat_map(|one| [0, 1].map(|way| row(one, way))).collect()
}

/// Section 4.4 and tables 2 to 4.
pub fn locks(heaps: &Heaps) -> Section {
    let [plain, flushed] = &heaps.locks;
    let rows = lock_rows(plain, "no").into_iter().chain(lock_rows(flushed, "yes"));
    let columns = vec![
        "flushes",
        "bytes",
        "calls",
        "number",
        "miss the CPU's cache",
        "miss the global layer",
        "both",
        "lists flushed, of those that leave",
    ];
    let range = |rows: &[LockRow], of: fn(&Misses) -> [f64; 2], digits: usize| {
        let (low, high) = from_to(rows.iter().flat_map(|row| of(&misses(row))))?;
        Some(format!("{low:.digits$} to {high:.digits$} %"))
    };
    let total = |way: usize| {
        let sum = |of: fn(&LockRow) -> [u64; 2]| plain.iter().map(|row| of(row)[way]).sum::<u64>();
        let (calls, global, pages) = (sum(|r| r.calls), sum(|r| r.global), sum(|r| r.pages));
        let said = |part, whole| percent(percent_of(part, whole));
        (calls > 0).then(|| format!("{} and {}", said(global, calls), said(pages, global)))
    };
    let by_flush = {
        let share = |row: &LockRow| percent_of(row.flushed, row.global[1] + row.flushed);
        from_to(flushed.iter().map(share)).map(|(low, high)| format!("{low:.1} to {high:.1} %"))
    };
    let given = vec![
        beside(
            "lock manager, per-CPU layer into the global layer",
            "2.1 to 7.8 %, of at most 10 %",
            range(plain, |misses| misses.first, 2),
            "section 4.4",
        ),
        beside(
            "global layer into the coalesce-to-page layer",
            "1.2 to 3.0 %, of at most 6.7 %",
            range(plain, |misses| misses.second, 2),
            "section 4.4",
        ),
        beside(
            "both together",
            "0.02 to 0.14 %, of at most 0.67 %",
            range(plain, |misses| misses.both, 3),
            "section 4.4",
        ),
        beside(
            "all allocations: to the global layer, and from there to the pages (here: the lock manager, there time-sharing)",
            "1.17 % and 17.76 %",
            total(0),
            "table 2",
        ),
        beside("all frees: the same", "0.56 % and 36.89 %", total(1), "table 3"),
        beside(
            "lists that leave a cache by a flush, by size",
            "20.8 to 99.8 %",
            by_flush,
            "table 4",
        ),
    ];
    let about = "A distributed lock manager, built here by the paper's description, on a thread for each CPU, with \
        powers of two. target is larger here (64 for small blocks) than the paper's 10, so that the first bound is lower. \
        Flushes: none, as in section 4.4; or of all caches every 1024 transactions, in which as many blocks are freed as \
        the paper's system frees between two flushes (72 seconds of 321 frees).";
    counted(
        "kmem-tables-2-4",
        "kmem section 4.4, tables 2 to 4: miss rates of the layers",
        about.into(),
        Table { columns, rows: rows.collect() },
        given,
    )
}

/// Tables 5 and 6.
pub fn waste(heaps: &Heaps) -> Section {
    let mut rows = Vec::new();
    let names = ["powers of two", "four sizes an octave"];
    for (name, found) in names.iter().zip(&heaps.waste) {
        for (load, said) in [(Load::Heavy, "heavy"), (Load::Low, "low")] {
            let row = |bytes: String, [asked, blocks, slabs]: [usize; 3]| {
                let waste = slabs.saturating_sub(blocks);
                vec![
                    name.to_string(),
                    said.to_string(),
                    bytes,
                    number(waste as f64 / 1024.0),
                    count(slabs / 1024),
                    percent(percent_of(waste as u64, slabs as u64)),
                    format!("{:.3}", slabs as f64 / asked.max(1) as f64),
                ]
            };
            let of_load: Vec<&WasteRow> = found.iter().filter(|row| row.load == load).collect();
            // Thirty-three sizes would hide what there is to see.
            if of_load.len() < 10 {
                let each = of_load.iter();
                rows.extend(each.map(|r| row(r.bytes.to_string(), [r.asked, r.blocks, r.slabs])));
            }
            let sum = |of: fn(&WasteRow) -> usize| of_load.iter().map(|row| of(row)).sum();
            rows.push(row("all".into(), [sum(|r| r.asked), sum(|r| r.blocks), sum(|r| r.slabs)]));
        }
    }
    let of = |which, load| heaps.waste_percent(which, load).map(percent);
    let given = vec![
        beside("waste at low load, after a high one", "34.8 %", of(0, Load::Low), "table 5"),
        beside("waste at heavy load", "9.7 %", of(0, Load::Heavy), "table 6"),
        beside(
            "the same with four sizes an octave, heavy load",
            "not built",
            of(1, Load::Heavy),
            "table 6",
        ),
    ];
    let about = format!(
        "Memory in slabs that no block in use is in. Blocks of {} are in use, of 16 to 4096 bytes by a power law, each \
         replaced four times at random: the heavy load. Then a random three quarters are freed: the low one. The paper's \
         are of a system that compiles. Slabs over asked has the rounding of sizes, too.",
        crate::report::words::size(heaps.memory)
    );
    counted(
        "kmem-tables-5-6",
        "kmem tables 5 and 6: memory wasted",
        about,
        Table {
            columns: vec![
                "sizes",
                "load",
                "bytes",
                "KiB wasted",
                "KiB in use",
                "wasted",
                "slabs over asked",
            ],
            rows,
        },
        given,
    )
}
