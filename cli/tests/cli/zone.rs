//! `woodlot zone`: files that hold a zone, whole and damaged.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::process::Stdio;
use std::thread::sleep;

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::common::{Ended, Folder, png_size, shell, signalled_after};

const CREATE: [&str; 7] = ["zone", "create", "a.zone", "--memory", "1GiB", "--slots", "2"];

fn created() -> Folder {
    let folder = Folder::new();
    folder.run(&CREATE).succeeded();
    folder
}

/// Writes bytes into the zone file.
fn change(folder: &Folder, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(folder.path("a.zone")).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_new_zone_is_clean_and_says_what_it_is() {
    let folder = created();
    let info = folder.run(&["zone", "info", "a.zone"]).succeeded();
    for words in
        ["262144 from frame 0x0 on, 1 GiB", "4 KiB, huge frames of order 9", "slots        2"]
    {
        assert!(info.contains(words), "{info}");
    }
    assert!(info.contains("persistence  file") && info.contains("closed, generation 1"), "{info}");
    let before = fs::read(folder.path("a.zone")).unwrap();
    let verdict = folder.run(&["zone", "verify", "a.zone"]).succeeded();
    assert!(
        verdict.contains("clean: the zone was closed") && verdict.contains("262144 frames free")
    );
    assert!(folder.run(&["zone", "repair", "a.zone"]).succeeded().contains("nothing to repair"));
    assert_eq!(before, fs::read(folder.path("a.zone")).unwrap(), "nothing was changed");
    folder.run(&CREATE).failed(1, "a.zone: File exists");
    assert_eq!(before, fs::read(folder.path("a.zone")).unwrap(), "nothing was changed");
}

#[test]
fn every_base_frame_and_what_is_allocated() {
    let folder = Folder::new();
    for (base, frames) in [("4KiB", 16384), ("16KiB", 4096), ("64KiB", 1024)] {
        let create = ["zone", "create", base, "--memory", "64MiB", "--base", base, "--start", "77"];
        folder.run(&[&create[..], &["--allocated"]].concat()).succeeded();
        let verdict = folder.run(&["zone", "verify", base]).succeeded();
        assert!(verdict.contains(&format!("{frames} from frame 0x4d on, 64 MiB")), "{verdict}");
        assert!(verdict.contains(" 0 frames free"), "{verdict}");
        fs::rename(folder.path(base), folder.path("a.zone")).unwrap();
        // The word of the state is damaged.
        change(&folder, 512, &[0xff; 8]);
        folder.run(&["zone", "verify", "a.zone"]).failed(1, "a.zone: is not clean");
        let repaired = folder.run(&["zone", "repair", "a.zone"]).succeeded();
        assert!(repaired.contains("the word of the state is damaged"), "{repaired}");
        folder.run(&["zone", "verify", "a.zone"]).succeeded();
    }
}

#[test]
fn damage_is_found_and_repaired() {
    let folder = created();
    // A row of the tenth huge frame, which is free.
    change(&folder, 4096 + 10 * 64, &[0x55; 16]);
    let ended = folder.run(&["zone", "verify", "a.zone"]);
    ended.failed(1, "is not clean");
    let said = ended.stdout();
    assert!(said.contains("the durable part has changed since the zone was closed"), "{said}");
    assert!(said.contains("1 huge frames whose rows were damaged"), "{said}");
    let repaired = folder.run(&["zone", "repair", "a.zone"]).succeeded();
    assert!(repaired.contains("1 huge frames whose rows were damaged"), "{repaired}");
    folder.run(&["zone", "verify", "a.zone"]).succeeded();
}

#[test]
fn what_is_no_zone_is_refused_by_its_name() {
    let folder = created();
    let whole = fs::read(folder.path("a.zone")).unwrap();
    let short = format!("the memory has 32768 bytes and the zone needs {}", whole.len());
    type Damage<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));
    let damages: [Damage<'_>; 7] = [
        ("is empty", &|bytes| bytes.clear()),
        ("the memory has 100 bytes and the zone needs 4096", &|bytes| bytes.truncate(100)),
        (&short, &|bytes| bytes.truncate(32768)),
        ("there is no zone: its page is all zero", &|bytes| bytes.fill(0)),
        ("this is no zone: it begins with 0x2121212121212121", &|bytes| bytes.fill(b'!')),
        ("the zone page is damaged", &|bytes| bytes[96] ^= 1),
        ("this zone was not formatted to the end", &|bytes| {
            bytes[..8].copy_from_slice(b"woodlot?")
        }),
    ];
    for (words, damage) in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(folder.path("a.zone"), &bytes).unwrap();
        for verb in ["verify", "repair"] {
            folder.run(&["zone", verb, "a.zone"]).failed(1, words);
        }
        assert_eq!(fs::read(folder.path("a.zone")).unwrap(), bytes, "nothing was changed");
    }
    // Grown is no matter.
    let mut bytes = whole;
    bytes.resize(bytes.len() + 10_000, 7);
    fs::write(folder.path("a.zone"), &bytes).unwrap();
    folder.run(&["zone", "verify", "a.zone"]).succeeded();
}

