//! States and transitions per second, on a model like those of the allocator.
//!
//! `cargo run --release -p woodlot-explore --example speed`

use std::time::Instant;

use woodlot_explore::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use woodlot_explore::{Options, note, settle};

/// A counter of free frames beside a bit field of them.
struct Huge {
    free: AtomicU32,
    bits: AtomicU64,
}

impl Huge {
    fn alloc(&self) -> Option<u32> {
        self.free.fetch_update(SeqCst, SeqCst, |free| free.checked_sub(1)).ok()?;
        loop {
            let bits = self.bits.load(SeqCst);
            let frame = bits.trailing_ones();
            let (from, to) = (bits, bits | 1 << frame);
            if self.bits.compare_exchange(from, to, SeqCst, SeqCst).is_ok() {
                return Some(frame);
            }
        }
    }

    fn free(&self, frame: u32) {
        assert_ne!(self.bits.fetch_and(!(1 << frame), SeqCst) >> frame & 1, 0, "not allocated");
        self.free.fetch_add(1, SeqCst);
    }
}

fn main() {
    for (threads, rounds, settles) in
        [(2, 3, false), (2, 3, true), (3, 1, false), (3, 1, true), (3, 2, true)]
    {
        let huge = Huge { free: AtomicU32::new(8), bits: AtomicU64::new(0) };
        let start = Instant::now();
        let report = Options::new().solo_progress(200).explore(|e| {
            for _ in 0..threads {
                e.thread(|| {
                    for _ in 0..rounds {
                        let frame = huge.alloc().expect("8 are enough");
                        if settles {
                            settle(&[frame.into()]);
                        }
                        note(frame);
                        huge.free(frame);
                        if settles {
                            settle(&[]);
                        }
                    }
                });
            }
            e.invariant(|_| {
                let allocated = huge.bits.load(SeqCst).count_ones();
                assert!(allocated + huge.free.load(SeqCst) <= 8, "a frame from nowhere");
            });
            e.finally(|_| assert_eq!(huge.free.load(SeqCst), 8));
        });
        let seconds = start.elapsed().as_secs_f64();
        let rate = |count: u64| count as f64 / seconds / 1e6;
        println!(
            "{threads} threads x {rounds}, settles {settles}: {report}, {seconds:.2} s: {:.2} M states/s, {:.2} M \
             transitions/s",
            rate(report.states),
            rate(report.transitions)
        );
    }
}
