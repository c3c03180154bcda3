//! The scenarios.

mod cpus;
mod lock;
