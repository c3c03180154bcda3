//! Where a block that moves lies, and who is at it.
//!
//! ```text
//!   63     62 … 24     23 … 20   19      18       17       16       15 … 0
//!   live   frame       order     waits   drains   moves    writer   readers
//! ```
//!
//! 1. A reader comes while there is no writer and nothing drains; a writer while there is nobody, and nothing moves. Both find
//!    the frame in the word that they have changed, and leave before it changes.
//! 2. Whoever has set *moves* copies. Readers come and go meanwhile, so that none of them waits for a copy; writers wait, so
//!    that what is copied is what is there.
//! 3. The frame changes by one write to the word, while there are neither readers nor writers. So everybody has either the
//!    old frame or the new one for as long as they are at it, and whoever comes later has the new one. The old one is nobody's.
//! 4. If readers do not leave, nobody else is let in (*drains*), for a bounded time. Then the block stays where it is.
//! 5. A word that is not live is no block: all bits are zero.
//! 6. A writer that finds readers sets *waits*, unless somebody writes or moves. Then no move begins, and readers let the next
//!    writer pass, which clears it. So nobody who waits for a copy keeps a reader out.
//!
//! *Progress*: a reader waits for a writer, and for step 4. A writer waits for those who are there: a reader that comes later
//! lets it pass, but after some 50 ms goes in before it. It may be a thread that reads the block already, and whom the writer waits
//! for. So a writer starves only among readers that overlap without end and each stay for so long. A move waits for nobody but
//! in step 4.
//! Orderings: whoever leaves releases what it has read and written, and whoever comes or moves acquires that.

use std::hint;
use std::thread;
use std::time::Duration;

use woodlot_frame::atomics::{AtomicU64, Ordering};
use woodlot_frame::{FrameId, Order};

const READER: u64 = 1;
const READERS: u64 = 0xffff;
const WRITER: u64 = 1 << 16;
const MOVES: u64 = 1 << 17;
const DRAINS: u64 = 1 << 18;
const WAITS: u64 = 1 << 19;
const ORDER: u32 = 20;
const FRAME: u32 = 24;
const LIVE: u64 = 1 << 63;

/// Looks at a word before whoever waits for it sleeps. It never yields: on a loaded machine that may cost a time slice each time.
const SPINS: u32 = 200;

/// Looks at a word in which a writer waits, before a reader goes in before it: of these it sleeps in all but the first.
const POLITE: u32 = SPINS + 1000;

/// Looks at a word that readers are leaving, before a move gives up. It does not sleep while it keeps others out. The explorer
/// tries every order of them.
const PATIENCE: u32 = if cfg!(woodlot_explore) { 2 } else { SPINS };

/// A block: its first frame, and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lies {
    /// Its first frame.
    pub first: FrameId,
    /// Its order.
    pub order: Order,
}

impl Lies {
    /// `None`, if the word is not live.
    fn of(word: u64) -> Option<Lies> {
        let first = FrameId(((word & !LIVE) >> FRAME) as usize);
        (word & LIVE != 0).then_some(Lies { first, order: Order((word >> ORDER & 0xf) as u8) })
    }

    fn word(self) -> u64 {
        LIVE | (self.first.0 as u64) << FRAME | u64::from(self.order.0) << ORDER
    }
}

/// Why a block was not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stays {
    /// No movable block of this pool and order begins at the frame.
    NotMovable,
    /// Somebody writes it, moves it, or does not stop reading it.
    InUse,
}

/// The word of a block.
pub struct Place(AtomicU64);

impl Place {
    /// A block begins to live in a word that is not.
    pub fn begin(&self, lies: Lies) {
        self.0.store(lies.word(), Ordering::Release);
    }

    /// Ends it, and says where it lay. Nobody is at it any more, but perhaps a move, which is waited for.
    pub fn end(&self) -> Option<Lies> {
        Lies::of(until(|_| self.change(MOVES, |_| 0)))
    }

    /// Where the block lies at this moment, if there is one.
    pub fn lies(&self) -> Option<Lies> {
        Lies::of(self.0.load(Ordering::Relaxed))
    }

    /// Comes to read. Says where the block lies until [`leave`](Self::leave).
    pub fn read(&self) -> Option<Lies> {
        until(|tries| self.try_read(tries < POLITE))
    }

    /// The same, if it can be done at this moment; otherwise the word. Only who is polite lets a writer pass that waits.
    fn try_read(&self, is_polite: bool) -> Result<Option<Lies>, u64> {
        let none_of = if is_polite { WRITER | DRAINS | WAITS } else { WRITER | DRAINS };
        self.change(none_of, |word| word + READER).map(Lies::of)
    }

    /// A reader leaves.
    pub fn leave(&self) {
        self.0.fetch_sub(READER, Ordering::Release);
    }

    /// Comes to write, alone. Says where the block lies until [`finish`](Self::finish).
    pub fn write(&self) -> Option<Lies> {
        until(|_| self.try_write())
    }

