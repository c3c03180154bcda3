//! Every figure and table of the page, from the data.

use woodlot_bench::batches::{self, Batches};
use woodlot_bench::chart::{Axis, Look, Panel, Point, Series, Shape};
use woodlot_bench::dispersion::Dispersion;
use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::frag;
use woodlot_bench::patterns::{Metric, Pattern};
use woodlot_bench::statistics::Summary;

use super::beside::{self, Beside};
use super::data::{Data, Replayed, Timed};
use super::freebsd;
use super::loaded;
use super::papers;
use super::scope::{BUDDIES, BURST_ORDER, BURSTS, ENGINES, LISTS};
use super::section::{Plot, Section, Table, legend, table_of};
use super::survived;
use super::words::{count, mib, number, size, spread, threads_of};

/// All of them, in the order of the page.
pub fn sections(data: &Data) -> Vec<Section> {
    let mut sections = vec![
        floor(data),
        by_order(data),
        by_order_beside_linux(data),
        by_cores(data),
        by_cores_beside_linux(data),
        lists(data),
        buddies_by_threads(data),
        buddies_by_size(data),
        fragmentation(data),
        dispersion(data),
        starting(data),
        survived::section(data),
        traces(data),
    ];
    sections.extend(data.batches.iter().map(batched));
    sections.extend(data.freebsd.iter().flat_map(freebsd::figures::sections));
    sections.extend(data.load.iter().flat_map(loaded::sections));
    sections.extend(data.heaps.iter().flat_map(|heaps| heaps.sections(data.machine.cpus())));
    sections.extend(data.kernel.sections());
    sections
}

/// What LLFree's figures show, from left to right.
const METRICS: [(Pattern, Metric, &str); 4] = [
    (Pattern::Bulk, Metric::Alloc, "bulk, allocation"),
    (Pattern::Bulk, Metric::Free, "bulk, free"),
    (Pattern::Random, Metric::Free, "random, free"),
    (Pattern::Repeat, Metric::Pair, "repeat, allocation and free"),
];

/// A section of plots.
struct Plots<'a> {
    id: &'static str,
    title: &'static str,
    about: String,
    engines: Vec<Engine>,
    plots: Vec<Plot<'a>>,
    paper: Vec<Beside>,
    paper_machine: &'static str,
}

impl Plots<'_> {
    fn section(self, data: &Data) -> Section {
        let times: Vec<&Timed> = self.plots.iter().flat_map(Plot::times).collect();
        Section {
            id: self.id.into(),
            title: self.title.into(),
            about: self.about,
            legend: legend(&self.engines),
            panels: self.plots.iter().map(|plot| plot.panel(data)).collect(),
            table_first: false,
            table: table_of(&times),
            paper: self.paper,
            paper_machine: self.paper_machine,
        }
    }
}

fn orders<'a>(data: &'a Data, engines: &[Engine], log: bool) -> Vec<Plot<'a>> {
    let threads = data.threads_by_order();
    let plot = |(pattern, metric, title): (Pattern, Metric, &str)| Plot {
        title: title.into(),
        x: ("order", |timed| timed.order.into()),
        log,
        series: engines
            .iter()
            .map(|&engine| {
                let times = data.of(engine, pattern, metric);
                (engine, times.filter(|timed| timed.threads == threads).collect())
            })
            .collect(),
    };
    METRICS.map(plot).into()
}

fn by_order(data: &Data) -> Section {
    let engines = vec![Engine::Llfree, Engine::Onewrite, Engine::Nbbs4];
    let threads = data.threads_by_order();
    Plots {
        id: "figure-5",
        title: "Figure 5: time by order",
        about: format!(
            "{}, {}, DRAM (the paper: 128 GiB, 8 cores, Optane as well). NBBS and the \
            one-write engine are not in the paper's figure.",
            size(data.memory),
            threads_of(threads)
        ),
        plots: orders(data, &engines, false),
        engines,
        paper: beside::by_order(&data.with_threads(threads)),
        paper_machine: papers::LLFREE_MACHINE,
    }
    .section(data)
}

