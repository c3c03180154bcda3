//! What a call through C costs over the same call from Rust: `cargo xtask capi --bench`.
//!
//! A pair is an allocation of order 0 and its free, on one thread and one slot. Rounds through C and rounds from
//! Rust take turns, each on a zone of its own; the time is the CPU time of the thread.

#[cfg(unix)]
#[path = "../tests/through_c/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod through_c;

#[cfg(unix)]
mod pairs {
    use std::ffi::c_int;
    use std::hint::black_box;

    use rustix::time::{ClockId, clock_gettime};
    use woodlot_capi::types::Block;
    use woodlot_capi::{Zone, woodlot_alloc, woodlot_free};
    use woodlot_frame::{Base4K, FrameAllocator, Init, Order, Owned, Request, Slot, ZoneConfig};
    use woodlot_llfree::LLFree;

    use super::through_c::{CZone, Kind};

    type Alloc = unsafe extern "C" fn(*const Zone, u32, u32, usize) -> Block;
    type Free = unsafe extern "C" fn(*const Zone, usize, u32, usize) -> c_int;

    /// Rounds of each, and pairs in a round.
    const ROUNDS: usize = 201;
    const PAIRS: usize = 100_000;

    struct Shipped;

    impl Kind for Shipped {
        const NAME: &'static str = "llfree, C";
        const ENGINE: u32 = 0;
        const GEOMETRY: u32 = 0;
        type Engine = LLFree<'static, Base4K>;
    }

    /// CPU time of this thread, in nanoseconds.
    fn now() -> f64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    }

    /// Nanoseconds of a pair.
    fn round(pair: impl Fn()) -> f64 {
        let start = now();
        (0..PAIRS).for_each(|_| pair());
        (now() - start) / PAIRS as f64
    }

    fn from_rust(zone: &LLFree<'_, Base4K>) -> f64 {
        let request = Request::movable(Order::BASE, Slot(0));
        round(|| {
            let frame = black_box(zone).alloc(black_box(request)).expect("a frame");
            zone.free(frame, black_box(Order::BASE), Slot(0)).expect("it is allocated");
        })
    }

    fn through_c(zone: &CZone<Shipped>) -> f64 {
        let zone = zone.pointer();
        // What the compiler does not see through it cannot move into the loop.
        let (alloc, free) = black_box((woodlot_alloc as Alloc, woodlot_free as Free));
        round(|| {
            // SAFETY: the handle was filled.
            let block = unsafe { alloc(black_box(zone), black_box(0), black_box(0), 0) };
            assert_eq!(block.error, 0);
            // SAFETY: as above.
            assert_eq!(unsafe { free(zone, block.frame, black_box(0), 0) }, 0);
        })
    }

    /// The median and the least of some times.
    fn sorted(mut times: Vec<f64>) -> (f64, f64) {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[0])
    }

    pub fn compare() {
        let config = ZoneConfig::new(1 << 18, 1);
        let rust = Owned::<LLFree<Base4K>>::new(&config, Init::Free).expect("a zone");
        let c = Owned::<CZone<Shipped>>::new(&config, Init::Free).expect("a zone");
        let (from_rust, through_c): (Vec<_>, Vec<_>) =
            (0..ROUNDS).map(|_| (from_rust(&rust), through_c(&c))).unzip();
        let (rust, c) = (sorted(from_rust), sorted(through_c));
        println!("{ROUNDS} rounds of {PAIRS} pairs of order 0, ns a pair: median, least");
        println!("from Rust  {:6.2} {:6.2}", rust.0, rust.1);
        println!("through C  {:6.2} {:6.2}", c.0, c.1);
        println!("C costs    {:6.2} {:6.2}", c.0 - rust.0, c.1 - rust.1);
    }
}

fn main() {
    #[cfg(unix)]
    pairs::compare();
    #[cfg(not(unix))]
    println!("this machine has no clock of a thread's CPU time");
}
