//! A slab: one frame cut into equal pieces, and the word that says which of them are free.
//!
//! ```text
//!   frame   │ word ┊ unused │ piece 1 │ piece 2 │ … │ piece n-1 │      n = 64, 32, 16, 8 or 4
//!   word    bit 0: held     bit i: piece i is free
//! ```
//!
//! 1. A slab is *held* by one place or one call, or by nobody. Only the holder takes pieces.
//! 2. A held slab has a free piece: whoever takes the last one lets go of the slab with the same write.
//! 3. Anybody frees pieces. Who frees a piece of a slab that nobody holds becomes the holder with the same
//!    write.
//! 4. Only the holder of a slab whose pieces are all free gives the frame back. So the frame of a piece that
//!    is in use, and that of a held slab, stays a slab.

use woodlot_frame::Geometry;
use woodlot_frame::atomics::{AtomicU64, Ordering};

/// How many sizes of pieces there are: a 64th of a frame, a 32nd, up to a quarter.
pub const SIZES: usize = 5;

/// The pieces of the smallest size in a frame, the first of which holds the word: one bit for each.
const PIECES: usize = u64::BITS as usize;

/// A size of pieces: size *s* is 2^*s* 64ths of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceSize(u32);

impl PieceSize {
    /// Every size.
    pub fn all() -> impl Iterator<Item = PieceSize> {
        (0..SIZES as u32).map(PieceSize)
    }

    /// The size for so many bytes, unless they are more than a quarter of a frame.
    pub fn of<G: Geometry>(bytes: usize) -> Option<PieceSize> {
        const { assert!(G::BASE_BYTES >= PIECES * size_of::<AtomicU64>()) }
        let units = bytes.div_ceil(G::BASE_BYTES / PIECES).max(1);
        let size = usize::BITS - (units - 1).leading_zeros();
        (size < SIZES as u32).then_some(PieceSize(size))
    }

    /// How many bytes a piece has.
    pub fn bytes<G: Geometry>(self) -> usize {
        (G::BASE_BYTES / PIECES) << self.0
    }

    /// Which of the sizes this is.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The word of a slab whose pieces are all free, without its lowest bit.
    fn all_free(self) -> u64 {
        (u64::MAX >> (PIECES - (PIECES >> self.0))) & !HELD
    }
}

/// The bit that says that the slab is held.
const HELD: u64 = 1;

/// The word of a slab: bit 0 says that the slab is held, bit *i* that piece *i* is free. The holder clears
/// bits 1 to 63 and bit 0; anybody sets bits.
#[repr(transparent)]
pub struct Slab(AtomicU64);

const _: () = assert!(size_of::<Slab>() == 8);

/// What became of a slab that its holder wanted to let go of.
#[derive(PartialEq, Eq, Debug)]
pub enum LetGo {
    /// Nobody holds the slab.
    Done,
    /// All pieces are free: the slab is still the caller's, whose frame is to be given back.
    Empty,
}

impl Slab {
    /// A slab whose pieces are all free, held by the caller.
    pub fn new(size: PieceSize) -> Slab {
        Slab(AtomicU64::new(size.all_free() | HELD))
    }

    /// Takes a piece, as the holder: its number, and whether the caller still holds the slab.
    pub fn take(&self) -> Option<(usize, bool)> {
        let mut piece = 0;
        let old = self.update(|word| {
            let free = word & !HELD;
            piece = free.trailing_zeros() as usize;
            let left = free & free.wrapping_sub(1);
            (free != 0).then_some(if left == 0 { 0 } else { left | HELD })
        });
        old.map(|word| (piece, (word & !HELD).count_ones() > 1))
    }

    /// Frees a piece. Is the caller the holder now? A piece that is free already stays so.
    pub fn give(&self, piece: usize) -> bool {
        let bit = 1u64.checked_shl(piece as u32).unwrap_or(0) & !HELD;
        let old = self.update(|word| (word & bit == 0 && bit != 0).then_some(word | bit | HELD));
        old.is_some_and(|word| word & HELD == 0)
    }

    /// Lets go of the slab, as the holder, unless all pieces are free.
    pub fn let_go(&self, size: PieceSize) -> LetGo {
        match self.update(|word| (word & !HELD != size.all_free()).then_some(word & !HELD)) {
            Some(_) => LetGo::Done,
            None => LetGo::Empty,
        }
    }

    /// Are all pieces free? To the holder a yes stays true.
    pub fn is_empty(&self, size: PieceSize) -> bool {
        self.0.load(Ordering::Acquire) & !HELD == size.all_free()
    }

    /// Changes the word by one write, and returns what it was; nothing where there is nothing to change.
    ///
    /// Acquire and release: who takes a piece, or gives the frame back, comes after whoever freed.
    fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use woodlot_frame::{Base4K, Base64K};

    fn size(bytes: usize) -> Option<usize> {
        PieceSize::of::<Base4K>(bytes).map(|size| size.bytes::<Base4K>())
    }

    #[test]
    fn pieces_are_as_large_as_need_be() {
        for (bytes, piece) in [(0, 64), (1, 64), (64, 64), (65, 128), (513, 1024), (1024, 1024)] {
            assert_eq!(size(bytes), Some(piece), "{bytes} bytes");
        }
        for bytes in [1025, 4096, isize::MAX as usize, usize::MAX] {
            assert_eq!(size(bytes), None);
        }
        let large = PieceSize::of::<Base64K>(1).map(|size| size.bytes::<Base64K>());
        assert_eq!(large, Some(1024));
    }

    #[test]
    fn a_slab_hands_out_each_piece_once_and_is_let_go_of_with_the_last() {
        for size in PieceSize::all() {
            let pieces = (64 >> size.0) - 1;
            let slab = Slab::new(size);
            assert!(slab.is_empty(size));
            for piece in 1..=pieces {
                assert_eq!(slab.take(), Some((piece, piece < pieces)));
            }
            assert_eq!(slab.take(), None);
            assert!(slab.give(pieces), "who frees a piece of a full slab holds it");
            assert!(!slab.give(pieces), "a piece that is free stays free");
            assert!(!slab.give(0) && !slab.give(64), "there are no such pieces");
            assert_eq!(slab.let_go(size), LetGo::Done);
            for piece in 1..pieces {
                assert_eq!(slab.give(piece), piece == 1);
            }
            assert!(slab.is_empty(size));
            assert_eq!(slab.let_go(size), LetGo::Empty);
        }
    }
}
