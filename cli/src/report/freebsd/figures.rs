//! The tables and figures.

use woodlot_bench::chart::{Axis, Look, Panel, Point, Series, Shape};
use woodlot_bench::statistics::Summary;
use woodlot_compact::Fmfi;
use woodlot_frame::Order;

use super::{Builds, Built, Freebsd, Runs, Stacks, Wired, Wiring};
use crate::report::beside::beside;
use crate::report::papers;
use crate::report::section::{Section, Table};
use crate::report::words::{count, number, percent, size};

/// All that was measured, as the paper has it.
pub fn sections(found: &Freebsd) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(found.builds.iter().flat_map(|builds| [free_blocks(builds), in_a_row(builds)]));
    sections.extend(found.wiring.as_ref().map(wired));
    sections.extend(found.stacks.as_ref().map(stacks));
    sections
}

/// Frames in blocks by order, from one order on.
fn frames_from(blocks: &[usize], order: usize) -> usize {
    blocks.iter().enumerate().skip(order).map(|(order, count)| count << order).sum()
}

/// The index of fragmentation of the paper, from free blocks by order, for requests of one.
fn fmfi(blocks: &[usize], order: u8) -> i32 {
    let (free_frames, free_blocks) = (frames_from(blocks, 0), blocks.iter().sum());
    Fmfi { free_frames, free_blocks, free_huge: 0 }.index(Order(order))
}

/// The share of free memory in blocks below an order, in thousandths.
fn share_below(blocks: &[usize], order: usize) -> usize {
    let free = frames_from(blocks, 0);
    (free - frames_from(blocks, order)) * 1000 / free.max(1)
}

fn free_blocks(builds: &Builds) -> Section {
    let [before, after] = &builds.free_blocks;
    let linux = builds.linux_blocks.as_deref();
    let row = |order: usize| {
        let linux = linux.and_then(|blocks| blocks.get(order));
        let linux = linux.map_or("–".into(), |&blocks| count(blocks));
        vec![format!("{order} ({}K)", 4 << order), count(before[order]), count(after[order]), linux]
    };
    let beside_linux = |of: &dyn Fn(&[usize]) -> String| {
        let linux = linux.map_or(String::new(), |blocks| format!(" (Linux {})", of(blocks)));
        format!("{} and {}{linux}", of(before), of(after))
    };
    let below = |blocks: &[usize]| share_below(blocks, 9).to_string();
    let index = |blocks: &[usize]| fmfi(blocks, 9).to_string();
    let singles = |blocks: &[usize]| count(blocks.first().copied().unwrap_or(0));
    Section {
        id: "freebsd-table-1".into(),
        title: "FreeBSD table I: free blocks before and after a build".into(),
        about: format!(
            "What a Linux 6.12 with {} frames asked of its page allocator while it built Lua and memcached, replayed on \
             LLFree, without compaction: free blocks by order, each free frame in the largest block that it lies in. LLFree \
             has blocks of order 10 at the most. Linux's are its own after the same build, in which it may compact. The \
             paper builds a FreeBSD kernel in 6 GB on FreeBSD's buddy allocator.",
            count(builds.frames)
        ),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table {
            columns: vec!["order", "before", "after, LLFree", "after, Linux"],
            rows: (0..before.len().min(after.len())).rev().map(row).collect(),
        },
        paper: vec![
            beside(
                "free blocks of order 0, before and after",
                "1 and 2156",
                Some(beside_linux(&singles)),
                "table I",
            ),
            beside(
                "share of free memory below order 9, in thousandths, before and after",
                "below 1 and about 85 (of the orders that it names)",
                Some(beside_linux(&below)),
                "table I",
            ),
            beside(
                "index of fragmentation (FMFI) of order 9, before and after",
                "not said",
                Some(beside_linux(&index)),
                "table I, by the formula of figure 3",
            ),
        ],
        paper_machine: papers::FREEBSD_BUILDS,
    }
}

/// Superpages that some have more than others, up to each build.
fn sum_of(some: &[Built], others: &[Built]) -> Vec<i64> {
    let mut sum = 0;
    let more = some.iter().zip(others).map(|(some, others)| {
        sum += some.free_huge as i64 - others.free_huge as i64;
        sum
    });
    more.collect()
}

/// What the daemon won by its moves, which is more than is left of it.
fn runs(Runs { won, all, in_vain, price }: Runs) -> String {
    let [won, all, in_vain] = [won, all, in_vain].map(count);
    let rule = price.map_or(String::new(), |price| {
        format!(
            ". As the paper's, it looks at the index alone, and not at how much there is to win; no huge frame may cost \
             more than {price} moves"
        )
    });
    format!(", and won {won} huge frames in {all} runs, of which {in_vain} were in vain{rule}")
}

