//! Who may touch what a thread keeps for itself: the thread, without an atomic read-modify-write and without a fence;
//! or, rarely, whoever has shut the gate.
//!
//! ```text
//!   owner                                taker, which has the pool's lock
//!   latch ← this gate                    gate ← shut
//!     the compiler moves nothing here      the system: every thread executes a fence (membarrier)
//!   gate shut? latch ← idle, go away     latch says this gate? wait
//!   touch                                touch
//!   latch ← idle                         gate ← open
//! ```
//!
//! 1. Only its owner stores to a latch. A call that finds its own latch busy has interrupted the owner (a signal): it
//!    goes away, and what it does in between is over before the owner goes on.
//! 2. Either the owner's store to the latch comes before the fence that the taker asked for, and the taker sees it;
//!    or the owner's look at the gate comes after it, and the owner sees the gate shut. So never both touch.
//! 3. The owner keeps its latch busy for as long as it copies the numbers of a few blocks, 64 at most. A second latch,
//!    *moving*, goes through the same gate: it is busy while blocks are on their way between what the thread keeps and
//!    the engine. In both the thread takes no lock and waits for nobody.
//! 4. A latch serves several gates, one at a time, and says which: a taker waits for those alone who are at its own gate.
//!    An owner that is at any gate goes through no other one in between (a signal).
//!
//! **Progress.** The owner waits for nobody. The taker waits for owners that are in the middle of 3.
//!
//! **Ordering.** The latch becomes idle with release, and the taker looks at it with acquire: it sees what the owner
//! wrote. The gate opens with release, and owners look at it with acquire: they see what the taker wrote.

use std::ptr;

use woodlot_frame::atomics::{AtomicU32, AtomicU64, Ordering, compiler_fence};

const OPEN: u32 = 0;
const SHUT: u32 = 1;

/// What an idle latch has. A busy one has the address of the gate that its owner goes through.
const IDLE: u64 = 0;

/// Of a thread.
pub struct Latch(AtomicU64);

/// Of all threads.
pub struct Gate(AtomicU32);

/// The owner is inside.
pub struct Inside<'l>(&'l Latch);

/// Why a thread is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// The gate is shut.
    Shut,
    /// The thread itself is inside: a signal has interrupted it.
    Nested,
}

impl Latch {
    /// An idle one.
    pub const fn new() -> Latch {
        Latch(AtomicU64::new(IDLE))
    }

    /// Is its owner inside, or about to look at a gate? For the owner: it has been interrupted then.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed) != IDLE
    }
}

impl Default for Latch {
    fn default() -> Self {
        Latch::new()
    }
}

impl Gate {
    /// An open one.
    pub fn new() -> Gate {
        Gate(AtomicU32::new(OPEN))
    }

    /// Lets the owner of the latch in, until what it gets is dropped.
    ///
    /// # Errors
    /// Why it is not let in.
    #[inline]
    pub fn enter<'l>(&self, latch: &'l Latch) -> Result<Inside<'l>, Away> {
        if latch.is_busy() {
            return Err(Away::Nested);
        }
        latch.0.store(self.address(), Ordering::Relaxed);
        let inside = Inside(latch);
        compiler_fence();
        if self.0.load(Ordering::Acquire) == SHUT { Err(Away::Shut) } else { Ok(inside) }
    }

    /// Is the owner of the latch inside, or about to look at this gate? At another gate it is nobody's concern.
    pub fn is_entered(&self, latch: &Latch) -> bool {
        latch.0.load(Ordering::Acquire) == self.address()
    }

    #[inline]
    fn address(&self) -> u64 {
        ptr::from_ref(self).addr() as u64
    }

    /// Is it shut?
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SHUT
    }

    /// Shuts it. What a thread keeps is the caller's once the thread's latch is idle. `fence_all` makes every thread
    /// execute a fence, this one too; what it returns.
    pub fn shut<T>(&self, fence_all: impl FnOnce() -> T) -> T {
        self.0.store(SHUT, Ordering::Relaxed);
        fence_all()
    }

    /// Opens it.
    pub fn open(&self) {
        self.0.store(OPEN, Ordering::Release);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Gate::new()
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(IDLE, Ordering::Release);
    }
}

