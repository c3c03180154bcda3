//! What the fuzzers do with their bytes. Each function panics where something is wrong.
//!
//! ```text
//!   history    calls of the contract, on an engine and on the suite's reference model
//!   kmem       calls of the kernel memory allocator, and a list of what is in use
//!   recovery   damage to the durable bytes, and what a recovery makes of it
//!   trace      files: text forms, lists, the compact form as it is and freshly packed
//!   seeded     as history, kmem or recovery, on an allocator with a defect that must be found
//!   command    command lines of `woodlot`, which are only parsed
//! ```
//!
//! The binaries hand them to libFuzzer; `cargo xtask fuzz` builds and runs those.

mod bytes;
#[cfg(feature = "command")]
mod command;
mod history;
mod kmem;
mod recovery;
mod seeded;
mod trace;
mod zone;

#[cfg(feature = "command")]
pub use command::command;
pub use history::history;
pub use kmem::kmem;
pub use recovery::recovery;
pub use seeded::seeded;
pub use trace::trace;