fn by_order_beside_linux(data: &Data) -> Section {
    let engines = vec![Engine::Llfree, Engine::Linux];
    Plots {
        id: "figure-6",
        title: "Figure 6, in user space: time by order beside Linux's buddy",
        about: "The paper measures both inside the kernel; this is Linux's algorithm rebuilt in \
            user space, without the kernel around it. Logarithmic, as in the paper."
            .into(),
        plots: orders(data, &engines, true),
        engines,
        paper: beside::by_order_beside_linux(&data.with_threads(data.threads_by_order())),
        paper_machine: papers::LLFREE_MACHINE,
    }
    .section(data)
}

fn cores<'a>(
    data: &'a Data,
    engines: &[Engine],
    orders: &[u8],
    metrics: &[(Pattern, Metric, &str)],
    log: bool,
) -> Vec<Plot<'a>> {
    let mut plots = Vec::new();
    for &order in orders {
        for &(pattern, metric, title) in metrics {
            let of = |engine| {
                let times = data.of(engine, pattern, metric);
                times.filter(|timed| timed.order == order).collect()
            };
            plots.push(Plot {
                title: format!("{title}, order {order}"),
                x: ("threads", |timed| timed.threads as f64),
                log,
                series: engines.iter().map(|&engine| (engine, of(engine))).collect(),
            });
        }
    }
    plots
}

fn threads_in_words(data: &Data, paper: &str) -> String {
    let cpus = data.machine.cpus();
    format!(
        "Threads up to the {cpus} CPUs of this machine, and twice as many (hollow marks: \
         oversubscribed). The paper has {paper}."
    )
}

fn by_cores(data: &Data) -> Section {
    let engines = vec![Engine::Llfree, Engine::Onewrite, Engine::Nbbs4];
    Plots {
        id: "figure-7",
        title: "Figure 7: time by number of threads, orders 0 and 9",
        about: format!(
            "{}. {} NBBS and the one-write engine are not in the paper's figure.",
            size(data.memory),
            threads_in_words(data, "26 cores")
        ),
        plots: cores(data, &engines, &[0, 9], &METRICS, false),
        engines,
        paper: beside::by_cores(&data.with_threads(1), &data.with_threads(data.machine.cpus())),
        paper_machine: papers::LLFREE_MACHINE,
    }
    .section(data)
}

fn by_cores_beside_linux(data: &Data) -> Section {
    let engines = vec![Engine::Llfree, Engine::Linux];
    Plots {
        id: "figure-8",
        title: "Figure 8, in user space: time by number of threads beside Linux's buddy",
        about: format!("Logarithmic, as in the paper. {}", threads_in_words(data, "26 cores")),
        plots: cores(data, &engines, &[0, 9], &METRICS, true),
        engines,
        paper: beside::by_cores_beside_linux(&data.with_threads(data.machine.cpus())),
        paper_machine: papers::LLFREE_MACHINE,
    }
    .section(data)
}

fn lists(data: &Data) -> Section {
    let engines: Vec<Engine> = [Engine::Llfree].into_iter().chain(LISTS).collect();
    Plots {
        id: "figure-9",
        title: "Figure 9: against lists, order 0",
        about: format!("Logarithmic, as in the paper. {}", threads_in_words(data, "26 cores")),
        plots: cores(data, &engines, &[0], &METRICS, true),
        engines,
        paper: beside::lists(data),
        paper_machine: papers::LLFREE_MACHINE,
    }
    .section(data)
}

fn buddies_by_threads(data: &Data) -> Section {
    let metrics = [
        (Pattern::ThreadTest, Metric::Pair, "thread-test"),
        (Pattern::LinuxScalability, Metric::Pair, "Linux-scalability"),
    ];
    Plots {
        id: "nbbs-table-1",
        title: "NBBS table I: bursts of 128 KiB blocks",
        about: format!(
            "Each thread allocates a burst of 512 blocks (fewer where the zone has \
             no room for them) and frees it (Linux-scalability), or its \
             share of one burst (thread-test), again and again; an allocation and its free, \
             logarithmic. Linux's buddy is the one without lists for each CPU, as at this size. {}",
            threads_in_words(data, "32 threads on 32 cores")
        ),
        plots: cores(data, &BUDDIES, &[BURST_ORDER], &metrics, true),
        engines: BUDDIES.into(),
        paper: beside::bursts(data),
        paper_machine: papers::NBBS_MACHINE,
    }
    .section(data)
}

