//! A process whose memory is read.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use woodlot_bench::Failure;
use woodlot_malloc::outside::Memory;

/// A process, and its memory.
pub struct Process {
    pid: u32,
    command: String,
    memory: File,
    /// Where something begins that is mapped from the first byte of a file on.
    pub files: Vec<usize>,
}

impl Process {
    /// # Errors
    /// There is no such process, or it is another user's.
    pub fn open(pid: u32) -> Result<Process, Failure> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let failed = |what: &dyn fmt::Display| Failure::Failed(format!("process {pid}: {what}"));
        let opened = |cause: io::Error| match cause.kind() {
            ErrorKind::NotFound => failed(&"there is no such process"),
            ErrorKind::PermissionDenied => failed(&NOT_ALLOWED),
            _ => failed(&cause),
        };
        let command = fs::read_to_string(folder.join("comm")).map_err(opened)?;
        let maps = maps(&folder).map_err(opened)?;
        if maps.is_empty() {
            return Err(failed(&"has no memory: it has ended, or is the kernel's"));
        }
        let memory = File::open(folder.join("mem")).map_err(opened)?;
        let files = maps.lines().filter_map(begin_of_file).collect();
        Ok(Process { pid, command: command.trim_end().into(), memory, files })
    }

    /// As a message names it.
    pub fn name(&self) -> String {
        format!("process {} ({})", self.pid, self.command)
    }

    pub fn failed(&self, what: impl fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {what}", self.name()))
    }

    /// Why its memory could not be read.
    pub fn cannot_be_read(&self, cause: &io::Error) -> Failure {
        match cause.kind() {
            ErrorKind::PermissionDenied => self.failed(NOT_ALLOWED),
            _ => self.failed(format_args!("its memory cannot be read, or has changed: {cause}")),
        }
    }
}

const NOT_ALLOWED: &str =
    "its memory may not be read: that takes what a debugger needs, so the same user, or root";

/// Of a process that has ended and was not waited for, there is none.
fn maps(folder: &Path) -> io::Result<String> {
    match fs::read_to_string(folder.join("maps")) {
        Err(cause) if cause.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            Ok(String::new())
        }
        maps => maps,
    }
}

/// Where a line of /proc/PID/maps begins, if it is readable, and its offset is zero: `7f00-7f01 r--p 00000000 …`.
fn begin_of_file(line: &str) -> Option<usize> {
    let mut fields = line.split_ascii_whitespace();
    let (begin, _) = fields.next()?.split_once('-')?;
    let is_readable = fields.next()?.starts_with('r');
    let is_first = u64::from_str_radix(fields.next()?, 16).ok()? == 0;
    (is_readable && is_first).then(|| usize::from_str_radix(begin, 16).ok())?
}

impl Memory for Process {
    type Error = io::Error;

    fn read(&self, address: usize, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, address as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        for (line, begin) in [
            (
                "7f0000001000-7f0000002000 r--p 00000000 08:01 42  /lib/a b.so",
                Some(0x7f00_0000_1000),
            ),
            ("7f0000002000-7f0000003000 r-xp 00001000 08:01 42  /lib/a b.so", None),
            ("7f0000003000-7f0000004000 ---p 00000000 00:00 0", None),
            (
                "ffffffffff600000-ffffffffff601000 r-xp 00000000 00:00 0 [vsyscall]",
                Some(0xffff_ffff_ff60_0000),
            ),
            ("", None),
            ("7f0000003000", None),
            ("x-y r--p 00000000", None),
        ] {
            assert_eq!(begin_of_file(line), begin, "{line}");
        }
    }
}
