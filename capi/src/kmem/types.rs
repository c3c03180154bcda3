//! The structures of `woodlot_kmem.h`, field for field.

use core::ffi::{c_int, c_void};

use woodlot_kmem::{Seen, SizeStats};

use crate::error::Error;
use crate::memory::check;
use crate::zone::Zone;

/// Keeps the CPU to the caller: writes what `leave` gets, and returns the CPU's number.
pub type Enter = unsafe extern "C" fn(context: *mut c_void, state: *mut usize) -> usize;
/// Ends that.
pub type Leave = unsafe extern "C" fn(context: *mut c_void, state: usize);
/// What another CPU is to do.
pub type Called = unsafe extern "C" fn(argument: *mut c_void);
/// Has another CPU do it; 0, if that is not possible.
pub type Call = unsafe extern "C" fn(*mut c_void, usize, Option<Called>, *mut c_void) -> c_int;
/// Hears of a wrong free.
pub type OnMisuse = unsafe extern "C" fn(context: *mut c_void, kind: u32, block: *mut c_void);
/// Hears of memory that is short; not 0, if it has freed some.
pub type Reclaim = unsafe extern "C" fn(context: *mut c_void, pages: usize) -> c_int;
/// Makes an object; null, if there is no memory.
pub type Make = unsafe extern "C" fn(context: *mut c_void) -> *mut c_void;
/// Takes an object apart.
pub type Unmake = unsafe extern "C" fn(context: *mut c_void, object: *mut c_void);

/// `struct woodlot_kmem_cpus`: the CPUs, and how one is kept to its caller.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemCpus {
    /// How many have caches.
    pub cpus: usize,
    /// What each function gets.
    pub context: *mut c_void,
    /// Keeps the CPU to the caller.
    pub enter: Option<Enter>,
    /// Ends that.
    pub leave: Option<Leave>,
    /// Null: other CPUs cannot be reached.
    pub call: Option<Call>,
}

/// `struct woodlot_kmem_config`: an allocator that is to be made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemConfig {
    /// Where frames come from.
    pub zone: *const Zone,
    /// Where the zone's first frame lies.
    pub base: *mut c_void,
    /// The CPUs.
    pub cpus: KmemCpus,
    /// Null: nobody hears of wrong frees.
    pub misuse: Option<OnMisuse>,
    /// Null: there is nothing to reclaim.
    pub reclaim: Option<Reclaim>,
}

/// `struct woodlot_kmem_sizes`: how much memory an allocator needs beside its handle.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemSizes {
    /// Bytes of the caches.
    pub caches_size: usize,
    /// Bytes of the page descriptors.
    pub descriptors_size: usize,
}

/// `struct woodlot_kmem_memory`: the memory for it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemMemory {
    /// The caches.
    pub caches_start: *mut c_void,
    /// Their bytes.
    pub caches_size: usize,
    /// The page descriptors.
    pub descriptors_start: *mut c_void,
    /// Their bytes.
    pub descriptors_size: usize,
}

/// `struct woodlot_kmem_cookie`: a size that was looked up.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemCookie {
    /// The number of the size.
    pub number: u32,
    /// 0 or an error number.
    pub error: c_int,
}

/// `WOODLOT_KMEM_SEEN`.
pub const SEEN: usize = 64;

/// `struct woodlot_kmem_seen`: what a clock has seen.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemSeen {
    /// Of each size, and some more.
    pub signs: [u64; SEEN],
}

const _: () = assert!(size_of::<Seen>() <= size_of::<KmemSeen>());
const _: () = assert!(align_of::<Seen>() == align_of::<KmemSeen>());

impl KmemSeen {
    /// What `pointer` leads to.
    ///
    /// # Errors
    /// [`Error::Null`] or [`Error::Unaligned`].
    ///
    /// # Safety
    /// Unless it is null or misaligned, the pointer leads to an initialised structure, which nobody else uses for `'a`.
    pub(crate) unsafe fn at<'a>(pointer: *mut KmemSeen) -> Result<&'a mut Seen, Error> {
        check(pointer)?;
        // SAFETY: it is neither null nor misaligned, the rest is the caller's promise. `Seen` is an array of such numbers, and not longer.
        Ok(unsafe { &mut *pointer.cast::<Seen>() })
    }
}

/// `WOODLOT_KMEM_NOT_COUNTED`.
pub const NOT_COUNTED: u64 = u64::MAX;

/// `struct woodlot_kmem_stats`: what a size has, and what its layers have done.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KmemStats {
    /// Bytes of a block.
    pub bytes: usize,
    /// Blocks of a full list.
    pub target: usize,
    /// Lists that come from slabs, or go there, at a time.
    pub lists: usize,
    /// Pages of slabs.
    pub pages: usize,
    /// Free blocks in the global layer.
    pub global_blocks: usize,
    /// Free blocks in slabs.
    pub slab_blocks: usize,
    /// Blocks that CPUs asked their caches for, or [`NOT_COUNTED`].
    pub allocs: u64,
    /// Blocks that they gave them, or the same.
    pub frees: u64,
    /// Lists that CPUs asked for.
    pub takes: u64,
    /// Times that there was none.
    pub take_misses: u64,
    /// Lists that came from CPUs.
    pub puts: u64,
    /// Times that there were too many.
    pub put_misses: u64,
    /// Slabs made.
    pub slabs_made: u64,
    /// Slabs freed.
    pub slabs_freed: u64,
}

impl From<SizeStats> for KmemStats {
    fn from(stats: SizeStats) -> KmemStats {
        let SizeStats { bytes, target, cpu, global, global_blocks, coalesce, pages, lists } = stats;
        KmemStats {
            bytes,
            target,
            lists,
            pages,
            global_blocks,
            slab_blocks: coalesce.free,
            allocs: cpu.map_or(NOT_COUNTED, |cpu| cpu.pops),
            frees: cpu.map_or(NOT_COUNTED, |cpu| cpu.pushes),
            takes: global.takes,
            take_misses: global.take_misses,
            puts: global.puts,
            put_misses: global.put_misses,
            slabs_made: coalesce.splits,
            slabs_freed: coalesce.coalesces,
        }
    }
}

/// `struct woodlot_objects_config`: a cache of objects that is to be made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsConfig {
    /// The CPUs.
    pub cpus: KmemCpus,
    /// Makes an object.
    pub make: Option<Make>,
    /// Takes one apart.
    pub unmake: Option<Unmake>,
}
