//! The kernel memory allocator through the C interface, against a naive model: blocks of any kind on several threads, each
//! of which is a CPU.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use woodlot_capi::kmem::types::*;
use woodlot_capi::kmem::*;
use woodlot_capi::types::{Config, Metadata, MetadataSizes};
use woodlot_capi::{Zone, woodlot_free_frames, woodlot_init, woodlot_metadata_size};

const START: usize = 77;
const FRAMES: usize = 16_384;
/// Blocks are aligned to at most 2^13 bytes.
const MAX_ALIGN: usize = 13;
const CPUS: usize = 3;
const PAGE: usize = 4096;

thread_local! {
    /// The CPU that this thread is.
    static CPU: Cell<usize> = const { Cell::new(0) };
    static ENTERED: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" fn enter(context: *mut c_void, state: *mut usize) -> usize {
    assert!(context.is_null());
    ENTERED.set(ENTERED.get() + 1);
    // SAFETY: the allocator has a place for it.
    unsafe { state.write(ENTERED.get()) };
    CPU.get()
}

unsafe extern "C" fn leave(_: *mut c_void, state: usize) {
    assert_eq!(state, ENTERED.get(), "calls are nested");
    ENTERED.set(state - 1);
}

static MISUSES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Are wrong calls of this thread meant to be?
    static MEANT: Cell<bool> = const { Cell::new(false) };
    /// What it has heard of last: which kind, and where.
    static HEARD: Cell<(u32, *mut c_void)> = const { Cell::new((0, ptr::null_mut())) };
}

unsafe extern "C" fn misuse(_: *mut c_void, kind: u32, block: *mut c_void) {
    HEARD.set((kind, block));
    MISUSES.fetch_add(u64::from(!MEANT.get()), Ordering::Relaxed);
}

/// Memory that stays.
fn memory(bytes: usize, align: usize) -> *mut c_void {
    let layout = Layout::from_size_align(bytes, align).expect("a layout");
    // SAFETY: it has bytes.
    let start = unsafe { alloc_zeroed(layout) };
    assert!(!start.is_null());
    start.cast()
}

/// An allocator over a zone of its own.
struct Made {
    zone: *const Zone,
    kmem: *const KmemHandle,
}

// SAFETY: both may be called from any thread.
unsafe impl Sync for Made {}

fn make(engine: u32) -> Made {
    let config = Config {
        start: START,
        frames: FRAMES,
        slots: CPUS,
        engine,
        geometry: 0,
        classes: ptr::null(),
    };
    let zone = memory(size_of::<Zone>(), align_of::<Zone>()).cast::<Zone>();
    let mut need = MetadataSizes { durable_size: 0, volatile_size: 0 };
    let cpus = KmemCpus {
        cpus: CPUS,
        context: ptr::null_mut(),
        enter: Some(enter),
        leave: Some(leave),
        call: None,
    };
    // No block is more aligned than the address of frame 0 is.
    let zero = memory((START + FRAMES) * PAGE, 1 << MAX_ALIGN);
    let base = zero.wrapping_byte_add(START * PAGE);
    let config_of_kmem = KmemConfig { zone, base, cpus, misuse: Some(misuse), reclaim: None };
    let kmem = memory(KMEM_SIZE, KMEM_ALIGN).cast::<KmemHandle>();
    let mut sizes = KmemSizes { caches_size: 0, descriptors_size: 0 };
    // SAFETY: all pointers lead to values of this program, or memory that stays.
    unsafe {
        assert_eq!(woodlot_metadata_size(&config, &mut need), 0);
        let metadata = Metadata {
            durable_start: memory(need.durable_size, 64),
            durable_size: need.durable_size,
            volatile_start: memory(need.volatile_size, 64),
            volatile_size: need.volatile_size,
        };
        assert_eq!(woodlot_init(zone, &config, &metadata, 0), 0);
        assert_eq!(woodlot_kmem_memory_size(&config_of_kmem, &mut sizes), 0);
        let parts = KmemMemory {
            caches_start: memory(sizes.caches_size, KMEM_ALIGN),
            caches_size: sizes.caches_size,
            descriptors_start: memory(sizes.descriptors_size, 16),
            descriptors_size: sizes.descriptors_size,
        };
        assert_eq!(woodlot_kmem_init(kmem, &config_of_kmem, &parts), 0);
    }
    Made { zone, kmem }
}

/// How a block was allocated.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sized,
    Aligned(usize),
    Cookie,
}

/// A block in use, filled with a byte.
struct Used {
    kind: Kind,
    bytes: usize,
    byte: u8,
}

