//! What `cargo xtask shuttle` runs: histories, or a batch of them again.

#[cfg(shuttle)]
mod driver;

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    driver::main()
}

#[cfg(not(shuttle))]
fn main() -> std::process::ExitCode {
    eprintln!("histories are made of shuttle's atomics: run cargo xtask shuttle");
    std::process::ExitCode::FAILURE
}
