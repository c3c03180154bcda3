//! Sections with figures.

use woodlot_bench::chart::{Axis, Look, Panel, Point, Series, Shape};
use woodlot_bench::kmem::{Curve, Interface, Kept, Line, Looped, Metric, Moment, PurityRow, What};

use super::findings::rate;
use super::plot::{Along, Timed, legend, look, of_metric, table, values};
use super::{Heaps, tables};
use crate::report::beside::{Beside, beside};
use crate::report::papers;
use crate::report::section::{Section, Table};
use crate::report::words::{mib, number, size};

const MIB: f64 = 1048576.0;

impl Heaps {
    /// All sections, in the order of the paper, then those of today; on a machine with so many CPUs.
    pub fn sections(&self, cpus: usize) -> Vec<Section> {
        vec![
            tables::instructions(self),
            best(self, cpus),
            worst(self, cpus),
            tables::locks(self),
            tables::waste(self),
            purity(self),
            today(self, cpus),
            memory(self),
            preloaded(self, cpus),
        ]
    }
}

/// A section of timed panels. All lines of some loops are in its table.
fn timed(
    [id, title]: [&str; 2],
    about: String,
    (panels, shown): (Vec<Panel>, &[&Line]),
    looped: &[Looped],
    paper: Vec<Beside>,
) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        about,
        legend: legend(shown),
        panels,
        table_first: false,
        table: table(looped),
        paper,
        paper_machine: papers::KMEM_MACHINE,
    }
}

/// Figures 7 and 8.
fn best(heaps: &Heaps, cpus: usize) -> Section {
    let lines = of_metric(&heaps.pairs, Metric::Pair);
    let panel = |title: &str, log| {
        let (title, along) = (title.into(), Along::Threads);
        let height = ("million pairs a second", rate as fn(&Line) -> _);
        Timed { title, along, height, log, lines: lines.clone() }.panel(cpus)
    };
    let panels = vec![panel("figure 7", false), panel("figure 8: logarithmic", true)];
    let ratio = || {
        let of = |interface| heaps.pair(interface, 1);
        Some(format!("{} ×", number(of(Interface::Standard)? / of(Interface::Cookie)?)))
    };
    let grows = || {
        let of = |threads| heaps.pairs_of(Interface::Cookie, threads);
        Some(format!("{cpus} CPUs: {} ×", number(of(cpus)? / of(1)?)))
    };
    let pair = |interface| heaps.pair(interface, 1).map(|ns| format!("{} ns", number(ns)));
    let source = "section 4.2, figures 7 and 8";
    let given = vec![
        beside("the standard interface takes, beside the cookie", "about 2 ×", ratio(), source),
        beside("pairs a second, of one CPU's (cookie)", "25 CPUs: linear", grows(), source),
        beside(
            "a pair, standard interface, 50 MHz 80486, and 450 MHz Xeon",
            "3.93 µs, and 0.40 µs",
            pair(Interface::Standard),
            "table 1",
        ),
        beside("the same by a cookie", "not given", pair(Interface::Cookie), "section 4.2"),
    ];
    let about = format!(
        "A block of 256 bytes is allocated and freed, again and again, by every thread: pairs of all threads together, on \
         the wall, as in the paper. Threads up to the {cpus} CPUs of this machine, and twice as many (hollow marks); the \
         paper has 25. kmem is the allocator as in a kernel, where a thread is a CPU; malloc is the same as the heap of \
         a program; system is the C library's."
    );
    let looped = [Looped { what: What::Pair, kept: heaps.pairs.clone() }];
    let names = ["kmem-figure-7", "kmem figures 7 and 8: the best case"];
    timed(names, about, (panels, &lines), &looped, given)
}

/// Panels of the worst case: one for each metric.
fn of_worst(kept: &Kept, cpus: usize) -> Vec<Panel> {
    let metrics = [(Metric::Alloc, "worst case, allocation"), (Metric::Free, "worst case, free")];
    let timed = metrics.map(|(metric, title)| (metric, title, "ns"));
    let all = timed.into_iter().chain([(Metric::Peak, "memory over blocks", "times")]);
    all.map(|(metric, title, unit)| {
        let lines = of_metric(kept, metric);
        let height = (unit, values as fn(&Line) -> _);
        Timed { title: title.into(), along: Along::Bytes, height, log: unit == "ns", lines }
            .panel(cpus)
    })
    .collect()
}

