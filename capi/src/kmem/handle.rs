//! The handles of allocators and of caches of objects, in the caller's memory.
//!
//! ```text
//!   0       8        128                                     SIZE
//!   │ word  │ unused │ the allocator's own fields ┊ unused      │
//!     └─ "WLKMEM" or "WLOBJS"; any other value: none
//! ```
//!
//! # Invariants
//! 1. Where the word is the handle's, an allocator of that type lies behind it: the word is written last.
//! 2. An allocator is never dropped, and nothing in it needs that.

use core::mem::MaybeUninit;

use woodlot_kmem::{Kmem, Objects, Quarters};

use super::caches::{Cached, Caches};
use super::parts::{Builder, Frames, Told};
use crate::error::Error;
use crate::memory;

/// The allocator behind a handle.
pub(super) type Small = Kmem<Cached, Frames, Quarters, Told>;
/// The cache behind a handle.
pub(super) type Built = Objects<Caches, Builder>;

/// What handles are aligned to: `WOODLOT_KMEM_ALIGN`. Two cache lines, as the allocator's own parts are.
pub const KMEM_ALIGN: usize = 128;
/// Bytes of the handle of an allocator: `WOODLOT_KMEM_SIZE`.
pub const KMEM_SIZE: usize = 64 << 10;
/// Bytes of the handle of a cache of objects: `WOODLOT_OBJECTS_SIZE`.
pub const OBJECTS_SIZE: usize = 16 << 10;

/// A handle of so many bytes behind the word's line.
#[repr(C, align(128))]
struct Handle<const INSIDE: usize> {
    word: u64,
    unused: [u64; 15],
    inside: Inside<INSIDE>,
}

#[repr(C, align(128))]
struct Inside<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

/// `struct woodlot_kmem`.
#[repr(transparent)]
pub struct KmemHandle(Handle<{ KMEM_SIZE - KMEM_ALIGN }>);

/// `struct woodlot_objects`.
#[repr(transparent)]
pub struct ObjectsHandle(Handle<{ OBJECTS_SIZE - KMEM_ALIGN }>);

const _: () = assert!(size_of::<KmemHandle>() == KMEM_SIZE);
const _: () = assert!(align_of::<KmemHandle>() == KMEM_ALIGN);
const _: () = assert!(size_of::<ObjectsHandle>() == OBJECTS_SIZE);
const _: () = assert!(align_of::<ObjectsHandle>() == KMEM_ALIGN);

/// A handle that a C program has.
pub(super) trait Held: Sized {
    /// What lies in it.
    type Inside: 'static;
    /// What it begins with.
    const WORD: u64;
    /// What is said where it begins with something else.
    const NONE: Error;

    fn word(handle: *mut Self) -> *mut u64;
    fn place(handle: *mut Self) -> *mut MaybeUninit<Self::Inside>;

    /// What lies at a pointer.
    ///
    /// # Errors
    /// [`Error::Null`], [`Error::Unaligned`], or that there is none.
    ///
    /// # Safety
    /// Unless it is null or misaligned, the pointer leads to a handle or zeros, which nobody writes for `'a`.
    #[inline(always)]
    unsafe fn at<'a>(handle: *const Self) -> Result<&'a Self::Inside, Error> {
        memory::check(handle)?;
        let handle = handle.cast_mut();
        // SAFETY: it is neither null nor misaligned; the rest is the caller's promise, and invariant 1.
        unsafe {
            if Self::word(handle).read() != Self::WORD {
                return Err(Self::NONE);
            }
            Ok((*Self::place(handle)).assume_init_ref())
        }
    }

    /// Makes what is to lie there, and says so.
    ///
    /// # Safety
    /// The pointer leads to memory for a handle that nobody else uses, and `make` writes to all of the place.
    unsafe fn fill(handle: *mut Self, make: impl FnOnce(&mut MaybeUninit<Self::Inside>)) {
        // SAFETY: as the caller says.
        unsafe {
            make(&mut *Self::place(handle));
            Self::word(handle).write(Self::WORD);
        }
    }
}

macro_rules! held {
    ($handle:ty, $inside:ty, $word:literal, $none:expr) => {
        const _: () = assert!(size_of::<$inside>() <= size_of::<$handle>() - KMEM_ALIGN);
        const _: () = assert!(align_of::<$inside>() <= KMEM_ALIGN);

        impl Held for $handle {
            type Inside = $inside;
            const WORD: u64 = u64::from_be_bytes(*$word);
            const NONE: Error = $none;

            #[inline(always)]
            fn word(handle: *mut Self) -> *mut u64 {
                handle.cast()
            }

            #[inline(always)]
            fn place(handle: *mut Self) -> *mut MaybeUninit<$inside> {
                handle.wrapping_byte_add(KMEM_ALIGN).cast()
            }
        }
    };
}

held!(KmemHandle, Small, b"WLKMEM\0\x01", Error::NotAKmem);
held!(ObjectsHandle, Built, b"WLOBJS\0\x01", Error::NotObjects);
