//! Random programs, explored and also run naively in every order: the same outcomes, as often.

use std::cell::RefCell;
use std::collections::BTreeSet;

use woodlot_explore::atomic::{AtomicU32, Ordering::SeqCst};
use woodlot_explore::{Options, note};

const WORDS: usize = 2;

/// One access to `words[word]`. Whatever it sees is noted; `skip` jumps over the next one if that
/// is odd, so that what a thread does depends on what it has seen.
#[derive(Clone, Copy, Debug)]
struct Op {
    kind: u32,
    word: usize,
    value: u32,
    skip: bool,
}

impl Op {
    fn random(state: &mut u64) -> Op {
        let mut below = |bound: u64| {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 32) % bound
        };
        let (kind, word) = (below(5) as u32, below(WORDS as u64) as usize);
        Op { kind, word, value: below(3) as u32, skip: below(2) == 1 }
    }

    /// On the explorer's atomics.
    fn explored(self, words: &[AtomicU32]) -> u32 {
        let (word, value) = (&words[self.word], self.value);
        match self.kind {
            0 => word.load(SeqCst),
            1 => {
                word.store(value, SeqCst);
                0
            }
            2 => word.swap(value, SeqCst),
            3 => {
                word.compare_exchange(value, value + 1, SeqCst, SeqCst).unwrap_or_else(|seen| seen)
            }
            _ => word.fetch_add(value, SeqCst),
        }
    }

    /// On plain numbers.
    fn naive(self, words: &mut [u32; WORDS]) -> u32 {
        let (word, value) = (&mut words[self.word], self.value);
        let seen = *word;
        match self.kind {
            1 | 2 => *word = value,
            3 if seen == value => *word = value + 1,
            4 => *word += value,
            _ => {}
        }
        if self.kind == 1 { 0 } else { seen }
    }

    fn next(self, place: usize, seen: u32) -> usize {
        place + if self.skip && seen % 2 == 1 { 2 } else { 1 }
    }
}

/// Contents at the end, and what each thread has seen.
type Outcome = ([u32; WORDS], Vec<Vec<u32>>);

/// Every order, one by one: how many there are.
fn run(
    ops: &[Vec<Op>],
    at: &[usize],
    (words, seen): &Outcome,
    outcomes: &mut BTreeSet<Outcome>,
) -> u64 {
    let (mut paths, mut over) = (0, true);
    for thread in 0..ops.len() {
        let Some(op) = ops[thread].get(at[thread]) else { continue };
        over = false;
        let (mut at, mut words, mut seen) = (at.to_vec(), *words, seen.clone());
        let value = op.naive(&mut words);
        seen[thread].push(value);
        at[thread] = op.next(at[thread], value);
        paths += run(ops, &at, &(words, seen), outcomes);
    }
    if over {
        outcomes.insert((*words, seen.clone()));
        paths = 1;
    }
    paths
}

#[test]
fn random_programs_have_the_same_outcomes() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for (threads, length, rounds) in [(2, 4, 300), (3, 3, 100), (4, 2, 100)] {
        for round in 0..rounds {
            let mut program = || (0..length).map(|_| Op::random(&mut state)).collect::<Vec<Op>>();
            let ops: Vec<_> = (0..threads).map(|_| program()).collect();
            let mut expected = BTreeSet::new();
            let start = ([0; WORDS], vec![vec![]; threads]);
            let paths = run(&ops, &vec![0; threads], &start, &mut expected);

            let words = [const { AtomicU32::new(0) }; WORDS];
            let outcomes = RefCell::new(BTreeSet::new());
            let report = Options::new().solo_progress(length as u16).explore(|e| {
                for ops in &ops {
                    e.thread(|| {
                        let mut place = 0;
                        while let Some(op) = ops.get(place) {
                            let seen = op.explored(&words);
                            note(seen);
                            place = op.next(place, seen);
                        }
                    });
                }
                e.finally(|view| {
                    let seen = |thread| view.notes::<u32>(thread).into_iter().copied().collect();
                    let words = [words[0].load(SeqCst), words[1].load(SeqCst)];
                    outcomes.borrow_mut().insert((words, (0..threads).map(seen).collect()));
                });
            });
            report.assert_complete();
            assert_eq!(report.executions, paths, "{threads} threads, round {round}: {ops:?}");
            assert_eq!(report.finals as usize, expected.len());
            assert_eq!(outcomes.into_inner(), expected, "round {round}: {ops:?}");
        }
    }
}