/// Figure 9.
fn worst(heaps: &Heaps, cpus: usize) -> Section {
    let of = |metric, bytes| heaps.worst_of(metric, bytes);
    let both = |bytes| {
        let (alloc, free) = (of(Metric::Alloc, bytes)?, of(Metric::Free, bytes)?);
        Some(format!("{} and {} ns", number(alloc), number(free)))
    };
    let source = "section 4.3, figure 9";
    let given = vec![
        beside("16 B: an allocation and a free", "frees are more expensive", both(16), source),
        beside("4096 B: the same", "slower than small blocks", both(4096), source),
        beside(
            "an allocator that coalesces nothing",
            "fails after the first size",
            heaps.worst_peak().map(|peak| format!("kmem takes at most {} ×", number(peak))),
            source,
        ),
    ];
    let about = format!(
        "{} of memory is allocated in blocks of one size, linked through their first words, and freed; then in blocks of \
         the next size. The paper draws operations a second. Memory over blocks: of kmem the frames that its zone has \
         handed out, of others the growth of resident memory.",
        size(heaps.memory)
    );
    let looped = [Looped { what: What::Worst, kept: heaps.worst.clone() }];
    let lines = of_metric(&heaps.worst, Metric::Alloc);
    let names = ["kmem-figure-9", "kmem figure 9: the worst case"];
    timed(names, about, (of_worst(&heaps.worst, cpus), &lines), &looped, given)
}

/// What a loop gave.
fn of_loop(looped: &[Looped], what: What) -> Kept {
    let found = looped.iter().find(|one| one.what == what);
    found.map(|one| one.kept.clone()).unwrap_or_default()
}

/// Loops of today.
fn today(heaps: &Heaps, cpus: usize) -> Section {
    let loops = [
        (What::ProducerConsumer, Metric::Pair, Along::Bytes, "producer and consumer, both"),
        (What::Churn, Metric::Pair, Along::Threads, "churn, a free and an allocation"),
        (What::Larson, Metric::Pair, Along::Threads, "larson, a free and an allocation"),
        (What::CacheScratch, Metric::Write, Along::Bytes, "cache-scratch, a write"),
        (
            What::CacheScratch,
            Metric::Shared,
            Along::Bytes,
            "cache-scratch, blocks on a shared line",
        ),
    ];
    let panels = loops.map(|(what, metric, along, title)| {
        let kept = of_loop(&heaps.today, what);
        let lines = of_metric(&kept, metric);
        let unit = if metric == Metric::Shared { "share" } else { "ns" };
        let height = (unit, values as fn(&Line) -> _);
        Timed { title: title.into(), along, height, log: false, lines }.panel(cpus)
    });
    let kept = of_loop(&heaps.today, What::ProducerConsumer);
    let about = "Not in the paper. Producer and consumer: one thread allocates, another one frees, both at once. Churn: \
        threads replace blocks of random sizes, which then become another thread's. Larson: the same by threads that end. \
        Cache-scratch: each thread writes to a block of its own that may lie on a line with another's. CPU time of the \
        threads; hollow marks: more threads than CPUs.";
    let names = ["kmem-today", "Heaps today: producer and consumer, churn, larson, cache-scratch"];
    let lines = of_metric(&kept, Metric::Pair);
    timed(names, about.into(), (panels.into(), &lines), &heaps.today, Vec::new())
}

/// Loops with libraries preloaded.
fn preloaded(heaps: &Heaps, cpus: usize) -> Section {
    let (mut pair, worst) =
        (of_loop(&heaps.preloaded, What::Pair), of_loop(&heaps.preloaded, What::Worst));
    // There is one interface, which need not be told from another.
    pair.lines.iter_mut().for_each(|line| line.case.interface = None);
    let handover = of_loop(&heaps.preloaded, What::ProducerConsumer);
    let by_bytes = |title: &str, lines| {
        let height = ("ns", values as fn(&Line) -> _);
        Timed { title: title.into(), along: Along::Bytes, height, log: true, lines }.panel(cpus)
    };
    let lines = of_metric(&pair, Metric::Pair);
    let mut panels = vec![by_bytes("pair", lines.clone())];
    panels.extend(of_worst(&worst, cpus));
    panels.push(by_bytes("producer and consumer, both", of_metric(&handover, Metric::Pair)));
    let about = "The loops through the C library's malloc and free, each heap preloaded (LD_PRELOAD) in a process of its \
        own, by turns. Sizes are known at run time, and frees have none. woodlot is libwoodlot_malloc.so. What is not \
        there is named at the end of the page.";
    let names = ["kmem-preload", "Heaps preloaded: through malloc and free"];
    timed(names, about.into(), (panels, &lines), &heaps.preloaded, Vec::new())
}

