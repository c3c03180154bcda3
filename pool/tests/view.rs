//! A shared pool as one sees it who has not joined it.

use std::fs::{self, File, OpenOptions};
use std::mem::forget;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;

use woodlot_frame::{Base4K, Init, ZoneConfig};
use woodlot_pool::{BuildError, Options, Order, Pool, SharedError, View};
use woodlot_zone::{Layout, Memory, OwnersError, Shared, Zone, ZoneError};

const MIB: usize = 1 << 20;
const SIZE: usize = 64 * MIB;
const CAP: usize = 16 * MIB;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    (folder, path)
}

fn join(path: &Path) -> Pool {
    // SAFETY: only such pools use the file, or the test looks what a view does with a wrong one.
    unsafe { Options::new(SIZE).cap(CAP).shared(path) }.build().expect("a shared pool")
}

fn refused(path: &Path) -> (BuildError, String) {
    let Err(error) = View::open(path) else { panic!("it is no whole pool") };
    let said = error.to_string();
    (error, said)
}

fn cause(path: &Path) -> SharedError {
    match refused(path) {
        (BuildError::Shared { cause, .. }, _) => cause,
        (_, said) => panic!("{said}"),
    }
}

/// Does a process live, and what has it?
fn processes(view: &View) -> Vec<(bool, usize)> {
    let seen = view.look().expect("the file is whole");
    let me = u64::from(process::id());
    assert!(seen.processes.iter().all(|process| process.id == me), "all are of this one");
    seen.processes.iter().map(|process| (process.is_alive, process.bytes)).collect()
}

/// Two pools of one file are to each other what two processes are.
#[test]
fn a_view_sees_what_each_process_has() {
    let (_folder, path) = folder();
    let one = join(&path);
    let view = View::open(&path).expect("a pool");
    assert_eq!((view.size(), view.cap()), (SIZE, CAP));
    assert_eq!(processes(&view), [(true, 0)]);
    let huge = one.alloc(Order(10)).expect("memory");
    let other = join(&path);
    let small = [Order(0), Order(3)].map(|order| other.alloc(order).expect("memory"));
    let theirs = small.iter().map(|block| block.len()).sum();
    assert_eq!(processes(&view), [(true, huge.len()), (true, theirs)]);
    assert_eq!(view.look().expect("a look").resident, one.resident(), "as the pool counts it");

    // What nobody frees stays its own when it is dead, and is seen so until somebody else frees it.
    small.into_iter().for_each(forget);
    drop(other);
    let left = [(true, huge.len()), (false, theirs)];
    assert_eq!(processes(&view), left, "a dead one is told from one that lives");
    assert_eq!(one.reap(), theirs);
    drop(huge);
    assert_eq!(processes(&view), [(true, 0)]);
    one.give_back(usize::MAX).expect("the system takes memory");
    assert_eq!(view.look().expect("a look").resident, 0);
    drop(one);
    assert_eq!(processes(&view), [(false, 0)]);
}

#[test]
fn a_view_changes_nothing_and_nobody_waits_for_it() {
    let (_folder, path) = folder();
    let pool = join(&path);
    let before = fs::read(&path).expect("the file");
    let mut mode = fs::metadata(&path).expect("the file").permissions();
    mode.set_readonly(true);
    fs::set_permissions(&path, mode).expect("for reading only");
    let view = View::open(&path).expect("reading is enough");
    view.look().expect("a look");
    assert!(fs::read(&path).expect("the file") == before);
    drop(pool);
    drop(view);
    // Nor is it one of those for whom a pool is kept.
    let view = View::open(&path).expect("a pool that nobody has");
    assert_eq!(processes(&view), [(false, 0)]);
}

#[test]
fn files_that_are_no_whole_pool() {
    let (folder, path) = folder();
    let (error, said) = refused(&path);
    assert!(matches!(error, BuildError::File { .. }) && said.contains("No such file"), "{said}");
    assert!(refused(folder.path()).1.ends_with("could not open it: is no regular file"));
    fs::write(&path, [0; 100]).expect("a file");
    let short = ZoneError::Short { needed: 4096, given: 100 };
    assert_eq!(cause(&path), SharedError::Zone(short));
    fs::write(&path, [b'!'; 8192]).expect("a file");
    assert!(matches!(cause(&path), SharedError::Zone(ZoneError::Foreign { .. })));
    fs::remove_file(&path).expect("it is there");

    let pool = join(&path);
    let view = View::open(&path).expect("a pool");
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
    let len = file.metadata().expect("a length").len();
    for wrong in [len - 4096, len + 4096] {
        file.set_len(wrong).expect("another length");
        let pool = len as usize;
        assert_eq!(cause(&path), SharedError::Length { bytes: wrong, pool });
        assert_eq!(
            view.look().is_ok(),
            wrong > len,
            "what was mapped is there, or is not looked at"
        );
    }
    drop((view, pool));
    let at = pool_page(&file, len);
    for (word, what) in [
        (*b"pool?\0\0\0", SharedError::Zone(ZoneError::Unfinished)),
        ([1; 8], SharedError::NotAPool { magic: u64::from_le_bytes([1; 8]) }),
        (*b"Pool\x1a\0\0\0", SharedError::Damaged),
    ] {
        file.write_all_at(&word, at).expect("a word");
        // The cap is not what the checksum is of.
        file.write_all_at(&[1], at + 48).expect("a word");
        assert_eq!(cause(&path), what);
    }
    file.set_len(at - 4096).expect("it ends in the owner table");
    let cut = cause(&path);
    assert!(
        matches!(cut, SharedError::Owners(OwnersError::Page(ZoneError::Short { .. }))),
        "{cut}"
    );
}

/// Where the pool page lies.
fn pool_page(file: &File, len: u64) -> u64 {
    let begins = |at: &u64| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, *at).expect("it is so long");
        word == *b"Pool\x1a\0\0\0"
    };
    (0..len).step_by(4096).find(begins).expect("a pool page")
}

#[test]
fn a_zone_without_a_pool_is_none() {
    #[derive(Clone)]
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let (_folder, path) = folder();
    let config = ZoneConfig::new(1 << 14, 2);
    let mut pages =
        vec![Page([0; 4096]); Layout::of::<Base4K>(&config).expect("a layout").len / 4096];
    // SAFETY: nobody else uses the pages.
    unsafe {
        let memory = Memory::new(pages.as_mut_ptr().cast(), pages.len() * 4096).expect("aligned");
        Zone::<Base4K, _>::format(memory, &config, Init::Free, Shared).expect("a zone");
    }
    let bytes: Vec<u8> = pages.iter().flat_map(|page| page.0).collect();
    fs::write(&path, &bytes).expect("a file");
    assert_eq!(cause(&path), SharedError::NotAPool { magic: 0 });
    // Whatever lies behind it.
    fs::write(&path, [bytes, vec![7; 1 << 20]].concat()).expect("a file");
    assert_eq!(cause(&path), SharedError::NotAPool { magic: u64::from_le_bytes([7; 8]) });
}
