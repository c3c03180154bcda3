//! What a thread of a storm does.

use crate::blocks;

/// Allocates and signs blocks, puts them into the table, and frees what it finds there, for as long as it is told to.
/// Each fourth block has the next size class, so that even a short storm reaches all.
pub fn churn(owner: usize, goes_on: impl Fn(usize) -> bool) {
    let mut random = fastrand::Rng::with_seed(owner as u64);
    let classes: Vec<_> = (0..).map_while(woodlot_malloc::stats).map(|size| size.bytes).collect();
    let mut step = 0;
    while goes_on(step) {
        step += 1;
        let most = if random.u8(..) == 0 { 40_000 } else { 2 << random.u32(0..9) };
        let bytes = match step % 4 {
            0 => classes[step / 4 % classes.len()],
            _ => random.usize(1..=most) * 8,
        };
        let block = blocks::alloc(bytes, owner, step);
        pairs(random.usize(1..32) * 8);
        if let Some(old) = blocks::exchange(&mut random, block) {
            blocks::free(old, random.bool());
        }
    }
}

/// Pairs of sequences, which leave little time between them.
fn pairs(bytes: usize) {
    for _ in 0..50 {
        let block = woodlot_malloc::alloc(bytes).expect("memory");
        // SAFETY: the block was just allocated for so many bytes.
        unsafe {
            block.cast::<u64>().write(u64::MAX);
            woodlot_malloc::free_sized(block, bytes);
        }
    }
}
