//! `woodlot top`, where there is no terminal: one look as text.

use std::fs::{self, File, OpenOptions};
use std::mem::forget;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use woodlot_pool::{Options, Order, Pool};

use super::common::{Ended, Folder, signalled_after};

/// A zone of 1 GiB that somebody has in use: the word of its state says so.
fn in_use() -> Folder {
    let folder = Folder::new();
    folder.run(&["zone", "create", "a.zone", "--memory", "1GiB", "--slots", "2"]).succeeded();
    let mut bytes = fs::read(folder.path("a.zone")).unwrap();
    let state = 1u32 << 2 | 1;
    bytes[512..520].copy_from_slice(&(u64::from(state) | u64::from(!state) << 32).to_le_bytes());
    fs::write(folder.path("a.zone"), bytes).unwrap();
    folder
}

#[test]
fn a_look_is_printed_and_changes_nothing() {
    let folder = in_use();
    let before = fs::read(folder.path("a.zone")).unwrap();
    let mut mode = fs::metadata(folder.path("a.zone")).unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(folder.path("a.zone"), mode).unwrap();
    let top = |more: &[&str]| {
        folder.run(&[&["top", "a.zone", "--interval", "0.05"], more].concat()).succeeded()
    };
    let said = top(&[]);
    for words in [
        "a.zone: 1 GiB, 2 slots, opened 1 times\nfree memory 1.00 GiB of 1.00 GiB\n",
        "free huge frames 512 of 512\nhuge frames: 512 free, 0 split, ",
        "  movable     16       262144        512      +0\n",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(top(&["--once"]), said);
    assert_eq!(fs::read(folder.path("a.zone")).unwrap(), before);
}

/// A pool of 64 MiB, of which 16 MiB may be memory, as one of its processes.
fn join(path: &Path) -> Pool {
    // SAFETY: only such pools use the file; `top` only reads it.
    unsafe { Options::new(64 << 20).cap(16 << 20).shared(path) }.build().unwrap()
}

#[test]
fn a_shared_pool_has_processes_and_a_cap() {
    let folder = Folder::new();
    let path = folder.path("a.pool");
    let top = || folder.run(&["top", "a.pool", "--interval", "0.05"]).succeeded();
    let pool = join(&path);
    let block = pool.alloc(Order(10)).unwrap();
    let said = top();
    let me = std::process::id();
    for words in [
        "a.pool: 64 MiB, ",
        "24 offline",
        "resident 4 MiB of at most 16 MiB\nprocesses: 1 alive\n",
        &format!("{me}  alive        4.00  +0.00\n"),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A pool that is dropped without its blocks is to others as one whose process has died.
    let other = join(&path);
    forget(other.alloc(Order(9)).unwrap());
    drop(other);
    let said = top();
    assert!(said.contains("processes: 1 alive, 1 dead\n"), "{said}");
    assert!(said.contains(&format!("{me}   dead        2.00  +0.00\n")), "{said}");
    drop(block);
    drop(pool);
    assert!(top().contains("nobody has the pool: it is as the last process left it\n"));

    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let len = file.metadata().unwrap().len();
    for (len, words) in [
        (len - 4096, "bytes, and one with this shared pool has "),
        (4096, "a.pool: the memory has 4096 bytes and the zone needs"),
        (0, "a.pool: is empty"),
    ] {
        file.set_len(len).unwrap();
        folder.run(&["top", "a.pool"]).failed(1, words);
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    let folder = in_use();
    let refused = |words: &str| folder.run(&["top", "a.zone", "--once"]).failed(1, words);
    let whole = fs::read(folder.path("a.zone")).unwrap();
    let write = |bytes: &[u8]| fs::write(folder.path("a.zone"), bytes).unwrap();
    write(&whole[..32768]);
    refused("a.zone: the memory has 32768 bytes and the zone needs");
    write(&whole[..100]);
    refused("a.zone: the memory has 100 bytes");
    write(&[0; 8192]);
    refused("a.zone: there is no zone");
    write(&[b'!'; 8192]);
    refused("a.zone: this is no zone");
    write(&[]);
    refused("a.zone: is empty");
    fs::remove_file(folder.path("a.zone")).unwrap();
    refused("a.zone: No such file");
    fs::create_dir(folder.path("a.zone")).unwrap();
    refused("a.zone: is no regular file");
    folder.run(&["zone", "create", "b.zone", "--memory", "1GiB"]).succeeded();
    folder.run(&["top", "b.zone"]).failed(1, "b.zone: nobody has the zone in use: it is closed");
    folder.run(&["top"]).failed(2, "<FILE>");
    for interval in ["0", "-1", "NaN", "3601", "soon"] {
        let args = ["top", "b.zone", &format!("--interval={interval}")];
        folder.run(&args).failed(2, "a number of seconds from 0.05 to 3600");
    }
}

#[test]
fn an_interrupt_between_two_looks_changes_nothing() {
    let folder = in_use();
    let before = fs::read(folder.path("a.zone")).unwrap();
    let top = ["top", "a.zone", "--interval", "3600"];
    for signal in ["-INT", "-TERM"] {
        let ended = signalled_after(&folder, signal, &top, Duration::from_secs(1));
        ended.failed(130, "interrupted");
        assert_eq!(fs::read(folder.path("a.zone")).unwrap(), before);
    }
}

/// Between two looks, when the file is mapped: of a zone, and of a pool, of which there are two mappings.
#[test]
fn a_file_that_is_truncated_between_two_looks_is_an_error() {
    let folder = in_use();
    drop(join(&folder.path("a.pool")));
    for name in ["a.zone", "a.pool"] {
        let bytes = fs::read(folder.path(name)).unwrap();
        for left in [0, 4096, bytes.len() as u64 / 8192 * 4096, bytes.len() as u64 - 4096] {
            fs::write(folder.path(name), &bytes).unwrap();
            let top = ["top", name, "--interval", "1"];
            let mut command = folder.woodlot(&top);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            sleep(Duration::from_millis(500));
            OpenOptions::new().write(true).open(folder.path(name)).unwrap().set_len(left).unwrap();
            let ended = Ended(child.wait_with_output().unwrap());
            ended.failed(1, &format!("{name}: was truncated: it has {left} bytes, and had "));
        }
    }
}

#[test]
fn nobody_may_be_able_to_read_what_is_seen() {
    let folder = in_use();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let top = ["top", "a.zone", "--interval", "0.05"];
    let output = folder.woodlot(&top).stdout(full).output().unwrap();
    Ended(output).failed(1, "standard output: No space left on device");
}
