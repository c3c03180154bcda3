//! Page-frame allocators behind one contract: lock-free, `no_std`, without a heap of their own.
//!
//! ```text
//!   your kernel, hypervisor, database
//!              │
//!        FrameAllocator        the contract: frames, orders, requests, errors
//!      ╱       │       ╲
//!   LLFree  OneWrite  Nbbs1, Nbbs4     the engines, each a feature of this crate
//!              │
//!     memory for the metadata  from you, or with `std` from the heap: Owned
//! ```
//!
//! ```
//! use woodlot::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 1 GiB of 4 KiB frames, four CPUs.
//! let zone = Owned::<LLFree<Base4K>>::new(&ZoneConfig::new(1 << 18, 4), Init::Free)?;
//! let page = zone.alloc(Request::movable(Order(0), Slot(0)))?;
//! zone.free(page, Order(0), Slot(3))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | what it brings |
//! |---|---|
//! | `llfree`, on by default | the engine `LLFree`, and the module `llfree` |
//! | `onewrite` | the engine `OneWrite`, and the module `onewrite` |
//! | `nbbs` | the engines `Nbbs1` and `Nbbs4`, and the module `nbbs` |
//! | `std` | `Owned`: an allocator together with its metadata, from the heap |
//!
//! The contract is at the root of this crate, an engine in the module of its name. A program that implements
//! the contract, or is generic over it, needs no engine: `default-features = false`.
#![no_std]

#[doc(inline)]
pub use woodlot_frame::*;

/// The engine LLFree: keeps huge frames whole.
#[cfg(feature = "llfree")]
#[doc(inline)]
pub use woodlot_llfree as llfree;

/// The one-write engine: bits are the truth, all else is a hint.
#[cfg(feature = "onewrite")]
#[doc(inline)]
pub use woodlot_onewrite as onewrite;

/// The engine NBBS, in its two forms: implicit binary trees.
#[cfg(feature = "nbbs")]
#[doc(inline)]
pub use woodlot_nbbs as nbbs;

/// What a program that allocates frames names: `use woodlot::prelude::*`.
pub mod prelude {
    pub use woodlot_frame::{
        AllocError, Base4K, Base16K, Base64K, Batch, Class, ClassPolicy, Construct, FrameAllocator,
        FrameId, FreeError, Geometry, HugeId, Init, InitError, OfflineError, Order, Place,
        RangeRequest, RawMetadata, Request, Slot, ZoneConfig,
    };

    #[cfg(feature = "std")]
    pub use woodlot_frame::Owned;

    #[cfg(feature = "llfree")]
    pub use woodlot_llfree::LLFree;

    #[cfg(feature = "onewrite")]
    pub use woodlot_onewrite::OneWrite;

    #[cfg(feature = "nbbs")]
    pub use woodlot_nbbs::{Nbbs1, Nbbs4};
}

/// The example of this crate's README, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
