//! A model of caches: who has each line, what an access to it costs, and who waits for whom.
//!
//! ```text
//!   line    who has it │ who wrote it last (as long as nobody else has it) │ when it is under way
//!   access  local      the CPU has it, and nobody else where it writes
//!           transfer   another CPU has it: it comes from there, or is taken from all who have it
//!           cold       nobody has it
//! ```
//!
//! Caches are as large as need be and coherent, lines have 64 bytes, and every CPU is as far from
//! every other one. A line is transferred once at a time: whoever needs it while it is under way
//! waits until a transfer fits between those of others.
//!
//! A call is modelled as a whole, so its last transfers lie ahead of the clocks of other CPUs. One
//! that needs the line earlier than that has it first, and does not wait:
//!
//! ```text
//!   clock            0         50        100       150
//!   CPU 0, a call    ├─ other lines ─────┤█████████│
//!   CPU 1, later     │█████████│                       no wait, although it is modelled after CPU 0's call
//! ```

use std::ops::Range;

/// The most CPUs.
pub const MOST_CPUS: usize = 256;

/// What accesses cost, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// A read of a line that the CPU has.
    pub read: f64,
    /// A write, or a read-modify-write, of a line that the CPU alone has.
    pub write: f64,
    /// A line that comes from another CPU.
    pub transfer: f64,
}

/// How an access went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The line was there.
    Local,
    /// It came from others.
    Transfer,
    /// Nobody had it.
    Cold,
}

#[derive(Clone, Default)]
struct Line {
    holders: [u64; MOST_CPUS / 64],
    /// When it is under way, in order; what has ended before all clocks is forgotten.
    under_way: Vec<Range<f64>>,
}

impl Line {
    fn has(&self, cpu: usize) -> bool {
        self.holders[cpu / 64] >> (cpu % 64) & 1 != 0
    }

    fn holders(&self) -> u32 {
        self.holders.iter().map(|word| word.count_ones()).sum()
    }

    /// It is transferred as soon as it can be from `clock` on, while no CPU is before `earliest`; when that begins.
    fn transfer(&mut self, (clock, earliest): (f64, f64), length: f64) -> f64 {
        self.under_way.retain(|other| other.end > earliest);
        let (mut start, mut at) = (clock, 0);
        for other in &self.under_way {
            if start + length <= other.start {
                break;
            }
            start = start.max(other.end);
            at += 1;
        }
        self.under_way.insert(at, start..start + length);
        start
    }
}

/// What all CPUs together spent, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Times {
    /// On accesses.
    pub spent: f64,
    /// Of that, waiting for lines under way.
    pub queued: f64,
    /// Beside that, with nothing to do.
    pub idle: f64,
}

/// How long a CPU with nothing to do is idle before it looks again, at least.
const LOOK: f64 = 1.0;

/// All lines, and the clock of each CPU.
pub struct Caches {
    costs: Costs,
    lines: Vec<Line>,
    clocks: Vec<f64>,
    times: Times,
}

impl Caches {
    /// Lines that nobody has.
    pub fn new(lines: usize, cpus: usize, costs: Costs) -> Caches {
        let (lines, clocks) = (vec![Line::default(); lines], vec![0.0; cpus]);
        Caches { costs, lines, clocks, times: Times::default() }
    }

    /// A CPU reads or writes a line.
    pub fn access(&mut self, cpu: usize, line: usize, written: bool) -> Way {
        let Caches { costs, lines, clocks, times } = self;
        let (line, clock) = (&mut lines[line], clocks[cpu]);
        let (mine, all) = (line.has(cpu), line.holders());
        let way = match (all, mine) {
            (0, _) => Way::Cold,
            (1, true) => Way::Local,
            (_, true) if !written => Way::Local,
            _ => Way::Transfer,
        };
        let end = match way {
            // What a line costs that comes from memory is no matter of other CPUs.
            Way::Local | Way::Cold => clock + if written { costs.write } else { costs.read },
            Way::Transfer => {
                let earliest = clocks.iter().copied().fold(clock, f64::min);
                let start = line.transfer((clock, earliest), costs.transfer);
                times.queued += start - clock;
                start + costs.transfer
            }
        };
        times.spent += end - clock;
        clocks[cpu] = end;
        if written {
            line.holders = [0; MOST_CPUS / 64];
        }
        line.holders[cpu / 64] |= 1 << (cpu % 64);
        way
    }

