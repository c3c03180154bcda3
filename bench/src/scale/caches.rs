//! A model of caches: who has each line, what an access to it costs, and who waits for whom.
//!
//! ```text
//!   line    who has it │ who wrote it last (as long as nobody else has it) │ busy until
//!   access  local      the CPU has it, and nobody else where it writes
//!           transfer   another CPU has it: it comes from there, or is taken from all who have it
//!           cold       nobody has it
//! ```
//!
//! Caches are as large as need be and coherent, lines have 64 bytes, and every CPU is as far from
//! every other one. A line is transferred once at a time: whoever needs it while it is under way
//! waits in a queue.

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

#[derive(Clone, Copy, Default)]
struct Line {
    holders: [u64; MOST_CPUS / 64],
    busy_until: f64,
}

impl Line {
    fn has(&self, cpu: usize) -> bool {
        self.holders[cpu / 64] >> (cpu % 64) & 1 != 0
    }

    fn holders(&self) -> u32 {
        self.holders.iter().map(|word| word.count_ones()).sum()
    }
}

/// All lines, and the clock of each CPU.
pub struct Caches {
    costs: Costs,
    lines: Vec<Line>,
    clocks: Vec<f64>,
    waited: f64,
}

impl Caches {
    /// Lines that nobody has.
    pub fn new(lines: usize, cpus: usize, costs: Costs) -> Caches {
        Caches { costs, lines: vec![Line::default(); lines], clocks: vec![0.0; cpus], waited: 0.0 }
    }

    /// A CPU reads or writes a line.
    pub fn access(&mut self, cpu: usize, line: usize, written: bool) -> Way {
        let Caches { costs, lines, clocks, waited } = self;
        let (line, clock) = (&mut lines[line], &mut clocks[cpu]);
        let (mine, all) = (line.has(cpu), line.holders());
        let way = match (all, mine) {
            (0, _) => Way::Cold,
            (1, true) => Way::Local,
            (_, true) if !written => Way::Local,
            _ => Way::Transfer,
        };
        match way {
            // What a line costs that comes from memory is no matter of other CPUs.
            Way::Local | Way::Cold => *clock += if written { costs.write } else { costs.read },
            Way::Transfer => {
                let start = clock.max(line.busy_until);
                *waited += start - *clock;
                *clock = start + costs.transfer;
                line.busy_until = *clock;
            }
        }
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
        self.clocks[cpu] = self.clocks[cpu].max(self.clocks[other]) + self.costs.read;
    }

    /// The time of all CPUs together, and how much of it they waited for lines under way.
    pub fn time(&self) -> (f64, f64) {
        (self.clocks.iter().sum(), self.waited)
    }

    /// All clocks begin anew; lines stay where they are.
    pub fn restart(&mut self) {
        self.clocks.fill(0.0);
        self.lines.iter_mut().for_each(|line| line.busy_until = 0.0);
        self.waited = 0.0;
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
        assert_eq!(caches.time(), (50.0 + 100.0 + 150.0, 50.0 + 100.0));
        assert_eq!(caches.next(), 1);
        caches.wait_for(1, 0);
        assert_eq!(caches.next(), 2);
    }

    #[test]
    fn lines_that_nobody_shares_cost_what_local_accesses_do() {
        let mut caches = Caches::new(2, 2, COSTS);
        for cpu in [0, 1] {
            caches.access(cpu, cpu, true);
            caches.access(cpu, cpu, false);
        }
        assert_eq!(caches.time(), (8.0, 0.0));
    }
}
