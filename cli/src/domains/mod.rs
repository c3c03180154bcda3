//! `woodlot domains`: the memory of a machine, as its firmware says.
//!
//! ```text
//!   file ─► e820, uefi, tree, sysfs ─► firmware ─► Map ─┬─► map    ranges, holes, metadata
//!           slit ─► Distances ──────────────────────────┴─► fill   from which domain memory comes
//! ```

mod e820;
mod fill;
mod firmware;
mod map;
mod slit;
mod sysfs;
mod tree;
mod uefi;

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PathBufValueParser;
use clap::{Args, Subcommand, ValueEnum};
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;
use woodlot_domains::{Map, Present};

use firmware::{Bad, Firmware};

/// What can be done with a machine's memory.
#[derive(Subcommand, Debug)]
pub enum DomainsCommand {
    /// Show a machine's memory: domains, ranges, holes, and the metadata that it takes
    #[command(after_help = FORMS)]
    Map(map::MapArgs),
    /// Make the machine, without its memory, allocate by a policy, and print from where it came
    #[command(after_help = FORMS)]
    Fill(fill::FillArgs),
}

const FORMS: &str = "\
A machine is one of these, told apart by what is in it:
  a kernel's log, with its BIOS-e820 lines, and those of the SRAT for nodes (dmesg > FILE)
  a flattened device tree (/sys/firmware/fdt)
  /sys, or a folder that looks like it
  --form e820: a table of E820, entries of 20 bytes
  --form uefi: a memory map of UEFI, descriptors of 48 bytes, or as --descriptor says";

/// Which machine.
#[derive(Args, Debug)]
pub struct MachineArgs {
    /// Where its memory is said
    #[arg(value_parser = PathBufValueParser::new())]
    machine: PathBuf,
    /// In which form
    #[arg(long, value_enum, default_value_t)]
    form: Form,
    /// Bytes of a descriptor of UEFI
    #[arg(long, value_name = "BYTES", default_value_t = 48)]
    descriptor: u32,
    /// ACPI's table of distances (/sys/firmware/acpi/tables/SLIT)
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new())]
    slit: Option<PathBuf>,
    /// CPUs, each with a slot; they are at home in the domains by turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    slots: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a machine's memory is said.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Form {
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

/// Does what was asked.
///
/// # Errors
/// What cannot be read, or what is wrong with the machine.
pub fn domains_command(command: &DomainsCommand, screen: &mut Screen) -> Result<(), Failure> {
    match command {
        DomainsCommand::Map(args) => map::map(args, screen),
        DomainsCommand::Fill(args) => fill::fill(args, screen),
    }
}

impl MachineArgs {
    /// What the firmware says, and the frames that can be used.
    fn read(&self) -> Result<(Firmware, Vec<Present>), Failure> {
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

    fn parse(&self, bytes: &[u8]) -> Result<Firmware, Bad> {
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
    fn map<'p>(&self, present: &'p mut [Present]) -> Result<Map<'p>, Failure> {
        Map::new(present).map_err(|error| Failure::at(&self.machine, error))
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|cause| Failure::at(path, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the bytes, there is a machine or an error.
    #[test]
    fn no_bytes_are_too_bad() {
        let mut rng = fastrand::Rng::with_seed(5);
        let forms = [Form::Any, Form::Log, Form::E820, Form::Uefi, Form::Dtb];
        let log = b"BIOS-e820: [mem 0x0-0x9fbff] usable\nSRAT: Node 0 PXM 0 [mem 0x0-0x7ff] x\n";
        for round in 0..20_000 {
            let mut bytes: Vec<u8> = match round % 3 {
                0 => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
                1 => log.to_vec(),
                // Few different bytes: numbers that fit together now and then.
                _ => (0..rng.usize(..4) * 240).map(|_| rng.u8(..3) * 0x7f).collect(),
            };
            for _ in 0..rng.usize(..4) {
                let at = rng.usize(..bytes.len().max(1));
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = rng.u8(..));
            }
            for form in forms {
                let args = MachineArgs {
                    machine: PathBuf::new(),
                    form,
                    descriptor: rng.u32(..60),
                    slit: None,
                    slots: 1,
                    json: false,
                };
                let _ = slit::table(&bytes);
                let Ok(firmware) = args.parse(&bytes) else { continue };
                let Ok(mut present) = firmware.present() else { continue };
                if let Ok(map) = Map::new(&mut present) {
                    let shown = map::Shown::new(map, &firmware, 1);
                    shown.into_iter().for_each(|shown| assert!(!shown.text().is_empty()));
                }
            }
        }
    }
}
