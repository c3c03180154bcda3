//! Every kind of memory, and what is wrong with a pool that is not made.

mod present;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use woodlot_pool::{BuildError, FrameId, HugePage, Options, Order, Pool, PoolError, Quantity};

const MIB: usize = 1 << 20;
const HUGE: usize = 2 * MIB;

fn refused(options: Options) -> (BuildError, String) {
    let error = options.build().expect_err("no such pool");
    let said = error.to_string();
    (error, said)
}

/// A pool in a file of the test's own.
fn in_file(path: &Path, size: usize) -> Options {
    // SAFETY: nobody but the test knows the file.
    unsafe { Options::new(size).file(path) }
}

fn use_all(pool: &Pool) {
    let mut blocks = pool.alloc_batch(Order(9), pool.cap() / HUGE).expect("all of it");
    blocks.iter_mut().for_each(|block| block.fill(3));
    drop(blocks);
    assert_eq!(pool.give_back(usize::MAX).expect("the system takes memory"), pool.cap());
    assert_eq!(pool.resident(), 0);
    let block = pool.alloc(Order(10)).expect("memory");
    assert!(block.iter().all(|&byte| byte == 0), "what was given back is zero");
}

#[test]
fn all_kinds_of_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    use_all(&Options::new(8 * MIB).build().expect("anonymous memory"));
    use_all(&Options::new(8 * MIB).populate().build().expect("populated memory"));
    use_all(&Options::new(8 * MIB).huge_pages().build().expect("transparent huge pages"));
    use_all(&Options::new(8 * MIB).memory_file().build().expect("a memory file"));
    use_all(&in_file(&folder.path().join("pool"), 8 * MIB).build().expect("a file"));
    if has_nodes() {
        use_all(&Pool::builder(8 * MIB).numa_node(0).build().expect("node 0"));
    }
}

#[test]
fn populated_memory_is_there_before_a_touch() {
    let pool = Options::new(4 * MIB).populate().build().expect("a pool");
    let block = pool.alloc(Order(9)).expect("memory");
    assert_eq!(present::pages(&pool), block.len() / 4096);
}

#[test]
fn transparent_huge_pages_are_asked_for() {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_ok_and(|text| text.contains("[madvise]") || text.contains("[always]")) {
        return;
    }
    let pool = Options::new(4 * MIB).huge_pages().build().expect("a pool");
    let mut block = pool.alloc(Order(9)).expect("memory");
    block[0] = 1;
    // One touch brought the whole huge page, unless the system had none at that moment.
    let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let start = format!("{:x}-", pool.pointer(FrameId(0)).expect("a frame").addr());
    let rest = &maps[maps.find(&start).expect("the mapping")..];
    let flags = rest.lines().find(|line| line.starts_with("VmFlags:")).expect("its flags");
    assert!(flags.contains(" hg"), "{flags}");
}

#[test]
fn a_memory_file_holds_the_memory() {
    let pool = Options::new(4 * MIB).memory_file().build().expect("a pool");
    let mut block = pool.alloc(Order(1)).expect("memory");
    block.fill(0x5A);
    // SAFETY: the file is only read, and one try to make it shorter is refused.
    let descriptor = unsafe { pool.descriptor() }.expect("it has one");
    let file = File::from(descriptor.try_clone_to_owned().expect("a copy"));
    let mut bytes = vec![0; block.len()];
    file.read_exact_at(&mut bytes, block.frame().0 as u64 * 4096).expect("the contents");
    assert_eq!(bytes, *block);
    file.set_len(0).expect_err("nobody makes it shorter");
    let other = Options::new(HUGE).build().expect("a pool");
    // SAFETY: there is none.
    assert!(unsafe { other.descriptor() }.is_none());
}

