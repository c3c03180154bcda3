//! The Woodlot page-frame allocators for C.
//!
//! ```text
//!   woodlot.h            what a C program sees: every call, with its errors, units and ranges
//!   ─────────────────────────────────────────────────────────────────────────────────────────
//!   make, alloc, free,   the calls: bad input is refused, the rest is the engine's
//!   huge, look, plain
//!   zone                 the handle in the caller's memory, and which engine it holds
//!   types, error         structures and numbers, as the header has them
//!   kmem                 the same of woodlot_kmem.h: small blocks over the frames of a zone
//! ```
//!
//! The documentation of the calls is the header's; the tests compare the two, name by name and type
//! by type, and run the contract suite through the calls.
//!
//! # One zone, one geometry
//! A handle's first word says which engine and which geometry lie behind it, and that there is a zone at all.
//! Each call compares this word once and goes on in code that was compiled for that engine and geometry.
//! A function for each geometry would save that comparison, and would give every call three names.
//!
//! # Safety
//! Every call asks of its caller what the header says under "Memory": a pointer that is neither null nor
//! misaligned leads to memory of its type. A handle is written by nobody but [`woodlot_init`].
#![no_std]

pub mod alloc;
pub mod error;
pub mod free;
pub mod huge;
#[cfg(feature = "kmem")]
pub mod kmem;
pub mod look;
pub mod make;
mod memory;
pub mod plain;
pub mod types;
pub mod zone;

pub use alloc::{woodlot_alloc, woodlot_alloc_batch, woodlot_alloc_placed, woodlot_alloc_range};
pub use free::{woodlot_can_free, woodlot_free, woodlot_free_batch, woodlot_free_range};
pub use huge::{woodlot_drain, woodlot_offline, woodlot_online};
pub use look::{
    woodlot_free_blocks, woodlot_free_frames, woodlot_free_in_huge, woodlot_free_map,
    woodlot_is_available, woodlot_is_free, woodlot_last_free_huge, woodlot_next_free_huge,
    woodlot_next_free_run, woodlot_stats,
};
pub use make::{
    woodlot_info, woodlot_init, woodlot_metadata_size, woodlot_shipped_classes, woodlot_sizes,
};
pub use plain::{
    woodlot_class_name, woodlot_engine_name, woodlot_error_message, woodlot_frame_address,
    woodlot_frame_containing, woodlot_frames_inside, woodlot_geometry_name,
    woodlot_huge_containing, woodlot_huge_first, woodlot_order_containing, woodlot_order_frames,
    woodlot_version,
};

pub use error::Error;
pub use zone::Zone;

/// Nothing in the library reaches this (`cargo xtask no-panic`); a library without `std` has to have it.
#[cfg(all(feature = "capi", panic = "abort"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
