//! How what one CPU keeps comes to another one, though the CPU changes its words by plain stores.
//!
//! ```text
//!   thief                           a sequence on the CPU of the word
//!   word ← closed, and gets it      load, decide, store: the store may come after the swap
//!   abort what is under way there   begins again, and finds the word closed
//!   word still closed?
//!     yes: what it got is its own
//!     no: the sequence was first. Again
//!   word ← empty
//!
//!   nothing can be aborted: a word that is still closed ← what the thief got
//! ```
//!
//! 1. A sequence stores only if what it has loaded is not closed, and only if it was not aborted since it began.
//! 2. So a sequence stores to a closed word only if it has begun before the swap, and the store comes before the abort.
//! 3. When a word is closed after an abort that came after its swap, no store to it is to come, and none has come since
//!    the swap. What the swap returned is in one place then: with the thief.
//! 4. One thief at a time closes and opens the words of a CPU.
//! 5. A thief that gives up puts back what a closed word had. A sequence that has begun before the swap finds the word as it
//!    was, or has put something else in its place, which stays.
//!
//! *Progress*: a thief looks again as often as sequences of the CPU come first: at most one for each abort.
//!
//! *Ordering*: an abort is a full fence on both sides, so that the thief sees what the CPU did before, and the CPU sees the
//! word closed after.

use woodlot_frame::atomics::{AtomicU64, Ordering};

/// A word that is being stolen from: empty to whoever takes, full to whoever puts.
pub const CLOSED: u64 = 0xffff;

/// Takes what is in the words of some CPU, and leaves them empty. `abort` aborts the sequence that is under way on that
/// CPU, if there is one. `None`, and nothing is taken, if it says that it cannot.
pub fn steal<const N: usize>(words: [&AtomicU64; N], abort: impl Fn() -> bool) -> Option<[u64; N]> {
    let mut stolen = [0; N];
    while words.iter().any(|word| word.load(Ordering::Relaxed) != CLOSED) {
        for (word, stolen) in words.iter().zip(&mut stolen) {
            if word.load(Ordering::Relaxed) != CLOSED {
                // What an earlier swap returned is not the thief's: a sequence has put something else in its place.
                *stolen = word.swap(CLOSED, Ordering::AcqRel);
            }
        }
        if !abort() {
            for (word, stolen) in words.iter().zip(stolen) {
                let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
                // A sequence that came first has left something else there.
                let _ = word.compare_exchange(CLOSED, stolen, release, relaxed);
            }
            return None;
        }
    }
    words.iter().for_each(|word| word.store(0, Ordering::Release));
    Some(stolen)
}

/// Every interleaving of a CPU and of thieves. `checking/malloc` makes this file a crate of its own for it.
#[cfg(all(test, woodlot_explore))]
mod models {
    mod scenarios {
        use std::slice::from_ref;

        use woodlot_explore::{Model, Options, View, note, scenario, settle, wait_until};
        use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst};

        use super::super::{CLOSED, steal};

        /// The word of a list, as `woodlot_kmem::List` has it. The address of a block is its number, from 1.
        const fn list(first: u64, count: u64) -> u64 {
            first << 16 | count
        }

        fn first(list: u64) -> u64 {
            list >> 16
        }

        fn count(list: u64) -> u64 {
            list & 0xffff
        }

        const BLOCKS: usize = 4;
        /// Blocks of a full list.
        const TARGET: u64 = 2;

        const MAIN: usize = 0;
        const AUX: usize = 1;

        /// No sequence is under way.
        const OUTSIDE: u64 = 0;
        /// One is.
        const INSIDE: u64 = 1;
        /// One is, and must begin again: who has said so waits until the CPU has heard of it.
        const ABORTED: u64 = 2;

        /// A CPU with its caches of one size, and the first words of the blocks.
        struct World {
            under_way: AtomicU64,
            words: [AtomicU64; 2],
            rest: [AtomicU64; BLOCKS],
            thief: AtomicU64,
        }

        /// What a thread of the CPU does, by one sequence each.
        #[derive(Clone, Copy)]
        enum Op {
            Pop,
            Push,
            /// A block that it uses becomes a list.
            List,
            /// What it has taken last goes there, or nothing.
            Exchange(usize),
            Put(usize),
        }
        use Op::{Exchange, List, Pop, Push, Put};

        /// What a thread has: lists, and blocks that it uses, a bit each.
        #[derive(Clone, PartialEq, Eq, Default, Debug)]
        struct Has {
            lists: Vec<u64>,
            used: u64,
        }

        struct Aborted;

