//! The engine of the pools that a test program makes: the one that the program is named after, or the default.

use woodlot_pool::{Engine, Options};

/// Options of a pool of `size` bytes.
pub fn new(size: usize) -> Options {
    Options::new(size).engine(match env!("CARGO_CRATE_NAME") {
        "onewrite" => Engine::OneWrite,
        _ => Engine::default(),
    })
}
