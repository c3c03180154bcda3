//! The machine and the program, for those who compare results.

use std::fs;
use std::time::SystemTime;

use humantime::format_rfc3339_seconds;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::clock::cpus;

/// Where, when and with what a result was made, for people and for files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    version: String,
    commit: Option<String>,
    rustc: Option<String>,
    profile: String,
    target: String,
    date: String,
    kernel: Option<String>,
    cpu: Option<String>,
    cpus: Option<usize>,
    cpus_allowed: usize,
    l3_cache: Option<String>,
    memory_kib: Option<u64>,
    load: Option<String>,
}

impl Machine {
    /// This program on this machine, now.
    pub fn here() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("WOODLOT_COMMIT").map(str::to_string),
            rustc: option_env!("WOODLOT_RUSTC").map(str::to_string),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            date: format_rfc3339_seconds(SystemTime::now()).to_string(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: field("/proc/cpuinfo", "model name"),
            cpus: std::thread::available_parallelism().ok().map(Into::into),
            cpus_allowed: cpus().len(),
            l3_cache: first_line("/sys/devices/system/cpu/cpu0/cache/index3/size"),
            memory_kib: field("/proc/meminfo", "MemTotal").and_then(|value| kib(&value)),
            load: first_line("/proc/loadavg"),
        }
    }

    /// How many CPUs the program may use.
    pub fn cpus(&self) -> usize {
        match self.cpus_allowed {
            0 => self.cpus.unwrap_or(1),
            allowed => allowed,
        }
    }

    /// Is the processor the same as there, as far as it can be told?
    pub fn same_processor(&self, other: &Machine) -> bool {
        let what = |machine: &Machine| {
            (machine.cpu.clone(), machine.cpus, machine.cpus_allowed, machine.l3_cache.clone())
        };
        what(self) == what(other)
    }

    /// A few lines for people.
    pub fn describe(&self) -> String {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        let mut text = format!(
            "machine: {}, {} CPUs, kernel {}, load {}\n",
            known(&self.cpu),
            self.cpus.unwrap_or(0),
            known(&self.kernel),
            known(&self.load),
        );
        text += &format!(
            "program: {} {}, {} ({}); {}\n",
            known(&self.commit),
            self.profile,
            self.rustc.as_deref().unwrap_or("unknown compiler"),
            self.target,
            self.date
        );
        if self.profile == "debug" {
            text += "THIS IS A DEBUG BUILD: its times mean nothing.\n";
        }
        text
    }
}

/// How much memory can be had without pushing anything else out.
pub fn available_bytes() -> Option<usize> {
    let kib = kib(&field("/proc/meminfo", "MemAvailable")?)?;
    usize::try_from(kib).ok()?.checked_mul(1024)
}

/// Refuses to fill more memory than can be had, where the system says how much that is.
pub(crate) fn must_be_available(bytes: usize) -> Result<(), Failure> {
    match available_bytes() {
        Some(available) if bytes > available => Err(Failure::Failed(format!(
            "{} MiB of memory are to be filled, and {} MiB are available",
            bytes >> 20,
            available >> 20
        ))),
        _ => Ok(()),
    }
}

/// How much of this process is in memory; nothing where the system does not say.
pub(crate) fn resident_bytes() -> Option<usize> {
    let kib = kib(&field("/proc/self/status", "VmRSS")?)?;
    usize::try_from(kib).ok()?.checked_mul(1024)
}

fn kib(value: &str) -> Option<u64> {
    value.split(' ').next()?.parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_describes_itself() {
        let text = Machine::here().describe();
        assert!(text.starts_with("machine: ") && text.contains("program: "), "{text}");
    }
}