/// Every interleaving of owners and a taker. `checking/pool` makes this file a crate of its own for it.
#[cfg(all(test, woodlot_explore))]
mod models {
    mod scenarios {
        use std::slice::from_ref;

        use woodlot_explore::{Model, Options, View, note, scenario, wait_until};
        use woodlot_frame::atomics::{AtomicU64, Ordering::SeqCst};

        use super::super::{Gate, Latch};

        /// A thread's blocks, and who is at them.
        struct Kept {
            latch: Latch,
            moving: Latch,
            blocks: AtomicU64,
            touched_by: AtomicU64,
        }

        struct World {
            gate: Gate,
            kept: [Kept; 2],
            engine: AtomicU64,
        }

        /// What threads note: how many blocks they have taken, less those they gave.
        type Has = i64;

        impl World {
            fn new() -> World {
                let kept = || Kept {
                    latch: Latch::new(),
                    moving: Latch::new(),
                    blocks: AtomicU64::new(1),
                    touched_by: AtomicU64::new(0),
                };
                World { gate: Gate::new(), kept: [kept(), kept()], engine: AtomicU64::new(1) }
            }

            fn name<'m>(&'m self, model: &mut Model<'m>) {
                model.name("gate", from_ref(&self.gate.0));
                model.name("engine", from_ref(&self.engine));
                for kept in &self.kept {
                    model.name("latch", from_ref(&kept.latch.0));
                    model.name("moving", from_ref(&kept.moving.0));
                    model.name("blocks", from_ref(&kept.blocks));
                }
            }

            /// An owner takes a block and gives it, or the other way round.
            fn own(&self, kept: &Kept, takes_first: bool) {
                let mut has: Has = 0;
                note(has);
                for take in [takes_first, !takes_first] {
                    let delta =
                        |blocks: u64| if take { blocks.checked_sub(1) } else { Some(blocks + 1) };
                    let changed = match self.gate.enter(&kept.latch) {
                        Ok(_inside) => {
                            touch(kept, 1);
                            let after = delta(kept.blocks.load(SeqCst));
                            after.inspect(|&after| kept.blocks.store(after, SeqCst));
                            touch(kept, 0);
                            after
                        }
                        Err(_) => self.engine.fetch_update(SeqCst, SeqCst, delta).ok(),
                    };
                    if changed.is_some() {
                        has += if take { 1 } else { -1 };
                        note(has);
                    }
                }
            }

            /// An owner moves a block from the engine to what it keeps, or what it keeps to the engine.
            fn move_blocks(&self, kept: &Kept, to_engine: bool) {
                let Ok(_moving) = self.gate.enter(&kept.moving) else { return };
                let moved = if to_engine {
                    self.touch_kept(kept, |blocks| (0, blocks)).unwrap_or(0)
                } else {
                    let one = |blocks: u64| blocks.checked_sub(1);
                    let found = self.engine.fetch_update(SeqCst, SeqCst, one).is_ok();
                    let fills = found && self.touch_kept(kept, |blocks| (blocks + 1, 0)).is_some();
                    u64::from(found && !fills)
                };
                if moved > 0 {
                    self.engine.fetch_add(moved, SeqCst);
                }
            }

            /// What an owner that is let in keeps afterwards, and has in its hands.
            fn touch_kept(&self, kept: &Kept, change: impl Fn(u64) -> (u64, u64)) -> Option<u64> {
                let _inside = self.gate.enter(&kept.latch).ok()?;
                touch(kept, 1);
                let (after, out) = change(kept.blocks.load(SeqCst));
                kept.blocks.store(after, SeqCst);
                touch(kept, 0);
                Some(out)
            }