fn buddies_by_size(data: &Data) -> Section {
    let cpus = data.machine.cpus();
    let plot = |pattern: Pattern| Plot {
        title: pattern.to_string(),
        x: ("order", |timed| timed.order.into()),
        log: true,
        series: BUDDIES
            .map(|engine| {
                let times = data.of(engine, pattern, Metric::Pair);
                (engine, times.filter(|timed| timed.threads == cpus).collect())
            })
            .into(),
    };
    Plots {
        id: "nbbs-sizes",
        title: "NBBS's four benchmarks: 4 KiB, 128 KiB and 2 MiB",
        about: format!(
            "{}; an allocation and its free, logarithmic. The paper gives figures for 128 KiB only.",
            threads_of(cpus)
        ),
        plots: BURSTS.map(plot).into(),
        engines: BUDDIES.into(),
        paper: Vec::new(),
        paper_machine: papers::NBBS_MACHINE,
    }
    .section(data)
}

fn fragmentation(data: &Data) -> Section {
    let curves: Vec<frag::Curve> =
        data.frag.iter().map(|frag| (frag.engine, frag.states.clone())).collect();
    let memory = data.frag.first().map_or(data.memory, |frag| frag.memory);
    let mut rows = Vec::new();
    for (engine, states) in &curves {
        rows.extend(states.iter().map(|state| {
            vec![
                engine.to_string(),
                state.iteration.to_string(),
                state.free_huge.to_string(),
                state.possible_huge.to_string(),
                format!("{:.1}", state.percent()),
                state.moves.to_string(),
            ]
        }));
    }
    let columns = vec!["engine", "iteration", "free huge", "possible", "percent", "frames to move"];
    let lines = ENGINES.map(|engine| (engine.name().into(), engine.look(), Shape::Line));
    let of = |engine| data.states(engine).into_iter().collect::<Vec<_>>();
    let possible = ("possible".into(), Look::GUIDE, Shape::Guide);
    Section {
        id: "figure-10".into(),
        title: "Figure 10: free huge frames and compaction cost".into(),
        about: format!(
            "{} (the paper: 125 GiB), 90 % allocated, half of that freed at random; then \
             each iteration frees a tenth of what is allocated, at random, and allocates as much \
             again. One slot. Nothing is timed: the same seed gives the same curve, so there is no \
             spread. NBBS is not in the paper's figure.",
            size(memory)
        ),
        legend: lines.into_iter().chain([possible]).collect(),
        panels: frag::panels(&curves),
        table_first: false,
        table: Table { columns, rows },
        paper: beside::fragmented(&of(Engine::Llfree), &of(Engine::Linux), size(memory)),
        paper_machine: papers::LLFREE_MACHINE,
    }
}

