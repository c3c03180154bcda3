//! The pool.

use std::fmt;
use std::num::NonZero;
use std::os::fd::BorrowedFd;

use woodlot_frame::{FrameId, Order};

use crate::block::{Block, Run};
use crate::claim::Claim;
use crate::error::{BuildError, PoolError};
use crate::frames::Frames;
use crate::mapping::FRAME;
use crate::movable::Movable;
use crate::options::{Engine, Options};
use crate::place::{Lies, Stays};
use crate::wired::Wired;

impl Options {
    /// Makes the pool.
    ///
    /// # Errors
    /// What is wrong with the options, or what the system refused. Nothing is kept then; a file that was not there
    /// may be left, empty.
    pub fn build(&self) -> Result<Pool, BuildError> {
        Ok(Pool { frames: Frames::new(self)? })
    }
}

/// A range of memory, handed out in blocks of 4 KiB to 4 MiB and in runs.
///
/// Any thread may call anything. Blocks borrow the pool, so all of them are gone when the pool is dropped, which gives
/// the memory to the system.
///
/// # Progress
/// An allocation or a free takes no lock as long as the pool has memory. An allocation that finds none takes back what
/// threads keep (see [`Options::magazines`]), and takes memory from the system, up to the cap, one thread at a time. It
/// waits for a [`give_back`](Self::give_back) under way, and for threads that are at what they keep: a few
/// instructions, or until the system lets them run again. A signal handler may allocate and free blocks; one that has
/// interrupted its thread there, or in such a wait, in a call of whichever pool, does not wait, and its allocation fails if
/// the engine has no memory.
pub struct Pool {
    frames: Frames,
}

impl Pool {
    /// What a pool of `size` bytes is to be: the same as [`Options::new`].
    pub fn builder(size: usize) -> Options {
        Options::new(size)
    }

