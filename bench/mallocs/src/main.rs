//! `woodlot` with the heaps of others: `bench kmem` measures them beside its own.
//!
//! | | calls |
//! |---|---|
//! | *mimalloc* | `mi_malloc`, `mi_zalloc`, `mi_free` |
//! | *jemalloc* | `malloc`, `calloc` and `sdallocx`, by the names that the crate gives them |
//! | *snmalloc* | what it has for Rust: a size and an alignment for both |
//!
//! They are linked under their own names, so that the program itself allocates from the C library as before.

use std::process::ExitCode;

use woodlot_bench::kmem::add;
use woodlot_bench::kmem::heap::Heap;

/// What every heap here aligns blocks to without being asked.
const ALIGN: usize = 16;

macro_rules! heap {
    ($type:ident $name:literal $about:literal,
     $alloc:expr, $alloc_zeroed:expr, $free:expr) => {
        struct $type;

        // SAFETY: as the library says. Blocks have 16 bytes or more, which each of them aligns to 16.
        unsafe impl Heap for $type {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = $about;

            #[inline(always)]
            fn alloc(&self, bytes: usize) -> *mut u8 {
                // SAFETY: it may be called with any size that is not 0.
                unsafe { $alloc(bytes) }.cast()
            }

            #[inline(always)]
            fn alloc_zeroed(&self, bytes: usize) -> *mut u8 {
                // SAFETY: as above.
                unsafe { $alloc_zeroed(bytes) }.cast()
            }

            #[inline(always)]
            unsafe fn free(&self, block: *mut u8, bytes: usize) {
                // SAFETY: as the caller says.
                unsafe { $free(block, bytes) };
            }
        }
    };
}

heap!(Mimalloc "mimalloc" "mimalloc, by libmimalloc-sys 0.1",
    libmimalloc_sys::mi_malloc,
    libmimalloc_sys::mi_zalloc,
    |block: *mut u8, _| libmimalloc_sys::mi_free(block.cast()));

heap!(Jemalloc "jemalloc" "jemalloc, by tikv-jemalloc-sys 0.7; frees with the size",
    tikv_jemalloc_sys::malloc,
    |bytes| tikv_jemalloc_sys::calloc(1, bytes),
    |block: *mut u8, bytes| tikv_jemalloc_sys::sdallocx(block.cast(), bytes, 0));

heap!(Snmalloc "snmalloc" "snmalloc, by snmalloc-sys 0.7; frees with the size",
    |bytes| snmalloc_sys::sn_rust_alloc(ALIGN, bytes),
    |bytes| snmalloc_sys::sn_rust_alloc_zeroed(ALIGN, bytes),
    |block: *mut u8, bytes| snmalloc_sys::sn_rust_dealloc(block.cast(), ALIGN, bytes));

fn main() -> ExitCode {
    add(&Mimalloc);
    add(&Jemalloc);
    add(&Snmalloc);
    woodlot_cli::program()
}
