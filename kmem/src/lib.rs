#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   Kmem        what becomes of a request                                                            kmem
//!   PerCpu      1  two lists of blocks for each size on each CPU                                     cpu
//!   Global      2  full lists, from CPUs that free to CPUs that allocate, one layer for each size    global
//!   Coalesce    3  slabs, by the number of their free blocks                                         coalesce, page
//!   Pages       4  pages: the frames of a zone                                                       pages, direct
//!
//!   Checked     a Kmem that finds each wrong free                                                    checked, found
//!   Counted     a PerCpu that counts its hits and misses                                             counted
//! ```
#![no_std]
#![deny(missing_docs)]

mod checked;
mod coalesce;
mod counted;
mod cpu;
mod direct;
mod found;
mod global;
mod kmem;
mod list;
mod lock;
mod misuse;
#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
mod models;
mod page;
mod pages;
mod size;

pub use checked::{Checked, Marks};
pub use coalesce::CoalesceCounts;
pub use counted::{Counted, CpuCounts};
pub use cpu::{Cpus, Entered, Guarded, PerCpu, Which};
pub use direct::Direct;
pub use global::{GLOBAL_TARGET, GlobalCounts};
pub use kmem::{Cookie, Hooks, Kmem, SizeStats};
pub use list::{List, MAX_BLOCKS};
pub use misuse::Misuse;
pub use page::{Descriptor, Kind, PageId};
pub use pages::{NoPages, Pages};
pub use size::{MAX_SIZE, MAX_SIZES, Octaves, PAGE, Quarters, Size, SizeId, Sizes, Table};
