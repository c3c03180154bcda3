//! How long calls took: so many of each length.

use std::time::{Duration, Instant};

/// Steps from one power of two to the next: a bound is at the most an eighth above what was measured.
const STEPS: u64 = 8;
/// Up to 2^40 ns.
const BOUNDS: usize = 40 * STEPS as usize;

/// How long somebody waited each time, in ns, to an eighth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    counts: Vec<u64>,
    /// The longest, in ns.
    pub longest: u64,
    /// How many.
    pub count: u64,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits::new()
    }
}

impl Waits {
    /// None yet.
    pub fn new() -> Waits {
        Waits { counts: vec![0; BOUNDS], longest: 0, count: 0 }
    }

    /// One more.
    pub fn add(&mut self, wait: Duration) {
        let ns = wait.as_nanos() as u64;
        self.counts[place(ns).min(BOUNDS - 1)] += 1;
        self.longest = self.longest.max(ns);
        self.count += 1;
    }

    /// One more: how long a call takes. What it returns.
    #[inline(always)]
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let result = call();
        self.add(before.elapsed());
        result
    }

    /// Those of another one, too.
    pub fn join(&mut self, other: &Waits) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(one, other)| *one += other);
        self.longest = self.longest.max(other.longest);
        self.count += other.count;
    }

    /// All but one in `n` were at the most so long, in ns, rounded up to an eighth.
    pub fn all_but_one_in(&self, n: u64) -> u64 {
        let mut above = self.count;
        let enough = self.counts.iter().position(|count| {
            above -= count;
            above * n <= self.count
        });
        bound(enough.unwrap_or(BOUNDS - 1)).min(self.longest)
    }
}

/// Where waits of so many ns are counted.
fn place(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2() - STEPS.ilog2());
    ((power + 1) * STEPS + (ns >> power) - STEPS) as usize
}

/// The longest wait that is counted there.
fn bound(place: usize) -> u64 {
    let (power, step) = (place as u64 / STEPS, place as u64 % STEPS);
    match power {
        0 => step,
        _ => ((STEPS + step + 1) << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_an_eighth_apart() {
        for ns in (0..5000).chain([1 << 20, (1 << 30) + 1, 3 << 35]) {
            let bound = bound(place(ns));
            assert!(ns <= bound && bound <= ns + ns / 8, "{ns}: {bound}");
        }
        assert!((1..BOUNDS).all(|place| bound(place) > bound(place - 1)));
    }

    #[test]
    fn so_many_are_above() {
        let mut waits = Waits::new();
        (1..=1000).for_each(|ns| waits.add(Duration::from_nanos(ns)));
        assert_eq!([2, 1000, 1_000_000].map(|n| waits.all_but_one_in(n)), [511, 1000, 1000]);
        let mut both = Waits::new();
        both.join(&waits);
        assert_eq!(both, waits);
        both.add(Duration::from_secs(1));
        assert_eq!((both.count, both.longest), (1001, 1_000_000_000));
        assert_eq!(both.all_but_one_in(1000), 1023, "of the 1001 one is longer");
    }
}
