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
//! 2. The first frame of such a block has one more than its order in `kept`, and every other frame zero. So the pool
//!    tells a block that it has handed out from one that only the engine thinks it has.
//! 3. Who has the pool's lock has shut the gate and emptied all magazines: whatever is free is free in the engine.
//!    So memory that a thread keeps is found before an allocation fails.
//! 4. The gate stays shut while memory is short: magazines are for those who have enough.
//! 5. A seat's magazine is its thread's, as [`handshake`](crate::handshake) says. What a thread leaves is the next
//!    one's that takes the seat.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use woodlot_frame::atomics::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use woodlot_frame::{FrameId, Order};

use crate::handshake::{Gate, Inside, Latch};
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
    /// By frame: invariant 2.
    kept: Zeroed<AtomicU8>,
}

/// Of one seat, on a page of its own. What each call looks at is not at the page's begin: the first lines of pages
/// compete for the same places in a CPU's cache, and blocks begin with one.
#[repr(C, align(4096))]
struct Magazine {
    /// The blocks, by order, the oldest first.
    stacks: [[AtomicU64; BLOCKS]; ORDERS],
    /// How many blocks there are, by order.
    held: [AtomicU32; ORDERS],
    latch: Latch,
    /// Calls that found the gate shut.
    passed: AtomicU32,
}

// SAFETY: all of it are integers.
unsafe impl Zero for Magazine {}

