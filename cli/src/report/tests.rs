//! The page, the verdicts and the comparison, from a small file of data: nothing is measured.

use std::fs;

use woodlot_bench::engine::Engine;
use woodlot_bench::floor::Loop;
use woodlot_bench::patterns::{Metric, Pattern};
use woodlot_bench::size::Size;

use super::claims::{Verdict, claims};
use super::compare::compare;
use super::data::{Crashes, Data, FloorLoop, Form, Openings, Timed};
use super::figures::sections;
use super::files;
use super::kernel::Kernel;
use super::page::{GENERATOR, page};
use super::scope::thread_counts;

/// A smoke run, thinned out, and taken for a quick one: the claims of a smoke run are not judged.
fn data() -> Data {
    let data: Data = serde_json::from_str(include_str!("../../tests/report.json")).unwrap();
    Data { form: Form::Quick, ..data }
}

fn drawn(data: &Data) -> String {
    page(data, &sections(data), &claims(data)).unwrap()
}

/// The verdict on the claim that begins like this.
#[track_caller]
fn verdict(data: &Data, begins: &str) -> Verdict {
    let claims = claims(data);
    claims.iter().find(|claim| claim.claim.starts_with(begins)).unwrap().verdict
}

/// Changes the times of an engine.
fn scale(data: &mut Data, which: impl Fn(&Timed) -> bool, factor: f64) {
    for timed in data.times.iter_mut().filter(|timed| which(timed)) {
        timed.cpu_ns.iter_mut().for_each(|ns| *ns *= factor);
    }
}

#[test]
fn every_figure_is_drawn_with_its_data_and_needs_nothing_else() {
    let data = data();
    let (sections, page) = (sections(&data), drawn(&data));
    for section in &sections {
        assert!(page.contains(&format!("<section id=\"{}\"", section.id)));
        assert!(!section.table.rows.is_empty(), "{} has no data", section.id);
        assert_eq!(files::FIGURES.contains(&&*section.id), !section.panels.is_empty());
        let columns = section.table.columns.len();
        assert!(section.table.rows.iter().all(|row| row.len() == columns), "{}", section.id);
        for panel in &section.panels {
            let lines = panel.series.iter().filter(|series| !series.points.is_empty());
            assert!(lines.count() >= 2, "{}: {}", section.id, panel.title);
        }
    }
    let panels: usize = sections.iter().map(|section| section.panels.len()).sum();
    assert_eq!(page.matches("role=\"img\"").count(), panels);
    assert_eq!(
        page.matches("<details>").count(),
        sections.iter().filter(|s| !s.table_first).count()
    );
    for outside in ["<script", "<link", "<img", "url(", " src=", "href=\"http"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains(GENERATOR) && page.contains("prefers-color-scheme: dark"));
}

#[test]
fn every_timed_point_shows_its_spread_and_oversubscription() {
    let data = data();
    let sections = sections(&data);
    let marked = sections.iter().flat_map(|section| &section.panels).flat_map(|panel| {
        let by_threads = panel.x.label == "threads";
        panel.series.iter().flat_map(|series| &series.points).map(move |point| (by_threads, point))
    });
    let cpus = data.machine.cpus() as f64;
    let mut hollow = 0;
    for (by_threads, point) in marked {
        if by_threads {
            assert!(point.spread.is_some_and(|(low, high)| low <= point.y && point.y <= high));
            assert_eq!(point.hollow, point.x > cpus);
            hollow += usize::from(point.hollow);
        }
    }
    assert!(hollow > 0);
}

#[test]
fn what_the_data_says_of_itself_is_shown_as_text() {
    let mut data = data();
    data.missing.push("<script>alert(1)</script>".into());
    assert!(!drawn(&data).contains("<script"));
    assert!(drawn(&data).contains("&lt;script&gt;"));
}

