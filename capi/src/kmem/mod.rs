//! The kernel memory allocator for C: `woodlot_kmem.h`.
//!
//! ```text
//!   make, calls, look     the calls of a kmem                objects   the calls of a cache of objects
//!   handle                a handle in the caller's memory, and what lies in it
//!   caches, parts         caches, pages and hooks, of the caller's functions and memory
//!   types                 structures, as the header has them
//! ```
//!
//! Sizes are four in each octave; pages are frames of 4 KiB of a zone whose memory lies in one range of addresses.

mod caches;
pub mod calls;
mod handle;
pub mod look;
pub mod make;
pub mod objects;
mod parts;
pub mod types;

pub use caches::CACHE_SIZE;
pub use calls::{
    woodlot_kmem_alloc, woodlot_kmem_alloc_aligned, woodlot_kmem_alloc_cookie, woodlot_kmem_cookie,
    woodlot_kmem_free, woodlot_kmem_free_aligned, woodlot_kmem_free_any, woodlot_kmem_free_cookie,
};
pub use handle::{KMEM_ALIGN, KMEM_SIZE, KmemHandle, OBJECTS_SIZE, ObjectsHandle};
pub use look::{
    woodlot_kmem_flush, woodlot_kmem_flush_cpu, woodlot_kmem_flush_unused,
    woodlot_kmem_flush_unused_global, woodlot_kmem_size, woodlot_kmem_usable,
};
pub use make::{woodlot_kmem_init, woodlot_kmem_memory_size};
pub use objects::{
    woodlot_objects_alloc, woodlot_objects_flush, woodlot_objects_flush_cpu,
    woodlot_objects_flush_unused, woodlot_objects_flush_unused_global, woodlot_objects_free,
    woodlot_objects_init,
};
pub use parts::OBJECTS_TARGET;
