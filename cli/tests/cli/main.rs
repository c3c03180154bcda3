//! The program as its users meet it: run from outside, judged by what it prints, leaves and
//! returns.

mod bad_input;
mod bench;
mod common;
#[cfg(target_os = "linux")]
mod crash;
mod csv;
mod jobs;
mod report;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod zone;
