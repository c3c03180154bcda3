//! The page: one HTML file that needs nothing else, neither scripts nor fonts nor the network.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use woodlot_bench::Failure;
use woodlot_bench::chart::{dark_theme, key};

use super::beside::Beside;
use super::claims::{Claim, Verdict};
use super::data::{Data, Form, Held};
use super::papers;
use super::section::{Section, Table};

/// What says that a page is ours, and may be replaced.
pub const GENERATOR: &str = "<meta name=\"generator\" content=\"woodlot report\">";

const STYLE: &str = include_str!("page.css");

/// The page.
///
/// # Errors
/// When a figure cannot be drawn, which is a defect.
pub fn page(data: &Data, sections: &[Section], claims: &[Claim]) -> Result<String, Failure> {
    let figures = sections.iter().map(section).collect::<Result<Vec<Markup>, Failure>>()?;
    let style = format!("{STYLE}@media (prefers-color-scheme: dark){{\n{}}}\n", dark_theme());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                (PreEscaped(GENERATOR))
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Woodlot: the papers' figures on this machine" }
                style { (PreEscaped(style)) }
            }
            body {
                (head(data))
                nav {
                    a href="#claims" { "What agrees" }
                    @for section in sections { " · " a href={ "#" (section.id) } { (short(&section.title)) } }
                    " · " a href="#targets" { "Targets" }
                    " · " a href="#data" { "Data" }
                }
                (judged(claims, !data.kernel.is_empty()))
                @for figure in &figures { (figure) }
                (targets(&data.targets))
                (behind(data))
            }
        }
    };
    Ok(page.into_string())
}

/// A title up to its colon.
fn short(title: &str) -> &str {
    title.split([':', ',']).next().unwrap_or(title)
}

fn head(data: &Data) -> Markup {
    let form = match data.form {
        Form::Smoke => {
            "A smoke run: every figure from a handful of operations, to see that they \
            are drawn. Its times mean nothing."
        }
        Form::Quick => "A quick run (--quick): few repetitions on small zones.",
        Form::Full => "A full run.",
    };
    html! {
        header {
            h1 { "The papers' figures on this machine" }
            p { "LLFree (USENIX ATC 2023), the Non-Blocking Buddy System, the mechanisms against fragmentation in \
                FreeBSD, and the kernel memory allocator of McKenney and Slingwine (kmem), measured again by "
                code { "woodlot report" } ". Each figure stands beside the values that the papers \
                give, with the table it was drawn from behind it." }
            p.form { (form) " It took " (format!("{:.0}", data.seconds)) " s"
                @if let Some(cpu) = data.cpu_seconds { ", " (format!("{cpu:.0}")) " s of CPU time" }
                ". Times are CPU nanoseconds of \
                the thread for each operation (the papers' are elapsed time): the median, and bars \
                from the least to the most of the repetitions; one that leaves its panel goes on, \
                and its table has the end." }
            pre { (data.machine.describe().trim_end()) }
            p { "The papers' machines: " (papers::LLFREE_MACHINE) ". " (papers::NBBS_MACHINE) ". "
                (papers::FREEBSD_MACHINE) ". " (papers::KMEM_MACHINE) "." }
        }
    }
}

fn judged(claims: &[Claim], in_the_kernel: bool) -> Markup {
    let of = |verdict| claims.iter().filter(move |claim| claim.verdict == verdict);
    let groups = [
        (Verdict::Holds, "holds", "Agrees with the papers"),
        (Verdict::Differs, "differs", "Does not reproduce here"),
        (Verdict::Unknown, "unknown", "Not judged: not measured, or more cores needed"),
    ];
    html! {
        section id="claims" {
            h2 { "What agrees with the papers, and what does not" }
            p { "Judged from this run's figures by the rules beside them." }
            @for (verdict, class, title) in groups {
                @if of(verdict).next().is_some() {
                    h3 { (title) " (" (of(verdict).count()) ")" }
                    ul.claims {
                        @for claim in of(verdict) {
                            li class=(class) {
                                strong { (claim.claim) } " " span.source { (claim.source) }
                                @if claim.verdict != Verdict::Unknown {
                                    br; "Here: " (claim.found) "."
                                }
                                br; span.rule { "Rule: " (claim.rule) "." }
                            }
                        }
                    }
                }
            }
            p {
                "Not drawn: LLFree's figures 11 and 12 (memcached, and mappings populated), and NVRAM."
                @if !in_the_kernel {
                    " Figures 6 and 8 are below with both algorithms in user space; those of a kernel \
                    are joined by " code { "--kernel" } "."
                }
            }
        }
    }
}

