//! The heap, looked at as another process would, beside what it says of itself.

use std::env;
use std::process::Command;
use std::ptr::NonNull;
use std::thread;

use woodlot_malloc::outside::{Blocks, Caches, SizeSnapshot, Snapshot, look_here};
use woodlot_malloc::{alloc, free, is_restartable, stats, trim};

/// Are calls of the caches counted?
const COUNTED: bool = cfg!(feature = "counted");

/// What has glibc not register restartable sequences.
const WITHOUT: &str = "glibc.pthread.rseq=0";

fn look() -> Snapshot {
    look_here().expect("a process may look at itself")
}

/// The size for blocks of so many bytes.
fn size_of(bytes: usize) -> SizeSnapshot {
    let heap = look();
    let size = heap.sizes().iter().find(|size| size.bytes >= bytes);
    *size.expect("a size")
}

/// Each size as the heap says it under its locks. The test's own heap is another one, so nothing changes meanwhile.
fn judge() {
    for (at, seen) in look().sizes().iter().enumerate() {
        let told = stats(at).expect("a size");
        assert_eq!((seen.bytes, seen.target), (told.bytes, told.target));
        assert_eq!((seen.global_blocks, seen.pages), (told.global_blocks, told.pages));
        assert_eq!(seen.slab_free, told.coalesce.free);
        assert_eq!(
            [seen.slabs_made, seen.slabs_freed],
            [told.coalesce.splits, told.coalesce.coalesces]
        );
        let (cpu, global) = (seen.cpu, seen.global);
        assert_eq!(cpu.allocs, told.cpu.map(|cpu| cpu.pops));
        assert_eq!(cpu.frees, told.cpu.map(|cpu| cpu.pushes));
        assert_eq!((global.allocs, global.frees), (Some(cpu.alloc_misses), Some(cpu.free_misses)));
        assert!(global.alloc_hits() <= global.allocs && global.free_hits() <= global.frees);
        let slabs = seen.coalesce();
        assert_eq!(
            (slabs.allocs, slabs.alloc_misses),
            (Some(global.alloc_misses), seen.slabs_made)
        );
        assert_eq!([cpu.alloc_misses, cpu.free_misses], [told.global.takes, told.global.puts]);
        assert_eq!(
            [global.alloc_misses, global.free_misses],
            [told.global.take_misses, told.global.put_misses]
        );
        let blocks = seen.in_use + seen.cached + seen.global_blocks + seen.slab_free;
        assert_eq!(blocks * seen.bytes + seen.cut_off, seen.pages * 4096, "{seen:?}");
    }
    assert_eq!(look().sizes().len(), 41);
}

fn blocks(bytes: usize, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| alloc(bytes).expect("memory")).collect()
}

fn free_all(blocks: Vec<NonNull<u8>>) {
    // SAFETY: each was allocated here, and is used no more.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
}

/// Blocks of 100 bytes were allocated so often, and none was freed: each layer's hits, in words.
fn words(count: u64) {
    let (size, text, json) = (size_of(100), look().to_string(), look().json().to_string());
    assert_eq!(size.cpu.allocs, COUNTED.then_some(count));
    let hits = size.cpu.alloc_hits();
    assert_eq!(hits, COUNTED.then(|| count - size.cpu.alloc_misses));
    assert!(!COUNTED || hits > Some(count * 9 / 10), "{size:?}");
    let table = text.split("hits of caches").nth(1).expect("a table of hits");
    let mut row = table
        .lines()
        .find(|line| line.starts_with("    112 "))
        .expect("a row")
        .split_ascii_whitespace();
    let said = hits.map_or("–".into(), |hits| hits.to_string());
    assert_eq!(row.nth(1), Some(said.as_str()), "{text}");
    let percent = 100.0 * hits.unwrap_or_default() as f64 / count as f64;
    assert_eq!(row.next(), Some(&*if COUNTED { format!("{percent:.2}") } else { "–".into() }));
    assert_eq!(text.contains("–: not counted"), !COUNTED, "{text}");
    let size_in_json =
        json.split("{\"bytes\":").find(|size| size.starts_with("112,")).expect("a size");
    let number = hits.map_or("null".into(), |hits| hits.to_string());
    let free = if COUNTED { "0" } else { "null" };
    let [lists, missed, slabs] = [size.cpu.alloc_misses, size.global.alloc_misses, size.slabs_made];
    let global = lists - missed;
    assert!(missed > 0, "the first blocks came from a slab: {size:?}");
    for part in [
        format!("\"cpu_hits\":{{\"alloc\":{number},\"free\":{free}}}"),
        format!("\"global_hits\":{{\"alloc\":{global},\"free\":0}}"),
        format!("\"slab_hits\":{{\"alloc\":{},", missed.saturating_sub(slabs)),
    ] {
        assert!(size_in_json.contains(&part), "{part}: {size_in_json}");
    }
}

#[test]
fn a_look_sees_what_the_heap_says() {
    assert_eq!(look().caches, Caches::None, "nobody has allocated");
    let held = blocks(100, 1000);
    assert_eq!(look().caches, if is_restartable() { Caches::Cpus } else { Caches::Threads });
    assert_eq!(size_of(100).in_use, 1000);
    judge();
    words(1000);
    // Another thread's cache is seen too, while it lives.
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            free_all(blocks(200, 50));
            let size = size_of(200);
            assert_eq!(size.in_use, 0);
            assert!(size.cached >= 50, "{size:?}");
        });
        thread.join().expect("the thread");
    });
    judge();
    let spans = [33_000, 100_000, 4 << 20].map(|bytes| alloc(bytes).expect("memory"));
    let pages = (9 + 25 + 1024) * 4096;
    assert_eq!(look().spans, Blocks { count: 3, bytes: pages });
    let large = [(4 << 20) + 1, 9 << 20].map(|bytes| alloc(bytes).expect("memory"));
    assert_eq!(look().large, Blocks { count: 2, bytes: (13 << 20) + 4096 });
    let used: usize = look().sizes().iter().map(|size| size.pages * 4096).sum();
    assert!(look().resident >= used + pages && look().resident <= look().open);
    assert_eq!(look().free_pages(), look().resident - used - pages);
    let resident = look().resident;
    free_all(held);
    free_all(spans.into());
    assert_eq!(look().resident, resident, "what is free for a moment stays");
    free_all(large.into());
    assert_eq!((size_of(100).in_use, look().spans.count, look().large.count), (0, 0, 0));
    assert!(size_of(100).cached > 0 && size_of(100).cpu.free_misses > 0);
    judge();
    trim(0);
    judge();
    assert!(look().sizes().iter().all(|size| size.pages == 0), "all was flushed");
    assert_eq!((look().resident, look().free_pages()), (0, 0), "all was given back");
    if env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables == WITHOUT) {
        return assert!(!is_restartable(), "it was to run without");
    }
    let test = env::current_exe().expect("this test");
    let status = Command::new(test).env("GLIBC_TUNABLES", WITHOUT).status().expect("it runs");
    assert!(status.success(), "without restartable sequences");
}