            /// A taker moves what all threads keep to the engine. It has all blocks that nobody has been handed.
            fn take(&self, nobody_has_any: bool) {
                // Under sequential consistency there is nothing to do for a fence.
                self.gate.shut(|| {});
                for kept in &self.kept {
                    wait_until(|| !self.gate.is_entered(&kept.moving));
                    wait_until(|| !self.gate.is_entered(&kept.latch));
                    touch(kept, 2);
                    let blocks = kept.blocks.load(SeqCst);
                    kept.blocks.store(0, SeqCst);
                    self.engine.fetch_add(blocks, SeqCst);
                    touch(kept, 0);
                }
                if nobody_has_any {
                    assert_eq!(self.engine.load(SeqCst), 3, "a block is on its way");
                }
                self.gate.open();
                note(0 as Has);
            }

            /// All blocks are somewhere, once.
            fn nothing_is_lost(&self, view: &View<'_>, threads: usize) {
                let kept: u64 = self.kept.iter().map(|kept| kept.blocks.load(SeqCst)).sum();
                let last = |thread| view.notes::<Has>(thread).last().copied().copied().unwrap_or(0);
                let owned: Has = (0..threads).map(last).sum();
                let all = kept as Has + self.engine.load(SeqCst) as Has + owned;
                assert_eq!(all, 3, "blocks are lost or twice there");
            }
        }

        /// Two at one place at once see each other here.
        fn touch(kept: &Kept, by: u64) {
            let before = kept.touched_by.swap(by, SeqCst);
            assert_eq!(before == 0, by != 0, "both touch at once");
        }

        fn check(
            name: &str,
            threads: usize,
            set_up: impl for<'m> FnOnce(&mut Model<'m>, &'m World),
        ) {
            let world = World::new();
            scenario(name, 15_000_000, Options::new(), |model| {
                world.name(model);
                set_up(model, &world);
                let world = &world;
                model.finally(move |view| world.nothing_is_lost(view, threads));
            });
        }

        #[test]
        fn an_owner_and_a_taker() {
            check("an_owner_and_a_taker", 2, |model, world| {
                model.thread(|| world.own(&world.kept[0], true));
                model.thread(|| world.take(false));
            });
        }

        #[test]
        fn an_owner_that_moves_and_a_taker() {
            check("an_owner_that_moves_and_a_taker", 2, |model, world| {
                model.thread(|| {
                    world.move_blocks(&world.kept[0], true);
                    world.move_blocks(&world.kept[0], false);
                });
                model.thread(|| world.take(true));
            });
        }

        #[test]
        fn two_owners_that_move_and_a_taker() {
            check("two_owners_that_move_and_a_taker", 3, |model, world| {
                model.thread(|| world.move_blocks(&world.kept[0], true));
                model.thread(|| world.move_blocks(&world.kept[1], false));
                model.thread(|| world.take(true));
            });
        }

        #[test]
        fn two_owners_and_a_taker() {
            check("two_owners_and_a_taker", 3, |model, world| {
                model.thread(|| world.own(&world.kept[0], true));
                model.thread(|| world.own(&world.kept[1], false));
                model.thread(|| world.take(false));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shut_gate_and_a_nested_call() {
        let (gate, latch) = (Gate::default(), Latch::default());
        let inside = gate.enter(&latch).expect("it is open");
        assert!(latch.is_busy() && gate.is_entered(&latch));
        assert_eq!(gate.enter(&latch).err(), Some(Away::Nested));
        let other = Gate::new();
        assert_eq!(other.enter(&latch).err(), Some(Away::Nested), "from a signal");
        assert!(!other.is_entered(&latch), "it is at the other gate");
        drop(inside);
        assert!(!latch.is_busy());
        let mut fenced = false;
        gate.shut(|| fenced = true);
        assert!(fenced && gate.is_shut());
        assert_eq!(gate.enter(&latch).err(), Some(Away::Shut));
        assert!(!latch.is_busy(), "who goes away is not inside");
        gate.open();
        assert!(gate.enter(&latch).is_ok());
    }
}
