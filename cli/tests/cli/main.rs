//! The program as its users meet it: run from outside, judged by what it prints, leaves and
//! returns.

mod bad_input;
mod common;
mod jobs;
mod report;
