#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   zone_from   a zone from a memory map, before anything can be allocated                       map
//!   Heap        GlobalAlloc and Allocator                                                        heap
//!     Kmem      caches of CPUs, global layer, slabs                                              woodlot-kmem
//!     Late      the frames of a zone that is there later                                         late
//!   Calls       something done on another CPU                                                    calls
//!   Trial       what a kernel runs once on all CPUs, to see that they keep to themselves         trial, report
//!
//!   Interrupts  a CPU to itself: cli, sti                                        x86-64 alone    x86_64/interrupts
//!   Apic        its interrupt controller                                                         x86_64/apic
//!   Table       its interrupts                                                                   x86_64/table
//!   interrupt!  the entry of one, on stable Rust                                                 x86_64/entry
//! ```
#![no_std]
#![deny(missing_docs)]

mod calls;
mod heap;
mod late;
mod map;
mod report;
mod trial;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use calls::Calls;
pub use heap::Heap;
pub use late::{Late, NotStarted};
pub use map::{BadMap, zone_from};
pub use report::Report;
pub use trial::Trial;
pub use woodlot_kmem::{Checked, Cpus, Hooks, Marks, Misuse};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{Apic, Entry, Interrupts, Table};