#[test]
fn a_file_keeps_what_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = in_file(&path, 4 * MIB).build().expect("a pool");
    let mut block = pool.alloc_at(FrameId(700), Order(2)).expect("memory");
    block.fill(9);
    let (error, said) = refused(in_file(&path, 4 * MIB));
    assert!(matches!(error, BuildError::FileInUse(_)), "{said}");
    drop(block);
    drop(pool);

    let pool = in_file(&path, 4 * MIB).build().expect("the pool again");
    let block = pool.alloc_at(FrameId(700), Order(2)).expect("it is free");
    assert!(block.iter().all(|&byte| byte == 9));
    drop(block);
    drop(pool);
    let (error, said) = refused(in_file(&path, 6 * MIB));
    assert!(matches!(error, BuildError::FileLength { bytes, .. } if bytes == 4 << 20), "{said}");
    let mut contents = Vec::new();
    File::open(&path).and_then(|mut file| file.read_to_end(&mut contents)).expect("the file");
    assert_eq!((contents.len(), contents[700 * 4096]), (4 * MIB, 9), "a refusal changes nothing");
}

#[test]
fn a_file_that_is_given_back_takes_no_disk_space() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = in_file(&path, 8 * MIB).cap(4 * MIB).build().expect("a pool");
    let blocks = || fs::metadata(&path).expect("the file").blocks() * 512;
    assert!((4 * MIB as u64..5 * MIB as u64).contains(&blocks()), "the cap is reserved");
    drop(pool.alloc_batch(Order(9), 2).expect("the cap"));
    pool.give_back(4 * MIB).expect("the system takes it");
    assert!(blocks() < MIB as u64, "{}", blocks());
}

#[test]
fn a_file_that_somebody_makes_shorter() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = in_file(&path, 8 * MIB).build().expect("a pool");
    let mut block = pool.alloc_at(FrameId(0), Order(0)).expect("memory");
    block.fill(4);
    let before = (pool.resident(), pool.free_bytes());
    let file = File::options().write(true).open(&path).expect("it is there");
    file.set_len(HUGE as u64).expect("nobody forbids it");
    // The pool does not hand out what is not there, and does not make the file longer again.
    let errors = [
        pool.alloc(Order(10)).map(drop),
        pool.alloc_run(3 * MIB).map(drop),
        pool.alloc_at(FrameId(2047), Order(0)).map(drop),
    ];
    for error in errors {
        let error = error.expect_err("the memory is not there");
        assert!(matches!(error, PoolError::NotProvided { .. }), "{error}");
        let said = "somebody has made the file shorter: 2097152 bytes, of 8388608";
        assert!(error.to_string().ends_with(said), "{error}");
    }
    assert_eq!(file.metadata().expect("the file").len(), HUGE as u64);
    assert_eq!((pool.resident(), pool.free_bytes()), before, "nothing is lost");
    assert!(block.iter().all(|&byte| byte == 4), "what is there can still be used");
    drop(block);
    let error = pool.give_back(usize::MAX).expect_err("the file has changed");
    assert!(matches!(error, PoolError::NotTaken { given: 0, .. }), "{error}");
    file.set_len(8 * MIB as u64).expect("nobody forbids it");
    assert_eq!(pool.alloc_batch(Order(9), 4).map(|blocks| blocks.len()).ok(), Some(4));
}

#[test]
fn a_file_system_without_dax() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    // SAFETY: nobody but the test knows the file.
    let options = unsafe { Options::new(8 * MIB).dax(&path) };
    match options.build() {
        // The folder is on persistent memory.
        Ok(pool) => use_all(&pool),
        Err(error) => {
            assert!(matches!(error, BuildError::NotDax(_)), "{error}");
            let said = "not on persistent memory: the file system does not map it with MAP_SYNC";
            assert_eq!(error.to_string(), format!("{}: {said}", path.display()));
            assert_eq!(fs::metadata(&path).expect("the file").len(), 0);
        }
    }
}

#[test]
fn a_refusal_leaves_no_file_that_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let (error, said) = refused(in_file(&path, HUGE).slots(usize::MAX));
    assert!(matches!(error, BuildError::Zone(_)), "{said}");
    assert_eq!(fs::metadata(&path).expect("the file").len(), 0);
    // What was there stays.
    fs::write(&path, vec![5; HUGE]).expect("room");
    refused(in_file(&path, HUGE).slots(usize::MAX));
    assert!(fs::read(&path).expect("the file") == vec![5; HUGE]);
}

