//! Objects that stay constructed while they are free.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;

use woodlot_kmem::{Build, Direct, Kmem, Objects, Quarters, Seen};

use crate::cpus::{Caches, caches, run_on, wander};
use crate::memory::Memory;
use crate::{LLFree, calls};

type Heap<'a> = Kmem<Caches<2>, Direct<'a, LLFree>, Quarters>;
type Cache<'a> = Objects<Caches<2>, Numbers<'a>>;

/// What is made once is what lies behind the first 16 bytes.
#[repr(C)]
struct Object {
    lists: [u64; 2],
    kind: usize,
    number: u64,
}

/// Bytes of the objects of each kind.
const BYTES: [usize; 3] = [32, 100, 5000];

/// Makes objects with a number each, and knows which there are.
struct Numbers<'a> {
    heap: &'a Heap<'a>,
    /// By address: the numbers of those that there are; and how many were made.
    made: Mutex<(BTreeMap<usize, u64>, u64)>,
}

// SAFETY: an object is a block of the heap, until it is unmade.
unsafe impl Build for Numbers<'_> {
    type Object = Object;
    const KINDS: usize = BYTES.len();
    const TARGET: usize = 10;

    fn make(&self, kind: usize) -> Option<NonNull<Object>> {
        let object = self.heap.alloc(BYTES[kind])?.cast::<Object>();
        let (there, number) = &mut *self.made.lock().expect("no test has failed");
        *number += 1;
        assert_eq!(there.insert(object.as_ptr().addr(), *number), None, "it is made once");
        // SAFETY: the block was just allocated, and is large enough.
        unsafe { object.write(Object { lists: [0; 2], kind, number: *number }) };
        Some(object)
    }

    unsafe fn unmake(&self, kind: usize, object: NonNull<Object>) {
        self.check(kind, object);
        self.made.lock().expect("no test has failed").0.remove(&object.as_ptr().addr());
        // SAFETY: it was allocated with this size, and is on no list.
        unsafe { self.heap.free(object.cast(), BYTES[kind]) };
    }
}

impl Numbers<'_> {
    /// The object is as it was made.
    fn check(&self, kind: usize, object: NonNull<Object>) {
        // SAFETY: the object is in the hands of the caller.
        let &Object { kind: is, number, .. } = unsafe { object.as_ref() };
        let made = self.made.lock().expect("no test has failed");
        let there = made.0.get(&object.as_ptr().addr());
        assert_eq!((is, Some(&number)), (kind, there), "{object:p} is not as it was made");
    }

    fn there(&self) -> usize {
        self.made.lock().expect("no test has failed").0.len()
    }
}

fn cache<'a>(heap: &'a Heap<'a>) -> Cache<'a> {
    Objects::new(caches::<2>(), Numbers { heap, made: Mutex::default() })
}

fn random_calls(seed: u64) {
    let memory = Memory::new(2048, 2);
    let heap = Heap::new(caches::<2>(), memory.pages(), ());
    let objects = cache(&heap);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut used: Vec<(usize, NonNull<Object>)> = Vec::new();
    wander(2, seed);
    for _ in 0..calls(4000) {
        if random.usize(..200) == 0 {
            assert!(objects.flush_cpu(random.usize(..2)));
        }
        if random.usize(..400) < 300 - used.len().min(200) {
            let kind = random.usize(..BYTES.len());
            let mut object = objects.alloc(kind).expect("there is memory");
            objects.builder().check(kind, object);
            assert!(used.iter().all(|&(_, other)| other != object), "seed {seed}: in use");
            // SAFETY: the object is this caller's.
            unsafe { object.as_mut().lists = [random.u64(..), random.u64(..)] };
            used.push((kind, object));
        } else if !used.is_empty() {
            let (kind, object) = used.swap_remove(random.usize(..used.len()));
            objects.builder().check(kind, object);
            // SAFETY: it was handed out for this kind, and is used no more.
            unsafe { objects.free(kind, object) };
        }
    }
    // SAFETY: as above.
    used.into_iter().for_each(|(kind, object)| unsafe { objects.free(kind, object) });
    let there = objects.builder().there();
    assert!(there > 0, "seed {seed}: objects stay");
    objects.flush();
    heap.flush();
    assert_eq!(objects.builder().there(), 0, "seed {seed}");
    assert!(memory.is_whole(), "seed {seed}");
}

#[test]
fn random() {
    (0..4).for_each(random_calls);
}

#[test]
fn free_objects_are_not_made_anew() {
    let memory = Memory::new(1024, 2);
    let heap = Heap::new(caches::<2>(), memory.pages(), ());
    // Made in its place, as a kernel does.
    let mut place = Box::new_uninit();
    let objects =
        Objects::init(&mut *place, caches::<2>(), Numbers { heap: &heap, made: Mutex::default() });
    run_on(0);
    for _ in 0..calls(1000) {
        let object = objects.alloc(1).expect("there is memory");
        // SAFETY: it was handed out for this kind, and is used no more.
        unsafe { objects.free(1, object) };
    }
    assert_eq!(objects.builder().there(), 10, "a list was made, once");
    let used: Vec<_> = (0..15).map(|_| objects.alloc(1).expect("there is memory")).collect();
    assert_eq!(objects.builder().there(), 20, "a list was made at a time");
    // SAFETY: as above.
    used.into_iter().for_each(|object| unsafe { objects.free(1, object) });
    assert_eq!(objects.alloc(BYTES.len()), None, "there is no such kind");
}

/// Takes all objects of a kind that there is memory for.
fn all(objects: &Cache<'_>, kind: usize) -> Vec<NonNull<Object>> {
    std::iter::from_fn(|| objects.alloc(kind)).collect()
}

#[test]
fn memory_of_free_objects_is_found_for_others() {
    let memory = Memory::new(256, 1);
    let heap = Heap::new(caches::<2>(), memory.pages(), ());
    let objects = cache(&heap);
    run_on(0);
    let mut before = None;
    for kind in [0, 2, 1, 0] {
        let used = all(&objects, kind);
        assert!(kind != 0 || *before.get_or_insert(used.len()) == used.len(), "as many as before");
        let bytes = used.len() * BYTES[kind];
        assert!(bytes * 2 > 256 * 4096, "kind {kind}: {bytes} bytes are not most of memory");
        // SAFETY: they were handed out for this kind, and are used no more.
        used.into_iter().for_each(|object| unsafe { objects.free(kind, object) });
    }
}

/// By a clock: what nobody asks for goes from the CPU to the global layer, and is unmade there; what is in use stays made.
#[test]
fn objects_that_nobody_uses_are_unmade() {
    let memory = Memory::new(1024, 2);
    let heap = Heap::new(caches::<2>(), memory.pages(), ());
    let objects = cache(&heap);
    let (mut caches, mut global) = (Seen::new(), Seen::new());
    run_on(0);
    let used = [0, 1].map(|kind| objects.alloc(kind).expect("there is memory"));
    assert_eq!(objects.builder().there(), 20, "a list of each kind was made");
    let mut tick = || {
        assert!(objects.flush_unused(0, &mut caches));
        objects.flush_unused_global(&mut global);
        objects.builder().there()
    };
    assert_eq!([tick(), tick()], [20; 2], "it was used a moment ago");
    assert_eq!(tick(), 2, "what nobody uses is made");
    for (kind, object) in used.into_iter().enumerate() {
        objects.builder().check(kind, object);
        // SAFETY: it was handed out for this kind, and is used no more.
        unsafe { objects.free(kind, object) };
    }
}
