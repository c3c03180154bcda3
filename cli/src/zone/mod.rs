//! `woodlot zone`: files that hold a zone.
//!
//! ```text
//!   create   allocate, map, Zone::format, close
//!   info     Info::read
//!   verify   verify
//!   repair   verify, and unless all is well Zone::open with a recovery, close
//!   map      view ── cells ── drawn in characters, or as a picture
//! ```

pub mod cells;
pub mod drawn;
pub mod file;
mod map;
pub mod shrunk;
pub mod words;

use std::path::{Path, PathBuf};

use clap::builder::PathBufValueParser;
use clap::{Args, Subcommand, ValueEnum};
use woodlot_bench::Failure;
use woodlot_bench::output::Screen;
use woodlot_bench::size::Size;
use woodlot_frame::{Base4K, Base16K, Base64K, FrameId, Geometry, Init, ZoneConfig};
use woodlot_zone::{
    Check, Closed, Eadr, File, Info, Intents, Layout, Medium, Opened, Persistence, Repairs, Shared,
    Verdict, Zone, verify,
};

use file::{Access, Mapped};

/// What can be done with a zone file.
#[derive(Subcommand, Debug)]
pub enum ZoneCommand {
    /// Make a new zone file
    Create(CreateArgs),
    /// Say what the zone page says
    Info(FileArg),
    /// Look at all of a zone, and change nothing; exit code 0 if it was closed and is as it was then
    Verify(FileArg),
    /// Recover a zone unless it is clean, say what was repaired, and close it
    Repair(FileArg),
    /// Draw what every huge frame is used as, also while others use the zone; nothing is changed
    Map(map::MapArgs),
}

/// Which file.
#[derive(Args, Debug)]
pub struct FileArg {
    /// The zone file
    #[arg(value_parser = PathBufValueParser::new())]
    file: PathBuf,
}

/// What a new zone is to be.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The file to make; it must not be there
    #[arg(value_parser = PathBufValueParser::new())]
    file: PathBuf,
    /// How much memory the zone is to manage. The file has its metadata only, 0.004 % of it
    #[arg(long, value_name = "SIZE")]
    memory: Size,
    /// The size of a base frame
    #[arg(long, value_enum, default_value_t)]
    base: Base,
    /// The number of the first frame
    #[arg(long, value_name = "FRAME", default_value_t = 0)]
    start: usize,
    /// How many slots: one for each CPU is best
    #[arg(long, value_name = "N", default_value_t = 64)]
    slots: usize,
    /// All frames begin as allocated, not as free
    #[arg(long)]
    allocated: bool,
    /// Each slot has a record that names what it is about to write, so that a crash loses no frame; 4 KiB a slot
    #[arg(long)]
    intents: bool,
}

/// The sizes of base frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Base {
    #[default]
    #[value(name = "4KiB")]
    KiB4,
    #[value(name = "16KiB")]
    KiB16,
    #[value(name = "64KiB")]
    KiB64,
}

/// Does what is to be done.
pub fn zone_command(command: ZoneCommand, screen: &mut Screen) -> Result<(), Failure> {
    match command {
        ZoneCommand::Create(args) => match args.base {
            Base::KiB4 => create::<Base4K>(&args, screen),
            Base::KiB16 => create::<Base16K>(&args, screen),
            Base::KiB64 => create::<Base64K>(&args, screen),
        },
        ZoneCommand::Info(FileArg { file }) => {
            let mapped = Mapped::open(&file, Access::Look)?;
            let info = read(&mapped, &file)?;
            screen.print(&words::of_info(&info))
        }
        ZoneCommand::Verify(FileArg { file }) => {
            let mapped = Mapped::open(&file, Access::Look)?;
            let verdict = look(&mapped, &file)?;
            screen.print(&words::of_verdict(&verdict))?;
            match verdict.is_clean() {
                true => Ok(()),
                false => Err(Failure::at(&file, "is not clean")),
            }
        }
        ZoneCommand::Repair(FileArg { file }) => repair(&file, screen),
        ZoneCommand::Map(args) => map::map(&args, screen),
    }
}

fn create<G: Geometry>(args: &CreateArgs, screen: &mut Screen) -> Result<(), Failure> {
    let usage = |cause: &dyn std::fmt::Display| Failure::Usage(cause.to_string());
    let frames = args.memory.frames() >> (G::BASE_SHIFT - Base4K::BASE_SHIFT);
    let config = ZoneConfig::new(frames, args.slots).starting_at(FrameId(args.start));
    let layout = match args.intents {
        false => Layout::of::<G>(&config),
        true => Layout::with_intents::<G>(&config),
    };
    let layout = layout.map_err(|cause| usage(&cause))?;
    let init = if args.allocated { Init::Allocated } else { Init::Free };
    let (mapped, making) = Mapped::create(&args.file, layout.len)?;
    let formatted = mapped.memory(&args.file).and_then(|memory| {
        let medium = File(|bytes| mapped.sync(bytes));
        // SAFETY: the file is new and locked.
        let formatted = unsafe {
            match args.intents {
                false => Zone::<G, _>::format(memory, &config, init, medium).and_then(Zone::close),
                true => Zone::<G, _>::format(memory, &config, init, Intents(medium))
                    .and_then(Zone::close),
            }
        };
        formatted.map(drop).map_err(|cause| Failure::at(&args.file, cause))
    });
    mapped.whole(&args.file, formatted)?;
    let info = read(&mapped, &args.file)?;
    making.keep();
    screen.print(&format!("made {}\n{}", args.file.display(), words::of_info(&info)))
}

fn read(mapped: &Mapped, path: &Path) -> Result<Info, Failure> {
    let info = Info::read(mapped.memory(path)?).map_err(|cause| Failure::at(path, cause));
    mapped.whole(path, info)
}