fn alloc(kmem: *const KmemHandle, kind: Kind, bytes: usize) -> *mut u8 {
    // SAFETY: the handle is an allocator's.
    let block = unsafe {
        match kind {
            Kind::Sized => woodlot_kmem_alloc(kmem, bytes),
            Kind::Aligned(align) => woodlot_kmem_alloc_aligned(kmem, bytes, align),
            Kind::Cookie => woodlot_kmem_alloc_cookie(kmem, woodlot_kmem_cookie(bytes)),
        }
    };
    block.cast()
}

fn free(kmem: *const KmemHandle, block: *mut u8, used: &Used, any: bool) {
    let (block, bytes) = (block.cast::<c_void>(), used.bytes);
    // SAFETY: the block was allocated so, and is used no more.
    let said = unsafe {
        match used.kind {
            _ if any => woodlot_kmem_free_any(kmem, block),
            Kind::Sized => woodlot_kmem_free(kmem, block, bytes),
            Kind::Aligned(align) => woodlot_kmem_free_aligned(kmem, block, bytes, align),
            Kind::Cookie => woodlot_kmem_free_cookie(kmem, block, woodlot_kmem_cookie(bytes)),
        }
    };
    assert_eq!(said, 0);
}

/// Random calls of one CPU. The model is the judge: no block overlaps another one, and each keeps what was written.
fn history(kmem: *const KmemHandle, cpu: usize, steps: usize) {
    CPU.set(cpu);
    let mut random = fastrand::Rng::with_seed(cpu as u64);
    let mut model = BTreeMap::<usize, Used>::new();
    for _ in 0..steps {
        if model.len() < 400 && random.u8(..8) < 5 {
            let kind = match random.u8(..4) {
                0 => Kind::Aligned(1 << random.usize(..=MAX_ALIGN)),
                1 => Kind::Cookie,
                _ => Kind::Sized,
            };
            let most = match (kind, random.u8(..16)) {
                (Kind::Cookie, _) => 4096,
                (_, 0) => 20_000,
                _ => 600,
            };
            let bytes = random.usize(..=most);
            let block = alloc(kmem, kind, bytes);
            assert!(!block.is_null(), "there is memory for {kind:?} of {bytes}");
            let align = if let Kind::Aligned(align) = kind { align } else { 16 };
            assert_eq!(block.addr() % align.min(16 << 10), 0, "{kind:?}");
            // SAFETY: the handle is an allocator's.
            let usable = unsafe { woodlot_kmem_usable(kmem, block.cast()) };
            assert!(usable >= bytes.max(1));
            let begin = block.expose_provenance();
            if let Some((before, used)) = model.range(..begin + usable).next_back() {
                assert!(before + used.bytes.max(16) <= begin, "{kind:?} of {bytes} overlaps");
            }
            let byte = random.u8(..);
            // SAFETY: the block has so many bytes.
            unsafe { block.write_bytes(byte, bytes) };
            model.insert(begin, Used { kind, bytes, byte });
        } else if let Some(&at) = model.keys().nth(random.usize(..model.len().max(1))) {
            take(kmem, &mut model, at, random.bool());
        }
    }
    while let Some((&at, _)) = model.first_key_value() {
        take(kmem, &mut model, at, false);
    }
}

fn take(kmem: *const KmemHandle, model: &mut BTreeMap<usize, Used>, at: usize, any: bool) {
    let used = model.remove(&at).expect("it is in use");
    let block = ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: the block is in use and has so many bytes.
    let held = unsafe { std::slice::from_raw_parts(block, used.bytes) };
    assert!(held.iter().all(|&byte| byte == used.byte), "a block has changed");
    free(kmem, block, &used, any);
}

fn contract(engine: u32) {
    let made = make(engine);
    thread::scope(|scope| {
        for cpu in 0..CPUS {
            let made = &made;
            // One has no cache: its number is too large.
            scope.spawn(move || history(made.kmem, if cpu == 0 { CPUS + 5 } else { cpu }, 20_000));
        }
    });
    for cpu in 0..CPUS {
        CPU.set(cpu);
        // SAFETY: the handle is an allocator's.
        assert_eq!(unsafe { woodlot_kmem_flush(made.kmem) }, 0);
    }
    assert_eq!(ENTERED.get(), 0);
    assert_eq!(MISUSES.load(Ordering::Relaxed), 0);
    // SAFETY: the handle is a zone's.
    assert_eq!(unsafe { woodlot_free_frames(made.zone) }.count, FRAMES, "frames were lost");
    let mut stats = MaybeUninit::<KmemStats>::uninit();
    for number in 0..28 {
        // SAFETY: there is room for the answer.
        let stats = unsafe {
            assert_eq!(woodlot_kmem_size(made.kmem, number, stats.as_mut_ptr()), 0);
            stats.assume_init_ref()
        };
        assert_eq!((stats.pages, stats.global_blocks), (0, 0), "{stats:?}");
        assert!(stats.slabs_made > 0 && stats.slabs_made == stats.slabs_freed, "{stats:?}");
        assert!(stats.take_misses <= stats.takes && stats.put_misses <= stats.puts);
    }
}

