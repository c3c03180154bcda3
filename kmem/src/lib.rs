#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   Kmem        what becomes of a request                                                            kmem, cached
//!   PerCpu      1  two lists of blocks for each size on each CPU                                     cpu
//!   Global      2  full lists, from CPUs that free to CPUs that allocate, one layer for each size    global, lot
//!   Coalesce    3  slabs, by the number of their free blocks                                         coalesce, run, filling, whole, batch, page
//!   Pages       4  pages                                                                            pages
//!     Direct       the frames of a zone, where they lie                                              direct
//!     Vmblks       spans of addresses, to which frames are mapped                                    vmblk, span, dope
//!
//!   Objects     objects that stay constructed, over the first two layers                             objects, upper
//!   Nodes       a Kmem for each node of a machine                                                    nodes
//!   Checked     hooks by which a Kmem finds each wrong free                                          checked, found
//!   Counted     a PerCpu that counts its hits and misses                                             counted
//! ```
#![no_std]
#![cfg_attr(coverage_nightly, feature(coverage_attribute))]
#![deny(missing_docs)]

mod audit;
mod batch;
mod bins;
mod cached;
mod checked;
mod coalesce;
mod counted;
mod cpu;
mod direct;
mod dope;
mod filling;
mod found;
mod frames;
mod global;
mod kmem;
mod list;
mod lock;
mod lot;
mod misuse;
#[cfg(all(test, any(woodlot_loom, woodlot_explore)))]
mod models;
mod nodes;
mod objects;
mod page;
mod pages;
mod places;
mod protected;
mod run;
mod seen;
mod size;
mod space;
mod span;
mod step;
mod upper;
mod vmblk;
mod whole;
mod word;

pub use audit::Flaw;
pub use checked::{Checked, Marks};
pub use coalesce::CoalesceCounts;
pub use counted::{Counted, CpuCounts};
pub use cpu::{Cpus, Entered, Guarded, PerCpu, Which, sign};
pub use direct::Direct;
pub use dope::{Dope, VMBLK};
pub use global::{GLOBAL_TARGET, GlobalCounts};
pub use kmem::{Cookie, Hooks, Kmem, SizeStats};
pub use list::{List, MAX_BLOCKS};
pub use lock::{Lock, Taken};
pub use misuse::Misuse;
pub use nodes::Nodes;
pub use objects::{Build, Objects};
pub use page::{Descriptor, Kind, PageId};
pub use pages::{NoPages, Pages};
pub use places::{Place, Places};
pub use seen::Seen;
pub use size::{
    GRAINS, MAX_SIZE, MAX_SIZES, Octaves, PAGE, Quarters, SIZE_IDS, Size, SizeId, Sizes, Table,
    Wide,
};
pub use space::{AddressSpace, NotMapped, StillMapped};
pub use step::Step;
pub use vmblk::{VmblkStats, Vmblks};
