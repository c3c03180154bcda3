//! Memory that is there, in large pieces.
#![cfg(target_os = "linux")]

mod engine;
mod present;

use std::env;
use std::fs::{self, File};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::ptr::null_mut;
use std::thread;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use woodlot_pool::{Block, FrameId, Options, Order, Pool, PoolError, Wired};

use engine::new;

const MIB: usize = 1 << 20;

/// How many bytes of the pool have memory, as the system says.
fn present(pool: &Pool) -> usize {
    present::pages(pool) * 4096
}

/// How many bytes of the pool's mapping the system counts under a name.
fn mapped(pool: &Pool, name: &str) -> usize {
    let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let first = pool.pointer(FrameId(0)).expect("one").addr();
    let has_first = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = range.and_then(|(start, end)| {
            let address = |digits| usize::from_str_radix(digits, 16).ok();
            Some(address(start)?..address(end)?)
        });
        ends.is_some_and(|range| range.contains(&first))
    };
    let mut lines = maps.lines().skip_while(|line| !has_first(line));
    let line = lines.find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

fn fill(wired: &mut Wired<'_>, value: u8) {
    wired.slices_mut().for_each(|slice| slice.fill(value));
}

#[test]
fn all_of_it_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: nobody else uses the file.
    let file = unsafe { new(16 * MIB).file(folder.path().join("pool")) };
    let anonymous = new(16 * MIB);
    for options in [anonymous.clone(), anonymous.memory_file(), file] {
        let pool = options.magazines(false).build().expect("a pool");
        let mut wired = pool.wire(5 * MIB + 1).expect("memory");
        assert_eq!((wired.bytes(), wired.runs().len()), (5 * MIB + 4096, 1));
        // Of a file the system may bring more.
        let there = wired.runs().iter().map(|run| present::pages_of(&pool, run.clone()));
        assert_eq!(there.sum::<usize>() * 4096, wired.bytes(), "no page waits for its first touch");
        assert_eq!(wired.slices().map(<[u8]>::len).sum::<usize>(), wired.bytes());
        fill(&mut wired, 1);
        drop(wired);
        assert_eq!(pool.free_bytes(), pool.resident(), "all of it is free");
    }
}

#[test]
fn what_is_left_is_found_in_whatever_pieces() {
    // Threads keep blocks here, too.
    let pool = new(16 * MIB).build().expect("a pool");
    let blocks: Vec<Block<'_>> = pool.alloc_batch(Order(0), 4096).expect("all of it");
    let mut kept = Vec::new();
    for mut block in blocks {
        let frame = block.frame().0;
        // Two huge frames are free as a whole, and of each other one every third frame.
        if frame >= 1024 && frame % 3 > 0 {
            block.fill(frame as u8);
            kept.push(block);
        }
    }
    let free = 4096 - kept.len();
    let mut wired = pool.wire(free * 4096).expect("all that is left");
    assert!(wired.runs().is_sorted_by(|one, next| one.end < next.start));
    let first = wired.runs()[0].clone();
    assert!(first.start.0 == 0 && first.end.0 >= 1024, "huge frames are one run: {first:?}");
    assert_eq!(wired.bytes(), free * 4096);
    fill(&mut wired, 255);
    assert!(kept.iter().all(|block| block.iter().all(|&byte| byte == block.frame().0 as u8)));
    pool.alloc(Order(0)).expect_err("there is no more");
    drop(wired);
    assert_eq!(pool.free_bytes(), free * 4096);
    let refused = pool.wire((free + 1) * 4096).expect_err("there is not so much");
    assert!(matches!(refused, PoolError::OutOfMemory { .. }), "{refused}");
    assert_eq!(pool.free_bytes(), free * 4096, "what was found before went back");
    pool.wire(0).expect_err("no bytes");
}

#[test]
fn locked_memory_is_locked_until_it_is_dropped() {
    let locked = || {
        let status = fs::read_to_string("/proc/self/status").expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    };
    let pool = new(4 * MIB).build().expect("a pool");
    let mut wired = pool.wire(32 << 10).expect("memory");
    // Every process may lock so little.
    wired.lock().expect("a few pages");
    assert_eq!(locked(), wired.bytes());
    drop(wired);
    assert_eq!(locked(), 0);
}