        impl World {
            /// *main* and *aux* have two blocks each.
            fn new() -> World {
                World {
                    under_way: AtomicU64::new(OUTSIDE),
                    words: [list(1, 2), list(3, 2)].map(AtomicU64::new),
                    rest: [list(2, 1), 0, list(4, 1), 0].map(AtomicU64::new),
                    thief: AtomicU64::new(0),
                }
            }

            fn name<'m>(&'m self, model: &mut Model<'m>) {
                model.name("under_way", from_ref(&self.under_way));
                model.name("words", &self.words);
                model.name("rest", &self.rest);
                model.name("thief", from_ref(&self.thief));
            }

            fn rest(&self, list: u64) -> &AtomicU64 {
                &self.rest[first(list) as usize - 1]
            }

            /// A sequence of the CPU, from its begin to its end, as often as it takes. It ends with its store.
            fn sequence<T>(&self, sequence: impl Fn() -> Result<T, Aborted>) -> T {
                loop {
                    self.under_way.store(INSIDE, SeqCst);
                    if let Ok(result) = sequence() {
                        self.under_way.store(OUTSIDE, SeqCst);
                        return result;
                    }
                }
            }

            /// The store of a sequence, unless it was aborted.
            fn commit(&self, which: usize, word: u64, has: &Has) -> Result<(), Aborted> {
                if self.under_way.load(SeqCst) == ABORTED {
                    return Err(Aborted);
                }
                // An abort that comes here waits until the sequence has ended: it came after the store.
                self.words[which].store(word, SeqCst);
                note(has.clone());
                Ok(())
            }

            /// What a thief asks the system for.
            fn abort(&self) -> bool {
                let _ = self.under_way.compare_exchange(INSIDE, ABORTED, SeqCst, SeqCst);
                wait_until(|| self.under_way.load(SeqCst) != ABORTED);
                true
            }

            /// As the sequences of `x86_64` do it.
            fn run(&self, op: Op, has: &Has) -> Result<Has, Aborted> {
                let mut after = has.clone();
                match op {
                    Pop => {
                        let word = self.words[MAIN].load(SeqCst);
                        if first(word) != 0 {
                            let rest = self.rest(word).load(SeqCst);
                            after.used |= 1 << first(word);
                            self.commit(MAIN, rest, &after)?;
                        }
                    }
                    Push => {
                        let block = u64::from(has.used.trailing_zeros());
                        let word = self.words[MAIN].load(SeqCst);
                        if has.used != 0 && count(word) < TARGET {
                            self.rest(list(block, 1)).store(word, SeqCst);
                            after.used &= !(1 << block);
                            self.commit(MAIN, list(block, count(word) + 1), &after)?;
                        }
                    }
                    Exchange(which) => {
                        let word = self.words[which].load(SeqCst);
                        if word != CLOSED {
                            let list = after.lists.pop().unwrap_or(0);
                            after.lists.extend((word != 0).then_some(word));
                            self.commit(which, list, &after)?;
                        }
                    }
                    List => {
                        let block = u64::from(has.used.trailing_zeros());
                        if has.used != 0 {
                            self.rest(list(block, 1)).store(0, SeqCst);
                            after.used &= !(1 << block);
                            after.lists.push(list(block, 1));
                        }
                    }
                    Put(which) => {
                        let Some(list) = after.lists.pop() else { return Ok(after) };
                        match self.words[which].load(SeqCst) {
                            0 => self.commit(which, list, &after)?,
                            _ => return Ok(has.clone()),
                        }
                    }
                }
                Ok(after)
            }

            /// A thread of the CPU.
            fn own(&self, ops: &[Op]) {
                let mut has = Has::default();
                for &op in ops {
                    has = self.sequence(|| self.run(op, &has));
                    declare(&has);
                }
            }

            /// A thief, who uses what it has stolen.
            fn rob(&self, mut has: Has) -> Has {
                wait_until(|| self.thief.compare_exchange(0, 1, SeqCst, SeqCst).is_ok());
                let [main, aux] = &self.words;
                let stolen = steal([main, aux], || self.abort());
                has.lists.extend(stolen.expect("it aborts what there is"));
                note(has.clone());
                self.thief.store(0, SeqCst);
                while let Some(list) = has.lists.pop() {
                    if list != 0 {
                        let rest = self.rest(list).swap(u64::MAX, SeqCst);
                        has.used |= 1 << first(list);
                        has.lists.push(rest);
                        note(has.clone());
                    }
                }
                declare(&has);
                has
            }

