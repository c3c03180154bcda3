//! The persistence simulator: what `cargo xtask persist` runs.
//!
//! ```text
//!   plan       a zone, and calls for one to three threads: from one seed
//!      │
//!   history    the calls are made on atomics that are observed  ──▶  every store, write-back and fence, in order
//!      │                                                          │
//!      │                                                     images: what a crash at each point could leave
//!      ▼                                                          │
//!   owners     whose each frame is at that point, or whose         ▼
//!      │       call is under way                             recovery: of each image, and of each image that
//!      └────────────────────▶ judge ◀─────────────────────────      a crash of the recovery could leave
//! ```
//!
//! The engines are LLFree, and by histories of its own the [one-write engine](one_write), which writes nothing back.
//!
//! Three models of memory are simulated. With *eADR* a store is persistent when it is visible: one image after each
//! store. With *ADR* each line holds what was written back and fenced, and any number of the stores that followed,
//! in their order: the images are all combinations of lines up to a bound, and a sample of them above. A *file* is the
//! same with pages in place of lines, and with synchronisations in place of write-backs and fences: see [`file`].
//!
//! What is judged of each image: frames that are owned are allocated; frames that were freed are free; what else
//! is allocated belongs to calls that were under way, and a call of one write has either happened or not; the
//! counts agree with the bits, every free frame can be allocated and then every frame freed; a second recovery
//! changes no byte; so does a recovery after a crash in the first one, at any of its stores. With intents nothing is
//! lost: what is allocated and nobody's is named by a record.

#![cfg(woodlot_observe)]

pub mod defects;
pub mod figures;
mod file;
mod history;
mod images;
mod judge;
mod known;
mod lines;
mod memory;
mod one_write;
mod recorder;
mod recovery;
pub mod run;
mod subject;
mod tiny;
mod trial;
