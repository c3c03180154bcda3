//! What a pair of alloc and free takes beside the floor: a push and a pop by restartable sequences, and nothing else.
//!
//! ```text
//! cargo run --release -p woodlot-malloc --example pair
//! ```
//!
//! Rounds of all contenders take turns. Thread CPU time; the least and the median of the rounds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Duration;

use woodlot_malloc::Woodlot;

const PAIRS: u32 = 200_000;
const ROUNDS: usize = 101;

fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A contender: its name, and what does `PAIRS` pairs.
type Contender = (&'static str, fn(usize));

fn system(bytes: usize) {
    let layout = Layout::from_size_align(bytes, 8).expect("a layout");
    for _ in 0..PAIRS {
        // SAFETY: each block is freed with its layout.
        unsafe { System.dealloc(black_box(System.alloc(layout)), layout) };
    }
}

fn run_time(bytes: usize) {
    for _ in 0..PAIRS {
        let layout = Layout::from_size_align(black_box(bytes), 8).expect("a layout");
        // SAFETY: as above.
        unsafe { Woodlot.dealloc(black_box(Woodlot.alloc(layout)), layout) };
    }
}

/// The size is known when the program is compiled: what the paper calls a cookie.
fn known<const BYTES: usize>(_: usize) {
    let layout = Layout::from_size_align(BYTES, 8).expect("a layout");
    for _ in 0..PAIRS {
        // SAFETY: as above.
        unsafe { Woodlot.dealloc(black_box(Woodlot.alloc(layout)), layout) };
    }
}

fn without_size(bytes: usize) {
    for _ in 0..PAIRS {
        let block = woodlot_malloc::alloc(black_box(bytes)).expect("memory");
        // SAFETY: the block was just allocated.
        unsafe { woodlot_malloc::free(black_box(block)) };
    }
}

/// A list of blocks for each CPU, and nothing that an allocator needs.
#[cfg(target_arch = "x86_64")]
mod floor {
    use std::arch::asm;
    use std::hint::black_box;

    use super::PAIRS;

    #[repr(C, align(512))]
    struct List(*mut u64, [u64; 63]);

    macro_rules! sequence {
        ($($code:literal),* ; $($operands:tt)*) => {
            asm!(
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "7: .long 0, 0",
                ".quad 2f, 3f - 2f, 4f",
                ".popsection",
                "5: lea {t}, [rip + 7b]",
                "mov qword ptr fs:[{area} + 8], {t}",
                "2: mov {cpu:e}, dword ptr fs:[{area} + 4]",
                "shl {cpu:e}, 9",
                $($code,)*
                "3:",
                ".pushsection .text.rseq, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "4: jmp 5b",
                ".popsection",
                $($operands)*
            )
        };
    }

    pub fn pairs(_: usize) {
        let area: *const isize;
        // SAFETY: a load of an address.
        unsafe { asm!("mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]", out(reg) area) };
        // SAFETY: glibc's constant.
        let area = unsafe { area.read() };
        let mut blocks = [[0u64; 2]; 1024];
        let mut lists: Vec<List> = Vec::new();
        for block in &mut blocks {
            lists.push(List(block.as_mut_ptr(), [0; 63]));
        }
        let lists = lists.as_mut_ptr();
        for _ in 0..PAIRS {
            let block: *mut u64;
            // SAFETY: each CPU's list has its block whenever nobody has taken it; blocks and lists live to the end.
            unsafe {
                sequence!(
                    "mov {t}, qword ptr [{lists} + {cpu}]",
                    "test {t}, {t}",
                    "jz 3f",
                    "mov {rest}, qword ptr [{t}]",
                    "mov qword ptr [{lists} + {cpu}], {rest}";
                    area = in(reg) area, lists = in(reg) lists,
                    cpu = out(reg) _, rest = out(reg) _, t = out(reg) block, options(nostack)
                );
                let block = black_box(block);
                sequence!(
                    "mov {t}, qword ptr [{lists} + {cpu}]",
                    "mov qword ptr [{block}], {t}",
                    "mov qword ptr [{lists} + {cpu}], {block}";
                    area = in(reg) area, lists = in(reg) lists, block = in(reg) block,
                    cpu = out(reg) _, t = out(reg) _, options(nostack)
                );
            }
        }
    }
}

fn main() {
    let contenders: &[(Contender, usize)] = &[
        #[cfg(target_arch = "x86_64")]
        (("floor", floor::pairs as fn(usize)), 32),
        (("known", known::<32>), 32),
        (("run time", run_time), 32),
        (("without size", without_size), 32),
        (("system", system), 32),
        (("known", known::<256>), 256),
        (("run time", run_time), 256),
        (("without size", without_size), 256),
        (("system", system), 256),
        (("known", known::<2048>), 2048),
        (("run time", run_time), 2048),
        (("without size", without_size), 2048),
        (("system", system), 2048),
    ];
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for (&((_, pairs), bytes), times) in contenders.iter().zip(&mut times) {
            let start = cpu_time();
            pairs(bytes);
            times.push((cpu_time() - start).as_nanos() as f64 / f64::from(PAIRS));
        }
    }
    println!("restartable sequences: {}", woodlot_malloc::is_restartable());
    println!("{:>6} {:<14} {:>8} {:>8}   ns for a pair", "bytes", "", "least", "median");
    for (&((name, _), bytes), times) in contenders.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{bytes:>6} {name:<14} {:>8.2} {:>8.2}", times[0], times[ROUNDS / 2]);
    }
}
