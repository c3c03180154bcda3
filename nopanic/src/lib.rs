//! Every method of the core crates and the adapters, each as a symbol: what `cargo xtask no-panic` looks into.
//!
//! ```text
//!   hot_llfree_base4k_alloc   called all the time: no division by a variable either
//!   cold_nbbs4_base4k_stats   everything else
//!   woodlot_alloc             the calls for C, as they are
//!   hot_defect_…              seeded: each must be found
//! ```
//!
//! A method without a geometry is there once, one with a geometry for all three
//! and for each engine. Of derived traits
//! only what has a body of ours: messages (`Display`), defaults.
//!
//! The functions have the Rust ABI and unmangled names; nobody calls them. The panic handler calls
//! a symbol that does not exist, so that no panic can be optimised away: what leads there panics.
#![no_std]

/// Functions under the names `KIND_MODULE_NAME`, where `KIND` is hot or cold.
macro_rules! symbols {
    ($kind:ident $module:ident:
        $($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $body:expr;)*) => {
        $(#[unsafe(export_name = concat!(
            stringify!($kind), "_", stringify!($module), "_", stringify!($name)
        ))]
        pub fn $name($($argument: $type),*) -> $result {
            $body
        })*
    };
}

mod adapters;
mod compact;
mod defects;
mod domains;
mod engine;
mod kmem;
mod kmem_vmblk;
mod owners;
mod plain;
mod stacks;
mod zone;

use core::panic::PanicInfo;

use woodlot_capi as _;

unsafe extern "Rust" {
    fn woodlot_panicked(info: &PanicInfo) -> !;
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    // SAFETY: never linked, never called.
    unsafe { woodlot_panicked(info) }
}
