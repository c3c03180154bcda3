//! Objects that stay constructed while they are free: who makes them, who has them, and who takes them apart.

use std::array;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::vec::Vec;

use woodlot_frame::atomics::{AtomicU32, Ordering};

use super::{cpu, scenarios};
use crate::models::Op::{Alloc, AllocSure, Flush, FlushCpu, Free};
use crate::models::script::Shared;
use crate::models::world::{Block, CPUS, Seats, caches, judge, sit};
use crate::models::{Scenario, std};
use crate::{Build, Guarded, Objects};

/// The most objects that there are at a time.
const MOST: usize = 4;
/// What an object counts for, where owners are judged.
const BYTES: usize = 1024;

/// An object: the word of the lists.
#[repr(align(16))]
struct Object(#[expect(dead_code, reason = "it is accessed by its address")] UnsafeCell<u64>);

/// Makes objects of places. 1: the place is an object.
struct Maker {
    places: [Object; MOST],
    made: [AtomicU32; MOST],
}

// SAFETY: an object is one caller's, as `made` says.
unsafe impl Sync for Maker {}

impl Maker {
    fn number(&self, object: NonNull<Object>) -> usize {
        let offset = object.addr().get() - self.places.as_ptr().addr();
        offset / size_of::<Object>()
    }
}

// SAFETY: a place becomes an object by a compare-exchange, and none when it is taken apart.
unsafe impl Build for Maker {
    type Object = Object;
    const KINDS: usize = 1;
    const TARGET: usize = 1;

    fn make(&self, _: usize) -> Option<NonNull<Object>> {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let make = |made: &AtomicU32| made.compare_exchange(0, 1, acquire, relaxed).is_ok();
        let number = self.made.iter().position(make)?;
        Some(NonNull::from(&self.places[number]))
    }

    unsafe fn unmake(&self, _: usize, object: NonNull<Object>) {
        let before = self.made[self.number(object)].swap(0, Ordering::Release);
        assert_eq!(before, 1, "what is no object is taken apart");
    }
}

/// What the threads share. An object stands in the place of a block.
struct World {
    objects: Objects<Guarded<Seats, CPUS>, Maker>,
    scenario: Scenario,
    blocks: Vec<Option<Block>>,
}

impl World {
    /// After a flush no place is an object.
    fn is_empty(&self) {
        self.objects.flush();
        let mut made = self.objects.builder().made.iter();
        assert!(made.all(|made| made.load(Ordering::Relaxed) == 0), "objects are lost");
    }
}

impl Shared for World {
    fn new(scenario: &Scenario) -> World {
        let maker = Maker {
            places: array::from_fn(|_| Object(UnsafeCell::new(0))),
            made: array::from_fn(|_| AtomicU32::new(0)),
        };
        let objects = Objects::new(caches(), maker);
        let mut world = World { objects, scenario: *scenario, blocks: Vec::new() };
        world.blocks = world.set_up();
        world
    }

    fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn blocks(&self) -> &[Option<Block>] {
        &self.blocks
    }

    fn alloc(&self, _: usize) -> Option<Block> {
        let object = self.objects.alloc(0)?;
        let number = self.objects.builder().number(object);
        let made = self.objects.builder().made[number].load(Ordering::Relaxed);
        assert_eq!(made, 1, "what is handed out is no object");
        Some(Block { at: number * BYTES, bytes: BYTES })
    }

    fn free(&self, block: Block) {
        let object = NonNull::from(&self.objects.builder().places[block.at / BYTES]);
        // SAFETY: it was handed out, and its owner gives it away.
        unsafe { self.objects.free(0, object) };
    }

    fn flush_cpu(&self, cpu: usize) {
        assert!(self.objects.flush_cpu(cpu));
    }

    fn flush(&self) {
        self.objects.flush();
    }

    /// All are taken apart, and all places can be objects again.
    fn settle<'b>(&self, blocks: impl Iterator<Item = &'b Block>) {
        let blocks: Vec<Block> = blocks.copied().collect();
        judge(blocks.iter());
        sit(0);
        blocks.into_iter().for_each(|block| self.free(block));
        self.is_empty();
        let all: Vec<Block> = (0..MOST).map_while(|_| self.alloc(BYTES)).collect();
        assert_eq!(all.len(), MOST, "objects are lost");
        all.into_iter().for_each(|block| self.free(block));
        self.is_empty();
    }
}

scenarios! { World;
    /// Each makes objects, and frees them; one takes all apart.
    made_and_taken_apart: 0 pages, [], [
        cpu(0, &[], &[AllocSure(0), Free(0), AllocSure(0), Free(1)]),
        cpu(1, &[], &[AllocSure(0), Free(0), Flush]),
    ];

    /// What one frees, the other one gets as it was.
    handed_over: 0 pages, [Alloc(0), Alloc(0), Alloc(0)], [
        cpu(0, &[0, 1, 2], &[Free(0), Free(1), Free(2)]),
        cpu(1, &[], &[AllocSure(0), FlushCpu(0), Alloc(0)]),
    ];

    /// All places are objects: who wants another one finds what the other one has freed, or none.
    the_last_objects: 0 pages, [Alloc(0), Alloc(0), Alloc(0), Alloc(0)], [
        cpu(0, &[0, 1], &[Free(0), Alloc(0)]),
        cpu(1, &[2, 3], &[Free(0), Alloc(0), Alloc(0)]),
    ];
}
