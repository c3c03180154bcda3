//! Models small enough to count by hand, and what the report says of larger ones.

use std::slice::from_ref;

use woodlot_explore::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst, fence};
use woodlot_explore::{Cell, Options, explore, note, settle, wait_until};

/// Adds one in a loop of load and compare-exchange, as real code does.
fn add_one(counter: &AtomicU64) -> u64 {
    loop {
        let old = counter.load(SeqCst);
        if counter.compare_exchange_weak(old, old + 1, SeqCst, SeqCst).is_ok() {
            return old;
        }
    }
}

#[test]
fn independent_steps_make_a_grid() {
    let words = [const { AtomicU32::new(0) }; 2];
    let report = explore(|e| {
        for word in &words {
            e.thread(|| {
                word.store(1, SeqCst);
                fence(SeqCst);
                word.store(2, SeqCst);
            });
        }
    });
    report.assert_complete();
    // 3 x 3 places; 2 x 3 steps of each thread; 4! / (2! 2!) paths.
    assert_eq!((report.states, report.transitions, report.executions), (9, 12, 6));
    assert_eq!((report.finals, report.max_depth, report.runs), (1, 4, 2));
}

#[test]
fn three_by_three_steps() {
    let words = [const { AtomicU32::new(0) }; 3];
    let report = explore(|e| {
        for word in &words {
            e.thread(|| (1..=3).for_each(|value| word.store(value, SeqCst)));
        }
    });
    report.assert_complete();
    // 4^3 places; 3 x 3 x 16 steps; 9! / (3!)^3 paths.
    assert_eq!((report.states, report.transitions, report.executions), (64, 144, 1680));
}

#[test]
fn a_compare_exchange_counter_state_by_state() {
    let counter = AtomicU64::new(0);
    let report = Options::new().solo_progress(4).explore(|e| {
        for _ in 0..2 {
            e.thread(|| note(add_one(&counter)));
        }
        e.finally(|view| {
            assert_eq!(counter.load(SeqCst), 2);
            assert_ne!(view.notes::<u64>(0), view.notes::<u64>(1));
        });
    });
    report.assert_complete();
    // A thread: s(tart), l(oaded 0), m (loaded 1), f(ailed), g (loaded 1 after that), d(one),
    // e (done after g). Words at 0: ss ls sl ll. At 1: ds dl, then thread 1 from s: dm; from l:
    // df dg; and the mirror images: 2 x 5. At 2: dd (via m, each way: 2), de, ed.
    // Done with 0 read and done with 1 read differ, so the two dd are two states.
    assert_eq!((report.states, report.finals), (4 + 10 + 4, 4));
    // 00: 4 x 2. Word at 1: one thread is left, 1 step each.
    assert_eq!(report.transitions, 8 + 10);
    // Paths: either runs before the other has loaded (2), or both load (2 ways) and one wins (2).
    assert_eq!(report.executions, 2 + 4);
}

#[test]
fn settling_joins_histories() {
    let counter = AtomicU64::new(0);
    let model = |settles: bool| {
        explore(|e| {
            for _ in 0..3 {
                e.thread(|| {
                    for _ in 0..2 {
                        add_one(&counter);
                        if settles {
                            settle(&[]);
                        }
                    }
                    note(7_u8);
                });
            }
            e.finally(|view| assert_eq!(view.notes::<u8>(2), [&7]));
            e.finally(|_| assert_eq!(counter.load(SeqCst), 6));
        })
    };
    let (apart, joined) = (model(false), model(true));
    apart.assert_complete();
    joined.assert_complete();
    assert_eq!(joined.finals, 1);
    assert_eq!(joined.executions, apart.executions, "the same schedules");
    assert!(joined.states * 5 < apart.states, "{joined}\n{apart}");
}

#[test]
fn a_fetch_is_one_step_and_a_cut_off_is_told() {
    let counter = AtomicU64::new(0);
    let model = |options: Options| {
        options.explore(|e| {
            for _ in 0..3 {
                e.thread(|| {
                    counter.fetch_add(1, SeqCst);
                    let _ = counter.fetch_update(SeqCst, SeqCst, |v| v.checked_add(1));
                    counter.fetch_max(1, SeqCst);
                });
            }
            e.finally(|_| assert_eq!(counter.load(SeqCst), 6));
        })
    };
    let report = model(Options::new());
    report.assert_complete();
    assert_eq!(report.executions, 1680, "9! / (3!)^3");

    let cut = model(Options::new().max_states(report.states as usize - 1));
    assert!(!cut.complete);
    assert_eq!(cut.states, report.states - 1);
    assert!(std::panic::catch_unwind(|| cut.assert_complete()).is_err());
    model(Options::new().max_states(report.states as usize)).assert_complete();
}