#[test]
fn verdicts_follow_the_figures() {
    let mut data = data();
    assert_eq!(verdict(&data, "LLFree recovers huge frames"), Verdict::Holds);
    assert_eq!(verdict(&data, "the buddy recovers next to none"), Verdict::Holds);
    let [llfree, linux] = [Engine::Llfree, Engine::Linux]
        .map(|engine| data.frag.iter().position(|frag| frag.engine == engine).unwrap());
    let states = data.frag[llfree].states.clone();
    data.frag[llfree].states = data.frag[linux].states.clone();
    data.frag[linux].states = states;
    assert_eq!(verdict(&data, "LLFree recovers huge frames"), Verdict::Differs);
    assert_eq!(verdict(&data, "the buddy recovers next to none"), Verdict::Differs);
    assert_eq!(verdict(&data, "LLFree's compaction cost"), Verdict::Differs);
    data.frag.clear();
    assert_eq!(verdict(&data, "LLFree recovers huge frames"), Verdict::Unknown);

    let list =
        |timed: &Timed| timed.pattern == Pattern::Random && timed.engine == Engine::ListLocal;
    scale(&mut data, list, 1e3);
    let others = |timed: &Timed| {
        let lists = [Engine::ListCas, Engine::ListLocked];
        timed.pattern == Pattern::Random && lists.contains(&timed.engine)
    };
    scale(&mut data, others, 1e3);
    assert_eq!(verdict(&data, "lists are poor"), Verdict::Holds);
    assert_eq!(verdict(&data, "LLFree frees at random faster"), Verdict::Holds);
    // Not on so few cores.
    assert_eq!(verdict(&data, "from 16 cores on"), Verdict::Unknown);
    scale(&mut data, list, 1e-6);
    assert_eq!(verdict(&data, "lists are poor"), Verdict::Differs);
    scale(&mut data, others, 1e-6);
    assert_eq!(verdict(&data, "LLFree frees at random faster"), Verdict::Differs);

    let at_order_3 = |timed: &Timed| {
        (timed.engine, timed.pattern, timed.order) == (Engine::Llfree, Pattern::Repeat, 3)
    };
    scale(&mut data, at_order_3, 100.0);
    assert_eq!(verdict(&data, "LLFree is flat over orders 0 to 6 (repeat)"), Verdict::Differs);
    data.times.retain(|timed| !at_order_3(timed));
    assert_eq!(verdict(&data, "LLFree is flat over orders 0 to 6 (repeat)"), Verdict::Unknown);
}

#[test]
fn section_5_7_is_judged_by_what_was_found() {
    let mut data = data();
    let claims = ["after a clean shutdown", "recovery can be parallelised", "whoever is killed"];
    let verdicts = |data: &Data| claims.map(|claim| verdict(data, claim));
    assert_eq!(verdicts(&data), [Verdict::Unknown; 3], "a report from before has nothing of it");
    let openings = Openings {
        memory: Size::gib(128),
        dirty_us: vec![900.0, 1000.0],
        dirty_two_us: vec![500.0, 600.0],
        clean_us: vec![100.0],
        clean_compared_us: vec![300.0],
    };
    let crashes = Crashes {
        processes: vec![1, 2],
        kills: 1000,
        in_a_call: 700,
        recoveries: 90,
        with_losses: 45,
        overlaps: 0,
        lost: 2500,
        bound: 9000,
        wrong: Vec::new(),
    };
    (data.openings, data.crashes) = (Some(openings.clone()), Some(crashes.clone()));
    assert_eq!(verdicts(&data), [Verdict::Holds; 3]);
    let page = drawn(&data);
    for words in [
        "50.0 % of the recoveries",
        "2.50 frames for each kill",
        "950 µs",
        "processes killed (at once: 1, 2)",
    ] {
        assert!(page.contains(words), "{words}");
    }
    data.openings =
        Some(Openings { clean_us: vec![500.0], dirty_two_us: vec![951.0], ..openings.clone() });
    for wrong in [
        Crashes { overlaps: 1, ..crashes.clone() },
        Crashes { lost: 9001, ..crashes.clone() },
        Crashes { wrong: vec!["it counts wrongly".into()], ..crashes.clone() },
    ] {
        data.crashes = Some(wrong);
        assert_eq!(verdicts(&data), [Verdict::Differs; 3]);
        assert!(drawn(&data).contains("not all of 90 recoveries"));
    }
    // The times of a small zone say nothing of a large one.
    data.openings = Some(Openings { memory: Size::gib(1), ..openings });
    assert_eq!(verdict(&data, claims[0]), Verdict::Unknown);
}

