//! What `cargo xtask shuttle` runs beside the histories of whole zones: histories of memory that is added and removed.

#[cfg(woodlot_shuttle)]
mod defect;
#[cfg(woodlot_shuttle)]
mod driver;
#[cfg(woodlot_shuttle)]
mod history;
#[cfg(woodlot_shuttle)]
mod made;
#[cfg(woodlot_shuttle)]
mod plugger;

#[cfg(woodlot_shuttle)]
fn main() -> std::process::ExitCode {
    driver::main()
}

#[cfg(not(woodlot_shuttle))]
fn main() -> std::process::ExitCode {
    eprintln!("histories are made of shuttle's atomics: run cargo xtask shuttle");
    std::process::ExitCode::FAILURE
}
