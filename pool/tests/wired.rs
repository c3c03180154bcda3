//! Memory that is there, in large pieces.
#![cfg(target_os = "linux")]

use std::fs;

use woodlot_pool::{Block, FrameId, Options, Order, Pool, PoolError, Wired};

const MIB: usize = 1 << 20;

/// How many bytes of the pool have memory, as the system says.
fn present(pool: &Pool) -> usize {
    let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let start = format!("{:x}-", pool.pointer(FrameId(0)).expect("one").addr());
    let rest = &maps[maps.find(&start).expect("the mapping")..];
    let line = |name| rest.lines().find_map(|line: &str| line.strip_prefix(name)).expect("a line");
    let kib = |name| line(name).trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
    kib("Rss:") * 1024
}

fn fill(wired: &mut Wired<'_>, value: u8) {
    wired.slices_mut().for_each(|slice| slice.fill(value));
}

#[test]
fn all_of_it_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: nobody else uses the file.
    let file = unsafe { Options::new(16 * MIB).file(folder.path().join("pool")) };
    let anonymous = Options::new(16 * MIB);
    for options in [anonymous.clone(), anonymous.memory_file(), file] {
        let pool = options.magazines(false).build().expect("a pool");
        let mut wired = pool.wire(5 * MIB + 1).expect("memory");
        assert_eq!((wired.bytes(), wired.runs().len()), (5 * MIB + 4096, 1));
        assert_eq!(present(&pool), wired.bytes(), "no page waits for its first touch");
        assert_eq!(wired.slices().map(<[u8]>::len).sum::<usize>(), wired.bytes());
        fill(&mut wired, 1);
        drop(wired);
        assert_eq!(pool.free_bytes(), pool.resident(), "all of it is free");
    }
}

#[test]
fn what_is_left_is_found_in_whatever_pieces() {
    // Threads keep blocks here, too.
    let pool = Options::new(16 * MIB).build().expect("a pool");
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
    let pool = Options::new(4 * MIB).build().expect("a pool");
    let mut wired = pool.wire(32 << 10).expect("memory");
    // Every process may lock so little.
    wired.lock().expect("a few pages");
    assert_eq!(locked(), wired.bytes());
    drop(wired);
    assert_eq!(locked(), 0);
}