            /// A thief that can abort nothing.
            fn try_to_rob(&self) {
                let [main, aux] = &self.words;
                assert_eq!(steal([main, aux], || false), None);
                declare(&Has::default());
            }

            /// The blocks of a list, a bit each.
            fn blocks(&self, list: u64) -> u64 {
                let mut blocks = 0;
                let mut list = list;
                for _ in 0..count(list) {
                    let bit = 1 << first(list);
                    assert_eq!(blocks & bit, 0, "a list goes round");
                    blocks |= bit;
                    list = self.rest(list).load(SeqCst);
                }
                blocks
            }

            /// Each block is in one place at most. Returns those that are somewhere.
            fn judge(&self, view: &View<'_>, threads: usize) -> u64 {
                let has = (0..threads).filter_map(|thread| view.notes::<Has>(thread).pop());
                let mut places: Vec<u64> = Vec::new();
                for has in has {
                    places.push(has.used);
                    places.extend(has.lists.iter().map(|&list| self.blocks(list)));
                }
                let words = self.words.iter().map(|word| word.load(SeqCst));
                places.extend(words.filter(|&word| word != CLOSED).map(|word| self.blocks(word)));
                places.into_iter().fold(0, |all, place| {
                    assert_eq!(all & place, 0, "a block is in two places");
                    all | place
                })
            }
        }

        /// A thread is between two calls, and has this.
        fn declare(has: &Has) {
            settle(&[&has.lists[..], &[has.used]].concat());
            note(has.clone());
        }

        /// A thread of the CPU, and this beside it.
        fn check_beside(name: &str, ops: &[Op], thieves: usize, rob: impl Fn(&World) + Sync) {
            let world = World::new();
            scenario(name, 5_000_000, Options::new(), |model| {
                world.name(model);
                let world = &world;
                model.thread(|| world.own(ops));
                let rob = &rob;
                for _ in 0..thieves {
                    model.thread(move || rob(world));
                }
                model.invariant(move |view| {
                    world.judge(view, thieves + 1);
                });
                model.finally(move |view| {
                    let all = world.judge(view, thieves + 1);
                    assert_eq!(all, ((1 << BLOCKS) - 1) << 1, "a block is lost");
                });
            });
        }

        fn check(name: &str, ops: &[Op], thieves: usize, steals: usize) {
            check_beside(name, ops, thieves, |world| {
                (0..steals).fold(Has::default(), |has, _| world.rob(has));
            });
        }

        #[test]
        fn a_thief_that_gives_up_leaves_all_as_it_was() {
            let ops = [Pop, Pop, Exchange(AUX), Put(MAIN), Pop, Push];
            let name = "a_thief_that_gives_up_leaves_all_as_it_was";
            check_beside(name, &ops, 1, World::try_to_rob);
        }

        #[test]
        fn blocks_are_popped_and_pushed() {
            let ops = [Pop, Pop, Push, Pop, Push];
            check("blocks_are_popped_and_pushed", &ops, 1, 1);
        }

        #[test]
        fn lists_are_taken_and_put() {
            let ops = [Exchange(AUX), Put(MAIN), Exchange(MAIN), Put(AUX), Pop];
            check("lists_are_taken_and_put", &ops, 1, 1);
        }

        /// As an allocation does that finds *main* empty.
        #[test]
        fn refill() {
            let ops = [Pop, Pop, Pop, Exchange(AUX), Put(MAIN), Pop, Push];
            check("refill", &ops, 1, 1);
        }

        /// As a free does that finds *main* full.
        #[test]
        fn spill() {
            let ops = [Pop, List, Exchange(MAIN), Exchange(AUX), Put(MAIN)];
            check("spill", &ops, 1, 1);
        }

        #[test]
        fn two_thefts() {
            let ops = [Pop, Push, Exchange(MAIN), Put(MAIN)];
            check("two_thefts", &ops, 1, 2);
        }

        #[test]
        fn two_thieves() {
            check("two_thieves", &[Pop, Push, Exchange(AUX), Put(AUX)], 2, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// A sequence that comes between the swap and the abort is first.
    #[test]
    fn what_is_stored_before_the_abort_is_stolen() {
        let words = [7, 8].map(AtomicU64::new);
        let aborts = Cell::new(0);
        let stolen = steal([&words[0], &words[1]], || {
            aborts.set(aborts.get() + 1);
            if aborts.get() == 1 {
                words[1].store(9, Ordering::Relaxed);
            }
            true
        });
        assert_eq!((stolen, aborts.get()), (Some([7, 9]), 2));
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "they are open");
    }
}
