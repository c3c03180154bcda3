//! What `cargo xtask shuttle` runs: histories, or a batch of them again.

#[cfg(woodlot_shuttle)]
mod driver;

#[cfg(woodlot_shuttle)]
fn main() -> std::process::ExitCode {
    driver::main()
}

#[cfg(not(woodlot_shuttle))]
fn main() -> std::process::ExitCode {
    eprintln!("histories are made of shuttle's atomics: run cargo xtask shuttle");
    std::process::ExitCode::FAILURE
}
