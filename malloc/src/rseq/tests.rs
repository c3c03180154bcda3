//! The sequences, on an area of the test's own, which no system aborts: what each does when it comes to its end. So they
//! are tried on an emulator too that knows no restartable sequences.

extern crate std;

use core::arch::asm;
use core::array;
use core::ptr::NonNull;
use std::boxed::Box;

use woodlot_kmem::{List, MAX_SIZES, Sizes, Which, Wide};

use super::area::{CPU_ID, RSEQ_CS};
use super::{CLOSED, area, index, sequence};
use crate::hot::{CACHE_SHIFT, Cache, Hot, LISTS, Word};

/// Caches of no CPU.
const STRANGERS: usize = Hot::NO_CPU.unsigned_abs() as usize;

/// As the system has it.
#[repr(C, align(32))]
struct Area {
    cpu_id_start: u32,
    cpu_id: u32,
    rseq_cs: u64,
    flags: u32,
}

const _: () = assert!(core::mem::offset_of!(Area, cpu_id) == CPU_ID);
const _: () = assert!(core::mem::offset_of!(Area, rseq_cs) == RSEQ_CS);

fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the thread pointer is read.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem));
    }
    pointer
}

/// Two CPUs' caches, and an area that says which CPU this is.
struct Bench {
    area: Box<Area>,
    /// Behind those of no CPU.
    caches: Box<[Cache; STRANGERS + 2]>,
}

impl Bench {
    fn new(cpu: u32) -> Bench {
        let cache = |word| Cache([(); 2 * LISTS].map(|()| Word::new(word)));
        // From here on areas stay where they are.
        assert!(crate::alloc(1).is_some());
        let area = Area { cpu_id_start: cpu, cpu_id: cpu, rseq_cs: 0, flags: 0 };
        let caches = array::from_fn(|at| cache(if at < STRANGERS { CLOSED } else { 0 }));
        Bench { area: Box::new(area), caches: Box::new(caches) }
    }

    /// What leads to the area, where the thread's own one would lead to that in use.
    fn area(&mut self) -> isize {
        let area = (&raw mut *self.area).expose_provenance() as isize;
        area.wrapping_sub_unsigned(thread_pointer()).wrapping_sub(area::behind())
    }

    fn first(&self, index: usize) -> *const Word {
        self.caches.as_ptr().wrapping_add(STRANGERS).cast::<Word>().wrapping_add(index)
    }

    fn word(&self, cpu: usize, index: usize) -> u64 {
        self.caches[STRANGERS + cpu].0[index].load(core::sync::atomic::Ordering::Relaxed)
    }