#[test]
fn what_was_brought_and_given_back_is_brought_again() {
    let anonymous = new(6 * MIB).magazines(false);
    for options in [anonymous.clone(), anonymous.clone().memory_file(), anonymous.populate()] {
        let pool = options.build().expect("a pool");
        let wire = |bytes| drop(pool.wire(bytes).expect("memory"));
        // The third huge frame in part.
        wire(4 * MIB + 4096);
        wire(6 * MIB);
        assert_eq!(present(&pool), 6 * MIB, "a huge frame of which one page was there");
        assert_eq!(pool.give_back(usize::MAX).expect("the system takes memory"), 6 * MIB);
        assert_eq!(present(&pool), 0);
        wire(6 * MIB);
        assert_eq!(present(&pool), 6 * MIB, "what was given back");
    }
}

/// Sees to it that this thread has had a page fault. Its stack may have been another thread's, and be there.
fn has_a_fault() {
    let pool = new(2 * MIB).build().expect("a pool");
    drop(pool.wire(4096).expect("a page"));
}

fn threads(count: usize) -> NonZero<usize> {
    NonZero::new(count).expect("not zero")
}

#[test]
fn several_threads_bring_all_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: nobody else uses the file.
    let file = unsafe { new(16 * MIB).file(folder.path().join("pool")) };
    let anonymous = new(16 * MIB);
    let all = [anonymous.clone(), anonymous.clone().memory_file(), anonymous.clone().populate()];
    for (options, count) in all.into_iter().chain([file, anonymous]).zip([2, 3, 4, 5, 1000]) {
        let pool = options.magazines(false).build().expect("a pool");
        // A run that begins inside a huge frame, several in one, and whole ones.
        let mut kept = [700, 701, 900, 4095].map(|frame| {
            let mut block = pool.alloc_at(FrameId(frame), Order(0)).expect("it is free");
            block.fill(frame as u8);
            block
        });
        let mut wired = pool.wire_by(16 * MIB - 4 * 4096, threads(count)).expect("memory");
        let runs = wired.runs().iter().map(|run| run.start.0..run.end.0);
        assert_eq!(runs.collect::<Vec<_>>(), [0..700, 702..900, 901..4095]);
        assert_eq!(present(&pool), 16 * MIB, "no page waits for its first touch: {count}");
        fill(&mut wired, 1);
        assert!(kept.iter_mut().all(|block| {
            let value = block.frame().0 as u8;
            block.iter().all(|&byte| byte == value)
        }));
        drop((wired, kept));
        assert_eq!(pool.free_bytes(), pool.resident(), "all of it is free");
    }
}

#[test]
fn others_bring_a_part_of_it() {
    let pool = new(32 * MIB).build().expect("a pool");
    has_a_fault();
    // The system may let this thread do all of it before another one has begun.
    let does_less = || {
        let before = faults();
        drop(pool.wire_by(32 * MIB, threads(2)).expect("all of it"));
        let own = faults() - before;
        assert_eq!(pool.give_back(usize::MAX).expect("the system takes memory"), 32 * MIB);
        own < 32 * MIB as i64 / 4096
    };
    assert!((0..100).any(|_| does_less()), "this thread brings all of it");
}

#[test]
fn what_several_threads_brought_is_mapped() {
    let pool = new(16 * MIB).magazines(false).build().expect("a pool");
    drop(pool.wire_by(16 * MIB, threads(3)).expect("all of it"));
    has_a_fault();
    let before = faults();
    let mut wired = pool.wire(16 * MIB).expect("all of it");
    fill(&mut wired, 1);
    let found = faults() - before;
    assert!(found < 100, "{found} faults for {} pages that are there", 16 * MIB / 4096);
}

#[test]
fn what_several_threads_cannot_bring_goes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    // SAFETY: whoever makes the file shorter here reads and writes nothing of it meanwhile.
    let pool = unsafe { new(16 * MIB).file(&path) };
    let pool = pool.magazines(false).build().expect("a pool");
    let wired = pool.wire_by(4 * MIB, threads(2)).expect("memory");
    let (file, free) =
        (File::options().write(true).open(&path).expect("the file"), pool.free_bytes());
    file.set_len(8 * MIB as u64).expect("shorter");
    let refused = pool.wire_by(12 * MIB, threads(4)).expect_err("the file is too short");
    assert!(matches!(refused, PoolError::NotProvided { .. }), "{refused}");
    assert_eq!(pool.free_bytes(), free, "what it had went back");
    file.set_len(16 * MIB as u64).expect("as long as it was");
    let others = pool.wire_by(12 * MIB, threads(4)).expect("all the rest");
    pool.wire_by(4096, threads(4)).expect_err("there is no more");
    drop((wired, others));
    pool.wire_by(0, threads(4)).expect_err("no bytes");
    assert_eq!(pool.free_bytes(), 16 * MIB);
}

