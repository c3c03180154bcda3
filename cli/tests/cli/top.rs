//! `woodlot top`, where there is no terminal: one look as text.

use std::fs;

use super::common::Folder;

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