/// What caches were asked for is counted with the feature, and else it is said that it was not.
#[test]
fn calls_are_counted_or_not() {
    const NOT_COUNTED: u64 = u64::MAX;
    let made = make(0);
    let mut stats = MaybeUninit::<KmemStats>::uninit();
    // SAFETY: the handle is an allocator's, each block is freed once, and there is room for the answer.
    unsafe {
        let blocks: Vec<_> = (0..1000).map(|_| woodlot_kmem_alloc(made.kmem, 64)).collect();
        for &block in &blocks[..300] {
            assert_eq!(woodlot_kmem_free(made.kmem, block, 64), 0);
        }
        let number = woodlot_kmem_cookie(64).number as usize;
        assert_eq!(woodlot_kmem_size(made.kmem, number, stats.as_mut_ptr()), 0);
        let stats = stats.assume_init();
        let calls = if cfg!(feature = "counted") { [1000, 300] } else { [NOT_COUNTED; 2] };
        assert_eq!([stats.allocs, stats.frees], calls, "{stats:?}");
        assert!(stats.takes > 0 && stats.takes <= 1000 / 64 + 1, "{stats:?}");
        for &block in &blocks[300..] {
            assert_eq!(woodlot_kmem_free(made.kmem, block, 64), 0);
        }
        assert_eq!(woodlot_kmem_flush(made.kmem), 0);
    }
}

#[test]
fn blocks_of_llfree() {
    contract(0);
}

#[test]
fn wrong_frees_of_llfree() {
    wrong_frees(0);
}

#[test]
#[cfg(feature = "nbbs")]
fn wrong_frees_of_nbbs() {
    wrong_frees(1);
}

#[test]
#[cfg(feature = "onewrite")]
fn wrong_frees_of_onewrite() {
    wrong_frees(2);
}

/// What is found at the call: with the feature all. Nothing else changes.
fn wrong_frees(engine: u32) {
    const INTERIOR: u32 = 2;
    const WRONG_SIZE: u32 = 3;
    const DOUBLE_FREE: u32 = 4;
    let made = make(engine);
    let kmem = made.kmem;
    MEANT.set(true);
    let heard = || HEARD.replace((0, ptr::null_mut()));
    // SAFETY: the handle is an allocator's. What is wrong frees nothing, and the rest is freed once.
    unsafe {
        for (bytes, other_size) in [(16, 40), (100, 40), (3000, 40), (4096, 3000)] {
            let [block, other] = [0, 1].map(|_| woodlot_kmem_alloc(kmem, bytes));
            let inside = block.wrapping_byte_add(8);
            assert_eq!(woodlot_kmem_free_any(kmem, inside), 0);
            assert_eq!(heard(), (INTERIOR, inside));
            if cfg!(feature = "checked") {
                woodlot_kmem_free(kmem, inside, bytes);
                assert_eq!(heard(), (INTERIOR, inside));
                woodlot_kmem_free(kmem, block, other_size);
                assert_eq!(heard(), (WRONG_SIZE, block));
                woodlot_kmem_free_cookie(kmem, block, woodlot_kmem_cookie(other_size));
                assert_eq!(heard(), (WRONG_SIZE, block));
            }
            assert_eq!(woodlot_kmem_free(kmem, block, bytes), 0);
            assert_eq!(heard(), (0, ptr::null_mut()));
            if cfg!(feature = "checked") || bytes >= PAGE {
                woodlot_kmem_free(kmem, block, bytes);
                assert_eq!(heard(), (DOUBLE_FREE, block));
            }
            let again = woodlot_kmem_alloc(kmem, bytes);
            assert_ne!(again, other, "a list was destroyed");
            for block in [again, other] {
                assert_eq!(woodlot_kmem_free(kmem, block, bytes), 0);
            }
        }
        assert_eq!(woodlot_kmem_flush(kmem), 0);
        assert_eq!(woodlot_free_frames(made.zone).count, FRAMES, "frames were lost");
    }
}

#[test]
#[cfg(feature = "nbbs")]
fn blocks_of_nbbs() {
    contract(1);
}

#[test]
#[cfg(feature = "onewrite")]
fn blocks_of_onewrite() {
    contract(2);
}
