//! Defects that the explorer must find: a checker that cannot fail is worthless.

use std::cell::Cell;
use std::process::Command;
use std::slice::from_ref;

use woodlot_explore::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use woodlot_explore::{Failure, Model, Options, note, settle, wait_until};

/// The failure of this model, which its schedule must reproduce.
fn failure<'m>(options: &Options, setup: impl Fn(&mut Model<'m>)) -> Failure {
    let failure = options.clone().try_explore(&setup).expect_err("a defect is found");
    let schedule: Vec<usize> = failure.steps.iter().map(|step| step.thread).collect();
    let again = options.clone().schedule(&schedule).try_explore(&setup);
    assert_eq!(again, Err(failure.clone()), "replayed");
    failure
}

/// Two threads add one, each in two steps.
fn lost_update<'m>(counter: &'m AtomicU64, e: &mut Model<'m>) {
    e.name("counter", from_ref(counter));
    for _ in 0..2 {
        e.thread(|| counter.store(counter.load(SeqCst) + 1, SeqCst));
    }
    e.finally(|_| assert_eq!(counter.load(SeqCst), 2, "an update is lost"));
}

#[test]
fn lost_update_is_found() {
    let counter = AtomicU64::new(0);
    let failure = failure(&Options::new(), |e| lost_update(&counter, e));
    assert!(failure.what.contains("an update is lost"), "{failure}");
    assert_eq!(failure.schedule(), "0,1,0,1");
    let text = failure.to_string();
    assert!(text.contains("   3. thread 0  counter.store(0x1)  0x0 -> 0x1\n"), "{text}");
    assert!(text.ends_with("WOODLOT_SCHEDULE=0,1,0,1"), "{text}");
}

/// What `a_schedule_is_replayed` runs as another process.
#[test]
#[ignore = "fails by intention"]
fn lost_update_panics() {
    let counter = AtomicU64::new(0);
    Options::new().explore(|e| lost_update(&counter, e)).assert_complete();
}

#[test]
fn a_schedule_is_replayed() {
    let run = |schedule: &str| {
        let program = std::env::current_exe().expect("the test program has a path");
        let mut command = Command::new(program);
        command.args(["--exact", "lost_update_panics", "--ignored", "--nocapture"]);
        let output = command.env("WOODLOT_SCHEDULE", schedule).output().expect("it runs");
        assert!(!output.status.success(), "{schedule}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = run("1,0,0,1");
    assert!(text.contains("an update is lost") && text.contains("SCHEDULE=1,0,0,1"), "{text}");
    let text = run("1, 1, 0, 0");
    assert!(text.contains("ran without a failure") && text.contains("NOT COMPLETE"), "{text}");
    assert!(run("0,0,0").contains("thread 0 cannot run"));
    assert!(run("0,x").contains("\"x\" is not a thread"));
}

/// A stack of the nodes 1 and 2 (0: nil), whose head has no version.
struct Stack {
    head: AtomicU32,
    next: [AtomicU32; 3],
}

impl Stack {
    /// 1 on top of 2.
    fn full() -> Stack {
        Stack { head: AtomicU32::new(1), next: [0, 2, 0].map(AtomicU32::new) }
    }

    fn pop(&self) -> u32 {
        loop {
            let top = self.head.load(SeqCst);
            let next = self.next[top as usize].load(SeqCst);
            if top == 0 || self.head.compare_exchange(top, next, SeqCst, SeqCst).is_ok() {
                return top;
            }
        }
    }

    fn push(&self, node: u32) {
        loop {
            let top = self.head.load(SeqCst);
            self.next[node as usize].store(top, SeqCst);
            if self.head.compare_exchange(top, node, SeqCst, SeqCst).is_ok() {
                return;
            }
        }
    }
}

#[test]
fn aba_is_found() {
    let model = |e: &mut Model<'_>, ops: usize| {
        let stack = std::rc::Rc::new(Stack::full());
        let (one, other) = (stack.clone(), stack.clone());
        e.thread(move || note(one.pop()));
        e.thread(move || {
            let first = other.pop();
            let second = if ops > 1 { other.pop() } else { 0 };
            if ops > 2 {
                other.push(first);
            } else {
                note(first);
            }
            note(second);
        });
        e.finally(move |view| {
            let mut out: Vec<u32> = [0, 1].iter().flat_map(|&t| view.notes(t)).copied().collect();
            let mut node = stack.head.load(SeqCst);
            while node != 0 && out.len() < 9 {
                out.push(node);
                node = stack.next[node as usize].load(SeqCst);
            }
            out.retain(|&node| node != 0);
            out.sort_unstable();
            assert_eq!(out, [1, 2], "every node is in one place");
        });
    };
    for harmless in [1, 2] {
        let report = Options::new().explore(|e| model(e, harmless));
        report.assert_complete();
    }
    let failure = failure(&Options::new(), |e| model(e, 3));
    assert!(failure.what.contains("every node is in one place"), "{failure}");
}

/// Claims two words, all or nothing; a wrong undo stores what was there before it began.
fn claim_both(words: &[AtomicU32; 2], bit: u32, wrong: bool) -> bool {
    let old = words[0].load(SeqCst);
    if old & bit != 0 || words[0].compare_exchange(old, old | bit, SeqCst, SeqCst).is_err() {
        return false;
    }
    if words[1].fetch_or(bit, SeqCst) & bit == 0 {
        return true;
    }
    if wrong {
        words[0].store(old, SeqCst);
    } else {
        words[0].fetch_and(!bit, SeqCst);
    }
    false
}

#[test]
fn a_wrong_undo_is_found() {
    let model = |e: &mut Model<'_>, wrong: bool| {
        // Bit 0 of the second word is taken, so the claim of bit 0 has to be undone.
        let words = std::rc::Rc::new([AtomicU32::new(0), AtomicU32::new(1)]);
        e.name("word", &*words);
        for bit in [1, 2] {
            let words = words.clone();
            e.thread(move || note(claim_both(&words, bit, wrong)));
        }
        e.invariant(move |view| {
            let owned = view.notes::<bool>(1) == [&true];
            assert!(!owned || words[0].load(SeqCst) & 2 != 0, "an owned bit was freed");
        });
    };
    let report = Options::new().solo_progress(4).explore(|e| model(e, false));
    report.assert_complete();
    let failure = failure(&Options::new(), |e| model(e, true));
    assert!(failure.what.contains("an owned bit was freed"), "{failure}");
    assert!(failure.steps.iter().any(|step| step.to_string().contains("word[0].store")));
}

