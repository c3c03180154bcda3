//! Clocks, CPUs, and what the compiler must not see.

use std::sync::OnceLock;
use std::time::Instant;

/// What a thread did and how long that took.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: f64,
    /// Time on the wall, in nanoseconds.
    pub wall_ns: f64,
}

impl Tally {
    /// Runs a loop, which says how many operations it did, and adds its time.
    #[inline(always)]
    pub fn time(&mut self, work: impl FnOnce() -> usize) {
        let (cost_cpu, cost_wall) = *COST.get_or_init(cost);
        let (cpu, wall, operations) = stopwatch(work);
        self.operations += operations as u64;
        self.cpu_ns += (cpu - cost_cpu).max(0.0);
        self.wall_ns += (wall - cost_wall).max(0.0);
    }

    /// The same of work that starts threads: CPU time is that of the whole process.
    pub fn time_threads(&mut self, work: impl FnOnce() -> usize) {
        let (wall, cpu) = (Instant::now(), process_cpu_seconds());
        self.operations += work() as u64;
        let (cpu, wall) = (process_cpu_seconds().zip(cpu), wall.elapsed().as_nanos() as f64);
        // Where there is no such clock, the wall's stands in for it.
        self.cpu_ns += cpu.map_or(wall, |(end, start)| (end - start) * 1e9);
        self.wall_ns += wall;
    }

    /// This and what another thread did.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            operations: self.operations + other.operations,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            wall_ns: self.wall_ns + other.wall_ns,
        }
    }

    /// CPU time for each operation, in nanoseconds.
    pub fn cpu(&self) -> f64 {
        self.cpu_ns / self.operations.max(1) as f64
    }

    /// Time on the wall for each operation, as one thread sees it, in nanoseconds.
    pub fn wall(&self) -> f64 {
        self.wall_ns / self.operations.max(1) as f64
    }
}

/// What measuring nothing costs, by both clocks.
static COST: OnceLock<(f64, f64)> = OnceLock::new();

#[inline(always)]
fn stopwatch(work: impl FnOnce() -> usize) -> (f64, f64, usize) {
    let wall = Instant::now();
    let cpu = thread_cpu_ns();
    let operations = work();
    let cpu = thread_cpu_ns() - cpu;
    (cpu as f64, wall.elapsed().as_nanos() as f64, operations)
}

/// The smallest of many measurements of nothing.
fn cost() -> (f64, f64) {
    let samples = (0..1000).map(|_| stopwatch(|| 0));
    samples.fold((f64::INFINITY, f64::INFINITY), |least, (cpu, wall, _)| {
        (least.0.min(cpu), least.1.min(wall))
    })
}

/// CPU time of this thread.
#[cfg(unix)]
fn thread_cpu_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// CPU time of this process up to now, all threads together, in seconds; nothing where there is no
/// such clock.
pub fn process_cpu_seconds() -> Option<f64> {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(now.tv_sec as f64 + now.tv_nsec as f64 / 1e9)
    }
    #[cfg(not(unix))]
    None
}

/// Where there is no such clock, the wall's stands in for it.
#[cfg(not(unix))]
fn thread_cpu_ns() -> i64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as i64
}

/// The CPUs that this process may use, by rising number; empty where that cannot be known.
pub fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(allowed)
}

/// Keeps this thread on the `index`-th of the CPUs that it may use, in turn.
pub fn pin(index: usize) {
    if let Some(&cpu) = cpus().get(index % cpus().len().max(1)) {
        pin_to(cpu);
    }
}

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[cfg(target_os = "linux")]
fn pin_to(cpu: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    set.set(cpu);
    // The CPU may have gone meanwhile; the thread then runs where it can.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn pin_to(_: usize) {}

/// Hides a variable's value from the compiler.
macro_rules! hide {
    ($value:ident) => {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
        // SAFETY: the template has no instruction; it reads and writes one register, as declared.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) $value, options(nomem, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        {
            $value = std::hint::black_box($value);
        }
    };
}

/// Hides a value from the compiler in a register, without an instruction: what comes out may be
/// any number, as far as it knows.
#[inline(always)]
pub fn opaque(mut value: usize) -> usize {
    hide!(value);
    value
}

/// The same of an address. By way of its number it would take up to three instructions, which a loop around nothing does not
/// have.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written there")]
pub fn opaque_address(mut value: *mut u8) -> *mut u8 {
    hide!(value);
    value
}

/// Brings a place into the cache while other work goes on, where there is an instruction for that. It
/// need not be there.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction accesses nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(place.cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_by_both_clocks() {
        let mut tally = Tally::default();
        tally.time(|| (0..1_000_000).fold(0, |sum, i| opaque(sum + i)).min(10));
        assert_eq!(tally.operations, 10);
        assert!(tally.cpu_ns > 0.0 && tally.wall_ns > 0.0, "{tally:?}");
        let both = tally.and(tally);
        assert_eq!((both.operations, both.cpu()), (20, tally.cpu()));
    }

    #[test]
    fn the_time_of_threads_is_that_of_all() {
        let spin = || (0..20_000_000).fold(0, |sum, i| opaque(sum + i)).min(1);
        let (mut alone, mut own, mut all) = (Tally::default(), Tally::default(), Tally::default());
        alone.time(spin);
        let there = || std::thread::scope(|scope| scope.spawn(spin).join().unwrap());
        own.time(there);
        all.time_threads(there);
        assert_eq!((own.operations, all.operations), (1, 1));
        assert!(own.cpu_ns < alone.cpu_ns / 2.0, "{own:?} of a thread that waits; {alone:?}");
        assert!(all.cpu_ns > alone.cpu_ns / 2.0, "{all:?} of one that works; {alone:?}");
        assert!(all.wall_ns > 0.0);
    }

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        let all = cpus().to_vec();
        let there = std::thread::spawn(|| {
            pin(1);
            allowed()
        });
        let there = there.join().unwrap();
        assert!(all.is_empty() || there == [all[1 % all.len()]], "{there:?} of {all:?}");
    }
}
