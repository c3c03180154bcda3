//! A list of free blocks in one word.
//!
//! ```text
//!   63        48 47                    0
//!   │ blocks    │ address of the first  │      0: no blocks
//!
//!   a free block
//!   0                8                16
//!   │ the other ones │ the next list   │ …     the second word only in the first block of a list that
//!                                            the global layer keeps
//! ```
//!
//! 1. The first word of a free block is the word of the list without that block. So whoever takes a block needs one
//!    load and one store, and knows how many are left: the count travels with the address.
//! 2. An address has 48 bits, and the bits above are copies of bit 47, as x86-64 and AArch64 have them with four levels
//!    of page tables.
//! 3. The blocks of a list belong to whoever has the list.
//!
//! The paper's split free list (section 3.3.1) keeps an address and a count apart. One word lets a restartable
//! sequence change both by one store.

use core::ptr::{self, NonNull};

use crate::word;

/// Free blocks of one size. Copies of it are the same list: only one of them may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct List(u64);

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
/// One block, in the bits of the count.
const ONE: u64 = 1 << ADDRESS_BITS;
/// The bits of the address.
const ADDRESS: u64 = ONE - 1;

/// The most blocks of a list.
pub const MAX_BLOCKS: usize = 1000;
const _: () = assert!(MAX_BLOCKS < 1 << (u64::BITS - ADDRESS_BITS));

/// No block is smaller than the two words that a free one holds.
pub(crate) const MIN_BLOCK: usize = 2 * size_of::<List>();

impl List {
    /// No blocks.
    pub const EMPTY: List = List(0);

    /// A list as the word that a per-CPU layer keeps.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The list of a word that [`word`](Self::word) returned.
    #[inline]
    pub const fn from_word(word: u64) -> List {
        List(word)
    }

    /// How many blocks.
    #[inline]
    pub const fn len(self) -> usize {
        (self.0 >> ADDRESS_BITS) as usize
    }

    /// Are there none?
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first block.
    #[inline]
    fn first(self) -> *mut u8 {
        let above = u64::BITS - ADDRESS_BITS;
        ptr::with_exposed_provenance_mut(((self.0 << above) as i64 >> above) as usize)
    }

    /// The list with one block more.
    ///
    /// # Safety
    /// The block has 16 bytes at least, is aligned to 8, and belongs to the caller, who gives it away. The list has
    /// fewer than [`MAX_BLOCKS`].
    #[inline]
    #[must_use]
    pub unsafe fn push(self, block: NonNull<u8>) -> List {
        let address = block.as_ptr().expose_provenance() as u64 & ADDRESS;
        // SAFETY: the block is the caller's.
        unsafe { word::write(block.as_ptr().cast(), self.0) };
        List(((self.0 & !ADDRESS) + ONE) | address)
    }

    /// The first block, and the list without it.
    ///
    /// # Safety
    /// The list is the caller's.
    #[inline]
    pub unsafe fn pop(self) -> Option<(NonNull<u8>, List)> {
        let first = NonNull::new(self.first())?;
        // SAFETY: the first block of a list that the caller has (invariant 3).
        Some((first, List(unsafe { word::read(first.as_ptr().cast()) })))
    }

    /// The list that was linked behind the first block.
    ///
    /// # Safety
    /// The list is the caller's, not empty, and was given a next one.
    pub(crate) unsafe fn next(self) -> List {
        // SAFETY: as the caller says.
        List(unsafe { word::read(self.first().cast::<u64>().add(1)) })
    }

    /// Links another list behind the first block.
    ///
    /// # Safety
    /// The list is the caller's and not empty.
    pub(crate) unsafe fn set_next(self, next: List) {
        // SAFETY: as the caller says.
        unsafe { word::write(self.first().cast::<u64>().add(1), next.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_in_is_the_first_out() {
        let mut memory = [[0u64; 2]; MAX_BLOCKS];
        let blocks = memory.each_mut().map(|block| NonNull::from(block).cast::<u8>());
        let mut list = List::EMPTY;
        for (count, &block) in blocks.iter().enumerate() {
            assert_eq!((list.len(), list.is_empty()), (count, count == 0));
            // SAFETY: each block is pushed once.
            list = unsafe { list.push(block) };
            assert_eq!(List::from_word(list.word()), list);
        }
        for &block in blocks.iter().rev() {
            // SAFETY: the list is the test's.
            let (first, rest) = unsafe { list.pop() }.expect("there is one more");
            assert_eq!(first, block);
            list = rest;
        }
        // SAFETY: as above.
        assert_eq!(unsafe { list.pop() }, None);
    }

    /// Both halves of the address space: a kernel's is the upper one.
    #[test]
    fn addresses_have_48_bits() {
        for address in [0x7fff_ffff_fff0_usize, 0x1000, 0xffff_8000_0000_0000] {
            let list = List(ONE | address as u64 & ADDRESS);
            assert_eq!((list.first().addr(), list.len()), (address, 1));
        }
    }
}