/// Memory over time: heaps of this program, and those that were preloaded.
fn memory(heaps: &Heaps) -> Section {
    let is_preloaded = |curve: &&Curve| curve.contender.ends_with("(preloaded)");
    let (preloaded, own): (Vec<&Curve>, Vec<&Curve>) = heaps.curves.iter().partition(is_preloaded);
    let panel = |title: &str, curves: &[&Curve]| {
        let points = |curve: &Curve, of: fn(&Moment) -> usize| {
            let step = |(step, moment)| Point::new(step as f64, of(moment) as f64 / MIB);
            curve.moments.iter().enumerate().map(step).collect()
        };
        let used = curves.first().map(|curve| Series {
            look: Look::GUIDE,
            shape: Shape::Guide,
            points: points(curve, |moment| moment.payload),
        });
        let taken = curves.iter().map(|curve| Series {
            look: look_of(curve),
            shape: Shape::Line,
            points: points(curve, |moment| moment.taken),
        });
        let series: Vec<Series> = used.into_iter().chain(taken).collect();
        let all = || series.iter().flat_map(|one| &one.points);
        let last = all().map(|point| point.x).fold(1.0, f64::max);
        let (x, y) = (
            Axis::linear("steps", 0.0..last),
            Axis::covering("MiB", all().map(|point| point.y), false),
        );
        Panel { title: title.into(), x, y, series }
    };
    let mut panels = vec![panel("heaps of this program", &own)];
    if !preloaded.is_empty() {
        panels.push(panel("preloaded", &preloaded));
    }
    let mut legend: Vec<(String, Look, Shape)> = Vec::new();
    for curve in &heaps.curves {
        let name = curve.contender.trim_end_matches(" (preloaded)").to_string();
        if !legend.iter().any(|(known, ..)| *known == name) {
            legend.push((name, look_of(curve), Shape::Line));
        }
    }
    legend.push(("in use".into(), Look::GUIDE, Shape::Guide));
    let row = |curve: &Curve| {
        let (ratios, kept) = (curve.ratios(), curve.kept());
        let or_dash = |text: Option<String>| text.unwrap_or("–".into());
        let most = curve.moments.iter().map(|moment| moment.taken).max();
        vec![
            curve.contender.clone(),
            or_dash(most.map(mib)),
            or_dash(curve.peak().map(|peak| format!("{peak:.3}"))),
            or_dash(ratios.map(|ratios| format!("{:.3}", ratios.median))),
            or_dash(kept.map(|[freed, _]| mib(freed))),
            or_dash(kept.map(|[_, asked]| mib(asked))),
        ]
    };
    Section {
        id: "kmem-memory".into(),
        title: "Heaps over time: memory taken beside bytes in use".into(),
        about: format!(
            "A load that rises to {} and falls to a sixteenth, four times, with blocks of 16 to 128, 256 to 1024, 1024 to \
             4096 and 16 to 4096 bytes: the cyclical load that the paper is about (section 3.1). Random blocks are freed. \
             Each heap is in a process of its own; of kmem the frames are counted, of others resident memory. Nobody waits \
             between the steps. The last two: all is free, and what the heap keeps was asked back.",
            size(heaps.memory)
        ),
        legend,
        panels,
        table_first: false,
        table: Table {
            columns: vec![
                "heap",
                "peak",
                "peak over peak in use",
                "median over in use",
                "taken when all is free",
                "and asked back",
            ],
            rows: heaps.curves.iter().map(row).collect(),
        },
        paper: Vec::new(),
        paper_machine: "",
    }
}

fn look_of(curve: &Curve) -> Look {
    look(curve.contender.trim_end_matches(" (preloaded)"))
}

