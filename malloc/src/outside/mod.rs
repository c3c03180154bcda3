//! The heap as it is seen from outside: by another process, by a debugger, in a crash dump.
//!
//! ```text
//!   a process with the heap                           whoever looks
//!     ELF note ─► page ─► counters, lists, descriptors ◄── read ── Snapshot ─► words (text, JSON)
//! ```
//!
//! 1. Whoever looks reads memory, and nothing else. The process does not know of it, waits for nobody and pays nothing:
//!    there is no counter that would not be there otherwise, unless the feature `counted` asks for those of the caches.
//! 2. Words are read one after the other while they change. What a snapshot says of each is true of a moment; sums of
//!    several are so only while nobody allocates.
//! 3. A note of the program or the library leads to the page, so that it is found without a file and without symbols.

mod here;
mod page;
mod read;
mod snapshot;
mod words;

pub(crate) use page::announce;

pub use here::{NoReading, look_here};
pub use page::{NOTE_NAME, NOTE_TYPE, VERSION};
pub use read::{LookError, Memory, look};
pub use snapshot::{Blocks, Caches, Layer, SizeSnapshot, Snapshot};