#[test]
fn claims_of_heaps_follow_what_was_counted() {
    let mut data = data();
    let heaps = data.heaps.clone().unwrap();
    let near = "kmem: pools for each node keep memory near";
    let thrashing = "kmem: the common case is free from cache-thrashing";
    let instructions = "kmem: a pair takes no more instructions";
    assert_eq!([near, thrashing].map(|claim| verdict(&data, claim)), [Verdict::Holds; 2]);
    let changed = data.heaps.as_mut().unwrap();
    changed.transfers[0].moved = 0.01;
    changed.purity.iter_mut().for_each(|row| row.allocated = 0.9);
    changed.counts.iter_mut().for_each(|count| count.instructions = Some(26.0));
    assert_eq!([near, thrashing].map(|claim| verdict(&data, claim)), [Verdict::Differs; 2]);
    assert_eq!(verdict(&data, instructions), Verdict::Holds);
    let changed = data.heaps.as_mut().unwrap();
    changed.counts.iter_mut().for_each(|count| count.instructions = Some(68.0));
    changed.transfers = heaps.transfers;
    assert_eq!(verdict(&data, instructions), Verdict::Differs);
    assert_eq!(verdict(&data, thrashing), Verdict::Holds);
    // A report from before has nothing of heaps.
    data.heaps = None;
    assert_eq!(verdict(&data, near), Verdict::Unknown);
    assert!(!drawn(&data).contains("<section id=\"kmem"));
}

/// Repetitions that are apart from one another by little.
fn steady() -> Data {
    let mut data = data();
    for timed in &mut data.times {
        let ns = timed.cpu_ns[0];
        timed.cpu_ns = [0.99, 1.0, 1.01].map(|factor| factor * ns).into();
    }
    data
}

fn is_pair(timed: &Timed) -> bool {
    let key = (timed.engine, timed.pattern, timed.metric, timed.order, timed.threads);
    key == (Engine::Llfree, Pattern::Repeat, Metric::Pair, 0, 1)
}

/// What differs, line by line.
fn verdicts(text: &str) -> Vec<&str> {
    let text = text.split_once("\nWhat differs").map_or("", |(_, differs)| differs);
    let ends = ["FASTER", "SLOWER", "DIFFERS"];
    text.lines().filter(|line| ends.iter().any(|end| line.ends_with(end))).collect()
}

#[test]
fn a_run_does_not_differ_from_itself_nor_a_machine_that_is_slower_as_a_whole() {
    let a = steady();
    assert_eq!(verdicts(&compare(&a, &a)), [""; 0]);
    assert!(compare(&a, &a).ends_with("\nVerdict: no difference.\n"));
    let mut b = steady();
    scale(&mut b, |_| true, 3.0);
    b.times.iter_mut().for_each(|timed| timed.hot_cas_ns *= 3.0);
    b.floor.iter_mut().flat_map(|floor| &mut floor.cpu_ns).for_each(|ns| *ns *= 3.0);
    assert_eq!(verdicts(&compare(&a, &b)), [""; 0]);
}

#[test]
fn what_is_slower_is_found_and_named() {
    let (a, mut b) = (steady(), steady());
    scale(&mut b, is_pair, 1.2);
    let text = compare(&a, &b);
    assert_eq!(verdicts(&text).len(), 1, "{text}");
    assert!(verdicts(&text)[0].starts_with("llfree repeat pair, order 0, 1 thread, 1 GiB"));
    assert!(verdicts(&text)[0].ends_with("SLOWER"));
    let verdict = |text: &str| text.lines().last().unwrap_or_default().to_string();
    let name = "llfree repeat pair, order 0, 1 thread, 1 GiB";
    assert_eq!(verdict(&text), format!("Verdict: B is slower in 1; most in {name} (1.20 ×)."));
    let text = compare(&b, &a);
    assert!(verdicts(&text)[0].ends_with("FASTER"));
    assert_eq!(verdict(&text), format!("Verdict: B is faster in 1; most in {name} (0.83 ×)."));
    // Less than 5 % is nothing.
    let mut b = steady();
    scale(&mut b, is_pair, 1.04);
    assert_eq!(verdicts(&compare(&a, &b)), [""; 0]);
}

