//! What the threads of a history say of themselves: outside of the zone, as an embedder's log would.
//!
//! ```text
//!   frame   nobody's ── allocated ──▶ thread 2's ── a free begins ──▶ thread 2 gives it ── it ends ──▶ nobody's
//!                                                                      └── allocated ──▶ thread 3's
//! ```
//!
//! Nobody is interrupted while the log is open: it is no place where shuttle could switch. So what a thread was told it
//! has written down before it can stop.

use std::sync::{Arc, Mutex, MutexGuard};

use woodlot_frame::Slot;
use woodlot_llfree::LastOperation;

use crate::ledger::{Block, Judged};

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Nobody's.
    Nobody,
    /// This thread's.
    Thread(usize),
    /// This thread's, and the call that frees it has begun: it may be free.
    Giving(usize),
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Call {
    /// For messages.
    pub text: String,
    /// The frames that it frees; none, if it allocates.
    pub gives: Vec<usize>,
    /// What the record of its slot said when it began.
    pub before: Option<LastOperation>,
}

/// Where an execution is. It decides who goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// The main thread makes the zone.
    #[default]
    Beginning,
    /// The threads make calls, and stop one after another.
    Running,
    /// All have ended or stopped: the main thread recovers and judges.
    Judging,
    /// Those who have stopped go on, so that they end. What they do is nobody's concern.
    Over,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Executions to their end.
    pub schedules: usize,
    /// Calls.
    pub calls: usize,
    /// Threads that stopped for ever.
    pub dead: usize,
    /// Of these, those that stopped inside a call.
    pub inside: usize,
    /// Of these, those whose call the recovery took back or brought to its end.
    pub cut_off: usize,
    /// Frames that were allocated and nobody's after a recovery, and were named.
    pub named: usize,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.calls += other.calls;
        self.dead += other.dead;
        self.inside += other.inside;
        self.cut_off += other.cut_off;
        self.named += other.named;
    }
}

/// What is in the log.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// By frame of the zone.
    pub owners: Vec<Owner>,
    /// The blocks of each thread, but for those that a call under way frees.
    pub blocks: Vec<Vec<Block>>,
    /// The call of each thread.
    pub calls: Vec<Option<Call>>,
    /// Which threads have stopped.
    pub standing: Vec<bool>,
    /// Where the execution is.
    pub phase: Phase,
    /// What went wrong first.
    pub failure: Option<String>,
    /// What the batch has done so far.
    pub figures: Figures,
}

/// The log, shared by the threads and the scheduler.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<State>>);

impl Log {
    /// Opens it.
    pub fn open(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with the log")
    }

    /// Notes what went wrong, if it is the first thing.
    pub fn fail(&self, why: String) {
        self.open().failure.get_or_insert(why);
    }
}

impl State {
    /// For another execution, of a zone of so many free frames and so many threads with the main one.
    pub fn begin(&mut self, frames: usize, threads: usize) {
        self.owners = vec![Owner::Nobody; frames];
        self.blocks = vec![Vec::new(); threads];
        self.calls = vec![None; threads];
        self.standing = vec![false; threads];
        self.phase = Phase::Beginning;
    }

    /// A thread allocates.
    pub fn allocates(&mut self, me: usize, text: String, before: Option<LastOperation>) {
        self.figures.calls += 1;
        self.calls[me] = Some(Call { text, gives: Vec::new(), before });
    }

    /// It has got these blocks.
    ///
    /// # Errors
    /// If somebody owns a frame of them.
    pub fn allocated(&mut self, me: usize, blocks: &[Block]) -> Judged {
        self.calls[me] = None;
        for frame in blocks.iter().flat_map(|block| block.range()) {
            match self.owners.get_mut(frame) {
                Some(Owner::Thread(other)) => {
                    return Err(format!("frame {frame} is thread {other}'s, and handed out"));
                }
                Some(owner) => *owner = Owner::Thread(me),
                None => return Err(format!("{frame} is no frame of the zone")),
            }
        }
        self.blocks[me].extend(blocks);
        Ok(())
    }

    /// A thread frees blocks that it has taken from a list.
    pub fn frees(
        &mut self,
        me: usize,
        text: String,
        blocks: &[Block],
        before: Option<LastOperation>,
    ) {
        self.figures.calls += 1;
        let gives: Vec<usize> = blocks.iter().flat_map(|block| block.range()).collect();
        gives.iter().for_each(|&frame| self.owners[frame] = Owner::Giving(me));
        self.calls[me] = Some(Call { text, gives, before });
    }

    /// It has freed them.
    pub fn freed(&mut self, me: usize) {
        let call = self.calls[me].take();
        for frame in call.into_iter().flat_map(|call| call.gives) {
            // Who has allocated it meanwhile owns it, or gives it.
            if self.owners[frame] == Owner::Giving(me) {
                self.owners[frame] = Owner::Nobody;
            }
        }
    }

    /// Takes a block that any thread owns, living or dead: the first one's own, mostly.
    pub fn take(&mut self, me: usize, pick: usize) -> Option<Block> {
        let other = if pick.is_multiple_of(4) { pick / 4 % self.blocks.len() } else { me };
        let blocks = &mut self.blocks[other];
        let at = (pick / 64).checked_rem(blocks.len())?;
        Some(blocks.swap_remove(at))
    }

    /// The calls that were under way when their threads stopped, with the slots of those.
    pub fn dead_calls(&self) -> impl Iterator<Item = (Slot, &Call)> {
        let calls = self.calls.iter().enumerate();
        calls.filter_map(|(thread, call)| Some((Slot(thread), call.as_ref()?)))
    }
}