fn in_a_row(builds: &Builds) -> Section {
    let looks = [Look::of(0), Look::of(2), Look::of(1), Look::of(3)];
    let names = [
        "LLFree with the daemon",
        "LLFree without",
        "a buddy like Linux's",
        "were all moved that can move",
    ];
    let line = |look, values: Vec<f64>| Series {
        look,
        shape: Shape::Marked,
        points: (1..).map(f64::from).zip(values).map(|(x, y)| Point::new(x, y)).collect(),
    };
    let free = |built: &[Built]| built.iter().map(|built| built.free_huge as f64).collect();
    let possible = builds.possible.iter().map(|&huge| huge as f64).collect();
    let series = [free(&builds.with), free(&builds.without), free(&builds.buddy), possible];
    let series: Vec<Series> =
        looks.into_iter().zip(series).map(|(look, all)| line(look, all)).collect();
    let gained = sum_of(&builds.with, &builds.without);
    let over_buddy = sum_of(&builds.with, &builds.buddy);
    let sums = gained.iter().map(|&huge| huge as f64);
    let nothing = vec![0.0; gained.len()];
    let buddy = sum_of(&builds.buddy, &builds.without);
    let buddy = buddy.iter().map(|&huge| huge as f64).collect();
    let totals =
        vec![line(looks[0], sums.collect()), line(looks[1], nothing), line(looks[2], buddy)];
    let numbers: Vec<f64> = (1..=builds.with.len()).map(|build| build as f64).collect();
    let x = || Axis::of("builds", &numbers);
    let panel = |title: &str, label: &str, series: Vec<Series>| {
        let all = || series.iter().flat_map(|series| &series.points).map(|point| point.y);
        let (lowest, highest) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
        let margin = ((highest - lowest) / 10.0).max(1.0);
        let y = Axis::linear(label, lowest - margin..highest + margin);
        Panel { title: title.into(), x: x(), y, series }
    };
    let row = |(number, (with, without)): (usize, (&Built, &Built))| {
        vec![
            (number + 1).to_string(),
            builds.buddy.get(number).map_or("–".into(), |buddy| count(buddy.free_huge)),
            count(without.free_huge),
            count(with.free_huge),
            builds.possible.get(number).map_or("–".into(), |&huge| count(huge)),
            count(without.free_frames),
            count(with.free_frames),
            gained.get(number).map_or("–".into(), |sum| sum.to_string()),
        ]
    };
    let rows = builds.with.iter().zip(&builds.without).enumerate().map(row).collect();
    Section {
        id: "freebsd-figure-7".into(),
        title: "FreeBSD figure 7: superpages over builds in a row".into(),
        about: format!(
            "The build of table I again and again on the same LLFree: between two builds, what one left is freed, and what \
             it took out of caches is allocated again. Free huge frames at the end of each build, before that, with a daemon \
             that compacts and without, and the sum of the difference. Frames that the trace says can move may move, the \
             others not. The daemon moved {} frames{}. Nothing is timed. The vertical axes do not begin at zero.",
            count(builds.moves),
            builds.runs.map_or(String::new(), runs)
        ),
        legend: names
            .into_iter()
            .zip(looks)
            .map(|(name, look)| (name.to_string(), look, Shape::Marked))
            .collect(),
        panels: vec![
            panel("at the end of each build", "free huge frames", series),
            panel("up to each build, more than without", "huge frames", totals),
        ],
        table_first: false,
        table: Table {
            columns: vec![
                "build",
                "free huge, buddy",
                "free huge, without",
                "free huge, with",
                "possible",
                "free frames, without",
                "free frames, with",
                "gained so far",
            ],
            rows,
        },
        paper: vec![
            beside(
                "superpages gained by the daemon, over all builds",
                "grows steadily throughout",
                gained.last().map(|sum| format!("{sum} in {} builds", gained.len())),
                "section V, figure 7",
            ),
            beside(
                "the same beside a buddy without a daemon, as the paper's baseline",
                "grows steadily throughout",
                over_buddy.last().map(|sum| format!("{sum} in {} builds", over_buddy.len())),
                "section V, figure 7",
            ),
        ],
        paper_machine: papers::FREEBSD_BUILDS,
    }
}

/// The mean and the standard deviation.
fn mean(times: &[f64]) -> (f64, f64) {
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}