#[test]
fn nothing_is_left_behind() {
    let word = AtomicU64::new(7);
    for _ in 0..2 {
        let report = explore(|e| {
            e.thread(|| word.store(8, SeqCst));
            e.invariant(|_| word.store(9, SeqCst));
            e.finally(|_| assert_eq!(word.load(SeqCst), 8));
            e.finally(|_| assert_eq!(format!("{word:?}"), "AtomicU64(0x8)"));
        });
        assert_eq!(report.states, 2);
        assert_eq!(word.load(SeqCst), 7);
    }
}

#[test]
fn a_check_may_write_what_is_named() {
    let (used, unused) = (AtomicU64::new(0), AtomicU64::new(5));
    explore(|e| {
        e.name("unused", from_ref(&unused));
        e.thread(|| used.store(1, SeqCst));
        e.invariant(|_| assert_eq!(unused.swap(6, SeqCst), 5));
        e.invariant(|_| assert_eq!(AtomicU64::new(1).swap(2, SeqCst), 1));
    });
    assert_eq!(unused.load(SeqCst), 5);
}

#[test]
fn plain_outside_an_exploration() {
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..1000).for_each(|_| note(add_one(&word))));
        }
    });
    wait_until(|| word.load(SeqCst) == 2000);
    static STATIC: AtomicU32 = AtomicU32::new(1);
    assert_eq!(STATIC.swap(2, SeqCst), 1);
    assert_eq!(AtomicU32::from(3).into_inner(), 3);
}

/// Peterson's lock, with waiting that the explorer understands.
#[test]
fn peterson_excludes() {
    let flags = [const { AtomicU32::new(0) }; 2];
    let turn = AtomicU32::new(0);
    let inside = AtomicU32::new(0);
    let report = explore(|e| {
        for me in 0..2 {
            let (flags, turn, inside) = (&flags, &turn, &inside);
            e.thread(move || {
                for _ in 0..2 {
                    flags[me].store(1, SeqCst);
                    turn.store(1 - me as u32, SeqCst);
                    wait_until(|| {
                        flags[1 - me].load(SeqCst) == 0 || turn.load(SeqCst) == me as u32
                    });
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "both inside");
                    inside.fetch_sub(1, SeqCst);
                    flags[me].store(0, SeqCst);
                }
            });
        }
    });
    report.assert_complete();
    assert!(report.finals > 0);
}

/// A cell is one atomic: two looks and two changes are the same graph as loads and stores of a word.
#[test]
fn a_cell_is_one_atomic() {
    let cell = Cell::new(vec![7]);
    let word = AtomicU64::new(0);
    let of_cell = explore(|e| {
        for thread in 0..2 {
            e.thread({
                let cell = &cell;
                move || {
                    let mut held = cell.get();
                    held.push(thread);
                    cell.set(&held);
                }
            });
        }
        e.finally(|_| {
            assert!([vec![7, 0], vec![7, 1], vec![7, 0, 1], vec![7, 1, 0]].contains(&cell.get()))
        });
    });
    let of_word = explore(|e| {
        for thread in 1..3 {
            let word = &word;
            e.thread(move || word.store(word.load(SeqCst) * 10 + thread, SeqCst));
        }
    });
    of_cell.assert_complete();
    assert_eq!(
        (of_cell.states, of_cell.transitions, of_cell.finals),
        (of_word.states, of_word.transitions, of_word.finals)
    );
    assert_eq!(cell.get(), [7], "an exploration changes nothing");
}

/// What a check writes to an atomic that it has met before is forgotten, though no thread knows of it.
#[test]
fn what_was_met_is_known() {
    let words = [const { AtomicU32::new(0) }; 2];
    let report = explore(|e| {
        e.meet(|| {
            words[1].store(7, SeqCst);
            assert_eq!(words[1].load(SeqCst), 7);
        });
        e.thread(|| words[0].store(1, SeqCst));
        e.invariant(|_| assert_eq!(words[1].fetch_add(1, SeqCst), 0));
    });
    assert_eq!(report.states, 2);
    assert_eq!(words[1].load(SeqCst), 0);
}