#[test]
fn files_that_cannot_be_had() {
    let folder = created();
    for verb in ["info", "verify", "repair"] {
        folder.run(&["zone", verb, "none.zone"]).failed(1, "none.zone: No such file");
        folder.run(&["zone", verb]).failed(2, "<FILE>");
    }
    folder.run(&["zone", "info", "."]).failed(1, ".: is no regular file");
    folder.run(&["zone", "create", "b.zone"]).failed(2, "--memory");
    let of =
        |more: &[&str]| folder.run(&[&["zone", "create", "b.zone", "--memory"], more].concat());
    of(&["3MiB"]).failed(2, "a size from 4MiB to 16TiB");
    of(&["1GiB", "--slots", "0"]).failed(2, "the zone has no slots");
    of(&["1GiB", "--start", &usize::MAX.to_string()]).failed(2, "larger than the engine can name");
    of(&["1GiB", "--base", "8KiB"]).failed(2, "8KiB");
    assert!(!folder.path("b.zone").exists());
    folder.run(&["zone", "create", "none/b.zone", "--memory", "1GiB"]).failed(1, "No such file");
    // Somebody has it open.
    let file = File::open(folder.path("a.zone")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for verb in ["verify", "repair"] {
        folder.run(&["zone", verb, "a.zone"]).failed(1, "another program has it open");
    }
}

#[test]
fn a_map_has_a_cell_for_every_huge_frame() {
    let folder = created();
    let before = fs::read(folder.path("a.zone")).unwrap();
    let said = folder.run(&["zone", "map", "a.zone"]).succeeded();
    assert!(said.starts_with("a.zone: 512 huge frames of 2 MiB; the zone is closed\n"), "{said}");
    let cells: usize = said.lines().skip(1).take(8).map(|line| line.matches('.').count()).sum();
    assert_eq!(cells, 512, "{said}");
    assert!(said.contains("512 free") && !said.contains('\x1b'), "{said}");
    folder.run(&["zone", "map", "a.zone", "--out", "a.png"]).succeeded();
    folder.run(&["zone", "map", "a.zone", "--out", "a.svg"]).succeeded();
    assert!(png_size(&folder.path("a.png")).0 > 1000);
    assert!(fs::read_to_string(folder.path("a.svg")).unwrap().contains("512 free"));
    assert_eq!(before, fs::read(folder.path("a.zone")).unwrap(), "nothing was changed");
    // Also while somebody has it open, and where it cannot be written to.
    let file = File::open(folder.path("a.zone")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut mode = file.metadata().unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(folder.path("a.zone"), mode).unwrap();
    assert_eq!(folder.run(&["zone", "map", "a.zone"]).succeeded(), said);
}

#[test]
fn the_ends_of_a_zone_and_what_is_allocated_are_on_the_map() {
    let folder = Folder::new();
    // A page of the first huge frame and one of the third are not in the zone.
    let create = ["zone", "create", "b.zone", "--memory", "6MiB", "--start", "1", "--allocated"];
    folder.run(&create).succeeded();
    let said = folder.run(&["zone", "map", "b.zone"]).succeeded();
    assert!(said.contains("b.zone: 4 huge frames") && said.contains("0x0 9##9\n"), "{said}");
    for (base, huge) in
        [("16KiB", "8 huge frames of 32 MiB"), ("64KiB", "128 huge frames of 2 MiB")]
    {
        let create = ["zone", "create", base, "--memory", "256MiB", "--base", base];
        folder.run(&create).succeeded();
        assert!(folder.run(&["zone", "map", base]).succeeded().contains(huge));
    }
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let folder = created();
    folder.run(&["zone", "map", "a.zone", "--out", "a.jpg"]).failed(2, "ends in .png or .svg");
    folder
        .run(&["zone", "map", "a.zone", "--out", "none/a.png"])
        .failed(1, "none/a.png: cannot be written");
    folder.run(&["zone", "map", "none.zone"]).failed(1, "none.zone: No such file");
    folder.run(&["zone", "map", "."]).failed(1, ".: is no regular file");
    let whole = fs::read(folder.path("a.zone")).unwrap();
    fs::write(folder.path("a.zone"), &whole[..32768]).unwrap();
    folder.run(&["zone", "map", "a.zone"]).failed(1, "a.zone: the memory has 32768 bytes");
    fs::write(folder.path("a.zone"), vec![0; 8192]).unwrap();
    folder.run(&["zone", "map", "a.zone"]).failed(1, "a.zone: there is no zone");
    fs::write(folder.path("a.zone"), "").unwrap();
    folder.run(&["zone", "map", "a.zone"]).failed(1, "a.zone: is empty");
    fs::write(folder.path("a.zone"), vec![b'!'; 8192]).unwrap();
    folder.run(&["zone", "map", "a.zone"]).failed(1, "a.zone: this is no zone");
}

/// A zone that takes a while to look at and to repair, and is damaged: the word of its state, and rows of a huge frame.
fn large_and_damaged() -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    folder.run(&["zone", "create", "a.zone", "--memory", "32GiB", "--slots", "2"]).succeeded();
    change(&folder, 512, &[0xff; 8]);
    change(&folder, 4096 + 1000 * 64, &[0x55; 16]);
    let bytes = fs::read(folder.path("a.zone")).unwrap();
    (folder, bytes)
}

/// How long a command takes that is left alone.
fn time(folder: &Folder, args: &[&str]) -> Duration {
    let begun = Instant::now();
    folder.run(args);
    begun.elapsed()
}

/// A moment at which a command that takes this long may be anywhere, or have ended.
fn moment(rng: &mut Rng, whole: Duration) -> Duration {
    whole.mul_f64(rng.f64() * 1.2)
}

const ALL: &str = "8388608 frames free, 16384 huge frames free";

#[test]
fn an_interrupt_in_a_repair_leaves_a_zone_that_can_be_repaired() {
    let (folder, bytes) = large_and_damaged();
    let repair = ["zone", "repair", "a.zone"];
    let whole = time(&folder, &repair);
    let mut rng = Rng::with_seed(1);
    for signal in ["-INT", "-TERM", "-KILL"].into_iter().cycle().take(12) {
        fs::write(folder.path("a.zone"), &bytes).unwrap();
        let ended = signalled_after(&folder, signal, &repair, moment(&mut rng, whole));
        match ended.code() {
            Some(130) => assert!(ended.stderr().contains("interrupted"), "{}", ended.stderr()),
            // It was killed, or had just begun.
            None => {}
            _ => _ = ended.succeeded(),
        }
        folder.run(&repair).succeeded();
        let verdict = folder.run(&["zone", "verify", "a.zone"]).succeeded();
        assert!(verdict.contains(ALL), "{verdict}");
    }
}

#[test]
fn an_interrupt_leaves_a_whole_new_zone_or_none() {
    let folder = Folder::new();
    let create = ["zone", "create", "a.zone", "--memory", "32GiB"];
    let whole = time(&folder, &create);
    let mut rng = Rng::with_seed(2);
    for signal in ["-INT", "-TERM"].into_iter().cycle().take(10) {
        let _ = fs::remove_file(folder.path("a.zone"));
        let ended = signalled_after(&folder, signal, &create, moment(&mut rng, whole));
        if folder.path("a.zone").exists() {
            assert!(folder.run(&["zone", "verify", "a.zone"]).succeeded().contains(ALL));
        } else {
            // It may have been too early to handle signals.
            assert!(matches!(ended.code(), Some(130) | None), "{}", ended.stderr());
        }
    }
    let _ = fs::remove_file(folder.path("a.zone"));
    assert_eq!(folder.names("."), ["a.start-owned.txt", "a.trace.txt"]);
}

#[test]
fn an_interrupt_of_who_only_looks_changes_nothing() {
    let (folder, bytes) = large_and_damaged();
    let mut rng = Rng::with_seed(3);
    for args in [
        &["zone", "info", "a.zone"][..],
        &["zone", "verify", "a.zone"],
        &["zone", "map", "a.zone"],
        &["zone", "map", "a.zone", "--out", "a.svg"],
    ] {
        let whole = time(&folder, args);
        let _ = fs::remove_file(folder.path("a.svg"));
        for _ in 0..3 {
            signalled_after(&folder, "-INT", args, moment(&mut rng, whole));
            assert!(fs::read(folder.path("a.zone")).unwrap() == bytes, "nothing was changed");
            let names = folder.names(".");
            assert!(names.iter().all(|name| name.starts_with("a.")), "{names:?}");
        }
    }
}

/// At any moment: before it is mapped, while it is read or written, or when all is done.
#[test]
fn a_file_that_is_truncated_meanwhile_is_an_error() {
    let (folder, bytes) = large_and_damaged();
    let mut rng = Rng::with_seed(4);
    for verb in ["info", "verify", "map", "repair"] {
        let args = ["zone", verb, "a.zone"];
        fs::write(folder.path("a.zone"), &bytes).unwrap();
        let whole = time(&folder, &args);
        for _ in 0..6 {
            fs::write(folder.path("a.zone"), &bytes).unwrap();
            let mut command = folder.woodlot(&args);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            sleep(moment(&mut rng, whole));
            let file = OpenOptions::new().write(true).open(folder.path("a.zone")).unwrap();
            file.set_len(rng.u64(..bytes.len() as u64 / 4096) * 4096).unwrap();
            let ended = Ended(child.wait_with_output().unwrap());
            match ended.code() {
                Some(0) => {}
                _ => ended.failed(1, "a.zone: "),
            }
        }
    }
}

/// A shell command with a small disk of its own in `disk`. `None`: this machine gives none to who is not its owner.
fn on_a_disk(folder: &Folder, script: &str) -> Option<Ended> {
    let mount = "mkdir -p disk && mount -t tmpfs -o size=1m tmpfs disk";
    let may = shell(folder, &format!("unshare -rm sh -c '{mount}'"));
    let script = format!("unshare -rm sh -c '{mount} && {script}' \"$0\"");
    (may.code() == Some(0)).then(|| shell(folder, &script))
}

#[test]
fn a_disk_may_be_full() {
    let folder = Folder::new();
    folder.run(&CREATE).succeeded();
    change(&folder, 512, &[0xff; 8]);
    let len = fs::metadata(folder.path("a.zone")).unwrap().len();
    let fill = "(dd if=/dev/zero of=disk/rest bs=4k 2> /dev/null || true)";
    let nothing = "; code=$?; rm -f disk/rest; ls disk >&2; exit $code";
    for (script, code, words) in [
        // Nothing is left of what has no room.
        (format!("\"$0\" zone create disk/b.zone --memory 256GiB{nothing}"), 1, "No space left"),
        (format!("{fill} && \"$0\" crash disk/b.zone --kills 9{nothing}"), 1, "No space left"),
        // What has its blocks is repaired.
        (format!("cp a.zone disk && {fill} && exec \"$0\" zone repair disk/a.zone"), 0, ""),
        // A copy with holes has no room to be repaired in; nor can a hole be read, where it needs memory of the disk.
        (
            format!(
                "dd if=a.zone of=disk/a.zone bs=4k count=1 2> /dev/null && truncate -s {len} disk/a.zone && \
                 {fill} && exec \"$0\" zone repair disk/a.zone"
            ),
            1,
            "disk/a.zone: No space left on device",
        ),
        (
            format!(
                "dd if=a.zone of=disk/a.zone bs=4k count=1 2> /dev/null && truncate -s {len} disk/a.zone && \
                 {fill} && exec \"$0\" zone verify disk/a.zone"
            ),
            1,
            "disk/a.zone: a part of it cannot be read or written: the disk is full",
        ),
        (
            format!("{fill} && exec \"$0\" zone map a.zone --out disk/a.svg"),
            1,
            "disk/a.svg: cannot be written: No space left on device",
        ),
    ] {
        let Some(ended) = on_a_disk(&folder, &script) else { return };
        let said = ended.stderr();
        assert_eq!(ended.code(), Some(code), "{script}: {said}");
        assert!(said.contains(words) && !said.contains("b.zone\n"), "{script}: {said}");
    }
    // Who only looks needs room for what is said.
    for args in [&["info", "a.zone"][..], &["verify", "a.zone"], &["map", "a.zone"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = folder.woodlot(&[&["zone"], args].concat()).stdout(full).output().unwrap();
        Ended(output).failed(1, "standard output: No space left on device");
    }
}

#[test]
fn a_disk_may_be_read_only() {
    let folder = Folder::new();
    folder.run(&CREATE).succeeded();
    change(&folder, 512, &[0xff; 8]);
    for (command, code, words) in [
        ("zone create disk/b.zone --memory 1GiB", 1, "disk/b.zone: Read-only file system"),
        ("crash disk/b.zone --kills 9", 1, "disk/b.zone: Read-only file system"),
        ("zone repair disk/a.zone", 1, "disk/a.zone: Read-only file system"),
        ("top disk/a.zone --once", 1, "disk/a.zone: nobody has the zone in use"),
        ("zone map disk/a.zone --out disk/a.png", 1, "disk/a.png: cannot be written: Read-only"),
        ("zone map disk/a.zone --out disk/a.svg", 1, "disk/a.svg: cannot be written: Read-only"),
        ("zone info disk/a.zone", 0, ""),
        ("zone map disk/a.zone", 0, ""),
        ("zone verify disk/a.zone", 1, "disk/a.zone: is not clean"),
    ] {
        let script = format!("cp a.zone disk && mount -o remount,ro disk && exec \"$0\" {command}");
        let Some(ended) = on_a_disk(&folder, &script) else { return };
        assert_eq!(ended.code(), Some(code), "{command}: {}", ended.stderr());
        assert!(ended.stderr().contains(words), "{command}: {}", ended.stderr());
    }
}
