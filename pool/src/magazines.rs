//! Blocks that a thread keeps to itself, so that most calls touch no word that another thread writes.
//!
//! ```text
//!   seat 0   seat 1   seat 2 ...           one magazine for each seat, that is, for each thread
//!     │        │
//!     │        └─ orders 0 to 4: 64, 32, 16, 8 and 8 blocks at most      a stack each
//!     │
//!   free: push; a full stack sends its older half to the engine in one batch
//!   alloc: pop; an empty stack gets half of a stack from the engine in one batch
//! ```
//!
//! These are the per-CPU lists of McKenney and Slingwine (USENIX Winter 1993): the newer half of a stack is their main
//! list, the older half their auxiliary list, and half a stack is their `target`.
//!
//! 1. A block in a magazine is allocated in the engine, and its memory is resident. Nobody else has it.
//! 2. A block that is on its way between a magazine and the engine is in neither. Its thread says so: it is *moving*
//!    from before it takes such blocks until the last one has arrived.
//! 3. Who has the pool's lock has shut the gate, has waited for those who were moving, and has emptied all magazines:
//!    whatever is free is free in the engine. So memory that a thread keeps is found before an allocation fails,
//!    and what the engine calls allocated was handed out.
//! 4. The gate stays shut while memory is short: magazines are for those who have enough.
//! 5. A seat's magazine is its thread's, as [`handshake`](crate::handshake) says. What a thread leaves is the next
//!    one's that takes the seat.

use std::hint;
use std::io;
use std::mem;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{FrameId, Order};

use crate::handshake::{Away, Gate, Inside, Latch};
use crate::seats::{self, SEATS};
use crate::zeroed::{Zero, Zeroed};

/// Orders 0 to 4 are kept.
const ORDERS: usize = 5;
/// Blocks of order 0 in a full stack.
const BLOCKS: usize = 64;
/// Blocks in a full stack, by order: 256 KiB of them, 512 KiB of order 4. With four of order 4, such blocks cost twice as
/// much as without magazines if many are allocated and then freed.
const ROOM: [usize; ORDERS] = [BLOCKS, 32, 16, 8, 8];
/// Frames that a thread can keep: 1.5 MiB.
const FRAMES: usize = 4 * BLOCKS + (8 << 4);
/// The most blocks that move at once.
pub(crate) const BATCH: usize = BLOCKS / 2;
/// After so many calls that found the gate shut, a thread asks whether it should still be.
const PATIENCE: u32 = 256;

/// Of one pool.
pub(crate) struct Magazines {
    gate: Gate,
    seats: Zeroed<Magazine>,
}

/// Of one seat, on a page of its own. What each call looks at is not at the page's begin: the first lines of pages
/// compete for the same places in a CPU's cache, and blocks begin with one.
#[repr(C, align(4096))]
struct Magazine {
    /// The blocks, by order, the oldest first.
    stacks: [[AtomicU64; BLOCKS]; ORDERS],
    /// How many blocks there are, by order.
    held: [AtomicU32; ORDERS],
    /// Calls that found the gate shut.
    passed: AtomicU32,
}

// SAFETY: all of it are integers.
unsafe impl Zero for Magazine {}

/// The thread is moving blocks, until this is dropped. It waits for nobody meanwhile.
pub(crate) type Moving = Inside<'static>;

/// Why a magazine does not serve a call.
pub(crate) enum Instead {
    /// The stack is empty, or full.
    Batch(Moving),
    /// The call is for the engine: of a large order, from a thread without a seat, from a signal, or while
    /// memory is short.
    Engine,
    /// The same, and it is time to ask whether memory is still short.
    Ask,
}

/// How many blocks of an order move at once: half of a stack.
pub(crate) fn batch(order: Order) -> usize {
    ROOM[usize::from(order.0)] / 2
}

impl Magazines {
    /// The addresses that they take.
    pub(crate) const BYTES: usize = SEATS * size_of::<Magazine>();

    /// Those of a pool; none where they are not wanted, or the system has no `membarrier`.
    pub(crate) fn new(wanted: bool) -> io::Result<Magazines> {
        let works = wanted && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        Ok(Magazines { gate: Gate::new(), seats: Zeroed::new(if works { SEATS } else { 0 })? })
    }

    /// Are there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The newest block that this thread keeps. Without one, [`instead`](Self::instead) says what to do.
    #[inline]
    pub(crate) fn pop(&self, order: Order) -> Option<FrameId> {
        let (magazine, _inside) = self.enter(order)?;
        let (order, held) = magazine.held(order);
        let top = held.checked_sub(1)?;
        let block = magazine.stacks[order][top % BLOCKS].load(Ordering::Relaxed) as usize;
        magazine.held[order].store(top as u32, Ordering::Relaxed);
        Some(FrameId(block))
    }

    /// Keeps a block that the thread had. If not, [`instead`](Self::instead) says what to do.
    #[inline]
    pub(crate) fn push(&self, block: FrameId, order: Order) -> bool {
        self.enter(order).is_some_and(|(magazine, _inside)| magazine.put(block, order))
    }

    /// Why a magazine did not serve a call.
    pub(crate) fn instead(&self, order: Order) -> Instead {
        let seat = seats::number();
        let (Some(magazine), Some(hands)) = (self.seats.get(seat), seats::hands(seat)) else {
            return Instead::Engine;
        };
        if usize::from(order.0) >= ORDERS || hands.at.is_busy() {
            return Instead::Engine;
        }
        match self.gate.enter(&hands.moving) {
            Ok(moving) => return Instead::Batch(moving),
            Err(Away::Nested) => return Instead::Engine,
            Err(Away::Shut) => {}
        }
        // Only this thread counts here; a signal may lose one.
        let passed = magazine.passed.load(Ordering::Relaxed) + 1;
        magazine.passed.store(passed % PATIENCE, Ordering::Relaxed);
        if passed == PATIENCE { Instead::Ask } else { Instead::Engine }
    }

