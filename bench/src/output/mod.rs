//! What the commands leave behind. The programs that call them (`woodlot`) keep the same habits:
//! results on standard output, notes and progress on standard error, files whole or not at all.

mod data;
mod files;
mod machine;
mod plot;
mod screen;
mod table;

pub use data::{csv, json};
pub use files::{Found, Interrupted, Making, OutDir, keep_files, replace_files, write_files};
pub(crate) use files::{check_writable, kept_in};
pub use indicatif::ProgressBar;
pub use machine::{Machine, available_bytes};
pub(crate) use machine::{must_be_available, resident_bytes};
pub use plot::svg;
pub use screen::{Screen, note, progress};
pub use table::{describe, describe_floor};