    /// A block of 2^`order` frames.
    ///
    /// # Errors
    /// [`PoolError::OutOfMemory`] where no such block is free and the cap leaves no room, or
    /// [`PoolError::NotProvided`] where the system has no more memory; [`PoolError::OrderTooLarge`] above 10.
    #[inline]
    pub fn alloc(&self, order: Order) -> Result<Block<'_>, PoolError> {
        Ok(Block::new(&self.frames, self.frames.alloc(order)?, order))
    }

    /// The same, filled with zeros. The pool writes them: it does not know which memory is fresh.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_zeroed(&self, order: Order) -> Result<Block<'_>, PoolError> {
        let mut block = self.alloc(order)?;
        block.fill(0);
        Ok(block)
    }

    /// The block at a frame: one that an earlier program kept in the file of the pool, say.
    ///
    /// # Errors
    /// [`PoolError::Place`] where it is not free or not a block of the pool; otherwise as [`alloc`](Self::alloc). If it
    /// looks in use, the call takes back what threads keep, and looks again.
    pub fn alloc_at(&self, frame: FrameId, order: Order) -> Result<Block<'_>, PoolError> {
        Ok(Block::new(&self.frames, self.frames.alloc_at(frame, order)?, order))
    }

    /// `count` blocks, or none.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_batch(&self, order: Order, count: usize) -> Result<Vec<Block<'_>>, PoolError> {
        (0..count).map(|_| self.alloc(order)).collect()
    }

    /// At least so many neighbouring bytes, rounded up to frames. Memory that the system has is taken for a run in
    /// whole huge frames: beside frames that are in use only free memory of the pool counts.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc), or [`PoolError::NoBytes`].
    pub fn alloc_run(&self, bytes: usize) -> Result<Run<'_>, PoolError> {
        let range = self.frames.alloc_run(bytes.div_ceil(FRAME))?;
        Ok(Run::new(&self.frames, range))
    }

    /// At least so many bytes, rounded up to frames, with memory behind each page (`MADV_POPULATE_WRITE`, or `_READ` of a file
    /// in memory): a guest's memory, say. They are runs, the longest that there are: 1 GiB first, aligned to itself, huge
    /// frames next, single frames at last. The system is asked once for each run, not at each page's first touch; and not again
    /// for huge frames that were wired before and not given back, unless processes share the pool or it is on a disk.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc), where so many bytes are not there in whatever pieces; [`PoolError::NoBytes`]. Nothing is
    /// kept then, but memory that the system has brought stays resident.
    ///
    /// # Progress
    /// The engine is asked once for each 32 blocks. The call returns when the system has filled all memory with zeros that it
    /// did not have behind the pool yet.
    pub fn wire(&self, bytes: usize) -> Result<Wired<'_>, PoolError> {
        self.wire_by(bytes, NonZero::<usize>::MIN)
    }

    /// The same by so many threads, of which this one is one: the others are started, and have ended when the call returns.
    /// Fresh memory comes sooner, as long as there are CPUs for them and the memory takes the zeros; it costs no less CPU time.
    /// The system is asked for each huge frame (or page of 1 GiB) by itself, and no more threads are started than there are
    /// of those. By one thread it is [`wire`](Self::wire).
    ///
    /// With [`Options::numa_node`] memory is that node's, whichever thread brings it. Threads have the CPUs and the memory policy
    /// (`set_mempolicy`) of the caller. Where it has none, Linux takes memory of the node that a thread runs on, which may be
    /// another than the caller's.
    ///
    /// # Errors
    /// As [`wire`](Self::wire): the first one of a thread, and no thread asks for more then. A thread that cannot be
    /// started is no error: the others do its work.
    ///
    /// # Progress
    /// As [`wire`](Self::wire). The threads share a counter, and no lock of the pool.
    pub fn wire_by(&self, bytes: usize, threads: NonZero<usize>) -> Result<Wired<'_>, PoolError> {
        Wired::new(&self.frames, bytes, threads)
    }

    /// A block that the pool may move while it is in use, filled with whatever is there.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); [`PoolError::NotProvided`] where the system has no addresses for the table of such blocks,
    /// 12 bytes for each frame of the pool.
    pub fn alloc_movable(&self, order: Order) -> Result<Movable<'_>, PoolError> {
        Movable::new(&self.frames, order)
    }

    /// Moves the movable block that begins at `from` to where `to` is, and returns what it leaves: the block at `from`. Its
    /// handle reads and writes what it did, elsewhere.
    ///
    /// # Errors
    /// Why it stays where it is, and `to`.
    ///
    /// # Progress
    /// Copies the block. Writers wait meanwhile, readers do not. Then it looks some 200 times whether its
    /// readers have left, without sleeping, and gives up if they have not.
    pub fn move_block<'p>(
        &'p self,
        from: FrameId,
        to: Block<'p>,
    ) -> Result<Block<'p>, (Block<'p>, Stays)> {
        let order = to.order();
        if !to.is_of(&self.frames, order) {
            return Err((to, Stays::NotMovable));
        }
        match self.frames.relocate(Lies { first: from, order }, to.frame()) {
            Ok(()) => {
                // It is its new owner's.
                let _ = to.into_frame();
                Ok(Block::new(&self.frames, from, order))
            }
            Err(stays) => Err((to, stays)),
        }
    }

    /// Sets `blocks` blocks aside, for allocations that must not fail. All or none.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn claim(&self, order: Order, blocks: usize) -> Result<Claim<'_>, PoolError> {
        Claim::new(&self.frames, order, blocks)
    }

    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The handle of a block whose [`into_frame`](Block::into_frame) gave its number. It may name a part of such a
    /// block; each part is freed by itself then. In a [shared](Options::shared) pool the number may be another process's,
    /// and the block is this one's from now on. If that process dies before, the block is free, or somebody else's.
    ///
    /// # Errors
    /// [`PoolError::NotAllocated`] where the pool has not handed out all of it.
    ///
    /// # Progress
    /// The call takes back what threads keep, one thread at a time: about a microsecond, and more with many threads. Without
    /// [magazines](Options::magazines) it only looks at the engine.
    ///
    /// # Safety
    /// No other handle and no reference has any of these frames. So another process that hands them over must live until
    /// this call has returned.
    pub unsafe fn adopt(&self, frame: FrameId, order: Order) -> Result<Block<'_>, PoolError> {
        self.frames.check_allocated(frame, order)?;
        Ok(Block::new(&self.frames, frame, order))
    }

    /// Gives free memory to the system, at most so many bytes, in whole huge frames (or pages of 1 GiB); returns how
    /// many. Allocations take the memory again when they need it.
    ///
    /// # Errors
    /// [`PoolError::NotTaken`] where the system refuses.
    ///
    /// # Progress
    /// The highest free huge frames go first, and neighbours go together. Other threads go on; those that find no
    /// memory wait for the end of this call.
    pub fn give_back(&self, bytes: usize) -> Result<usize, PoolError> {
        self.frames.give_back(bytes)
    }

    /// Frees what processes had that share this pool and are dead; returns how many bytes. An allocation that finds no
    /// memory does so too, and so does a process that joins. 0 where the pool is not [shared](Options::shared).
    ///
    /// What a call of a dead process had in its hands stays hidden until all processes have gone: for each of its threads,
    /// one block, or the blocks of one run.
    ///
    /// # Progress
    /// Linear in the pool's size for each dead process. Others go on; those that join or reap wait.
    pub fn reap(&self) -> usize {
        self.frames.reap().unwrap_or(0) * FRAME
    }

    /// How many bytes are resident: those of all huge frames (or pages of 1 GiB) that are not given back, in use or
    /// free. The system has no more than these behind the pool's addresses, and less where nothing has been
    /// touched. Linear in the pool's size, by a bit for each: a count of them would be wrong after a death.
    pub fn resident(&self) -> usize {
        self.frames.resident()
    }

    /// How many of the resident bytes are free, those that threads keep among them. Exact if no call is under way.
    /// Linear in the pool's size.
    pub fn free_bytes(&self) -> usize {
        self.frames.free_bytes()
    }

    /// The most bytes that are resident at any time.
    pub fn cap(&self) -> usize {
        self.frames.cap()
    }

    /// Who hands out the frames.
    pub fn engine(&self) -> Engine {
        self.frames.engine()
    }

    /// The bytes of the pool's range.
    pub fn size(&self) -> usize {
        self.frames.mapping().len()
    }

    /// The first byte of a frame, or `None` outside of the pool. The pointer is good for a block that the caller owns,
    /// and for nothing else.
    pub fn pointer(&self, frame: FrameId) -> Option<*mut u8> {
        (frame.0 < self.size() / FRAME).then(|| self.frames.address(frame))
    }

    /// The frame that an address lies in, or `None` outside of the pool.
    pub fn frame_of(&self, pointer: *const u8) -> Option<FrameId> {
        let offset = pointer.addr().checked_sub(self.frames.mapping().base().addr())?;
        (offset < self.size()).then_some(FrameId(offset / FRAME))
    }

    /// The memory file or file of the pool. Frame *f* lies at byte 4096·*f* of it; in a [shared](Options::shared) pool
    /// at that byte from the place on which its pool page names.
    ///
    /// # Safety
    /// Whoever gets the descriptor must not write where a block of this process is borrowed, nor make the file shorter,
    /// nor unlock it.
    pub unsafe fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.frames.mapping().descriptor()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pool = f.debug_struct("Pool");
        pool.field("size", &self.size()).field("cap", &self.cap());
        pool.field("resident", &self.resident()).field("free", &self.free_bytes()).finish()
    }
}
