#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   Arena       stacks that are handed out, backed and given back      arena
//!   Shape       which page of which stack lies where                   shape
//!   Bits        who has which stack                                    bits
//!   FileSpace   the addresses of a process (feature `std`, Linux)      file
//! ```
#![no_std]
#![deny(missing_docs)]

#[cfg(all(feature = "std", target_os = "linux"))]
extern crate std;

mod arena;
mod bits;
mod error;
#[cfg(all(feature = "std", target_os = "linux"))]
mod file;
mod shape;

pub use arena::{Arena, Stack};
pub use error::{ArenaError, FreeError, StackError};
#[cfg(all(feature = "std", target_os = "linux"))]
pub use file::FileSpace;
pub use shape::{Found, MAX_PAGES, Shape};
pub use woodlot_kmem::{AddressSpace, NotMapped, StillMapped};
