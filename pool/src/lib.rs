#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! ```text
//!   Block, Run, Claim,    handles that borrow the pool
//!   Wired, Movable
//!   Pool                  what a program calls
//!   Frames                an engine, and which memory the system has
//!   Common                a zone, an owner table and locks, where several processes have the pool
//!   Magazines             blocks that a thread keeps to itself
//!   View                  a shared pool as others see it
//!   Mapping               one range of addresses; mmap, madvise, mbind, fallocate
//! ```
//!
//! # Why threads can share it
//! The engine hands each frame to one caller until it is freed. A handle has its frames from the engine and frees them
//! once, so no two handles share a byte, and a handle is as safe to send and to share as a boxed slice. The memory of a
//! frame returns to the system only after the pool has taken its huge frame offline in the engine, which succeeds only
//! while all of the huge frame is free. Nobody can allocate it before it is online again.
#![cfg(target_os = "linux")]
#![deny(missing_docs)]

mod block;
mod claim;
mod compact;
mod divide;
mod engine;
mod error;
mod frames;
mod given;
mod handshake;
mod locks;
mod magazines;
mod mapping;
mod movable;
mod movables;
mod options;
mod place;
mod plan;
mod pool;
mod resident;
mod runs;
mod seats;
mod shared;
mod slots;
mod source;
mod view;
mod wired;
mod zeroed;

pub use block::{Block, Run};
pub use claim::Claim;
pub use error::{BuildError, PoolError, SharedError};
pub use movable::{Movable, Reading, Writing};
pub use options::{Engine, HugePage, Options, Quantity, SlotBy, UnknownEngine};
pub use place::Stays;
pub use pool::Pool;
pub use view::{Process, Seen, View};
pub use wired::Wired;
pub use woodlot_compact::{
    Asks, Counters, Event, Patience, PlanError, Report, Settings, Stop, Target,
};
pub use woodlot_frame::{FrameId, HugeId, Order};