#[test]
fn overlapping_repetitions_and_a_floor_that_moved_are_noise() {
    let (a, mut b) = (steady(), steady());
    scale(&mut b, is_pair, 1.2);
    let ns = b.times.iter().position(is_pair).unwrap();
    b.times[ns].cpu_ns[0] = a.times[ns].cpu_ns[1];
    assert_eq!(verdicts(&compare(&a, &b)), [""; 0]);

    let mut b = steady();
    scale(&mut b, is_pair, 1.2);
    let moved = b.floor.iter_mut().find(|floor| floor.which == Loop::RandomClear4M).unwrap();
    moved.cpu_ns.iter_mut().for_each(|ns| *ns *= 1.3);
    assert_eq!(verdicts(&compare(&a, &b)), [""; 0]);
}

/// CPUs that were moved are no noise of the figures of one thread.
#[test]
fn a_line_that_took_longer_is_said() {
    let at = |ns: f64| {
        let mut data = steady();
        data.floor.retain(|floor| floor.which != Loop::LineThereAndBack);
        data.floor.push(FloorLoop { which: Loop::LineThereAndBack, cpu_ns: vec![ns; 3] });
        data
    };
    let (a, mut b) = (at(100.0), at(460.0));
    scale(&mut b, is_pair, 1.2);
    let text = compare(&a, &b);
    assert_eq!(verdicts(&text).len(), 1, "{text}");
    assert!(text.contains("took 100 ns to another CPU and back in A, 460 ns in B"), "{text}");
    assert!(!compare(&steady(), &b).contains("to another CPU and back"), "{text}");
}

#[test]
fn what_all_figures_scatter_by_is_noise() {
    let (a, mut b) = (steady(), steady());
    for (index, timed) in b.times.iter_mut().enumerate() {
        let factor = [0.9, 1.0, 1.1][index % 3];
        timed.cpu_ns.iter_mut().for_each(|ns| *ns *= factor);
    }
    let scattered = compare(&a, &b);
    assert!(scattered.ends_with("\nVerdict: no difference.\n"), "{scattered}");
    scale(&mut b, is_pair, 3.0);
    let text = compare(&a, &b);
    assert_eq!(verdicts(&text).len(), 1, "{text}");
}

#[test]
fn a_smoke_run_judges_nothing() {
    let data = Data { form: Form::Smoke, ..data() };
    let judged = claims(&data).into_iter().filter(|claim| claim.verdict != Verdict::Unknown);
    assert_eq!(judged.map(|claim| claim.claim).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn huge_frames_have_no_noise() {
    let (a, mut b) = (data(), data());
    b.frag[0].states.last_mut().unwrap().free_huge -= 1;
    let text = compare(&a, &b);
    assert_eq!(verdicts(&text).len(), 1);
    assert!(text.ends_with("\nVerdict: huge frames differ.\n"), "{text}");
}

#[test]
fn what_is_no_report_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        Data::read(&path).unwrap_err().to_string()
    };
    assert!(Data::read(&path).unwrap_err().to_string().contains("report.json"));
    for text in ["", "[]", "{}", "{\"format\":2}"] {
        assert!(refused(text).contains("is no report.json"), "{text}");
    }
    assert!(refused("{\"format\":1}").contains("form 1; this program reads form 2"));
    fs::write(&path, data().json().unwrap()).unwrap();
    assert_eq!(Data::read(&path).unwrap().times, data().times);
}

#[test]
fn only_an_earlier_report_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name);
    assert!(files::check(folder.path(), &Kernel::default()).is_ok());
    fs::write(there("mine.txt"), "mine").unwrap();
    assert!(files::check(folder.path(), &Kernel::default()).is_ok());
    for name in ["index.html", "report.json", "figure-5.svg"] {
        fs::write(there(name), "mine").unwrap();
        let refused = files::check(folder.path(), &Kernel::default()).unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains("not from a report"), "{refused}");
        fs::remove_file(there(name)).unwrap();
    }
    fs::write(there("index.html"), drawn(&data())).unwrap();
    fs::write(there("report.json"), "an earlier one").unwrap();
    assert!(files::check(folder.path(), &Kernel::default()).is_ok());
}

#[test]
fn threads_go_up_to_the_machine_and_once_beyond() {
    assert_eq!(thread_counts(1), [1, 2]);
    assert_eq!(thread_counts(2), [1, 2, 4]);
    assert_eq!(thread_counts(26), [1, 2, 4, 8, 16, 26, 52]);
}