fn batched(found: &Batches) -> Section {
    let row = |batched: &batches::Batched| {
        let (mean, deviation) = batched.mean();
        vec![
            batched.engine.name().to_string(),
            batched.way.name().to_string(),
            batched.pages.to_string(),
            number(mean),
            number(deviation),
            number(batched.median()),
            found.gain(batched.engine, batched.pages).map_or("–".into(), number),
        ]
    };
    let gain = |pages| {
        let of = |engine: Engine| {
            let gain = found.gain(engine, pages)?;
            Some(format!("{} × ({})", number(gain), engine.name()))
        };
        let all: Vec<_> = found.engines().filter_map(of).collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    Section {
        id: "freebsd-figure-6".into(),
        title: "FreeBSD figure 6: batches of pages from two domains in turn".into(),
        about: format!(
            "Two domains of 1 GiB, of one CPU, by engine, pages of 4 KiB: the time of the allocations of a batch, \
             mean and standard deviation of {} repetitions. The baseline is the paper's: the domain iterator, a mutex \
             and an allocation for each page. In runs the pages of a domain come as the largest blocks that fit.",
            found.repetitions
        ),
        legend: batches::legend(),
        panels: batches::panels(found),
        table_first: false,
        table: Table {
            columns: vec![
                "engine",
                "way",
                "pages",
                "mean µs",
                "deviation",
                "median",
                "locked / runs",
            ],
            rows: found.batched.iter().map(row).collect(),
        },
        paper: vec![
            beside::beside(
                "64 pages, locked beside runs",
                "a significant speedup",
                gain(64),
                "section V",
            ),
            beside::beside(
                "4096 pages, locked beside runs",
                "a significant speedup",
                gain(4096),
                "section V",
            ),
        ],
        paper_machine: papers::FREEBSD_MACHINE,
    }
}

fn dispersion(data: &Data) -> Section {
    let row = |found: &Dispersion| {
        let touched = |value: Option<f64>| {
            value.map_or("not measured".into(), |lines| count(lines.round() as usize))
        };
        let Dispersion { engine, memory, slots, scanned_memory, scanned_lines, .. } = found;
        vec![
            engine.to_string(),
            format!("{}, {slots} slots", size(*memory)),
            mib(found.bytes()),
            number(found.bytes() as f64 / memory.frames() as f64),
            count(found.lines()),
            size(*scanned_memory),
            count(*scanned_lines),
            touched(found.touched_lines.as_ref().ok().map(|&lines| lines as f64)),
            touched(found.touched_per_gib()),
        ]
    };
    Section {
        id: "table-1".into(),
        title: "Table 1: state dispersion and cache lines of a full scan".into(),
        about: "Computed: the bytes of metadata that each engine asks for, for the paper's zone, \
            and the lines they are. Measured: a small zone is fragmented at random, then asked for \
            its statistics, for each huge frame how much of it is free, and for each frame whether \
            it is; every access to the metadata traps, and the distinct lines of 64 bytes are \
            counted. The paper's Linux keeps 16 bytes and a flag in each page's record; the rival \
            here has records of 64 bytes, all of which the computed bytes include."
            .into(),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table {
            columns: vec![
                "engine",
                "zone",
                "bytes, computed",
                "bytes per 4 KiB",
                "lines, computed",
                "zone scanned",
                "its lines",
                "lines touched",
                "touched per GiB",
            ],
            rows: data.dispersion.iter().map(row).collect(),
        },
        paper: beside::dispersed(data),
        paper_machine: papers::LLFREE_MACHINE,
    }
}

fn starting(data: &Data) -> Section {
    let times = |metric| -> Vec<&Timed> {
        let of = |timed: &&Timed| (timed.pattern, timed.metric) == (Pattern::Init, metric);
        data.times.iter().filter(of).collect()
    };
    let (init, recover) = (times(Metric::Init), times(Metric::Recover));
    let looks = [Look::of(2), Look::of(0)];
    let gib = |timed: &Timed| timed.memory.frames() as f64 / f64::from(1 << 18);
    let series = |(times, look): (&Vec<&Timed>, Look)| {
        let point = |timed: &&Timed| {
            let Summary { median, min, max } = timed.cpu()?;
            let spread = Some((min / 1e3, max / 1e3));
            Some(Point { spread, ..Point::new(gib(timed), median / 1e3) })
        };
        let points = times.iter().filter_map(point).collect();
        Series { look, shape: Shape::Marked, points }
    };
    let series: Vec<Series> = [&init, &recover].into_iter().zip(looks).map(series).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let x = Axis::covering("GiB", points().map(|point| point.x), true);
    let y = Axis::covering("µs", points().map(|point| point.y), true);
    let all: Vec<&Timed> = init.iter().chain(&recover).copied().collect();
    let names = ["initialise", "recover"].map(String::from).into_iter().zip(looks);
    Section {
        id: "recovery".into(),
        title: "Starting a zone: initialisation and recovery".into(),
        about: "LLFree, one thread, on metadata that is in memory already; a random half of the \
            zone is allocated when it is recovered. The paper recovers from Optane, and has to count \
            the bits of every huge frame; so does this."
            .into(),
        legend: names.map(|(name, look)| (name, look, Shape::Marked)).collect(),
        panels: vec![Panel { title: "LLFree, one start".into(), x, y, series }],
        table_first: false,
        table: table_of(&all),
        paper: beside::started(data),
        paper_machine: papers::LLFREE_MACHINE,
    }
}

fn floor(data: &Data) -> Section {
    let row = |which: Loop| {
        let samples = data.floor.iter().find(|known| known.which == which);
        vec![
            which.name().to_string(),
            spread(data.floor(which)),
            samples.map_or(0, |floor| floor.cpu_ns.len()).to_string(),
        ]
    };
    Section {
        id: "floor".into(),
        title: "The floor: what this processor's atomic instructions, and cache lines, cost".into(),
        about: "CPU nanoseconds for each operation, in every repetition of the whole report, so the \
            spread shows how steady the machine was. C, the unit in the tables, is the median of hot \
            CAS in the same run as the figure. A line there and back is a cache line's way to another CPU; \
            in a virtual machine it says where the CPUs were."
            .into(),
        legend: Vec::new(),
        panels: Vec::new(),
        table_first: true,
        table: Table {
            columns: vec!["loop", "median (min – max), ns", "repetitions"],
            rows: Loop::ALL.map(row).into(),
        },
        paper: Vec::new(),
        paper_machine: "",
    }
}

fn traces(data: &Data) -> Section {
    let looks = [Engine::Llfree.look(), Engine::Linux.look()];
    let ratio = |(huge, frames): (usize, usize)| woodlot_trace::free_huge_ratio(huge, frames);
    let panel = |replayed: &Replayed| {
        let line = |look, side: fn(&super::data::Moment) -> (usize, usize)| {
            let points = replayed
                .moments
                .iter()
                .map(|moment| Point::new(moment.after as f64 / 1e3, ratio(side(moment))));
            Series { look, shape: Shape::Line, points: points.collect() }
        };
        let last = replayed.moments.last().map_or(1.0, |moment| moment.after as f64 / 1e3);
        let all = replayed.moments.iter().flat_map(|moment| [moment.ours, moment.linux]);
        let lowest = all.map(ratio).fold(1.0, f64::min);
        let bottom = if lowest > 0.75 { (lowest / 0.02).floor() * 0.02 - 0.02 } else { 0.0 };
        Panel {
            title: replayed.trace.clone(),
            x: Axis::linear("thousand allocations and frees", 0.0..last),
            y: Axis::linear("share of free memory in free huge frames", bottom..1.005),
            series: vec![
                line(looks[1], |moment| moment.linux),
                line(looks[0], |moment| moment.ours),
            ],
        }
    };
    let mut rows = Vec::new();
    for replayed in &data.traces {
        rows.extend(replayed.moments.iter().map(|moment| {
            vec![
                replayed.trace.clone(),
                moment.after.to_string(),
                moment.ours.0.to_string(),
                moment.ours.1.to_string(),
                format!("{:.3}", ratio(moment.ours)),
                moment.linux.0.to_string(),
                moment.linux.1.to_string(),
                format!("{:.3}", ratio(moment.linux)),
            ]
        }));
    }
    let means = data.traces.iter().map(|replayed| {
        let (ours, linux) = replayed.means;
        format!("{}: {ours:.3} LLFree, {linux:.3} Linux", replayed.trace)
    });
    Section {
        id: "traces".into(),
        title: "Real load: free memory that lies in free huge frames".into(),
        about: format!(
            "What a Linux 6.12 kernel asked of its page allocator, replayed on LLFree, beside what \
             Linux's own allocator made of it. Not in the papers. Means: {}. Nothing is timed, so \
             there is no spread. A vertical axis begins at zero only where the curves come near it.",
            means.collect::<Vec<_>>().join("; ")
        ),
        legend: [("llfree", looks[0]), ("Linux", looks[1])]
            .map(|(name, look)| (name.to_string(), look, Shape::Line))
            .into(),
        panels: data.traces.iter().map(panel).collect(),
        table_first: false,
        table: Table {
            columns: vec![
                "trace",
                "operations",
                "free huge, ours",
                "free frames, ours",
                "share, ours",
                "free huge, Linux",
                "free frames, Linux",
                "share, Linux",
            ],
            rows,
        },
        paper: Vec::new(),
        paper_machine: "",
    }
}
