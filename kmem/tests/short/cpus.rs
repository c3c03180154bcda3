//! Threads that run on CPUs: one at a time on each, and anywhere between two steps of a call.

use std::cell::Cell;
use std::sync::Mutex;
use std::thread;

use woodlot_kmem::{Cpus, Guarded};

/// Where a thread is.
#[derive(Clone, Copy)]
struct Seat {
    cpu: usize,
    /// How many `enter` have no `leave` yet.
    depth: usize,
    /// Below so many CPUs it goes from one to another whenever it may.
    wanders: usize,
}

thread_local! {
    static SEAT: Cell<Seat> = const { Cell::new(Seat { cpu: 0, depth: 0, wanders: 0 }) };
}

/// This thread runs on the CPU with this number from now on.
pub fn run_on(cpu: usize) {
    SEAT.set(Seat { cpu, depth: 0, wanders: 0 });
}

/// This thread may be moved between two steps of a call from now on, to one of so many CPUs.
pub fn wander(cpus: usize, seed: u64) {
    fastrand::seed(seed);
    SEAT.set(Seat { cpu: 0, depth: 0, wanders: cpus });
}

/// `N` CPUs, each of which is kept to one thread between `enter` and `leave`. There may be others, which have no caches.
pub struct Threads<const N: usize>([Mutex<bool>; N]);

/// Their caches.
pub type Caches<const N: usize> = Guarded<Threads<N>, N>;

pub const fn caches<const N: usize>() -> Caches<N> {
    Guarded::new(Threads([const { Mutex::new(false) }; N]))
}

// SAFETY: the flag of a CPU is held from the first `enter` to the last `leave`, and a thread stays where it is meanwhile.
unsafe impl<const N: usize> Cpus for Threads<N> {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        let mut seat = SEAT.get();
        if seat.depth == 0 {
            if seat.wanders > 0 && fastrand::u8(..) < 32 {
                seat.cpu = fastrand::usize(..seat.wanders);
            }
            while self
                .0
                .get(seat.cpu)
                .is_some_and(|cpu| cpu.lock().is_ok_and(|mut is| std::mem::replace(&mut *is, true)))
            {
                thread::yield_now();
            }
        }
        seat.depth += 1;
        SEAT.set(seat);
        (seat.cpu, ())
    }

    fn leave(&self, (): ()) {
        let mut seat = SEAT.get();
        seat.depth -= 1;
        SEAT.set(seat);
        if seat.depth == 0
            && let Some(cpu) = self.0.get(seat.cpu)
        {
            *cpu.lock().expect("nobody panics with it") = false;
        }
    }

    /// The caller does it itself, in the other one's place. It must not keep its own CPU meanwhile: two CPUs that call
    /// each other would wait for ever.
    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let seat = SEAT.get();
        assert_eq!(seat.depth, 0, "a call from a CPU that is kept");
        run_on(cpu);
        self.enter();
        call();
        self.leave(());
        SEAT.set(seat);
        true
    }
}
