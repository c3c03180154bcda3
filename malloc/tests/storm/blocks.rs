//! Blocks that say whose they are, and the table by which threads hand them to each other.
//!
//! ```text
//!   each word of a block   63    32 31    20 19    0
//!                          │ step  │ owner │ bytes │      a free block: no owner, no step
//! ```

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks that wait for any thread to free them.
const SHARED: usize = 256;

static SHARE: [AtomicUsize; SHARED] = [const { AtomicUsize::new(0) }; SHARED];

/// Allocates a block of whole words, and signs each.
pub fn alloc(bytes: usize, owner: usize, step: usize) -> NonNull<u64> {
    let block = woodlot_malloc::alloc(bytes).expect("memory").cast();
    sign(block, bytes, (step << 32 | owner << 20 | bytes) as u64);
    block
}

fn sign(block: NonNull<u64>, bytes: usize, word: u64) {
    // SAFETY: the block has so many bytes, and is this thread's.
    unsafe { (0..bytes / 8).for_each(|at| block.add(at).write(word)) };
}

/// Looks at each word of a block, and frees it.
pub fn free(block: NonNull<u64>, sized: bool) {
    // SAFETY: the block is this thread's, and was signed.
    let word = unsafe { block.read() };
    let bytes = (word & 0xf_ffff) as usize;
    assert!(bytes > 0 && woodlot_malloc::usable(block.cast()) >= bytes, "{word:x}");
    for at in 0..bytes / 8 {
        // SAFETY: as above.
        let held = unsafe { block.add(at).read() };
        assert_eq!(held, word, "word {at} of a block of {bytes} bytes");
    }
    sign(block, bytes, bytes as u64);
    // SAFETY: the block is this thread's, and was allocated for so many bytes.
    unsafe {
        if sized {
            woodlot_malloc::free_sized(block.cast(), bytes);
        } else {
            woodlot_malloc::free(block.cast());
        }
    }
}

/// Puts a block into the table, in place of another one, which is the caller's now.
pub fn exchange(random: &mut fastrand::Rng, block: NonNull<u64>) -> Option<NonNull<u64>> {
    let place = random.usize(..SHARED);
    taken(SHARE[place].swap(block.as_ptr().expose_provenance(), Ordering::AcqRel))
}

/// Frees all blocks of the table.
pub fn free_all() {
    let blocks = SHARE.iter().filter_map(|place| taken(place.swap(0, Ordering::AcqRel)));
    blocks.for_each(|block| free(block, true));
}

fn taken(address: usize) -> Option<NonNull<u64>> {
    NonNull::new(ptr::with_exposed_provenance_mut(address))
}