fn wired(found: &Wiring) -> Section {
    let row = |wired: &Wired| {
        let (mean, deviation) = mean(&wired.wall_ms);
        let of = |value: fn(&Summary) -> f64| {
            Summary::of(&wired.wall_ms).map_or("–".into(), |summary| number(value(&summary)))
        };
        vec![
            wired.name.clone(),
            number(mean),
            of(|summary| summary.median),
            number(deviation),
            of(|summary| summary.min),
            of(|summary| summary.max),
            wired.huge.map_or("not known".into(), |share| percent(share * 100.0)),
        ]
    };
    let faster = |one: &Wired, other: &Wired| {
        format!("{} ×", number(mean(&one.wall_ms).0 / mean(&other.wall_ms).0))
    };
    let ratio = |pair: &[Wired]| pair.first_chunk().map(|[one, other]| faster(one, other));
    let all = [&found.one_by_one, &found.largest];
    Section {
        id: "freebsd-table-2".into(),
        title: "FreeBSD table II: memory that is wired".into(),
        about: format!(
            "{} of memory: milliseconds until all of it is there, {} repetitions in turn. The baseline is a fault for each \
             page, as in the paper; the other is Pool::wire, which asks in the largest pieces. The same stands beside them by \
             n threads, one for each CPU, which take no less CPU time, and mlock of Linux. Fresh memory the system fills with \
             zeros. The paper's 10 GB in 92 ms are twice what its memory takes, so that no zeros can be in them: the memory of \
             others, which a pool of several processes has from those that freed it, is its like. The last column is what /proc/self/smaps says then: where it is not 100 %, the system \
             gave no huge pages, and the row is about calls, not about pages.",
            size(found.memory),
            found.one_by_one.wall_ms.len()
        ),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table {
            columns: vec![
                "way",
                "mean ms",
                "median",
                "deviation",
                "min",
                "max",
                "mapped by huge pages",
            ],
            rows: all
                .into_iter()
                .chain(&found.threads)
                .chain(&found.locked)
                .chain(&found.left)
                .map(row)
                .collect(),
        },
        paper: vec![
            beside(
                "mean of the baseline beside the largest pieces, fresh memory",
                "9.26 × (875.02 and 92.49 ms for 10 GB)",
                Some(faster(&found.one_by_one, &found.largest)),
                "table II",
            ),
            beside(
                "the same of several threads, both by as many",
                "not said",
                ratio(&found.threads),
                "table II",
            ),
            beside(
                "the same of memory of others, without zeros",
                "9.26 ×",
                ratio(&found.left),
                "table II",
            ),
            beside(
                "mlock with small pages beside huge ones",
                "not said",
                ratio(&found.locked),
                "table II",
            ),
        ],
        paper_machine: papers::FREEBSD_MACHINE,
    }
}

fn stacks(found: &Stacks) -> Section {
    let rows =
        [("frames lie as pages do", found.by_address), ("guards have no frames", found.packed)];
    let holes = rows.map(|(_, left)| number(left.holes_per_1000(found.stacks)));
    let row = |(name, left): (&str, woodlot_bench::stacks::Left)| {
        let holes = number(left.holes_per_1000(found.stacks));
        vec![name.into(), count(left.huge), count(left.holes), holes, count(left.spare)]
    };
    Section {
        id: "freebsd-figure-5".into(),
        title: "FreeBSD figure 5: what guards of kernel stacks leave".into(),
        about: format!(
            "{} stacks of {} pages and a guard in a zone of LLFree, counted in the zone: free blocks of order 0 whose buddies \
             are in use. The paper draws it and gives no numbers.",
            count(found.stacks),
            found.pages
        ),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table {
            columns: vec![
                "frames",
                "huge frames",
                "stray frames",
                "for 1000 stacks",
                "for stacks to come",
            ],
            rows: rows.map(row).into(),
        },
        paper: vec![beside(
            "stray frames for a stack, as pages lie and packed",
            "1 and 0",
            Some(format!("{} and {} for 1000", holes[0], holes[1])),
            "section III-B, figure 5",
        )],
        paper_machine: papers::FREEBSD_MACHINE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::freebsd::{Effort, of};
    use woodlot_bench::size::Size;

    #[test]
    fn what_is_measured_is_drawn() {
        let effort = Effort { builds: 2, wired: (Size::mib(4), 1) };
        let mut missing = Vec::new();
        let found = of(effort, &mut missing, &|_| {}).expect("the shipped build is whole");
        let builds = found.builds.as_ref().expect("there are some");
        assert_eq!((builds.with.len(), builds.without.len(), builds.possible.len()), (2, 2, 2));
        let without = builds.without.iter().map(|built| built.free_frames);
        assert!(builds.with.iter().map(|built| built.free_frames).eq(without), "as much is free");
        let [before, after] = &builds.free_blocks;
        assert!(before.len() == 11 && before != after, "a build changes what is free");
        assert_eq!((fmfi(&[3, 0, 1], 2), fmfi(&[0, 0, 0, 2], 2)), (563, -1000));
        let linux = builds.linux_blocks.as_deref().expect("the trace says what Linux had");
        assert_eq!(
            frames_from(linux, 0),
            frames_from(after, 0),
            "both have the same frames in use"
        );
        assert_ne!(linux, after, "but not in the same places");
        let runs = builds.runs.expect("the daemon ran");
        assert!(runs.won > 0 && runs.all > runs.in_vain, "{runs:?}");
        let gained = sum_of(&builds.with, &builds.without);
        assert!(gained.last() > Some(&0), "the daemon gains something: {gained:?}");
        let stacks = found.stacks.as_ref().expect("there are some");
        assert_eq!((stacks.by_address.holes, stacks.packed.holes), (1000, 0));
        for section in sections(&found) {
            let rows = &section.table.rows;
            assert!(!rows.is_empty(), "{} has no data", section.id);
            assert!(
                rows.iter().all(|row| row.len() == section.table.columns.len()),
                "{}",
                section.id
            );
        }
    }
}