    /// Keeps blocks that the thread is moving from the engine, the last one to be handed out last. How many, from
    /// the end.
    pub(crate) fn fill(&self, _moving: &Moving, blocks: &[FrameId], order: Order) -> usize {
        let Some((magazine, _inside)) = self.enter(order) else { return 0 };
        blocks.iter().rev().take_while(|&&block| magazine.put(block, order)).count()
    }

    /// Takes the older half of a stack out, which the thread moves to the engine; how many blocks that is.
    pub(crate) fn take_older(
        &self,
        _moving: &Moving,
        order: Order,
        out: &mut [FrameId; BATCH],
    ) -> usize {
        self.enter(order).map_or(0, |(magazine, _inside)| magazine.take(order, out))
    }

    /// Empties all magazines, and keeps them empty until [`open`](Self::open). `free` frees blocks of an order.
    /// The caller has the pool's lock.
    ///
    /// # Errors
    /// The system's. Then, and if `free` panics, the gate is open again: magazines behind a shut gate are empty.
    pub(crate) fn shut(&self, mut free: impl FnMut(&[FrameId], Order)) -> io::Result<()> {
        if self.gate.is_shut() || self.seats.is_empty() {
            return Ok(());
        }
        let opens = Opens(&self.gate);
        self.gate.shut(fence_all)?;
        for (seat, magazine) in self.used().iter().enumerate() {
            if let Some(hands) = seats::hands(seat) {
                self.wait_for(&hands.moving);
                self.wait_for(&hands.at);
            }
            for order in (0..ORDERS).map(|order| Order(order as u8)) {
                let mut blocks = [FrameId(0); BATCH];
                while let count @ 1.. = magazine.take(order, &mut blocks) {
                    free(&blocks[..count], order);
                }
            }
        }
        mem::forget(opens);
        Ok(())
    }

    /// Is the gate shut?
    #[cfg(test)]
    pub(crate) fn is_shut(&self) -> bool {
        self.gate.is_shut()
    }

    /// Lets threads keep blocks again, if so many free frames are enough for all of them. The caller has the pool's
    /// lock.
    pub(crate) fn open(&self, free: usize) {
        if free >= seats::taken() * FRAMES {
            self.gate.open();
        }
    }

    /// How many frames are kept. Exact if no call is under way.
    pub(crate) fn frames(&self) -> usize {
        let of = |magazine: &Magazine| {
            let held = magazine.held.iter().enumerate();
            held.map(|(order, held)| (held.load(Ordering::Relaxed) as usize) << order)
                .sum::<usize>()
        };
        self.used().iter().map(of).sum()
    }

    #[inline]
    fn enter(&self, order: Order) -> Option<(&Magazine, Inside<'_>)> {
        if usize::from(order.0) >= ORDERS {
            return None;
        }
        let seat = seats::seat();
        let (magazine, hands) = (self.seats.get(seat)?, seats::hands(seat)?);
        Some((magazine, self.gate.enter(&hands.at).ok()?))
    }

    /// Waits for a thread that has its hands on blocks of this pool: for a moment, or until the system lets it run
    /// again.
    fn wait_for(&self, latch: &Latch) {
        for look in 0.. {
            match look {
                _ if !self.gate.is_entered(latch) => return,
                0..100 => hint::spin_loop(),
                // It may have a lower priority, and this CPU.
                _ => thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// The magazines in which there can be blocks.
    fn used(&self) -> &[Magazine] {
        &self.seats[..seats::high().min(self.seats.len())]
    }
}

impl Magazine {
    /// Keeps a block, if there is room. The caller is inside.
    #[inline]
    fn put(&self, block: FrameId, order: Order) -> bool {
        let (index, held) = self.held(order);
        if held >= ROOM[index] {
            return false;
        }
        self.stacks[index][held % BLOCKS].store(block.0 as u64, Ordering::Relaxed);
        self.held[index].store(held as u32 + 1, Ordering::Relaxed);
        true
    }

    /// Takes the oldest blocks out, as many as move at once. The caller is inside, or has waited for the latch.
    fn take(&self, order: Order, out: &mut [FrameId; BATCH]) -> usize {
        let count = batch(order);
        let (order, held) = self.held(order);
        let stack = &self.stacks[order][..held];
        let count = count.min(held);
        for (entry, block) in out.iter_mut().zip(&stack[..count]) {
            *entry = FrameId(block.load(Ordering::Relaxed) as usize);
        }
        for (to, from) in stack.iter().zip(&stack[count..]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.held[order].store((held - count) as u32, Ordering::Relaxed);
        count
    }

    /// The order as an index, and how many blocks of it there are.
    #[inline]
    fn held(&self, order: Order) -> (usize, usize) {
        let order = usize::from(order.0);
        (order, self.held[order].load(Ordering::Relaxed) as usize)
    }
}

/// Opens a gate again that somebody could not finish to shut.
struct Opens<'g>(&'g Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Every thread of the process executes a fence.
fn fence_all() -> io::Result<()> {
    let mut fenced = membarrier(MembarrierCommand::PrivateExpedited);
    if fenced == Err(Errno::PERM) {
        // The system has forgotten what this process was registered for: it is a child, perhaps.
        fenced = membarrier(MembarrierCommand::RegisterPrivateExpedited)
            .and_then(|()| membarrier(MembarrierCommand::PrivateExpedited));
    }
    Ok(fenced?)
}
