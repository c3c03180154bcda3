//! A list of free blocks in one word.
//!
//! ```text
//!   63                    16 15        0
//!   │ address of the first  │ blocks    │      0: no blocks
//!
//!   a free block
//!   0                8
//!   │ the other ones │ …
//! ```
//!
//! 1. The first word of a free block is the word of the list without that block. So whoever takes a block needs one
//!    load and one store, and knows how many are left: the count travels with the address.
//! 2. An address has 48 bits, and the bits above are copies of bit 47, as x86-64 has them with four levels of page tables.
//!    On AArch64, where they may be anything, it has 52, and is a multiple of 16.
//! 3. The blocks of a list belong to whoever has the list.
//!
//! The paper's split free list (section 3.3.1) keeps an address and a count apart. One word lets a restartable
//! sequence change both by one store. The count is below, where a processor compares it without a shift; a shift with
//! the sign makes the rest an address.

use core::ptr::{self, NonNull};

use crate::word;

/// Free blocks of one size. Copies of it are the same list: only one of them may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct List(u64);

/// Bits of the count.
const COUNT_BITS: u32 = 16;

/// Where the address begins. On AArch64 it has more than 48 bits; the lowest four, which are 0, lie below the count.
const ADDRESS_AT: u32 = if cfg!(target_arch = "aarch64") { 12 } else { 16 };

/// The bits of an address that are not there, but 0.
const NOT_THERE: usize = (1 << (COUNT_BITS - ADDRESS_AT)) - 1;

/// The most blocks of a list.
pub const MAX_BLOCKS: usize = 1000;
const _: () = assert!(MAX_BLOCKS < 1 << COUNT_BITS);

/// No block is smaller than the word that a free one holds.
pub(crate) const MIN_BLOCK: usize = size_of::<List>();

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

    /// The word of a list that has this block alone. With the count of another list added, it is the word of that list
    /// with this block before it.
    #[inline]
    pub fn word_of(block: NonNull<u8>) -> u64 {
        List::uncounted(block) + 1
    }

    /// That word but for the count, which is 0: for whoever adds another list's count and 1 by one instruction.
    #[inline]
    pub fn uncounted(block: NonNull<u8>) -> u64 {
        (block.as_ptr().expose_provenance() as u64) << ADDRESS_AT
    }

    /// How many blocks.
    #[inline]
    pub const fn len(self) -> usize {
        self.0 as u16 as usize
    }

    /// Are there none?
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The address of the first block.
    #[inline]
    pub(crate) fn first_address(self) -> usize {
        (self.0 as i64 >> ADDRESS_AT) as usize & !NOT_THERE
    }

    /// The first block.
    #[inline]
    pub(crate) fn first(self) -> Option<NonNull<u8>> {
        NonNull::new(ptr::with_exposed_provenance_mut(self.first_address()))
    }

    /// Links the run that this list begins with, up to the list behind it: its first block, which is `first`, has that, and each
    /// other one lies so many bytes behind the one before.
    ///
    /// # Safety
    /// The list is the caller's, and there is such a run.
    pub(crate) unsafe fn link_run(self, first: NonNull<u8>, bytes: usize, behind: List) {
        let (mut rest, last) = (self, self.len() - behind.len() - 1);
        for at in 0..last {
            rest = rest.behind(bytes, 1);
            // SAFETY: as the caller says.
            unsafe { word::write(first.add(at * bytes).as_ptr().cast(), rest.0) };
        }
        // SAFETY: as above.
        unsafe { word::write(first.add(last * bytes).as_ptr().cast(), behind.0) };
    }

    /// The list without the first `blocks` blocks, if each of them but the first, and what is first then, lies so many bytes
    /// behind the one before.
    #[inline]
    pub(crate) fn behind(self, step: usize, blocks: usize) -> List {
        let one = ((step as u64) << ADDRESS_AT).wrapping_sub(1);
        List(self.0.wrapping_add(one.wrapping_mul(blocks as u64)))
    }

    /// The list with one block more.
    ///
    /// # Safety
    /// The block has 8 bytes at least, is aligned to 8 (on AArch64 to 16), and belongs to the caller, who gives it away. The list has
    /// fewer than [`MAX_BLOCKS`].
    #[inline]
    #[must_use]
    pub unsafe fn push(self, block: NonNull<u8>) -> List {
        // SAFETY: the block is the caller's.
        unsafe { word::write(block.as_ptr().cast(), self.0) };
        List(List::word_of(block) + self.len() as u64)
    }

    /// The first block, and the list without it.
    ///
    /// # Safety
    /// The list is the caller's.
    #[inline]
    pub unsafe fn pop(self) -> Option<(NonNull<u8>, List)> {
        let first = self.first()?;
        // SAFETY: the first block of a list that the caller has (invariant 3).
        Some((first, List(unsafe { word::read(first.as_ptr().cast()) })))
    }
}

#[cfg(test)]
#[cfg_attr(coverage_nightly, coverage(off))]
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

    /// Both halves of the address space: a kernel's is the upper one. On AArch64 a program's addresses go further up.
    #[test]
    fn addresses_have_48_bits() {
        let all = [0x7fff_ffff_fff0_usize, 0x1000, 0xffff_8000_0000_0000];
        let more = [0xffff_8000_0000, 0xffff_0000_0000_0000, 0xf_ffff_ffff_fff0 >> 1 & !15];
        let more = if cfg!(target_arch = "aarch64") { &more[..] } else { &[] };
        for &address in all.iter().chain(more) {
            let block = NonNull::new(ptr::without_provenance_mut(address)).expect("it is not 0");
            let list = List(List::word_of(block));
            assert_eq!((list.first_address(), list.len()), (address, 1));
        }
    }
}