/// A spin lock around nothing: correct, but everybody waits for a stalled owner.
fn spin_lock<'m>(lock: &'m AtomicU32, declared: bool, e: &mut Model<'m>) {
    for _ in 0..2 {
        e.thread(move || {
            let take = || lock.compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
            if declared {
                wait_until(take)
            } else {
                while !take() {}
            }
            lock.store(0, SeqCst);
        });
    }
}

#[test]
fn a_spinning_waiter_is_found() {
    let lock = AtomicU32::new(0);
    for declared in [false, true] {
        let failure = failure(&Options::new().solo_progress(5), |e| spin_lock(&lock, declared, e));
        assert!(failure.what.starts_with("no progress: thread"), "{failure}");
        assert!(failure.steps.len() <= 7, "{failure}");
    }
    let limited = failure(&Options::new().max_steps(20), |e| spin_lock(&lock, false, e));
    assert!(limited.what.ends_with("takes more than 20 steps"), "{limited}");
    Options::new().explore(|e| spin_lock(&lock, true, e)).assert_complete();
}

#[test]
fn solo_progress_counts_steps() {
    let model = |e: &mut Model<'_>| {
        let word = std::rc::Rc::new(AtomicU32::new(0));
        for _ in 0..2 {
            let word = word.clone();
            e.thread(move || {
                let mut old = word.load(SeqCst);
                while let Err(now) = word.compare_exchange(old, old + 1, SeqCst, SeqCst) {
                    old = now;
                }
            });
        }
    };
    Options::new().solo_progress(2).explore(model).assert_complete();
    // Whoever has been overtaken fails once and then succeeds: 2 steps. From the start, 1 is too
    // few.
    assert_eq!(failure(&Options::new().solo_progress(1), model).schedule(), "0,0");
}

#[test]
fn a_deadlock_is_found() {
    let flags = [const { AtomicU32::new(0) }; 2];
    let failure = failure(&Options::new(), |e| {
        for me in 0..2 {
            let flags = &flags;
            e.thread(move || {
                flags[me].store(1, SeqCst);
                wait_until(|| flags[1 - me].load(SeqCst) == 0);
                flags[me].store(0, SeqCst);
            });
        }
    });
    assert!(failure.what.starts_with("deadlock"), "{failure}");
}

#[test]
fn a_panic_in_a_thread_or_an_invariant_is_a_failure() {
    let word = AtomicU32::new(0);
    let in_thread = failure(&Options::new(), |e| {
        e.thread(|| word.store(1, SeqCst));
        e.thread(|| assert_eq!(word.load(SeqCst), 0, "too late"));
    });
    assert!(in_thread.what.contains("thread 1 panicked"), "{in_thread}");
    assert_eq!(in_thread.schedule(), "0,1");

    let in_invariant = failure(&Options::new(), |e| {
        e.thread(|| word.store(1, SeqCst));
        e.thread(|| assert_ne!(word.compare_exchange(1, 2, SeqCst, SeqCst), Ok(7)));
        e.invariant(|_| assert_ne!(word.load(SeqCst), 2));
    });
    assert_eq!(in_invariant.schedule(), "0,1");
}

#[test]
fn what_breaks_the_rules_is_refused() {
    let (word, other) = (AtomicU32::new(0), AtomicU32::new(0));
    let runs = Cell::new(0);
    let moody = Options::new().try_explore(|e| {
        e.thread(|| {
            runs.set(runs.get() + 1);
            if runs.get() % 2 == 0 { &word } else { &other }.load(SeqCst);
            word.load(SeqCst);
        });
        e.thread(|| word.store(1, SeqCst));
    });
    assert!(moody.unwrap_err().what.contains("not deterministic"));

    let nested = Options::new().try_explore(|e| {
        e.thread(|| {
            let _ = word.fetch_update(SeqCst, SeqCst, |v| Some(v + other.load(SeqCst)));
        });
    });
    assert!(nested.unwrap_err().what.contains("must not touch atomics"));

    let unsettled = Options::new().try_explore(|e| {
        e.thread(|| {
            let seen = word.load(SeqCst);
            settle(&[]);
            other.store(seen, SeqCst);
        });
        e.thread(|| word.store(1, SeqCst));
    });
    assert!(unsettled.unwrap_err().what.contains("settled on one state"));

    let empty = std::panic::catch_unwind(|| Options::new().try_explore(|_| {}));
    assert!(empty.is_err());
}
