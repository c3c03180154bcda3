//! What `cargo xtask persist` runs.

#[cfg(woodlot_persist)]
mod driver;

#[cfg(woodlot_persist)]
fn main() -> std::process::ExitCode {
    driver::main()
}

#[cfg(not(woodlot_persist))]
fn main() -> std::process::ExitCode {
    eprintln!("the simulator needs recording atomics: run cargo xtask persist");
    std::process::ExitCode::FAILURE
}
