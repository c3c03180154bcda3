//! In words: what is counted rather than timed.

use std::fmt::Write;

use super::count::{Count, most, paper};
use super::curve::Curve;
use super::emptied::Emptied;
use super::purity::PurityRow;
use super::transfers::TransferRow;
use crate::Failure;

const MIB: f64 = 1048576.0;

/// What each heap took, beside what was in use.
pub fn describe_curves(curves: &[Curve], failures: &[String]) -> String {
    let mut text = format!(
        "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}\n",
        "taken over in use", "peak", "median", "min", "max", "peak MiB", "freed MiB", "asked MiB"
    );
    for curve in curves {
        let (Some(peak), Some(ratios), Some(kept)) = (curve.peak(), curve.ratios(), curve.kept())
        else {
            continue;
        };
        let most = curve.moments.iter().map(|moment| moment.taken).max().unwrap_or(0);
        let [most, freed, asked] = [most, kept[0], kept[1]].map(|bytes| bytes as f64 / MIB);
        let _ = writeln!(
            text,
            "{:<24} {peak:>9.3} {:>9.3} {:>9.3} {:>9.3} {most:>9.1} {freed:>10.2} {asked:>10.2}",
            curve.contender, ratios.median, ratios.min, ratios.max
        );
    }
    for failure in failures {
        let _ = writeln!(text, "not measured: {failure}");
    }
    text + "peak: the most taken over the most in use; freed: still taken when all blocks are free; asked: and when \
            the heap was asked for what it keeps\n"
}

/// Computed and counted purity.
pub fn describe_purity(rows: &[PurityRow]) -> String {
    let mut text = format!(
        "{:>11} {:>6} {:>6} {:>6}  {:>8} {:>8} {:>8} {:>9}  {:>8} {:>8} {:>8}\n",
        "burst",
        "p_f",
        "r1",
        "r2",
        "p_e:eq.5",
        "one pool",
        "counted",
        "allocated",
        "p_g:eq.6",
        "one pool",
        "counted"
    );
    let or_none = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    for row in rows {
        let burst = match row.pools {
            true => format!("pools, {}", row.burst),
            false => row.burst.to_string(),
        };
        let ([paper, paper_global], [caches, global]) = (row.paper, row.computed);
        let [r1, r2] = row.rates.map_or([None, None], |rates| rates.map(Some)).map(or_none);
        let _ = writeln!(
            text,
            "{burst:>11} {:>6.3} {r1:>6} {r2:>6}  {paper:>8.3} {caches:>8.3} {:>8} {:>9.3}  \
             {paper_global:>8.3} {global:>8.3} {:>8}",
            row.freed,
            or_none(row.caches),
            row.allocated,
            or_none(row.global)
        );
    }
    text + "p_e: near the CPU, of what leaves its caches; allocated: of that, what is allocated; p_g: of what comes from \
            the global layer\none pool: the equations for one global layer that all nodes share\n"
}

/// Instructions of pairs.
///
/// # Errors
/// None could be counted.
pub fn describe_counts(counts: &[Count]) -> Result<String, Failure> {
    let mut text = format!(
        "{:<33} {:>9} {:>13}  {:<20} {}\n",
        "instructions of a pair", "with loop", "without it", "target", "the paper (4.1)"
    );
    for count in counts {
        let Count { contender, bytes, interface, instructions, with_loop, not_counted } = count;
        let name = format!("{contender:<16} {bytes:>4} B, {interface:<8}");
        let (Some(with_loop), Some(without)) = (with_loop, instructions) else {
            let _ = writeln!(text, "{name} not counted: {}", not_counted.as_deref().unwrap_or("?"));
            continue;
        };
        let (target, paper) = match count.is_met() {
            Some(met) => {
                let verdict = if met { "met" } else { "SHORT" };
                let [alloc, free] = paper(*interface);
                (format!("≤ {} {verdict}", most(*interface)), format!("{alloc} + {free}"))
            }
            None => Default::default(),
        };
        let line = format!("{name:<33} {with_loop:>9.1} {without:>13.1}  {target:<20} {paper}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text += "without it: less the same loop around a heap that does nothing; valgrind has no restartable sequences, so \
             that malloc has the caches of threads\n";
    match counts.iter().find_map(|count| count.not_counted.as_ref()) {
        Some(why) if counts.iter().all(|count| count.instructions.is_none()) => {
            Err(Failure::Failed(why.clone()))
        }
        _ => Ok(text),
    }
}

/// Lines that moved.
pub fn describe_transfers(rows: &[TransferRow]) -> String {
    let mut text = format!(
        "{:<14} {:>6} {:>8} {:>14} {:>14}\n",
        "", "CPUs", "pairs", "lines touched", "moved"
    );
    for row in rows {
        let what = if row.handed_over { "handed over" } else { "pairs" };
        let TransferRow { cpus, pairs, touched, moved, .. } = row;
        let _ = writeln!(text, "{what:<14} {cpus:>6} {pairs:>8} {touched:>14.2} {moved:>14.4}");
    }
    text + "for each pair of an allocation and a free\n"
}

/// What was kept, and what could be had.
pub fn describe_emptied(found: &Emptied) -> String {
    let Emptied { cpus, frames, kept: [cached, kept], free_huge, huge, again } = found;
    let mut text = format!(
        "{frames} frames, {cpus} CPUs, all blocks free: {cached} frames kept, {kept} after flushes ({:.2} a CPU)\n\
         {free_huge} of {huge} huge frames free\n",
        found.kept_each()
    );
    let _ = writeln!(text, "{:>8} {:>10} {:>12}", "bytes", "MiB", "% of memory");
    for &(bytes, had) in again {
        let share = 100.0 * had as f64 / (frames * woodlot_kmem::PAGE) as f64;
        let _ = writeln!(text, "{bytes:>8} {:>10.2} {share:>12.2}", had as f64 / MIB);
    }
    text
}