    /// The CPU whose clock is behind all others; of several the first.
    pub fn next(&self) -> usize {
        let clocks = self.clocks.iter().enumerate();
        clocks.min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(cpu, _)| cpu)
    }

    /// A CPU has nothing to do until another one is so far.
    pub fn wait_for(&mut self, cpu: usize, other: usize) {
        let (clock, other) = (self.clocks[cpu], self.clocks[other]);
        self.clocks[cpu] = clock.max(other) + LOOK;
        self.times.idle += self.clocks[cpu] - clock;
    }

    /// What all CPUs together have spent.
    pub fn times(&self) -> Times {
        self.times
    }

    /// All clocks begin anew; lines stay where they are.
    pub fn restart(&mut self) {
        self.clocks.fill(0.0);
        self.lines.iter_mut().for_each(|line| line.under_way.clear());
        self.times = Times::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { read: 1.0, write: 3.0, transfer: 50.0 };

    #[test]
    fn a_line_comes_from_others_unless_the_cpu_has_it_as_it_must() {
        let mut caches = Caches::new(2, 200, COSTS);
        let mut access = |cpu, written| caches.access(cpu, 1, written);
        assert_eq!(access(0, false), Way::Cold);
        assert_eq!(access(0, true), Way::Local);
        assert_eq!(access(199, false), Way::Transfer);
        assert_eq!(access(199, false), Way::Local);
        assert_eq!(access(0, false), Way::Local);
        // Both have it: a write takes it from the other one.
        assert_eq!(access(199, true), Way::Transfer);
        assert_eq!(access(199, true), Way::Local);
        assert_eq!(access(0, false), Way::Transfer);
        assert_eq!(caches.access(0, 0, true), Way::Cold);
    }

    #[test]
    fn who_needs_a_line_that_is_under_way_waits() {
        let mut caches = Caches::new(1, 3, COSTS);
        caches.access(0, 0, true);
        caches.restart();
        caches.access(1, 0, true);
        caches.access(2, 0, true);
        caches.access(0, 0, true);
        // 50, then 50 + 50, then 100 + 50.
        let times = Times { spent: 50.0 + 100.0 + 150.0, queued: 50.0 + 100.0, idle: 0.0 };
        assert_eq!(caches.times(), times);
    }

    #[test]
    fn who_needs_a_line_earlier_does_not_wait_for_who_needs_it_later() {
        let mut caches = Caches::new(102, 5, COSTS);
        caches.access(4, 0, true);
        for (cpu, lines) in [(0, 1..101), (2, 1..31), (3, 1..61)] {
            lines.for_each(|line| _ = caches.access(cpu, line, false));
        }
        caches.restart();
        // Their clocks, by reads of lines that they have: 100, 0, 30 and 60.
        for (cpu, lines) in [(0, 1..101), (2, 1..31), (3, 1..61)] {
            lines.for_each(|line| assert_eq!(caches.access(cpu, line, false), Way::Local));
        }
        let mut queued = |cpu| {
            let before = caches.times().queued;
            caches.access(cpu, 0, true);
            caches.times().queued - before
        };
        // From 100 to 150; from 0 to 50, before that; from 50 to 100, between the two; and after all.
        assert_eq!([0, 1, 2, 3].map(&mut queued), [0.0, 0.0, 20.0, 90.0]);
    }

    #[test]
    fn who_has_nothing_to_do_is_idle_and_spends_nothing() {
        let mut caches = Caches::new(1, 2, Costs { read: 0.0, ..COSTS });
        caches.access(1, 0, true);
        assert_eq!(caches.next(), 0);
        caches.wait_for(0, 1);
        assert_eq!(caches.next(), 1);
        assert_eq!(caches.times(), Times { spent: 3.0, queued: 0.0, idle: 3.0 + LOOK });
    }

    #[test]
    fn lines_that_nobody_shares_cost_what_local_accesses_do() {
        let mut caches = Caches::new(2, 2, COSTS);
        for cpu in [0, 1] {
            caches.access(cpu, cpu, true);
            caches.access(cpu, cpu, false);
        }
        assert_eq!(caches.times(), Times { spent: 8.0, queued: 0.0, idle: 0.0 });
    }
}