    /// The same, if it can be done at this moment; otherwise the word. Where readers are in the way, a writer waits from now on.
    fn try_write(&self) -> Result<Option<Lies>, u64> {
        let come = |word| (word & !WAITS) | WRITER;
        let came = self.change(READERS | WRITER | MOVES | DRAINS, come).map(Lies::of);
        came.inspect_err(|&word| {
            if word & READERS != 0 && word & (WRITER | MOVES | DRAINS) == 0 {
                // If it has changed meanwhile, the next look is at what it is.
                let (next, relaxed) = (word | WAITS, Ordering::Relaxed);
                let _ = self.0.compare_exchange(word, next, relaxed, relaxed);
            }
        })
    }

    /// The writer leaves.
    pub fn finish(&self) {
        self.0.fetch_and(!WRITER, Ordering::Release);
    }

    /// Moves the block from one place to another, which is as large and nobody's: `copy` copies it.
    pub fn relocate(&self, from: Lies, to: FrameId, copy: impl FnOnce()) -> Result<(), Stays> {
        let begin = |word: u64| {
            let may = Lies::of(word) == Some(from) && word & (WRITER | MOVES | WAITS) == 0;
            may.then_some(word | MOVES)
        };
        let begun = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, begin);
        // Judged by the word that refused: the block may have ended a moment ago.
        let is_it = |word| Lies::of(word) == Some(from);
        begun.map_err(|word| if is_it(word) { Stays::InUse } else { Stays::NotMovable })?;
        copy();
        let to = Lies { first: to, ..from };
        let swap = |alone| {
            self.0.compare_exchange(alone, to.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if swap(from.word() | MOVES) {
            return Ok(());
        }
        self.0.fetch_or(DRAINS, Ordering::Relaxed);
        if (0..PATIENCE).any(|tries| swap(from.word() | MOVES | DRAINS) || pause(tries)) {
            return Ok(());
        }
        self.0.fetch_and(!(MOVES | DRAINS), Ordering::Release);
        Err(Stays::InUse)
    }

    /// Changes the word, if none of some bits is set, and returns what it was; otherwise what it is. A word that is not live stays
    /// so.
    #[inline]
    fn change(&self, none_of: u64, change: impl Fn(u64) -> u64) -> Result<u64, u64> {
        let word = self.0.load(Ordering::Relaxed);
        let full = none_of & READERS == 0 && word & READERS == READERS;
        if word & none_of != 0 || full {
            return Err(word);
        }
        let next = if word & LIVE == 0 { word } else { change(word) };
        self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
    }
}

/// Tries until it succeeds; the attempt is told how often that was in vain.
#[inline]
fn until<T>(mut attempt: impl FnMut(u32) -> Result<T, u64>) -> T {
    let mut tries = 0_u32;
    loop {
        match attempt(tries) {
            Ok(done) => return done,
            Err(_) => pause(tries),
        };
        tries = tries.saturating_add(1);
    }
}

/// Waits a little: it spins, and sleeps where that was in vain too often. Always false.
fn pause(tries: u32) -> bool {
    match tries {
        0..SPINS => hint::spin_loop(),
        _ => thread::sleep(Duration::from_micros(50)),
    }
    false
}

/// Every interleaving of readers, writers and a mover. `checking/pool-place` makes this file a crate of its own for it.
#[cfg(all(test, woodlot_explore))]
mod models {
    mod scenarios {
        use std::slice::from_ref;

        use woodlot_explore::{Model, Options, scenario, wait_until};
        use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst};
        use woodlot_frame::{FrameId, Order};

        use super::super::{DRAINS, Lies, MOVES, Place, READERS, WAITS, WRITER};

        const AT: [Lies; 2] = [
            Lies { first: FrameId(8), order: Order(0) },
            Lies { first: FrameId(9), order: Order(0) },
        ];

        /// A block of two words that are always the same, and a place for it to move to.
        struct World {
            place: Place,
            blocks: [[AtomicU64; 2]; 2],
        }

        impl World {
            fn new() -> World {
                let blocks = [(); 2].map(|()| [(); 2].map(|()| AtomicU64::new(0)));
                World { place: Place(AtomicU64::new(AT[0].word())), blocks }
            }

            fn block(&self, lies: Option<Lies>) -> &[AtomicU64; 2] {
                let first = lies.expect("it lives").first;
                &self.blocks[usize::from(first == AT[1].first)]
            }

            fn look(&self, block: &[AtomicU64; 2]) -> u64 {
                let [one, other] = [&block[0], &block[1]].map(|word| word.load(SeqCst));
                assert_eq!(one, other, "a torn block");
                one
            }

            fn word_without(&self, bits: u64) -> bool {
                self.place.0.load(SeqCst) & bits == 0
            }

            /// Reads, and while it does so once more, if it is to.
            fn read(&self, again: bool) {
                let mut is_polite = true;
                let lies = loop {
                    match self.place.try_read(is_polite) {
                        Ok(lies) => break lies,
                        Err(_) => wait_until(|| self.word_without(WRITER | DRAINS | WAITS)),
                    }
                };
                let before = self.look(self.block(lies));
                if again {
                    // It has been polite for long enough: a writer may wait for this thread.
                    is_polite = self.word_without(WAITS);
                    let inner = loop {
                        match self.place.try_read(is_polite) {
                            Ok(lies) => break lies,
                            Err(_) => wait_until(|| self.word_without(DRAINS)),
                        }
                        is_polite = false;
                    };
                    assert_eq!(inner, lies, "a block that is read stays");
                    self.place.leave();
                }
                assert_eq!(self.look(self.block(lies)), before, "written beside a reader");
                self.place.leave();
            }