/// Why a magazine does not serve a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instead {
    /// The stack is empty, or full.
    Batch,
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
    /// Those of a pool of so many frames; none of use where they are not wanted, or the system has no `membarrier`.
    pub(crate) fn new(wanted: bool, frames: usize) -> io::Result<Magazines> {
        let works = wanted && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        let (seats, frames) = if works { (SEATS, frames) } else { (0, 0) };
        Ok(Magazines { gate: Gate::new(), seats: Zeroed::new(seats)?, kept: Zeroed::new(frames)? })
    }

    /// The newest block that this thread keeps. Without one, [`instead`](Self::instead) says what to do.
    #[inline]
    pub(crate) fn pop(&self, order: Order) -> Option<FrameId> {
        let (magazine, _inside) = self.enter(order)?;
        let (order, held) = magazine.held(order);
        let top = held.checked_sub(1)?;
        let block = magazine.stacks[order][top % BLOCKS].load(Ordering::Relaxed) as usize;
        magazine.held[order].store(top as u32, Ordering::Relaxed);
        self.mark(FrameId(block), 0);
        Some(FrameId(block))
    }

    /// Keeps a block that the thread had. If not, [`instead`](Self::instead) says what to do.
    #[inline]
    pub(crate) fn push(&self, block: FrameId, order: Order) -> bool {
        self.enter(order).is_some_and(|(magazine, _inside)| self.put(magazine, block, order))
    }

    /// Why a magazine did not serve a call.
    pub(crate) fn instead(&self, order: Order) -> Instead {
        let magazine = self.seats.get(seats::number());
        let Some(magazine) = magazine.filter(|_| usize::from(order.0) < ORDERS) else {
            return Instead::Engine;
        };
        if magazine.latch.is_busy() {
            return Instead::Engine;
        }
        if !self.gate.is_shut() {
            return Instead::Batch;
        }
        // Only this thread counts here; a signal may lose one.
        let passed = magazine.passed.load(Ordering::Relaxed) + 1;
        magazine.passed.store(passed % PATIENCE, Ordering::Relaxed);
        if passed == PATIENCE { Instead::Ask } else { Instead::Engine }
    }

    /// Keeps blocks that the thread has from the engine, the last one to be handed out last. How many, from the
    /// end.
    pub(crate) fn fill(&self, blocks: &[FrameId], order: Order) -> usize {
        let Some((magazine, _inside)) = self.enter(order) else { return 0 };
        blocks.iter().rev().take_while(|&&block| self.put(magazine, block, order)).count()
    }

    /// Takes the older half of a stack out; how many blocks that is.
    pub(crate) fn take_older(&self, order: Order, out: &mut [FrameId; BATCH]) -> usize {
        let Some((magazine, _inside)) = self.enter(order) else { return 0 };
        self.take(magazine, order, out)
    }

    /// Empties all magazines, and keeps them empty until [`open`](Self::open). `free` frees blocks of an order.
    /// The caller has the pool's lock.
    pub(crate) fn shut(&self, mut free: impl FnMut(&[FrameId], Order)) {
        if self.gate.is_shut() || self.seats.is_empty() {
            return;
        }
        self.gate.shut(fence_all);
        for magazine in self.used() {
            wait_for(&magazine.latch);
            for order in (0..ORDERS).map(|order| Order(order as u8)) {
                let mut blocks = [FrameId(0); BATCH];
                while let count @ 1.. = self.take(magazine, order, &mut blocks) {
                    free(&blocks[..count], order);
                }
            }
        }
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

    /// Is some frame of a block, which lies in the pool, kept?
    pub(crate) fn keeps(&self, first: FrameId, order: Order) -> bool {
        let kept = |frame: usize| {
            self.kept.get(frame).map_or(0, |kept| usize::from(kept.load(Ordering::Relaxed)))
        };
        let (mut inside, mut larger) =
            (first.0..first.0 + order.frames(), usize::from(order.0) + 1..ORDERS);
        inside.any(|frame| kept(frame) > 0)
            || larger.any(|order| kept(first.0 >> order << order) > order)
    }

    /// Does the thread that asks have its magazine open? Then a signal has interrupted a call.
    pub(crate) fn is_inside(&self) -> bool {
        self.seats.get(seats::number()).is_some_and(|magazine| magazine.latch.is_busy())
    }

    #[inline]
    fn enter(&self, order: Order) -> Option<(&Magazine, Inside<'_>)> {
        if usize::from(order.0) >= ORDERS {
            return None;
        }
        let magazine = self.seats.get(seats::seat())?;
        Some((magazine, self.gate.enter(&magazine.latch).ok()?))
    }

    /// The caller is inside.
    #[inline]
    fn put(&self, magazine: &Magazine, block: FrameId, order: Order) -> bool {
        let (index, held) = magazine.held(order);
        if held >= ROOM[index] {
            return false;
        }
        magazine.stacks[index][held % BLOCKS].store(block.0 as u64, Ordering::Relaxed);
        magazine.held[index].store(held as u32 + 1, Ordering::Relaxed);
        self.mark(block, order.0 + 1);
        true
    }

    /// Invariant 2.
    #[inline]
    fn mark(&self, block: FrameId, mark: u8) {
        if let Some(kept) = self.kept.get(block.0) {
            kept.store(mark, Ordering::Relaxed);
        }
    }

    /// Takes the oldest blocks out, as many as move at once. The caller is inside, or has waited for the latch.
    fn take(&self, magazine: &Magazine, order: Order, out: &mut [FrameId; BATCH]) -> usize {
        let count = batch(order);
        let (order, held) = magazine.held(order);
        let stack = &magazine.stacks[order][..held];
        let count = count.min(held);
        for (entry, block) in out.iter_mut().zip(&stack[..count]) {
            *entry = FrameId(block.load(Ordering::Relaxed) as usize);
            self.mark(*entry, 0);
        }
        for (to, from) in stack.iter().zip(&stack[count..]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        magazine.held[order].store((held - count) as u32, Ordering::Relaxed);
        count
    }

    /// The magazines in which there can be blocks.
    fn used(&self) -> &[Magazine] {
        &self.seats[..seats::high().min(self.seats.len())]
    }
}

impl Magazine {
    /// The order as an index, and how many blocks of it there are.
    #[inline]
    fn held(&self, order: Order) -> (usize, usize) {
        let order = usize::from(order.0);
        (order, self.held[order].load(Ordering::Relaxed) as usize)
    }
}

/// Every thread of the process executes a fence.
fn fence_all() {
    let mut fenced = membarrier(MembarrierCommand::PrivateExpedited);
    if fenced == Err(Errno::PERM) {
        // The system has forgotten what this process was registered for: it is a child, perhaps.
        fenced = membarrier(MembarrierCommand::RegisterPrivateExpedited)
            .and_then(|()| membarrier(MembarrierCommand::PrivateExpedited));
    }
    fenced.expect("a process that was registered may ask for it");
}

/// Waits for a thread that is at its magazine: for a moment, or until the system lets it run again.
fn wait_for(latch: &Latch) {
    for look in 0.. {
        match look {
            _ if !latch.is_busy() => return,
            0..100 => thread::yield_now(),
            // It may have a lower priority, and this CPU.
            _ => thread::sleep(Duration::from_micros(50)),
        }
    }
}
