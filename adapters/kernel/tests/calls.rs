//! Calls between threads as CPUs, which look for calls now and then: nothing interrupts them.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use common::{Arena, Threads};
use woodlot_frame::Base4K;
use woodlot_kernel::{Calls, Cpus, Heap};
use woodlot_llfree::LLFree;

const FOREVER: usize = usize::MAX;

fn calls(patience: usize) -> Calls<Threads, 4> {
    Calls::new(Threads, |_| (), patience)
}

/// Adds on a CPU, and says whether it could.
fn add(cpus: &impl Cpus, cpu: usize, to: &mut usize) -> bool {
    cpus.call(cpu, &mut || *to += 1)
}

#[test]
fn a_cpu_calls_itself_and_nobody_who_does_not_answer() {
    let (cpus, mut calls_made) = (calls(100), 0);
    assert!(add(&cpus, 0, &mut calls_made), "a CPU reaches itself, open or not");
    assert!(!add(&cpus, 1, &mut calls_made), "a CPU answers that has not said so");
    assert!(!add(&cpus, 4, &mut calls_made), "there is no such CPU");
    Threads::be(1);
    cpus.open();
    Threads::be(0);
    assert!(!add(&cpus, 1, &mut calls_made), "a CPU answers that does nothing");
    Threads::be(1);
    cpus.answer();
    assert_eq!(calls_made, 1, "a request was done that had been withdrawn");
    cpus.close();
    Threads::be(0);
    assert!(!add(&cpus, 1, &mut calls_made));
}

/// How often a kernel was told that a caller waits for a lock: it answers a flush of its translations, say.
#[derive(Default)]
struct Waits(AtomicUsize);

// SAFETY: one thread uses it.
unsafe impl Cpus for Waits {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        (0, ())
    }

    fn leave(&self, (): ()) {}

    fn wait(&self, tries: usize) {
        self.0.fetch_add(tries, Ordering::Relaxed);
    }
}

#[test]
fn a_kernel_is_told_who_waits_for_a_lock() {
    let waits = Waits::default();
    let cpus: Calls<&Waits, 1> = Calls::new(&waits, |_| (), FOREVER);
    Cpus::wait(&cpus, 3);
    assert_eq!(waits.0.load(Ordering::Relaxed), 3, "it spins by itself");
}

/// CPU 0 asks, and CPU 1 does again and again what answers.
fn asked(answer: impl Fn(&Calls<Threads, 4>) + Sync) {
    // A second or more.
    let (cpus, over) = (calls(1 << 26), AtomicBool::new(false));
    let (cpus, over, answer) = (&cpus, &over, &answer);
    let opened = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            Threads::be(1);
            cpus.open();
            opened.store(true, Ordering::Release);
            while !over.load(Ordering::Acquire) {
                answer(cpus);
                thread::yield_now();
            }
        });
        while !opened.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let (mut by, mut sum) = (usize::MAX, 0);
        let is_called = cpus.call(1, &mut || by = Threads.enter().0);
        let times = (0..20).take_while(|_| is_called && add(cpus, 1, &mut sum)).count();
        // A panic would wait for the other thread.
        over.store(true, Ordering::Release);
        assert!(is_called, "nobody answers");
        assert_eq!(by, 1, "it was done on another CPU");
        assert_eq!((times, sum), (20, 20), "each is done once");
    });
}

#[test]
fn what_one_asks_another_does() {
    asked(Calls::answer);
}

/// As for a lock that the one has who asks.
#[test]
fn who_waits_for_a_lock_answers() {
    asked(|cpus| Cpus::wait(cpus, 0));
}

/// All call all, without anybody that answers otherwise: who waits answers.
#[test]
fn cpus_that_call_each_other_do_not_hang() {
    const CPUS: usize = 4;
    let rounds = if cfg!(miri) { 3 } else { 100 };
    let (cpus, opened, ended) = (&calls(FOREVER), &AtomicUsize::new(0), &AtomicUsize::new(0));
    let sums: [AtomicUsize; CPUS] = [const { AtomicUsize::new(0) }; CPUS];
    let sums = &sums;
    let wait = |count: &AtomicUsize| {
        count.fetch_add(1, Ordering::AcqRel);
        while count.load(Ordering::Acquire) < CPUS {
            cpus.answer();
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        for cpu in 0..CPUS {
            scope.spawn(move || {
                Threads::be(cpu);
                cpus.open();
                wait(opened);
                for round in 0..rounds {
                    let other = (cpu + 1 + round % (CPUS - 1)) % CPUS;
                    assert!(cpus.call(other, &mut || {
                        assert_eq!(Threads.enter().0, other);
                        sums[other].fetch_add(1, Ordering::Relaxed);
                    }));
                }
                wait(ended);
            });
        }
    });
    let sum: usize = sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, CPUS * rounds);
}

/// Impatient calls, whose requests are withdrawn while others answer them: each is done once, or not at all.
#[test]
fn a_call_says_whether_it_was_done() {
    let rounds = if cfg!(miri) { 50 } else { 2000 };
    let (cpus, over, opened) = (&calls(3), &AtomicBool::new(false), &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            Threads::be(1);
            cpus.open();
            opened.store(true, Ordering::Release);
            while !over.load(Ordering::Acquire) {
                cpus.answer();
            }
        });
        while !opened.load(Ordering::Acquire) {
            thread::yield_now();
        }
        for _ in 0..rounds {
            let mut count = 0;
            let done = add(cpus, 1, &mut count);
            assert_eq!(count, usize::from(done), "a call was done, and said otherwise");
        }
        over.store(true, Ordering::Release);
    });
}

/// The last block, which is in the cache of another CPU.
#[test]
fn memory_in_the_cache_of_another_cpu_is_found() {
    let arena = Arena::<LLFree<Base4K>>::new(64);
    let cpus = calls(FOREVER);
    let heap = Heap::<_, _, 4>::new(&cpus, ());
    // SAFETY: every frame is mapped there, and only the heap uses the zone.
    unsafe { heap.start(&*arena.zone, arena.base()) }.expect("it starts");
    let kmem = heap.kmem();
    let blocks: Vec<_> = std::iter::from_fn(|| kmem.alloc(4096)).collect();
    assert_eq!((blocks.len(), arena.free()), (63, 0));
    let (freed, over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let (last, cpus) = (blocks[7].as_ptr().expose_provenance(), &cpus);
    thread::scope(|scope| {
        scope.spawn(move || {
            Threads::be(1);
            let block = std::ptr::with_exposed_provenance_mut(last);
            // SAFETY: it was allocated, and is used no more.
            unsafe { kmem.free(std::ptr::NonNull::new(block).expect("a block"), 4096) };
            cpus.open();
            freed.store(true, Ordering::Release);
            while !over.load(Ordering::Acquire) {
                cpus.answer();
                thread::yield_now();
            }
            cpus.close();
        });
        while !freed.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let found = kmem.alloc(4096).map(|block| block.as_ptr().addr());
        assert_eq!(found, Some(last), "the last block was not found");
        over.store(true, Ordering::Release);
    });
}
