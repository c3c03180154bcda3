//! What the paper finds, judged by this run's figures.

use woodlot_bench::kmem::{Interface, Load, Metric};

use super::Heaps;
use super::findings::misses;
use crate::report::claims::{Claim, claim};
use crate::report::words::number;

/// Judges every claim, on a machine with so many CPUs.
pub fn claims(heaps: Option<&Heaps>, cpus: usize) -> Vec<Claim> {
    let found = |of: &dyn Fn(&Heaps) -> Option<(String, bool)>| heaps.and_then(of);
    vec![
        claim(
            "kmem: the cookie makes a pair about twice as fast as the standard interface",
            "Kernel memory, section 4.2, figure 7",
            "256 B, one thread, medians: the standard interface takes 1.5 to 2.5 × the cookie's time",
            found(&twice),
        ),
        claim(
            "kmem: pairs are linear in the number of CPUs",
            "Kernel memory, section 4.2, figure 7",
            "256 B, with a thread on every CPU: at most 1.05 × the CPU time of one thread, by either interface",
            found(&|heaps| linear(heaps, cpus)),
        ),
        claim(
            "kmem: the common case is free from cache-thrashing",
            "Kernel memory, section 4.2",
            "no cache line moves from CPU to CPU for a pair, on up to 64 CPUs, counted",
            found(&|heaps| {
                let (moved, cpus) = heaps.moved()?;
                Some((format!("{} lines on up to {cpus} CPUs", number(moved)), moved == 0.0))
            }),
        ),
        claim(
            "kmem: a pair takes no more instructions than the paper's",
            "Kernel memory, section 4.1 (13 + 13 and 35 + 32, of an 80x86)",
            "256 B, without the loop: at most 26 by a cookie, at most 67 by the standard interface",
            found(&|heaps| {
                let of = |interface| heaps.instructions(interface);
                let (cookie, standard) = (of(Interface::Cookie)?, of(Interface::Standard)?);
                let said = format!("{} and {}", number(cookie), number(standard));
                Some((said, cookie <= 26.0 && standard <= 67.0))
            }),
        ),
        claim(
            "kmem: all of memory can be had in one size, and then in the next, without delays",
            "Kernel memory, section 4.3, figure 9",
            "the worst case goes through every size, and never takes more than 1.02 × what is in use",
            found(&|heaps| {
                let peak = heaps.worst_peak()?;
                Some((format!("at most {} ×", number(peak)), peak <= 1.02))
            }),
        ),
        claim(
            "kmem: in the worst case freeing small blocks costs more than allocating them",
            "Kernel memory, section 4.3, figure 9",
            "16 B: the median of a free is more than that of an allocation",
            found(&|heaps| {
                let of = |metric| heaps.worst_of(metric, 16);
                let (alloc, free) = (of(Metric::Alloc)?, of(Metric::Free)?);
                Some((format!("{} and {} ns", number(alloc), number(free)), free > alloc))
            }),
        ),
        claim(
            "kmem: in the worst case large blocks cost more than small ones",
            "Kernel memory, section 4.3, figure 9",
            "the median allocation of 4096 B takes more than that of 16 B",
            found(&|heaps| {
                let of = |bytes| heaps.worst_of(Metric::Alloc, bytes);
                let (small, large) = (of(16)?, of(4096)?);
                Some((format!("{} and {} ns", number(small), number(large)), large > small))
            }),
        ),
        claim(
            "kmem: each layer misses no more often than 1 / target and 1 / gbltarget",
            "Kernel memory, section 4.4",
            "the lock manager, without flushes: every size, allocations and frees, both layers",
            found(&bounds),
        ),
        claim(
            "kmem: little is wasted at a high load, and more when the load falls",
            "Kernel memory, tables 5 and 6 (9.7 % and 34.8 %)",
            "powers of two: at most 9.7 % of the slabs at the heavy load, and more than that at the low one",
            found(&|heaps| {
                let of = |load| heaps.waste_percent(0, load);
                let (heavy, low) = (of(Load::Heavy)?, of(Load::Low)?);
                let said = format!("{} % and {} %", number(heavy), number(low));
                Some((said, heavy <= 9.7 && low > heavy))
            }),
        ),
        claim(
            "kmem: with one pool the caches are about as near as what is freed to them",
            "Kernel memory, section 5.5, equations 5 and 6",
            "of what leaves the caches of CPUs, the share near is within 0.05 of the one computed, in every row",
            found(&|heaps| {
                let apart = heaps.purity_apart(|row| row.paper)?;
                Some((format!("at most {} apart", number(apart)), apart <= 0.05))
            }),
        ),
        claim(
            "kmem: pools for each node keep memory near",
            "Kernel memory, section 5.5 (its exploration is left to others there)",
            "frees go by address, half of them of far blocks: all that is allocated is near",
            found(&|heaps| {
                let pools = heaps.pools()?;
                let said = format!("{} near of what was allocated", number(pools.allocated));
                Some((said, pools.allocated == 1.0))
            }),
        ),
    ]
}

fn twice(heaps: &Heaps) -> Option<(String, bool)> {
    let (cookie, standard) =
        (heaps.pair(Interface::Cookie, 1)?, heaps.pair(Interface::Standard, 1)?);
    let ratio = standard / cookie;
    let said = format!("{} and {} ns: {} ×", number(cookie), number(standard), number(ratio));
    Some((said, (1.5..=2.5).contains(&ratio)))
}

fn linear(heaps: &Heaps, cpus: usize) -> Option<(String, bool)> {
    let ratio = |interface| Some(heaps.pair(interface, cpus)? / heaps.pair(interface, 1)?);
    let (cookie, standard) = (ratio(Interface::Cookie)?, ratio(Interface::Standard)?);
    let said = format!("{} × and {} × on {cpus} CPUs", number(cookie), number(standard));
    (cpus > 1).then_some((said, cookie.max(standard) <= 1.05))
}

fn bounds(heaps: &Heaps) -> Option<(String, bool)> {
    let rows = &heaps.locks[0];
    rows.first()?;
    let over = rows.iter().flat_map(|row| {
        let (misses, [first, second]) = (misses(row), row.bounds.map(|bound| 100.0 * bound));
        let over = |rates: [f64; 2], most: f64| rates.into_iter().any(|rate| rate > most);
        let wrong = over(misses.first, first) || over(misses.second, second);
        wrong.then(|| format!("{} B is above its bound", row.bytes))
    });
    let over: Vec<String> = over.collect();
    let said = if over.is_empty() { "none is above its bound".into() } else { over.join("; ") };
    Some((said, over.is_empty()))
}
