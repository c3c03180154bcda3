//! Memory that is to be zero: it is, whoever had it before, and what comes from the system is not written to.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use woodlot_malloc::{alloc, alloc_zeroed, flush, free, trim};

const PAGE: usize = 4096;
/// A block of so many bytes has huge frames to itself, which were the system's if they are free after a [`trim`].
const HUGE: usize = 2 << 20;

/// The tests have one heap, and one of them counts on what the system has.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a block.
fn bytes(block: NonNull<u8>, count: usize) -> &'static mut [u8] {
    // SAFETY: the block has so many bytes, and its owner calls this again only after the last use.
    unsafe { NonNull::slice_from_raw_parts(block, count).as_mut() }
}

/// Frees a block that holds something in every byte.
fn free_dirty(block: NonNull<u8>, count: usize) {
    bytes(block, count).fill(0xA5);
    // SAFETY: the caller has it, and nobody uses it any more.
    unsafe { free(block) };
}

/// How many pages of a block have memory.
fn resident(block: NonNull<u8>, count: usize) -> usize {
    let mut pages = vec![0u8; count / PAGE];
    // SAFETY: the block is mapped, and there is a byte for each page.
    let looked = unsafe { libc::mincore(block.as_ptr().cast(), count, pages.as_mut_ptr()) };
    assert_eq!(looked, 0);
    pages.iter().filter(|&page| page & 1 == 1).count()
}

/// Blocks of all sizes come and go, by several threads, and memory goes to the system and comes back.
#[test]
fn nobody_sees_what_was_there() {
    let _alone = alone();
    let history = |seed: u64| {
        let (mut random, mut used) = (fastrand::Rng::with_seed(seed), Vec::new());
        for step in 0..3000 {
            let log = random.u32(4..23);
            let count = if random.u8(..8) == 0 { PAGE } else { 1 + random.usize(..1 << log) };
            if random.bool() {
                let block = alloc(count).expect("memory");
                used.push((block, count));
            } else {
                let block = alloc_zeroed(count, 16).expect("memory");
                assert!(bytes(block, count).iter().all(|&byte| byte == 0), "{count}");
                used.push((block, count));
            }
            if used.len() > 20 {
                let (block, count) = used.swap_remove(random.usize(..used.len()));
                free_dirty(block, count);
            }
            if step % 300 == 0 {
                trim(0);
            }
        }
        used.into_iter().for_each(|(block, count)| free_dirty(block, count));
    };
    thread::scope(|scope| (0..3).for_each(|seed| drop(scope.spawn(move || history(seed)))));
}

#[test]
fn what_comes_from_the_system_is_not_written_to() {
    let _alone = alone();
    for round in 0..3 {
        trim(0);
        let pages: Vec<_> = (0..500).map(|_| alloc_zeroed(PAGE, 16).expect("memory")).collect();
        let there: usize = pages.iter().map(|&page| resident(page, PAGE)).sum();
        assert_eq!(there, 0, "{round}");
        for page in pages {
            assert!(bytes(page, PAGE).iter().all(|&byte| byte == 0), "{round}");
            free_dirty(page, PAGE);
        }
    }
    for count in [HUGE, 2 * HUGE, 4 * HUGE] {
        for round in 0..3 {
            trim(0);
            let block = alloc_zeroed(count, 16).expect("memory");
            assert_eq!(resident(block, count), 0, "{count} {round}");
            assert!(bytes(block, count).iter().all(|&byte| byte == 0), "{count} {round}");
            free_dirty(block, count);
        }
    }
}

/// Single pages are freed many at a time.
#[test]
fn what_single_pages_held_is_not_seen() {
    const SPAN: usize = 64 << 10;
    let _alone = alone();
    trim(0);
    let pages: Vec<_> = (0..4 * HUGE / PAGE).map(|_| alloc(PAGE).expect("memory")).collect();
    pages.into_iter().for_each(|page| free_dirty(page, PAGE));
    flush();
    for _ in 0..2 * HUGE / SPAN {
        let block = alloc_zeroed(SPAN, 16).expect("memory");
        assert!(bytes(block, SPAN).iter().all(|&byte| byte == 0));
    }
}

/// Of huge frames that are in use every other page is free, and goes to the system: what comes back is zero and was not
/// written to, and what was in use is what it was.
#[test]
fn pages_between_others_go_and_come_back_new() {
    let _alone = alone();
    trim(0);
    let pages: Vec<_> = (0..4 * HUGE / PAGE).map(|_| alloc(PAGE).expect("memory")).collect();
    pages.iter().for_each(|&page| bytes(page, PAGE).fill(0x5A));
    let is_kept = |page: NonNull<u8>| (page.addr().get() / PAGE).is_multiple_of(2);
    let (kept, freed): (Vec<_>, Vec<_>) = pages.into_iter().partition(|&page| is_kept(page));
    freed.iter().for_each(|&page| free_dirty(page, PAGE));
    assert!(trim(0) >= freed.len() * PAGE, "what lies between others stays");
    assert_eq!(freed.iter().map(|&page| resident(page, PAGE)).sum::<usize>(), 0);
    let again: Vec<_> = freed.iter().map(|_| alloc_zeroed(PAGE, 16).expect("memory")).collect();
    assert_eq!(
        again.iter().map(|&page| resident(page, PAGE)).sum::<usize>(),
        0,
        "zeros are written"
    );
    assert!(again.iter().all(|&page| bytes(page, PAGE).iter().all(|&byte| byte == 0)));
    assert!(kept.iter().all(|&page| bytes(page, PAGE).iter().all(|&byte| byte == 0x5A)));
    kept.into_iter().chain(again).for_each(|page| free_dirty(page, PAGE));
}