#[test]
fn a_thread_that_cannot_be_started_is_not_missed() {
    const CHILD: &str = "WOODLOT_WIRED_CHILD";
    if env::var_os(CHILD).is_none() {
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.arg("a_thread_that_cannot_be_started_is_not_missed");
        let output = child.env(CHILD, "1").output().expect("a child");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let pool = new(16 * MIB).build().expect("a pool");
    // No process may have more addresses than this one has already, and a stack takes some.
    let status = fs::read_to_string("/proc/self/status").expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a line");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    let most = (kib + 512) * 1024;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the limit is one, and all of this process is this test.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    thread::Builder::new().spawn(|| ()).expect_err("no room for a stack");
    let mut wired = pool.wire_by(16 * MIB, threads(4)).expect("all of it");
    assert_eq!(present(&pool), 16 * MIB);
    fill(&mut wired, 1);
}

/// Page faults of this thread so far.
fn faults() -> i64 {
    // SAFETY: all bits of it are a value, and it is filled in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    };
    assert!(usage.ru_minflt > 0, "a thread has touched its stack");
    usage.ru_minflt
}

/// Two pools of one memory file are to each other what two processes are.
fn two(options: impl Fn(Options) -> Options) -> [Pool; 2] {
    let file = rustix::fs::memfd_create("wired", MemfdFlags::CLOEXEC).expect("a memory file");
    [(); 2].map(|()| {
        let file: OwnedFd = file.try_clone().expect("a copy");
        // SAFETY: only these pools use it.
        let shared = unsafe { options(Options::new(8 * MIB)).shared_descriptor(file) };
        shared.build().expect("a shared pool")
    })
}

#[test]
fn what_others_left_is_mapped_many_pages_at_a_time() {
    let [one, other] = two(|options| options);
    drop(one.wire(8 * MIB).expect("all of it"));
    let before = faults();
    let mut wired = other.wire(8 * MIB).expect("all of it");
    let (pages, brought) = (8 * MIB as i64 / 4096, faults());
    assert!(brought - before < pages / 2, "{} faults for {pages} pages", brought - before);
    fill(&mut wired, 1);
    assert_eq!(faults() - brought, 0, "a page that is mapped can be written");
}

#[test]
fn memory_files_have_huge_pages_where_the_system_gives_them() {
    let huge = |pool: &Pool| mapped(pool, "ShmemPmdMapped:");
    let [one, other] = two(Options::huge_pages);
    drop(one.wire(8 * MIB).expect("all of it"));
    let mut wired = other.wire(8 * MIB).expect("all of it");
    fill(&mut wired, 1);
    let own = new(4 * MIB).memory_file().huge_pages().build().expect("a pool");
    let mut block = own.alloc(Order(9)).expect("memory");
    block.fill(1);
    if !collapses() {
        return;
    }
    assert_eq!((huge(&one), huge(&other)), (8 * MIB, 8 * MIB));
    assert_eq!(huge(&own), 2 * MIB);
    let small = new(4 * MIB).memory_file().build().expect("a pool");
    small.alloc(Order(9)).expect("memory").fill(1);
    assert_eq!(huge(&small), 0, "nobody has asked");
}

/// Does the system make huge pages of a memory file, if it is asked?
fn collapses() -> bool {
    let file = rustix::fs::memfd_create("huge", MemfdFlags::CLOEXEC).expect("a memory file");
    rustix::fs::ftruncate(&file, 4 * MIB as u64).expect("a length");
    let shared = MapFlags::SHARED;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the place, nobody else has it, and the huge page is one that lies in it.
    unsafe {
        let place = rustix::mm::mmap(null_mut(), 4 * MIB, protection, shared, &file, 0);
        let place = place.expect("addresses");
        let start = place.cast::<u8>().add(place.cast::<u8>().align_offset(2 * MIB));
        start.write(1);
        let collapsed = libc::madvise(start.cast(), 2 * MIB, libc::MADV_COLLAPSE) == 0;
        rustix::mm::munmap(place, 4 * MIB).expect("it was mapped");
        collapsed
    }
}