    fn set(&self, cpu: usize, index: usize, word: u64) {
        self.caches[STRANGERS + cpu].0[index].store(word, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Calls with the area and the place.
macro_rules! on {
    ($bench:expr, $index:expr, $call:ident $(, $argument:expr)*) => {{
        let (area, first) = ($bench.area(), $bench.first($index));
        // SAFETY: the area is one of this test, which no other thread uses, and the word is one in its caches.
        unsafe { sequence::$call(area, first $(, $argument)*) }
    }};
}

#[test]
fn blocks_and_lists_go_to_the_cache_of_this_cpu() {
    let mut memory = [[0u64; 2]; 3];
    let blocks = memory.each_mut().map(|block| NonNull::from(block).cast::<u8>());
    for cpu in 0..2 {
        let mut bench = Bench::new(cpu);
        let (here, there) = (cpu as usize, 1 - cpu as usize);
        for index in [0, 7, MAX_SIZES - 1, LISTS, 2 * LISTS - 1] {
            assert_eq!(on!(bench, index, pop), None);
            assert_eq!(on!(bench, index, exchange, 0), 0);
            let mut list = List::EMPTY;
            for block in blocks {
                assert!(on!(bench, index, push, block, 3));
                // SAFETY: the block is the test's.
                list = unsafe { list.push(block) };
                assert_eq!(bench.word(here, index), list.word());
            }
            assert!(!on!(bench, index, push, blocks[0], 3), "there is no room");
            assert_eq!(bench.word(here, index), list.word());
            assert_eq!(on!(bench, index, pop), Some(blocks[2]));
            assert_eq!(on!(bench, index, pop), Some(blocks[1]));
            let one = bench.word(here, index);
            assert_eq!(List::from_word(one).len(), 1);
            assert!(!on!(bench, index, put, list.word()), "there is a list");
            assert_eq!(on!(bench, index, exchange, 0), one);
            assert_eq!(bench.word(here, index), 0);
            assert_eq!((on!(bench, index, exchange, one), bench.word(here, index)), (0, one));
            assert_eq!(on!(bench, index, exchange, 0), one);
            assert!(on!(bench, index, put, one));
            assert_eq!(on!(bench, index, pop), Some(blocks[0]));
            assert_eq!((on!(bench, index, pop), bench.word(here, index)), (None, 0));
            // Empty to whoever takes, and full to whoever puts.
            bench.set(here, index, CLOSED);
            assert_eq!((on!(bench, index, pop), on!(bench, index, exchange, one)), (None, one));
            assert!(!on!(bench, index, put, one) && !on!(bench, index, push, blocks[0], 3));
            assert_eq!(bench.word(here, index), CLOSED);
            bench.set(here, index, 0);
        }
        assert!((0..2 * LISTS).all(|index| bench.word(there, index) == 0), "another CPU's");
        assert_ne!(bench.area.rseq_cs, 0, "the system was told of a sequence");
    }
}

/// The descriptor that was announced last: where a sequence begins, ends, and goes on after an abort.
#[test]
fn descriptors_are_as_the_system_wants_them() {
    let mut bench = Bench::new(0);
    assert_eq!(on!(bench, 0, pop), None);
    let place = core::ptr::with_exposed_provenance::<[u64; 4]>(bench.area.rseq_cs as usize);
    assert_eq!(place.addr() % 32, 0);
    // SAFETY: the sequence has announced it; it is constant.
    let [head, start, len, abort] = unsafe { place.read() };
    assert_eq!(head, 0, "version and flags");
    assert!(len > 0 && len < 256, "{len}");
    assert!(!(start..start + len).contains(&abort), "an abort leads out of the sequence");
    let before = core::ptr::with_exposed_provenance::<u32>(abort as usize - 4);
    // SAFETY: code of this program may be read.
    assert_eq!(unsafe { before.read_unaligned() }, super::area::SIGNATURE);
}

/// What sequences use before anybody has looked for the areas, and where there are none.
#[test]
fn a_thread_has_no_cpu_until_the_areas_are_known() {
    assert!(crate::alloc(1).is_some(), "areas stay where they are from here on");
    let area = area::no_area().wrapping_sub(area::behind());
    // SAFETY: an area of this thread.
    assert_eq!(unsafe { sequence::cpu(area) }, u32::MAX);
    let mut memory = [0u64; 2];
    let block = NonNull::from(&mut memory).cast::<u8>();
    for which in [Which::Main, Which::Aux] {
        for size in Wide::all() {
            let first = sequence::caches().wrapping_add(index(which, size));
            // SAFETY: as above, and a word of no CPU.
            unsafe {
                assert!(!sequence::push(area, first, block, 3), "it is on a list of no CPU");
                assert!(!sequence::put(area, first, 1), "a list is with those of no CPU");
                assert_eq!(
                    (sequence::pop(area, first), sequence::exchange(area, first, 1)),
                    (None, 1)
                );
            }
        }
    }
}

/// A thread that is not registered: its CPU is -1 or -2. And one that is to go past the caches.
#[test]
fn who_has_no_cpu_has_nothing() {
    let mut memory = [0u64; 2];
    let block = NonNull::from(&mut memory).cast::<u8>();
    for cpu in [-1, -2, Hot::NO_CPU].map(i32::cast_unsigned) {
        let mut bench = Bench::new(cpu);
        assert_eq!((on!(bench, 0, pop), on!(bench, 0, exchange, 1)), (None, 1));
        assert!(!on!(bench, 0, push, block, 3) && !on!(bench, 0, put, 1));
        let area = bench.area();
        // SAFETY: the area is the test's.
        assert_eq!(unsafe { sequence::cpu(area) }, cpu);
    }
    assert_eq!(size_of::<Cache>(), 1 << CACHE_SHIFT);
}
