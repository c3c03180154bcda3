//! Two nodes of a few pages, and the CPUs of all threads.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;

use shuttle::thread;
use woodlot_frame::atomics::{AtomicU32, Ordering};
use woodlot_kmem::{
    Build, Cpus, Descriptor, Guarded, Hooks, Kind, Kmem, Misuse, NoPages, Nodes, Octaves, PAGE,
    PageId, Pages,
};

use crate::defect::Defect;

/// CPUs that have caches. There is one more, which has none.
pub const CPUS: usize = 2;
/// Nodes, each with a pool.
pub const NODES: usize = 2;

/// Where a thread is.
#[derive(Clone, Copy)]
struct Seat {
    cpu: usize,
    /// How many `enter` have no `leave` yet.
    depth: usize,
}

shuttle::thread_local! {
    static SEAT: Cell<Seat> = Cell::new(Seat { cpu: 0, depth: 0 });
}

/// The thread runs on this CPU from now on.
pub fn sit(cpu: usize) {
    SEAT.with(|seat| seat.set(Seat { cpu, depth: 0 }));
}

/// CPUs, each of which is kept to one caller between `enter` and `leave`: 1, and 0 otherwise.
pub struct Seats {
    taken: [AtomicU32; CPUS],
    defect: Defect,
}

impl Seats {
    fn new(defect: Defect) -> Seats {
        Seats { taken: std::array::from_fn(|_| AtomicU32::new(0)), defect }
    }
}

// SAFETY: the word of a CPU is 1 from the first `enter` to the last `leave`, and a thread stays where it is meanwhile.
unsafe impl Cpus for Seats {
    type State = ();

    fn enter(&self) -> (usize, ()) {
        let Seat { mut cpu, depth } = SEAT.with(Cell::get);
        if depth == 0 {
            // A thread may be moved whenever nothing keeps its CPU.
            if shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 0..8) == 0 {
                cpu = (cpu + 1) % (CPUS + 1);
            }
            if let Some(taken) = self.taken.get(cpu) {
                let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
                while taken.compare_exchange(0, 1, acquire, relaxed).is_err()
                    && self.defect != Defect::CpusAreNotKept
                {
                    thread::yield_now();
                }
            }
        }
        SEAT.with(|seat| seat.set(Seat { cpu, depth: depth + 1 }));
        (cpu, ())
    }

    fn leave(&self, (): ()) {
        let Seat { cpu, depth } = SEAT.with(Cell::get);
        SEAT.with(|seat| seat.set(Seat { cpu, depth: depth - 1 }));
        if depth == 1
            && let Some(taken) = self.taken.get(cpu)
        {
            taken.store(0, Ordering::Release);
        }
    }

    /// The caller does it itself, in the other one's place.
    fn call(&self, cpu: usize, call: &mut (dyn FnMut() + Send)) -> bool {
        let Some(taken) = self.taken.get(cpu) else { return false };
        assert_eq!(SEAT.with(Cell::get).depth, 0, "a call from a CPU that is kept");
        while taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
            && self.defect != Defect::CallsDoNotWait
        {
            thread::yield_now();
        }
        call();
        taken.store(0, Ordering::Release);
        true
    }

    fn wait(&self, _: usize) {
        thread::yield_now();
    }
}

/// A few pages of a node. A bit of `used` for each.
pub struct Few {
    memory: NonNull<u8>,
    descriptors: Box<[Descriptor]>,
    used: AtomicU32,
    defect: Defect,
}

// SAFETY: a page is one caller's, as `used` says.
unsafe impl Sync for Few {}
// SAFETY: as above.
unsafe impl Send for Few {}

impl Few {
    fn new(pages: usize, defect: Defect) -> Few {
        assert!(0 < pages && pages < 32);
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout(pages)) }).expect("memory");
        memory.as_ptr().expose_provenance();
        let descriptors = (0..pages).map(|_| Descriptor::default()).collect();
        Few { memory, descriptors, used: AtomicU32::new(0), defect }
    }

    /// Is everything free, and nothing known of any page?
    pub fn is_whole(&self) -> bool {
        let is_clear = self.descriptors.iter().all(|page| page.kind() == Kind::None);
        self.used.load(Ordering::Relaxed) == 0 && is_clear
    }
}

fn layout(pages: usize) -> Layout {
    Layout::from_size_align(pages * PAGE, PAGE).expect("a size")
}

