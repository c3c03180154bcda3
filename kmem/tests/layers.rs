//! Every layer under random calls, judged by a naive model.

mod common;
#[cfg(target_os = "linux")]
#[path = "common/space.rs"]
mod space;

use std::collections::BTreeMap;
use std::ptr::NonNull;

use woodlot_frame::FrameAllocator;
use woodlot_kmem::{Guarded, Kmem, Octaves, Pages, Quarters, Sizes};

use common::{Memory, Threads, run_on};

/// Blocks in use, by address, with their bytes and alignment and what they are filled with.
#[derive(Default)]
struct Model(BTreeMap<usize, ((usize, usize), u8)>);

impl Model {
    fn add(&mut self, block: NonNull<u8>, layout: (usize, usize), fill: u8) {
        let (bytes, _) = layout;
        let start = block.as_ptr().addr();
        let before = self.0.range(..start + bytes).next_back();
        assert!(
            before.is_none_or(|(&at, &((len, _), _))| at + len <= start),
            "{start:#x} is in use already"
        );
        // SAFETY: the block was just allocated.
        unsafe { block.write_bytes(fill, bytes) };
        self.0.insert(start, (layout, fill));
    }

    fn remove(&mut self, at: usize) -> (NonNull<u8>, (usize, usize)) {
        let (&start, &((bytes, align), fill)) = self.0.iter().nth(at).expect("there are more");
        self.0.remove(&start);
        let block = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(start));
        let block = block.expect("not null");
        // SAFETY: the block is in use.
        let bytes_of = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
        assert!(bytes_of.iter().all(|&byte| byte == fill), "{start:#x} was written to");
        (block, (bytes, align))
    }
}

fn random_calls<S: Sizes>(pages: &impl Pages, seed: u64) {
    let kmem: Kmem<_, _, S> = Kmem::new(Guarded::<_, 2>::new(Threads), pages, ());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::default();
    for call in 0..20_000 {
        run_on(random.usize(..2));
        if random.usize(..1000) < 600 - model.0.len().min(400) {
            let bytes = 1 << random.usize(..15);
            let bytes = random.usize(bytes / 2..=bytes);
            let align = 1 << random.usize(..14);
            let Some(block) = kmem.alloc_aligned(bytes, align) else {
                panic!("seed {seed}, call {call}: no {bytes} bytes")
            };
            assert_eq!(block.as_ptr().addr() % align, 0, "seed {seed}, call {call}");
            assert!(kmem.usable(block).is_some_and(|usable| usable >= bytes));
            model.add(block, (bytes, align), call as u8);
        } else if !model.0.is_empty() {
            let (block, (bytes, align)) = model.remove(random.usize(..model.0.len()));
            // SAFETY: the model has given it up.
            unsafe {
                match random.bool() {
                    true => kmem.free_any(block),
                    false => kmem.free_aligned(block, bytes, align),
                }
            }
        }
    }
    while !model.0.is_empty() {
        // SAFETY: as above.
        unsafe { kmem.free_any(model.remove(0).0) };
    }
    kmem.flush();
    // The flush reaches this CPU only: the other one flushes itself.
    for cpu in 0..2 {
        run_on(cpu);
        kmem.flush();
    }
}

/// With the frames of a zone, where they lie.
fn direct<S: Sizes>(seed: u64) {
    let memory = Memory::new(4096, 2);
    random_calls::<S>(&memory.pages(), seed);
    assert_eq!(memory.zone.stats().free_huge, 8, "seed {seed}");
}

#[test]
fn octaves() {
    (0..8).for_each(direct::<Octaves>);
}

#[test]
fn quarters() {
    (0..8).for_each(direct::<Quarters>);
}

/// With addresses to which the frames of a zone are mapped.
#[test]
#[cfg(target_os = "linux")]
fn mapped() {
    let memory = Memory::new(4096, 2);
    let space = space::Space::new(5, 4096);
    let dope = space::dope(5);
    for seed in 0..2 {
        // SAFETY: the addresses and the frames are this test's.
        let pages =
            unsafe { woodlot_kmem::Vmblks::new(&*memory.zone, &space, space.start(), &dope) };
        let pages = pages.expect("it fits");
        random_calls::<Quarters>(&pages, seed);
        pages.validate().expect("it is whole");
        assert_eq!((space.mapped(), pages.stats().pages), (0, 0), "seed {seed}");
        assert_eq!(memory.zone.stats().free_huge, 8, "seed {seed}");
    }
}