            fn write(&self) {
                let lies = loop {
                    match self.place.try_write() {
                        Ok(lies) => break lies,
                        Err(_) => wait_until(|| {
                            // Nobody but readers is there: it comes, or says that it waits.
                            let now = self.place.0.load(SeqCst);
                            now & (WRITER | MOVES | DRAINS) == 0
                                && (now & READERS == 0 || now & WAITS == 0)
                        }),
                    }
                };
                let block = self.block(lies);
                let before = self.look(block);
                block.iter().for_each(|word| word.store(before + 1, SeqCst));
                self.look(block);
                self.place.finish();
            }

            fn move_it(&self) {
                let copy = || {
                    let word = self.place.0.load(SeqCst);
                    assert_eq!(word & (WRITER | WAITS), 0, "somebody waits for a copy in vain");
                    let from = self.look(&self.blocks[0]);
                    self.blocks[1].iter().for_each(|word| word.store(from, SeqCst));
                };
                let _ = self.place.relocate(AT[0], AT[1].first, copy);
            }
        }

        fn check(name: &str, writes: u64, set_up: impl for<'m> FnOnce(&mut Model<'m>, &'m World)) {
            let world = World::new();
            scenario(name, 15_000_000, Options::new(), |model| {
                model.name("place", from_ref(&world.place.0));
                world.blocks.iter().for_each(|block| model.name("block", block));
                set_up(model, &world);
                let world = &world;
                model.finally(move |_| {
                    let word = world.place.0.load(SeqCst);
                    let lies = world.place.lies();
                    assert_eq!(word, lies.expect("it lives").word(), "somebody has not left");
                    assert_eq!(world.look(world.block(lies)), writes, "a write is lost");
                });
            });
        }

        #[test]
        fn two_readers_and_a_writer() {
            check("two_readers_and_a_writer", 1, |model, world| {
                model.thread(|| world.read(false));
                model.thread(|| world.read(false));
                model.thread(|| world.write());
            });
        }

        #[test]
        fn a_reader_and_two_writers() {
            check("a_reader_and_two_writers", 2, |model, world| {
                model.thread(|| world.read(false));
                model.thread(|| world.write());
                model.thread(|| world.write());
            });
        }

        #[test]
        fn a_reader_that_reads_again_and_a_writer() {
            check("a_reader_that_reads_again_and_a_writer", 1, |model, world| {
                model.thread(|| world.read(true));
                model.thread(|| world.write());
            });
        }

        #[test]
        fn a_reader_a_writer_and_a_mover() {
            check("a_reader_a_writer_and_a_mover", 1, |model, world| {
                model.thread(|| world.read(false));
                model.thread(|| world.write());
                model.thread(|| world.move_it());
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Lies = Lies { first: FrameId(24), order: Order(3) };

    fn place() -> Place {
        let place = Place(AtomicU64::new(0));
        place.begin(HERE);
        place
    }

    #[test]
    fn a_writer_that_waits_is_let_pass() {
        let place = place();
        assert_eq!(place.read(), Some(HERE));
        place.try_write().expect_err("somebody reads it");
        place.try_read(true).expect_err("a writer waits");
        assert_eq!(place.relocate(HERE, FrameId(32), || ()), Err(Stays::InUse), "a writer waits");
        place.try_write().expect_err("somebody still reads it");
        place.leave();
        assert_eq!(place.try_write(), Ok(Some(HERE)));
        place.try_read(true).expect_err("somebody writes it");
        // Another one waits for this writer, and keeps no reader out.
        place.try_write().expect_err("somebody writes it");
        place.finish();
        assert_eq!(place.try_read(true), Ok(Some(HERE)), "nobody waits any more");
        place.leave();
        assert_eq!(place.relocate(HERE, FrameId(32), || ()), Ok(()));
    }

    #[test]
    fn a_reader_is_not_polite_for_ever() {
        let place = place();
        place.read();
        place.try_write().expect_err("somebody reads it");
        // As a thread that has a guard already.
        assert_eq!(place.read(), Some(HERE));
        place.leave();
        place.leave();
        assert_eq!(place.write(), Some(HERE));
        place.finish();
        assert_eq!(place.end(), Some(HERE));
        assert_eq!(place.read(), None);
    }

    #[test]
    fn a_writer_that_waits_for_a_copy_keeps_no_reader_out() {
        let place = place();
        place.read();
        let moved = place.relocate(HERE, FrameId(32), || {
            place.try_write().expect_err("it moves");
            assert_eq!(place.try_read(true), Ok(Some(HERE)), "a reader waits for no copy");
        });
        assert_eq!(moved, Err(Stays::InUse), "it is read");
        place.leave();
        place.leave();
        assert_eq!(place.write(), Some(HERE));
    }
}
