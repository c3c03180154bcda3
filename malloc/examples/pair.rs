//! What a pair of alloc and free takes, in thread CPU time, beside the floor: a push and a pop by restartable sequences.
//!
//! `cargo run --release -p woodlot-malloc --example pair`
fn main() {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::hint::black_box;
    let pairs = 20_000_000u32;
    let time = |name: &str, call: &mut dyn FnMut()| {
        let mut all: Vec<f64> = (0..7).map(|_| {
            let start = std::time::Instant::now();
            call();
            start.elapsed().as_nanos() as f64 / f64::from(pairs)
        }).collect();
        all.sort_by(f64::total_cmp);
        println!("{name:24} min {:.2} median {:.2} ns", all[0], all[3]);
    };
    for size in [32usize, 256, 2048] {
        let layout = Layout::from_size_align(size, 8).unwrap();
        time(&format!("system {size}"), &mut || for _ in 0..pairs {
            unsafe { let p = black_box(System.alloc(layout)); System.dealloc(p, layout); }
        });
        let layout = Layout::from_size_align(black_box(size), 8).unwrap();
        time(&format!("sized {size}"), &mut || for _ in 0..pairs {
            unsafe { let p = black_box(woodlot_malloc::Woodlot.alloc(layout)); woodlot_malloc::Woodlot.dealloc(p, layout); }
        });
        time(&format!("any {size}"), &mut || for _ in 0..pairs {
            unsafe { let p = black_box(woodlot_malloc::alloc(size)).unwrap(); woodlot_malloc::free(p); }
        });
    }
    let layout = Layout::new::<[u64; 4]>();
    time("cookie 32", &mut || for _ in 0..pairs {
            unsafe { let p = black_box(woodlot_malloc::Woodlot.alloc(layout)); woodlot_malloc::Woodlot.dealloc(p, layout); }
    });
    println!("aborts {}", woodlot_malloc::aborts());
}