fn section(section: &Section) -> Result<Markup, Failure> {
    let panels = section.panels.iter().map(|panel| panel.svg());
    let panels = panels.collect::<Result<Vec<String>, Failure>>()?;
    let keys = section.legend.iter().map(|(name, look, shape)| Ok((name, key(*look, *shape)?)));
    let keys = keys.collect::<Result<Vec<_>, Failure>>()?;
    Ok(html! {
        section id=(section.id) {
            h2 { (section.title) }
            p { (section.about) }
            @if !panels.is_empty() {
                figure {
                    @if !keys.is_empty() {
                        ul.legend {
                            @for (name, key) in &keys {
                                li { span.plot { (PreEscaped(key)) } " " (name) }
                            }
                        }
                    }
                    div.panels {
                        @for (panel, svg) in section.panels.iter().zip(&panels) {
                            div.plot role="img" aria-label=(panel.title) { (PreEscaped(svg)) }
                        }
                    }
                }
            }
            @if section.table_first {
                (table(&section.table))
            } @else {
                details {
                    summary { "The data as a table (" (section.table.rows.len()) " rows)" }
                    (table(&section.table))
                }
            }
            (given(&section.paper, section.paper_machine))
        }
    })
}

fn table(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for column in &table.columns { th { (column) } } } }
                tbody {
                    @for row in &table.rows { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
    }
}

fn given(values: &[Beside], machine: &str) -> Markup {
    html! {
        @if !values.is_empty() {
            h3 { "Beside the paper" }
            div.scroll {
                table.paper.whole {
                    thead { tr { th { "what" } th { "the paper" } th { "here" } th { "where it says so" } } }
                    tbody {
                        @for Beside { what, paper, here, source } in values {
                            tr { td { (what) } td { (paper) } td { (here) } td { (source) } }
                        }
                    }
                }
            }
            p.source { "The paper's machine: " (machine) "." }
        }
    }
}

fn targets(targets: &[Held]) -> Markup {
    let (met, short): (Vec<&Held>, Vec<&Held>) = targets.iter().partition(|target| target.met);
    html! {
        section id="targets" {
            h2 { "Targets" }
            @if targets.is_empty() {
                p { "Not measured in this form of the report." }
            } @else {
                p { "Those of " code { "woodlot bench --check" } ": " (met.len()) " met, "
                    (short.len()) " short. C is the hot compare-and-swap of the same run." }
                @if !short.is_empty() {
                    h3 { "Short (" (short.len()) ")" }
                    (held(&short))
                }
                details {
                    summary { "Met (" (met.len()) ")" }
                    (held(&met))
                }
            }
        }
    }
}

fn held(targets: &[&Held]) -> Markup {
    html! {
        div.scroll {
            table.whole {
                thead { tr { th { "target" } th { "figure, what it is held against, ratio, limit" } } }
                tbody {
                    @for target in targets { tr { td { (target.name) } td { (target.text) } } }
                }
            }
        }
    }
}

fn behind(data: &Data) -> Markup {
    html! {
        section id="data" {
            h2 { "Data" }
            p { "Beside this page: " a href="report.json" { "report.json" } " (everything, each \
                repetition), " a href="times.csv" { "times.csv" } ", " a href="frag.csv" { "frag.csv" }
                ", " a href="traces.csv" { "traces.csv" } ". Two runs are compared by "
                code { "woodlot report --compare A.json B.json" } "." }
            @if !data.missing.is_empty() {
                h3 { "What could not be measured" }
                ul { @for missing in &data.missing { li { (missing) } } }
            }
        }
    }
}
