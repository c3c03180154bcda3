//! `woodlot domains`: the memory of a machine, as its firmware says.
//!
//! ```text
//!   file ─► e820, uefi, tree, sysfs ─► firmware ─► Map ─┬─► map    ranges, holes, metadata
//!           slit ─► Distances ──────────────────────────┴─► fill   from which domain memory comes
//! ```

mod e820;
mod fill;
mod firmware;
mod machine;
mod map;
mod slit;
mod sysfs;
mod tree;
mod uefi;

use clap::Subcommand;
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;

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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use woodlot_domains::Map;

    use super::machine::{Form, MachineArgs};
    use super::*;
    use woodlot_pool::Engine;

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
                    engine: Engine::default(),
                    json: false,
                };
                let _ = slit::table(&bytes);
                let Ok(firmware) = args.parse(&bytes) else { continue };
                let Ok(mut present) = firmware.present() else { continue };
                if let Ok(map) = Map::new(&mut present) {
                    let shown = map::Shown::new(map, &firmware, 1, args.engine);
                    shown.into_iter().for_each(|shown| assert!(!shown.text().is_empty()));
                }
            }
        }
    }
}
