//! Blocks that are set aside.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use woodlot_frame::{FrameId, Order};

use crate::block::Block;
use crate::error::PoolError;
use crate::frames::Frames;

/// Blocks of one order that nobody else can have. Any thread may allocate from it.
///
/// The claim takes its blocks when it is made, so what it promises is exact for every order: as many calls of
/// [`alloc`](Self::alloc) succeed as the claim has blocks, whatever else the pool does. A block that is dropped goes to
/// the pool; one that is [put](Self::put) goes to the claim again. What is left goes to the pool with the claim.
///
/// The blocks count as resident. The system may still have no memory at their first touch, unless the pool is made with
/// [`Options::populate`](crate::Options::populate), of reserved huge pages, or of a file.
pub struct Claim<'p> {
    frames: &'p Frames,
    order: Order,
    blocks: usize,
    left: Mutex<Vec<FrameId>>,
}

impl<'p> Claim<'p> {
    pub(crate) fn new(
        frames: &'p Frames,
        order: Order,
        blocks: usize,
    ) -> Result<Claim<'p>, PoolError> {
        let claim = Claim { frames, order, blocks, left: Mutex::new(Vec::new()) };
        for _ in 0..blocks {
            // What is there already is freed with the claim, if there are too few.
            claim.lock().push(frames.alloc(order)?);
        }
        Ok(claim)
    }

    /// One of its blocks.
    ///
    /// # Errors
    /// [`PoolError::ClaimUsedUp`] where it has handed out all.
    pub fn alloc(&self) -> Result<Block<'p>, PoolError> {
        let first = self.lock().pop().ok_or(PoolError::ClaimUsedUp { blocks: self.blocks })?;
        Ok(Block::new(self.frames, first, self.order))
    }

    /// Sets a block aside again, or another one of the pool in its place.
    ///
    /// # Errors
    /// [`PoolError::NotOfClaim`], and the block, where it is of another pool or order, or the claim has all its blocks.
    pub fn put(&self, block: Block<'p>) -> Result<(), (Block<'p>, PoolError)> {
        let mut left = self.lock();
        if !block.is_of(self.frames, self.order) || left.len() == self.blocks {
            return Err((block, PoolError::NotOfClaim));
        }
        left.push(block.into_frame());
        Ok(())
    }

    /// How many blocks it has left.
    pub fn left(&self) -> usize {
        self.lock().len()
    }

    /// The order of its blocks.
    pub fn order(&self) -> Order {
        self.order
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FrameId>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let left = self.left.get_mut().unwrap_or_else(PoisonError::into_inner);
        left.drain(..).for_each(|first| self.frames.free(first, self.order));
    }
}

impl fmt::Debug for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({} of {} blocks of {})", self.left(), self.blocks, self.order)
    }
}
