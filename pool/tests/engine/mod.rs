//! The engine of the pools that a test program makes: the one that its name begins with, or the default.

use woodlot_pool::{Engine, Options};

/// Options of a pool of `size` bytes.
pub fn new(size: usize) -> Options {
    Options::new(size).engine(match env!("CARGO_CRATE_NAME") {
        "compact" | "magazines" | "movable" | "pool" | "wired" => Engine::default(),
        name if name.starts_with("onewrite_") => Engine::OneWrite,
        name => panic!("{name} does not say of which engine its pools are"),
    })
}
