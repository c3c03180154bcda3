//! Which machine: a file or a folder, in one of several forms.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PathBufValueParser;
use clap::{Args, ValueEnum};
use woodlot_bench::Failure;
use woodlot_domains::{Map, Present};
use woodlot_pool::Engine;

use super::firmware::{Bad, Firmware};
use super::{e820, slit, sysfs, tree, uefi};

/// Which machine.
#[derive(Args, Debug)]
pub struct MachineArgs {
    /// Where its memory is said
    #[arg(value_parser = PathBufValueParser::new())]
    pub machine: PathBuf,
    /// In which form
    #[arg(long, value_enum, default_value_t)]
    pub(super) form: Form,
    /// Bytes of a descriptor of UEFI
    #[arg(long, value_name = "BYTES", default_value_t = 48)]
    pub(super) descriptor: u32,
    /// ACPI's table of distances (/sys/firmware/acpi/tables/SLIT)
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    pub(super) slit: Option<PathBuf>,
    /// CPUs, each with a slot; they are at home in the domains by turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: u32,
    /// The engine of each domain's zone: llfree or onewrite
    #[arg(long, value_name = "NAME", default_value_t)]
    pub engine: Engine,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How a machine's memory is said.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// What the file looks like
    #[default]
    Any,
    /// Linux's log
    Log,
    /// The table of a PC's firmware
    E820,
    /// The memory map of UEFI
    Uefi,
    /// A flattened device tree
    Dtb,
    /// A folder like /sys
    Sysfs,
}

impl MachineArgs {
    /// What the firmware says, and the frames that can be used.
    pub fn read(&self) -> Result<(Firmware, Vec<Present>), Failure> {
        let bad = |bad: Bad| Failure::at(&self.machine, bad);
        let mut firmware = self.firmware()?;
        if let Some(path) = &self.slit {
            let rows = slit::table(&bytes(path)?);
            firmware.distances = rows.map_err(|bad| Failure::at(path, bad))?;
        }
        let present = firmware.present().map_err(bad)?;
        Ok((firmware, present))
    }

    fn firmware(&self) -> Result<Firmware, Failure> {
        let bad = |bad: Bad| Failure::at(&self.machine, bad);
        let is_folder = self.machine.is_dir();
        if self.form == Form::Sysfs || self.form == Form::Any && is_folder {
            return sysfs::read(&self.machine).map_err(bad);
        }
        let bytes = bytes(&self.machine)?;
        self.parse(&bytes).map_err(bad)
    }

    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Firmware, Bad> {
        let text = || {
            str::from_utf8(bytes)
                .map_err(|cause| Bad::Byte(cause.valid_up_to(), "this is no text".into()))
        };
        match self.form {
            Form::E820 => e820::table(bytes),
            Form::Uefi => uefi::map(bytes, self.descriptor as usize),
            Form::Dtb => tree::tree(bytes),
            Form::Log => e820::log(text()?),
            Form::Any if bytes.starts_with(&tree::MAGIC) => tree::tree(bytes),
            Form::Any if e820::is_log(&String::from_utf8_lossy(bytes)) => {
                e820::log(&String::from_utf8_lossy(bytes))
            }
            Form::Any | Form::Sysfs => Err(Bad::all(
                "it has no BIOS-e820 lines and is no device tree; --form says what it is",
            )),
        }
    }

    /// The map of these ranges.
    pub fn map<'p>(&self, present: &'p mut [Present]) -> Result<Map<'p>, Failure> {
        Map::new(present).map_err(|error| Failure::at(&self.machine, error))
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|cause| Failure::at(path, cause))
}