/// A zone of any geometry, without changing it.
fn look(mapped: &Mapped, path: &Path) -> Result<Verdict, Failure> {
    let memory = mapped.memory(path)?;
    // SAFETY: the lock keeps those away who would open, format or close it.
    let verdict = unsafe {
        match read(mapped, path)?.base_shift as u32 {
            Base16K::BASE_SHIFT => verify::<Base16K>(memory, None),
            Base64K::BASE_SHIFT => verify::<Base64K>(memory, None),
            _ => verify::<Base4K>(memory, None),
        }
    };
    mapped.whole(path, verdict.map_err(|cause| Failure::at(path, cause)))
}

fn repair(path: &Path, screen: &mut Screen) -> Result<(), Failure> {
    let mapped = Mapped::open(path, Access::Change)?;
    let verdict = look(&mapped, path)?;
    if verdict.is_clean() {
        return screen.print("the zone is clean: nothing to repair\n");
    }
    let reason = words::of_cause(&verdict);
    let repairs = match verdict.info.base_shift as u32 {
        Base16K::BASE_SHIFT => recover::<Base16K>(&mapped, path, &verdict.info),
        Base64K::BASE_SHIFT => recover::<Base64K>(&mapped, path, &verdict.info),
        _ => recover::<Base4K>(&mapped, path, &verdict.info),
    }?;
    screen.print(&format!("{reason}\n{}the zone is closed\n", words::of_repairs(&repairs)))
}

/// Recovers a zone and closes it, by the persistence that it has.
fn recover<G: Geometry>(mapped: &Mapped, path: &Path, info: &Info) -> Result<Repairs, Failure> {
    let sync = File(|bytes| mapped.sync(bytes));
    match info.persistence {
        Some(Persistence::None) => recover_with::<G, _>(mapped, path, info, Shared),
        Some(Persistence::Eadr) => recover_with::<G, _>(mapped, path, info, Eadr),
        // Any other one is refused by what the zone page says of it.
        _ => recover_with::<G, _>(mapped, path, info, sync),
    }
}

/// The same, with intents if it keeps them.
fn recover_with<G: Geometry, M: Medium>(
    mapped: &Mapped,
    path: &Path,
    info: &Info,
    medium: M,
) -> Result<Repairs, Failure> {
    match info.intents {
        false => recover_on::<G, M>(mapped, path, medium),
        true => recover_on::<G, Intents<M>>(mapped, path, Intents(medium)),
    }
}

fn recover_on<G: Geometry, M: Medium>(
    mapped: &Mapped,
    path: &Path,
    medium: M,
) -> Result<Repairs, Failure> {
    let memory = mapped.memory(path)?;
    // SAFETY: the lock keeps those away who would use it.
    let opened = unsafe { Zone::<G, M>::open(memory, None, Check::Recover, medium) };
    let closed = opened.and_then(|(zone, opened)| zone.close().map(|closed| (opened, closed)));
    match mapped.whole(path, closed.map_err(|cause| Failure::at(path, cause)))? {
        // Nobody else uses it: nothing can be hidden again.
        (Opened::Recovered { repairs, .. }, Closed::Clean) => Ok(repairs),
        (_, Closed::ToRecover(_)) => Err(Failure::at(path, "could not be closed")),
        (Opened::Clean, Closed::Clean) => Ok(Repairs::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A zone that somebody has in use, and its file.
    fn in_use(folder: &Path) -> (PathBuf, Vec<u8>) {
        let path = folder.join("a.zone");
        let memory = "1GiB".parse().unwrap();
        let args = CreateArgs {
            file: path.clone(),
            memory,
            base: Base::KiB4,
            start: 0,
            slots: 2,
            allocated: false,
            intents: false,
        };
        create::<Base4K>(&args, &mut Screen::default()).unwrap();
        // The word of the state is damaged.
        let mut bytes = fs::read(&path).unwrap();
        bytes[512..520].fill(0xff);
        fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }

    /// Each command has the file mapped when somebody truncates it, and reads, and writes, behind its end.
    #[test]
    fn a_file_that_is_truncated_under_a_command_is_an_error() {
        type Work = fn(&Mapped, &Path, &Info) -> Result<(), Failure>;
        let works: [(Access, Work); 4] = [
            (Access::Look, |mapped, path, _| read(mapped, path).map(drop)),
            (Access::Look, |mapped, path, _| look(mapped, path).map(drop)),
            (Access::Watch, |mapped, path, _| map::seen(mapped, path).map(drop)),
            (Access::Change, |mapped, path, info| recover::<Base4K>(mapped, path, info).map(drop)),
        ];
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = in_use(folder.path());
        let set_len = |len| fs::File::options().write(true).open(&path).unwrap().set_len(len);
        for (access, work) in works {
            for left in [0, 4096, 8192, bytes.len() as u64 / 8192 * 4096] {
                fs::write(&path, &bytes).unwrap();
                let mapped = Mapped::open(&path, access).unwrap();
                let info = read(&mapped, &path).unwrap();
                set_len(left).unwrap();
                let said = work(&mapped, &path, &info).unwrap_err().to_string();
                let len = bytes.len();
                let truncated =
                    format!("a.zone: was truncated: it has {left} bytes, and had {len}");
                assert!(said.ends_with(&truncated), "{said}");
                // It grows again: nobody has closed the zone.
                set_len(len as u64).unwrap();
                drop(mapped);
                let mapped = Mapped::open(&path, Access::Look).unwrap();
                let verdict = look(&mapped, &path);
                assert!(!verdict.is_ok_and(|verdict| verdict.is_clean()), "{left}");
            }
        }
    }
}
