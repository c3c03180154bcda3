//! What the heap gives back to the system stays there, and what the system does not take keeps nothing else.

mod memory;

use std::fs::read_to_string;
use std::ptr::NonNull;
use std::sync::Mutex;

use memory::resident;
use woodlot_malloc::{alloc, free, trim};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;
const MIB: usize = 1 << 20;

/// One test at a time: the memory of the process is looked at.
static ALONE: Mutex<()> = Mutex::new(());

/// Allocates so many blocks, and writes to each page.
fn touched(count: usize, bytes: usize) -> Vec<NonNull<u8>> {
    let block = |_| {
        let block = alloc(bytes).expect("there is memory");
        // SAFETY: the block has so many bytes.
        (0..bytes).step_by(PAGE).for_each(|at| unsafe { block.as_ptr().add(at).write(1) });
        block
    };
    (0..count).map(block).collect()
}

fn free_all(blocks: impl IntoIterator<Item = NonNull<u8>>) {
    // SAFETY: each was allocated, and nobody uses it.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
}

/// What the system says of the mapping in which an address lies.
fn flags(address: usize) -> String {
    let said = read_to_string("/proc/self/smaps").expect("it is Linux");
    let mut is_here = false;
    for line in said.lines() {
        let range = line.split_whitespace().next().and_then(|first| first.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16);
        if let Some((Ok(start), Ok(end))) = range.map(|(start, end)| (number(start), number(end))) {
            is_here = (start..end).contains(&address);
        } else if let (true, Some(flags)) = (is_here, line.strip_prefix("VmFlags:")) {
            return flags.into();
        }
    }
    panic!("{address:#x} lies in no mapping");
}

#[test]
fn the_system_fills_in_nothing_of_what_was_given_back() {
    let _alone = ALONE.lock();
    if read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_err() {
        return println!("this system has no huge pages of its own accord: nothing to look at");
    }
    // One page of each huge frame stays in use.
    let (kept, freed): (Vec<_>, Vec<_>) = touched(48 * MIB / PAGE, PAGE)
        .into_iter()
        .partition(|block| block.as_ptr().addr() % HUGE == HUGE / 2);
    assert!(kept.len() > 20);
    free_all(freed);
    trim(0);
    let are_avoided = kept
        .iter()
        .filter(|block| flags(block.as_ptr().addr()).split_whitespace().any(|flag| flag == "nh"));
    assert_eq!(are_avoided.count(), kept.len(), "the system may fill in what was given back");
    free_all(kept);
    trim(0);
}

#[test]
fn a_page_that_is_locked_keeps_no_others_from_going_back() {
    let _alone = ALONE.lock();
    let spans = touched(60, MIB);
    let highest = spans.iter().max().expect("there are some").as_ptr();
    // SAFETY: the page lies in a block.
    if unsafe { libc::mlock(highest.cast(), PAGE) } != 0 {
        free_all(spans);
        return println!("memory may not be locked: left out");
    }
    let before = resident();
    free_all(spans);
    trim(0);
    let left = before - resident().min(before);
    // SAFETY: the addresses are the heap's for ever.
    unsafe { libc::munlock(highest.cast(), PAGE) };
    assert!(left > 40 * MIB, "{left} bytes went back");
    trim(0);
}
