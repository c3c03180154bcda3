//! Where a block that moves lies, and who is at it.
//!
//! ```text
//!   63     62 … 23     22 … 19   18       17       16       15 … 0
//!   live   frame       order     drains   moves    writer   readers
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
//!
//! *Progress*: a reader waits for a writer, and for step 4; a writer for all, and for ever if readers overlap without end. A move waits for nobody but in step 4.
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
const ORDER: u32 = 19;
const FRAME: u32 = 23;
const LIVE: u64 = 1 << 63;

/// Looks at a word before whoever waits for it sleeps. It never yields: on a loaded machine that may cost a time slice each time.
const SPINS: u32 = 200;

/// Looks at a word that readers are leaving, before a move gives up. It does not sleep while it keeps others out.
const PATIENCE: u32 = SPINS;

/// A block: its first frame, and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lies {
    pub(crate) first: FrameId,
    pub(crate) order: Order,
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
pub(crate) struct Place(AtomicU64);

impl Place {
    /// A block begins to live in a word that is not.
    pub(crate) fn begin(&self, lies: Lies) {
        self.0.store(lies.word(), Ordering::Release);
    }

    /// Ends it, and says where it lay. Nobody is at it any more, but perhaps a move, which is waited for.
    pub(crate) fn end(&self) -> Option<Lies> {
        Lies::of(self.change(MOVES, |_| 0))
    }

    /// Where the block lies at this moment, if there is one.
    pub(crate) fn lies(&self) -> Option<Lies> {
        Lies::of(self.0.load(Ordering::Relaxed))
    }

    /// Comes to read. Says where the block lies until [`leave`](Self::leave).
    pub(crate) fn read(&self) -> Option<Lies> {
        Lies::of(self.change(WRITER | DRAINS, |word| word + READER))
    }

    /// A reader leaves.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(READER, Ordering::Release);
    }

    /// Comes to write, alone. Says where the block lies until [`finish`](Self::finish).
    pub(crate) fn write(&self) -> Option<Lies> {
        Lies::of(self.change(READERS | WRITER | MOVES | DRAINS, |word| word | WRITER))
    }

    /// The writer leaves.
    pub(crate) fn finish(&self) {
        self.0.fetch_and(!WRITER, Ordering::Release);
    }

    /// Moves the block from one place to another, which is as large and nobody's: `copy` copies it.
    pub(crate) fn relocate(
        &self,
        from: Lies,
        to: FrameId,
        copy: impl FnOnce(),
    ) -> Result<(), Stays> {
        let begin = |word: u64| {
            let may = Lies::of(word) == Some(from) && word & (WRITER | MOVES) == 0;
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

    /// Changes the word as soon as none of some bits is set, and returns what it was. A word that is not live stays so.
    fn change(&self, none_of: u64, change: impl Fn(u64) -> u64) -> u64 {
        for tries in 0.. {
            let word = self.0.load(Ordering::Relaxed);
            let full = none_of & READERS == 0 && word & READERS == READERS;
            if word & none_of == 0 && !full {
                let next = if word & LIVE == 0 { word } else { change(word) };
                let changed =
                    self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed);
                if changed.is_ok() {
                    return word;
                }
            }
            pause(tries);
        }
        unreachable!("it tries for ever");
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