/// Section 5.5.
fn purity(heaps: &Heaps) -> Section {
    let shared: Vec<&PurityRow> = heaps.purity.iter().filter(|row| !row.pools).collect();
    let mut bursts: Vec<usize> = shared.iter().map(|row| row.burst).collect();
    bursts.dedup();
    let panel = |title: &str, layer: usize, counted: fn(&PurityRow) -> Option<f64>| {
        let series = bursts.iter().enumerate().flat_map(|(index, &burst)| {
            let own = || shared.iter().filter(move |row| row.burst == burst);
            let line = |shape, of: &dyn Fn(&PurityRow) -> Option<f64>| {
                let points = own().filter_map(|row| Some(Point::new(row.freed, of(row)?)));
                let mut points: Vec<Point> = points.collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                Series { look: Look::of(index), shape, points }
            };
            let paper = line(Shape::Guide, &|row| Some(row.paper[layer]));
            let computed = line(Shape::Line, &|row| Some(row.computed[layer]));
            [paper, computed, line(Shape::Marked, &counted)]
        });
        let (x, y) = (
            Axis::linear("share of what is freed that is near", 0.48..1.02),
            Axis::linear("share near", 0.45..1.05),
        );
        Panel { title: title.into(), x, y, series: series.collect() }
    };
    let panels = vec![
        panel("caches of CPUs, what leaves them", 0, |row| row.caches),
        panel("global layer, what CPUs get", 1, |row| row.global),
    ];
    let looks = bursts.iter().enumerate().flat_map(|(index, burst)| {
        [
            (
                format!("bursts up to {burst}: counted, and for one pool"),
                Look::of(index),
                Shape::Marked,
            ),
            (format!("{burst}: the paper's equations"), Look::of(index), Shape::Guide),
        ]
    });
    let or_dash = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    let row = |row: &PurityRow| {
        let [r1, r2] = row.rates.map_or([None; 2], |rates| rates.map(Some)).map(or_dash);
        let pools = if row.pools { "one for each node" } else { "one" };
        vec![
            pools.to_string(),
            row.burst.to_string(),
            format!("{:.3}", row.freed),
            r1,
            r2,
            format!("{:.3}", row.paper[0]),
            format!("{:.3}", row.computed[0]),
            or_dash(row.caches),
            format!("{:.3}", row.allocated),
            format!("{:.3}", row.paper[1]),
            format!("{:.3}", row.computed[1]),
            or_dash(row.global),
        ]
    };
    let apart = |computed| {
        let apart = heaps.purity_apart(computed)?;
        Some(format!("at most {} apart", number(apart)))
    };
    let pools = heaps.pools().map(|row| {
        format!("{:.3} of what is allocated is near, of {:.3} freed", row.allocated, row.freed)
    });
    let source = "section 5.5, equations 1 to 6";
    let given = vec![
        beside(
            "purity of the caches of CPUs: computed, and counted",
            "computed only",
            apart(|row| row.paper),
            source,
        ),
        beside(
            "the same, computed for a global layer that both nodes share",
            "not in the paper",
            apart(|row| row.computed),
            "section 5.5",
        ),
        beside("a pool for each node", "“beyond the scope of this paper”", pools, "section 5.5"),
    ];
    Section {
        id: "kmem-section-5-5".into(),
        title: "kmem section 5.5: memory that is near, computed and counted".into(),
        about: "Four CPUs on two nodes allocate a random number of blocks and free as many, of which a share is near; \
            pages are near the CPU that asked for them first. Marks are what was counted. Thin lines are the paper's \
            equations, for the shares r1 and r2 of blocks that really went on to the next layer: they take what CPUs give \
            to the global layer to be as near to those who get it. The other lines are the same balance for one global \
            layer that both nodes share, of which half is near to either."
            .into(),
        legend: looks.collect(),
        panels,
        table_first: false,
        table: Table {
            columns: vec![
                "pools",
                "burst",
                "freed near",
                "r1",
                "r2",
                "caches, equation 5",
                "for one pool",
                "counted",
                "allocated near",
                "global, equation 6",
                "for one pool",
                "counted",
            ],
            rows: heaps.purity.iter().map(row).collect(),
        },
        paper: given,
        paper_machine: papers::KMEM_MACHINE,
    }
}
