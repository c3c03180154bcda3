#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   Woodlot     Rust's allocators                                                global
//!   heap        what becomes of a request                                        heap
//!   kmem        caches of CPUs, global layer, slabs                              woodlot-kmem
//!   Rseq        a CPU's cache, by restartable sequences                          rseq
//!   Caches      the same, or with a count of calls                               counted
//!   Busy        threads in a slow path, and what signal handlers free meanwhile  busy, parked
//!   Hot         the words that every call reads                                  hot
//!   Threads     a thread's cache, where there are none                           threads
//!   Segments    pages: zones of 4 GiB over one range of addresses                segments, segment
//!   Large       mappings of their own                                            large
//!   Told        who hears of wrong calls; a mark for each block in use           misuse, marks
//!   tend        what goes back by itself                                         upkeep
//!   Snapshot    all of it, looked at from outside                                outside
//! ```
#![no_std]
#![deny(missing_docs)]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("woodlot-malloc is for Linux on x86-64 and AArch64");

mod busy;
mod counted;
mod fork;
mod global;
mod heap;
mod hot;
mod large;
mod marks;
mod misuse;
pub mod outside;
mod parked;
mod rseq;
mod segment;
mod segments;
mod signals;
mod system;
mod threads;
mod upkeep;

pub use global::Woodlot;
pub use heap::{
    MIN_ALIGN, alloc, alloc_aligned, alloc_cached, alloc_zeroed, flush, free, free_aligned,
    free_cached, free_sized, is_restartable, resize, stats, trim, usable,
};
#[doc(hidden)]
pub use hot::{HOT, Hot};
pub use misuse::{abort_at, on_misuse, report};
#[doc(hidden)]
pub use rseq::{ABORTS, area};
pub use rseq::{aborts, sequence_area};
pub use woodlot_kmem::{Misuse, SizeStats};