impl Drop for Few {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), layout(self.descriptors.len())) };
    }
}

fn bits(first: usize, count: usize) -> u32 {
    ((1 << count) - 1) << first
}

// SAFETY: pages are handed out by a compare-exchange that sets their bits, which were not set.
unsafe impl Pages for Few {
    fn alloc(&self, count: usize, align: usize, _: usize) -> Result<PageId, NoPages> {
        let mut used = self.used.load(Ordering::Acquire);
        loop {
            let firsts =
                (0..(self.descriptors.len() + 1).saturating_sub(count)).step_by(align / PAGE);
            let first = firsts.into_iter().find(|&first| used & bits(first, count) == 0);
            let first = first.ok_or(NoPages)?;
            let taken = used | bits(first, count);
            match self.used.compare_exchange(used, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(PageId(first as u32)),
                Err(_) if self.defect == Defect::PagesAreLost => {
                    used = self.used.fetch_or(bits(first, 1), Ordering::AcqRel);
                }
                Err(now) => used = now,
            }
        }
    }

    unsafe fn free(&self, first: PageId, count: usize, _: usize) {
        let bits = bits(first.0 as usize, count);
        let before = self.used.fetch_and(!bits, Ordering::AcqRel);
        assert_eq!(before & bits, bits, "pages are freed that nobody has");
    }

    fn address(&self, page: PageId) -> NonNull<u8> {
        // SAFETY: there is such a page.
        unsafe { self.memory.add(page.0 as usize * PAGE) }
    }

    fn find(&self, address: *mut u8) -> Option<(PageId, usize)> {
        let offset = address.addr().wrapping_sub(self.memory.addr().get());
        (offset < self.descriptors.len() * PAGE)
            .then_some((PageId((offset / PAGE) as u32), offset % PAGE))
    }

    fn descriptor(&self, page: PageId) -> &Descriptor {
        &self.descriptors[page.0 as usize]
    }
}

/// Nobody frees wrongly.
pub struct Right;

impl Hooks for Right {
    fn misuse(&self, misuse: Misuse) {
        panic!("{misuse}");
    }
}

/// The caches of the CPUs.
pub type Caches = Guarded<Seats, CPUS>;
/// The pools.
pub type Pools = Nodes<Kmem<Caches, Few, Octaves, Right>, NODES>;

/// Pools of so many pages each.
pub fn pools(pages: [usize; NODES], defect: Defect) -> Pools {
    Nodes::new(pages.map(|pages| Kmem::new(caches(defect), Few::new(pages, defect), Right)))
}

/// Empty caches.
pub fn caches(defect: Defect) -> Caches {
    Guarded::new(Seats::new(defect))
}

/// What is made once is what lies behind the first 16 bytes.
#[repr(C)]
pub struct Object {
    pub lists: [u64; 2],
    made_as: u64,
}

/// Makes objects of blocks of the pools; a kind for each node.
pub struct Maker<'a> {
    pub pools: &'a Pools,
    /// How many there are.
    pub there: AtomicU32,
}

const BYTES: usize = 700;

impl Maker<'_> {
    /// The object is as it was made.
    pub fn check(&self, kind: usize, object: NonNull<Object>) {
        // SAFETY: the object is the caller's.
        let made_as = unsafe { object.as_ref().made_as };
        let right = object.addr().get() as u64 ^ kind as u64;
        assert_eq!(made_as, right, "an object is not as it was made");
    }
}

// SAFETY: an object is a block of a pool, until it is unmade.
unsafe impl Build for Maker<'_> {
    type Object = Object;
    const KINDS: usize = NODES;
    const TARGET: usize = 2;

    fn make(&self, kind: usize) -> Option<NonNull<Object>> {
        let object = self.pools.alloc(BYTES, kind)?.cast::<Object>();
        let made_as = object.addr().get() as u64 ^ kind as u64;
        // SAFETY: the block was just allocated, and is large enough.
        unsafe { object.write(Object { lists: [0; 2], made_as }) };
        self.there.fetch_add(1, Ordering::Relaxed);
        Some(object)
    }

    unsafe fn unmake(&self, kind: usize, object: NonNull<Object>) {
        self.check(kind, object);
        self.there.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: it was allocated with this size, and is on no list.
        unsafe { self.pools.free(object.cast(), BYTES) };
    }
}
