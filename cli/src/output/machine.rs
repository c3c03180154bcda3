//! The machine and the program, for those who compare results.

use std::fs;

use serde::Serialize;

/// Where and with what a result was made.
#[derive(Serialize)]
pub struct Provenance {
    program: &'static str,
    version: &'static str,
    commit: Option<&'static str>,
    profile: &'static str,
    target: String,
    kernel: Option<String>,
    cpu: Option<String>,
    cpus: Option<usize>,
    memory_kib: Option<u64>,
}

impl Provenance {
    /// This program on this machine.
    pub fn here() -> Self {
        Self {
            program: "woodlot",
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("WOODLOT_COMMIT"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: field("/proc/cpuinfo", "model name"),
            cpus: std::thread::available_parallelism().ok().map(Into::into),
            memory_kib: field("/proc/meminfo", "MemTotal")
                .and_then(|value| value.split(' ').next()?.parse().ok()),
        }
    }
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.to_string())
}

/// The value of the first line that reads `name : value`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value);
    values.next().map(|value| value.trim().to_string())
}