#[test]
fn a_cap_that_the_machine_has_no_memory_for() {
    let large = 1 << 45;
    let (error, said) = refused(Options::new(large).cap(large));
    let BuildError::CapAboveMemory { cap, memory } = error else { panic!("{said}") };
    assert_eq!(cap, large);
    assert!(said.starts_with("the cap of the pool is 35184372088832 bytes, above the "), "{said}");
    assert!((1 << 20..1 << 45).contains(&memory), "{memory}");
    refused(Options::new(large).huge_pages().cap(large));
    refused(Options::new(large).memory_file().cap(large));
    // What fits is taken.
    let most = memory as usize / HUGE * HUGE;
    let pool = Options::new(1 << 36).cap(most.min(1 << 36)).build().expect("addresses are free");
    assert!(pool.cap() as u64 <= memory);
}

#[test]
fn a_file_without_room_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    // More than any disk has, and no more than a file may have.
    let (error, said) = refused(in_file(&path, 8 << 40));
    assert!(matches!(error, BuildError::File { .. } | BuildError::Map { .. }), "{said}");
    assert!(said.contains("reserve disk space"), "{said}");
    assert_eq!(fs::metadata(&path).expect("the file").len(), 0);
}

#[test]
fn files_that_cannot_be_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in [folder.path().to_path_buf(), folder.path().join("none/pool")] {
        let (error, said) = refused(in_file(&path, HUGE));
        assert!(matches!(error, BuildError::File { doing: "open it", .. }), "{said}");
        assert!(said.starts_with(&path.display().to_string()), "{said}");
    }
}

#[test]
fn sizes_and_caps() {
    let (error, said) = refused(Options::new(0));
    assert!(matches!(error, BuildError::Zero(Quantity::Size)));
    assert_eq!(said, "the size of the pool is zero");
    assert!(matches!(refused(Options::new(HUGE).cap(0)).0, BuildError::Zero(Quantity::Cap)));
    assert!(matches!(refused(Options::new(HUGE).slots(0)).0, BuildError::Zero(Quantity::Slots)));
    let (_, said) = refused(Options::new(HUGE + 4096));
    assert_eq!(
        said,
        "the size of the pool is 2101248 bytes, not a multiple of 2097152; 4194304 is one"
    );
    let (_, said) = refused(Options::new(HUGE).cap(1));
    assert_eq!(said, "the cap of the pool is 1 bytes, not a multiple of 2097152; 2097152 is one");
    let (_, said) = refused(Options::new(HUGE).cap(2 * HUGE));
    assert_eq!(said, "the cap of the pool is 4194304 bytes, above its size of 2097152");
    let (_, said) = refused(Options::new(usize::MAX));
    assert!(said.ends_with(" is one"), "{said}");
    assert!(matches!(refused(Options::new(1 << 62)).0, BuildError::Map { .. }));
    assert!(matches!(refused(Options::new(HUGE).slots(usize::MAX)).0, BuildError::Zone(_)));
}

#[test]
fn reserved_pages_that_are_not_reserved() {
    // More than any machine has reserved; where it has enough, the pool works.
    let (error, said) = refused(Options::new(1 << 44).reserved_huge_pages(HugePage::Mib2));
    match error {
        BuildError::HugePages { needed, free: Some(free), .. } => {
            assert_eq!(needed, 1 << 23);
            assert_eq!(
                said,
                format!(
                    "the pool needs 8388608 huge pages of 2 MiB, and {free} are free; \
                     /proc/sys/vm/nr_hugepages reserves them"
                ),
            );
        }
        BuildError::HugePages { free: None, .. } => assert!(said.contains("has none"), "{said}"),
        error => panic!("{error}"),
    }
    match Options::new(1 << 30).reserved_huge_pages(HugePage::Gib1).build() {
        Ok(pool) => assert_eq!(pool.alloc(Order(10)).map(|_| pool.resident()).ok(), Some(1 << 30)),
        Err(error) => assert!(error.to_string().contains("hugepages-1048576kB"), "{error}"),
    }
    let (_, said) = refused(Options::new(HUGE).reserved_huge_pages(HugePage::Gib1));
    assert!(said.ends_with("not a multiple of 1073741824; 1073741824 is one"), "{said}");
    match Options::new(8 * MIB).reserved_huge_pages(HugePage::Mib2).build() {
        Ok(pool) => use_all(&pool),
        Err(error) => assert!(matches!(error, BuildError::HugePages { .. }), "{error}"),
    }
}

