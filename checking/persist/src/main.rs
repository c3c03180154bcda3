//! What `cargo xtask persist` runs.

#[cfg(woodlot_observe)]
mod driver;

#[cfg(woodlot_observe)]
fn main() -> std::process::ExitCode {
    driver::main()
}

#[cfg(not(woodlot_observe))]
fn main() -> std::process::ExitCode {
    eprintln!("the simulator needs atomics that are observed: run cargo xtask persist");
    std::process::ExitCode::FAILURE
}
