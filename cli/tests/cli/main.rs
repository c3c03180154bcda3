//! The program as its users meet it: run from outside, judged by what it prints, leaves and
//! returns.

mod bad_input;
mod bench;
mod common;
#[cfg(target_os = "linux")]
mod crash;
mod csv;
mod jobs;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod kmem;
mod report;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod zone;