/// A kernel may be built without NUMA.
fn has_nodes() -> bool {
    Path::new("/sys/devices/system/node/has_memory").exists()
}

#[test]
fn nodes_that_are_not_there() {
    for node in [7777, usize::MAX] {
        let (error, said) = refused(Options::new(HUGE).numa_node(node));
        assert!(matches!(error, BuildError::NoNode { .. }), "{said}");
        let nodes = if has_nodes() { "0" } else { "no nodes" };
        let start = format!("no NUMA node {node} with memory; this system has {nodes}");
        assert!(said.starts_with(&start), "{said}");
    }
}

#[test]
fn memory_that_the_system_does_not_take_stays() {
    let pool = Options::new(8 * MIB).build().expect("a pool");
    drop(pool.alloc_batch(Order(9), 4).expect("all of it"));
    // The system does not take what is locked.
    let locked = pool.pointer(FrameId(512 + 7)).expect("a frame of the pool");
    // SAFETY: a lock changes nothing but where the memory may be.
    unsafe { rustix::mm::mlock(locked.cast(), 4096) }.expect("a page can be locked");
    let error = pool.give_back(usize::MAX).expect_err("a page is locked");
    assert!(matches!(error, PoolError::NotTaken { given: 0, .. }), "{error}");
    assert_eq!((pool.resident(), pool.free_bytes()), (8 * MIB, 8 * MIB));
    // Above the locked page it takes all, and says how much if it then meets the page.
    let block = pool.alloc_at(FrameId(1024), Order(0)).expect("it is free");
    let error = pool.give_back(usize::MAX).expect_err("a page is locked");
    assert!(matches!(error, PoolError::NotTaken { given: HUGE, .. }), "{error}");
    assert_eq!(pool.resident(), 3 * HUGE);
    drop(block);
    // SAFETY: as above.
    unsafe { rustix::mm::munlock(locked.cast(), 4096) }.expect("it was locked");
    assert_eq!(pool.give_back(usize::MAX).expect("the system takes memory"), 3 * HUGE);
    assert_eq!(pool.alloc_batch(Order(9), 4).map(|blocks| blocks.len()).ok(), Some(4));
}

#[test]
fn memory_that_the_system_does_not_provide() {
    use rustix::mm::{MprotectFlags, mprotect};
    let pool = Options::new(2 * HUGE).populate().build().expect("a pool");
    let start = pool.pointer(FrameId(0)).expect("a frame of the pool").cast();
    // SAFETY: nobody has any memory of the pool.
    unsafe { mprotect(start, 2 * HUGE, MprotectFlags::READ) }.expect("nobody writes");
    let errors = [
        pool.alloc(Order(0)).map(drop),
        pool.alloc(Order(10)).map(drop),
        pool.alloc_run(3 * MIB).map(drop),
        pool.alloc_at(FrameId(3), Order(0)).map(drop),
        pool.claim(Order(1), 2).map(drop),
    ];
    for error in errors {
        assert!(matches!(error, Err(PoolError::NotProvided { bytes: HUGE, .. })), "{error:?}");
    }
    assert_eq!((pool.resident(), pool.free_bytes()), (0, 0));
    // SAFETY: as above.
    unsafe { mprotect(start, 2 * HUGE, MprotectFlags::READ | MprotectFlags::WRITE) }.expect("now");
    pool.alloc(Order(10)).expect("nothing was lost").fill(1);
}
